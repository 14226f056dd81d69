//! Confines an expansion: it executes code of a light log, which is input from a stranger. It writes in the folder of the log that it makes, and nowhere else; it
//! starts, connects and sends nothing, and reaches no other process.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::Error;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// System calls that DynamoRIO and the logger need from then on.
const ALLOWED: [i64; 68] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_open,
    libc::SYS_close,
    libc::SYS_stat,
    libc::SYS_fstat,
    libc::SYS_lstat,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_brk,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_access,
    libc::SYS_sched_yield,
    libc::SYS_mremap,
    libc::SYS_mincore,
    libc::SYS_madvise,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_nanosleep,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_getpid,
    libc::SYS_fork,
    libc::SYS_exit,
    libc::SYS_wait4,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_getdents64,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getrlimit,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_getuid,
    libc::SYS_getppid,
    libc::SYS_sigaltstack,
    libc::SYS_arch_prctl,
    libc::SYS_gettid,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit_group,
    libc::SYS_tgkill,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_openat,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_set_robust_list,
    libc::SYS_statx,
    libc::SYS_getrandom,
    libc::SYS_membarrier,
    libc::SYS_fchmod,
];

/// Rights of Landlock's first version: all of them, and those to read.
const ALL: u64 = (1 << 13) - 1;
const READ: u64 = 1 << 2 | 1 << 3;
const LANDLOCK_RULE_PATH_BENEATH: u64 = 1;

/// What is allowed below a folder, as the kernel has it.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

fn allow(ruleset: i64, path: &Path, rights: u64) -> Result<(), String> {
    let wrong = || format!("{}: {}", path.display(), Error::last_os_error());
    let text = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: a path.
    let parent = unsafe { libc::open(text.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if parent < 0 {
        return Err(wrong());
    }
    let rule = PathBeneath { allowed: rights, parent };
    // SAFETY: a structure of the kernel's, and descriptors of this function's.
    let added = unsafe {
        let added =
            libc::syscall(libc::SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &raw const rule, 0u64);
        libc::close(parent);
        added
    };
    if added < 0 { Err(wrong()) } else { Ok(()) }
}

/// What a `clone` has among its flags that makes a thread, and nothing else: all of these, and none of the others.
const THREAD: u64 = (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND) as u64;
const NO_THREAD: u64 = (libc::CLONE_VFORK
    | libc::CLONE_PTRACE
    | libc::CLONE_PARENT
    | libc::CLONE_IO
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32 as u64;

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let is_thread = SeccompCmpOp::MaskedEq(THREAD | NO_THREAD);
    let is_thread = SeccompCondition::new(0, SeccompCmpArgLen::Qword, is_thread, THREAD)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_thread])?]);
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refuse, SeccompAction::Allow, TargetArch::x86_64)?.try_into()
}

/// Confines the process and its forks, for good: it writes below `log` and `memory`, and reads there, below `light` and what the system says of itself.
///
/// # Errors
/// A sentence.
pub fn confine(log: &Path, memory: &Path, light: &Path) -> Result<(), String> {
    let handled = ALL;
    // SAFETY: a number that says what is to be restricted, and its size.
    let ruleset = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, 8usize, 0u64) };
    if ruleset < 0 {
        let why = Error::last_os_error();
        return Err(format!(
            "a log is expanded where Landlock confines that (Linux 5.13 has it), and here it does not: {why}"
        ));
    }
    allow(ruleset, log, ALL)?;
    allow(ruleset, memory, ALL)?;
    allow(ruleset, light, READ)?;
    allow(ruleset, Path::new("/proc"), READ)?;
    // SAFETY: numbers, and a descriptor of this function's.
    let confined = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let confined = libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0u64);
        libc::close(ruleset as i32);
        confined
    };
    if confined < 0 {
        return Err(format!("an expansion cannot be confined: {}", Error::last_os_error()));
    }
    let program = filter().map_err(|e| format!("cannot build the seccomp filter: {e}"))?;
    seccompiler::apply_filter(&program).map_err(|e| format!("cannot confine an expansion with seccomp: {e}"))
}
