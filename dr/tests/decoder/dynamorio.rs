//! DynamoRIO's decoder outside of DynamoRIO.

use bugnet_dr::ir::Instr;
use bugnet_dr::sys;
use std::ffi::c_void;

unsafe extern "C" {
    fn decode_from_copy(
        context: *mut c_void,
        copy: *mut sys::byte,
        original: *mut sys::byte,
        instr: *mut sys::instr_t,
    ) -> *mut sys::byte;
}

pub struct Decoder {
    context: *mut c_void,
    instr: Box<sys::instr_t>,
    /// The decoded bytes, which the instruction refers to.
    copy: Box<[u8; 64]>,
}

impl Decoder {
    /// At most one at a time.
    pub fn new() -> Self {
        // SAFETY: nothing else of DynamoRIO is in use; zeros are what `instr_init` starts from.
        unsafe {
            let context = sys::dr_standalone_init();
            assert!(!context.is_null(), "DynamoRIO's standalone mode failed");
            let mut instr: Box<sys::instr_t> = Box::new(std::mem::zeroed());
            sys::instr_init(context, &raw mut *instr);
            Self { context, instr, copy: Box::new([0; 64]) }
        }
    }

    /// The instruction at `pc` with these bytes, and its length; valid until the next call.
    pub fn decode(&mut self, pc: u64, bytes: &[u8]) -> Option<(Instr, usize)> {
        self.copy.fill(0);
        self.copy[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the instruction was initialised; the decoder reads less than 64 bytes.
        unsafe {
            let instr = &raw mut *self.instr;
            sys::instr_reset(self.context, instr);
            let end = decode_from_copy(self.context, self.copy.as_mut_ptr(), pc as *mut sys::byte, instr);
            let valid = !end.is_null() && sys::instr_get_opcode(instr) as u32 != sys::OP_INVALID;
            valid.then(|| (Instr(instr), end as usize - self.copy.as_ptr() as usize))
        }
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: undoes what `new` did.
        unsafe {
            sys::instr_free(self.context, &raw mut *self.instr);
            sys::dr_standalone_exit();
        }
    }
}
