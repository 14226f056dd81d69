//! Atomicity: two accesses of one call of a function, and one of another thread in between, in such a way that no order in which the two come
//! next to each other gives the same (Lu, Tucek, Qin and Zhou, "AVIO", 2006, table 1). It does not matter whether they are races.

use super::clock::Epoch;
use super::paged::Paged;
use super::shadow::{Made, Site, granules};
use serde::Serialize;
use smallvec::SmallVec;

/// Which accesses there were: the first one, the other thread's, the second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Pattern {
    /// The two reads have found different values.
    Rwr,
    /// The read has not found what was written.
    Wwr,
    /// What was written may follow from a value that was there no more.
    Rww,
    /// The other thread has read what was there for a moment.
    Wrw,
}

impl Pattern {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rwr => "RWR",
            Self::Wwr => "WWR",
            Self::Rww => "RWW",
            Self::Wrw => "WRW",
        }
    }

    /// What is wrong about it.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Rwr => "two reads of one call have another thread's write in between",
            Self::Wwr => "a read does not find what the same call has written, but what another thread has",
            Self::Rww => "what another thread has written since the read is overwritten",
            Self::Wrw => "another thread reads what the call is about to overwrite",
        }
    }
}

/// Why a pair does not count, of those in whose middle another thread came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// The second access stands before the first one in the code: it is another round of a loop.
    pub rounds: u64,
    /// In between, the thread waited for others or let them go on.
    pub waited: u64,
    /// The program has put all three into this order.
    pub ordered: u64,
}

/// An access in a call of a function.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// The thread's number, and whether a handler in it made the access.
    pub actor: (usize, bool),
    /// The number of the call.
    pub call: u64,
    /// Where.
    pub made: Made,
    /// Address of the instruction.
    pub ip: u64,
    /// Whether it writes.
    pub writes: bool,
    /// How often the thread had waited.
    pub waits: u64,
}

/// The last access of an actor, and what others have done since. There is one for each granule and thread: it takes no more than a line of a cache.
#[derive(Clone, Copy, Debug)]
struct Last {
    epoch: Epoch,
    call: u64,
    waits: u64,
    /// Of others since then: the last write, and the last read.
    others: [Epoch; 2],
    other_sites: [Site; 2],
    site: Site,
    thread: u32,
    /// The bytes that were accessed.
    mask: u8,
    /// Bits of [`Self::WRITES`] and so on.
    flags: u8,
}

const _: () = assert!(size_of::<Last>() <= 64);

/// In [`Last::others`].
const WRITE: usize = 0;
const READ: usize = 1;

impl Last {
    const WRITES: u8 = 1;
    const IN_HANDLER: u8 = 2;
    /// Whether there is another's write, and next to it, read; and whether the program has put the thread's own access before these.
    const OTHERS: u8 = 4;
    const BEHIND: u8 = 16;

    fn new(local: &Local, mask: u8) -> Self {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(local.writes, Self::WRITES) | flag(local.actor.1, Self::IN_HANDLER);
        let (others, other_sites) = ([Epoch::NONE; 2], [0; 2]);
        let Local { call, waits, made: Made { epoch, site }, .. } = *local;
        Self { epoch, call, waits, others, other_sites, site, thread: local.actor.0 as u32, mask, flags }
    }

    #[inline]
    fn is_of(&self, actor: (usize, bool)) -> bool {
        (self.thread as usize, self.flags & Self::IN_HANDLER != 0) == actor
    }

    fn made(&self) -> Made {
        Made { epoch: self.epoch, site: self.site }
    }

    #[inline]
    fn has_others(&self) -> bool {
        self.flags & (Self::OTHERS | Self::OTHERS << 1) != 0
    }

    #[inline]
    fn set_other(&mut self, which: usize, made: Made, is_behind: bool) {
        (self.others[which], self.other_sites[which]) = (made.epoch, made.site);
        let behind = Self::BEHIND << which;
        self.flags = self.flags & !behind | Self::OTHERS << which | if is_behind { behind } else { 0 };
    }

    /// Another's access, and whether the program has put the thread's own before it.
    fn other(&self, which: usize) -> Option<(Made, bool)> {
        let made = Made { epoch: self.others[which], site: self.other_sites[which] };
        (self.flags & Self::OTHERS << which != 0).then_some((made, self.flags & Self::BEHIND << which != 0))
    }
}

/// A pair with another thread's access in between.
#[derive(Clone, Copy, Debug)]
pub struct Torn {
    /// Which accesses.
    pub pattern: Pattern,
    /// All three, in their order.
    pub made: [Made; 3],
    /// First byte of the piece of memory.
    pub addr: u64,
    /// How many bytes.
    pub len: u64,
}

type Lasts = SmallVec<[Last; 2]>;

/// The accesses that each thread made last.
#[derive(Default)]
pub struct Pairs {
    /// Mostly, two threads share something.
    granules: Paged<Lasts>,
    /// What was passed over.
    pub passed: Passed,
}

impl Pairs {
    /// An access is made. `is_wanted` says whether the program has put an earlier one before it, and `ip` at which address an instruction is. `kept` is
    /// called for the bytes of each granule: whether there is one last access of the actor to them, and whether there is none of another.
    pub fn access(
        &mut self,
        (addr, len): (u64, u64),
        local: Local,
        mut is_wanted: impl FnMut(Epoch) -> bool,
        ip: impl Fn(Site) -> u64,
        mut kept: impl FnMut((u64, u8), (bool, bool)),
    ) -> Option<Torn> {
        let mut torn = None;
        for (start, mask) in granules(addr, len) {
            let all = self.granules.at(start);
            let (mut own, mut is_one, mut is_alone) = (None, true, true);
            for (number, last) in all.iter_mut().enumerate().filter(|(_, last)| last.mask & mask != 0) {
                if last.is_of(local.actor) {
                    is_one = own.is_none();
                    own = own.or(Some(number));
                    continue;
                }
                is_alone = false;
                // A handler in the same thread comes when it likes.
                let is_behind = last.thread as usize != local.actor.0 && is_wanted(last.epoch);
                last.set_other(if local.writes { WRITE } else { READ }, local.made, is_behind);
            }
            if let Some(before) = own.map(|own| &all[own])
                && before.call == local.call
                && torn.is_none()
                // Nobody else was there since.
                && before.has_others()
            {
                let at = addr.max(start);
                let piece = (at, (addr + len).min(start + 8) - at);
                torn = judge((before, ip(before.site)), &local, piece, &mut self.passed, &mut is_wanted);
            }
            put(all, own, Last::new(&local, mask));
            kept((start, mask), (is_one, is_alone));
        }
        torn
    }

    /// The actor of the last access of these bytes of a granule has made others since, by which nothing else changes: the last one, and the last read and
    /// write, if there are any.
    pub fn repeated(&mut self, (start, mask): (u64, u8), local: &Local, made: [Option<Made>; 2]) {
        let all = self.granules.at(start);
        for other in all.iter_mut().filter(|last| last.mask & mask != 0 && !last.is_of(local.actor)) {
            for (which, made) in [(READ, made[0]), (WRITE, made[1])] {
                if let Some(Made { epoch, site }) = made {
                    (other.others[which], other.other_sites[which]) = (epoch, site);
                }
            }
        }
        let own = all.iter().position(|last| last.mask & mask != 0 && last.is_of(local.actor));
        if own.is_some() {
            put(all, own, Last::new(local, mask));
        }
    }

    /// Memory is new.
    pub fn forget(&mut self, addr: u64, len: u64) {
        if len > 0 {
            self.granules.forget(addr, len);
        }
    }
}

/// Puts an access in place of another one, or adds it. The newest stands at the end.
#[inline]
fn put(all: &mut Lasts, before: Option<usize>, new: Last) {
    let end = all.len().wrapping_sub(1);
    match before {
        Some(before) => {
            all[before] = all[end];
            all[end] = new;
        }
        None => all.push(new),
    }
}

fn judge(
    (before, ip): (&Last, u64),
    now: &Local,
    (addr, len): (u64, u64),
    passed: &mut Passed,
    is_wanted: &mut impl FnMut(Epoch) -> bool,
) -> Option<Torn> {
    let (pattern, which) = match (before.flags & Last::WRITES != 0, now.writes) {
        (false, false) => (Pattern::Rwr, WRITE),
        (true, false) => (Pattern::Wwr, WRITE),
        (false, true) => (Pattern::Rww, WRITE),
        (true, true) => (Pattern::Wrw, READ),
    };
    let (between, is_behind) = before.other(which)?;
    match () {
        () if now.ip <= ip => passed.rounds += 1,
        () if now.waits != before.waits => passed.waited += 1,
        () if is_behind && is_wanted(between.epoch) => passed.ordered += 1,
        () => return Some(Torn { pattern, made: [before.made(), between, now.made], addr, len }),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(pairs: &mut Pairs, thread: usize, ip: u64, call: u64, writes: bool) -> Option<Pattern> {
        let made = Made { epoch: Epoch::new(thread, ip), site: ip as u32 };
        let local = Local { actor: (thread, false), call, made, ip, writes, waits: 0 };
        pairs.access((0x1000, 4), local, |_| false, u64::from, |_, _| {}).map(|torn| torn.pattern)
    }

    #[test]
    fn what_cannot_be_put_next_to_each_other() {
        const SERIAL: [Option<Pattern>; 8] =
            [None, None, Some(Pattern::Rwr), Some(Pattern::Rww), None, Some(Pattern::Wrw), Some(Pattern::Wwr), None];
        for (number, expected) in SERIAL.into_iter().enumerate() {
            let [first, remote, second] = [number & 4, number & 2, number & 1].map(|bit| bit != 0);
            let mut pairs = Pairs::default();
            assert_eq!(access(&mut pairs, 0, 1, 7, first), None);
            assert_eq!(access(&mut pairs, 1, 2, 8, remote), None);
            assert_eq!(access(&mut pairs, 0, 3, 7, second), expected, "{number:03b}");
        }
    }

    #[test]
    fn another_round_or_another_call_is_no_pair() {
        let mut pairs = Pairs::default();
        access(&mut pairs, 0, 5, 7, false);
        access(&mut pairs, 1, 2, 8, true);
        assert_eq!(access(&mut pairs, 0, 5, 7, false), None);
        assert_eq!(pairs.passed.rounds, 1);
        access(&mut pairs, 1, 2, 8, true);
        assert_eq!(access(&mut pairs, 0, 6, 9, false), None);
        access(&mut pairs, 1, 2, 8, true);
        assert_eq!(access(&mut pairs, 0, 7, 9, true), Some(Pattern::Rww));
    }
}
