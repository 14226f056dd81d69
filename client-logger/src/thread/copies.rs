//! Copies out of memory that another process may change meanwhile.

use super::Thread;
use crate::code::read_memory;
use crate::process;
use crate::writer::CHUNK;
use bugnet_dr::access::RepString;
use bugnet_dr::ir::Gpr;
use bugnet_dr::sys;
use bugnet_format::cache::{Picture, check_load};
use bugnet_format::types::Addr;

impl Thread {
    /// In place of a `rep movs` from memory that another process may change meanwhile, `len` bytes from `from` on: what is
    /// read once is logged and copied, and nothing is left for the instruction to do. `false` if it is to do it itself.
    pub(super) fn copy_shared(&mut self, position: u64, op: RepString, from: u64, len: u64) -> bool {
        const MOST: u64 = 16 << 20;
        if len == 0 || len > MOST || !process::get().shared.overlap(from, len) {
            return false;
        }
        let (count, _, rdi, down) = self.repeat;
        let (to, _) = self.repeat_range(op, rdi, count);
        let mut bytes = vec![0; len as usize];
        if from.abs_diff(to) < len || !read_memory(from, &mut bytes) {
            return false;
        }
        let mut written = 0;
        // SAFETY: DynamoRIO's safe write catches faults at the target, where the program itself would write next.
        let done = unsafe { sys::dr_safe_write(to as *mut _, bytes.len(), bytes.as_ptr().cast(), &raw mut written) };
        if done == 0 || written != bytes.len() {
            return false;
        }
        let mut shadow = self.shadow;
        for (at, piece) in (0..).step_by(CHUNK).zip(bytes.chunks(CHUNK)) {
            check_load(&mut shadow, Addr(from + at), piece, |offset, bytes| {
                self.load(position, 0, at + offset as u64, bytes);
            });
        }
        shadow.write(Addr(to), &bytes);
        for reg in [Gpr::RSI, Gpr::RDI] {
            let value = &mut self.saved.gpr[usize::from(reg.0)];
            *value = if down { value.wrapping_sub(len) } else { value.wrapping_add(len) };
        }
        self.saved.gpr[usize::from(Gpr::RCX.0)] = 0;
        self.repeat.0 = 0;
        true
    }
}
