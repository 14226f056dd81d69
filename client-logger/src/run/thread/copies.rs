//! Copies out of memory that another process may change meanwhile.

use super::Thread;
use crate::base::memory::{read_memory, write_memory};
use crate::base::slots::Slot;
use crate::log::writer::CHUNK;
use crate::picture::shared_code::SHARED;
use bugnet_dr::access::{Access, RepString};
use bugnet_dr::ir::Gpr;
use bugnet_format::picture::{Picture, check_load};
use bugnet_format::record::Record;
use bugnet_format::types::Addr;

/// Bytes of a `MEMORY` record, at most, that says what stands where another process may store.
const PIECE: usize = 512;

impl Thread {
    /// Before a store: [`Slot::Outcome`] says whether other processes may store there.
    pub(in crate::run) fn shared_address(&mut self, access: &Access) {
        let range = access.address(self).map(|address| (address, access.bytes));
        let shared = range.filter(|(address, bytes)| SHARED.get().overlap(*address, (*bytes).into()));
        let logged = shared.is_some() && self.recording();
        self.begun.pending = shared.into_iter().collect();
        // SAFETY: the calling thread's own slot.
        unsafe { *Slot::Outcome.address() = logged.into() };
    }

    /// Behind it: the picture has what was found there.
    pub(in crate::run) fn shared_stored(&mut self, position: u64) {
        for (address, len) in std::mem::take(&mut self.begun.pending) {
            self.log_picture(position + 1, address, len.into());
        }
    }

    /// The picture takes what is in memory, where the instruction at `position` has stored. If another process may store there,
    /// too, it may be what that has stored.
    pub(in crate::run) fn mirror_stored(&mut self, position: u64, address: u64, len: u64) {
        self.mirror(address, len);
        if len > 0 && SHARED.get().overlap(address, len) {
            self.log_picture(position + 1, address, len);
        }
    }

    /// The picture of a range becomes that of another one, from which it was copied.
    pub(in crate::run) fn mirror_copy(&mut self, from: u64, to: u64, len: u64) {
        let (mut shadow, mut bytes) = (self.picture.shadow, [0; PIECE]);
        for at in (0..len).step_by(PIECE) {
            let piece = &mut bytes[..(len - at).min(PIECE as u64) as usize];
            shadow.read(Addr(from + at), piece);
            shadow.write(Addr(to + at), piece);
        }
    }

    /// Logs what the picture has.
    fn log_picture(&mut self, position: u64, address: u64, len: u64) {
        let (mut shadow, mut bytes) = (self.picture.shadow, [0; PIECE]);
        for at in (0..len).step_by(PIECE) {
            let piece = &mut bytes[..(len - at).min(PIECE as u64) as usize];
            shadow.read(Addr(address + at), piece);
            self.record(position, |delta| Record::Memory { delta, addr: Addr(address + at), bytes: piece });
        }
    }

    /// In place of a `rep movs` from memory that another process may change meanwhile, `len` bytes from `from` on: what is
    /// read once is logged and copied, and nothing is left for the instruction to do. `false` if it is to do it itself.
    pub(in crate::run) fn copy_shared(&mut self, position: u64, op: RepString, from: u64, len: u64) -> bool {
        const MOST: u64 = 16 << 20;
        if len == 0 || len > MOST || !SHARED.get().overlap(from, len) {
            return false;
        }
        let (count, _, rdi, down) = self.begun.repeat;
        let (to, _) = self.repeat_range(op, rdi, count);
        let mut bytes = vec![0; len as usize];
        if from.abs_diff(to) < len || !read_memory(from, &mut bytes) {
            return false;
        }
        // Where not all of it can be written, the program itself comes as far next.
        if !write_memory(to, &bytes) {
            return false;
        }
        let mut shadow = self.picture.shadow;
        for (at, piece) in (0..).step_by(CHUNK).zip(bytes.chunks(CHUNK)) {
            check_load(&mut shadow, Addr(from + at), piece, |offset, bytes| {
                self.load(position, 0, at + offset as u64, bytes);
            });
        }
        shadow.write(Addr(to), &bytes);
        for reg in [Gpr::RSI, Gpr::RDI] {
            let value = &mut self.callouts.saved.gpr[usize::from(reg.0)];
            *value = if down { value.wrapping_sub(len) } else { value.wrapping_add(len) };
        }
        self.callouts.saved.gpr[usize::from(Gpr::RCX.0)] = 0;
        self.begun.repeat.0 = 0;
        true
    }
}
