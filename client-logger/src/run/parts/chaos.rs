//! Chaos: perturbs when threads run, so that orders of theirs which are rare come sooner. Only their timing changes, and no record
//! knows of it.
//!
//! After rr's chaos mode (R. O'Callahan, "Introducing rr Chaos Mode", 2016): threads have priorities, which are drawn anew at random times,
//! and those of low priority are held back, for a bounded time; the lengths of time slices are random, and short ones are likely. Here threads run
//! in parallel, so that a thread is held back by letting it sleep, as Burckhardt et al. do it ("A Randomized Scheduler with
//! Probabilistic Guarantees of Finding Bugs", ASPLOS 2010, section 4). It sleeps where the order of threads is decided:
//! - where it begins,
//! - before it gets hold of memory that other threads may have, and behind that access,
//! - where another one has taken memory from it,
//! - behind a system call,
//! - and at the ends of its time slices, anywhere.
//!
//! A thread that sleeps holds nothing: others may take memory from it, and may begin an epoch, as from one that waits in the kernel. So nobody
//! waits for it any longer than the program itself does.
//!
//! Of thousands of places, few matter, and what libraries of the system's do among themselves rarely does: a thread is held back there
//! much less often than in the program's own code.
//!
//! How much of which there is differs from run to run ([`Mood`]), since some orders take many short delays, and others one that is long.

use crate::base::lock::Mutex;
use crate::base::options;
use crate::log::origin;
use bugnet_dr::thread as dr_thread;
use fastrand::Rng;
use std::arch::asm;
use std::ffi::c_void;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where a thread may be held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before its first instruction.
    Birth,
    /// Before an access for which it lacks the permission.
    Miss,
    /// Behind such an access.
    Access,
    /// Another thread has taken memory from it, or wants it to stop for another reason.
    Called,
    /// Behind a system call.
    Call,
    /// At the end of a time slice.
    Slice,
}

/// Kinds of points.
const POINTS: usize = Point::Slice as usize + 1;

/// Longest delay, as powers of 2 of the process's age: a quarter to twice. What a thread does in its delay has to be time enough for another one to
/// begin, and how long that takes depends on the machine, its load, and the lengths of blocks, as the program's start does.
const LONGEST: Range<f64> = -2.0..1.0;
/// What counts as the process's age, in microseconds, however young or old it is.
const AGES: Range<f64> = 8_000.0..250_000.0;
/// Shortest delay in microseconds, as a power of 2.
const SHORTEST: f64 = 3.0;
/// How likely a delay is one of the longest, from half of that on.
const LONG: f64 = 0.7;
/// Longest mean of instructions of a time slice, as powers of 2.
const SLICES: Range<f64> = 7.0..18.0;
/// Shortest one. What a thread has executed so far counts, lest those that end soon have no end of a slice.
const SHORTEST_SLICE: u64 = 16;
/// So many ends of slices there are while what a thread has executed grows to nearly three times as much.
const SLICES_EACH: u64 = 8;
/// How likely threads are held back at a kind of points at all: in a run in which they are at few kinds, they are otherwise undisturbed.
const ACTIVE: f64 = 0.6;
/// How likely a thread of low priority is held back at a point of a kind at which threads are, as powers of 2: always, or every other time.
const RATES: Range<f64> = -1.0..0.0;
/// The same at the ends of slices, of which there are many.
const SLICE_RATES: Range<f64> = -5.0..-1.0;
/// So many times less likely in a library of the system's, and behind system calls, as powers of 2.
const LIBRARY_RATES: Range<f64> = -7.0..-2.0;
/// How likely a thread has low priority.
const LOW: f64 = 0.5;
/// So many times less likely a thread of high priority is held back.
const HIGH_RATE: f64 = 1.0 / 64.0;
/// How long a thread has a priority, in microseconds, as powers of 2: 1 ms to 128 ms.
const TERMS: Range<f64> = 10.0..17.0;
/// So many of its longest delays a thread may sleep at first; from there on, no longer than it has run.
const CREDIT: u32 = 3;

/// Where libraries of the system's are mapped.
static LIBRARIES: Mutex<Vec<Range<u64>>> = Mutex::new(Vec::new());

/// When the process's first thread began, or its parent's.
static STARTED: OnceLock<Instant> = OnceLock::new();

/// Folders of libraries that are not the user's own.
const OF_SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];

/// A file that is not the program is mapped here.
pub fn note_library(path: &str, addresses: Range<u64>) {
    if options::get().chaos.is_none() || Path::new(path) == Path::new(origin::beginning().program()) {
        return;
    }
    if OF_SYSTEM.iter().any(|folder| path.starts_with(folder)) {
        LIBRARIES.lock().push(addresses);
    }
}

fn is_library(pc: u64) -> bool {
    LIBRARIES.lock().iter().any(|addresses| addresses.contains(&pc))
}

/// MXCSR as programs have it at their start, in memory, from where it is loaded.
static OWN_MXCSR: u32 = 0x1f80;

/// Lets the client compute with floating point numbers: while this lives, MXCSR is the client's own. A callout does not save it, and computing
/// sets flags in it, or traps as the program has asked for.
struct OwnFloats(u32);

impl OwnFloats {
    fn new() -> Self {
        let mut saved = 0_u32;
        // SAFETY: stores a register into a variable, and gives the register a value that masks all exceptions.
        unsafe {
            asm!("stmxcsr [{}]", "ldmxcsr [{}]", in(reg) &raw mut saved, in(reg) &raw const OWN_MXCSR, options(nostack))
        };
        Self(saved)
    }
}

impl Drop for OwnFloats {
    fn drop(&mut self) {
        // SAFETY: gives the register the value that it had.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const self.0, options(nostack)) };
    }
}

/// What the run is like, the same for all of its threads and processes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mood {
    /// Longest delay, in ages of the process.
    longest: f64,
    /// Longest mean of instructions of a time slice.
    slice: f64,
    /// How likely a thread of low priority is held back, for each kind of point.
    rates: [f64; POINTS],
    /// So many times less in libraries of the system's.
    library_rate: f64,
}

/// Two to the power of something in this range.
fn power(random: &mut Rng, range: &Range<f64>) -> f64 {
    (range.start + random.f64() * (range.end - range.start)).exp2()
}

impl Mood {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let longest = power(&mut random, &LONGEST);
        let slice = power(&mut random, &SLICES);
        let mut rates = [0.0; POINTS];
        // One kind always.
        let certain = random.usize(..POINTS);
        for (kind, rate) in rates.iter_mut().enumerate() {
            let range = if kind == Point::Slice as usize { SLICE_RATES } else { RATES };
            let (drawn, active) = (power(&mut random, &range), random.f64() < ACTIVE || kind == certain);
            *rate = if active { drawn } else { 0.0 };
        }
        Self { longest, slice, rates, library_rate: power(&mut random, &LIBRARY_RATES) }
    }
}

/// What a thread knows of chaos.
#[derive(Debug)]
pub struct Chaos {
    mood: Mood,
    random: Rng,
    low: bool,
    /// The instruction that it has come to.
    pc: u64,
    /// When the next priority is drawn.
    next_term: Instant,
    began: Instant,
    slept: Duration,
    /// A delay that is to come at the next block's start.
    due: Option<Duration>,
}

impl Chaos {
    /// Of a thread with this number in a run with this seed.
    pub fn new(seed: u64, thread: u64) -> Self {
        let _floats = OwnFloats::new();
        // Golden ratio: threads with neighbouring numbers have nothing in common.
        let random = Rng::with_seed(seed ^ thread.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let now = Instant::now();
        STARTED.get_or_init(|| now);
        Self {
            mood: Mood::new(seed),
            random,
            low: false,
            pc: 0,
            next_term: now,
            began: now,
            slept: Duration::ZERO,
            due: None,
        }
    }

    /// The thread is at this instruction of the program's.
    pub fn come_to(&mut self, pc: u64) {
        self.pc = pc;
    }

    /// How long the thread is to sleep at a point; none if it is to go on.
    pub fn delay(&mut self, point: Point) -> Option<Duration> {
        let _floats = OwnFloats::new();
        let now = Instant::now();
        if now >= self.next_term {
            self.low = self.random.f64() < LOW;
            self.next_term = now + micros(power(&mut self.random, &TERMS));
        }
        let rate = self.mood.rates[point as usize] * if self.low { 1.0 } else { HIGH_RATE };
        let elsewhere = point != Point::Birth && (point == Point::Call || is_library(self.pc));
        if self.random.f64() >= rate * if elsewhere { self.mood.library_rate } else { 1.0 } {
            return None;
        }
        let age = now.duration_since(*STARTED.get_or_init(|| now)).as_secs_f64() * 1e6;
        let longest = self.mood.longest * age.clamp(AGES.start, AGES.end);
        let shortest = if self.random.f64() < LONG { longest.log2() - 1.0 } else { SHORTEST };
        let delay = micros(power(&mut self.random, &(shortest..longest.log2())));
        let allowed = now.duration_since(self.began).saturating_sub(self.slept) + micros(longest) * CREDIT;
        if self.slept + delay > allowed {
            return None;
        }
        self.slept += delay;
        Some(delay)
    }

    /// A delay that is to come at the start of the thread's next block; `false` if it is to go on.
    pub fn plan(&mut self, point: Point) -> bool {
        self.due = self.due.or_else(|| self.delay(point));
        self.due.is_some()
    }

    /// The delay that was planned.
    pub fn take_planned(&mut self) -> Option<Duration> {
        self.due.take()
    }

    /// Instructions to the next end of a time slice, no more than `most`, for a thread that has executed so many.
    pub fn slice(&mut self, executed: u64, most: u64) -> u64 {
        let _floats = OwnFloats::new();
        let mean = ((executed / SLICES_EACH).max(SHORTEST_SLICE) as f64).min(self.mood.slice);
        // Exponentially distributed: wherever the thread is, the next end is as likely.
        let length = -mean * (1.0 - self.random.f64()).ln();
        (length as u64).clamp(1, most)
    }
}

fn micros(count: f64) -> Duration {
    Duration::from_nanos((count * 1000.0) as u64)
}

/// Sleeps, or less if a signal comes. The calling thread holds no lock, and DynamoRIO may suspend it. `context` is DynamoRIO's.
pub fn sleep(context: *mut c_void, delay: Duration) {
    let time = libc::timespec { tv_sec: delay.as_secs() as i64, tv_nsec: delay.subsec_nanos().into() };
    // SAFETY: the calling thread's context, in a callout, without locks; a time, and nothing is to be told.
    unsafe {
        dr_thread::let_suspend(context, true);
        libc::nanosleep(&raw const time, std::ptr::null_mut());
        dr_thread::let_suspend(context, false);
    }
}
