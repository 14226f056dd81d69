//! What a thread does about an instruction that reads and changes memory which another process may change, too.

use crate::base::memory::read_memory;
use crate::base::slots::Slot;
use crate::emitted::exchange::{Operand, Routine, compare_exchange};
use crate::picture::shared_code::SHARED;
use crate::run::thread::Thread;
use bugnet_dr::access::Access;
use bugnet_format::picture::Picture;
use bugnet_format::types::Addr;

impl Thread {
    /// In place of such an instruction, if its memory is shared: sets [`Slot::Outcome`] to whether it is done.
    pub(super) fn exchange(&mut self, position: u64, access: &Access, routine: Routine) {
        let done = self.recording() && self.try_exchange(position, access, routine);
        // SAFETY: the calling thread's own slot.
        unsafe { *Slot::Outcome.address() = done.into() };
    }

    fn try_exchange(&mut self, position: u64, access: &Access, routine: Routine) -> bool {
        let Some(address) = access.address(self) else { return false };
        let bytes = access.bytes as usize;
        let (mut old, mut picture) = (Operand::default(), Operand::default());
        let aligned = bytes < old.0.len() || address.is_multiple_of(bytes as u64);
        if !aligned || !SHARED.get().writable(address, bytes as u64) {
            return false;
        }
        self.picture.shadow.read(Addr(address), &mut picture.0[..bytes]);
        let (gpr, rflags, new) = loop {
            if !read_memory(address, &mut old.0[..bytes]) {
                return false;
            }
            let (mut gpr, mut rflags, mut new) = (self.callouts.saved.gpr, self.callouts.saved.rflags, old);
            routine.run(&mut gpr, &mut rflags, &mut new);
            // SAFETY: memory of the program's that it may write to, as just seen, with 16 bytes aligned.
            if unsafe { compare_exchange(address, bytes, &old, &new) } {
                break (gpr, rflags, new);
            }
        };
        if old != picture {
            self.load(position, 0, 0, &old.0[..bytes]);
        }
        self.picture.shadow.write(Addr(address), &new.0[..bytes]);
        (self.callouts.saved.gpr, self.callouts.saved.rflags) = (gpr, rflags);
        true
    }
}
