//! What an instruction wants to access, as blocks of groups.

use crate::picture::blocks::{BLOCK_SHIFT, Blocks, GROUP, GROUP_SHIFT, MODIFIED, SHARED};
use crate::picture::table::Table;
use smallvec::SmallVec;

/// What an instruction wants of the blocks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Number of the group.
    pub group: u32,
    /// Its first address.
    pub address: u64,
    /// The blocks that the instruction reads, and those that it writes.
    pub reads: u64,
    /// See [`Self::reads`].
    pub writes: u64,
}

/// What instructions want, ascending by groups.
#[derive(Default)]
pub struct Wants(SmallVec<[Want; 2]>);

impl Wants {
    /// So many bytes from an address on, at least one.
    pub fn add(&mut self, address: u64, len: u64, writes: bool) {
        let (first, last) = (address >> BLOCK_SHIFT, address.saturating_add(len - 1) >> BLOCK_SHIFT);
        for page in first >> GROUP_SHIFT..=last >> GROUP_SHIFT {
            let start = page << GROUP_SHIFT;
            let (from, to) = (first.max(start) - start, last.min(start + u64::from(GROUP) - 1) - start);
            let bits = u64::MAX >> (u64::from(GROUP) - 1 - to) & u64::MAX << from;
            let group = start as u32 >> GROUP_SHIFT;
            let (reads, writes) = if writes { (0, bits) } else { (bits, 0) };
            match self.0.binary_search_by_key(&group, |want| want.group) {
                Ok(at) => {
                    self.0[at].reads |= reads;
                    self.0[at].writes |= writes;
                }
                Err(at) => self.0.insert(at, Want { group, address: start << BLOCK_SHIFT, reads, writes }),
            }
        }
    }

    /// One for each group.
    pub fn all(&self) -> &[Want] {
        &self.0
    }

    /// What is written of each group, and what is only read, with the permissions for it.
    fn each(&self) -> impl Iterator<Item = (Blocks, u8)> {
        self.0.iter().flat_map(|want| [(want.written(), MODIFIED), (want.only_read(), SHARED)])
    }

    /// Whether a thread has it all.
    pub fn are_held(&self, permissions: Table) -> bool {
        self.each().all(|(blocks, permission)| permissions.lacking(blocks, permission) == 0)
    }

    /// The thread itself gets it all, and nobody is asked.
    pub fn grant(&self, permissions: Table) {
        self.each().for_each(|(blocks, _)| permissions.grant(blocks, MODIFIED));
    }
}

impl Want {
    /// The blocks that are written.
    pub fn written(&self) -> Blocks {
        Blocks { group: self.group, bits: self.writes }
    }

    /// The blocks that are read and not written.
    pub fn only_read(&self) -> Blocks {
        Blocks { group: self.group, bits: self.reads & !self.writes }
    }

    /// What of it a thread lacks.
    pub fn lacked(&self, permissions: Table) -> Option<Self> {
        let lacked = permissions.lacking(self.written(), MODIFIED) | permissions.lacking(self.only_read(), SHARED);
        let (reads, writes) = (self.reads & lacked, self.writes & lacked);
        (lacked != 0).then_some(Self { reads, writes, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::blocks::block_of;

    #[test]
    fn what_is_wanted_is_put_together_by_groups() {
        let mut wants = Wants::default();
        wants.add(0x7f00_0000_1fff, 2, false);
        wants.add(0x7f00_0000_1000, 64, true);
        wants.add(0x7f00_0000_1fc0, 0x40, true);
        let group = |address: u64| block_of(address) >> GROUP_SHIFT;
        let all: Vec<_> = wants.0.iter().map(|w| (w.group, w.address, w.reads, w.writes)).collect();
        let first = (group(0x7f00_0000_1000), 0x7f00_0000_1000, 1 << 63, 1 << 63 | 1);
        assert_eq!(all, [first, (group(0x7f00_0000_2000), 0x7f00_0000_2000, 1, 0)]);
        let mut whole = Wants::default();
        whole.add(0x3000, 0x2000, false);
        assert_eq!(whole.0.iter().map(|w| w.reads).collect::<Vec<_>>(), [u64::MAX, u64::MAX]);
        assert_eq!(whole.0[0].only_read().numbers().map(|n| u64::from(n) << BLOCK_SHIFT).last(), Some(0x3fc0));
    }
}
