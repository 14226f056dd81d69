//! Seeds that are the same, one for each processor, and runs of many trials by all of them.
//!
//! A process that is traced and the thread that traces it take turns, hundreds of times in a run. Both stay on one processor: to wake another one up
//! each time takes longer than most runs.

use crate::run::{Outcome, Trial, Until};
use crate::seed::Seed;
use bugnet_replay::{ReplayError, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use std::io;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The number of a trial, and what came of it.
type Done = (usize, Result<Option<Outcome>>);
/// A trial and its number, and who wants to know what comes of it.
type Job = (usize, Trial, Sender<Done>);

/// Threads that have a seed each.
#[derive(Debug)]
pub struct Pool {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// As many as that, or as many as the operating system allows, of what a seed is; each of their runs goes so far.
    ///
    /// # Errors
    /// It allows none.
    pub fn new(seed: &Seed, until: &Until, count: NonZeroUsize) -> Result<Self> {
        let (jobs, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let first = sched_getcpu().unwrap_or(0);
        let mut pool = Self { jobs: Some(jobs), threads: Vec::new() };
        for number in 0..count.get() {
            let (grain, until, waiting) = (seed.grain(), until.clone(), waiting.clone());
            let (begun, has_begun) = channel();
            let work = move || {
                stay(first, number);
                match grain.seed() {
                    Ok(seed) => {
                        let _ = begun.send(Ok(()));
                        work(&seed, &until, &waiting);
                    }
                    Err(error) => drop(begun.send(Err(error))),
                }
            };
            let thread = Builder::new().spawn(work).map_err(ReplayError::system("start a thread"))?;
            match has_begun.recv().unwrap_or_else(|_| Err(gone())) {
                Ok(()) => pool.threads.push(thread),
                Err(error) if number == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(pool)
    }

    /// Runs with each of these differences; what came of them, in their order, as [`Seed::run`] says it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn run(&self, trials: impl IntoIterator<Item = Trial>) -> Result<Vec<Option<Outcome>>> {
        let Some(jobs) = &self.jobs else { return Err(gone()) };
        let (finished, done) = channel();
        let mut all: Vec<Option<Outcome>> = Vec::new();
        for (number, trial) in trials.into_iter().enumerate() {
            jobs.send((number, trial, finished.clone())).map_err(|_| gone())?;
            all.push(None);
        }
        drop(finished);
        // It ends also where a thread is lost, and its trial with it.
        let mut count = 0;
        for (number, outcome) in done {
            all[number] = outcome?;
            count += 1;
        }
        if count < all.len() { Err(gone()) } else { Ok(all) }
    }

    /// How many trials are made at a time.
    #[must_use]
    pub fn width(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(seed: &Seed, until: &Until, waiting: &Mutex<Receiver<Job>>) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, trial, finished)) = job else { return };
        // Nobody wants to know it any more where another trial has failed.
        let _ = finished.send((number, seed.run(&trial, until)));
    }
}

/// Keeps this thread, and the processes that it starts, on the processor where the kernel has put the pool, or on one of the next ones, by its number.
/// Elsewhere it would do the same, and take longer.
fn stay(first: usize, number: usize) {
    let this = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(this) else { return };
    let all: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    let first = all.iter().position(|cpu| *cpu == first).unwrap_or(0);
    let Some(cpu) = all.get((first + number) % all.len().max(1)) else { return };
    let mut one = CpuSet::new();
    if one.set(*cpu).is_ok() {
        let _ = sched_setaffinity(this, &one);
    }
}

fn gone() -> ReplayError {
    let source = io::Error::other("a thread that traces processes has ended");
    ReplayError::System { what: "try what would have been".to_owned(), source }
}
