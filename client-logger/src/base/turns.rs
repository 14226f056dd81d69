//! The turns of an expansion: of its threads, and of processes that share memory, one goes on at a time, as the light logs have it.
//!
//! What comes next in a process's own log says which of its threads goes on, and the number of that turn; it does so when the number has come, which the processes see in memory that
//! they share.

use crate::base::lock::Mutex;
use crate::base::waiting::SLEEP;
use bugnet_format::light::layout::{TURNS_BROKEN, TURNS_SIZE};
use bugnet_format::regs::RegisterFile;
use bugnet_handover::futex;
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The thread whose records are next, by its id in the log.
static TURN: AtomicU32 = AtomicU32::new(0);
/// The number of that thread's turn; or of none, where the process has given up its last one.
static NUMBER: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = u32::MAX;
/// What processes that share memory see of each other, which they share, too.
static TURNS: AtomicPtr<Turns> = AtomicPtr::new(std::ptr::null_mut());

/// Most processes that share memory at a time.
const MOST: usize = 500;

/// Turns of processes that share memory; all zero where they begin.
#[repr(C)]
struct Turns {
    /// The number of the turn that goes on.
    goes_on: AtomicU32,
    /// Whether one of the processes does not come to its end.
    is_broken: AtomicBool,
    /// The processes that have not come to their end.
    processes: [Process; MOST],
}

/// One of the processes, or a place for one.
#[repr(C)]
struct Process {
    /// Its real id; 0 for none.
    pid: AtomicU32,
    /// The number of its next turn; or none, where it has yet to find out.
    next: AtomicU32,
}

const _: () = assert!(offset_of!(Turns, is_broken) == TURNS_BROKEN && size_of::<Turns>() <= TURNS_SIZE);
/// Where threads sleep that wait for their turn, by their ids; each changes when one of them gets it.
static DOORS: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
/// Whether a thread is about to fork.
static FORKS: AtomicBool = AtomicBool::new(false);
/// The id of a thread that a call makes, until it has begun; 0 where none does.
static BIRTH: AtomicU32 = AtomicU32::new(0);

fn door(tid: u32) -> &'static AtomicU32 {
    &DOORS[tid as usize % DOORS.len()]
}

fn turns() -> &'static Turns {
    // SAFETY: memory that `begin` has made, for as long as the process; all zero is a value.
    unsafe { &*TURNS.load(Ordering::Relaxed) }
}

/// The number of the turn that goes on.
fn goes_on() -> &'static AtomicU32 {
    &turns().goes_on
}

/// The process does not come to its end, and its turns do not come: others do not wait for them.
pub fn give_up_all() {
    turns().is_broken.store(true, Ordering::SeqCst);
}

/// Whether a process that this one shares memory with is gone before it came to its end, or was not made, so that its turns do not come.
pub fn lacks_others() -> bool {
    let is_gone = |pid: u32| {
        // It is still there where nobody has waited for it, but has no program.
        std::fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
    };
    let own = std::process::id();
    let is_broken = turns().is_broken.load(Ordering::SeqCst);
    is_broken
        || is_nobodys()
        || turns().processes.iter().any(|Process { pid: there, .. }| {
            let pid = there.load(Ordering::SeqCst);
            pid != 0 && pid != own && is_gone(pid) && there.load(Ordering::SeqCst) == pid
        })
}

/// Whether the turn that goes on has been nobody's for so long that nobody will come who has it.
fn is_nobodys() -> bool {
    /// Others may yet have to begin.
    const PATIENCE: Duration = Duration::from_secs(60);
    static SINCE: Mutex<Option<(u32, Instant)>> = Mutex::new(None);
    let now = goes_on().load(Ordering::SeqCst);
    let may_have = |process: &Process| {
        let next = process.next.load(Ordering::SeqCst);
        process.pid.load(Ordering::SeqCst) != 0 && (next == now || next == NONE)
    };
    let mut since = SINCE.lock();
    if turns().processes.iter().any(may_have) {
        *since = None;
        return false;
    }
    let begun = since.filter(|(number, _)| *number == now).map_or_else(Instant::now, |(_, begun)| begun);
    *since = Some((now, begun));
    begun.elapsed() > PATIENCE
}

/// What comes next of the process's: the turn with this number. Returns the number that was next before.
fn set_next(number: u32) -> u32 {
    let own = std::process::id();
    if let Some(process) = turns().processes.iter().find(|process| process.pid.load(Ordering::SeqCst) == own) {
        process.next.store(number, Ordering::SeqCst);
    }
    NUMBER.swap(number, Ordering::SeqCst)
}

/// The calling process is one of those that have turns.
fn join() {
    let own = std::process::id();
    let _ = turns()
        .processes
        .iter()
        .find(|process| process.pid.compare_exchange(0, own, Ordering::SeqCst, Ordering::SeqCst).is_ok());
}

/// Turns begin, with this number and the one of the thread with this id, in memory that forks have, too; or in that of a file, if other processes begin as well: there,
/// the number of the first turn is what goes on.
pub fn begin(tid: u32, number: u32, together: Option<&File>) -> Result<(), String> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, file) =
        together.map_or((libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1), |f| (libc::MAP_SHARED, f.as_raw_fd()));
    // SAFETY: new memory.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), TURNS_SIZE, protection, flags, file, 0) };
    if memory == libc::MAP_FAILED {
        return Err(format!("no memory for the order of turns: {}", std::io::Error::last_os_error()));
    }
    TURNS.store(memory.cast(), Ordering::Relaxed);
    join();
    if together.is_none() {
        goes_on().store(number, Ordering::SeqCst);
    }
    set_next(number);
    TURN.store(tid, Ordering::SeqCst);
    Ok(())
}

/// In a forked child that shares memory with its parent, whose turn it is: the child's thread has this id.
pub fn wait_as(tid: u32) {
    join();
    set_next(NONE);
    TURN.store(tid, Ordering::SeqCst);
}

/// The thread with this id goes on, when the turn with this number does.
pub fn give(tid: u32, number: u32) {
    let before = set_next(number);
    TURN.store(tid, Ordering::SeqCst);
    pass_on(before);
    door(tid).fetch_add(1, Ordering::SeqCst);
    futex::wake(door(tid), i32::MAX);
}

/// The turn with this number is over, if the process had it.
fn pass_on(number: u32) {
    let next = number.wrapping_add(1);
    if number != NONE && goes_on().compare_exchange(number, next, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        futex::wake(goes_on(), i32::MAX);
    }
}

/// The process goes no further: others do, with which it shares memory. Nothing where there are no turns.
pub fn give_up_turn() {
    if !TURNS.load(Ordering::Relaxed).is_null() {
        pass_on(NUMBER.swap(NONE, Ordering::SeqCst));
        let own = std::process::id();
        turns().processes.iter().for_each(|process| {
            let _ = process.pid.compare_exchange(own, 0, Ordering::SeqCst, Ordering::SeqCst);
        });
    }
}

/// Whether the thread with this id may go on.
pub fn has_turn(tid: u32) -> bool {
    is_next(tid) && goes_on().load(Ordering::SeqCst) == NUMBER.load(Ordering::SeqCst)
}

/// Whether it does when it is the process's turn.
fn is_next(tid: u32) -> bool {
    TURN.load(Ordering::SeqCst) == tid
}

/// Sleeps a while, or until it may.
pub fn sleep_until_turn(tid: u32) {
    if let Some((door, seen)) = closed_door(tid) {
        futex::wait(door, seen, Some(SLEEP));
    }
}

/// Where the thread with this id is to wait, and what that has until then; none if it may go on.
pub fn closed_door(tid: u32) -> Option<(&'static AtomicU32, u32)> {
    let door = if is_next(tid) { goes_on() } else { door(tid) };
    let seen = door.load(Ordering::SeqCst);
    (!has_turn(tid)).then_some((door, seen))
}

/// A thread forks, or has done so: DynamoRIO waits until all others are where it knows them.
pub fn set_forks(forks: bool) {
    FORKS.store(forks, Ordering::SeqCst);
}

/// Whether a thread is about to fork.
pub fn forks() -> bool {
    FORKS.load(Ordering::SeqCst)
}

/// How a thread begins.
pub enum Born {
    /// Behind the call that made it, with these general purpose registers.
    Behind([u64; 16]),
    /// Where an epoch does, with these registers; whether it has done nothing before.
    AtEpoch(Box<RegisterFile>, bool),
}

/// How the thread begins that is being made.
static NEWBORN: Mutex<Option<Born>> = Mutex::new(None);

/// The next thread that begins has this id, and does so in this way.
pub fn announce_birth(tid: u32, born: Born) {
    *NEWBORN.lock() = Some(born);
    BIRTH.store(tid, Ordering::SeqCst);
}

/// How the thread begins that was made last, and has just begun.
pub fn newborn() -> Option<Born> {
    NEWBORN.lock().take()
}

/// The id of the thread that begins.
pub fn take_birth() -> Option<u32> {
    Some(BIRTH.swap(0, Ordering::SeqCst)).filter(|tid| *tid != 0)
}

/// Whether the thread that was announced has begun.
pub fn is_born() -> bool {
    BIRTH.load(Ordering::SeqCst) == 0
}
