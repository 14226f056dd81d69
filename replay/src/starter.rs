//! Starts replay processes such that none outlives this process, however that ends.
//!
//! The kernel sees to it (`PR_SET_PDEATHSIG`), but what it takes for the parent is the thread that forked. So one thread
//! forks for all, and lasts as long as this process.

use std::io::{Error, Result};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};

type Answer = Sender<Result<Child>>;

static STARTER: LazyLock<Sender<(Command, Answer)>> = LazyLock::new(|| {
    let (sender, jobs) = channel::<(Command, Answer)>();
    // Where no thread can be had, `jobs` is gone and sending to it fails.
    let _ = std::thread::Builder::new().name("starter".into()).spawn(move || {
        for (mut command, answer) in jobs {
            let started = command.spawn();
            // `command` holds the child's ends of connections; without them gone its death would go unnoticed.
            drop(command);
            // Nobody waits any more: this process is about to end.
            let _ = answer.send(started);
        }
    });
    sender
});

/// Starts the command, which is killed when this process ends.
pub(crate) fn start(mut command: Command) -> Result<Child> {
    // Before the fork: afterwards it might be another one already.
    let parent = std::process::id();
    let tie = move || {
        // Ctrl-C is for this process, with which the others end. To ignore it is not enough: DynamoRIO takes all signals, and what a
        // terminal sends would come into the replay. SAFETY: a system call on numbers only.
        if unsafe { libc::setpgid(0, 0) } != 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: two system calls on numbers only.
        let (tied, now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
        match (tied, now.cast_unsigned() == parent) {
            (0, true) => Ok(()),
            (0, false) => Err(Error::from_raw_os_error(libc::ESRCH)),
            _ => Err(Error::last_os_error()),
        }
    };
    // SAFETY: `tie` runs in the child between fork and exec. It allocates nothing, takes no lock and cannot panic.
    unsafe { command.pre_exec(tie) };
    let (answer, started) = channel();
    let gone = || Error::other("no thread can be started");
    STARTER.send((command, answer)).map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn outlives_the_thread_that_asked() {
        let ask = || {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            start(command).unwrap()
        };
        let mut child = std::thread::spawn(ask).join().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
