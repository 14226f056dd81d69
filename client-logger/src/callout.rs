//! From the code cache into Rust and back.
//!
//! A callout's inline part (see [`insert`]) is short, since there are many and they keep code that runs apart: it only says
//! where it is. All of them go on at one [`entry`], which calls the stub on the thread's own stack for callouts. The
//! stub saves every register in the thread and calls [`bugnet_logger_callout`]. Behind it, all registers get their (maybe
//! changed) saved values back.

use crate::counter::COUNTERS;
use crate::fs_base;
use crate::kept;
use crate::pages::Pages;
use crate::site::{Kind, Site};
use crate::thread::{Saved, Thread};
use bugnet_dr::ir::{Block, Gpr, Instr, Opnd};
use bugnet_dr::sys;
use bugnet_format::regs::ALIGNMENT_CHECK;
use bugnet_format::types::Addr;
use std::mem::offset_of;
use std::sync::OnceLock;

/// Slots of raw thread-local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Value of a general purpose register while the instrumentation uses the register.
    Spill(Gpr),
    /// RAX with the arithmetic flags in AH and AL, as `lahf; seto al` make it.
    Flags,
    /// RAX while flags are moved.
    Rax,
    /// One of the [counters](crate::counter) of instructions until the next threshold, by its number.
    Left(u8),
    /// The [`Thread`].
    Thread,
    /// Address of the system call instruction that is being executed.
    SyscallPc,
    /// Key of a shadow at `address xor key`, or zero.
    Key,
    /// Distance of a shadow at a distance, or zero.
    Distance,
    /// The code picture that the thread's log has, as a [`bugnet_format::types::CodeSeq`]; 4 bytes. 0 while blocks are to stop at
    /// their start: see [`crate::peer`].
    CodeSeq,
    /// The same if the thread's shadow is at a distance, else 0; 4 bytes.
    CodeSeqByFs,
    /// A difference while its sign is looked at.
    Difference,
    /// Start of the thread's [`crate::coherence::Permissions`].
    Permissions,
    /// What a callout has to tell the code behind it.
    Outcome,
    /// Address of the [`entry`] of callouts.
    Entry,
    /// Where the code cache goes on behind a callout.
    Return,
    /// Behind an instruction that was executed in a callout: the complement of the address that could not be read, or 0.
    ReadFault,
    /// The same of one that could not be written.
    WriteFault,
}

/// How many there are.
pub const SLOTS: u32 = FIRST_COUNTER + COUNTERS as u32;
/// The counters come behind all others.
const FIRST_COUNTER: u32 = 31;

impl Slot {
    /// The first of all.
    pub const FIRST: Self = Self::Spill(Gpr::RAX);

    fn index(self) -> u32 {
        match self {
            Self::Spill(reg) => u32::from(reg.0),
            Self::Flags => 16,
            Self::Rax => 17,
            Self::CodeSeqByFs => 18,
            Self::Thread => 19,
            Self::SyscallPc => 20,
            Self::Key => 21,
            Self::CodeSeq => 22,
            Self::Difference => 23,
            Self::Permissions => 24,
            Self::Outcome => 25,
            Self::Entry => 26,
            Self::Return => 27,
            Self::ReadFault => 28,
            Self::WriteFault => 29,
            Self::Distance => 30,
            Self::Left(number) => FIRST_COUNTER + u32::from(number),
        }
    }

    /// Offset from the segment's base.
    pub fn offset(self) -> u32 {
        base().1 + 8 * self.index()
    }

    /// The arithmetic flags that the calling thread's [`Self::Flags`] holds, as bits of RFLAGS.
    pub fn read_flags() -> u64 {
        let [overflow, others, ..] = Self::Flags.read().to_le_bytes();
        u64::from(others) & 0xd5 | u64::from(overflow) << 11
    }

    /// The slot as a memory operand of `bytes`.
    pub fn opnd(self, bytes: u32) -> Opnd {
        Opnd::tls(base().0, self.offset(), bytes)
    }

    /// Where blocks put the [number](crate::branches::number) of the indirect branch that they end with: beside
    /// [`Self::CodeSeqByFs`], which has 4 bytes.
    pub fn branch() -> Opnd {
        Self::CodeSeqByFs.upper_half()
    }

    /// The number of the calling thread's last indirect branch.
    pub fn last_branch() -> u32 {
        (Self::CodeSeqByFs.read() >> 32) as u32
    }

    /// The upper 4 bytes of the slot.
    pub fn upper_half(self) -> Opnd {
        Opnd::tls(base().0, self.offset() + 4, 4)
    }

    /// The calling thread's value.
    pub fn read(self) -> u64 {
        let value;
        // SAFETY: a word of the calling thread's, relative to the segment that DynamoRIO keeps for such words.
        unsafe {
            std::arch::asm!(
                "mov {value}, gs:[{offset}]",
                value = out(reg) value,
                offset = in(reg) u64::from(self.offset()),
                options(nostack, preserves_flags, readonly),
            );
        }
        value
    }

    /// Sets the calling thread's value.
    ///
    /// # Safety
    /// Whoever uses the slot expects it.
    unsafe fn write(self, value: u64) {
        // SAFETY: as for `read`, and the caller's promise.
        unsafe {
            std::arch::asm!(
                "mov gs:[{offset}], {value}",
                value = in(reg) value,
                offset = in(reg) u64::from(self.offset()),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Address of the calling thread's slot. Takes a system call.
    pub fn address(self) -> *mut u64 {
        // SAFETY: asks for a number.
        let start = unsafe { sys::dr_get_dr_segment_base(base().0) } as u64;
        (start + u64::from(self.offset())) as *mut u64
    }
}

static BASE: OnceLock<(sys::reg_id_t, u32)> = OnceLock::new();

fn base() -> (sys::reg_id_t, u32) {
    *BASE.get().unwrap_or_else(|| crate::die("thread-local slots are used before they are there"))
}

/// For tests of code that names slots and is not executed.
#[cfg(test)]
pub fn pretend_slots() {
    let _ = BASE.set((0, 0x100));
}

/// Takes the slots.
pub fn start() {
    let mut segment = 0;
    let mut offset = 0;
    // SAFETY: the pointers are to variables of ours.
    if unsafe { sys::dr_raw_tls_calloc(&raw mut segment, &raw mut offset, SLOTS, 0) } == 0 {
        crate::die("DynamoRIO has no thread-local slots left");
    }
    let _ = BASE.set((segment, offset));
}

/// Bytes of a thread's stack for callouts.
const STACK: usize = 256 << 10;

/// A thread's stack for callouts.
pub struct Stack(Pages<u8>);

impl Stack {
    /// A stack of which only what is used takes up memory.
    pub fn new() -> Self {
        // SAFETY: bytes.
        Self(unsafe { Pages::zeroed(STACK) })
    }

    /// Its end, from which it grows.
    pub fn top(&self) -> u64 {
        self.0.as_ptr_range().end as u64
    }
}

/// The calling thread's callouts are about to find their way.
pub fn prepare() {
    // SAFETY: the calling thread's own slot.
    unsafe { *Slot::Entry.address() = entry() };
}

/// The stub for this processor.
pub fn stub() -> usize {
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

/// `mov gs:[slot], rax`, up to the slot; so are the others.
const STORE_RAX: &[u8] = &[0x65, 0x48, 0x89, 0x04, 0x25];
/// `mov rax, gs:[slot]`
const LOAD_RAX: &[u8] = &[0x65, 0x48, 0x8b, 0x04, 0x25];
/// `mov rcx, gs:[slot]`
const LOAD_RCX: &[u8] = &[0x65, 0x48, 0x8b, 0x0c, 0x25];
/// `jmp gs:[slot]`
const JUMP: &[u8] = &[0x65, 0xff, 0x24, 0x25];

impl Code {
    fn with(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// An instruction that ends with a slot.
    fn slot(self, opcode: &[u8], slot: Slot) -> Self {
        self.with(opcode).with(&slot.offset().to_le_bytes())
    }

    /// An instruction that ends with the offset of one of the [`Thread`]'s fields.
    fn field(self, opcode: &[u8], offset: usize) -> Self {
        self.with(opcode).with(&(offset as u32).to_le_bytes())
    }
}

/// Most bytes of machine code that [`make`] takes.
const MOST_BEFORE: usize = 18;
/// Bytes of the inline part, without the address of its site.
const INLINE: usize = 26;
/// Bytes of all of it.
pub const CALLOUT: usize = INLINE + size_of::<u64>();

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
    static ALL_ALIKE: OnceLock<[u8; INLINE]> = OnceLock::new();
    let inline = ALL_ALIKE.get_or_init(|| {
        let code = Code::default()
            .slot(STORE_RAX, Slot::Rax)
            .with(&[0x48, 0x8d, 0x05, 18, 0, 0, 0]) // lea rax, [rip + 18]: behind all of this
            .slot(JUMP, Slot::Entry)
            // mov rax, site: never executed, but what follows the instructions of a block can decode it.
            .with(&[0x48, 0xb8]);
        code.0.try_into().unwrap_or_else(|_| unreachable!("the inline part has another length"))
    });
    let site = kept::keep(site) as u64;
    let mut code = [0; CALLOUT];
    code[..INLINE].copy_from_slice(inline);
    code[INLINE..].copy_from_slice(&site.to_le_bytes());
    code
}

/// Where callouts go on, with RAX where they return to: behind the address of their site. It leaves the thread in RAX and
/// that place in RCX for the stub.
fn entry() -> u64 {
    static ENTRY: OnceLock<u64> = OnceLock::new();
    *ENTRY.get_or_init(|| {
        let gpr = |reg: Gpr| offset_of!(Thread, saved) + offset_of!(Saved, gpr) + 8 * usize::from(reg.0);
        let code = Code::default()
            .slot(STORE_RAX, Slot::Return)
            .slot(LOAD_RAX, Slot::Thread)
            .field(&[0x48, 0x89, 0x88], gpr(Gpr::RCX)) // mov [rax + offset], rcx
            .slot(LOAD_RCX, Slot::Rax)
            .field(&[0x48, 0x89, 0x88], gpr(Gpr::RAX)) // mov [rax + offset], rcx
            .field(&[0x48, 0x89, 0xa0], gpr(Gpr::RSP)) // mov [rax + offset], rsp
            .slot(LOAD_RCX, Slot::Return)
            .field(&[0x48, 0x8b, 0xa0], offset_of!(Thread, stack_top)) // mov rsp, [rax + offset]
            .field(&[0xff, 0x90], offset_of!(Thread, stub)) // call [rax + offset]
            .field(&[0x48, 0x8b, 0xa0], gpr(Gpr::RSP)) // mov rsp, [rax + offset]
            .field(&[0x48, 0x8b, 0x80], gpr(Gpr::RAX)) // mov rax, [rax + offset]
            .slot(JUMP, Slot::Return)
            .0;
        let prot = sys::DR_MEMPROT_READ | sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_EXEC;
        // SAFETY: fresh memory, which is never freed and has room for the code.
        unsafe {
            let memory = sys::dr_nonheap_alloc(Addr::PAGE as usize, prot).cast::<u8>();
            memory.copy_from_nonoverlapping(code.as_ptr(), code.len());
            memory as u64
        }
    })
}

/// The Rust side of a callout.
///
/// # Safety
/// Called by the stub with the calling thread's structure, in which it has just saved the registers, and the site
/// that the inline part named.
#[unsafe(no_mangle)]
unsafe extern "C" fn bugnet_logger_callout(thread: *mut Thread, site: *const Site) {
    // SAFETY: the caller's promise; a site is there as long as its block, and a thread's structure is used by its thread only.
    let (thread, site) = unsafe { (&mut *thread, &*site) };
    if let Kind::Limit { .. } = site.kind {
        // SAFETY: in a callout, of which the slot tells where it is in the code cache.
        unsafe { site.lies.first_run(Slot::Return.read()) };
        if thread.counter.deal() {
            // There is no threshold yet.
            return;
        }
    }
    thread.callout(site);
    // SAFETY: in this callout; the thread's own slot.
    unsafe {
        if let Some(back) = site.lies.back() {
            Slot::Return.write(back);
        }
    }
}

macro_rules! stub {
    ($name:expr, $save:literal, $restore:literal, $fs:literal) => {
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
            "call {callout}",
            "add rsp, 8",
            "mov rax, rbx",
            concat!(".if ", $fs),
            "mov rdx, [rax + {running_fs}]",
            "wrfsbase rdx",
            ".endif",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            $restore,
            ".endr",
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
            gpr = const offset_of!(Thread, saved) + offset_of!(Saved, gpr),
            rflags = const offset_of!(Thread, saved) + offset_of!(Saved, rflags),
            ymm = const offset_of!(Thread, saved) + offset_of!(Saved, ymm),
            own_fs = const offset_of!(Thread, own_fs),
            running_fs = const offset_of!(Thread, running_fs),
            alignment_check = const ALIGNMENT_CHECK,
            callout = sym bugnet_logger_callout,
        );
    };
}

macro_rules! stubs {
    ($name:literal, $save:literal, $restore:literal) => {
        stub!($name, $save, $restore, "0");
        stub!(concat!($name, "_fs"), $save, $restore, "1");
    };
}

stubs!("bugnet_stub_avx", "vmovdqu [rax + {ymm} + \\n*32], ymm\\n", "vmovdqu ymm\\n, [rax + {ymm} + \\n*32]");
stubs!("bugnet_stub_sse", "movdqu [rax + {ymm} + \\n*32], xmm\\n", "movdqu xmm\\n, [rax + {ymm} + \\n*32]");
