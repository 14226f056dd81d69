//! Takes away every system call that the replay process does not need once it is set up.
//!
//! A log is input from a stranger, and replay executes the code in it. DynamoRIO and the client keep what they need to
//! manage memory, signals and the control socket; nothing can be opened, connected, started or sent any more. What is
//! refused fails with `EPERM`: DynamoRIO asks for a thing or two (`/proc/self/maps`) that it can do without.

use bugnet_format::control::CONTROL_FD;
use bugnet_format::trace::TRACE_FD;
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Standard error, for DynamoRIO's last words.
const STDERR: i32 = 2;

/// System calls that are allowed with any arguments, by number.
const ALLOWED: [i64; 19] = [
    3,   // close
    10,  // mprotect
    11,  // munmap
    13,  // rt_sigaction
    14,  // rt_sigprocmask
    15,  // rt_sigreturn
    24,  // sched_yield
    25,  // mremap
    27,  // mincore
    28,  // madvise
    39,  // getpid
    60,  // exit
    99,  // sysinfo
    131, // sigaltstack
    186, // gettid
    202, // futex
    219, // restart_syscall
    231, // exit_group
    334, // rseq
];

/// System calls that are allowed with one of these as the argument of this index: number, index, values, most of them descriptors.
/// Memory is mapped without a descriptor, which is -1, but for that in which a trace is written.
const RESTRICTED: [(i64, u8, &[i32]); 7] = [
    (0, 0, &[CONTROL_FD]),         // read
    (1, 0, &[CONTROL_FD, STDERR]), // write
    (9, 4, &[-1, TRACE_FD]),       // mmap
    // What `fork` needs: a copy of the whole process, and the socket that the other side sends for it.
    (33, 1, &[CONTROL_FD, TRACE_FD]), // dup2
    (47, 0, &[CONTROL_FD]),           // recvmsg
    (56, 0, &[0]),                    // clone, with these flags
    (61, 0, &[-1]),                   // wait4
];

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    for (call, index, descriptors) in RESTRICTED {
        let alternatives = descriptors
            .iter()
            .map(|fd| {
                let value = u64::from(fd.cast_unsigned());
                let equal = SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
                SeccompRule::new(vec![equal])
            })
            .collect::<Result<_, _>>()?;
        rules.insert(call, alternatives);
    }
    let refuse = SeccompAction::Errno(Errno::PERM.raw_os_error().cast_unsigned());
    SeccompFilter::new(rules, refuse, SeccompAction::Allow, TargetArch::x86_64)?.try_into()
}

/// Confines the process, for good.
pub fn confine() -> Result<(), String> {
    let program = filter().map_err(|e| format!("cannot build the seccomp filter: {e}"))?;
    seccompiler::apply_filter(&program).map_err(|e| format!("cannot confine the replay process with seccomp: {e}"))
}
