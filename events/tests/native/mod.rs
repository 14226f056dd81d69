//! Executes single instructions natively with any registers.

use bugnet_events::atoms::Atoms;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use std::arch::global_asm;
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hasher};
use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicI32, Ordering};

/// Memory that instructions may access.
pub const MEMORY: usize = 4096;
/// Flags that are random.
pub const FLAGS: u64 = 0xcd5;

/// A processor's state.
#[repr(C, align(64))]
#[derive(Clone, PartialEq, Eq)]
pub struct State {
    pub gpr: [u64; 16],
    pub rflags: u64,
    host_rsp: u64,
    target: u64,
    unused: [u64; 5],
    pub ymm: [[u8; 32]; 16],
    pub fx: [u8; 512],
    pub memory: [u8; MEMORY],
}

static mut STATE: State = State {
    gpr: [0; 16],
    rflags: 0,
    host_rsp: 0,
    target: 0,
    unused: [0; 5],
    ymm: [[0; 32]; 16],
    fx: [0; 512],
    memory: [0; MEMORY],
};

unsafe extern "C" {
    fn bugnet_native_run();
    fn bugnet_native_back();
}

global_asm!(
    "bugnet_native_run:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "sub rsp, 16; stmxcsr [rsp]; fnstcw [rsp + 4]",
    "mov [rip + {state} + {host}], rsp",
    "fxrstor64 [rip + {state} + {fx}]",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovdqu ymm\\n, [rip + {state} + {ymm} + \\n*32]",
    ".endr",
    "push qword ptr [rip + {state} + {rflags}]",
    "popfq",
    "mov rax, [rip + {state}]",
    "mov rcx, [rip + {state} + 8]",
    "mov rdx, [rip + {state} + 16]",
    "mov rbx, [rip + {state} + 24]",
    "mov rsp, [rip + {state} + 32]",
    "mov rbp, [rip + {state} + 40]",
    "mov rsi, [rip + {state} + 48]",
    "mov rdi, [rip + {state} + 56]",
    "mov r8, [rip + {state} + 64]",
    "mov r9, [rip + {state} + 72]",
    "mov r10, [rip + {state} + 80]",
    "mov r11, [rip + {state} + 88]",
    "mov r12, [rip + {state} + 96]",
    "mov r13, [rip + {state} + 104]",
    "mov r14, [rip + {state} + 112]",
    "mov r15, [rip + {state} + 120]",
    "jmp [rip + {state} + {target}]",
    "bugnet_native_back:",
    "mov [rip + {state}], rax",
    "mov [rip + {state} + 8], rcx",
    "mov [rip + {state} + 16], rdx",
    "mov [rip + {state} + 24], rbx",
    "mov [rip + {state} + 32], rsp",
    "mov [rip + {state} + 40], rbp",
    "mov [rip + {state} + 48], rsi",
    "mov [rip + {state} + 56], rdi",
    "mov [rip + {state} + 64], r8",
    "mov [rip + {state} + 72], r9",
    "mov [rip + {state} + 80], r10",
    "mov [rip + {state} + 88], r11",
    "mov [rip + {state} + 96], r12",
    "mov [rip + {state} + 104], r13",
    "mov [rip + {state} + 112], r14",
    "mov [rip + {state} + 120], r15",
    "mov rsp, [rip + {state} + {host}]",
    "pushfq",
    "pop qword ptr [rip + {state} + {rflags}]",
    "cld",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovdqu [rip + {state} + {ymm} + \\n*32], ymm\\n",
    ".endr",
    "fxsave64 [rip + {state} + {fx}]",
    "vzeroupper",
    "fninit",
    "ldmxcsr [rsp]; fldcw [rsp + 4]; add rsp, 16",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
    state = sym STATE,
    host = const offset_of!(State, host_rsp),
    target = const offset_of!(State, target),
    rflags = const offset_of!(State, rflags),
    ymm = const offset_of!(State, ymm),
    fx = const offset_of!(State, fx),
);

static FAULT: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_fault(signal: i32, _info: *mut libc::siginfo_t, context: *mut c_void) {
    FAULT.store(signal, Ordering::Relaxed);
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel's context of the signal; execution goes on behind the instruction, where all registers are saved.
    unsafe {
        let regs = &mut (*context).uc_mcontext.gregs;
        regs[libc::REG_RIP as usize] = bugnet_native_back as *const () as i64;
        regs[libc::REG_EFL as usize] &= !0x100;
    }
}

/// The one that executes.
pub struct Native {
    page: *mut u8,
    /// Where the memory is.
    pub memory: u64,
}

impl Native {
    /// Takes the process's signals. One at a time.
    pub fn new() -> Self {
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
        let len = NonZeroUsize::new(4096).unwrap();
        // SAFETY: fresh memory, and handlers on a stack of their own.
        unsafe {
            let page = mmap_anonymous(None, len, prot, MapFlags::MAP_PRIVATE).unwrap().as_ptr().cast();
            let stack = Box::leak(vec![0_u8; 1 << 16].into_boxed_slice());
            let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
            assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
            }
            let memory = (&raw const STATE.memory) as u64;
            Self { page, memory }
        }
    }

    /// Where instructions lie.
    pub fn pc(&self) -> u64 {
        self.page as u64
    }

    /// Executes an instruction; the signal that it raised instead, if it did.
    pub fn run(&self, code: &[u8], state: &mut State) -> Result<(), i32> {
        let mut bytes = code.to_vec();
        bytes.extend([0xff, 0x25, 0, 0, 0, 0]);
        bytes.extend((bugnet_native_back as *const () as u64).to_le_bytes());
        FAULT.store(0, Ordering::Relaxed);
        // SAFETY: the page is ours and has room; what is executed changes the state's registers and memory alone, or faults.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.page, bytes.len());
            let own = &raw mut STATE;
            own.write(state.clone());
            (&raw mut (*own).target).write(self.page as u64);
            bugnet_native_run();
            *state = own.read();
        }
        (state.target, state.host_rsp) = (0, 0);
        match FAULT.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(signal),
        }
    }
}

/// Bits of the x87 status word: C0, C2 and C3; C1; exceptions; the top of the stack.
const STATUS: [(Atoms, u16); 4] = [
    (Atoms::X87_CONDITIONS, 0x4500),
    (Atoms::X87_C1, 0x200),
    (Atoms::X87_EXCEPTIONS, 0x80ff),
    (Atoms::X87_STACK, 0x3800),
];
/// Where the registers are, from the top of the stack on, and which of them are empty.
const REGISTERS: usize = 32;
const TAGS: usize = 4;

impl State {
    /// Anything.
    pub fn random(random: &mut fastrand::Rng) -> Self {
        let mut state = Self {
            gpr: std::array::from_fn(|_| match random.u8(0..4) {
                0 => random.u64(0..256),
                1 => u64::from(random.u32(..)),
                _ => random.u64(..),
            }),
            rflags: random.u64(..) & FLAGS | 0x202,
            host_rsp: 0,
            target: 0,
            unused: [0; 5],
            ymm: std::array::from_fn(|_| std::array::from_fn(|_| random.u8(..))),
            fx: [0; 512],
            memory: std::array::from_fn(|_| random.u8(..)),
        };
        // Some numbers that make sense.
        for register in &mut state.ymm {
            if random.bool() {
                register.chunks_mut(4).for_each(|lane| lane.copy_from_slice(&(random.f32() * 100.0).to_le_bytes()));
            }
        }
        let rounding = |random: &mut fastrand::Rng| random.u16(0..4);
        state.fx[..2].copy_from_slice(&(0x37f | rounding(random) << 10).to_le_bytes());
        let top = random.u16(0..8) << 11;
        state.fx[2..4].copy_from_slice(&(top | random.u16(..) & 0x4700).to_le_bytes());
        state.fx[4] = random.u8(..);
        state.fx[24..28]
            .copy_from_slice(&(0x1f80 | u32::from(rounding(random)) << 13 | random.u32(0..64)).to_le_bytes());
        for number in 0..8 {
            let at = 32 + number * 16;
            let exponent = 0x3fff_u16.wrapping_add(random.u16(0..64)) | random.u16(..) & 0x8000;
            let mantissa = random.u64(..) | 1 << 63;
            state.fx[at..at + 8].copy_from_slice(&mantissa.to_le_bytes());
            state.fx[at + 8..at + 10].copy_from_slice(&exponent.to_le_bytes());
        }
        state
    }

    fn fx(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.fx[range]
    }

    fn status(&self) -> u16 {
        u16::from_le_bytes(self.fx(2..4).try_into().unwrap())
    }

    fn mxcsr(&self) -> u32 {
        u32::from_le_bytes(self.fx(24..28).try_into().unwrap())
    }

    /// What each atom is, of those that come alone; of several bytes, any number that tells them.
    pub fn values(&self) -> HashMap<Atoms, u64> {
        let mut all = HashMap::new();
        for number in 0..16 {
            all.extend(Atoms::gpr(number).each().zip(self.gpr[number].to_le_bytes().map(u64::from)));
            all.extend(Atoms::vector(number).each().zip(self.ymm[number].map(u64::from)));
        }
        all.extend(
            Atoms::rflags(FLAGS)
                .each()
                .zip((0..64).filter(|bit| FLAGS >> bit & 1 != 0).map(|bit| self.rflags >> bit & 1)),
        );
        for (number, register) in (0..).zip(self.fx[REGISTERS..].chunks(16).take(Atoms::X87_REGISTERS)) {
            let mut hasher = DefaultHasher::new();
            hasher.write(register);
            all.insert(Atoms::x87(number), hasher.finish());
        }
        all.extend(STATUS.map(|(atom, bits)| (atom, u64::from(self.status() & bits))));
        all.entry(Atoms::X87_STACK).and_modify(|top| *top |= u64::from(self.fx[TAGS]));
        all.insert(Atoms::X87_CONTROL, self.fx[0] as u64 | (self.fx[1] as u64) << 8);
        all.insert(Atoms::MXCSR_CONTROL, (self.mxcsr() & !63).into());
        all.insert(Atoms::MXCSR_FLAGS, (self.mxcsr() & 63).into());
        all
    }

    /// Takes these atoms from another one.
    pub fn take(&mut self, atoms: Atoms, from: &Self) {
        for number in 0..16 {
            let mut bytes = self.gpr[number].to_le_bytes();
            for (at, _) in Atoms::gpr(number).each().enumerate().filter(|(_, atom)| atoms.meets(*atom)) {
                bytes[at] = from.gpr[number].to_le_bytes()[at];
            }
            self.gpr[number] = u64::from_le_bytes(bytes);
            for (at, _) in Atoms::vector(number).each().enumerate().filter(|(_, atom)| atoms.meets(*atom)) {
                self.ymm[number][at] = from.ymm[number][at];
            }
        }
        for bit in (0..32).filter(|bit| atoms.meets(Atoms::rflags(1 << bit))) {
            self.rflags = self.rflags & !(1 << bit) | from.rflags & 1 << bit;
        }
        let mut mask = 0;
        for number in (0..8).filter(|number| atoms.meets(Atoms::x87(*number))) {
            let range = REGISTERS + 16 * number as usize..REGISTERS + 16 * (number as usize + 1);
            self.fx[range.clone()].copy_from_slice(&from.fx[range]);
        }
        let taken = STATUS.into_iter().filter(|(atom, _)| atoms.meets(*atom)).fold(0, |all, (_, bits)| all | bits);
        let status = self.status() & !taken | from.status() & taken;
        self.fx[2..4].copy_from_slice(&status.to_le_bytes());
        if atoms.meets(Atoms::X87_STACK) {
            self.fx[TAGS] = from.fx[TAGS];
        }
        if atoms.meets(Atoms::X87_CONTROL) {
            self.fx[..2].copy_from_slice(&from.fx[..2]);
        }
        mask |= if atoms.meets(Atoms::MXCSR_CONTROL) { !63 } else { 0 };
        mask |= if atoms.meets(Atoms::MXCSR_FLAGS) { 63 } else { 0 };
        let mxcsr = self.mxcsr() & !mask | from.mxcsr() & mask;
        self.fx[24..28].copy_from_slice(&mxcsr.to_le_bytes());
    }
}
