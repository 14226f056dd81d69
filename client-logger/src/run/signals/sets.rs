//! Signals by their numbers, and sets of them.

/// Signals are 1 to 64.
pub const SIGNALS: i32 = 64;

/// Size of a signal set, which system calls want to hear.
pub const SET_BYTES: u64 = 8;

/// The bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << ((signal - 1) & 63)
}

/// Signals that instructions cause, and that anybody can send as well.
pub const FAULTS: u64 =
    bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGFPE) | bit(libc::SIGILL) | bit(libc::SIGTRAP);

/// Signals that are never blocked in the kernel: faults, with SIGILL, by which DynamoRIO stops threads, and what cannot be.
pub const NEVER_BLOCKED: u64 = FAULTS | UNBLOCKABLE;

/// Signals that no program can block.
pub const UNBLOCKABLE: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);

/// Signals that by default do nothing, or stop or continue the process.
pub const LEFT_TO_KERNEL: u64 = bit(libc::SIGCHLD)
    | bit(libc::SIGURG)
    | bit(libc::SIGWINCH)
    | bit(libc::SIGCONT)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU);
