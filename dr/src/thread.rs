//! A thread, as DynamoRIO has it: its context, and words of its own that instrumented code finds.

use crate::context::Machine;
use crate::ir::{Opnd, Segment, segment_base_slot};
use crate::sys;
use std::ffi::c_void;

/// Words of raw thread-local storage, at the same distance from a segment's base in each thread.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    segment: sys::reg_id_t,
    offset: u32,
}

impl Slots {
    /// For tests of code that names slots and is not executed: at this offset.
    #[must_use]
    pub fn pretended(offset: u32) -> Self {
        Self { segment: 0, offset }
    }

    /// Takes so many, the first of them at a multiple of `alignment` bytes, if that is not 0; `None` if there are not so many left.
    #[must_use]
    pub fn take(count: u32, alignment: u32) -> Option<Self> {
        let (mut segment, mut offset) = (0, 0);
        // SAFETY: the pointers are to variables of ours.
        let done = unsafe { sys::dr_raw_tls_calloc(&raw mut segment, &raw mut offset, count, alignment) };
        (done != 0).then_some(Self { segment, offset })
    }

    /// Offset of the first one from the segment's base.
    #[must_use]
    pub fn offset(self) -> u32 {
        self.offset
    }

    /// So many bytes at an offset from the segment's base, as an operand.
    #[must_use]
    pub fn opnd(self, offset: u32, bytes: u32) -> Opnd {
        Opnd::tls(self.segment, offset, bytes)
    }

    /// The segment's base in the calling thread. Takes a system call.
    #[must_use]
    pub fn base(self) -> *mut u8 {
        // SAFETY: asks for a number.
        unsafe { sys::dr_get_dr_segment_base(self.segment).cast() }
    }

    /// The calling thread's word in which DynamoRIO keeps the base of the program's FS or GS; `None` if it does not show where that is.
    #[must_use]
    pub fn base_of(self, segment: Segment) -> Option<*mut u64> {
        // DynamoRIO's own slots lie at the same base as those of its clients.
        Some(self.base().wrapping_add(segment_base_slot(segment)? as usize).cast())
    }
}

/// What a client has put into a thread's context.
///
/// # Safety
/// A context of DynamoRIO's that it has not freed.
#[must_use]
pub unsafe fn field(context: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_get_tls_field(context) }
}

/// Puts something there.
///
/// # Safety
/// As for [`field`].
pub unsafe fn set_field(context: *mut c_void, value: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_set_tls_field(context, value) };
}

/// Whether DynamoRIO may suspend the calling thread, which is in a callout, from here on.
///
/// # Safety
/// The calling thread's context. While it may: it holds no lock of DynamoRIO's, nor one that somebody waits for who cannot be suspended.
pub unsafe fn let_suspend(context: *mut c_void, yes: bool) {
    // SAFETY: the caller's promise.
    unsafe { sys::dr_mark_safe_to_suspend(context, yes.into()) };
}

/// The base of the program's FS or GS in the calling thread.
#[must_use]
pub fn segment_base(segment: Segment) -> u64 {
    let null = sys::DR_REG_NULL as sys::reg_id_t;
    let id = match segment {
        Segment::Fs => sys::DR_SEG_FS,
        Segment::Gs => sys::DR_SEG_GS,
    };
    let mut machine = Machine::empty();
    // SAFETY: makes an operand and asks for its address; no register takes part in it.
    unsafe {
        let opnd = sys::opnd_create_far_base_disp(id as sys::reg_id_t, null, null, 0, 0, sys::OPSZ_8 as u8);
        sys::opnd_compute_address(opnd, machine.raw()) as u64
    }
}
