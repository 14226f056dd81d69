//! The recorder's files, on descriptors that the program cannot get at.
//!
//! The kernel gives the lowest number that is free, which the program may close, and take for another file of its own. DynamoRIO moves a
//! file to where the program has none, and keeps the program from closing it there. Until it is there, nobody closes or opens anything: calls of the
//! program's that do wait meanwhile, and who opens a file waits for those that are being made, though not for ever, since the kernel may keep
//! one.

use bugnet_dr::file::File as Hidden;
use rustix::fs::RawDir;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Result};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// So long who opens a file waits for the program's calls.
const PATIENCE: Duration = Duration::from_millis(20);
/// So long a call of the program's waits at most: what is opened may be the program's own to supply.
const LONGEST: Duration = Duration::from_millis(500);

/// How many files of the recorder's are being opened.
static OPENING: AtomicU32 = AtomicU32::new(0);
/// How many calls of the program's are being made that take a number or give one.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Lets others go first until there is nothing to wait for, or time is up.
fn wait(longest: Duration, mut is_over: impl FnMut() -> bool) {
    let mut until = None;
    while !is_over() {
        let now = Instant::now();
        if now > *until.get_or_insert(now + longest) {
            return;
        }
        std::thread::yield_now();
    }
}

/// The program is about to make a call that takes a descriptor's number or gives one.
pub fn call_begins() {
    CALLS.fetch_add(1, Ordering::SeqCst);
    if OPENING.load(Ordering::SeqCst) > 0 {
        CALLS.fetch_sub(1, Ordering::SeqCst);
        wait(LONGEST, || OPENING.load(Ordering::SeqCst) == 0);
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
}

/// It has been made.
pub fn call_ends() {
    CALLS.fetch_sub(1, Ordering::SeqCst);
}

/// In a process that was just forked, by a thread that makes no such call: there is no other one.
pub fn forget() {
    OPENING.store(0, Ordering::SeqCst);
    CALLS.store(0, Ordering::SeqCst);
}

/// What a function does with descriptors that the program could get at, while it does not.
pub fn undisturbed<T>(function: impl FnOnce() -> T) -> T {
    OPENING.fetch_add(1, Ordering::SeqCst);
    wait(PATIENCE, || CALLS.load(Ordering::SeqCst) == 0);
    let result = function();
    OPENING.fetch_sub(1, Ordering::SeqCst);
    result
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// To be read.
    Read,
    /// To be read and written; it does not exist yet.
    New,
    /// To be written, with nothing in it.
    Empty,
    /// To be appended to; it is made if there is none.
    Append,
}

impl How {
    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        match self {
            Self::Read => options.read(true),
            Self::New => options.read(true).write(true).create_new(true),
            Self::Empty => options.write(true).create(true).truncate(true),
            Self::Append => options.append(true).create(true),
        };
        options
    }

    fn open_hidden(self, path: &Path) -> Option<Hidden> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        match self {
            Self::Read => Hidden::open_read(&path),
            Self::New => Hidden::create_new(&path),
            Self::Empty => Hidden::create(&path),
            Self::Append => Hidden::append(&path),
        }
    }
}

/// A file of the recorder's.
#[derive(Debug)]
pub struct OwnFile {
    file: ManuallyDrop<File>,
    /// As DynamoRIO has it; `None` where it could not be moved out of the program's reach.
    hidden: Option<Hidden>,
}

impl OwnFile {
    /// Opens a file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(path: &Path, how: How) -> Result<Self> {
        undisturbed(|| {
            if let Some(hidden) = how.open_hidden(path) {
                // SAFETY: an open file's, which is closed by DynamoRIO alone.
                let file = ManuallyDrop::new(unsafe { File::from_raw_fd(hidden.descriptor()) });
                return Ok(Self { file, hidden: Some(hidden) });
            }
            // DynamoRIO does not say why; and where it has no descriptor left, there may be one.
            let file = how.options().mode(0o600).open(path)?;
            Ok(Self { file: ManuallyDrop::new(file), hidden: None })
        })
    }

    /// Its descriptor, which stays open.
    pub fn leave_open(self) -> RawFd {
        ManuallyDrop::new(self).as_raw_fd()
    }

    /// Opens a file in a folder that is open, to be read. It stays where the kernel has put it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open_in(folder: RawFd, file: &str) -> Result<Self> {
        let path = CString::new(file)?;
        undisturbed(|| {
            // SAFETY: an open folder and a C string.
            let file = unsafe { libc::openat(folder, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
            if file < 0 {
                return Err(std::io::Error::last_os_error());
            }
            // SAFETY: a descriptor that was just opened and that nobody else has.
            Ok(Self { file: ManuallyDrop::new(unsafe { File::from_raw_fd(file) }), hidden: None })
        })
    }
}

impl Deref for OwnFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        match self.hidden {
            Some(hidden) => hidden.close(),
            // SAFETY: it is not used any more.
            None => unsafe { ManuallyDrop::drop(&mut self.file) },
        }
    }
}

/// All that is in a file.
///
/// # Errors
/// The kernel's.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = OwnFile::open(path.as_ref(), How::Read)?;
    (&*file).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// The kernel's.
pub fn read_text(path: impl AsRef<Path>) -> Result<String> {
    read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The names in a folder.
///
/// # Errors
/// The kernel's.
pub fn names(path: &Path) -> Result<Vec<Vec<u8>>> {
    let folder = OwnFile::open(path, How::Read)?;
    let mut room = vec![MaybeUninit::uninit(); 32 << 10];
    let (mut entries, mut names) = (RawDir::new(&*folder, &mut room), Vec::new());
    while let Some(entry) = entries.next() {
        names.push(entry?.file_name().to_bytes().to_owned());
    }
    Ok(names)
}
