//! Memory that other processes could write, and only those do that are forked from here, which have their turns together ([`crate::turn`]): anonymous memory, that
//! of a file which nobody else has open, and segments of System V that nobody else has attached.
//!
//! As long as one process has the file, the kernel tells of who opens it (a lease, `fcntl(F_SETLEASE)`), by our signal, and lets nobody have it before it is answered. Of files that
//! several processes have, and of segments, it tells afterwards (inotify, `shmctl`), so that each looks before its next call. Then the light part ends, as it does where
//! the process does with the memory or the file what an expansion, where the memory is another file's, does not follow.

use crate::elf::PAGE;
use crate::files::{self, Kind};
use crate::members::{self, MappedFile};
use crate::own::{self, Descriptor};
use crate::signals;
use crate::state;
use crate::sys::{self, MAP_ANONYMOUS, MAP_SHARED};
use crate::text::Text;
use crate::thread;
use crate::turn;
use core::fmt::Write;
use core::ops::Range;
use core::sync::atomic::Ordering;

const MREMAP: u64 = 25;
const NEWFSTATAT: u64 = 262;
const F_GETFL: u64 = 3;
const F_SETOWN: u64 = 8;
const F_SETSIG: u64 = 10;
const F_SETLEASE: u64 = 1024;
const F_GETLEASE: u64 = 1025;
const F_DUPFD_CLOEXEC: u64 = 1030;
const F_WRLCK: u64 = 1;
const F_UNLCK: u64 = 2;
const O_ACCMODE: i64 = 3;
const O_RDONLY: i64 = 0;
const SENDMSG: u64 = 46;
pub const RECVMSG: u64 = 47;
pub const RECVMMSG: u64 = 299;
const SENDMMSG: u64 = 307;
/// Most messages that one call sends or receives; bytes of each one's header, and of that of what comes with it.
const MESSAGES: u64 = 1024;
const MESSAGE: u64 = 64;
const CONTROL: u64 = 16;
const SOL_SOCKET: u64 = 1;
const SCM_RIGHTS: u64 = 1;
const READ: u64 = 0;
const INOTIFY_ADD_WATCH: u64 = 254;
const INOTIFY_INIT1: u64 = 294;
const IN_NONBLOCK: u64 = 0o4_000;
const IN_MODIFY: u32 = 2;
const IN_OPEN: u32 = 0x20;
const IN_Q_OVERFLOW: u32 = 0x4000;
const EVENT_WORDS: usize = 4;
const O_TRUNC: u64 = 0o1_000;
pub const NO_WATCH: &str = "the kernel does not tell of who opens a file that processes share";
pub const SHMAT: u64 = 30;
const SHMCTL: u64 = 31;
pub const SHMDT: u64 = 67;
const IPC_STAT: u64 = 2;
const SHM_RDONLY: u64 = 0o10_000;
const SHM_REMAP: u64 = 0o40_000;
const SHM_EXEC: u64 = 0o100_000;
/// Most bytes of a segment: the log has them when it is attached.
const MOST_SEGMENT: u64 = 32 << 20;
const AT_FDCWD: u64 = -100i64 as u64;
/// Most files that are known to have been given to others; where there are more, anybody may have any.
const PASSED: usize = 256;
/// Most such mappings.
const MOST: usize = 64;

/// A file: device and inode, and our descriptor, if the process has a lease.
#[derive(Clone, Copy)]
struct File {
    inode: [u64; 2],
    lease: Option<Descriptor>,
}

/// Such memory: its first byte, the one behind it, and the file.
#[derive(Clone, Copy)]
struct Mapped {
    start: u64,
    end: u64,
    /// What tells it from other memory, in all processes that have it.
    key: u64,
    /// Whether it is for this process to list its pages, where an epoch begins.
    is_listed: bool,
    file: Option<File>,
    /// The segment that it is.
    segment: Option<u32>,
}

/// What a process has of it.
#[derive(Clone, Copy)]
pub struct Shared {
    mapped: [Option<Mapped>; MOST],
    count: usize,
    /// How many there were.
    made: u32,
    /// How many of them are of files.
    of_files: usize,
    /// The file that the call maps which is being made.
    maps: Option<File>,
    /// Where the kernel tells of what happens to files that several processes have; and what it has told.
    watches: Option<Descriptor>,
    seen: Option<&'static str>,
    /// How many of them are segments; and the one that is being attached, with its bytes.
    of_segments: usize,
    attaches: (u32, u64),
    /// Files that it has given to other processes, or got from them, by device and inode: the last ones; and how many.
    passed: [[u64; 2]; PASSED],
    passed_count: usize,
}

/// Why the light part ends where somebody opens such a file.
pub const OPENED: &str = "another process opens a file that the program has mapped, and can write to";
const WRITTEN: &str = "another process writes a file that the program has mapped";
const ATTACHED: &str = "another process attaches memory that the program has attached (shmat)";
const MISUSED: &str = "the program opens, maps or writes a file that it has mapped, and can write to";

impl Shared {
    pub const fn new() -> Self {
        Self {
            mapped: [None; MOST],
            count: 0,
            made: 0,
            of_files: 0,
            maps: None,
            watches: None,
            seen: None,
            of_segments: 0,
            attaches: (0, 0),
            passed: [[0; 2]; PASSED],
            passed_count: 0,
        }
    }

    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        self.count > 0
    }

    /// Whether there are files among it, of which the kernel tells who opens them.
    pub fn has_files(&self) -> bool {
        self.of_files > 0
    }

    /// An epoch begins: finds out of which memory it is for this process to list the pages. None where that cannot be told.
    pub fn list(&mut self) -> Option<()> {
        for mapped in self.mapped.iter_mut().flatten() {
            mapped.is_listed = !turn::is_with_others() || members::lists(mapped.key)?;
        }
        Some(())
    }

    /// Where memory lies of which the process lists the pages.
    pub fn listed(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.mapped.iter().flatten().filter(|mapped| mapped.is_listed).map(|mapped| mapped.start..mapped.end)
    }

    /// What tells the memory at an address from other one, how many bytes of it come before, and whether the process lists its pages.
    pub fn at(&self, address: u64) -> Option<(u64, u64, bool)> {
        let mapped = self.mapped.iter().flatten().find(|mapped| (mapped.start..mapped.end).contains(&address))?;
        Some((mapped.key, address - mapped.start, mapped.is_listed))
    }

    fn files(&self) -> impl Iterator<Item = File> + '_ {
        self.mapped.iter().flatten().filter_map(|mapped| mapped.file)
    }

    /// Whether the program may map memory that others could write.
    pub fn may_map(&mut self, args: &[u64; 6]) -> bool {
        if args[3] & MAP_ANONYMOUS == 0 {
            let known = inode(args[4]).filter(|inode| known(*inode).is_some());
            if known.is_none() && is_read_only(args[4]) {
                return true;
            }
            let may_have = |inode: [u64; 2]| self.passed_count > PASSED || self.passed.contains(&inode);
            self.maps = match known {
                Some(inode) => Some(File { inode, lease: None }),
                None if inode(args[4]).is_some_and(may_have) => None,
                None => lease(args[4]),
            };
            if self.maps.is_none() {
                return false;
            }
        }
        self.mapped.iter().any(Option::is_none)
    }

    /// It has mapped memory, or could not.
    pub fn made(&mut self, args: &[u64; 6], result: i64) {
        let file = self.maps.take();
        let is_ours = args[3] & MAP_SHARED != 0 && (args[3] & MAP_ANONYMOUS != 0 || file.is_some());
        match u64::try_from(result) {
            Ok(start) if is_ours => {
                let end = start + args[1].next_multiple_of(PAGE);
                self.add(start..end, file, None);
                if turn::is_with_others() && !self.watch_files() {
                    state::get().ends = Some(NO_WATCH);
                }
            }
            _ => file.into_iter().for_each(File::give_back),
        }
    }

    /// Adds memory, for which there is room.
    fn add(&mut self, range: Range<u64>, file: Option<File>, segment: Option<u32>) {
        self.made = self.made.wrapping_add(1);
        let new = u64::from(state::get().pid) << 32 | u64::from(self.made);
        let key = file.and_then(|file| known(file.inode)).map_or(new, |file| file.memory.load(Ordering::SeqCst));
        let Some(slot) = self.mapped.iter_mut().find(|slot| slot.is_none()) else { return };
        let Range { start, end } = range;
        *slot = Some(Mapped { start, end, key, is_listed: false, file, segment });
        self.count_all();
    }

    fn count_all(&mut self) {
        self.count = self.mapped.iter().flatten().count();
        self.of_files = self.files().count();
        self.of_segments = self.segments().count();
    }

    fn segments(&self) -> impl Iterator<Item = u32> + '_ {
        self.mapped.iter().flatten().filter_map(|mapped| mapped.segment)
    }

    /// Whether the program may attach a segment, which nobody has.
    pub fn may_attach(&mut self, args: &[u64; 6]) -> bool {
        let Some(segment) = Segment::of(args[0]) else {
            // The kernel refuses it.
            return true;
        };
        self.attaches = (args[0] as u32, segment.bytes);
        let is_plain = args[2] & (SHM_RDONLY | SHM_REMAP | SHM_EXEC) == 0;
        is_plain && segment.attached == 0 && segment.bytes <= MOST_SEGMENT && self.mapped.iter().any(Option::is_none)
    }

    /// It has attached one, or could not.
    pub fn attached(&mut self, result: i64) {
        let (segment, bytes) = core::mem::take(&mut self.attaches);
        if let Ok(start) = u64::try_from(result) {
            self.add(start..start + bytes.next_multiple_of(PAGE), None, Some(segment));
        }
    }

    /// It has detached the one at an address.
    pub fn detached(&mut self, start: u64) {
        self.unmapped(start, self.len_at(start));
    }

    /// How many bytes of such memory there are from an address on.
    pub fn len_at(&self, start: u64) -> u64 {
        self.mapped.iter().flatten().find(|mapped| mapped.start == start).map_or(0, |mapped| mapped.end - start)
    }

    /// It has unmapped this.
    pub fn unmapped(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len.saturating_add(PAGE - 1) & !(PAGE - 1));
        let is_gone = |mapped: &Mapped| start <= mapped.start && mapped.end <= end;
        for slot in self.mapped.iter_mut().filter(|slot| slot.as_ref().is_some_and(is_gone)) {
            slot.take().and_then(|mapped| mapped.file).into_iter().for_each(File::give_back);
        }
        self.count_all();
    }

    /// Descriptors in a message that the process sends, or has received, are others', too. Whether it is about a file that it has mapped.
    pub fn passes(&mut self, number: u64, args: &[u64; 6], result: i64) -> bool {
        let messages = match number {
            SENDMSG | RECVMSG => 1,
            SENDMMSG => args[2],
            RECVMMSG => u64::try_from(result).unwrap_or(0),
            _ => return false,
        };
        let about_mapped = (0..messages.min(MESSAGES)).filter(|at| self.passes_in(args[1] + at * MESSAGE));
        about_mapped.count() > 0
    }

    /// Those in a message, whose header is at this address.
    fn passes_in(&mut self, header: u64) -> bool {
        let pair = |at: u64| {
            let bytes = sys::read::<16>(at)?;
            Some([0, 8].map(|at| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))))
        };
        let Some([mut at, bytes]) = pair(header + 32) else { return false };
        let end = at.saturating_add(bytes);
        let mut is_mapped = false;
        while at != 0
            && at + CONTROL <= end
            && let Some([bytes, kind]) = pair(at)
            && bytes >= CONTROL
        {
            let next = at.saturating_add(bytes).min(end);
            let places = if kind == SOL_SOCKET | SCM_RIGHTS << 32 { at + CONTROL..next } else { 0..0 };
            for place in places.step_by(4) {
                let inode = sys::read::<4>(place).and_then(|file| inode(u32::from_le_bytes(file).into()));
                let Some(inode) = inode else { continue };
                is_mapped |= self.files().any(|file| file.inode == inode);
                self.passed[self.passed_count % PASSED] = inode;
                self.passed_count += 1;
            }
            at = next.next_multiple_of(8);
        }
        is_mapped
    }

    /// Why the light part ends at a call that does with such memory, or its file, what private memory does not show.
    pub fn refuses(&mut self, number: u64, args: &[u64; 6]) -> Option<&'static str> {
        if matches!(number, SENDMSG | SENDMMSG) && self.passes(number, args, 0) {
            return Some("the program gives a file to another process that it has mapped, and can write to");
        }
        let is_group = turn::is_with_others() && members::have_files();
        if !self.is_any() && !is_group {
            return None;
        }
        if number == MREMAP && self.mapped.iter().flatten().any(|mapped| (mapped.start..mapped.end).contains(&args[0]))
        {
            return Some("the program moves memory that other processes could write");
        }
        // To ask what a descriptor is of takes a call.
        if !self.has_files() && !is_group {
            return None;
        }
        // What opens, with its flags; what maps; what writes.
        let (inode, flags) = match number {
            // open, openat, openat2
            2 => (inode_at(AT_FDCWD, args[0]), Some(args[1])),
            257 => (inode_at(args[0], args[1]), Some(args[2])),
            437 => (inode_at(args[0], args[1]), sys::read_word(args[2])),
            // truncate, creat
            76 | 85 => (inode_at(AT_FDCWD, args[0]), None),
            9 if args[3] & MAP_ANONYMOUS == 0 => (inode(args[4]), Some(args[3])),
            // write, pwrite64, writev, sendfile, ftruncate, fallocate, pwritev, pwritev2; splice, copy_file_range
            1 | 18 | 20 | 40 | 77 | 285 | 296 | 328 => (inode(args[0]), None),
            275 | 326 => (inode(args[2]), None),
            _ => return None,
        };
        let inode = inode?;
        match (known(inode), flags) {
            (Some(_), Some(flags)) if number == 9 && flags & MAP_SHARED != 0 => None,
            (Some(file), Some(flags)) if number != 9 && flags & O_TRUNC == 0 => {
                thread::get().opens(Some(file));
                None
            }
            (Some(_), _) => Some(MISUSED),
            (None, _) => self.files().any(|file| file.inode == inode).then_some(MISUSED),
        }
    }

    /// A call may have opened such a file.
    pub fn opened(&mut self) {
        if thread::get().is_opening() {
            self.look();
            thread::get().opens(None);
        }
    }

    /// Before a call: what a process that is not one of those that have turns has done with such a file, or segment. It is seen afterwards.
    pub fn stranger(&mut self) -> Option<&'static str> {
        if self.watches.is_some() && members::have_files() {
            self.opened();
            self.look();
        }
        // A child of `vfork` has its parent's.
        if self.of_segments > 0
            && state::get().lent == 0
            && self.segments().any(|segment| Segment::of(segment.into()).is_some_and(Segment::has_other))
        {
            self.seen = Some(ATTACHED);
        }
        self.seen
    }

    /// Looks what the kernel tells of files.
    fn look(&mut self) {
        let Some(watches) = self.watches else { return };
        let mut room = [0u32; 256];
        loop {
            // SAFETY: room for so many bytes.
            let got =
                unsafe { sys::call3(READ, watches.number(), room.as_mut_ptr() as u64, size_of_val(&room) as u64) };
            let Ok(got) = usize::try_from(got) else { return };
            if got == 0 {
                return;
            }
            // Of each event: who looks, what has happened, and two words more.
            for event in room[..got / 4].chunks_exact(EVENT_WORDS) {
                let is_ours =
                    members::file_of_watch(event[0]).is_none_or(|file| file.opening.load(Ordering::SeqCst) > 0);
                match event[1] {
                    what if what & IN_MODIFY != 0 => self.seen = Some(WRITTEN),
                    what if what & (IN_OPEN | IN_Q_OVERFLOW) != 0 && !is_ours => self.seen = Some(OPENED),
                    _ => {}
                }
            }
        }
    }

    /// Before a fork: other processes have the memory from here on, and all of them the descriptor by which the kernel tells of its files. Without it, they can map none.
    pub fn share(&mut self) {
        if self.watches.is_none() {
            // SAFETY: makes a descriptor of this program's own.
            let made = unsafe { sys::call3(INOTIFY_INIT1, IN_NONBLOCK | sys::O_CLOEXEC, 0, 0) };
            self.watches = u32::try_from(made).ok().and_then(own::keep);
        }
    }

    /// All processes know of the files of which this one has a lease, and the kernel tells of them as of those that several have. Whether that is possible.
    pub fn watch_files(&mut self) -> bool {
        for mapped in self.mapped.iter_mut().flatten() {
            let Some((file, lease)) = mapped.file.and_then(|file| Some((file, file.lease?))) else { continue };
            let Some(watches) = self.watches else { return false };
            let mut path = Text::<32>::new();
            let _ = write!(path, "/proc/self/fd/{}", lease.number());
            // SAFETY: a path that ends with a zero byte.
            let watch = unsafe {
                sys::call3(INOTIFY_ADD_WATCH, watches.number(), path.address(), (IN_OPEN | IN_MODIFY).into())
            };
            let Ok(watch) = u32::try_from(watch) else { return false };
            members::add_file(file.inode, mapped.key, watch);
            file.give_back();
            mapped.file = Some(File { lease: None, ..file });
        }
        true
    }

    /// Others may have the files from here on.
    pub fn give_back(&mut self) {
        (self.count, self.of_files, self.of_segments) = (0, 0, 0);
        self.watches.take().into_iter().for_each(Descriptor::close);
        self.mapped.iter_mut().filter_map(Option::take).filter_map(|mapped| mapped.file).for_each(File::give_back);
    }
}

impl File {
    fn give_back(self) {
        if let Some(own) = self.lease {
            fcntl(own.number(), F_SETLEASE, F_UNLCK);
            own.close();
        }
    }
}

/// What the kernel tells of a segment of System V.
#[derive(Clone, Copy)]
struct Segment {
    bytes: u64,
    /// How many processes have attached it.
    attached: u64,
    /// The process that has last attached or detached it, or was forked with it, or ended.
    last: u32,
}

impl Segment {
    fn of(segment: u64) -> Option<Self> {
        let mut told = [0u64; 14];
        // SAFETY: room for the structure.
        let found = unsafe { sys::call3(SHMCTL, segment, IPC_STAT, told.as_mut_ptr() as u64) };
        (found == 0).then_some(Self { bytes: told[6], last: (told[10] >> 32) as u32, attached: told[11] })
    }

    /// Whether a process has it that is not one of those that have turns.
    fn has_other(self) -> bool {
        let is_of_turns = turn::is_with_others() && members::has(self.last);
        !is_of_turns && self.last != state::get().pid && !members::is_gone(self.last)
    }
}

/// A lease of a file that nobody else has open.
fn lease(descriptor: u64) -> Option<File> {
    let inode = inode(descriptor)?;
    // The program may close its own, and the lease is to be given back.
    let own = own::keep(u32::try_from(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)).ok()?)?;
    let (number, owner) = (own.number(), state::get().pid);
    // One that another process has, it has given to this one, and is nobody's to give.
    let is_free = fcntl(number, F_GETLEASE, 0) == F_UNLCK as i64;
    let leased = is_free
        && fcntl(number, F_SETLEASE, F_WRLCK) == 0
        && fcntl(number, F_SETSIG, signals::OURS as u64) == 0
        && fcntl(number, F_SETOWN, owner.into()) == 0;
    if !leased {
        own.close();
    }
    leased.then_some(File { inode, lease: Some(own) })
}

/// The file with this device and inode, if several processes that have turns have mapped it, or may.
fn known(inode: [u64; 2]) -> Option<&'static MappedFile> {
    if turn::is_with_others() { members::file(inode) } else { None }
}

/// Device and inode of an open regular file.
fn inode(descriptor: u64) -> Option<[u64; 2]> {
    match files::kind(descriptor) {
        Kind::Regular(key) => Some([key.0[0], key.0[1]]),
        Kind::Other | Kind::Nothing => None,
    }
}

/// Those of the file at a path.
fn inode_at(folder: u64, path: u64) -> Option<[u64; 2]> {
    let mut stat = [0u64; 18];
    // SAFETY: room for the structure.
    let found = unsafe { sys::call(NEWFSTATAT, [folder, path, stat.as_mut_ptr() as u64, 0, 0, 0]) };
    (found == 0).then_some([stat[0], stat[1]])
}

fn fcntl(file: u64, command: u64, value: u64) -> i64 {
    // SAFETY: numbers.
    unsafe { sys::call3(sys::FCNTL, file, command, value) }
}

fn is_read_only(file: u64) -> bool {
    let flags = fcntl(file, F_GETFL, 0);
    flags < 0 || flags & O_ACCMODE == O_RDONLY
}
