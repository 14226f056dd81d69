//! The folder of light logs. Before the process may lose the way there (it gives up rights, or gets another root directory), it opens the folder, on a descriptor that the program
//! does not see ([`crate::own`]). Programs that it executes have it, too, if they are captured.

use crate::own::{self, Descriptor};
use crate::state;
use crate::sys::{self, O_CLOEXEC, O_DIRECTORY};
use crate::text::Text;
use core::fmt::{Arguments, Write};

const F_SETFD: u64 = 2;
const FD_CLOEXEC: u64 = 1;
const GETEUID: u64 = 107;
const FCHMOD: u64 = 91;
const OPENAT: u64 = 257;
const UNLINKAT: u64 = 263;
const RENAMEAT: u64 = 264;
const LINKAT: u64 = 265;
const FACCESSAT: u64 = 269;
const O_PATH: u64 = 0o10_000_000;
const AT_FDCWD: u64 = -100i64 as u64;
const OWNER: u64 = 0o600;
/// Whoever has the log's folder, which is the recording user's alone, can use these.
const ALL: u64 = 0o666;

/// `setuid`, `setgid`, `setreuid`, `setregid`, `setgroups`, `setresuid`, `setresgid`, `setfsuid`, `setfsgid`, `capset`, `pivot_root`, `chroot`, `unshare`, `setns`.
const LOSES_WAY: [u64; 14] = [105, 106, 113, 114, 116, 117, 119, 122, 123, 126, 155, 161, 272, 308];

/// The folder's descriptor, if it is open.
#[derive(Clone, Copy)]
pub struct Folder {
    file: Option<Descriptor>,
    /// Whether what the process makes there is for other users, too: those that it may become.
    is_for_all: bool,
}

impl Folder {
    pub const fn new() -> Self {
        Self { file: None, is_for_all: false }
    }

    /// The descriptor.
    pub fn descriptor(&self) -> Option<Descriptor> {
        self.file
    }

    /// What a program is told that is executed: the descriptor's number; 0 for none.
    pub fn number(&self) -> u32 {
        self.file.map_or(0, |file| file.number() as u32)
    }
}

/// The program begins, with the folder on this descriptor, if that is not 0.
pub fn begin(number: u32) {
    // SAFETY: no arguments.
    let is_root = unsafe { sys::call3(GETEUID, 0, 0, 0) } == 0;
    let file = if number == 0 { None } else { own::add(number) };
    state::get().at = Folder { file, is_for_all: is_root || file.is_some() };
    goes_along(false);
}

/// Whether the descriptor is there in a program that is executed.
pub fn goes_along(goes: bool) {
    if let Some(file) = state::get().at.file {
        // SAFETY: this program's own descriptor.
        unsafe { sys::call3(sys::FCNTL, file.number(), F_SETFD, if goes { 0 } else { FD_CLOEXEC }) };
    }
}

/// The light part is over: the program has all descriptors for itself.
pub fn close() {
    state::get().at.file.take().into_iter().for_each(Descriptor::close);
}

/// Before a call of the program's: opens the folder, if the call may lead away from it.
pub fn keep_way(number: u64) {
    if state::get().at.file.is_none()
        && LOSES_WAY.contains(&number)
        && let Ok(file) = u32::try_from(Entry::of(format_args!("")).open(O_PATH | O_DIRECTORY))
    {
        state::get().at.file = own::keep(file);
    }
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
            folder = file.number();
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
