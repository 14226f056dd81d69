//! Processes that `clone` makes in the program's memory, and that are neither threads nor children of `vfork`: helpers that look at the program from outside, as
//! the one by which LeakSanitizer stops all threads. They run natively and are not recorded. What they write to memory the program's loads find, as they
//! find what other processes write to shared memory; so as long as there is one, all memory is that.
//!
//! Such a helper mostly looks at the registers of threads, by ptrace, and those that a thread has where it is neither in the program's code nor in the kernel are
//! DynamoRIO's. So a helper begins once its parent waits for it, and a thread that only lets others go first sleeps instead.

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::memory::{read_memory, read_word};
use crate::base::process;
use crate::picture::shared_code::SHARED;
use crate::run::parts::call::left_in_r11;
use crate::run::signals::actions::{Action, programs};
use crate::run::signals::send::{raw_syscall, this_thread};
use crate::run::signals::sets::{SET_BYTES, SIGNALS, UNBLOCKABLE, bit};
use bugnet_format::regs::{R11, RAX, RCX, RSP, RegisterFile};
use std::arch::naked_asm;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A helper, with what it begins with.
struct Helper {
    pid: i32,
    beginning: Box<Beginning>,
}

/// Those that may still be there.
static HELPERS: Mutex<Vec<Helper>> = Mutex::new(Vec::new());
/// Whether there are.
static ANY: AtomicBool = AtomicBool::new(false);

/// Bytes of `struct clone_args`, at most.
const MOST_ARGUMENTS: usize = 256;
const CLONE_SETTLS: u64 = libc::CLONE_SETTLS as u64;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;

/// What a helper begins with. Its first instructions, of ours, run on the stack behind this.
#[repr(C, align(64))]
struct Beginning {
    vectors: [[u8; 16]; 16],
    gpr: [u64; 16],
    rflags: u64,
    bases: [u64; 2],
    mask: u64,
    actions: [Action; SIGNALS as usize + 1],
    /// 0 until the helper may begin.
    go: AtomicU32,
    /// The file that tells whether its parent sleeps.
    parent: [u8; 48],
    stack: Stack,
}

/// Aligned as the processor wants a stack at a call.
#[repr(align(16))]
struct Stack([u8; 16 << 10]);

/// A system call that makes a helper, as the program makes it.
pub struct Call<'a> {
    /// `clone` or `clone3`.
    pub number: i64,
    /// Its arguments.
    pub args: &'a [u64; 6],
    /// The registers before it.
    pub regs: &'a RegisterFile,
    /// Where the program goes on behind it.
    pub behind: u64,
    /// Which signals the thread blocks.
    pub mask: u64,
}

/// The arguments of the call as the kernel gets them: the helper begins on this stack, and gets its FS base from us. With the stack and FS base that it is to
/// have.
fn arguments(call: &Call, stack: (u64, u64), block: &mut [u8; MOST_ARGUMENTS]) -> Option<([u64; 5], u64, u64)> {
    const FLAGS: usize = 0;
    const STACK: usize = 40;
    const STACK_SIZE: usize = 48;
    const TLS: usize = 56;
    let [fs, own] = [call.regs.fs_base, call.regs.gpr[RSP]];
    let of = |flags: u64, tls: u64| if flags & CLONE_SETTLS == 0 { fs } else { tls };
    if call.number == libc::SYS_clone {
        let [flags, wanted, parent, child, tls, _] = *call.args;
        let wanted = if wanted == 0 { own } else { wanted };
        return Some(([flags & !CLONE_SETTLS, stack.0 + stack.1, parent, child, 0], wanted, of(flags, tls)));
    }
    let size = usize::try_from(call.args[1]).ok().filter(|size| (TLS + 8..=MOST_ARGUMENTS).contains(size))?;
    if !read_memory(call.args[0], &mut block[..size]) {
        return None;
    }
    let word = |at: usize| read_word(call.args[0] + at as u64);
    let (flags, wanted, tls) = (word(FLAGS)?, word(STACK)? + word(STACK_SIZE)?, word(TLS)?);
    for (at, value) in [(FLAGS, flags & !CLONE_SETTLS), (STACK, stack.0), (STACK_SIZE, stack.1)] {
        block[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let wanted = if wanted == 0 { own } else { wanted };
    Some(([block.as_ptr() as u64, size as u64, 0, 0, 0], wanted, of(flags, tls)))
}

/// See [`Beginning::parent`].
fn parent() -> [u8; 48] {
    let mut path = [0; 48];
    let text = format!("/proc/{}/task/{}/stat", process::current_pid(), this_thread());
    path[..text.len()].copy_from_slice(text.as_bytes());
    path
}

/// Before a system call: helpers begin if it waits. Whether it is to sleep instead of what it does.
pub fn let_go(number: i64) -> bool {
    if !ANY.load(Ordering::Relaxed) {
        return false;
    }
    let waits = u64::try_from(number).ok().and_then(bugnet_system_calls::of).is_some_and(|call| call.waits.is_some());
    let yields = number == libc::SYS_sched_yield;
    if waits || yields || matches!(number, libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_read) {
        let may_not = |helper: &&Helper| helper.beginning.go.swap(1, Ordering::SeqCst) == 0;
        for Helper { beginning, .. } in helpers().iter().filter(may_not) {
            // SAFETY: wakes whoever waits for this word.
            unsafe { libc::syscall(libc::SYS_futex, beginning.go.as_ptr(), libc::FUTEX_WAKE, 1) };
        }
    }
    yields
}

/// Makes the helper in the kernel's place. Returns the call's result; `None` if the arguments cannot be read, and the kernel is to say so.
pub fn make(call: &Call) -> Option<i64> {
    let regs = call.regs;
    let mut beginning = Box::new(Beginning {
        vectors: std::array::from_fn(|n| std::array::from_fn(|at| regs.ymm[n][at])),
        gpr: regs.gpr,
        rflags: left_in_r11(regs),
        bases: [0, regs.gs_base],
        mask: call.mask,
        actions: programs().map(Option::unwrap_or_default),
        go: AtomicU32::new(0),
        parent: parent(),
        stack: Stack([0; 16 << 10]),
    });
    let mut block = [0; MOST_ARGUMENTS];
    let stack = (beginning.stack.0.as_ptr() as u64, beginning.stack.0.len() as u64);
    let (arguments, wanted, fs) = arguments(call, stack, &mut block)?;
    beginning.bases[0] = fs;
    // As the processor and the kernel leave them.
    for (register, value) in [(RSP, wanted), (RAX, 0), (RCX, call.behind), (R11, beginning.rflags)] {
        beginning.gpr[register] = value;
    }
    SHARED.get().lend_all(true);
    ANY.store(true, Ordering::SeqCst);
    // SAFETY: the helper begins in `start` with what it needs there, on a stack of its own, and then executes the program's code as it would have
    // natively. It uses nothing of the client's that a thread has.
    let result = unsafe { clone(call.number, arguments.as_ptr(), &raw const *beginning) };
    if let Ok(pid @ 1..) = i32::try_from(result) {
        helpers().push(Helper { pid, beginning });
    } else {
        look();
    }
    Some(result)
}

fn helpers() -> MutexGuard<'static, Vec<Helper>> {
    HELPERS.lock()
}

/// A system call that waits for children has returned, or a process has just been forked: which helpers are still there?
pub fn look() {
    const KCMP_VM: i32 = 1;
    if !ANY.load(Ordering::SeqCst) {
        return;
    }
    let mut helpers = helpers();
    // SAFETY: compares what two processes have.
    helpers.retain(|helper| unsafe { libc::syscall(libc::SYS_kcmp, libc::getpid(), helper.pid, KCMP_VM, 0, 0) == 0 });
    if helpers.is_empty() {
        ANY.store(false, Ordering::SeqCst);
        SHARED.get().lend_all(false);
    }
}

/// Makes the system call with this number and these five arguments; the new process begins in [`begin`].
///
/// # Safety
/// It is a `clone` or `clone3` that gives the new process a stack, and shares memory.
#[unsafe(naked)]
unsafe extern "C" fn clone(number: i64, arguments: *const u64, beginning: *const Beginning) -> i64 {
    naked_asm!(
        "push r12",
        "mov r12, rdx",
        "mov rax, rdi",
        "mov rcx, rsi",
        "mov rdi, [rcx]",
        "mov rsi, [rcx + 8]",
        "mov rdx, [rcx + 16]",
        "mov r10, [rcx + 24]",
        "mov r8, [rcx + 32]",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "pop r12",
        "ret",
        "2: xor ebp, ebp",
        "mov rdi, r12",
        "call {begin}",
        "movups xmm0, [r12]",
        "movups xmm1, [r12 + 16]",
        "movups xmm2, [r12 + 32]",
        "movups xmm3, [r12 + 48]",
        "movups xmm4, [r12 + 64]",
        "movups xmm5, [r12 + 80]",
        "movups xmm6, [r12 + 96]",
        "movups xmm7, [r12 + 112]",
        "movups xmm8, [r12 + 128]",
        "movups xmm9, [r12 + 144]",
        "movups xmm10, [r12 + 160]",
        "movups xmm11, [r12 + 176]",
        "movups xmm12, [r12 + 192]",
        "movups xmm13, [r12 + 208]",
        "movups xmm14, [r12 + 224]",
        "movups xmm15, [r12 + 240]",
        "push qword ptr [r12 + {rflags}]",
        "popfq",
        "lea rax, [r12 + {gpr}]",
        "mov rcx, [rax + 8]",
        "mov rdx, [rax + 16]",
        "mov rbx, [rax + 24]",
        "mov rsp, [rax + 32]",
        "mov rbp, [rax + 40]",
        "mov rsi, [rax + 48]",
        "mov rdi, [rax + 56]",
        "mov r8, [rax + 64]",
        "mov r9, [rax + 72]",
        "mov r10, [rax + 80]",
        "mov r11, [rax + 88]",
        "mov r12, [rax + 96]",
        "mov r13, [rax + 104]",
        "mov r14, [rax + 112]",
        "mov r15, [rax + 120]",
        "mov eax, 0",
        "jmp rcx",
        begin = sym begin,
        rflags = const offset_of!(Beginning, rflags),
        gpr = const offset_of!(Beginning, gpr),
    )
}

/// Waits until the parent waits, a tenth of a second at most, and then until it sleeps.
fn wait(beginning: &Beginning) {
    const LONGEST: [u64; 2] = [0, 100_000_000];
    const SHORT: [u64; 2] = [0, 100_000];
    const TIMES: usize = 500;
    // SAFETY: waits for a word that is there, and reads a file.
    unsafe {
        let how = libc::FUTEX_WAIT as u64;
        raw_syscall(libc::SYS_futex, [beginning.go.as_ptr() as u64, how, 0, LONGEST.as_ptr() as u64, 0]);
        for _ in 0..TIMES {
            let file = raw_syscall(libc::SYS_open, [beginning.parent.as_ptr() as u64, libc::O_RDONLY as u64, 0, 0, 0]);
            if file < 0 {
                return;
            }
            let mut text = [0u8; 64];
            let read = raw_syscall(libc::SYS_read, [file as u64, text.as_mut_ptr() as u64, text.len() as u64, 0, 0]);
            raw_syscall(libc::SYS_close, [file as u64, 0, 0, 0, 0]);
            // The state stands behind the name, which stands in brackets.
            let state = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 2));
            if read <= 0 || state != Some(&b'R') {
                return;
            }
            raw_syscall(libc::SYS_nanosleep, [SHORT.as_ptr() as u64, 0, 0, 0, 0]);
        }
    }
}

/// In the new process, which has the calling thread's thread-local storage and DynamoRIO's signal handlers: gives it its own.
///
/// # Safety
/// As it begins.
unsafe extern "C" fn begin(beginning: *const Beginning) {
    // SAFETY: nobody changes what it begins with but the word, and these calls are about the new process alone.
    unsafe {
        let beginning = &*beginning;
        wait(beginning);
        raw_syscall(libc::SYS_arch_prctl, [ARCH_SET_FS, beginning.bases[0], 0, 0, 0]);
        raw_syscall(libc::SYS_arch_prctl, [ARCH_SET_GS, beginning.bases[1], 0, 0, 0]);
        for (signal, action) in (1..=SIGNALS).zip(&beginning.actions[1..]) {
            if bit(signal) & UNBLOCKABLE == 0 {
                let set = std::ptr::from_ref(action) as u64;
                raw_syscall(libc::SYS_rt_sigaction, [signal as u64, set, 0, SET_BYTES, 0]);
            }
        }
        let mask = (&raw const beginning.mask) as u64;
        raw_syscall(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as u64, mask, 0, SET_BYTES, 0]);
    }
}
