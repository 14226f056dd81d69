//! What is remembered of memory: the last write and the reads behind it, of 8 bytes together as long as all accesses are of the same bytes
//! of them, else of each byte.

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

#[derive(Clone, Debug)]
enum Granule {
    /// All accesses were of the bytes of the mask.
    One {
        cell: Cell,
        mask: u8,
    },
    Bytes(Box<[Cell; GRANULE as usize]>),
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

impl Default for Granule {
    fn default() -> Self {
        Self::One { cell: Cell::default(), mask: 0 }
    }
}

impl Granule {
    /// An access of the bytes of a mask. Conflicts come with the first byte, and how many.
    fn access(&mut self, wanted: u8, access: &Access<'_>, conflict: &mut impl FnMut(Made, bool, u32, u32)) {
        if let Self::One { cell, mask } = self {
            if *mask == 0 {
                *mask = wanted;
            }
            if *mask == wanted {
                let (first, count) = (wanted.trailing_zeros(), wanted.count_ones());
                cell.access(access, |made, wrote| conflict(made, wrote, first, count));
                return;
            }
            let of = |byte: usize| if *mask >> byte & 1 != 0 { cell.clone() } else { Cell::default() };
            *self = Self::Bytes(Box::new(std::array::from_fn(of)));
        }
        let Self::Bytes(cells) = self else { return };
        for (byte, cell) in (0..).zip(cells.iter_mut()).filter(|(byte, _)| wanted >> byte & 1 != 0) {
            cell.access(access, |made, wrote| conflict(made, wrote, byte, 1));
        }
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
    /// Looks whether an access is ordered behind the earlier ones, and remembers it. Of each earlier access, one conflict is told.
    pub fn access(&mut self, access: &Access<'_>, found: &mut Vec<Unordered>) {
        for (start, mask) in granules(access.addr, access.len) {
            self.granules.at(start).access(mask, access, &mut |earlier, wrote, first, count| {
                let (first, count) = (start + u64::from(first), u64::from(count));
                let same = |other: &&mut Unordered| other.earlier == earlier && other.bytes.0 + other.bytes.1 == first;
                match found.iter_mut().find(same) {
                    Some(other) => other.bytes.1 += count,
                    None => found.push(Unordered { earlier, wrote, bytes: (first, count) }),
                }
            });
        }
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

    #[test]
    fn granules_of_an_access() {
        assert_eq!(granules(0x1006, 4).collect::<Vec<_>>(), [(0x1000, 0xc0), (0x1008, 0x03)]);
        assert_eq!(granules(8, 8).collect::<Vec<_>>(), [(8, 0xff)]);
        assert_eq!(granules(u64::MAX - 3, 8).count(), 1);
    }
}
