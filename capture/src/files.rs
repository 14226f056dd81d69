//! Files that the program maps: the log keeps them as they are then, each once, by device, inode, size and time of change (of which no program can set the clock back, as that of
//! modification). Logs share copies by hard links, where they may.

use crate::folder::Entry;
use crate::layout::{self, SHARED_FILES};
use crate::log;
use crate::state;
use crate::sys;
use crate::text::Text;
use core::fmt::Write;

/// Most bytes of a file that is kept.
const MOST: u64 = 1 << 30;
/// Most files of which a path is known.
const KNOWN: usize = 1024;
/// Offsets in `struct stat`.
const MODE: usize = 24;
const SIZE: usize = 48;
const CHANGED: usize = 104;
const EEXIST: i64 = -17;
const REGULAR: u32 = 0o100_000;
const KIND: u32 = 0o170_000;

/// What tells a file from others, and from itself at other times.
#[derive(Clone, Copy, PartialEq)]
pub struct Key(pub [u64; 4]);

/// What a descriptor refers to.
pub enum Kind {
    /// A regular file.
    Regular(Key),
    /// Something else.
    Other,
    /// Nothing: it is not open.
    Nothing,
}

/// The file that was mapped last: programs map one part after the other.
pub struct Last {
    key: Option<Key>,
    path: [u8; 4096],
    len: usize,
    /// Whether the log has it.
    kept: bool,
}

impl Last {
    pub const fn new() -> Self {
        Self { key: None, path: [0; 4096], len: 0, kept: false }
    }
}

/// Files that the log has, by a hash of the path that the kernel names them by: the last ones.
pub struct Known {
    files: [(u64, Key); KNOWN],
    count: usize,
}

impl Known {
    pub const fn new() -> Self {
        Self { files: [(0, Key([0; 4])); KNOWN], count: 0 }
    }

    fn add(&mut self, path: &[u8], key: Key) {
        let file = (layout::hash(0, path), key);
        if !self.files.contains(&file) {
            self.files[self.count % KNOWN] = file;
            self.count += 1;
        }
    }

    /// The file that is mapped with this path and inode, if it can be no other one. A file system may show another inode than that of which a mapping tells.
    pub fn of(&self, path: &[u8], inode: u64) -> Option<Key> {
        let hash = layout::hash(0, path);
        let of_path = || self.files.iter().filter(|(known, _)| *known == hash).map(|(_, key)| *key);
        let mut of_inode = of_path().filter(|Key([_, number, ..])| *number == inode);
        let (one, other) = match of_inode.next() {
            Some(key) => (Some(key), of_inode.next()),
            None => {
                let mut all = of_path();
                (all.next(), all.next())
            }
        };
        one.filter(|_| other.is_none())
    }
}

/// What is known of an open file.
fn last(file: u64, key: Key) -> &'static mut Last {
    let last = &mut state::get().last_file;
    if last.key != Some(key) {
        let mut link = Text::<64>::new();
        let _ = write!(link, "/proc/self/fd/{file}");
        // SAFETY: a path that ends with a zero byte, and room for so many bytes.
        let len =
            unsafe { sys::call3(sys::READLINK, link.address(), last.path.as_mut_ptr() as u64, last.path.len() as u64) };
        (last.key, last.len, last.kept) = (Some(key), usize::try_from(len).unwrap_or(0), false);
    }
    last
}

/// The path of an open file, as the kernel names it.
pub fn path(file: u64, key: Key) -> &'static [u8] {
    let last = last(file, key);
    &last.path[..last.len]
}

/// What a descriptor refers to.
pub fn kind(file: u64) -> Kind {
    let mut stat = [0u8; 144];
    // SAFETY: room for the structure.
    if unsafe { sys::call3(sys::FSTAT, file, stat.as_mut_ptr() as u64, 0) } < 0 {
        return Kind::Nothing;
    }
    let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| stat[at + i]));
    if word(MODE) as u32 & KIND != REGULAR {
        return Kind::Other;
    }
    Kind::Regular(Key([word(0), word(8), word(SIZE), word(CHANGED) * 1_000_000_000 + word(CHANGED + 8)]))
}

/// Appends the name that a file has in the log.
pub fn name<const N: usize>(path: &mut Text<N>, Key([device, inode, size, changed]): Key) {
    let _ = write!(path, "{device:x}-{inode:x}-{size:x}-{changed:x}");
}

/// The entry that belongs to a file, in a folder of light logs.
pub fn entry_in(folder: &str, key: Key) -> Entry {
    let mut file = Text::<128>::new();
    name(&mut file, key);
    Entry::of(format_args!("{folder}/{}", file.text()))
}

/// Keeps a file; whether the log has it.
pub fn keep(file: u64, key: Key) -> bool {
    last(file, key).kept || {
        let kept = copy(file, key);
        last(file, key).kept = kept;
        if kept {
            state::get().known_files.add(path(file, key), key);
        }
        kept
    }
}

fn copy(file: u64, key: Key) -> bool {
    let Key([_, _, size, _]) = key;
    if size > MOST {
        return false;
    }
    let [entry, shared] = ["files", SHARED_FILES].map(|folder| entry_in(folder, key));
    // Another log may have it, or this one.
    if [0, EEXIST].contains(&shared.link(&entry)) {
        return true;
    }
    if size > log::limit() {
        return entry.is_there();
    }
    let copy = entry.open(sys::O_RDWR | sys::O_CREAT | sys::O_EXCL);
    if copy == EEXIST {
        // Whoever was first copies it, or has.
        return true;
    }
    if copy < 0 {
        return false;
    }
    let whole = fill(file, copy as u64, size);
    // SAFETY: this program's own descriptor.
    unsafe { sys::call3(sys::CLOSE, copy as u64, 0, 0) };
    if whole {
        // For the next one. The copy may lie on another file system.
        entry.link(&shared);
    } else {
        entry.remove();
    }
    whole
}

fn fill(from: u64, to: u64, size: u64) -> bool {
    let mut at = 0u64;
    while at < size {
        let mut offsets = [at, at];
        let [first, second] = &mut offsets;
        let (first, second) = ((&raw mut *first) as u64, (&raw mut *second) as u64);
        // SAFETY: two offsets, which the kernel moves.
        let copied = unsafe { sys::call(sys::COPY_FILE_RANGE, [from, first, to, second, size - at, 0]) };
        if copied <= 0 {
            return by_hand(from, to, at, size);
        }
        at += copied as u64;
    }
    true
}

/// Where the kernel does not copy from one of the file systems to the other.
fn by_hand(from: u64, to: u64, mut at: u64, size: u64) -> bool {
    let mut room = [0u8; 16 << 10];
    while at < size {
        // SAFETY: room for so many bytes; the file is this program's own.
        let moved = unsafe {
            let read = sys::call(sys::PREAD, [from, room.as_mut_ptr() as u64, room.len() as u64, at, 0, 0]);
            if read <= 0 { read } else { sys::call(sys::PWRITE, [to, room.as_ptr() as u64, read as u64, at, 0, 0]) }
        };
        if moved <= 0 {
            return false;
        }
        at += moved as u64;
    }
    true
}
