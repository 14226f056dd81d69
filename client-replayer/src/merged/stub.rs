//! How the code cache calls the client in a merged replay: before each instruction that accesses memory, and before any
//! other at which something is due.

use super::state::{on_access, on_event};
use crate::state;
use bugnet_dr::ir::{Block, Gpr, Opnd, Segment, segment_base_slot};
use bugnet_dr::sys;
use std::ffi::c_void;
use std::mem::offset_of;

/// Thread-local slots, in their order.
#[repr(C)]
pub struct Slots {
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

const SLOT_COUNT: u32 = (size_of::<Slots>() / 8) as u32;
const STUB_BYTES: usize = 8192;

/// `mov gs:[slot], rcx`, `mov rcx, gs:[slot]`, `jmp gs:[slot]` and `mov rcx, number`, up to slot and number.
const STORE: &[u8] = &[0x65, 0x48, 0x89, 0x0c, 0x25];
const LOAD: &[u8] = &[0x65, 0x48, 0x8b, 0x0c, 0x25];
const JUMP: &[u8] = &[0x65, 0xff, 0x24, 0x25];
const NUMBER: &[u8] = &[0x48, 0xb9];
/// `lea rcx, [rip + distance]`, up to the distance.
const PLACE: &[u8] = &[0x48, 0x8d, 0x0d];

/// The slots, and the code by which blocks call the client.
pub struct Stub {
    segment: sys::reg_id_t,
    offset: u32,
    slots: *mut Slots,
    /// DynamoRIO's slots for the bases of FS and GS as the program sees them.
    bases: [*mut u64; 2],
}

impl Stub {
    /// Allocates the slots.
    pub fn new() -> Result<Self, String> {
        let mut segment = 0;
        let mut offset = 0;
        // SAFETY: two out parameters.
        let done = unsafe { sys::dr_raw_tls_calloc(&raw mut segment, &raw mut offset, SLOT_COUNT, 64) };
        if done == 0 {
            return Err("DynamoRIO has no thread-local slots left".into());
        }
        Ok(Self { segment, offset, slots: std::ptr::null_mut(), bases: [std::ptr::null_mut(); 2] })
    }

    /// The slots of the process's only thread; from the first block on.
    #[allow(clippy::mut_from_ref, reason = "the slots are the code cache's, which does not run while the client does")]
    pub fn slots(&self) -> &mut Slots {
        // SAFETY: set by `prepare` to the slots of the only thread; callers copy from it or store to it at once.
        unsafe { &mut *self.slots }
    }

    fn slot(&self, field: usize) -> [u8; 4] {
        (self.offset + field as u32).to_le_bytes()
    }

    /// Machine code that calls the client for the instruction at `pc`: [`on_access`] or [`on_event`].
    pub fn call(&self, pc: u64, access: bool) -> Vec<u8> {
        let target = if access { offset_of!(Slots, access) } else { offset_of!(Slots, event) };
        let [rcx, resume, pc_slot, target] =
            [offset_of!(Slots, rcx), offset_of!(Slots, resume), offset_of!(Slots, pc), target].map(|f| self.slot(f));
        // The place to go on is behind the jump: 17 bytes behind the `lea`.
        let distance = 17i32.to_le_bytes();
        let pc = pc.to_le_bytes();
        [STORE, &rcx, NUMBER, &pc, STORE, &pc_slot, PLACE, &distance, STORE, &resume, JUMP, &target].concat()
    }

    /// Machine code that calls [`on_event`] for the instruction at `pc` as long as something is due, and counts the
    /// instruction.
    pub fn check(&self, pc: u64) -> Vec<u8> {
        let [left, rcx, resume, pc_slot, event] = [
            offset_of!(Slots, left),
            offset_of!(Slots, rcx),
            offset_of!(Slots, resume),
            offset_of!(Slots, pc),
            offset_of!(Slots, event),
        ]
        .map(|f| self.slot(f));
        let pc = pc.to_le_bytes();
        // From behind the `lea` to the start.
        let start = (-48i32).to_le_bytes();
        let due: &[u8] = &[0xe3, 2, 0xeb, 43]; // jrcxz to the call; jmp to the end
        let one_less: &[u8] = &[0x48, 0x8d, 0x49, 0xff]; // lea rcx, [rcx - 1]
        let call = [NUMBER, &pc, STORE, &pc_slot, PLACE, &start, STORE, &resume, JUMP, &event].concat();
        [STORE, &rcx, LOAD, &left, due, &call, one_less, STORE, &left, LOAD, &rcx].concat()
    }

    /// Sets the base of a segment as the program sees it.
    pub fn set_segment_base(&self, segment: Segment, base: u64) {
        // SAFETY: see `prepare`; the value is only ever added to the program's own addresses.
        unsafe { self.bases[segment as usize].write(base) };
    }

    /// Finds the slots of this thread and makes the code; in the first block event.
    pub fn prepare(&mut self, context: *mut c_void) {
        if !self.slots.is_null() {
            return;
        }
        // SAFETY: in the replayed thread; the slots lie at the offset that DynamoRIO gave. The code is encoded into a
        // page of its own, which is large enough for two clean calls, and is not changed afterwards.
        unsafe {
            let base = sys::dr_get_dr_segment_base(self.segment).cast::<u8>();
            self.slots = base.add(self.offset as usize).cast();
            let prot = sys::DR_MEMPROT_READ | sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_EXEC;
            let page = sys::dr_nonheap_alloc(STUB_BYTES, prot).cast::<sys::byte>();
            let event = encode(context, page, self, on_event as *mut c_void);
            let access = encode(context, event, self, on_access as *mut c_void);
            if access as usize - page as usize > STUB_BYTES {
                state::die("DynamoRIO's call of the client does not fit its page");
            }
            (*self.slots).event = page as u64;
            (*self.slots).access = event as u64;
            self.bases = [Segment::Fs, Segment::Gs].map(|segment| match segment_base_slot(segment) {
                Some(offset) => base.add(offset as usize).cast(),
                None => state::die("DynamoRIO does not show where it keeps segment bases"),
            });
        }
    }
}

/// Writes code to `at` that restores RCX, calls `function` and goes on at the place in its slot; returns its end.
///
/// # Safety
/// In the replayed thread; there is room for a clean call.
unsafe fn encode(context: *mut c_void, at: *mut sys::byte, stub: &Stub, function: *mut c_void) -> *mut sys::byte {
    let slot = |field: usize| Opnd::tls(stub.segment, stub.offset + field as u32, 8);
    // SAFETY: a list of our own, freed at the end; the caller's promise for what is written.
    unsafe {
        let list = sys::instrlist_create(context);
        let block = Block::new(context, list);
        block.meta(None, block.load(Opnd::reg(Gpr::RCX, 8), slot(offset_of!(Slots, rcx))));
        sys::dr_insert_clean_call(context, list, std::ptr::null_mut(), function, 0, 0);
        block.meta(None, block.make(sys::OP_jmp_ind, &[], &[slot(offset_of!(Slots, resume))]));
        let end = sys::instrlist_encode(context, list, at, 1);
        if end.is_null() {
            state::die("DynamoRIO's call of the client cannot be encoded");
        }
        sys::instrlist_clear_and_destroy(context, list);
        end
    }
}
