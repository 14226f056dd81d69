//! The upper halves of a process's YMM registers, which ptrace shows as XSAVE stores them.

use crate::host::refused;
use bugnet_replay::Result;
use nix::errno::Errno;
use nix::unistd::Pid;
use std::arch::x86_64::__cpuid_count;

/// Which registers `PTRACE_GETREGSET` and `PTRACE_SETREGSET` are about: all that XSAVE knows.
const NT_X86_XSTATE: usize = 0x202;
/// The most bytes that a processor has of them.
const MOST: usize = 64 << 10;
/// Where XSTATE_BV is, which says what is not in its initial state, and the bit of the upper halves in it.
const STATES: usize = 512;
const UPPER: u64 = 1 << 2;

/// Sets them, 16 bytes of each register in their order; where all are zero, they are left as a process begins with them.
///
/// # Errors
/// The processor has none, or the operating system forbids it.
pub(crate) fn set_upper_halves(pid: Pid, upper: &[u8]) -> Result<()> {
    if upper.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let what = "a process's vector registers";
    let mut state = vec![0; MOST];
    let len = transfer(libc::PTRACE_GETREGSET, pid, &mut state).map_err(refused(what))?;
    state.truncate(len);
    // Leaf 13 says of each part of the state how long it is, and where.
    let at = __cpuid_count(13, UPPER.trailing_zeros()).ebx as usize;
    let lacks = || refused(what)(Errno::ENODEV);
    state.get_mut(at..at + upper.len()).ok_or_else(lacks)?.copy_from_slice(upper);
    let states =
        state.get_mut(STATES..STATES + 8).and_then(|bytes| <&mut [u8; 8]>::try_from(bytes).ok()).ok_or_else(lacks)?;
    *states = (u64::from_le_bytes(*states) | UPPER).to_le_bytes();
    transfer(libc::PTRACE_SETREGSET, pid, &mut state).map(drop).map_err(refused(what))
}

/// Gets or sets all of the state; how many bytes that was.
fn transfer(request: libc::c_uint, pid: Pid, state: &mut [u8]) -> nix::Result<usize> {
    let mut vector = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
    // SAFETY: the kernel reads or writes the bytes that the vector names, which are those of a slice, and the vector's length.
    let done = unsafe { libc::ptrace(request, pid.as_raw(), NT_X86_XSTATE, &raw mut vector) };
    Errno::result(done).map(|_| vector.iov_len)
}
