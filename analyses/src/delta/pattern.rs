//! Who accessed an object in which order: how often each line did, and conflicts of threads and handlers with each other.

use super::follow::Access;
use super::object::Object;
use crate::races::atomicity::{Local, Pairs};
use crate::races::clock::Epoch;
use crate::races::shadow::{Made, Site, granules};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeSet, HashMap};

/// What identifies a conflict in a run: its kind, and the instructions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub name: &'static str,
    pub ips: Vec<u64>,
}

/// A conflict.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// How often it happened.
    pub times: u64,
    /// The first time: where the accesses were, in their order.
    pub made: Vec<Epoch>,
    /// The first byte, then.
    pub addr: u64,
    /// Whether a handler took part, then.
    pub by_handler: bool,
}

/// What was done with an object.
#[derive(Default)]
pub struct Accessed {
    /// By instruction and whether they write: how many accesses.
    pub counts: HashMap<(u64, bool), u64>,
    /// Threads that did, and handlers in them.
    pub actors: BTreeSet<(usize, bool)>,
    pub conflicts: HashMap<Kind, Conflict>,
}

/// A conflict that an access completes: its kind, the accesses, and whether a handler took part.
type Met = (&'static str, SmallVec<[Made; 3]>, bool);

/// An access that was the last one of its kind.
#[derive(Clone, Copy)]
struct Last {
    actor: (usize, bool),
    made: Made,
    mask: u8,
}

/// Of 8 bytes: the last write, and reads since then, the last one of each actor.
#[derive(Default)]
struct Cell {
    write: Option<Last>,
    reads: Vec<Last>,
}

/// The instructions, numbered.
#[derive(Default)]
struct Sites {
    numbers: HashMap<u64, Site>,
    all: Vec<u64>,
}

impl Sites {
    fn number(&mut self, ip: u64) -> Site {
        *self.numbers.entry(ip).or_insert_with(|| {
            self.all.push(ip);
            (self.all.len() - 1) as Site
        })
    }
}

/// What was done with all objects.
#[derive(Default)]
pub struct Patterns {
    pub objects: HashMap<Object, Accessed>,
    cells: HashMap<u64, Cell>,
    pairs: Pairs,
    sites: Sites,
}

impl Patterns {
    /// An access of an object.
    pub fn access(&mut self, object: &Object, access: &Access) {
        let Self { objects, cells, pairs, sites } = self;
        if !objects.contains_key(object) {
            objects.insert(object.clone(), Accessed::default());
        }
        let Some(accessed) = objects.get_mut(object) else { return };
        accessed.actors.insert(access.actor);
        for writes in [access.reads.then_some(false), access.writes.then_some(true)].into_iter().flatten() {
            *accessed.counts.entry((access.ip, writes)).or_default() += 1;
        }
        let made = Made { epoch: access.epoch, site: sites.number(access.ip) };
        let mut found: SmallVec<[Met; 2]> = SmallVec::new();
        for (start, mask) in granules(access.addr, access.len) {
            let cell = cells.entry(start).or_default();
            let now = Last { actor: access.actor, made, mask };
            let is_conflict = |last: &&Last| last.actor != now.actor && last.mask & mask != 0;
            let mut note = |name: &'static str, last: &Last| {
                let one = (name, smallvec![last.made, made], last.actor.1 || now.actor.1);
                if !found.contains(&one) {
                    found.push(one);
                }
            };
            cell.write.iter().filter(is_conflict).for_each(|last| note(if access.writes { "WW" } else { "WR" }, last));
            if access.writes {
                cell.reads.iter().filter(is_conflict).for_each(|last| note("RW", last));
                (cell.write, cell.reads) = (Some(now), Vec::new());
            } else {
                cell.reads.retain(|last| last.actor != now.actor);
                cell.reads.push(now);
            }
        }
        let Access { actor, call, ip, writes, .. } = *access;
        // That the thread let others come in between on purpose does not count here: the other run tells.
        let local = Local { actor, call, made, ip, writes, waits: 0 };
        let ip = |site: Site| sites.all[site as usize];
        let torn = pairs.access((access.addr, access.len), local, |_| false, ip, |_, _| {});
        if let Some(torn) = torn {
            let by_handler = torn.made.iter().all(|made| made.epoch.thread() == actor.0);
            found.push((torn.pattern.name(), torn.made.into_iter().collect(), by_handler));
        }
        for (name, made, by_handler) in found {
            let kind = Kind { name, ips: made.iter().map(|made| sites.all[made.site as usize]).collect() };
            let conflict = accessed.conflicts.entry(kind).or_insert_with(|| Conflict {
                times: 0,
                made: made.iter().map(|made| made.epoch).collect(),
                addr: access.addr,
                by_handler,
            });
            conflict.times += 1;
        }
    }

    /// Memory is new.
    pub fn forget(&mut self, start: u64, len: u64) {
        granules(start, len).for_each(|(start, _)| drop(self.cells.remove(&start)));
        self.pairs.forget(start, len);
    }
}
