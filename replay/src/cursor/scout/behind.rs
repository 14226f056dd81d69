//! The last hits before a time, the latest first.

use super::super::{Conditions, Last, Open, Snapshots};
use crate::error::Result;
use crate::process::Process;
use bugnet_format::control::{Hit, Hits, Stop, Target};

/// Most pieces of a stretch that are kept apart.
const MOST: usize = 4;
/// By how much more is run with the conditions at once after that was in vain.
const GROWTH: u64 = 4;

/// A search through an epoch, which remembers where there is nothing.
pub(in super::super) struct Search {
    conditions: Conditions,
    first: u64,
    /// Where there may be something, in ascending order; nothing is left out but what holds nothing.
    pieces: Vec<Piece>,
    /// What is not longer is run with the conditions.
    least: u64,
    /// Whether a glance is still worth it.
    scouts: bool,
}

/// A piece of the epoch, from one time up to another.
struct Piece {
    from: u64,
    until: u64,
    /// A process at its start; without, the nearest copy will do.
    copy: Option<Process>,
    /// What there is in it.
    content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// That is not known.
    Anything,
    /// A watch may meet something.
    Something,
    /// A watch would meet nothing; this is the last of all the rest.
    Only(Hit),
}

/// What scouting a stretch has brought.
enum Scouted {
    /// The pieces in which there is something.
    Pieces(Vec<Piece>),
    /// It does not bring anything.
    Useless,
    Interrupted,
}

/// How the last hit is asked for: what records bring at the very place from which the search began is there already.
fn hits(until: u64, before: u64) -> Hits {
    if until == before { Hits::LastBefore } else { Hits::Last }
}

impl Search {
    /// From one time of the epoch on and before another.
    pub fn new(open: &Open, conditions: &Conditions, first: u64, before: u64) -> Self {
        let all = Piece { from: first, until: before, copy: None, content: Content::Anything };
        let least = open.grain.least;
        Self { conditions: conditions.clone(), first, pieces: vec![all], least, scouts: true }
    }

    /// The last hit before a time, which is not later than at the last call.
    pub fn next(&mut self, open: &mut Open, before: u64) -> Result<Last> {
        while let Some(Piece { from: start, until: end, copy, content }) = self.pieces.pop() {
            let until = end.min(before);
            if until <= start {
                continue;
            }
            if let Content::Only(hit) = content
                && hit.time < before
            {
                self.pieces.push(Piece { from: start, until: hit.time, copy, content: Content::Anything });
                return Ok(Last::Hit(hit));
            }
            let Some(from) = self.begin(open, start, until, copy)? else { return Ok(Last::Interrupted) };
            let is_distrusted = open.patches.are_useless();
            let len = until - from;
            let count = match content {
                Content::Something if len <= self.least => 0,
                Content::Something => open.grain.pieces,
                _ if len <= open.grain.most => 1,
                _ => open.grain.pieces,
            };
            if count > 0 && self.scouts && open.can_scout(&self.conditions) {
                match self.scout(open, (from, until), len.div_ceil(count), before)? {
                    Scouted::Pieces(pieces) => self.pieces.extend(pieces),
                    Scouted::Useless => self.begin_again(until),
                    Scouted::Interrupted => return Ok(Last::Interrupted),
                }
                continue;
            }
            let copy = if open.snapshots.has(from) { None } else { Some(open.tracked.process.fork()?) };
            open.set_conditions(&self.conditions)?;
            let stop = open.run(Target::Time(until), hits(until, before))?;
            if stop == Stop::Interrupted || open.interrupter.take() {
                return Ok(Last::Interrupted);
            }
            if open.patches.are_useless() != is_distrusted {
                // So is what was found by them.
                self.begin_again(from);
            }
            if let Some(hit) = open.hit {
                // Whoever goes there has not far to go.
                if let Some(copy) = copy.filter(|copy| copy.suits(open.patches.reach(Target::Time(until)))) {
                    open.snapshots.add(from, copy, hit.time);
                }
                self.pieces.push(Piece { from, until: hit.time, copy: None, content: Content::Anything });
                return Ok(Last::Hit(hit));
            }
            if content == Content::Something {
                self.least = self.least.saturating_mul(GROWTH);
            }
        }
        Ok(Last::None)
    }

    /// Nothing is known of what lies before this time, and all that is watched is watched at each access.
    fn begin_again(&mut self, until: u64) {
        self.scouts = false;
        self.pieces = vec![Piece { from: self.first, until, copy: None, content: Content::Anything }];
    }

    /// Makes the process one that is at the start of a stretch, or, where copies lie closer to its end, at one of those; what comes before
    /// that is looked at later. The time at which it is; none if it was interrupted.
    fn begin(&mut self, open: &mut Open, start: u64, until: u64, copy: Option<Process>) -> Result<Option<u64>> {
        let reach = open.patches.reach(Target::Time(until));
        if let Some(copy) = copy.filter(|copy| copy.suits(reach)) {
            open.take_copy(start, copy)?;
            return Ok(Some(start));
        }
        let suits = |process: &Process| process.suits(reach);
        // One that is close to the end, but not every one of those that are: each is a run of its own.
        let near = until.saturating_sub(open.grain.near);
        let newest = open.snapshots.before(until - 1, suits).map_or(start, |(at, _)| at);
        let from = start.max(newest.min(near));
        let Some((at, snapshot)) = open.snapshots.oldest(from..until, suits) else { return Err(Snapshots::lost()) };
        // What is there already will do, unless its code is made for a watch.
        let is_there =
            open.time == at && suits(&open.tracked.process) && open.tracked.process.conditions.ranges.is_empty();
        if !is_there {
            let copy = snapshot.fork()?;
            open.take_copy(at, copy)?;
        }
        if at > start {
            self.pieces.push(Piece { from: start, until: at, copy: None, content: Content::Anything });
            return Ok(Some(at));
        }
        if at < start {
            open.set_conditions(&Conditions::default())?;
            let stop = open.run(Target::Time(start), Hits::Ignore)?;
            if stop == Stop::Interrupted || open.interrupter.take() {
                return Ok(None);
            }
        }
        Ok(Some(start))
    }

    /// Runs from where the process is, in pieces that are so long, and says in which there is something.
    fn scout(&self, open: &mut Open, (from, until): (u64, u64), step: u64, before: u64) -> Result<Scouted> {
        let mut found: Vec<Piece> = Vec::new();
        open.begin_scouting(&self.conditions, until)?;
        let mut from = from;
        while from < until {
            let to = until.min(from + step);
            let copy = if open.snapshots.has(from) { None } else { Some(open.tracked.process.fork()?) };
            let stop = open.run(Target::Time(to), hits(to, before))?;
            if stop == Stop::Interrupted || open.interrupter.take() {
                return Ok(Scouted::Interrupted);
            }
            let content = match (open.glance(&self.conditions)?, open.hit) {
                (None, _) => return Ok(Scouted::Useless),
                (Some(true), _) => Some(Content::Something),
                (Some(false), hit) => hit.map(Content::Only),
            };
            found.extend(content.map(|content| Piece { from, until: to, copy, content }));
            if found.len() > MOST {
                let second = found.remove(1);
                (found[0].until, found[0].content) = (second.until, Content::Something);
            }
            from = to;
        }
        Ok(Scouted::Pieces(found))
    }
}
