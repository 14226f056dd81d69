//! What is remembered of memory: the last write and the reads behind it, of 8 bytes together as long as all accesses are of the same bytes
//! of them, else of each part of them that accesses have in common.

use super::clock::{Clock, Epoch};
use super::paged::{GRANULE, Paged};

/// The number of an instruction of the program.
pub type Site = u32;

/// An access that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Where in the execution.
    pub epoch: Epoch,
    /// By which instruction.
    pub site: Site,
}

/// Reads behind the last write: one as long as each follows from the one before, else the last one of each thread ("adaptive" in the paper).
#[derive(Clone, Debug, Default)]
enum Reads {
    #[default]
    None,
    One(Made),
    Many(Vec<Made>),
}

#[derive(Clone, Debug, Default)]
struct Cell {
    write: Made,
    reads: Reads,
}

/// Bytes that follow each other, of which the same is known.
#[derive(Clone, Debug, Default)]
struct Part {
    /// A bit each; none where there is nothing.
    mask: u8,
    cell: Cell,
}

#[derive(Clone, Debug)]
enum Granule {
    /// All accesses were of the same bytes.
    One(Part),
    /// In ascending order, without a byte in common. Most have two halves.
    Several(Vec<Part>),
}

/// An access that is not ordered behind an earlier one, of which one writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unordered {
    /// The earlier one.
    pub earlier: Made,
    /// Whether that one wrote.
    pub wrote: bool,
    /// First byte that both accessed, and how many.
    pub bytes: (u64, u64),
}

/// An access that is made.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// First byte.
    pub addr: u64,
    /// How many.
    pub len: u64,
    /// Whether it writes, or else only reads.
    pub writes: bool,
    /// Who makes it.
    pub made: Made,
    /// What has happened before.
    pub clock: &'a Clock,
}

/// The memory of a process.
#[derive(Default)]
pub struct Shadow {
    granules: Paged<Granule>,
}

impl Cell {
    fn access(&mut self, access: &Access<'_>, mut conflict: impl FnMut(Made, bool)) {
        let own = access.made.epoch.thread();
        let is_unordered =
            |made: &Made| !made.epoch.is_none() && made.epoch.thread() != own && !access.clock.has(made.epoch);
        if is_unordered(&self.write) {
            conflict(self.write, true);
        }
        if access.writes {
            match &self.reads {
                Reads::None => {}
                Reads::One(made) => [*made].into_iter().filter(is_unordered).for_each(|made| conflict(made, false)),
                Reads::Many(all) => {
                    all.iter().filter(|made| is_unordered(made)).for_each(|made| conflict(*made, false))
                }
            }
            (self.write, self.reads) = (access.made, Reads::None);
            return;
        }
        match &mut self.reads {
            Reads::None => self.reads = Reads::One(access.made),
            Reads::One(made) if is_unordered(made) => {
                self.reads = Reads::Many(vec![*made, access.made]);
            }
            Reads::One(made) => *made = access.made,
            Reads::Many(all) => match all.iter_mut().find(|made| made.epoch.thread() == own) {
                Some(made) => *made = access.made,
                None => all.push(access.made),
            },
        }
    }
}

impl Cell {
    /// The thread that accessed it last has read and written it again, last there.
    fn repeated(&mut self, [read, write]: [Option<Made>; 2]) {
        if let Some(write) = write {
            (self.write, self.reads) = (write, Reads::None);
        }
        let Some(read) = read.filter(|read| write.is_none_or(|write| write.epoch.count() < read.epoch.count())) else {
            return;
        };
        match &mut self.reads {
            Reads::Many(all) => {
                let own = all.iter_mut().find(|made| made.epoch.thread() == read.epoch.thread());
                own.into_iter().for_each(|made| *made = read);
            }
            reads => *reads = Reads::One(read),
        }
    }

    /// Whether the next read, and write, by the thread that made an access cannot conflict with what others did: what that one was ordered behind, all
    /// later ones are.
    fn is_free(&self, access: &Access<'_>) -> [bool; 2] {
        let own = access.made.epoch.thread();
        let is_behind =
            |made: &Made| made.epoch.is_none() || made.epoch.thread() == own || access.clock.has(made.epoch);
        let reads = match &self.reads {
            Reads::None => true,
            Reads::One(made) => is_behind(made),
            Reads::Many(_) => false,
        };
        let writes = is_behind(&self.write);
        [writes, writes && reads]
    }
}

impl Default for Granule {
    fn default() -> Self {
        Self::One(Part::default())
    }
}

impl Granule {
    /// An access of the bytes of a mask. Conflicts come with the first byte, and how many.
    #[inline]
    fn access(
        &mut self,
        wanted: u8,
        access: &Access<'_>,
        conflict: &mut impl FnMut(Made, bool, u32, u32),
    ) -> [bool; 2] {
        if let Self::One(part) = self {
            if part.mask == 0 {
                part.mask = wanted;
            }
            if part.mask == wanted {
                part.access(access, conflict);
                return part.cell.is_free(access);
            }
        }
        self.access_parts(wanted, access, conflict)
    }

    fn access_parts(
        &mut self,
        wanted: u8,
        access: &Access<'_>,
        conflict: &mut impl FnMut(Made, bool, u32, u32),
    ) -> [bool; 2] {
        let parts = self.divided(wanted);
        let of = parts.iter().position(|part| part.mask & wanted != 0).unwrap_or(parts.len());
        let until = of + parts[of..].iter().take_while(|part| part.mask & wanted != 0).count();
        parts[of..until].iter_mut().for_each(|part| part.access(access, conflict));
        if access.writes && until - of > 1 {
            // The same is known of all.
            parts[of].mask = wanted;
            parts.drain(of + 1..until);
            return parts[of].cell.is_free(access);
        }
        parts[of..until].iter().map(|part| part.cell.is_free(access)).fold([true; 2], both)
    }

    /// The parts, divided so that some of them are the bytes of a mask together.
    fn divided(&mut self, wanted: u8) -> &mut Vec<Part> {
        if let Self::One(part) = self {
            *self = Self::Several(vec![std::mem::take(part)]);
        }
        let Self::Several(parts) = self else { unreachable!("it is several now") };
        let inside = parts.iter().filter(|part| part.mask & !wanted == 0).fold(0, |all, part| all | part.mask);
        if inside != wanted {
            // What lies below, in, and above, and what is in no part.
            let below = (1 << wanted.trailing_zeros()) - 1;
            let known = parts.iter().fold(0, |all, part| all | part.mask);
            let mut new = Vec::with_capacity(parts.len() + 2);
            for part in parts.iter() {
                let masks = [part.mask & below, part.mask & wanted, part.mask & !below & !wanted];
                let masks = masks.into_iter().filter(|mask| *mask != 0);
                new.extend(masks.map(|mask| Part { mask, cell: part.cell.clone() }));
            }
            new.extend(runs(wanted & !known).map(|mask| Part { mask, cell: Cell::default() }));
            new.sort_unstable_by_key(|part| part.mask.trailing_zeros());
            *parts = new;
        }
        parts
    }

    fn parts(&mut self, mask: u8) -> impl Iterator<Item = &mut Part> {
        let parts = match self {
            Self::One(part) => std::slice::from_mut(part),
            Self::Several(parts) => parts,
        };
        parts.iter_mut().filter(move |part| part.mask & mask != 0)
    }
}

fn both(one: [bool; 2], other: [bool; 2]) -> [bool; 2] {
    [one[0] && other[0], one[1] && other[1]]
}

/// Bytes that follow each other in a mask.
fn runs(mut mask: u8) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let first = mask.checked_ilog2().map(|_| mask.trailing_zeros())?;
        let count = (mask >> first).trailing_ones();
        let run = ((1_u16 << (first + count)) - (1_u16 << first)) as u8;
        mask &= !run;
        Some(run)
    })
}

impl Part {
    #[inline]
    fn access(&mut self, access: &Access<'_>, conflict: &mut impl FnMut(Made, bool, u32, u32)) {
        let (first, count) = (self.mask.trailing_zeros(), self.mask.count_ones());
        self.cell.access(access, |made, wrote| conflict(made, wrote, first, count));
    }
}

/// The granules that an access touches: address, and a bit for each byte.
#[inline]
pub fn granules(addr: u64, len: u64) -> impl Iterator<Item = (u64, u8)> {
    let end = addr.saturating_add(len);
    let mut at = addr;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (start, from) = (at & !(GRANULE - 1), at % GRANULE);
            let until = (end - start).min(GRANULE);
            let mask = ((1_u16 << until) - (1_u16 << from)) as u8;
            at = start.saturating_add(GRANULE);
            (start, mask)
        })
    })
}

impl Shadow {
    /// Looks whether an access is ordered behind the earlier ones, and remembers it. Of each earlier access, one conflict is told. Returns whether the
    /// next read, and write, of the same bytes by the same thread cannot conflict with what others did.
    pub fn access(&mut self, access: &Access<'_>, found: &mut Vec<Unordered>) -> [bool; 2] {
        let mut free = [true; 2];
        for (start, mask) in granules(access.addr, access.len) {
            let of_granule = self.granules.at(start).access(mask, access, &mut |earlier, wrote, first, count| {
                let (first, count) = (start + u64::from(first), u64::from(count));
                let same = |other: &&mut Unordered| other.earlier == earlier && other.bytes.0 + other.bytes.1 == first;
                match found.iter_mut().find(same) {
                    Some(other) => other.bytes.1 += count,
                    None => found.push(Unordered { earlier, wrote, bytes: (first, count) }),
                }
            });
            free = both(free, of_granule);
        }
        free
    }

    /// The thread that made an access of bytes of a granule, as the last one of them, has read and written these again, last there.
    pub fn repeated(&mut self, (start, mask): (u64, u8), made: [Option<Made>; 2]) {
        self.granules.at(start).parts(mask).for_each(|part| part.cell.repeated(made));
    }

    /// Memory is new: nothing is known of what it was before.
    pub fn forget(&mut self, addr: u64, len: u64) {
        self.granules.forget(addr, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(shadow: &mut Shadow, thread: usize, at: (u64, u64), writes: bool, clock: &Clock) -> Vec<Unordered> {
        let mut found = Vec::new();
        let made = Made { epoch: Epoch::new(thread, 5), site: thread as u32 };
        shadow.access(&Access { addr: at.0, len: at.1, writes, made, clock }, &mut found);
        found
    }

    #[test]
    fn accesses_of_other_bytes_do_not_conflict() {
        let (mut shadow, none) = (Shadow::default(), Clock::default());
        assert!(access(&mut shadow, 0, (0x1000, 4), true, &none).is_empty());
        assert!(access(&mut shadow, 1, (0x1004, 4), true, &none).is_empty());
        let found = access(&mut shadow, 1, (0x1002, 8), true, &none);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].bytes, found[0].wrote, found[0].earlier.epoch.thread()), ((0x1002, 2), true, 0));
    }

    #[test]
    fn reads_conflict_with_writes_alone() {
        let (mut shadow, none) = (Shadow::default(), Clock::default());
        for thread in 0..3 {
            assert!(access(&mut shadow, thread, (64, 8), false, &none).is_empty());
        }
        let found = access(&mut shadow, 2, (64, 8), true, &none);
        let threads: Vec<usize> = found.iter().map(|one| one.earlier.epoch.thread()).collect();
        assert_eq!(threads, [0, 1]);
        assert!(found.iter().all(|one| !one.wrote && one.bytes == (64, 8)));
    }

    #[test]
    fn what_is_ordered_does_not_conflict() {
        let (mut shadow, mut clock) = (Shadow::default(), Clock::default());
        access(&mut shadow, 0, (64, 8), true, &clock);
        clock.reach(0, 6);
        assert!(access(&mut shadow, 1, (64, 8), true, &clock).is_empty());
        // The first one's clock lacks what the second one did.
        assert_eq!(access(&mut shadow, 0, (68, 1), false, &clock).len(), 1);
        shadow.forget(64, 8);
        assert!(access(&mut shadow, 0, (68, 1), true, &clock).is_empty());
    }

    /// Whatever parts there are, what is found is what one finds byte by byte.
    #[test]
    fn parts_are_as_good_as_bytes() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let (mut parts, mut bytes) = (Shadow::default(), Shadow::default());
            let mut clocks = [Clock::default(), Clock::default(), Clock::default()];
            for count in 1..40 {
                let thread = random.usize(..3);
                if random.u8(..4) == 0 {
                    clocks[thread].reach(random.usize(..3), random.u64(..count));
                }
                let (addr, writes) = (random.u64(64..76), random.bool());
                let made = Made { epoch: Epoch::new(thread, count), site: 0 };
                let of = |addr, len| Access { addr, len, writes, made, clock: &clocks[thread] };
                let (len, mut found, mut expected) = (random.u64(1..9), Vec::new(), Vec::new());
                parts.access(&of(addr, len), &mut found);
                // Each byte is accessed alone there.
                for byte in addr..addr + len {
                    bytes.access(&of(byte, 1), &mut expected);
                }
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn granules_of_an_access() {
        assert_eq!(granules(0x1006, 4).collect::<Vec<_>>(), [(0x1000, 0xc0), (0x1008, 0x03)]);
        assert_eq!(granules(8, 8).collect::<Vec<_>>(), [(8, 0xff)]);
        assert_eq!(granules(u64::MAX - 3, 8).count(), 1);
    }
}
