//! Signals for people: names, and what their codes mean.

pub use bugnet_format::signal::name;
use nix::sys::signal::Signal;

/// What `si_code` says about why a signal was sent: its name in signal.h, and its meaning.
#[must_use]
pub fn meaning(number: i32, code: i32) -> Option<(&'static str, &'static str)> {
    let of_signal = CODES.iter().find(|(signal, of, ..)| *signal as i32 == number && *of == code);
    let of_any = || ANY_SIGNAL.iter().find(|(of, ..)| *of == code).map(|(_, name, text)| (*name, *text));
    of_signal.map(|(_, _, name, text)| (*name, *text)).or_else(of_any)
}

/// Whether a signal with this code tells an address.
#[must_use]
pub fn has_address(number: i32, code: i32) -> bool {
    let faults = [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGTRAP];
    faults.iter().any(|fault| *fault as i32 == number) && code > 0 && code != libc::SI_KERNEL
}

const ANY_SIGNAL: &[(i32, &str, &str)] = &[
    (libc::SI_USER, "SI_USER", "sent by kill()"),
    (libc::SI_TKILL, "SI_TKILL", "sent by raise() or tgkill()"),
    (libc::SI_QUEUE, "SI_QUEUE", "sent by sigqueue()"),
    (libc::SI_TIMER, "SI_TIMER", "a timer ran out"),
    (libc::SI_MESGQ, "SI_MESGQ", "a message came into an empty queue"),
    (libc::SI_ASYNCIO, "SI_ASYNCIO", "asynchronous input or output was done"),
    (libc::SI_SIGIO, "SI_SIGIO", "a descriptor is ready"),
    (-7, "SI_DETHREAD", "another thread executed a program"),
    (-60, "SI_ASYNCNL", "an asynchronous look-up of a name was done"),
    (libc::SI_KERNEL, "SI_KERNEL", "raised by the kernel"),
];

// The C library's header has these; the libc crate only some.
const CODES: &[(Signal, i32, &str, &str)] = &[
    (Signal::SIGSEGV, 1, "SEGV_MAPERR", "nothing is mapped at the address"),
    (Signal::SIGSEGV, 2, "SEGV_ACCERR", "the mapping at the address does not permit the access"),
    (Signal::SIGSEGV, 3, "SEGV_BNDERR", "an address bound check failed"),
    (Signal::SIGSEGV, 4, "SEGV_PKUERR", "a memory protection key forbids the access"),
    (Signal::SIGSEGV, 8, "SEGV_MTEAERR", "a memory tag does not fit, noticed later"),
    (Signal::SIGSEGV, 9, "SEGV_MTESERR", "a memory tag does not fit"),
    (Signal::SIGSEGV, 10, "SEGV_CPERR", "a return address is not that of the shadow stack"),
    (Signal::SIGSEGV, libc::SI_KERNEL, "SI_KERNEL", "general protection: an address out of any range, or misaligned"),
    (Signal::SIGBUS, 1, "BUS_ADRALN", "the address is misaligned"),
    (Signal::SIGBUS, 2, "BUS_ADRERR", "no such memory, behind the end of a mapped file for example"),
    (Signal::SIGBUS, 3, "BUS_OBJERR", "the memory's hardware failed"),
    (Signal::SIGBUS, 4, "BUS_MCEERR_AR", "the memory is damaged"),
    (Signal::SIGBUS, 5, "BUS_MCEERR_AO", "other memory of the process is damaged"),
    (Signal::SIGILL, 1, "ILL_ILLOPC", "no such instruction"),
    (Signal::SIGILL, 2, "ILL_ILLOPN", "no such operand"),
    (Signal::SIGILL, 3, "ILL_ILLADR", "no such addressing mode"),
    (Signal::SIGILL, 4, "ILL_ILLTRP", "no such trap"),
    (Signal::SIGILL, 5, "ILL_PRVOPC", "a privileged instruction"),
    (Signal::SIGILL, 6, "ILL_PRVREG", "a privileged register"),
    (Signal::SIGILL, 7, "ILL_COPROC", "a coprocessor's error"),
    (Signal::SIGILL, 8, "ILL_BADSTK", "an error of the processor's own stack"),
    (Signal::SIGILL, 9, "ILL_BADIADDR", "no such instruction address"),
    (Signal::SIGFPE, 1, "FPE_INTDIV", "integer division by zero"),
    (Signal::SIGFPE, 2, "FPE_INTOVF", "integer overflow"),
    (Signal::SIGFPE, 3, "FPE_FLTDIV", "floating-point division by zero"),
    (Signal::SIGFPE, 4, "FPE_FLTOVF", "floating-point overflow"),
    (Signal::SIGFPE, 5, "FPE_FLTUND", "floating-point underflow"),
    (Signal::SIGFPE, 6, "FPE_FLTRES", "inexact floating-point result"),
    (Signal::SIGFPE, 7, "FPE_FLTINV", "invalid floating-point operation"),
    (Signal::SIGFPE, 8, "FPE_FLTSUB", "a subscript out of range"),
    (Signal::SIGFPE, 14, "FPE_FLTUNK", "an unknown floating-point exception"),
    (Signal::SIGFPE, 15, "FPE_CONDTRAP", "a trap on a condition"),
    (Signal::SIGTRAP, 1, "TRAP_BRKPT", "a breakpoint"),
    (Signal::SIGTRAP, 2, "TRAP_TRACE", "a single step"),
    (Signal::SIGTRAP, 3, "TRAP_BRANCH", "a branch was taken"),
    (Signal::SIGTRAP, 4, "TRAP_HWBKPT", "a hardware breakpoint or watchpoint"),
    (Signal::SIGTRAP, 5, "TRAP_UNK", "an unknown trap"),
    (Signal::SIGTRAP, 6, "TRAP_PERF", "a performance counter ran over"),
    (Signal::SIGTRAP, libc::SI_KERNEL, "SI_KERNEL", "a breakpoint instruction"),
    (Signal::SIGIO, 1, "POLL_IN", "there is input"),
    (Signal::SIGIO, 2, "POLL_OUT", "output is possible"),
    (Signal::SIGIO, 3, "POLL_MSG", "there is a message"),
    (Signal::SIGIO, 4, "POLL_ERR", "an error of input or output"),
    (Signal::SIGIO, 5, "POLL_PRI", "there is urgent input"),
    (Signal::SIGIO, 6, "POLL_HUP", "the other end hung up"),
    (Signal::SIGSYS, 1, "SYS_SECCOMP", "a filter forbids the system call"),
    (Signal::SIGSYS, 2, "SYS_USER_DISPATCH", "the program dispatches the system call itself"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_meanings() {
        assert_eq!(name(11), "SIGSEGV");
        assert_eq!(name(40), "signal 40");
        assert_eq!(meaning(11, 1).unwrap().0, "SEGV_MAPERR");
        assert!(meaning(11, libc::SI_KERNEL).unwrap().1.starts_with("general protection"));
        assert!(meaning(5, libc::SI_KERNEL).unwrap().1.starts_with("a breakpoint"));
        assert_eq!(meaning(6, -6).unwrap().0, "SI_TKILL");
        assert_eq!(meaning(6, 77), None);
        // The numbers are those of the system's header.
        for (signal, code, name) in [
            (6, libc::SI_USER, "SI_USER"),
            (10, libc::SI_QUEUE, "SI_QUEUE"),
            (14, libc::SI_KERNEL, "SI_KERNEL"),
            (34, libc::SI_TIMER, "SI_TIMER"),
            (34, libc::SI_MESGQ, "SI_MESGQ"),
            (29, libc::SI_ASYNCIO, "SI_ASYNCIO"),
            (29, libc::SI_SIGIO, "SI_SIGIO"),
            (29, 1, "POLL_IN"),
            (11, 2, "SEGV_ACCERR"),
            (7, libc::BUS_ADRERR, "BUS_ADRERR"),
            (7, libc::BUS_MCEERR_AO, "BUS_MCEERR_AO"),
            (8, 1, "FPE_INTDIV"),
            (8, 15, "FPE_CONDTRAP"),
            (4, 2, "ILL_ILLOPN"),
            (5, libc::TRAP_HWBKPT, "TRAP_HWBKPT"),
            (31, 1, "SYS_SECCOMP"),
        ] {
            assert_eq!(meaning(signal, code).map(|(name, _)| name), Some(name));
        }
        let mut codes: Vec<_> = CODES.iter().map(|(signal, code, ..)| (*signal as i32, *code)).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), CODES.len(), "each code is there once");
        assert!(has_address(11, 1) && !has_address(11, libc::SI_KERNEL) && !has_address(11, 0) && !has_address(6, 1));
    }
}
