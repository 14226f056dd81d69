//! One instruction of the program, decoded outside of a block event.

use crate::access::{Action, classify};
use crate::ir::Instr;
use crate::sys;
use std::ffi::c_void;

/// Longest instruction in bytes.
pub const MAX_LEN: usize = 15;

unsafe extern "C" {
    /// DynamoRIO's decoder of a copied instruction, which the bindings leave out: the address behind the copy, null if
    /// it is no instruction.
    fn decode_from_copy(
        context: *mut c_void,
        copy: *mut sys::byte,
        original: *mut sys::byte,
        instr: *mut sys::instr_t,
    ) -> *mut sys::byte;
}

/// An instruction at a known address.
#[derive(Clone)]
pub struct Decoded {
    /// Length in bytes.
    pub len: u64,
    /// What is to be done with it.
    pub action: Action,
}

/// Decodes the instruction at `pc`, whose bytes (up to [`MAX_LEN`], fewer where memory ends) are given; `None` if they
/// are no instruction, or not all of one.
///
/// # Safety
/// In the thread that executes the program, which DynamoRIO has set up.
#[must_use]
pub unsafe fn decode(pc: u64, bytes: &[u8]) -> Option<Decoded> {
    // Longer than an instruction, so that the decoder stays within it whatever the bytes are.
    let mut copy = [0; 4 * MAX_LEN];
    let given = bytes.len().min(MAX_LEN);
    copy[..given].copy_from_slice(&bytes[..given]);
    // SAFETY: zeros are what `instr_init` starts from; what decoding allocates is freed at the end, and `classify` keeps
    // nothing that refers to the instruction. The decoder reads within `copy`.
    unsafe {
        let context = sys::dr_get_current_drcontext();
        let mut instr: Box<sys::instr_t> = Box::new(std::mem::zeroed());
        let instr = &raw mut *instr;
        sys::instr_init(context, instr);
        let end = decode_from_copy(context, copy.as_mut_ptr(), pc as *mut sys::byte, instr);
        let len = (end as usize).wrapping_sub(copy.as_ptr() as usize);
        let whole = !end.is_null() && len <= given;
        let decoded = whole.then(|| Decoded { len: len as u64, action: classify(Instr(instr)) });
        sys::instr_free(context, instr);
        decoded
    }
}
