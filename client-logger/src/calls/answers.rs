//! System calls that are answered in the kernel's place, or made with other arguments, because made as they are they
//! would break the recorder or show it to the program.

use crate::base::memory::read_memory;
use crate::base::process;
use crate::kernel::arguments::{clone_flags, made};
use crate::kernel::program_break::{self, Step};
use crate::kernel::recorders::{self, Instead};
use crate::kernel::streams;
use crate::kernel::substitute::Substitution;
use crate::log::handover;
use crate::picture::claims;
use crate::picture::shadow;
use crate::picture::shadow::reserved;
use crate::run::thread::Thread;
use bugnet_dr::call as call_event;
use bugnet_dr::process::main_module;
use bugnet_format::record::OutputStream;
use bugnet_format::types::Addr;
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of a signal set, which system calls want to hear.
const SET_BYTES: u64 = 8;
/// A child begins without its parent's handlers.
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;

/// Signals in place of the system calls that some of the code makes, and that this is over.
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const PR_SYS_DISPATCH_OFF: u64 = 0;

/// Says a sentence once.
fn warn_once(said: &AtomicBool, message: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        crate::base::warn(message);
    }
}

const fn error(number: i32) -> Option<i64> {
    Some(-(number as i64))
}

/// The result of a system call that is not to be made; none if it is to be made, with the arguments that it has by then.
///
/// # Safety
/// In the pre-syscall event.
pub unsafe fn instead(context: *mut c_void, thread: &mut Thread, number: i64, args: &[u64; 6]) -> Option<i64> {
    static PTRACE: AtomicBool = AtomicBool::new(false);
    static TSC: AtomicBool = AtomicBool::new(false);
    static DISPATCH: AtomicBool = AtomicBool::new(false);
    static POLLING: AtomicBool = AtomicBool::new(false);
    let set = |argument, value| {
        // SAFETY: in the pre-syscall event; `leave_traces` restores the register.
        unsafe { call_event::set_argument(context, argument, value) };
    };
    if let Some(argument) = own_program(number, args) {
        set(argument, program().as_ptr() as u64);
        return None;
    }
    match number {
        // It would lock, and fill, the whole shadow.
        libc::SYS_mlockall => match args[0] {
            1..=7 if args[0] != 4 => Some(0),
            _ => error(libc::EINVAL),
        },
        libc::SYS_munlockall => Some(0),
        libc::SYS_brk => match program_break::before(args[0]) {
            Step::Is(result) => Some(result.cast_signed()),
            _ => None,
        },
        // DynamoRIO's handlers would go with the program's. Kernels before 5.5 do not know the flag, and libraries do without it. A size of
        // zero makes the kernel say so.
        libc::SYS_clone3 if clone_flags(number, args).is_some_and(|flags| flags & CLONE_CLEAR_SIGHAND != 0) => {
            set(1, 0);
            None
        }
        libc::SYS_signalfd | libc::SYS_signalfd4 => signal_descriptor(number, args),
        libc::SYS_prctl if args[0] as i32 == libc::PR_SET_TSC && args[1] as i32 == libc::PR_TSC_SIGSEGV => {
            warn_once(
                &TSC,
                "the program forbids itself to read the time stamp counter, which recording needs: refused",
            );
            error(libc::EINVAL)
        }
        // DynamoRIO makes the program's calls, and its own, from where the program has no code.
        libc::SYS_prctl if args[0] == PR_SET_SYSCALL_USER_DISPATCH && args[1] != PR_SYS_DISPATCH_OFF => {
            warn_once(
                &DISPATCH,
                "the program asks for a signal in place of its system calls (syscall user dispatch): refused",
            );
            error(libc::EINVAL)
        }
        libc::SYS_prctl | libc::SYS_seccomp if seccomp_mode(number, args).is_some() => restricted(thread, number, args),
        // As on processors without protection keys: nothing that CPUID does not show.
        libc::SYS_pkey_alloc | libc::SYS_pkey_free => error(libc::EINVAL),
        libc::SYS_pkey_mprotect if args[3] as i32 != -1 => error(libc::EINVAL),
        // What the kernel takes from such a ring no system call shows, and nothing would explain what it then writes.
        libc::SYS_io_uring_setup if polls(args[1]) => {
            warn_once(&POLLING, "the program asks for an io_uring with a thread of the kernel's (SQPOLL): refused");
            error(libc::EINVAL)
        }
        libc::SYS_execve => unreadable(args[0], [args[1], args[2]]),
        libc::SYS_execveat => unreadable(args[1], [args[2], args[3]]),
        libc::SYS_ptrace => {
            let message = "the program traces another process: what that is and does is what recording makes of it";
            warn_once(&PTRACE, message);
            None
        }
        // The program falls back to read and write, through memory that the log has.
        _ => match kernel_copy_target(number, args) {
            Some(fd) if thread.recording() && streams::of(fd) != OutputStream::None => error(libc::EINVAL),
            _ => None,
        },
    }
}

/// `signalfd`: DynamoRIO's emulation knows nothing of signals that wait in the kernel.
fn signal_descriptor(number: i64, args: &[u64; 6]) -> Option<i64> {
    let flags = if number == libc::SYS_signalfd4 { args[3] } else { 0 };
    if args[2] != SET_BYTES {
        return error(libc::EINVAL);
    }
    // SAFETY: the program's own call; the kernel checks the pointer.
    made(unsafe { libc::syscall(libc::SYS_signalfd4, args[0], args[1], SET_BYTES, flags) })
}

/// The program restricts its system calls.
fn restricted(thread: &mut Thread, number: i64, args: &[u64; 6]) -> Option<i64> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let message = "the program restricts its own system calls (seccomp); the recorder needs some, too, and if they \
                   are not among those that it allows, the system will kill it";
    warn_once(&SAID, message);
    handover::restrict();
    thread.take_back_log();
    // Strict mode, which surely would, is refused.
    if seccomp_mode(number, args) == Some(Seccomp::Strict) { error(libc::EINVAL) } else { None }
}

/// The result of a system call that reaches for memory in which there is something of ours that cannot make way.
pub fn in_the_way(context: *mut c_void, thread: &mut Thread, number: i64, args: &[u64; 6]) -> Option<i64> {
    static SAID: AtomicBool = AtomicBool::new(false);
    if reserves(number, args) {
        return Some(args[0].cast_signed());
    }
    let mut refused = false;
    for claim in claims::of(number, args).into_iter().filter(|claim| !claim.yields) {
        match recorders::instead(number, &claim.range, shadow::is_ours) {
            Some(Instead::Result(result)) => return Some(result),
            Some(Instead::Part(part)) => {
                let part = [(0, part.start), (1, part.end - part.start)];
                thread.syscall.substitution = Substitution::make(context, number, &part);
            }
            Some(Instead::Refused) => refused = true,
            None => {}
        }
    }
    if !refused && thread.make_way(number, args) {
        return None;
    }
    let message = "the program asks for memory at an address of its own choice, where the recorder keeps its own, as what it \
                   knows of another thread: refused with ENOMEM";
    warn_once(&SAID, message);
    error(libc::ENOMEM)
}

/// Whether a system call reserves address space for nothing, at a place of the program's choice, which is done here, around what is ours.
fn reserves(number: i64, args: &[u64; 6]) -> bool {
    const HOW: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let [start, len, protection, flags, ..] = *args;
    let whole = start.is_multiple_of(Addr::PAGE) && start != 0;
    number == libc::SYS_mmap
        && whole
        && protection as i32 == libc::PROT_NONE
        && flags as i32 & !libc::MAP_NORESERVE == HOW
        && start.checked_add(len).is_some_and(|end| reserved::reserve(&(start..end.next_multiple_of(Addr::PAGE))))
}

/// Whether parameters of an io_uring ask for a thread of the kernel's that polls it.
fn polls(parameters: u64) -> bool {
    /// Where the flags are, and the one in question.
    const FLAGS: u64 = 8;
    const SETUP_SQPOLL: u32 = 1 << 1;
    let mut flags = [0; 4];
    read_memory(parameters.wrapping_add(FLAGS), &mut flags) && u32::from_le_bytes(flags) & SETUP_SQPOLL != 0
}

/// A way in which a program restricts its system calls.
#[derive(PartialEq, Eq)]
enum Seccomp {
    Strict,
    Filter,
}

/// What a system call sets.
fn seccomp_mode(number: i64, args: &[u64; 6]) -> Option<Seccomp> {
    let mode = match number {
        libc::SYS_prctl if args[0] as i32 == libc::PR_SET_SECCOMP => args[1].checked_sub(1)?,
        libc::SYS_seccomp => args[0],
        _ => return None,
    };
    match mode {
        0 => Some(Seccomp::Strict),
        1 => Some(Seccomp::Filter),
        _ => None,
    }
}

/// The descriptor that a system call moves data to inside the kernel, past the program's memory.
fn kernel_copy_target(number: i64, args: &[u64; 6]) -> Option<u64> {
    match number {
        libc::SYS_sendfile => Some(args[0]),
        libc::SYS_splice | libc::SYS_copy_file_range => Some(args[2]),
        libc::SYS_tee => Some(args[1]),
        libc::SYS_vmsplice => Some(args[0]),
        _ => None,
    }
}

/// The program's file.
fn program() -> &'static CStr {
    static PATH: OnceLock<CString> = OnceLock::new();
    PATH.get_or_init(|| main_module().and_then(|module| module.path).unwrap_or_default())
}

/// The argument of a system call that opens or looks at `/proc/self/exe`, which is DynamoRIO.
fn own_program(number: i64, args: &[u64; 6]) -> Option<usize> {
    let argument = match number {
        libc::SYS_open | libc::SYS_stat | libc::SYS_access | libc::SYS_statfs => 0,
        libc::SYS_openat | libc::SYS_openat2 | libc::SYS_faccessat => 1,
        libc::SYS_newfstatat | libc::SYS_faccessat2 if args[3] as i32 & libc::AT_SYMLINK_NOFOLLOW == 0 => 1,
        libc::SYS_statx if args[2] as i32 & libc::AT_SYMLINK_NOFOLLOW == 0 => 1,
        _ => return None,
    };
    let mut text = [0; 15];
    if !read_memory(args[argument], &mut text[..1]) || text[0] != b'/' {
        return None;
    }
    let own = format!("/proc/{}/exe\0", process::current_pid());
    let is = |name: &[u8]| {
        let mut bytes = vec![0; name.len()];
        read_memory(args[argument], &mut bytes) && bytes == name
    };
    let found = is(b"/proc/self/exe\0") || is(own.as_bytes());
    (found && !program().is_empty()).then_some(argument)
}

/// `EFAULT` if a path or one of two lists of strings cannot be read, where DynamoRIO would fail.
fn unreadable(path: u64, lists: [u64; 2]) -> Option<i64> {
    let readable = |address| read_memory(address, &mut [0; 1]);
    let list = |start: u64| {
        // More strings than the kernel takes.
        for at in (start..).step_by(8).take(1 << 22) {
            let mut pointer = [0; 8];
            if !read_memory(at, &mut pointer) {
                return false;
            }
            match u64::from_le_bytes(pointer) {
                0 => return true,
                string if !readable(string) => return false,
                _ => {}
            }
        }
        true
    };
    let fine = readable(path) && lists.into_iter().all(|start| start == 0 || list(start));
    if fine { None } else { error(libc::EFAULT) }
}
