//! An address space: which ranges of it are mapped to what.

use bugnet_format::types::Addr;
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: u64 = Addr::PAGE;

/// What a range of addresses is mapped to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// The address behind the last byte.
    pub end: u64,
    /// As `mmap` has it.
    pub prot: u64,
    /// Whether others see what is written to it.
    pub is_shared: bool,
    /// Where in the file the range begins.
    pub offset: u64,
    /// The file, or what stands for it in brackets; empty for memory that is nobody's.
    pub name: Arc<str>,
    /// The ELF file, by its index in the process's list.
    pub module: Option<usize>,
}

impl Region {
    /// Memory without a file.
    pub fn anonymous(end: u64, prot: u64) -> Self {
        Self { end, prot, is_shared: false, offset: 0, name: "".into(), module: None }
    }

    /// Whether it has a place in a file.
    pub fn is_of_file(&self) -> bool {
        !self.name.is_empty() && !self.name.starts_with('[')
    }

    /// The part of it from an address on; it begins at `start`.
    fn from(&self, start: u64, at: u64) -> Self {
        let offset = if self.is_of_file() { self.offset.wrapping_add(at - start) } else { 0 };
        Self { offset, ..self.clone() }
    }
}

/// The address behind the last page of what ends here.
pub(super) fn page_up(addr: u64) -> u64 {
    addr.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX - (PAGE - 1))
}

/// The mapped ranges, by where they begin. They do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout(BTreeMap<u64, Region>);

impl Layout {
    /// All, ascending.
    pub fn regions(&self) -> impl Iterator<Item = (u64, &Region)> {
        self.0.iter().map(|(start, region)| (*start, region))
    }

    /// The region that holds an address, with its start.
    pub fn at(&self, addr: u64) -> Option<(u64, &Region)> {
        let (start, region) = self.0.range(..=addr).next_back()?;
        (addr < region.end).then_some((*start, region))
    }

    /// Sees to it that no region goes across an address.
    fn split(&mut self, addr: u64) {
        let Some((start, _)) = self.at(addr).filter(|(start, _)| *start < addr) else { return };
        if let Some(region) = self.0.get_mut(&start) {
            let behind = region.from(start, addr);
            region.end = addr;
            self.0.insert(addr, behind);
        }
    }

    /// Nothing is mapped in a range any more.
    pub fn unmap(&mut self, start: u64, end: u64) {
        self.split(start);
        self.split(end);
        let gone: Vec<u64> = self.within(start, end).collect();
        for start in gone {
            self.0.remove(&start);
        }
    }

    /// Something is mapped from an address on, in place of what was there.
    pub fn map(&mut self, start: u64, region: Region) {
        if start < region.end {
            self.unmap(start, region.end);
            self.0.insert(start, region);
        }
    }

    /// What is mapped in a range can be accessed in another way.
    pub fn protect(&mut self, start: u64, end: u64, prot: u64) {
        self.split(start);
        self.split(end);
        let all: Vec<u64> = self.within(start, end).collect();
        for start in all {
            if let Some(region) = self.0.get_mut(&start) {
                region.prot = prot;
            }
        }
    }

    /// What is mapped in the range from `old` on is also, or only, mapped from `new` on.
    pub fn copy(&mut self, old: u64, old_end: u64, new: u64, new_end: u64, is_moved: bool) {
        // Of a region that is not known, it is known that it is there.
        let unknown = || Region::anonymous(new_end, (libc::PROT_READ | libc::PROT_WRITE) as u64);
        let known = self.at(old).map(|(start, region)| Region { end: new_end, ..region.from(start, old) });
        if is_moved {
            self.unmap(old, old_end);
        }
        self.map(new, known.unwrap_or_else(unknown));
    }

    /// Where the regions begin that lie in a range, at whose ends no region is.
    fn within(&self, start: u64, end: u64) -> impl Iterator<Item = u64> {
        self.0.range(start..end.max(start)).map(|(start, _)| *start)
    }

    /// The regions with those joined that follow each other and are alike, as the kernel lists them.
    pub fn joined(&self) -> Vec<(u64, Region)> {
        let mut joined: Vec<(u64, Region)> = Vec::new();
        for (start, region) in self.regions() {
            if let Some((before, last)) = joined.last_mut() {
                let follows = last.from(*before, last.end);
                if last.end == start && follows == (Region { end: last.end, ..region.clone() }) {
                    last.end = region.end;
                    continue;
                }
            }
            joined.push((start, region.clone()));
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RW: u64 = 3;

    fn file(end: u64, offset: u64) -> Region {
        Region { offset, name: "/lib/x.so".into(), module: Some(0), ..Region::anonymous(end, 1) }
    }

    fn listed(layout: &Layout) -> Vec<(u64, u64, u64, u64)> {
        layout.joined().iter().map(|(start, region)| (*start, region.end, region.prot, region.offset)).collect()
    }

    #[test]
    fn a_part_of_a_mapping_goes() {
        let mut layout = Layout::default();
        layout.map(0x10000, file(0x20000, 0x1000));
        layout.unmap(0x12000, 0x13000);
        assert_eq!(listed(&layout), [(0x10000, 0x12000, 1, 0x1000), (0x13000, 0x20000, 1, 0x4000)]);
        assert!(layout.at(0x12fff).is_none() && layout.at(0x13000).is_some());
        // It is put back.
        layout.map(0x12000, file(0x13000, 0x3000));
        assert_eq!(listed(&layout), [(0x10000, 0x20000, 1, 0x1000)]);
    }

    #[test]
    fn other_permissions_divide() {
        let mut layout = Layout::default();
        layout.map(0x10000, Region::anonymous(0x20000, RW));
        layout.protect(0x14000, 0x15000, 0);
        assert_eq!(listed(&layout), [(0x10000, 0x14000, RW, 0), (0x14000, 0x15000, 0, 0), (0x15000, 0x20000, RW, 0)]);
        layout.protect(0x14000, 0x15000, RW);
        assert_eq!(listed(&layout), [(0x10000, 0x20000, RW, 0)]);
    }

    #[test]
    fn a_mapping_moves_with_its_place_in_the_file() {
        let mut layout = Layout::default();
        layout.map(0x10000, file(0x14000, 0));
        layout.copy(0x12000, 0x14000, 0x50000, 0x53000, true);
        assert_eq!(listed(&layout), [(0x10000, 0x12000, 1, 0), (0x50000, 0x53000, 1, 0x2000)]);
    }

    #[test]
    fn nonsense_is_nothing() {
        let mut layout = Layout::default();
        layout.map(0x10000, Region::anonymous(0x10000, RW));
        layout.unmap(0x20000, 0x10000);
        layout.protect(u64::MAX, 0, RW);
        layout.map(u64::MAX - 1, Region::anonymous(page_up(u64::MAX), RW));
        assert_eq!(listed(&layout), []);
    }
}
