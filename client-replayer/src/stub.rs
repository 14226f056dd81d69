//! How the code cache and the client share the count, and how the one calls the other.
//!
//! A call goes to [`light`] first: assembly that saves the registers and asks [`crate::due`] where to go on. Where
//! DynamoRIO itself is needed, that is [`Stub::heavy`], a clean call.

use crate::instruction::Registers;
use crate::slots::{JUMP, LOAD_RCX, PLACE_IN_RCX, STORE_RCX, Slots};
use crate::state;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::ir::{Block, Gpr, Segment};
use bugnet_dr::sys;
use std::ffi::c_void;
use std::mem::offset_of;

/// What the code cache and the client share, in thread-local slots.
#[repr(C)]
#[derive(Debug)]
pub struct Shared {
    /// Instructions up to the next thing that is due; below zero only at a block's start.
    pub left: u64,
    /// RCX of the program while instrumentation uses the register.
    rcx: u64,
    /// Where the code cache goes on behind the call, except at [`crate::site::Site::Crossing`].
    pub resume: u64,
    /// Number of the site that calls.
    pub site: u64,
    /// Address of [`light`].
    call: u64,
}

/// Bytes of the page for the clean call.
const HEAVY_BYTES: usize = 4096;
/// Bytes for which memory for [`Stub::crossing`] is taken at a time.
const PIECE: usize = 64 << 10;
/// Bytes of the stack on which [`crate::due`] runs.
const STACK: usize = 256 << 10;

/// `mov qword ptr gs:[slot], imm32`, up to the slot.
const STORE_NUMBER: &[u8] = &[0x65, 0x48, 0xc7, 0x04, 0x25];

/// The registers as [`light`] saves and restores them.
#[repr(C, align(64))]
pub struct Saved {
    ymm: [[u8; 32]; 16],
    gpr: [u64; 16],
    rflags: u64,
    /// Top of the client's stack.
    stack: u64,
    /// Where to go on.
    target: u64,
    /// The slot that has the program's RCX.
    rcx_slot: *const u64,
    /// Base of FS and GS as the program sees them; not restored from here.
    bases: [u64; 2],
}

impl Registers for Saved {
    fn flags(&self) -> u64 {
        self.rflags
    }
}

impl RegisterValues for Saved {
    fn gpr(&self, reg: Gpr) -> u64 {
        self.gpr[usize::from(reg.0 & 15)]
    }

    fn vector(&self, number: usize) -> [u8; 32] {
        self.ymm[number]
    }

    fn segment_base(&self, segment: Segment) -> u64 {
        self.bases[segment as usize]
    }
}

/// The slots, and the code by which blocks call the client.
pub struct Stub {
    slots: Slots<Shared>,
    /// The clean call, once there is a block that needs it.
    heavy: *mut sys::byte,
    /// Room for [`Self::crossing`], and how much there is of it.
    room: (*mut sys::byte, usize),
}

impl Stub {
    /// Allocates the slots.
    pub fn new() -> Result<Self, String> {
        Ok(Self { slots: Slots::new()?, heavy: std::ptr::null_mut(), room: (std::ptr::null_mut(), 0) })
    }

    /// The slots of the replayed thread; from the first block on.
    #[allow(clippy::mut_from_ref, reason = "the slots are the code cache's, which does not run while the client does")]
    pub fn shared(&self) -> &mut Shared {
        self.slots.get()
    }

    /// The address at which the clean call begins, for [`crate::due`] to go on at.
    pub fn heavy(&self) -> u64 {
        self.heavy as u64
    }

    /// Machine code of a block's start: counts `instrs` down, and jumps over the five bytes behind it if that leaves no
    /// negative number. RCX is in its slot then.
    ///
    /// Code is made here, since DynamoRIO's encoder takes most of a replay's time where much code runs only a few times.
    pub fn count_down(&self, instrs: u32) -> Vec<u8> {
        let [left, rcx] = [self.slots.at(offset_of!(Shared, left)), self.slots.at(offset_of!(Shared, rcx))];
        let minus = (instrs as i32).wrapping_neg().to_le_bytes();
        // `lea rcx, [rcx + minus]`, in its short form if that will do.
        let lea: &[u8] =
            if instrs <= 128 { &[0x48, 0x8d, 0x49, minus[0]] } else { &[&[0x48, 0x8d, 0x89][..], &minus].concat() };
        // The upper half of `left`, in the lower half of RCX by `bswap rcx`, is zero if it is not negative.
        let test: &[u8] = &[0x48, 0x0f, 0xc9, 0x67, 0xe3, 5];
        [STORE_RCX, &rcx, LOAD_RCX, &left, lea, STORE_RCX, &left, test].concat()
    }

    /// Machine code that puts RCX back.
    pub fn restore_rcx(&self) -> Vec<u8> {
        [LOAD_RCX, &self.slots.at(offset_of!(Shared, rcx))].concat()
    }

    /// Machine code that calls the client for `site`.
    pub fn call(&self, site: u32) -> Vec<u8> {
        let [rcx, resume] = [self.slots.at(offset_of!(Shared, rcx)), self.slots.at(offset_of!(Shared, resume))];
        let jump = self.jump(site);
        // Behind all of this, execution goes on.
        let behind = ((STORE_RCX.len() + resume.len() + jump.len()) as i32).to_le_bytes();
        [STORE_RCX, &rcx, PLACE_IN_RCX, &behind, STORE_RCX, &resume, &jump].concat()
    }

    /// Machine code that calls the client for `site`, RCX and perhaps the place to go on being in their slots.
    fn jump(&self, site: u32) -> Vec<u8> {
        let [number, call] = [self.slots.at(offset_of!(Shared, site)), self.slots.at(offset_of!(Shared, call))];
        [STORE_NUMBER, &number, &site.to_le_bytes(), JUMP, &call].concat()
    }

    /// Code outside of blocks that calls the client for `site`, with RCX in its slot.
    pub fn crossing(&mut self, site: u32) -> *mut sys::byte {
        let code = self.jump(site);
        if self.room.1 < code.len() {
            let prot = sys::DR_MEMPROT_READ | sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_EXEC;
            // SAFETY: asks for fresh memory in reach of the code cache; never freed.
            let room = unsafe { sys::dr_nonheap_alloc(PIECE, prot) }.cast::<sys::byte>();
            if room.is_null() {
                state::die("DynamoRIO has no memory left for code");
            }
            self.room = (room, PIECE);
        }
        let at = self.room.0;
        // SAFETY: the room has as many bytes, ours and not used yet; nobody executes them before they are returned.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), at, code.len());
            self.room = (at.add(code.len()), self.room.1 - code.len());
        }
        at
    }

    /// The registers of the program, while [`crate::due`] runs.
    pub fn saved(&self) -> &Saved {
        let saved = &raw const SAVED;
        // SAFETY: `light` has filled it before it called the client, and takes it back only behind the call.
        unsafe { &*saved }
    }

    /// Sets the base of a segment as the program sees it.
    pub fn set_segment_base(&self, segment: Segment, base: u64) {
        self.slots.set_segment_base(segment, base);
        // SAFETY: SAVED is this thread's, the only one.
        unsafe { (&raw mut SAVED.bases[segment as usize]).write(base) };
    }

    /// Finds the slots of this thread and makes the code; in the first block event.
    pub fn prepare(&mut self, context: *mut c_void) {
        if !self.slots.find() {
            return;
        }
        let shared = self.slots.get();
        // SAFETY: in the replayed thread. The code is encoded into a page of its own, which is large enough for a clean
        // call, and is not changed afterwards. The slots stay where they are.
        unsafe {
            let list = sys::instrlist_create(context);
            let block = Block::new(context, list);
            sys::dr_insert_clean_call(context, list, std::ptr::null_mut(), on_event as *mut c_void, 0, 0);
            // The clean call redirects execution and does not come back.
            block.meta(None, block.make(sys::OP_ud2, &[], &[]));
            let prot = sys::DR_MEMPROT_READ | sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_EXEC;
            let page = sys::dr_nonheap_alloc(HEAVY_BYTES, prot).cast::<sys::byte>();
            let end = sys::instrlist_encode(context, list, page, 1);
            if end.is_null() || end as usize - page as usize > HEAVY_BYTES {
                state::die("DynamoRIO's call of the client does not fit its page");
            }
            sys::instrlist_clear_and_destroy(context, list);
            self.heavy = page;
            shared.call = light() as u64;
            (&raw mut SAVED.rcx_slot).write(&raw const shared.rcx);
            let stack = Box::leak(vec![0_u128; STACK / 16].into_boxed_slice()).as_mut_ptr_range().end;
            (&raw mut SAVED.stack).write(stack as u64);
        }
    }
}

/// Called from the code cache, by way of the clean call.
unsafe extern "C" fn on_event() {
    // SAFETY: a clean call of the only thread.
    let replay = unsafe { state::replay() };
    replay.event().go_on();
}

/// Called by the assembly, with the registers saved; returns where to go on.
unsafe extern "C" fn on_light() -> u64 {
    // SAFETY: called from the code cache, like a clean call.
    let replay = unsafe { state::replay() };
    replay.called()
}

static mut SAVED: Saved = Saved {
    ymm: [[0; 32]; 16],
    gpr: [0; 16],
    rflags: 0,
    stack: 0,
    target: 0,
    rcx_slot: std::ptr::null(),
    bases: [0; 2],
};

/// Address of the assembly for this processor.
fn light() -> usize {
    if std::arch::is_x86_feature_detected!("avx") {
        bugnet_replayer_light_avx as *const () as usize
    } else {
        bugnet_replayer_light_sse as *const () as usize
    }
}

unsafe extern "C" {
    fn bugnet_replayer_light_avx();
    fn bugnet_replayer_light_sse();
}

macro_rules! light {
    ($name:literal, $save:literal, $saved:literal, $restore:literal) => {
        std::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!($name, ":"),
            "lea rcx, [rip + {saved}]",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            $save,
            ".endr",
            $saved,
            "mov [rcx + {gpr}], rax",
            "mov [rcx + {gpr} + 2*8], rdx",
            "mov [rcx + {gpr} + 3*8], rbx",
            "mov [rcx + {gpr} + 4*8], rsp",
            "mov [rcx + {gpr} + 5*8], rbp",
            "mov [rcx + {gpr} + 6*8], rsi",
            "mov [rcx + {gpr} + 7*8], rdi",
            "mov [rcx + {gpr} + 8*8], r8",
            "mov [rcx + {gpr} + 9*8], r9",
            "mov [rcx + {gpr} + 10*8], r10",
            "mov [rcx + {gpr} + 11*8], r11",
            "mov [rcx + {gpr} + 12*8], r12",
            "mov [rcx + {gpr} + 13*8], r13",
            "mov [rcx + {gpr} + 14*8], r14",
            "mov [rcx + {gpr} + 15*8], r15",
            "mov rax, [rcx + {rcx_slot}]",
            "mov rax, [rax]",
            "mov [rcx + {gpr} + 1*8], rax",
            "mov rsp, [rcx + {stack}]",
            "pushfq",
            "pop qword ptr [rcx + {rflags}]",
            "cld",
            "mov rbx, rcx",
            "call {on_light}",
            "mov rcx, rbx",
            "mov [rcx + {target}], rax",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            $restore,
            ".endr",
            "push qword ptr [rcx + {rflags}]",
            "popfq",
            "mov rax, [rcx + {gpr}]",
            "mov rdx, [rcx + {gpr} + 2*8]",
            "mov rbx, [rcx + {gpr} + 3*8]",
            "mov rsp, [rcx + {gpr} + 4*8]",
            "mov rbp, [rcx + {gpr} + 5*8]",
            "mov rsi, [rcx + {gpr} + 6*8]",
            "mov rdi, [rcx + {gpr} + 7*8]",
            "mov r8, [rcx + {gpr} + 8*8]",
            "mov r9, [rcx + {gpr} + 9*8]",
            "mov r10, [rcx + {gpr} + 10*8]",
            "mov r11, [rcx + {gpr} + 11*8]",
            "mov r12, [rcx + {gpr} + 12*8]",
            "mov r13, [rcx + {gpr} + 13*8]",
            "mov r14, [rcx + {gpr} + 14*8]",
            "mov r15, [rcx + {gpr} + 15*8]",
            "mov rcx, [rcx + {gpr} + 1*8]",
            "jmp qword ptr [rip + {saved} + {target}]",
            saved = sym SAVED,
            gpr = const offset_of!(Saved, gpr),
            rflags = const offset_of!(Saved, rflags),
            ymm = const offset_of!(Saved, ymm),
            stack = const offset_of!(Saved, stack),
            target = const offset_of!(Saved, target),
            rcx_slot = const offset_of!(Saved, rcx_slot),
            on_light = sym on_light,
        );
    };
}

light!(
    "bugnet_replayer_light_avx",
    "vmovdqa [rcx + {ymm} + \\n*32], ymm\\n",
    "vzeroupper",
    "vmovdqa ymm\\n, [rcx + {ymm} + \\n*32]"
);
light!(
    "bugnet_replayer_light_sse",
    "movdqa [rcx + {ymm} + \\n*32], xmm\\n",
    "",
    "movdqa xmm\\n, [rcx + {ymm} + \\n*32]"
);
