//! How the code cache calls the client in a merged replay: before each instruction that accesses memory, and before any
//! other at which something is due.

use super::state::{on_access, on_event};
use crate::slots::{JUMP, LOAD_RCX, PLACE_IN_RCX, STORE_RCX, Slots};
use crate::state;
use bugnet_dr::ir::{Block, Gpr, Opnd, Segment};
use bugnet_dr::sys;
use std::ffi::c_void;
use std::mem::offset_of;

/// What the code cache and the client share, in thread-local slots.
#[repr(C)]
pub struct Shared {
    /// Instructions up to the next thing that is due.
    pub left: u64,
    /// RCX of the program while instrumentation uses the register.
    rcx: u64,
    /// Where the code cache goes on after the client was called.
    resume: u64,
    /// The recorded program's address at which the client was called.
    pub pc: u64,
    /// Address of the code that calls [`on_event`].
    event: u64,
    /// Address of the code that calls [`on_access`].
    access: u64,
}

const STUB_BYTES: usize = 8192;

/// `mov rcx, number`, up to the number.
const NUMBER: &[u8] = &[0x48, 0xb9];

/// The slots, and the code by which blocks call the client.
pub struct Stub {
    slots: Slots<Shared>,
}

impl Stub {
    /// Allocates the slots.
    pub fn new() -> Result<Self, String> {
        Ok(Self { slots: Slots::new()? })
    }

    /// The slots of the process's only thread; from the first block on.
    #[allow(clippy::mut_from_ref, reason = "the slots are the code cache's, which does not run while the client does")]
    pub fn shared(&self) -> &mut Shared {
        self.slots.get()
    }

    /// Machine code that calls the client for the instruction at `pc`: [`on_access`] or [`on_event`].
    pub fn call(&self, pc: u64, access: bool) -> Vec<u8> {
        let target = if access { offset_of!(Shared, access) } else { offset_of!(Shared, event) };
        let [rcx, resume, pc_slot, target] =
            [offset_of!(Shared, rcx), offset_of!(Shared, resume), offset_of!(Shared, pc), target]
                .map(|f| self.slots.at(f));
        // The place to go on is behind the jump: 17 bytes behind the `lea`.
        let distance = 17i32.to_le_bytes();
        let pc = pc.to_le_bytes();
        [STORE_RCX, &rcx, NUMBER, &pc, STORE_RCX, &pc_slot, PLACE_IN_RCX, &distance, STORE_RCX, &resume, JUMP, &target]
            .concat()
    }

    /// Machine code that calls [`on_event`] for the instruction at `pc` as long as something is due, and counts the
    /// instruction.
    pub fn check(&self, pc: u64) -> Vec<u8> {
        let [left, rcx, resume, pc_slot, event] = [
            offset_of!(Shared, left),
            offset_of!(Shared, rcx),
            offset_of!(Shared, resume),
            offset_of!(Shared, pc),
            offset_of!(Shared, event),
        ]
        .map(|f| self.slots.at(f));
        let pc = pc.to_le_bytes();
        // From behind the `lea` to the start.
        let start = (-48i32).to_le_bytes();
        let due: &[u8] = &[0xe3, 2, 0xeb, 43]; // jrcxz to the call; jmp to the end
        let one_less: &[u8] = &[0x48, 0x8d, 0x49, 0xff]; // lea rcx, [rcx - 1]
        let call = [NUMBER, &pc, STORE_RCX, &pc_slot, PLACE_IN_RCX, &start, STORE_RCX, &resume, JUMP, &event].concat();
        [STORE_RCX, &rcx, LOAD_RCX, &left, due, &call, one_less, STORE_RCX, &left, LOAD_RCX, &rcx].concat()
    }

    /// Sets the base of a segment as the program sees it.
    pub fn set_segment_base(&self, segment: Segment, base: u64) {
        self.slots.set_segment_base(segment, base);
    }

    /// Finds the slots of this thread and makes the code; in the first block event.
    pub fn prepare(&mut self, context: *mut c_void) {
        if !self.slots.find() {
            return;
        }
        // SAFETY: in the replayed thread. The code is encoded into a page of its own, which is large enough for two
        // clean calls, and is not changed afterwards.
        unsafe {
            let prot = sys::DR_MEMPROT_READ | sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_EXEC;
            let page = sys::dr_nonheap_alloc(STUB_BYTES, prot).cast::<sys::byte>();
            let event = encode(context, page, &self.slots, on_event as *mut c_void);
            let access = encode(context, event, &self.slots, on_access as *mut c_void);
            if access as usize - page as usize > STUB_BYTES {
                state::die("DynamoRIO's call of the client does not fit its page");
            }
            let shared = self.slots.get();
            (shared.event, shared.access) = (page as u64, event as u64);
        }
    }
}

/// Writes code to `at` that restores RCX, calls `function` and goes on at the place in its slot; returns its end.
///
/// # Safety
/// In the replayed thread; there is room for a clean call.
unsafe fn encode(
    context: *mut c_void,
    at: *mut sys::byte,
    slots: &Slots<Shared>,
    function: *mut c_void,
) -> *mut sys::byte {
    // SAFETY: a list of our own, freed at the end; the caller's promise for what is written.
    unsafe {
        let list = sys::instrlist_create(context);
        let block = Block::new(context, list);
        block.meta(None, block.load(Opnd::reg(Gpr::RCX, 8), slots.operand(offset_of!(Shared, rcx))));
        sys::dr_insert_clean_call(context, list, std::ptr::null_mut(), function, 0, 0);
        block.meta(None, block.make(sys::OP_jmp_ind, &[], &[slots.operand(offset_of!(Shared, resume))]));
        let end = sys::instrlist_encode(context, list, at, 1);
        if end.is_null() {
            state::die("DynamoRIO's call of the client cannot be encoded");
        }
        sys::instrlist_clear_and_destroy(context, list);
        end
    }
}
