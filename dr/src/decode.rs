//! One instruction of the program, decoded outside of a block event.

use crate::access::{Action, classify};
use crate::ir::Instr;
use crate::liveness::effects;
use crate::sys;
use std::ffi::c_void;

/// Longest instruction in bytes.
pub const MAX_LEN: usize = 15;

unsafe extern "C" {
    /// DynamoRIO's decoder of a copied instruction, which the bindings leave out: the address behind the copy, null if
    /// it is no instruction.
    pub(crate) fn decode_from_copy(
        context: *mut c_void,
        copy: *mut sys::byte,
        original: *mut sys::byte,
        instr: *mut sys::instr_t,
    ) -> *mut sys::byte;
    /// The length of the instruction at an address.
    fn decode_sizeof(context: *mut c_void, pc: *mut sys::byte, prefixes: *mut i32, relative_at: *mut u32) -> i32;
}

/// The length in bytes of the instruction at `pc`, found much faster than by decoding all of it; `None` where that may be wrong.
///
/// # Safety
/// An instruction is there that DynamoRIO knows, and [`MAX_LEN`] bytes can be read.
#[must_use]
pub unsafe fn length_at(pc: *const u8) -> Option<usize> {
    // SAFETY: the caller's promise.
    let code = unsafe { pc.cast::<[u8; MAX_LEN]>().read() };
    let prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let prefixes = code.iter().take_while(|byte| prefix(byte)).count();
    let known = match code[prefixes..] {
        // The second form of `test` with a constant.
        [0xf6 | 0xf7, modrm, ..] => modrm >> 3 & 7 != 1,
        // `extrq`, `ud0`
        [0x0f, 0x78 | 0xff, ..] => false,
        [0xeb, ..] => prefixes == 0,
        _ => true,
    };
    // The context that stands for that of the calling thread.
    let any = usize::MAX as *mut c_void;
    // SAFETY: the caller's promise; the null pointers ask for nothing more.
    let length = unsafe { decode_sizeof(any, pc.cast_mut(), std::ptr::null_mut(), std::ptr::null_mut()) };
    usize::try_from(length).ok().filter(|length| known && *length > 0)
}

/// An instruction at a known address.
#[derive(Clone)]
pub struct Decoded {
    /// Length in bytes.
    pub len: u64,
    /// What is to be done with it.
    pub action: Action,
    /// Whether it transfers control.
    pub is_cti: bool,
    /// Arithmetic flags that it overwrites, whatever happens; bits of [`crate::ir::ARITHMETIC`].
    pub overwritten_flags: u32,
}

/// Bytes of a copy to decode: longer than an instruction, so that the decoder stays within it whatever the bytes are.
const COPY: usize = 4 * MAX_LEN;

/// DynamoRIO's decoder, with room for one instruction.
pub struct Decoder {
    context: *mut c_void,
    instr: Box<sys::instr_t>,
    /// The decoded bytes, which the instruction refers to.
    copy: Box<[u8; COPY]>,
}

impl Decoder {
    /// A decoder that allocates from `context`.
    ///
    /// # Safety
    /// The context is DynamoRIO's of the calling thread, or of its standalone mode, and outlives the decoder.
    #[must_use]
    pub unsafe fn new(context: *mut c_void) -> Self {
        // SAFETY: zeros are what `instr_init` starts from.
        let mut instr: Box<sys::instr_t> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: the caller's promise, and an instruction of ours.
        unsafe { sys::instr_init(context, &raw mut *instr) };
        Self { context, instr, copy: Box::new([0; COPY]) }
    }

    /// The instruction at `pc` whose bytes (up to [`MAX_LEN`] count) are given, and its length; `None` if they are no
    /// instruction, or not all of one. Valid until the next call.
    pub fn decode(&mut self, pc: u64, bytes: &[u8]) -> Option<(Instr, usize)> {
        let given = bytes.len().min(MAX_LEN);
        self.copy.fill(0);
        self.copy[..given].copy_from_slice(&bytes[..given]);
        let instr = &raw mut *self.instr;
        // SAFETY: the instruction was initialised; the decoder reads within the copy.
        let (end, opcode) = unsafe {
            sys::instr_reset(self.context, instr);
            let end = decode_from_copy(self.context, self.copy.as_mut_ptr(), pc as *mut sys::byte, instr);
            (end, sys::instr_get_opcode(instr) as u32)
        };
        let len = (end as usize).wrapping_sub(self.copy.as_ptr() as usize);
        let whole = !end.is_null() && len <= given && opcode != sys::OP_INVALID;
        whole.then_some((Instr(instr), len))
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: what decoding has allocated.
        unsafe { sys::instr_free(self.context, &raw mut *self.instr) };
    }
}

/// Decodes the instruction at `pc`, whose bytes (up to [`MAX_LEN`], fewer where memory ends) are given; `None` if they
/// are no instruction, or not all of one.
///
/// # Safety
/// In the thread that executes the program, which DynamoRIO has set up.
#[must_use]
pub unsafe fn decode(pc: u64, bytes: &[u8]) -> Option<Decoded> {
    // SAFETY: the calling thread's context; `classify` keeps nothing that refers to the instruction.
    let mut decoder = unsafe { Decoder::new(sys::dr_get_current_drcontext()) };
    let (instr, len) = decoder.decode(pc, bytes)?;
    let overwritten_flags = effects(instr).overwritten.flags;
    Some(Decoded { len: len as u64, action: classify(instr), is_cti: instr.is_cti(), overwritten_flags })
}
