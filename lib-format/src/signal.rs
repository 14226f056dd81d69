//! Names of signals.

/// Those of Linux on x86-64, from 1.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// A signal's name, `SIGSEGV` for example; for a real-time signal, and what is none, its number.
#[must_use]
pub fn name(number: i32) -> String {
    let known = usize::try_from(number).ok().and_then(|number| NAMES.get(number.checked_sub(1)?));
    known.map_or_else(|| format!("signal {number}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!([1, 9, 11, 31].map(name), ["SIGHUP", "SIGKILL", "SIGSEGV", "SIGSYS"]);
        assert_eq!([0, -1, 32, 40].map(name), ["signal 0", "signal -1", "signal 32", "signal 40"]);
    }
}
