//! The stores of the program's own code in two threads, side by side, and those of which the values differ.
//!
//! What is compared is the register that an instruction stores, or with which it changes memory: of vectors, the lowest 8 bytes. A store
//! that no single register tells (a constant, `inc`, an operation that other code does on its behalf) follows from what was stored before.
//! Registers that are pushed are not compared: they are those of a caller, kept for it.

use super::both::{BAD, GOOD};
use super::side::Recorded;
use crate::path::align::Together;
use crate::path::follow::{Followed, Follower};
use bugnet_events::code::{Block, Blocks};
use bugnet_format::types::{Position, Tid};
use bugnet_replay::Result;
use bugnet_replay::error::ReplayError;
use bugnet_replay::trace::{TracedAccess, Tracer, Wanted};
use iced_x86::Mnemonic;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use xxhash_rust::xxh3::Xxh3;

/// Batches that wait to be compared.
const AHEAD: usize = 4;

/// A store.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Index of the step in which it is.
    pub step: u64,
    /// Which instruction, in whichever run.
    pub instruction: u64,
    /// Instructions of the thread before it.
    pub count: u64,
    /// Where it stores.
    pub addr: u64,
    /// What it stores, or with what it changes memory.
    pub value: u64,
    /// Bytes of the value.
    pub bytes: u8,
    /// Bytes that are stored.
    pub len: u32,
}

/// A store of a block, known before it is executed.
struct Known {
    access: TracedAccess,
    instruction: u64,
}

fn known(block: &Block, recorded: &Recorded<'_>) -> Vec<Known> {
    if !recorded.objects.is_own(block.traced.pc) {
        return Vec::new();
    }
    let counts = |access: &&TracedAccess| {
        let decoded = block.instructions.get(usize::from(access.instruction));
        access.operand.is_some() && decoded.is_some_and(|decoded| decoded.instruction.mnemonic() != Mnemonic::Push)
    };
    let identified = |access: &TracedAccess| {
        let mut hasher = Xxh3::new();
        recorded.objects.code(block, usize::from(access.instruction)).hash(&mut hasher);
        Known { access: access.clone(), instruction: hasher.finish() }
    };
    block.traced.accesses.iter().filter(counts).map(identified).collect()
}

/// Hands over all stores of a thread, until nobody takes them.
fn send(recorded: &Recorded<'_>, tid: Tid, to: &SyncSender<Result<Vec<Store>>>) -> Result<()> {
    let Recorded { tools, log, objects, .. } = recorded;
    let (mut follower, mut last, mut blocks, mut steps) = (Follower::default(), None, Blocks::default(), 0_u64);
    let wanted = Arc::new(Wanted { operands: true, ..Wanted::default() });
    for &(id, before) in recorded.intervals(tid) {
        let interval = log.interval(id)?;
        let next = Tracer::with(tools, log, id, &interval, last.take(), &wanted)?;
        let tracer = last.insert(next);
        follower.renumber();
        let mut stores: Vec<Option<Vec<Known>>> = Vec::new();
        while let Some(chunk) = tracer.next(Position(u64::MAX))? {
            blocks.learn(&chunk);
            stores.resize_with(chunk.blocks.len(), || None);
            let mut batch = Vec::new();
            for run in chunk.runs {
                steps += match follower.follow(objects, &chunk, *run, &blocks) {
                    Followed::First(start) => u64::from(start.is_own),
                    Followed::Behind { step, .. } => u64::from(step.is_some()),
                };
                let known = stores[run.block as usize].get_or_insert_with(|| known(blocks.get(run.block), recorded));
                for Known { access, instruction } in known {
                    let (Some(value), Some(step)) = (chunk.operand(*run, access), steps.checked_sub(1)) else {
                        continue;
                    };
                    let bytes = access.operand.map_or(0, |operand| operand.bytes);
                    let count = before + chunk.first.0 + u64::from(run.word) + u64::from(access.instruction);
                    let (addr, len) = (chunk.address(*run, access), access.bytes);
                    batch.push(Store { step, instruction: *instruction, count, addr, value, bytes, len });
                }
            }
            if !batch.is_empty() && to.send(Ok(batch)).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Stores as they come.
struct Incoming {
    from: Receiver<Result<Vec<Store>>>,
    batch: std::vec::IntoIter<Store>,
    /// The one that is next.
    next: Option<Store>,
}

impl Incoming {
    /// Passes over those before a step, and says which one is next.
    fn at_or_behind(&mut self, step: u64) -> Result<Option<Store>> {
        while self.next.is_none_or(|store| store.step < step) {
            self.next = self.batch.next();
            if self.next.is_none() {
                let Ok(batch) = self.from.recv() else { return Ok(None) };
                self.batch = batch?.into_iter();
            }
        }
        Ok(self.next)
    }

    fn take(&mut self) {
        self.next = self.batch.next();
    }
}

/// What becomes of stores.
#[derive(Clone, Copy, Debug)]
pub enum Seen {
    /// The same store in both runs.
    Both([Store; 2]),
    /// A store of the wrong run that the right one does not have.
    Bad(Store),
}

impl Seen {
    /// The store in the wrong run.
    #[must_use]
    pub fn bad(&self) -> Store {
        match *self {
            Self::Both([_, bad]) | Self::Bad(bad) => bad,
        }
    }
}

/// Hands over the stores of two threads, in the order of the wrong run, until `each` ends it. `together` says which of their steps are the
/// same.
///
/// # Errors
/// A thread cannot be replayed or started.
pub fn stores(
    recorded: [&Recorded<'_>; 2],
    threads: [Tid; 2],
    together: &[Together],
    each: &mut dyn FnMut(Seen) -> Result<ControlFlow<()>>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let mut incoming = Vec::new();
        for (recorded, tid) in recorded.into_iter().zip(threads) {
            let (to, from) = sync_channel(AHEAD);
            let work = move || {
                if let Err(error) = send(recorded, tid, &to) {
                    // Who does not listen any more does not want to know.
                    let _ = to.send(Err(error));
                }
            };
            let thread = std::thread::Builder::new().name("bugnet-stores".into());
            thread.spawn_scoped(scope, work).map_err(ReplayError::system("start a thread"))?;
            incoming.push(Incoming { from, batch: Vec::new().into_iter(), next: None });
        }
        // However this ends, whoever sends finds that nobody takes any more.
        let [mut good, mut bad] = incoming.try_into().unwrap_or_else(|_| unreachable!("there are two"));
        side_by_side(&mut good, &mut bad, together, each)
    })
}

fn side_by_side(
    good: &mut Incoming,
    bad: &mut Incoming,
    together: &[Together],
    each: &mut dyn FnMut(Seen) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut runs = together.iter().peekable();
    // The right run's stores of a step, of those that come behind the last one that both have.
    let (mut present, mut waiting) = (None, VecDeque::new());
    while let Some(b) = bad.at_or_behind(0)? {
        while runs.next_if(|run| run.from[BAD] + run.steps <= b.step).is_some() {}
        let there = runs.peek().filter(|run| run.from[BAD] <= b.step);
        let step = there.map(|run| run.from[GOOD] + (b.step - run.from[BAD]));
        let mut seen = Seen::Bad(b);
        if let Some(step) = step {
            if present != Some(step) {
                (present, waiting) = (Some(step), VecDeque::new());
                while let Some(g) = good.at_or_behind(step)?.filter(|g| g.step == step) {
                    good.take();
                    waiting.push_back(g);
                }
            }
            // A signal's handler may have come between, in either run; another build may have other stores.
            if let Some(at) = waiting.iter().position(|g| g.instruction == b.instruction) {
                seen = Seen::Both([waiting[at], b]);
                waiting.drain(..=at);
            }
        }
        bad.take();
        if each(seen)?.is_break() {
            break;
        }
    }
    Ok(())
}
