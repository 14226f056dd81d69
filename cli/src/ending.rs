//! What must not stay behind where a signal ends a command: programs that it has started, and temporary files.

use crate::failure::Failure;
use bugnet_replay::work::Work;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs::{remove_dir_all, remove_file};
use std::io::Read;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// The signals by which people and terminals end commands.
const SIGNALS: [c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
/// How long a program has to end by itself.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Attempts to remove a folder, into which a thread that no signal has met may still be writing.
const ATTEMPTS: usize = 100;
/// Milliseconds for which a thread stands still that a signal has met. It may hold what its end needs, such as a lock of the allocator's:
/// then it goes on, and all ends a little later.
const STANDSTILL: c_int = 10_000;

/// What comes within so many milliseconds of the first Ctrl-C is the same one: `timeout`, and others that start commands, pass on what the terminal, or they
/// themselves, have sent to all.
const SAME: u64 = 200;

/// Where the handler writes; negative while there is nothing.
static TOLD: AtomicI32 = AtomicI32::new(-1);
/// Whether a signal has come that ends all.
static COMES: AtomicBool = AtomicBool::new(false);
/// What a first Ctrl-C ends in place of all, so that what is known by then is told.
static HEEDED: OnceLock<Work> = OnceLock::new();
/// When it came, in milliseconds; 0: not yet.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// What there is, by numbers that go up. Whoever has been told of a signal keeps this for ever, so that nothing comes or goes any more.
static ALL: Mutex<All> = Mutex::new(All { next: 0, things: BTreeMap::new() });

struct All {
    next: u64,
    things: BTreeMap<u64, Thing>,
}

enum Thing {
    Path(PathBuf),
    Program(OwnedFd),
}

/// Something is to end with this process, as long as this lives.
#[derive(Debug)]
pub struct Ends(u64);

impl Ends {
    /// Something that `make` makes, and the file or folder at the path that it then has, if any. No signal comes in between.
    ///
    /// # Errors
    /// Those of `make`, or the operating system's.
    pub fn with<T>(
        make: impl FnOnce() -> Result<T, Failure>,
        path: impl FnOnce(&T) -> Option<&Path>,
    ) -> Result<(T, Option<Self>), Failure> {
        let mut all = ready()?;
        let made = make()?;
        let ends = path(&made).map(|path| all.add(Thing::Path(path.to_owned())));
        Ok((made, ends))
    }

    /// A program that was started; none where the system cannot hold on to it.
    pub fn program(child: &Child) -> Option<Self> {
        let program = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
        Some(ready().ok()?.add(Thing::Program(program)))
    }
}

impl All {
    fn add(&mut self, thing: Thing) -> Ends {
        let number = self.next;
        self.next += 1;
        self.things.insert(number, thing);
        Ends(number)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        Held::new().things.remove(&self.0);
    }
}

/// What there is, for one thread, which no signal meets meanwhile: where it stood still with this, nobody could end anything.
struct Held {
    all: ManuallyDrop<MutexGuard<'static, All>>,
    mask: libc::sigset_t,
}

impl Held {
    fn new() -> Self {
        let mask = change_mask(libc::SIG_BLOCK, &signals());
        Self { all: ManuallyDrop::new(ALL.lock().unwrap_or_else(PoisonError::into_inner)), mask }
    }
}

impl Deref for Held {
    type Target = All;

    fn deref(&self) -> &All {
        &self.all
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut All {
        &mut self.all
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: this is dropped once, and not used any more.
        unsafe { ManuallyDrop::drop(&mut self.all) };
        // Another thread may have been told meanwhile.
        if COMES.load(Ordering::Relaxed) {
            stand_still();
        }
        change_mask(libc::SIG_SETMASK, &self.mask);
    }
}

fn signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is made empty, which fills it, before anything is put into it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        SIGNALS.iter().for_each(|&signal| {
            libc::sigaddset(set.as_mut_ptr(), signal);
        });
        set.assume_init()
    }
}

/// From here on, the first Ctrl-C ends this work alone, of which nothing is lost; the next one ends all.
///
/// # Errors
/// The system does not let one wait for signals.
pub fn heed(work: &Work) -> Result<(), Failure> {
    let heeded = HEEDED.get_or_init(|| work.clone());
    debug_assert!(heeded.over().is_none(), "there is one work");
    // Whoever sees that signals are caught may send one.
    drop(ready()?);
    Ok(())
}

/// Changes which signals wait for this thread; what did before.
fn change_mask(how: c_int, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = *set;
    // SAFETY: a system call on two sets that live.
    unsafe { libc::pthread_sigmask(how, set, &mut before) };
    before
}

/// This thread does nothing any more, so that what is removed stays so.
fn stand_still() {
    // SAFETY: a system call that a handler may make.
    unsafe { libc::poll(std::ptr::null_mut(), 0, STANDSTILL) };
}

/// What there is, with somebody who waits for signals.
fn ready() -> Result<Held, Failure> {
    let all = Held::new();
    if TOLD.load(Ordering::Relaxed) < 0 {
        listen()?;
    }
    Ok(all)
}

/// Starts to wait for signals, but for those that are ignored. Whoever calls it has them blocked, and so has the thread that it makes.
fn listen() -> Result<(), Failure> {
    let (mut reads, writes) = UnixStream::pair().map_err(Failure::system("listen for signals"))?;
    writes.set_nonblocking(true).map_err(Failure::system("listen for signals"))?;
    thread::spawn(move || {
        let mut number = [0];
        // The other end stays open as long as this process lives.
        if reads.read_exact(&mut number).is_ok() {
            end(number[0].into());
        }
    });
    // It stays open as long as the handler may be called.
    TOLD.store(ManuallyDrop::new(writes).as_raw_fd(), Ordering::Relaxed);
    for signal in SIGNALS {
        // SAFETY: the handler may be called at any time; and a signal that was ignored is ignored again.
        unsafe {
            if libc::signal(signal, on_signal as *const () as usize) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
    Ok(())
}

/// Says which signal has come, and keeps this thread from making anything more. The kernel prefers a process's first thread, which is the one
/// that makes files.
extern "C" fn on_signal(signal: c_int) {
    if signal == libc::SIGINT
        && let Some(work) = HEEDED.get()
    {
        let now = milliseconds();
        match FIRST.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return work.interrupt(),
            Err(first) if now.saturating_sub(first) < SAME => return,
            Err(_) => {}
        }
    }
    COMES.store(true, Ordering::Relaxed);
    // SAFETY: a system call that a handler may make, with a byte that lives; and the place of the thread's `errno`, which is as it was when
    // the handler returns. That nothing was written because all is full is as good.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(TOLD.load(Ordering::Relaxed), [signal as u8].as_ptr().cast(), 1);
        stand_still();
        *errno = before;
    }
}

/// Milliseconds since the machine was started, and never 0.
fn milliseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let whole = u64::try_from(now.tv_sec).unwrap_or_default().saturating_mul(1000);
    whole.saturating_add(u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000_000).max(1)
}

/// Ends all there is, the newest first, and then this process by the signal.
fn end(signal: c_int) {
    let all = Held::new();
    for thing in all.things.values().rev() {
        match thing {
            Thing::Path(path) => {
                let remove = || if path.is_dir() { remove_dir_all(path) } else { remove_file(path) };
                (0..ATTEMPTS).find(|_| remove().is_ok() || path.symlink_metadata().is_err());
            }
            Thing::Program(program) => end_program(program, signal),
        }
    }
    // SAFETY: system calls on numbers. Nothing comes behind them.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    // It comes now.
    change_mask(libc::SIG_UNBLOCK, &signals());
}

/// Lets a program end by the signal, since it may have a terminal to put in order, and kills it if it does not.
fn end_program(program: &OwnedFd, signal: c_int) {
    // One that has ended already is as good.
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = pidfd_send_signal(program, signal);
    }
    let ended = || poll(&mut [PollFd::new(program, PollFlags::IN)], Some(&PATIENCE));
    if ended().is_ok_and(|ended| ended == 0) {
        let _ = pidfd_send_signal(program, Signal::KILL);
        let _ = ended();
    }
}
