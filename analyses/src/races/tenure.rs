//! Who accesses memory again and again, while nobody else does: of such an access, nothing but its place matters, so that [`Shadow`] and [`Pairs`] hear
//! of the last one alone, when somebody else comes or something else happens there.
//!
//! A tenure begins with an access that both have heard of. Accesses of the same bytes by the same thread belong to it, as long as they cannot conflict
//! with what others did before, and the others' accesses stand in the same order to them. Within 8 bytes, no two tenures have bytes in common.

use super::atomicity::{Local, Pairs};
use super::clock::Epoch;
use super::paged::{GRANULE, Paged};
use super::shadow::{Made, Shadow, Site, granules};

/// Which accesses there are, as indices.
const READ: usize = 0;
const WRITE: usize = 1;

/// Accesses of 4 bytes or fewer of the upper half of 8 bytes are the second ones' tenures, all others the first ones'.
const HALF: u32 = 4;

/// What [`Shadow`] and [`Pairs`] say of bytes behind an access that they have heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the next read, and write, by the same thread cannot conflict with what others did.
    pub free: [bool; 2],
    /// Whether there is one last access of the actor to them.
    pub is_one: bool,
    /// Whether there is none of anybody else.
    pub is_alone: bool,
}

/// A thread that makes an access, as far as accesses of a tenure need it.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    /// The thread, and whether it is in a handler, as in [`Tenure::who`]; none if it has no tenures.
    key: Option<u32>,
    version: u32,
    call: u32,
    waits: u32,
}

impl Actor {
    /// `version`: of what comes before the thread's accesses, as the program wants it. Numbers that are too large have no tenures.
    #[must_use]
    #[inline]
    pub fn new((thread, in_handler): (usize, bool), version: u64, call: u64, waits: u64) -> Self {
        let is_small = thread < usize::from(u16::MAX) && (version | call | waits) >> 32 == 0;
        let key = (thread as u32) << Tenure::THREAD | if in_handler { Tenure::IN_HANDLER } else { 0 };
        Self { key: is_small.then_some(key), version: version as u32, call: call as u32, waits: waits as u32 }
    }

    /// The same in another call.
    #[must_use]
    #[inline]
    pub fn in_call(&self, call: u64) -> Self {
        let key = self.key.filter(|_| call >> 32 == 0);
        Self { key, call: call as u32, ..*self }
    }
}

/// There may be one for each half of a granule: it takes little of a cache.
#[derive(Clone, Copy, Default)]
struct Tenure {
    /// The last read, and the last write.
    epochs: [Epoch; 2],
    sites: [Site; 2],
    /// Of the last access.
    call: u32,
    waits: u32,
    version: u32,
    /// From the lowest bit: the bytes (none: there is no tenure), [`Self::IN_HANDLER`], which accesses belong to it, which ones [`Shadow`] and [`Pairs`]
    /// have not heard of, [`Self::WROTE`], [`Self::ALONE`], the thread.
    who: u32,
}

const _: () = assert!(size_of::<Tenure>() == 40);

impl Tenure {
    const IN_HANDLER: u32 = 1 << 8;
    /// Next to it, the same of writes.
    const TAKES: u32 = 1 << 9;
    const UNHEARD: u32 = 1 << 11;
    /// Whether its last access wrote.
    const WROTE: u32 = 1 << 13;
    /// Whether it is nobody else's last one.
    const ALONE: u32 = 1 << 14;
    const THREAD: u32 = 16;
    /// What identifies it.
    const KEY: u32 = 0xffff_0000 | Self::IN_HANDLER | 0xff;

    #[inline]
    fn mask(&self) -> u8 {
        self.who as u8
    }

    /// Whether an access of these bytes belongs to it.
    #[inline]
    fn takes(&self, key: u32, actor: &Actor, writes: bool) -> bool {
        let kind = Self::TAKES << u32::from(writes);
        self.who & (Self::KEY | kind) == key | kind && (self.version == actor.version || self.who & Self::ALONE != 0)
    }

    #[inline]
    fn repeat(&mut self, actor: &Actor, made: Made, writes: bool) {
        let which = usize::from(writes);
        (self.epochs[which], self.sites[which]) = (made.epoch, made.site);
        (self.call, self.waits) = (actor.call, actor.waits);
        let wrote = if writes { Self::WROTE } else { 0 };
        self.who = self.who & !Self::WROTE | Self::UNHEARD << which | wrote;
    }

    fn made(&self, which: usize) -> Made {
        Made { epoch: self.epochs[which], site: self.sites[which] }
    }

    fn last(&self) -> Made {
        self.made(usize::from(self.who & Self::WROTE != 0))
    }

    /// Whether [`Shadow`] and [`Pairs`] have not heard of all of it.
    #[inline]
    fn is_unheard(&self) -> bool {
        self.who & (Self::UNHEARD | Self::UNHEARD << 1) != 0
    }

    /// Tells them.
    fn tell(&mut self, start: u64, shadow: &mut Shadow, pairs: &mut Pairs) {
        let unheard = |which: usize| (self.who & Self::UNHEARD << which != 0).then(|| self.made(which));
        let unheard = [unheard(READ), unheard(WRITE)];
        let (mask, made) = (self.mask(), self.last());
        let local = Local {
            actor: ((self.who >> Self::THREAD) as usize, self.who & Self::IN_HANDLER != 0),
            call: self.call.into(),
            made,
            ip: 0,
            writes: self.who & Self::WROTE != 0,
            waits: self.waits.into(),
        };
        shadow.repeated((start, mask), unheard);
        pairs.repeated((start, mask), &local, unheard);
        self.who &= !(Self::UNHEARD | Self::UNHEARD << 1);
    }
}

/// All tenures.
#[derive(Default)]
pub struct Tenures {
    halves: [Paged<Tenure>; 2],
    /// Where the last access was that belonged to one. Of several accesses of an instruction, it would not be known which came last.
    last: Epoch,
}

/// Which of the halves has a tenure of these bytes of a granule.
#[inline]
fn home(mask: u8) -> usize {
    usize::from(mask.trailing_zeros() >= HALF)
}

impl Tenures {
    /// Whether an access belongs to the tenures of all of its bytes, in which case that is all about it.
    #[inline]
    pub fn repeat(&mut self, (addr, len): (u64, u64), actor: &Actor, made: Made, writes: bool) -> bool {
        let Some(key) = actor.key else { return false };
        let from = addr % GRANULE;
        if made.epoch == self.last || len == 0 {
            return false;
        }
        if len <= GRANULE - from {
            let mask = ((1_u16 << (from + len)) - (1_u16 << from)) as u8;
            let tenure = self.halves[home(mask)].get(addr);
            let Some(tenure) = tenure.filter(|one| one.takes(key | u32::from(mask), actor, writes)) else {
                return false;
            };
            tenure.repeat(actor, made, writes);
        } else {
            let halves = &mut self.halves;
            let mut of = |(start, mask): (u64, u8)| {
                let tenure = halves[home(mask)].get(start);
                tenure.is_some_and(|one| one.takes(key | u32::from(mask), actor, writes))
            };
            if !granules(addr, len).all(&mut of) {
                return false;
            }
            for (start, mask) in granules(addr, len) {
                let tenure = halves[home(mask)].get(start);
                tenure.into_iter().for_each(|one| one.repeat(actor, made, writes));
            }
        }
        self.last = made.epoch;
        true
    }

    /// Tells what has not been told yet of the granules in which these bytes lie.
    pub fn tell(&mut self, (addr, len): (u64, u64), shadow: &mut Shadow, pairs: &mut Pairs) {
        let [lower, upper] = &mut self.halves;
        for (start, _) in granules(addr, len) {
            let mut both = [lower.get(start), upper.get(start)].map(|one| one.filter(|one| one.is_unheard()));
            // Both are of one thread.
            if let [Some(one), Some(other)] = &both
                && one.last().epoch.count() > other.last().epoch.count()
            {
                both.swap(0, 1);
            }
            both.into_iter().flatten().for_each(|one| one.tell(start, shadow, pairs));
        }
    }

    /// An access was made that [`Shadow`] and [`Pairs`] have heard of, as of all before: a tenure may begin.
    pub fn begin(&mut self, (start, mask): (u64, u8), actor: &Actor, (made, writes): (Made, bool), standing: Standing) {
        let Some(key) = actor.key.filter(|_| standing.is_one && !made.epoch.is_none()) else {
            return self.end(start);
        };
        let (home, which) = (home(mask), usize::from(writes));
        if let Some(other) = self.halves[1 - home].get(start)
            && (other.mask() & mask != 0 || (other.who ^ key) & Tenure::KEY & !0xff != 0)
        {
            *other = Tenure::default();
        }
        let tenure = self.halves[home].at(start);
        // How others' accesses stand to those of a kind is known once they have heard of one.
        let goes_on = tenure.who & Tenure::KEY == key | u32::from(mask) && tenure.version == actor.version;
        let known = if goes_on { tenure.who } else { 0 } | Tenure::TAKES << which;
        let takes = |which: usize| {
            let bit = Tenure::TAKES << which;
            if standing.free[which] && (standing.is_alone || known & bit != 0) { bit } else { 0 }
        };
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let flags = flag(writes, Tenure::WROTE) | flag(standing.is_alone, Tenure::ALONE) | takes(READ) | takes(WRITE);
        let (mut epochs, mut sites) = ([Epoch::NONE; 2], [0; 2]);
        (epochs[which], sites[which]) = (made.epoch, made.site);
        let Actor { version, call, waits, .. } = *actor;
        *tenure = Tenure { epochs, sites, call, waits, version, who: key | u32::from(mask) | flags };
    }

    /// Tenures of a granule end, of which all has been told.
    pub fn end(&mut self, start: u64) {
        self.halves.iter_mut().filter_map(|half| half.get(start)).for_each(|one| *one = Tenure::default());
    }

    /// Memory is new.
    pub fn forget(&mut self, addr: u64, len: u64) {
        self.halves.iter_mut().for_each(|half| half.forget(addr, len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::races::clock::Clock;
    use crate::races::shadow::{Access, Unordered};

    /// What one hears of with tenures, and without.
    #[derive(Default)]
    struct Ways {
        tenures: Tenures,
        shadows: [Shadow; 2],
        pairs: [Pairs; 2],
    }

    struct Thread {
        all: Clock,
        program: Clock,
        version: u64,
        call: u64,
        waits: u64,
    }

    impl Ways {
        /// Whether an access belongs to a tenure; what is found is compared.
        fn access(&mut self, thread: &Thread, (addr, len): (u64, u64), local: Local) -> bool {
            let Local { actor, made, writes, .. } = local;
            let Self { tenures, shadows, pairs, .. } = self;
            let access = Access { addr, len, writes, made, clock: &thread.all };
            let is_wanted = |place: Epoch| place.thread() == actor.0 || thread.program.has(place);
            let (mut expected, mut found): (Vec<Unordered>, Vec<Unordered>) = (Vec::new(), Vec::new());
            shadows[0].access(&access, &mut expected);
            let torn = pairs[0].access((addr, len), local, is_wanted, u64::from, |_, _| {});
            let of_thread = Actor::new(actor, thread.version, thread.call, thread.waits);
            let repeats = tenures.repeat((addr, len), &of_thread, made, writes);
            let other = if repeats {
                None
            } else {
                tenures.tell((addr, len), &mut shadows[1], &mut pairs[1]);
                let free = shadows[1].access(&access, &mut found);
                pairs[1].access((addr, len), local, is_wanted, u64::from, |bytes, (is_one, is_alone)| {
                    tenures.begin(bytes, &of_thread, (made, writes), Standing { free, is_one, is_alone });
                })
            };
            assert_eq!(found, expected);
            assert_eq!(format!("{other:?}"), format!("{torn:?}"));
            assert_eq!(pairs[1].passed, pairs[0].passed);
            repeats
        }

        fn forget(&mut self, addr: u64, len: u64) {
            self.tenures.forget(addr, len);
            self.shadows.iter_mut().for_each(|shadow| shadow.forget(addr, len));
            self.pairs.iter_mut().for_each(|pairs| pairs.forget(addr, len));
        }
    }

    #[test]
    fn what_is_found_is_the_same_without() {
        let (mut random, mut repeated) = (fastrand::Rng::with_seed(11), 0);
        for round in 0..400 {
            let mut ways = Ways::default();
            let thread = |number| Thread {
                all: Clock::default(),
                program: Clock::default(),
                version: 0,
                call: number,
                waits: 0,
            };
            let mut threads: Vec<Thread> = (0..3).map(thread).collect();
            let (mut number, mut in_handler) = (0, false);
            for count in 1..400 {
                // Who goes on for a while.
                if random.u8(..6) == 0 {
                    (number, in_handler) = (random.usize(..3), random.u8(..8) == 0);
                }
                let thread = &mut threads[number];
                match random.u8(..16) {
                    0..4 => {
                        let other = random.usize(..3);
                        let until = if random.bool() { count } else { random.u64(..count) };
                        thread.all.reach(other, until);
                        if random.bool() {
                            thread.program.reach(other, until);
                            thread.version += 1;
                        }
                    }
                    4 if random.bool() => thread.call = random.u64(..2),
                    5 if random.u8(..4) == 0 => thread.waits += 1,
                    6 if random.u8(..8) == 0 => ways.forget(random.u64(64..80), 4),
                    _ => {}
                }
                let made = Made { epoch: Epoch::new(number, count), site: random.u32(..6) };
                let (call, waits, writes) = (thread.call, thread.waits, random.bool());
                let local = Local { actor: (number, in_handler), call, made, ip: made.site.into(), writes, waits };
                // Of whole halves, of any bytes of two granules, and of the same bytes most of the time.
                let bytes = match round % 3 {
                    0 => (64 + 4 * random.u64(..4), 4 << random.u64(..2)),
                    1 => (64 + random.u64(..8), random.u64(1..9)),
                    _ => (64, if random.u8(..5) == 0 { 4 } else { 16 }),
                };
                repeated += u64::from(ways.access(&threads[number], bytes, local));
            }
        }
        assert!(repeated > 20_000, "{repeated}");
    }
}
