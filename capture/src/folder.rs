//! The folder of light logs. Before the process may lose the way there (it gives up rights, or gets another root directory), it opens the folder, on a descriptor that the program
//! does not see: calls about it are answered as if it were not open. Programs that it executes have it, too, if they are captured.

use crate::state;
use crate::sys::{self, O_CLOEXEC, O_DIRECTORY};
use crate::text::Text;
use core::fmt::{Arguments, Write};

const DUP: u64 = 32;
const DUP2: u64 = 33;
const DUP3: u64 = 292;
const CLOSE_RANGE: u64 = 436;
/// `close_range`: descriptors are closed where a program is executed.
const CLOSE_RANGE_CLOEXEC: u64 = 4;
const F_DUPFD_CLOEXEC: u64 = 1030;
const F_SETFD: u64 = 2;
const FD_CLOEXEC: u64 = 1;
const GETEUID: u64 = 107;
const FCHMOD: u64 = 91;
const OPENAT: u64 = 257;
const UNLINKAT: u64 = 263;
const RENAMEAT: u64 = 264;
const LINKAT: u64 = 265;
const FACCESSAT: u64 = 269;
const RLIMIT_NOFILE: u64 = 7;
const O_PATH: u64 = 0o10_000_000;
const AT_FDCWD: u64 = -100i64 as u64;
const EBADF: i64 = -9;
const OWNER: u64 = 0o600;
/// Whoever has the log's folder, which is the recording user's alone, can use these.
const ALL: u64 = 0o666;

/// `setuid`, `setgid`, `setreuid`, `setregid`, `setgroups`, `setresuid`, `setresgid`, `setfsuid`, `setfsgid`, `capset`, `pivot_root`, `chroot`, `unshare`, `setns`.
const LOSES_WAY: [u64; 14] = [105, 106, 113, 114, 116, 117, 119, 122, 123, 126, 155, 161, 272, 308];
/// From which number on the descriptor lies, if it can: what programs open has lower ones, and those that close everything come to their limit first.
const HIGH: u64 = 4096;

/// The folder's descriptor, if it is open.
#[derive(Clone, Copy)]
pub struct Folder {
    file: Option<u32>,
    /// Whether what the process makes there is for other users, too: those that it may become.
    is_for_all: bool,
}

impl Folder {
    pub const fn new() -> Self {
        Self { file: None, is_for_all: false }
    }

    /// What a program is told that is executed: the descriptor; 0 for none.
    pub fn number(&self) -> u32 {
        self.file.unwrap_or(0)
    }
}

/// The program begins, with the folder on this descriptor, if that is not 0.
pub fn begin(number: u32) {
    // SAFETY: no arguments.
    let is_root = unsafe { sys::call3(GETEUID, 0, 0, 0) } == 0;
    let file = Some(number).filter(|number| *number != 0);
    state::get().at = Folder { file, is_for_all: is_root || file.is_some() };
    goes_along(false);
}

/// Whether the descriptor is there in a program that is executed.
pub fn goes_along(goes: bool) {
    if let Some(file) = state::get().at.file {
        // SAFETY: this program's own descriptor.
        unsafe { sys::call3(sys::FCNTL, file.into(), F_SETFD, if goes { 0 } else { FD_CLOEXEC }) };
    }
}

/// The light part is over: the program has all descriptors for itself.
pub fn close() {
    if let Some(file) = state::get().at.file.take() {
        // SAFETY: this program's own descriptor.
        unsafe { sys::call3(sys::CLOSE, file.into(), 0, 0) };
    }
}

/// Closes all other descriptors of the calling process, which has had them together with the program, and has its own ones from here on. Whether that was possible.
pub fn close_others() -> bool {
    const UNSHARE: u64 = 2;
    // SAFETY: numbers.
    let close = |first: u32, last: u32| unsafe { sys::call3(CLOSE_RANGE, first.into(), last.into(), UNSHARE) } == 0;
    match state::get().at.file {
        Some(file) => (file == 0 || close(0, file - 1)) && close(file + 1, u32::MAX),
        None => close(0, u32::MAX),
    }
}

/// Before a call of the program's: opens the folder, if the call may lead away from it. The answer, if it is about the folder's descriptor.
pub fn answer(number: u64, args: &[u64; 6]) -> Option<i64> {
    let Some(file) = state::get().at.file else {
        if LOSES_WAY.contains(&number) {
            open();
        }
        return None;
    };
    let [first, second] = [args[0] as u32, args[1] as u32];
    match number {
        sys::CLOSE | sys::FSTAT | sys::FCNTL | DUP if first == file => Some(EBADF),
        DUP2 | DUP3 if first == file => Some(EBADF),
        DUP2 | DUP3 if second == file => {
            move_from(file);
            None
        }
        CLOSE_RANGE if args[2] & CLOSE_RANGE_CLOEXEC == 0 && (first..=second).contains(&file) => {
            let close = |first: u32, last: u32| {
                // SAFETY: the program's own descriptors.
                unsafe { sys::call3(CLOSE_RANGE, first.into(), last.into(), args[2]) }
            };
            let below = if first < file { close(first, file - 1) } else { 0 };
            let above = if file < second { close(file + 1, second) } else { 0 };
            Some(below.min(above))
        }
        _ => None,
    }
}

fn open() {
    if let Ok(file) = u32::try_from(Entry::of(format_args!("")).open(O_PATH | O_DIRECTORY)) {
        move_from(file);
    }
}

/// Gives the folder another descriptor than this one; or none, where there is no other.
fn move_from(file: u32) {
    // SAFETY: an array of two, or none.
    let limit = |new: u64, old: u64| unsafe { sys::call(sys::PRLIMIT, [0, RLIMIT_NOFILE, new, old, 0, 0]) };
    let mut limits = [0u64; 2];
    limit(0, limits.as_mut_ptr() as u64);
    let [most, hard] = limits;
    // Above what the program may have, if that is not too high: the kernel has a table of all numbers up to the highest.
    let raised = [most + 64, hard.max(most + 64)];
    let is_raised = most <= HIGH && limit(raised.as_ptr() as u64, 0) == 0;
    let places = [if is_raised { most.max(u64::from(file) + 1) } else { HIGH }, most.saturating_sub(16), most / 2, 0];
    let moved = places
        .into_iter()
        // SAFETY: this program's own descriptor.
        .map(|place| unsafe { sys::call3(sys::FCNTL, file.into(), F_DUPFD_CLOEXEC, place) })
        .find_map(|moved| u32::try_from(moved).ok());
    if is_raised {
        limit(limits.as_ptr() as u64, 0);
    }
    state::get().at.file = moved;
    // SAFETY: this program's own descriptor.
    unsafe { sys::call3(sys::CLOSE, file.into(), 0, 0) };
}

/// A file in the folder.
pub struct Entry {
    folder: u64,
    path: Text<1200>,
}

impl Entry {
    /// The one with this name.
    pub fn of(name: Arguments<'_>) -> Self {
        let state = state::get();
        let (mut folder, mut path) = (AT_FDCWD, Text::new());
        if let Some(file) = state.at.file {
            folder = file.into();
            // The folder itself has no name.
            let _ = write!(path, "./{name}");
        } else {
            path.push(state::text(&state.folder));
            let _ = write!(path, "/light/{name}");
        }
        Self { folder, path }
    }

    /// The same, with more behind its name.
    pub fn with(&self, behind: Arguments<'_>) -> Self {
        let mut path = Text::new();
        path.push(self.path.bytes());
        let _ = write!(path, "{behind}");
        Self { folder: self.folder, path }
    }

    /// Opens it: the descriptor, or the system's error.
    pub fn open(&self, flags: u64) -> i64 {
        let is_for_all = state::get().at.is_for_all;
        let mode = if is_for_all { ALL } else { OWNER };
        // SAFETY: a path that ends with a zero byte; this program's own descriptor.
        unsafe {
            let args = [self.folder, self.path.address(), flags | O_CLOEXEC, mode, 0, 0];
            let file = sys::call(OPENAT, args);
            if is_for_all && file >= 0 && flags & sys::O_CREAT != 0 {
                // Whatever the program's mask is.
                sys::call3(FCHMOD, file as u64, mode, 0);
            }
            file
        }
    }

    pub fn is_there(&self) -> bool {
        // SAFETY: a path that ends with a zero byte.
        unsafe { sys::call3(FACCESSAT, self.folder, self.path.address(), 0) == 0 }
    }

    pub fn remove(&self) {
        // SAFETY: a path that ends with a zero byte.
        unsafe { sys::call3(UNLINKAT, self.folder, self.path.address(), 0) };
    }

    /// It gets another name; whether it has.
    pub fn rename(&self, to: &Self) -> bool {
        self.name_as(RENAMEAT, to) == 0
    }

    /// It gets a second name; the system's error where that is not possible.
    pub fn link(&self, to: &Self) -> i64 {
        self.name_as(LINKAT, to)
    }

    fn name_as(&self, call: u64, to: &Self) -> i64 {
        let args = [self.folder, self.path.address(), to.folder, to.path.address(), 0, 0];
        // SAFETY: paths that end with zero bytes.
        unsafe { sys::call(call, args) }
    }
}
