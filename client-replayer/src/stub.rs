//! How the code cache and the client share the count, and how the one calls the other.

use crate::state;
use bugnet_dr::ir::{Block, Gpr, Instr, Opnd, Segment};
use bugnet_dr::sys;
use std::ffi::c_void;
use std::mem::offset_of;

/// Thread-local slots, in their order.
#[repr(C)]
#[derive(Debug)]
pub struct Slots {
    /// Instructions up to the next thing that is due; below zero only within a block's first instructions.
    pub left: u64,
    /// RCX of the program while instrumentation uses the register.
    rcx: u64,
    /// Where the code cache goes on after the client was called.
    resume: u64,
    /// The recorded program's address at which the client was called.
    pub pc: u64,
    /// 1 in the SLOW part of a block.
    slow: u64,
    /// Address of [`Stub::code`].
    call: u64,
}

const SLOT_COUNT: u32 = (size_of::<Slots>() / 8) as u32;
/// Length of [`Stub::check`].
const CHECK_BYTES: usize = 87;
/// Bytes of the page for [`Stub`]'s code.
const STUB_BYTES: usize = 4096;

/// The slots, and the code by which blocks call the client.
#[derive(Clone, Copy, Debug)]
pub struct Stub {
    segment: sys::reg_id_t,
    offset: u32,
    slots: *mut Slots,
    /// The code, once there is a block that needs it.
    code: *mut sys::byte,
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
        Ok(Self {
            segment,
            offset,
            slots: std::ptr::null_mut(),
            code: std::ptr::null_mut(),
            bases: [std::ptr::null_mut(); 2],
        })
    }

    /// The slots of the replayed thread; from the first block on.
    #[allow(clippy::mut_from_ref, reason = "the slots are the code cache's, which does not run while the client does")]
    pub fn slots(&self) -> &mut Slots {
        // SAFETY: set by `prepare` to the slots of the only thread; callers copy from it or store to it at once.
        unsafe { &mut *self.slots }
    }

    /// Whether execution is in the SLOW part of a block.
    pub fn slow(&self) -> bool {
        self.slots().slow != 0
    }

    /// Execution leaves the block in which the client was called.
    pub fn leave(&self) {
        self.slots().slow = 0;
    }

    fn slot(&self, field: usize, bytes: u32) -> Opnd {
        Opnd::tls(self.segment, self.offset + field as u32, bytes)
    }

    /// [`Slots::left`] as an operand.
    pub fn left(&self) -> Opnd {
        self.slot(offset_of!(Slots, left), 8)
    }

    /// The upper half of [`Slots::left`].
    pub fn left_upper(&self) -> Opnd {
        self.slot(offset_of!(Slots, left) + 4, 4)
    }

    /// The slot for RCX.
    pub fn rcx(&self) -> Opnd {
        self.slot(offset_of!(Slots, rcx), 8)
    }

    /// [`Slots::pc`] as an operand.
    pub fn pc(&self) -> Opnd {
        self.slot(offset_of!(Slots, pc), 8)
    }

    /// The slot for where to go on.
    pub fn resume(&self) -> Opnd {
        self.slot(offset_of!(Slots, resume), 8)
    }

    /// The slot that [`Self::slow`] reads, of 4 bytes.
    pub fn slow_flag(&self) -> Opnd {
        self.slot(offset_of!(Slots, slow), 4)
    }

    /// Code to jump to in order to call the client; RCX, PC and the place to go on are in their slots.
    pub fn code(&self) -> *mut sys::byte {
        self.code
    }

    /// Machine code of a CHECK for the instruction at `pc`, see [`crate::block`].
    ///
    /// It is made here, since DynamoRIO's encoder takes most of a replay's time where much code runs only a few times.
    pub fn check(&self, pc: u64) -> [u8; CHECK_BYTES] {
        /// `mov gs:[slot], rcx`, `mov rcx, gs:[slot]` and `jmp gs:[slot]`, up to the slot.
        const STORE: &[u8] = &[0x65, 0x48, 0x89, 0x0c, 0x25];
        const LOAD: &[u8] = &[0x65, 0x48, 0x8b, 0x0c, 0x25];
        const JUMP: &[u8] = &[0x65, 0xff, 0x24, 0x25];
        let slot = |field: usize| (self.offset + field as u32).to_le_bytes();
        let [left, rcx, resume, pc_slot, call] = [
            slot(offset_of!(Slots, left)),
            slot(offset_of!(Slots, rcx)),
            slot(offset_of!(Slots, resume)),
            slot(offset_of!(Slots, pc)),
            slot(offset_of!(Slots, call)),
        ];
        let pc = pc.to_le_bytes();
        let pieces: [&[u8]; 20] = [
            // 0: spill RCX; is something due?
            STORE,
            &rcx,
            LOAD,
            &left,
            // 18: jrcxz to 22; jmp to 65
            &[0xe3, 2, 0xeb, 43],
            // 22: mov rcx, pc; note it
            &[0x48, 0xb9],
            &pc,
            STORE,
            &pc_slot,
            // 41: lea rcx, [0]; note it; call the client
            &[0x48, 0x8d, 0x0d],
            &(-48i32).to_le_bytes(),
            STORE,
            &resume,
            JUMP,
            &call,
            // 65: lea rcx, [rcx - 1]; store; restore RCX
            &[0x48, 0x8d, 0x49, 0xff],
            STORE,
            &left,
            LOAD,
            &rcx,
        ];
        let mut code = [0; CHECK_BYTES];
        code.iter_mut().zip(pieces.into_iter().flatten()).for_each(|(to, from)| *to = *from);
        code
    }

    /// Sets the base of a segment as the program sees it.
    pub fn set_segment_base(&self, segment: Segment, base: u64) {
        // SAFETY: see `prepare`; the value is only ever added to the program's own addresses.
        unsafe { self.bases[segment as usize].write(base) };
    }

    /// Finds the slots of this thread and makes the code; in the first block event.
    pub fn prepare(&mut self, context: *mut c_void) {
        if !self.code.is_null() {
            return;
        }
        // SAFETY: in the replayed thread; the slots lie at the offset that DynamoRIO gave. The code is encoded into a
        // page of its own, which is large enough for a clean call, and is not changed afterwards.
        unsafe {
            let base = sys::dr_get_dr_segment_base(self.segment).cast::<u8>();
            self.slots = base.add(self.offset as usize).cast();
            let list = sys::instrlist_create(context);
            let block = Block::new(context, list);
            block.meta(None, block.load(Opnd::reg(Gpr::RCX, 8), self.rcx()));
            sys::dr_insert_clean_call(context, list, std::ptr::null_mut(), on_event as *mut c_void, 0, 0);
            block.meta(None, block.make(sys::OP_jmp_ind, &[], &[self.resume()]));
            let prot = sys::DR_MEMPROT_READ | sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_EXEC;
            let page = sys::dr_nonheap_alloc(STUB_BYTES, prot).cast::<sys::byte>();
            let end = sys::instrlist_encode(context, list, page, 1);
            if end.is_null() || end as usize - page as usize > STUB_BYTES {
                state::die("DynamoRIO's call of the client does not fit its page");
            }
            sys::instrlist_clear_and_destroy(context, list);
            self.code = page;
            (*self.slots).call = page as u64;
            self.bases = [Segment::Fs, Segment::Gs].map(|segment| base.add(base_offset(context, segment)).cast());
        }
    }
}

/// Where DynamoRIO keeps the base of FS or GS as the program sees it, from its own segment's base on.
///
/// It rewrites each of the program's operands that use these segments to read the base there. It has no function to set
/// a base (and executing `arch_prctl` for GS fails with version 11.90), so the place is taken from the code that it
/// makes to read a base.
fn base_offset(context: *mut c_void, segment: Segment) -> usize {
    // SAFETY: a list of our own, freed at the end; nothing taken from it is used afterwards.
    let found = unsafe {
        let list = sys::instrlist_create(context);
        let block = Block::new(context, list);
        block.insert_segment_base(None, segment, Gpr::RAX);
        let load = sys::instrlist_last(list);
        let found = (!load.is_null()).then_some(Instr(load)).and_then(|load| load.srcs().find_map(Opnd::parts));
        sys::instrlist_clear_and_destroy(context, list);
        found
    };
    match found.map(|parts| usize::try_from(parts.disp)) {
        Some(Ok(offset)) => offset,
        _ => state::die("DynamoRIO does not show where it keeps segment bases"),
    }
}

/// Called from the code cache, by way of [`Stub`]'s code.
unsafe extern "C" fn on_event() {
    // SAFETY: a clean call of the only thread.
    let replay = unsafe { state::replay() };
    replay.event().go_on();
}
