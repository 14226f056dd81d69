//! Memory that other processes could write, and do not: that of a file which nobody else has open, and anonymous memory of a process that has not forked since.
//!
//! The kernel tells of who opens such a file (a lease, `fcntl(F_SETLEASE)`), by our signal, and lets nobody have it before it is answered. Then the light part ends, as it does where
//! the process forks.

use crate::state;
use crate::sys::{self, MAP_ANONYMOUS};

const F_GETFL: u64 = 3;
const F_SETOWN: u64 = 8;
const F_SETSIG: u64 = 10;
const F_SETLEASE: u64 = 1024;
const F_DUPFD_CLOEXEC: u64 = 1030;
const F_WRLCK: u64 = 1;
const F_UNLCK: u64 = 2;
const O_ACCMODE: i64 = 3;
const O_RDONLY: i64 = 0;
/// Our own descriptors of such files have at least this number.
const OURS: u64 = 700;
/// Most of them.
const MOST: usize = 8;

/// What a process shares, or could.
#[derive(Clone, Copy)]
pub struct Shared {
    /// Whether it could share memory with its forks.
    with_forks: bool,
    files: [Option<u32>; MOST],
}

impl Shared {
    pub const fn new() -> Self {
        Self { with_forks: false, files: [None; MOST] }
    }

    /// The program maps memory that others could write; whether it is its own until somebody else asks for it.
    pub fn maps(&mut self, args: &[u64; 6]) -> bool {
        let own = args[3] & MAP_ANONYMOUS != 0 || is_read_only(args[4]) || self.lease(args[4]);
        self.with_forks |= own && (args[3] & MAP_ANONYMOUS != 0 || !is_read_only(args[4]));
        own
    }

    /// Whether forks would share its memory.
    pub fn is_with_forks(&self) -> bool {
        self.with_forks
    }

    fn lease(&mut self, file: u64) -> bool {
        let Some(slot) = self.files.iter_mut().find(|slot| slot.is_none()) else { return false };
        // The program may close its own, and the lease is to be given back.
        let own = fcntl(file, F_DUPFD_CLOEXEC, OURS);
        let Ok(own) = u32::try_from(own) else { return false };
        let file = own.into();
        let leased = fcntl(file, F_SETLEASE, F_WRLCK) == 0
            && fcntl(file, F_SETSIG, crate::signals::OURS as u64) == 0
            && fcntl(file, F_SETOWN, state::get().pid.into()) == 0;
        if leased {
            *slot = Some(own);
        } else {
            close(file);
        }
        leased
    }

    /// Others may have the files from here on.
    pub fn give_back(&mut self) {
        for file in self.files.iter_mut().filter_map(Option::take) {
            fcntl(file.into(), F_SETLEASE, F_UNLCK);
            close(file.into());
        }
    }
}

fn fcntl(file: u64, command: u64, value: u64) -> i64 {
    // SAFETY: numbers.
    unsafe { sys::call3(sys::FCNTL, file, command, value) }
}

fn close(file: u64) {
    // SAFETY: a descriptor of this program's.
    unsafe { sys::call3(sys::CLOSE, file, 0, 0) };
}

fn is_read_only(file: u64) -> bool {
    let flags = fcntl(file, F_GETFL, 0);
    flags < 0 || flags & O_ACCMODE == O_RDONLY
}
