//! From the code cache into Rust and back.
//!
//! A callout's inline part (see [`insert`]) is short, since there are many and they keep code that runs apart: it only says
//! where it is. All of them go on at one [`entry`], which calls the stub on the thread's own stack for callouts. The
//! stub saves every register in the thread's [`Callouts`] and calls their handler. Behind it, all registers get their (maybe
//! changed) saved values back.

use crate::base::failure::fail;
use crate::base::fs_base::{self, Bases};
use crate::base::pages::Pages;
use crate::base::slots::Slot;
use crate::emitted::reclaim;
use crate::emitted::site::{CALLOUT, INLINE_PART, Site};
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::{Block, Gpr, Instr};
use bugnet_dr::space::{self, Protection};
use bugnet_format::regs::ALIGNMENT_CHECK;
use bugnet_format::types::Addr;
use std::mem::offset_of;
use std::sync::OnceLock;

/// Registers as the stub saves them.
#[repr(C, align(32))]
pub struct Saved {
    /// YMM0 to YMM15; only the XMM halves where the processor has no AVX.
    pub ymm: [[u8; 32]; 16],
    /// General purpose registers, in [`Gpr`]'s numbering.
    pub gpr: [u64; 16],
    /// RFLAGS
    pub rflags: u64,
}

/// What a callout has to do: called with what [`Slot::Thread`] points to, in whose [`Callouts`] the stub has just saved the registers, and the
/// site that the inline part named.
pub type Handler = unsafe extern "C" fn(*mut Callouts, *const Site);

/// What a thread needs to call out: what [`Slot::Thread`] points to begins with it.
#[repr(C)]
pub struct Callouts {
    /// FS bases.
    pub bases: Bases,
    /// What the stub saved.
    pub saved: Saved,
    /// Address of the stub.
    stub: usize,
    /// End of the stack that callouts run on.
    stack_top: u64,
    handler: Handler,
    _stack: Stack,
}

impl Callouts {
    /// For a thread whose callouts lead to this.
    pub fn new(handler: Handler) -> Self {
        let stack = Stack::new();
        let own = if fs_base::can_be_set() { fs_base::get() } else { 0 };
        Self {
            bases: Bases { own, running: own },
            saved: Saved { ymm: [[0; 32]; 16], gpr: [0; 16], rflags: 0 },
            stub: stub(),
            stack_top: stack.top(),
            handler,
            _stack: stack,
        }
    }
}

/// Bytes of a thread's stack for callouts.
const STACK: usize = 256 << 10;

/// A thread's stack for callouts.
struct Stack(Pages<u8>);

impl Stack {
    /// A stack of which only what is used takes up memory.
    fn new() -> Self {
        // SAFETY: bytes.
        Self(unsafe { Pages::zeroed(STACK) })
    }

    /// Its end, from which it grows.
    fn top(&self) -> u64 {
        self.0.as_ptr_range().end as u64
    }
}

/// The calling thread's callouts are about to find their way.
pub fn prepare() {
    // SAFETY: the calling thread's own slot.
    unsafe { *Slot::Entry.address() = entry() };
}

/// The stub for this processor.
fn stub() -> usize {
    let stub: unsafe extern "C" fn() = match (std::arch::is_x86_feature_detected!("avx"), fs_base::can_be_set()) {
        (true, true) => bugnet_stub_avx_fs,
        (true, false) => bugnet_stub_avx,
        (false, true) => bugnet_stub_sse_fs,
        (false, false) => bugnet_stub_sse,
    };
    stub as *const () as usize
}

unsafe extern "C" {
    fn bugnet_stub_avx_fs();
    fn bugnet_stub_avx();
    fn bugnet_stub_sse_fs();
    fn bugnet_stub_sse();
}

/// Machine code, which DynamoRIO's encoder would take its time for.
#[derive(Default)]
struct Code(Vec<u8>);

/// Up to the slot; so are the others.
const STORE_RAX: Assembled = assembled!("mov gs:[{u32}], rax"; 4);
const LOAD_RAX: Assembled = assembled!("mov rax, gs:[{u32}]"; 4);
const LOAD_RCX: Assembled = assembled!("mov rcx, gs:[{u32}]"; 4);
const JUMP: Assembled = assembled!("jmp qword ptr gs:[{u32}]"; 4);

/// Up to the offset of one of the fields of [`Callouts`], at which RAX points; so are the others.
const FIELD_FROM_RCX: Assembled = assembled!("mov [rax + {u32}], rcx"; 4);
const FIELD_FROM_RSP: Assembled = assembled!("mov [rax + {u32}], rsp"; 4);
const FIELD_TO_RSP: Assembled = assembled!("mov rsp, [rax + {u32}]"; 4);
const FIELD_TO_RAX: Assembled = assembled!("mov rax, [rax + {u32}]"; 4);
const CALL_FIELD: Assembled = assembled!("call [rax + {u32}]"; 4);

/// Where the inline part ends: behind a jump to a slot, and an instruction with the address of the site, of 8 and 10 bytes.
const END_TO_RAX: Assembled = assembled!("lea rax, [rip + 2f]", ".skip 8 + 10", "2:"; 18);
/// That instruction up to the address. It is never executed, but what follows the instructions of a block can decode it.
const SITE: Assembled = assembled!("movabs rax, {u64}"; 8);

impl Code {
    fn with(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// An instruction that ends with a slot.
    fn slot(self, opcode: Assembled, slot: Slot) -> Self {
        self.with(&opcode).with(&slot.offset().to_le_bytes())
    }

    /// An instruction that ends with the offset of one of the fields of [`Callouts`].
    fn field(self, opcode: Assembled, offset: usize) -> Self {
        self.with(&opcode).with(&(offset as u32).to_le_bytes())
    }
}

/// Most bytes of machine code that [`make`] takes.
const MOST_BEFORE: usize = 18;

/// Inserts a callout about `site` before `at`. All registers and flags are the same behind it, unless the site is one
/// that changes them.
pub fn insert(block: &Block, at: Option<Instr>, site: Site) {
    block.meta(at, make(block, &[], site));
}

/// A callout, not yet in the block, with at most [`MOST_BEFORE`] bytes of machine code before it.
pub fn make(block: &Block, before: &[u8], site: Site) -> Instr {
    let mut code = [0; MOST_BEFORE + CALLOUT];
    let len = before.len();
    code[..len].copy_from_slice(before);
    code[len..len + CALLOUT].copy_from_slice(&inline(site));
    block.raw(&code[..len + CALLOUT])
}

/// The machine code of a callout.
pub fn inline(site: Site) -> [u8; CALLOUT] {
    static ALL_ALIKE: OnceLock<[u8; INLINE_PART]> = OnceLock::new();
    let inline = ALL_ALIKE.get_or_init(|| {
        let code = Code::default().slot(STORE_RAX, Slot::Rax).with(&END_TO_RAX).slot(JUMP, Slot::Entry).with(&SITE);
        code.0.try_into().unwrap_or_else(|_| unreachable!("the inline part has another length"))
    });
    let site = reclaim::keep(site) as u64;
    let mut code = [0; CALLOUT];
    code[..INLINE_PART].copy_from_slice(inline);
    code[INLINE_PART..].copy_from_slice(&site.to_le_bytes());
    code
}

/// Where callouts go on, with RAX where they return to: behind the address of their site. It leaves the thread in RAX and
/// that place in RCX for the stub.
fn entry() -> u64 {
    static ENTRY: OnceLock<u64> = OnceLock::new();
    *ENTRY.get_or_init(|| {
        let gpr = |reg: Gpr| offset_of!(Callouts, saved) + offset_of!(Saved, gpr) + 8 * usize::from(reg.0);
        let code = Code::default()
            .slot(STORE_RAX, Slot::Return)
            .slot(LOAD_RAX, Slot::Thread)
            .field(FIELD_FROM_RCX, gpr(Gpr::RCX))
            .slot(LOAD_RCX, Slot::Rax)
            .field(FIELD_FROM_RCX, gpr(Gpr::RAX))
            .field(FIELD_FROM_RSP, gpr(Gpr::RSP))
            .slot(LOAD_RCX, Slot::Return)
            .field(FIELD_TO_RSP, offset_of!(Callouts, stack_top))
            .field(CALL_FIELD, offset_of!(Callouts, stub))
            .field(FIELD_TO_RSP, gpr(Gpr::RSP))
            .field(FIELD_TO_RAX, gpr(Gpr::RAX))
            .slot(JUMP, Slot::Return)
            .0;
        let Some(memory) = space::allocate_near(Addr::PAGE as usize, Protection::ALL) else {
            fail("there is no memory left near the code cache")
        };
        // SAFETY: fresh memory, which is never freed and has room for the code.
        unsafe { memory.as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        memory.as_ptr() as u64
    })
}

macro_rules! stub {
    ($name:expr, $save:literal, $saved:literal, $restore:expr, $fs:literal) => {
        std::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!($name, ":"),
            // RAX is the thread, RCX where the code cache goes on, RSP the callouts' stack with the return address; all
            // three were saved by the entry.
            "mov [rax + {gpr} + 2*8], rdx",
            "mov [rax + {gpr} + 3*8], rbx",
            "mov [rax + {gpr} + 5*8], rbp",
            "mov [rax + {gpr} + 6*8], rsi",
            "mov [rax + {gpr} + 7*8], rdi",
            "mov [rax + {gpr} + 8*8], r8",
            "mov [rax + {gpr} + 9*8], r9",
            "mov [rax + {gpr} + 10*8], r10",
            "mov [rax + {gpr} + 11*8], r11",
            "mov [rax + {gpr} + 12*8], r12",
            "mov [rax + {gpr} + 13*8], r13",
            "mov [rax + {gpr} + 14*8], r14",
            "mov [rax + {gpr} + 15*8], r15",
            "pushfq",
            "pop qword ptr [rax + {rflags}]",
            "cld",
            // With the alignment check on, no compiled code can run.
            "test dword ptr [rax + {rflags}], {alignment_check}",
            "jz 2f",
            "push 2",
            "popfq",
            "2:",
            // The site's address need not be aligned.
            "mov rcx, [rcx - 8]",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            $save,
            ".endr",
            $saved,
            "mov rbx, rax",
            // The client's thread-local storage.
            concat!(".if ", $fs),
            "mov rdx, [rax + {own_fs}]",
            "wrfsbase rdx",
            ".endif",
            // With the return address on it, the stack is aligned as a function wants it by one more word.
            "sub rsp, 8",
            "mov rdi, rax",
            "mov rsi, rcx",
            "call [rax + {handler}]",
            "add rsp, 8",
            "mov rax, rbx",
            concat!(".if ", $fs),
            "mov rdx, [rax + {running_fs}]",
            "wrfsbase rdx",
            ".endif",
            $restore,
            "push qword ptr [rax + {rflags}]",
            "popfq",
            "mov rcx, [rax + {gpr} + 1*8]",
            "mov rdx, [rax + {gpr} + 2*8]",
            "mov rbx, [rax + {gpr} + 3*8]",
            "mov rbp, [rax + {gpr} + 5*8]",
            "mov rsi, [rax + {gpr} + 6*8]",
            "mov rdi, [rax + {gpr} + 7*8]",
            "mov r8, [rax + {gpr} + 8*8]",
            "mov r9, [rax + {gpr} + 9*8]",
            "mov r10, [rax + {gpr} + 10*8]",
            "mov r11, [rax + {gpr} + 11*8]",
            "mov r12, [rax + {gpr} + 12*8]",
            "mov r13, [rax + {gpr} + 13*8]",
            "mov r14, [rax + {gpr} + 14*8]",
            "mov r15, [rax + {gpr} + 15*8]",
            // The entry restores RSP and RAX.
            "ret",
            gpr = const offset_of!(Callouts, saved) + offset_of!(Saved, gpr),
            rflags = const offset_of!(Callouts, saved) + offset_of!(Saved, rflags),
            ymm = const offset_of!(Callouts, saved) + offset_of!(Saved, ymm),
            own_fs = const offset_of!(Callouts, bases) + offset_of!(Bases, own),
            running_fs = const offset_of!(Callouts, bases) + offset_of!(Bases, running),
            alignment_check = const ALIGNMENT_CHECK,
            handler = const offset_of!(Callouts, handler),
        );
    };
}

macro_rules! stubs {
    ($name:literal, $save:literal, $saved:literal, $restore:expr) => {
        stub!($name, $save, $saved, $restore, "0");
        stub!(concat!($name, "_fs"), $save, $saved, $restore, "1");
    };
}

stubs!("bugnet_stub_avx", "vmovdqu [rax + {ymm} + \\n*32], ymm\\n", "vzeroupper", bugnet_dr::restore_ymm!("rax"));
stubs!("bugnet_stub_sse", "movdqu [rax + {ymm} + \\n*32], xmm\\n", "", bugnet_dr::restore_xmm!("rax"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(STORE_RAX.bytes(), [0x65, 0x48, 0x89, 0x04, 0x25]);
        assert_eq!(LOAD_RAX.bytes(), [0x65, 0x48, 0x8b, 0x04, 0x25]);
        assert_eq!(LOAD_RCX.bytes(), [0x65, 0x48, 0x8b, 0x0c, 0x25]);
        assert_eq!(JUMP.bytes(), [0x65, 0xff, 0x24, 0x25]);
        assert_eq!(FIELD_FROM_RCX.bytes(), [0x48, 0x89, 0x88]);
        assert_eq!(FIELD_FROM_RSP.bytes(), [0x48, 0x89, 0xa0]);
        assert_eq!(FIELD_TO_RSP.bytes(), [0x48, 0x8b, 0xa0]);
        assert_eq!(FIELD_TO_RAX.bytes(), [0x48, 0x8b, 0x80]);
        assert_eq!(CALL_FIELD.bytes(), [0xff, 0x90]);
        assert_eq!(END_TO_RAX.bytes(), [0x48, 0x8d, 0x05, 18, 0, 0, 0]);
        assert_eq!(SITE.bytes(), [0x48, 0xb8]);
    }
}
