//! How threads begin and end: which one was made, and the word that the kernel clears when one is gone (`CLONE_CHILD_CLEARTID`), by which
//! others find out.

use super::times::Times;
use crate::touched::Touched;
use bugnet_format::record::Record;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::memory::Memory;
use hashbrown::HashMap;

const CLONE: u64 = 56;
const SET_TID_ADDRESS: u64 = 218;
const CLONE3: u64 = 435;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
/// Bytes from the start of `struct clone_args` to `child_tid` and to `tls`.
const CHILD_TID: u64 = 16;
const TLS: u64 = 56;

/// How threads begin and end.
#[derive(Clone, Default)]
pub struct Births {
    /// The threads that were there when the log began, and those that were made, in their order.
    order: Vec<usize>,
    /// The words that the kernel clears, and whose they are. One that is used again has several.
    words: HashMap<u64, Vec<usize>>,
    /// The lines in which they are.
    near: Touched<6>,
    /// Where each thread's own part of memory is, at its beginning.
    bases: Vec<Option<u64>>,
}

/// Calls that make threads, where the kernel is told in memory how.
struct Told {
    place: Place,
    arguments: u64,
}

impl Births {
    /// Finds out which words the kernel clears. Where it is told so in memory (`clone3`), that is looked up for the first such call. A
    /// library puts the word always at the same distance from the part of memory that is the thread's own.
    ///
    /// # Errors
    /// The log cannot be read or replayed.
    pub fn new(log: &Log, times: &Times, cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut births =
            Self { order: (0..times.len()).filter(|thread| !times.begins(*thread)).collect(), ..Self::default() };
        let (mut bases, mut told): (Vec<Option<u64>>, Option<Told>) = (vec![None; times.len()], None);
        for (thread, base) in bases.iter_mut().enumerate() {
            let id = times.id(thread);
            for (nth, &interval) in log.intervals(id)?.iter().enumerate() {
                for placed in log.events(IntervalId { thread: id, interval })?.records().flatten() {
                    match placed.record {
                        Record::Checkpoint { regs, .. } if nth == 0 => *base = base.or(Some(regs.fs_base)),
                        Record::Syscall { number, args, result, .. } if result >= 0 => match number {
                            CLONE if args[0] & CLONE_CHILD_CLEARTID != 0 => {
                                let child = times.with_id(result as u32).next();
                                child.into_iter().for_each(|child| births.clears(args[3], child));
                            }
                            SET_TID_ADDRESS => births.clears(args[0], thread),
                            CLONE3 if told.is_none() => {
                                let place = Place { tid: id.tid, interval, position: placed.position };
                                told = Some(Told { place, arguments: args[0] });
                            }
                            _ => {}
                        },
                        _ => {}
                    }
                }
            }
        }
        if let Some(distance) = told.map(|told| distance(cursor, &told)).transpose()?.flatten() {
            for (thread, base) in bases.iter().enumerate().skip(1) {
                base.iter().for_each(|base| births.clears(base.wrapping_add(distance), thread));
            }
        }
        births.bases = bases;
        Ok(births)
    }

    /// Where a thread has its own part of memory: in what was mapped for its stack.
    pub fn own_memory(&self, thread: usize) -> Option<u64> {
        self.bases.get(thread).copied().flatten()
    }

    /// Where another thread has that, of those below an address the highest.
    pub fn below(&self, own: u64) -> Option<u64> {
        self.bases.iter().flatten().copied().filter(|other| *other < own).max()
    }

    fn clears(&mut self, word: u64, thread: usize) {
        self.near.touch(word, 1);
        let all = self.words.entry(word).or_default();
        if !all.contains(&thread) {
            all.push(thread);
        }
    }

    /// The words.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.words.keys().copied()
    }

    /// Whether the kernel may clear a word near this: a quick look.
    #[inline]
    pub fn may_clear(&mut self, addr: u64) -> bool {
        self.near.has(addr, 1)
    }

    /// The threads at whose end the kernel clears a word.
    pub fn clear(&self, word: u64) -> impl Iterator<Item = usize> {
        self.words.get(&word).into_iter().flatten().copied()
    }

    /// The next thread with this number of the operating system's is made: which one that is.
    pub fn made(&mut self, id: u32, times: &Times) -> Option<usize> {
        let child = times.with_id(id).find(|child| !self.order.contains(child))?;
        self.order.push(child);
        Some(child)
    }

    /// The threads that have ended, if somebody finds that out by reading at this address.
    pub fn ended_by<'a>(&'a self, addr: u64, times: &'a Times) -> impl Iterator<Item = usize> + 'a {
        self.clear(addr).filter(|thread| times.has_ended(*thread))
    }

    /// The thread whose own part of memory is at an address, which is what the C library names it by (`pthread_t`): of several ones, the
    /// last that was made.
    pub fn named(&self, own: u64) -> Option<usize> {
        let is_it = |thread: &usize| self.bases[*thread] == Some(own);
        self.order.iter().rev().copied().find(is_it)
    }
}

/// How far the word lies behind the start of the thread's own part of memory.
fn distance(cursor: &mut Cursor<'_>, told: &Told) -> Result<Option<u64>> {
    cursor.seek(Seek::Place(told.place))?;
    let mut word = |offset: u64| -> Result<Option<u64>> {
        let bytes = cursor.read_memory(Addr(told.arguments.wrapping_add(offset)), 8)?;
        Ok(<[u8; 8]>::try_from(bytes).ok().map(u64::from_le_bytes))
    };
    Ok(word(CHILD_TID)?.zip(word(TLS)?).map(|(word, own)| word.wrapping_sub(own)))
}
