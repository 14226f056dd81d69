//! What memory held at a place, as far as anybody knows.

use crate::loads::Found;
use bugnet_debuginfo::image::mapped_segments;
use bugnet_format::folder::Module;
use bugnet_format::regs::{RSP, RegisterFile};
use bugnet_format::types::Addr;
use bugnet_replay::cursor::Cursor;
use bugnet_replay::log::Log;
use bugnet_replay::mappings::Mapping;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::main_file;
use bugnet_replay::{ReplayError, Result};

const PAGE: u64 = Addr::PAGE;
/// How far a stack may grow down, as the kernel lets it by default.
const STACK: u64 = 8 << 20;
/// Jumps go no farther than this, and no page is mapped below that.
const REACH: u64 = 0x7000_0000;
const LOWEST: u64 = 0x1_0000;

/// Memory and registers of a process with one thread.
#[derive(Debug)]
pub(crate) struct Image {
    pub mappings: Vec<Mapping>,
    /// Bytes that are not zero, or may not be; of those that overlap, the later ones count.
    pub bytes: Vec<(u64, Vec<u8>)>,
    pub registers: RegisterFile,
    /// Where the program's break is, if it has moved it.
    pub heap_end: Option<u64>,
}

impl Image {
    /// Where a cursor is, with what the program found in memory later that nobody had put there meanwhile.
    ///
    /// # Errors
    /// The log does not have the process's beginning: what was mapped then is not known. Or it cannot be read or replayed.
    pub fn of(log: &Log, cursor: &mut Cursor<'_>, found: &[Found]) -> Result<Self> {
        let registers = cursor.regs().clone();
        let mut mappings = cursor.mappings()?;
        if mappings.is_cut {
            return Err(ReplayError::OutOfRange("the log does not have the beginning of the process".to_owned()));
        }
        let modules = cursor.modules().unwrap_or_default();
        let mut bytes = modules.iter().flat_map(|module| of_file(log, module)).collect::<Vec<_>>();
        let found = found.iter().filter(|found| found.by.is_none());
        let mut pages = cursor.pages()?;
        let ends = found.clone().map(|found| found.addr + found.bytes.len() as u64);
        grow_stack(&mut mappings.all, registers.gpr[RSP], pages.iter().map(|page| page + PAGE).chain(ends));
        pages.retain(|page| mappings.at(*page).is_some());
        for page in &pages {
            bytes.extend(pieces(*page, &cursor.read_held(Addr(*page), PAGE)?));
        }
        bytes.extend(found.map(|found| (found.addr, found.bytes.clone())));
        // What is known here is so whatever was found later.
        for page in &pages {
            bytes.extend(pieces(*page, &cursor.read_known(Addr(*page), PAGE)?));
        }
        let heap_end = mappings.all.iter().filter(|one| one.name == "[heap]").map(|heap| heap.end).max();
        Ok(Self { mappings: mappings.all, bytes, registers, heap_end })
    }

    /// A page that is free, and not another one, and that a jump from an address reaches: in the middle of the largest free room, where the program maps
    /// nothing soon.
    pub fn free_page_near(&self, addr: u64, other: u64) -> Option<u64> {
        let [first, last] = [addr.saturating_sub(REACH).max(LOWEST), addr.saturating_add(REACH).min(Addr::USER_END)];
        let mut taken: Vec<(u64, u64)> = self.mappings.iter().map(|one| (one.start, one.end)).collect();
        taken.push((other, other + PAGE));
        taken.sort_unstable();
        taken.push((last, last));
        let mut end = first;
        let mut largest = 0..0;
        for (start, next) in taken {
            let free = end..start.clamp(end, last.max(end));
            if free.end - free.start > largest.end - largest.start {
                largest = free;
            }
            end = end.max(next);
        }
        let page = (largest.start + (largest.end - largest.start) / 2).next_multiple_of(PAGE);
        (page + PAGE <= largest.end).then_some(page)
    }

    /// A page that is free.
    pub fn free_page(&self) -> Option<u64> {
        let is_free = |page: &u64| self.mappings.iter().all(|one| one.end <= *page || page + PAGE <= one.start);
        (0x10_0000..0x40_0000).step_by(PAGE as usize).find(is_free)
    }
}

/// The bytes that are known, those that follow each other together.
fn pieces(addr: u64, bytes: &[Option<u8>]) -> Vec<(u64, Vec<u8>)> {
    let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
    for (at, byte) in (addr..).zip(bytes) {
        let Some(byte) = byte else { continue };
        match all.last_mut().filter(|(start, bytes)| start + bytes.len() as u64 == at) {
            Some((_, bytes)) => bytes.push(*byte),
            None => all.push((at, vec![*byte])),
        }
    }
    all
}

/// What an ELF file puts where it is mapped.
fn of_file(log: &Log, module: &Module) -> Vec<(u64, Vec<u8>)> {
    let Some(file) = main_file(log.source(), module) else { return Vec::new() };
    let segments = mapped_segments(&file);
    let Some(first) = segments.first() else { return Vec::new() };
    let bias = module.base.wrapping_sub(first.address.wrapping_sub(first.offset) & !(PAGE - 1));
    let part = |offset: u64, len: u64| {
        let start = usize::try_from(offset).ok()?;
        Some(file.get(start..start.checked_add(usize::try_from(len).ok()?)?)?.to_vec())
    };
    let of_segment = |segment: &bugnet_debuginfo::image::Segment| {
        Some((segment.address.wrapping_add(bias), part(segment.offset, segment.file_size)?))
    };
    segments.iter().filter_map(of_segment).collect()
}

/// Below the stack, there is room for it to grow; above what was used of it until now, there is what ends here.
fn grow_stack(all: &mut [Mapping], pointer: u64, ends: impl Iterator<Item = u64>) {
    let Some(at) = all.iter().position(|one| one.start <= pointer && pointer < one.end) else { return };
    let below = all[..at].iter().map(|one| one.end).max().unwrap_or(0);
    let start = all[at].end.saturating_sub(STACK).max(below);
    all[at].start = all[at].start.min(start);
    let limit = all.get(at + 1).map_or(Addr::USER_END, |next| next.start).min(all[at].end + STACK);
    let above = ends.map(|end| end.next_multiple_of(PAGE)).filter(|end| (all[at].end..=limit).contains(end));
    all[at].end = above.max().unwrap_or(all[at].end);
}
