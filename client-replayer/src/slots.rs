//! Thread-local slots that the code cache and the client share, at fixed distances from GS.

use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::{Opnd, Segment};
use bugnet_dr::thread as dr_thread;
use std::marker::PhantomData;

use crate::state;

/// Up to the slot; so are the others.
pub const STORE_RCX: Assembled = assembled!("mov gs:[{u32}], rcx"; 4);
/// See [`STORE_RCX`].
pub const LOAD_RCX: Assembled = assembled!("mov rcx, gs:[{u32}]"; 4);
/// See [`STORE_RCX`].
pub const STORE_R11: Assembled = assembled!("mov gs:[{u32}], r11"; 4);
/// See [`STORE_RCX`].
pub const LOAD_R11: Assembled = assembled!("mov r11, gs:[{u32}]"; 4);
/// See [`STORE_RCX`].
pub const JUMP: Assembled = assembled!("jmp qword ptr gs:[{u32}]"; 4);
/// Up to the distance, which counts from its end.
pub const PLACE_IN_RCX: Assembled = assembled!("lea rcx, [rip + {u32}]"; 4);

/// The slots of the replayed thread: a `T` of 8-byte fields, and the bases of FS and GS as the program sees them, which
/// DynamoRIO keeps in slots of its own.
pub struct Slots<T> {
    taken: dr_thread::Slots,
    own: *mut T,
    bases: [*mut u64; 2],
    fields: PhantomData<T>,
}

impl<T> Slots<T> {
    /// Allocates the slots.
    pub fn new() -> Result<Self, String> {
        let count = const { (size_of::<T>() / 8) as u32 };
        let taken = dr_thread::Slots::take(count, 64).ok_or("DynamoRIO has no thread-local slots left")?;
        Ok(Self { taken, own: std::ptr::null_mut(), bases: [std::ptr::null_mut(); 2], fields: PhantomData })
    }

    /// Finds this thread's slots, in the first block event; whether this was the first.
    pub fn find(&mut self) -> bool {
        if !self.own.is_null() {
            return false;
        }
        // DynamoRIO rewrites each of the program's operands that use these segments to read the base from a slot. It has
        // no function to set a base, and executing `arch_prctl` for GS fails with version 11.90.
        self.bases = [Segment::Fs, Segment::Gs].map(|segment| {
            let base = self.taken.base_of(segment);
            base.unwrap_or_else(|| state::die("DynamoRIO does not show where it keeps segment bases"))
        });
        self.own = self.taken.base().wrapping_add(self.taken.offset() as usize).cast();
        true
    }

    /// The fields; from the first block on.
    #[allow(clippy::mut_from_ref, reason = "the slots are the code cache's, which does not run while the client does")]
    pub fn get(&self) -> &mut T {
        // SAFETY: set by `find` to the slots of the only thread; callers copy from it or store to it at once.
        unsafe { &mut *self.own }
    }

    /// The distance from GS of the field at `offset` in `T`, as an instruction holds it.
    pub fn at(&self, offset: usize) -> [u8; 4] {
        (self.taken.offset() + offset as u32).to_le_bytes()
    }

    /// The field of 8 bytes at `offset` in `T` as an operand.
    pub fn operand(&self, offset: usize) -> Opnd {
        self.taken.opnd(self.taken.offset() + offset as u32, 8)
    }

    /// The distance from GS of the base of a segment as the program sees it, as an instruction holds it.
    pub fn segment_base(&self, segment: Segment) -> [u8; 4] {
        let own = self.own as u64 - u64::from(self.taken.offset());
        ((self.bases[segment as usize] as u64 - own) as u32).to_le_bytes()
    }

    /// Sets the base of a segment as the program sees it.
    pub fn set_segment_base(&self, segment: Segment, base: u64) {
        // SAFETY: see `find`; the value is only ever added to the program's own addresses.
        unsafe { self.bases[segment as usize].write(base) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(STORE_RCX.bytes(), [0x65, 0x48, 0x89, 0x0c, 0x25]);
        assert_eq!(LOAD_RCX.bytes(), [0x65, 0x48, 0x8b, 0x0c, 0x25]);
        assert_eq!(STORE_R11.bytes(), [0x65, 0x4c, 0x89, 0x1c, 0x25]);
        assert_eq!(LOAD_R11.bytes(), [0x65, 0x4c, 0x8b, 0x1c, 0x25]);
        assert_eq!(JUMP.bytes(), [0x65, 0xff, 0x24, 0x25]);
        assert_eq!(PLACE_IN_RCX.bytes(), [0x48, 0x8d, 0x0d]);
    }
}
