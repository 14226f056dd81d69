//! What this process inherited and its own runtime, or recording the program, changes: signals, closed standard descriptors,
//! the file mode creation mask. The recorded program must find all of it as it was.

use super::limits::Limits;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::sys::stat::{Mode, umask};
use std::io::Result;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// A bit for each of the descriptors 0 to 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before `main`: Rust's runtime then ignores SIGPIPE and opens /dev/null where a standard descriptor is closed.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = {
    extern "C" fn remember() {
        let mut old = std::mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: `old` is writable and has the right type; nothing is set.
        if unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), old.as_mut_ptr()) } == 0 {
            // SAFETY: the call succeeded, so it wrote `old`.
            let ignored = unsafe { old.assume_init() }.sa_sigaction == libc::SIG_IGN;
            SIGPIPE_IGNORED.store(ignored, Ordering::Relaxed);
        }
        for fd in 0..3 {
            // SAFETY: F_GETFD takes no pointer and changes nothing.
            if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
                CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
            }
        }
    }
    remember
};

/// Signal state, standard descriptors and file mode creation mask as this process inherited them.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    umask: Mode,
    mask: SigSet,
    child_ignored: bool,
    file_size_ignored: bool,
    limits: Limits,
}

impl Inherited {
    /// Blocks the `blocked` signals, lets ended children be waited for, and keeps all files that are made from here on to
    /// their owner, who may read and write them; raises the limit of descriptors; lets files that grow too large be
    /// errors. What was before is in the result.
    pub fn replace(blocked: &SigSet) -> Result<Self> {
        let mut mask = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(blocked), Some(&mut mask))?;
        let old = set_handler(Signal::SIGCHLD, SigHandler::SigDfl)?;
        let umask = umask(Mode::S_IRWXG | Mode::S_IRWXO);
        let file_size = set_handler(Signal::SIGXFSZ, SigHandler::SigIgn)?;
        let is_ignored = |handler| matches!(handler, SigHandler::SigIgn);
        let (child_ignored, file_size_ignored) = (is_ignored(old), is_ignored(file_size));
        Ok(Self { umask, mask, child_ignored, file_size_ignored, limits: Limits::raise()? })
    }

    /// The limits, for the logger.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Restores the signal mask only.
    pub fn restore_mask(&self) -> Result<()> {
        Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None)?)
    }

    /// Restores everything that a program finds that is recorded, or not; just before it is executed.
    pub fn restore(&self, recorded: bool) -> Result<()> {
        for fd in (0..3).filter(|fd| was_closed(*fd)) {
            // SAFETY: closes what Rust's runtime opened, in a child that uses it no more.
            unsafe { libc::close(fd) };
        }
        self.restore_all_else(recorded)
    }

    /// The same for a program that has standard descriptors of its own, and is not recorded.
    pub fn restore_but_streams(&self) -> Result<()> {
        self.restore_all_else(false)
    }

    fn restore_all_else(&self, recorded: bool) -> Result<()> {
        let handler = |ignored| if ignored { SigHandler::SigIgn } else { SigHandler::SigDfl };
        set_handler(Signal::SIGCHLD, handler(self.child_ignored))?;
        set_handler(Signal::SIGXFSZ, handler(self.file_size_ignored))?;
        set_handler(Signal::SIGPIPE, handler(SIGPIPE_IGNORED.load(Ordering::Relaxed)))?;
        umask(self.umask);
        self.limits.restore(recorded)?;
        self.restore_mask()
    }
}

/// Whether a standard descriptor was closed.
pub fn was_closed(fd: i32) -> bool {
    CLOSED.load(Ordering::Relaxed) & 1 << fd != 0
}

/// Sets a disposition that is no function, and returns the one before.
pub fn set_handler(signal: Signal, handler: SigHandler) -> Result<SigHandler> {
    assert!(!matches!(handler, SigHandler::Handler(_) | SigHandler::SigAction(_)), "only default and ignore");
    // SAFETY: default and ignore run no code of this program.
    let old = unsafe { sigaction(signal, &SigAction::new(handler, SaFlags::empty(), SigSet::empty())) }?;
    Ok(old.handler())
}
