//! Those that have turns: threads of the process, and of processes that it shares memory with. What they know of each other is in memory that all of them have.
//!
//! Nobody locks anything there: a process may be killed at any time, and the others go on.

use crate::elf::PAGE;
use crate::state;
use crate::sys::{self, FUTEX, MAP_ANONYMOUS, MAP_FIXED, MAP_SHARED, PROT_READ, PROT_WRITE};
use crate::text::Text;
use crate::thread;
use core::fmt::Write;
use core::mem::size_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where that memory lies.
const AT: u64 = 0x1104_0000_0000;
const WAIT: u64 = 0;
const WAKE: u64 = 1;
const READLINK: u64 = 89;
const ESRCH: i64 = -3;
const ENOENT: i64 = -2;

/// What all of them see. All zero: nobody has the turn.
#[repr(C)]
pub struct Words {
    /// Who has the turn, and what it does ([`crate::turn`]).
    pub holder: AtomicU32,
    /// How many calls have been made that may wait.
    pub calls: AtomicU32,
    /// The turn's number: each one has the next.
    pub number: AtomicU32,
    /// Whether the one that has the turn is asked for it.
    pub asked: AtomicU32,
    /// Whether the light part is over for all of them.
    pub is_over: AtomicU32,
    /// How many wait, and how many places are, or were, in use.
    waiting: AtomicU32,
    used: AtomicU32,
    /// How often somebody has begun to wait.
    tickets: AtomicU64,
    /// The epoch that all of them begin, each as soon as it has the turn: what the clock said that asked for it.
    pub epoch: AtomicU32,
    /// Memory that one of them has listed, and for which epoch.
    listed: [Listed; LISTED],
    /// Files that they have mapped, and can write to: the last ones; and how many there were.
    files: [MappedFile; FILES],
    files_made: AtomicU32,
    members: [Member; thread::MOST],
}

/// Shared memory, by what tells it from other one; and an epoch.
#[repr(C)]
struct Listed {
    memory: AtomicU64,
    epoch: AtomicU64,
}

/// Most shared memory that they list in an epoch.
const LISTED: usize = 256;

/// A file that some of them have mapped: device and inode; what tells its memory from other one; the kernel's number of who looks at it, and how many of them are about to open it.
#[repr(C)]
pub struct MappedFile {
    inode: [AtomicU64; 2],
    pub memory: AtomicU64,
    pub watch: AtomicU32,
    pub opening: AtomicU32,
}

/// Most such files that are known.
const FILES: usize = 256;

/// One of them; nobody, where it has no thread.
#[repr(C)]
pub struct Member {
    /// The thread's id, and its process's.
    tid: AtomicU32,
    pid: AtomicU32,
    /// Since when it waits for the turn; 0 if it does not.
    ticket: AtomicU64,
    /// Changes when it is told to look.
    told: AtomicU32,
}

/// What all of them see, once [`make`] has made it.
pub fn words() -> &'static Words {
    // SAFETY: memory that is there as long as anybody asks; all of it is atomic.
    unsafe { &*(AT as *const Words) }
}

/// Makes the memory, in the place of that of the process that this one was forked from, if any; whether it is there.
pub fn make() -> bool {
    let size = (size_of::<Words>() as u64).next_multiple_of(PAGE);
    let flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED;
    // SAFETY: nobody else's memory, and nobody uses it.
    let made = unsafe { sys::call(sys::MMAP, [AT, size, PROT_READ | PROT_WRITE, flags, u64::MAX, 0]) };
    made == AT as i64
}

/// A place for a thread of a process.
pub fn join(pid: u32, tid: u32) -> Option<u32> {
    let free = || {
        words().members.iter().position(|member| {
            member.tid.load(Ordering::Relaxed) == 0
                && member.tid.compare_exchange(0, tid, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        })
    };
    let place = free().or_else(|| {
        words().members.iter().filter(|member| !member.waits() && member.is_gone()).for_each(Member::leave);
        free()
    })?;
    words().members[place].pid.store(pid, Ordering::SeqCst);
    words().used.fetch_max(place as u32 + 1, Ordering::SeqCst);
    Some(place as u32)
}

/// Whether a process is one of them, or was.
pub fn has(pid: u32) -> bool {
    let used = words().used.load(Ordering::SeqCst);
    (0..used).any(|place| of(place).pid.load(Ordering::SeqCst) == pid)
}

/// Whether it is for the process, which has the turn, to list this memory in the epoch: nobody else has. None where there is no room for it.
pub fn lists(memory: u64) -> Option<bool> {
    let (listed, epoch) = (&words().listed, words().epoch.load(Ordering::SeqCst).into());
    let is_now = |one: &&Listed| one.epoch.load(Ordering::SeqCst) == epoch;
    if listed.iter().filter(is_now).any(|one| one.memory.load(Ordering::SeqCst) == memory) {
        return Some(false);
    }
    let free = listed.iter().find(|one| !is_now(one))?;
    free.memory.store(memory, Ordering::SeqCst);
    free.epoch.store(epoch, Ordering::SeqCst);
    Some(true)
}

/// Whether they have mapped files, and can write to them.
pub fn have_files() -> bool {
    words().files_made.load(Ordering::SeqCst) > 0
}

fn files() -> impl Iterator<Item = &'static MappedFile> {
    words().files.iter().filter(|file| file.memory.load(Ordering::SeqCst) != 0)
}

/// The file with this device and inode that they have mapped.
pub fn file(inode: [u64; 2]) -> Option<&'static MappedFile> {
    files().find(|file| [0, 1].map(|i| file.inode[i].load(Ordering::SeqCst)) == inode)
}

/// The one with this number of who looks at it.
pub fn file_of_watch(watch: u32) -> Option<&'static MappedFile> {
    files().find(|file| file.watch.load(Ordering::SeqCst) == watch)
}

/// Adds one. Where there are too many, what is known of the first is lost: who maps that again, does so as a stranger.
pub fn add_file(inode: [u64; 2], memory: u64, watch: u32) {
    let number = words().files_made.fetch_add(1, Ordering::SeqCst) as usize;
    let file = &words().files[number % FILES];
    file.memory.store(0, Ordering::SeqCst);
    file.opening.store(0, Ordering::SeqCst);
    file.watch.store(watch, Ordering::SeqCst);
    file.inode.iter().zip(inode).for_each(|(word, value)| word.store(value, Ordering::SeqCst));
    file.memory.store(memory, Ordering::SeqCst);
}

/// The member at a place.
pub fn of(place: u32) -> &'static Member {
    &words().members[place as usize % thread::MOST]
}

/// Whether anybody waits for the turn, or has died as it did.
pub fn anybody_waits() -> bool {
    words().waiting.load(Ordering::SeqCst) != 0
}

/// Who waits longest for the turn.
pub fn first() -> Option<u32> {
    let used = words().used.load(Ordering::SeqCst);
    let waits =
        |place: &u32| Some((of(*place).ticket.load(Ordering::SeqCst), *place)).filter(|(ticket, _)| *ticket != 0);
    (0..used).filter_map(|place| waits(&place)).min().map(|(_, place)| place)
}

/// All of them look.
pub fn tell_all() {
    for place in 0..words().used.load(Ordering::SeqCst) {
        of(place).tell();
    }
}

/// The process of a member is dying, and none of its threads waits any more.
pub fn none_waits_of(pid: u32) {
    for place in 0..words().used.load(Ordering::SeqCst) {
        let member = of(place);
        if member.pid.load(Ordering::SeqCst) == pid {
            member.stops_waiting();
        }
    }
}

impl Member {
    /// Process and thread are these.
    pub fn is(&self, pid: u32, tid: u32) {
        self.pid.store(pid, Ordering::SeqCst);
        self.tid.store(tid, Ordering::SeqCst);
    }

    /// The place is nobody's from here on.
    pub fn leave(&self) {
        self.tid.store(0, Ordering::SeqCst);
    }

    /// Process and thread.
    pub fn ids(&self) -> (u32, u32) {
        (self.pid.load(Ordering::SeqCst), self.tid.load(Ordering::SeqCst))
    }

    /// It waits for the turn from here on, behind so many that begin later.
    pub fn begins_to_wait(&self, others: u64) {
        self.ticket.store(words().tickets.fetch_add(1, Ordering::SeqCst) + 1 + others, Ordering::SeqCst);
        words().waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether it does.
    pub fn waits(&self) -> bool {
        self.ticket.load(Ordering::SeqCst) != 0
    }

    /// It waits no longer.
    pub fn stops_waiting(&self) {
        if self.ticket.swap(0, Ordering::SeqCst) != 0 {
            words().waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// What [`Self::sleep`] is to be given, before the thread looks.
    pub fn seen(&self) -> u32 {
        self.told.load(Ordering::SeqCst)
    }

    /// Sleeps until the thread is told to look, unless it was since `seen`, or for so many nanoseconds.
    pub fn sleep(&self, seen: u32, nanoseconds: u64) {
        let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
        let args = [self.told.as_ptr() as u64, WAIT, seen.into(), time.as_ptr() as u64, 0, 0];
        // SAFETY: a word, and a time.
        unsafe { sys::call(FUTEX, args) };
    }

    /// It looks.
    pub fn tell(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
        // SAFETY: a word.
        unsafe { sys::call3(FUTEX, self.told.as_ptr() as u64, WAKE, 1) };
    }

    /// Whether its process, which is another one, has ended.
    pub fn is_gone(&self) -> bool {
        is_gone(self.pid.load(Ordering::SeqCst))
    }
}

/// Whether a process, which is another one, has ended.
pub fn is_gone(pid: u32) -> bool {
    if pid == state::get().pid {
        return false;
    }
    let mut path = Text::<32>::new();
    let _ = write!(path, "/proc/{pid}/exe");
    let mut room = [0u8; 8];
    // One that nobody has waited for is still there, but its program is not.
    // SAFETY: a path, and room.
    unsafe {
        sys::call3(sys::KILL, pid.into(), 0, 0) == ESRCH
            || sys::call3(READLINK, path.address(), room.as_mut_ptr() as u64, 8) == ENOENT
    }
}
