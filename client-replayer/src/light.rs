//! Calls of the client from the code cache that cost little: assembly that saves the registers, and asks a function of the
//! client where to go on.
//!
//! While the alignment check is on, neither the client nor DynamoRIO's clean call can run: compilers take it for granted
//! that data need not be aligned.

use crate::instruction::Registers;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_format::regs::ALIGNMENT_CHECK;
use std::mem::offset_of;

/// Bytes of the stack on which the client runs.
const STACK: usize = 256 << 10;

/// The direction flag.
const DIRECTION: u64 = 0x400;

/// Called with the registers saved; returns the address in the code cache, or of other code there, to go on at.
pub type Handler = unsafe extern "C" fn() -> u64;

/// The registers as the assembly saves and restores them.
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
    /// What is called.
    handler: Option<Handler>,
    /// Base of FS and GS as the program sees them; not restored from here.
    bases: [u64; 2],
    /// The alignment check, where [`hide_alignment_check`] took it away.
    hidden: u64,
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

static mut SAVED: Saved = Saved {
    ymm: [[0; 32]; 16],
    gpr: [0; 16],
    rflags: 0,
    stack: 0,
    target: 0,
    rcx_slot: std::ptr::null(),
    handler: None,
    bases: [0; 2],
    hidden: 0,
};

/// Prepares for calls of `handler`.
///
/// # Safety
/// In the replayed thread. The slot, of which the code cache makes the program's RCX before it calls, stays where it is.
pub unsafe fn prepare(rcx_slot: *const u64, handler: Handler) {
    let stack = Box::leak(vec![0_u128; STACK / 16].into_boxed_slice()).as_mut_ptr_range().end;
    // SAFETY: SAVED is this thread's, the only one that uses it.
    unsafe {
        (&raw mut SAVED.rcx_slot).write(rcx_slot);
        (&raw mut SAVED.handler).write(Some(handler));
        (&raw mut SAVED.stack).write(stack as u64);
    }
}

/// The registers of the program at the last call, as long as it has not gone on.
pub fn saved() -> &'static Saved {
    let saved = &raw const SAVED;
    // SAFETY: the assembly has filled it before it called the client, and takes it back only behind the call; what else
    // writes to it does not do so while a reference is used, being called in between by the only thread.
    unsafe { &*saved }
}

/// Gives a general purpose register another value; the one that it had.
pub fn exchange(reg: Gpr, value: u64) -> u64 {
    // SAFETY: SAVED is this thread's, the only one; there are 16 registers.
    unsafe { (&raw mut SAVED.gpr[usize::from(reg.0 & 15)]).replace(value) }
}

/// The call goes on to a clean call, during which the alignment check must be off.
pub fn hide_alignment_check() {
    // SAFETY: SAVED is this thread's, the only one.
    unsafe {
        let rflags = &raw mut SAVED.rflags;
        (&raw mut SAVED.hidden).write(rflags.read() & ALIGNMENT_CHECK);
        rflags.write(rflags.read() & !ALIGNMENT_CHECK);
    }
}

/// What the clean call was not to see: [`ALIGNMENT_CHECK`], or nothing.
pub fn hidden_flags() -> u64 {
    saved().hidden
}

/// Sets the base of a segment as the program sees it.
pub fn set_segment_base(segment: Segment, base: u64) {
    // SAFETY: SAVED is this thread's, the only one.
    unsafe { (&raw mut SAVED.bases[segment as usize]).write(base) };
}

/// Address of the assembly for this processor.
pub fn address() -> u64 {
    if std::arch::is_x86_feature_detected!("avx") {
        bugnet_replayer_light_avx as *const () as u64
    } else {
        bugnet_replayer_light_sse as *const () as u64
    }
}

unsafe extern "C" {
    fn bugnet_replayer_light_avx();
    fn bugnet_replayer_light_sse();
}

macro_rules! light {
    ($name:literal, $save:literal, $saved:literal, $restore:expr) => {
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
            "test dword ptr [rcx + {rflags}], {alignment_check}",
            "jz 2f",
            "push 2",
            "popfq",
            "2:",
            "mov rbx, rcx",
            "call [rcx + {handler}]",
            "mov rcx, rbx",
            "mov [rcx + {target}], rax",
            $restore,
            // `popfq` takes long. Without it, OF comes from an addition that overflows, the others by `sahf`.
            "mov rax, [rcx + {rflags}]",
            "test eax, {rare}",
            "jnz 3f",
            "bt eax, 11",
            "mov ah, al",
            "setc al",
            "add al, 0x7f",
            "sahf",
            "4:",
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
            "3:",
            "push qword ptr [rcx + {rflags}]",
            "popfq",
            "jmp 4b",
            saved = sym SAVED,
            gpr = const offset_of!(Saved, gpr),
            rflags = const offset_of!(Saved, rflags),
            ymm = const offset_of!(Saved, ymm),
            stack = const offset_of!(Saved, stack),
            target = const offset_of!(Saved, target),
            rcx_slot = const offset_of!(Saved, rcx_slot),
            handler = const offset_of!(Saved, handler),
            alignment_check = const ALIGNMENT_CHECK,
            rare = const ALIGNMENT_CHECK | DIRECTION,
        );
    };
}

light!(
    "bugnet_replayer_light_avx",
    "vmovdqa [rcx + {ymm} + \\n*32], ymm\\n",
    "vzeroupper",
    bugnet_dr::restore_ymm!("rcx")
);
light!("bugnet_replayer_light_sse", "movdqa [rcx + {ymm} + \\n*32], xmm\\n", "", bugnet_dr::restore_xmm!("rcx"));
