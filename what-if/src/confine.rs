//! What a process in which recorded code runs may ask of the kernel: its trampoline's own calls, for memory, a copy and a timer. Nothing else, and nothing
//! from anywhere else, whatever the code is that runs there, or comes to lie where it should not.
//!
//! System calls that the code makes do not get to the kernel at all (`PTRACE_SYSEMU`), so this is the second wall.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// What `madvise` may be told there: what changes the bytes that memory holds, or whether it can be accessed (`MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE`).
/// Other advice changes only how long something takes, or, where bugnet has the rights for it, the machine (`MADV_HWPOISON`).
pub(crate) const ADVICE: [i32; 5] = [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_DONTNEED_LOCKED, 102, 103];

/// A system call that is allowed, with one of these as the argument of this index; with any, where there are none.
struct Allowed(libc::c_long, u8, &'static [i32]);

const ALLOWED: [Allowed; 7] = [
    Allowed(libc::SYS_mmap, 4, &[-1]),
    Allowed(libc::SYS_munmap, 0, &[]),
    Allowed(libc::SYS_mprotect, 0, &[]),
    Allowed(libc::SYS_mremap, 0, &[]),
    Allowed(libc::SYS_madvise, 2, &ADVICE),
    Allowed(libc::SYS_fork, 0, &[]),
    Allowed(libc::SYS_setitimer, 0, &[libc::ITIMER_VIRTUAL]),
];

/// Where `struct seccomp_data` has the address behind the instruction: its lower half, and its upper one.
const IP: [u32; 2] = [8, 12];
/// `BPF_LD | BPF_W | BPF_ABS`.
const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
const JUMP_EQUAL: u16 = 0x15;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;

/// A filter that allows these calls to an instruction behind which this address is. Whoever makes another call is killed.
pub(crate) fn filter(behind: u64) -> Result<BpfProgram, BackendError> {
    let mut rules = BTreeMap::new();
    for Allowed(call, index, values) in ALLOWED {
        let alternatives = values.iter().map(|value| {
            let value = u64::from(value.cast_unsigned());
            let equal = SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
            SeccompRule::new(vec![equal])
        });
        rules.insert(call, alternatives.collect::<Result<Vec<_>, _>>()?);
    }
    let calls = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, TargetArch::x86_64)?;
    let calls: BpfProgram = calls.try_into()?;
    let plain = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    let mut program = Vec::new();
    for (offset, half) in IP.into_iter().zip([behind as u32, (behind >> 32) as u32]) {
        program.push(plain(LOAD, offset));
        program.push(sock_filter { code: JUMP_EQUAL, jt: 1, jf: 0, k: half });
        program.push(plain(RETURN, libc::SECCOMP_RET_KILL_PROCESS));
    }
    program.extend(calls);
    Ok(program)
}
