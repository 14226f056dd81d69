//! The pages of memory of which something is known.

use super::{Held, PAGE};
use crate::crash::add_constants;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::mappings::{Mapping, Mappings};
use crate::memory::Memory;
use crate::symbols::Symbolizer;
use bugnet_format::types::Addr;
use std::collections::{BTreeMap, BTreeSet};

/// Flags of segments: executable, writable, readable.
const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;
/// Pages that are read at a time.
const AT_ONCE: u64 = 64;
/// Addresses that programs have end here.
const END: u64 = 1 << 47;

/// Pages that follow each other, with the same permissions.
pub(super) struct Run {
    pub start: u64,
    pub pages: u64,
    pub flags: u32,
}

/// The pages that a core file holds.
pub(super) struct Pages {
    pub runs: Vec<Run>,
    /// Pages that are mapped, and of which nothing is known.
    pub left_out: u64,
}

impl Pages {
    /// Those of which the cursor knows something, and those of the mapped files' segments that nobody can write to.
    pub fn of(cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, mappings: &Mappings) -> Result<Self> {
        let (mut pages, mut flags) = (known(cursor)?, BTreeMap::<u64, u32>::new());
        for (image, bias) in symbols.images() {
            for segment in image.segments() {
                let start = segment.address.wrapping_add(bias);
                let first = start - start % PAGE;
                let last = start.saturating_add(segment.size).min(END);
                let own = READ
                    | if segment.is_writable { WRITE } else { 0 }
                    | if segment.is_executable { EXECUTE } else { 0 };
                for page in (first..last).step_by(PAGE as usize) {
                    flags.insert(page, own);
                    if !segment.is_writable {
                        pages.insert(page);
                    }
                }
            }
        }
        let flags = |page: u64| match mappings.at(page) {
            Some(mapping) => of_mapping(mapping),
            None => flags.get(&page).copied().unwrap_or(READ | WRITE),
        };
        // What nobody can access holds nothing.
        let accessible = mappings.all.iter().filter(|mapping| mapping.prot != 0);
        let left_out = accessible.map(|Mapping { start, end, .. }| {
            ((end - start) / PAGE).saturating_sub(pages.range(start..end).count() as u64)
        });
        let left_out = left_out.sum();
        let mut runs: Vec<Run> = Vec::new();
        for page in pages {
            let own = flags(page);
            match runs.last_mut() {
                Some(run) if run.start + run.pages * PAGE == page && run.flags == own => run.pages += 1,
                _ => runs.push(Run { start: page, pages: 1, flags: own }),
            }
        }
        Ok(Self { runs, left_out })
    }
}

/// Flags of a segment that is mapped like this.
fn of_mapping(mapping: &Mapping) -> u32 {
    let flag = |bit: i32, flag: u32| if mapping.prot & bit as u64 == 0 { 0 } else { flag };
    flag(libc::PROT_READ, READ) | flag(libc::PROT_WRITE, WRITE) | flag(libc::PROT_EXEC, EXECUTE)
}

/// The pages of which the cursor knows a byte.
fn known(cursor: &mut Cursor<'_>) -> Result<BTreeSet<u64>> {
    let mut pages: BTreeSet<u64> = cursor.known_pages()?.into_iter().filter(|page| *page < END).collect();
    // Of others, an epoch knows something, but perhaps not of what was there now.
    let rest: Vec<u64> = cursor.pages()?.difference(&pages).copied().collect();
    for group in rest.chunk_by(|page, next| page + PAGE == *next) {
        for piece in group.chunks(AT_ONCE as usize) {
            let bytes = cursor.read_known(Addr(piece[0]), piece.len() as u64 * PAGE)?;
            let all = piece.iter().zip(bytes.chunks(PAGE as usize));
            pages.extend(all.filter(|(_, bytes)| bytes.iter().any(Option::is_some)).map(|(page, _)| *page));
        }
    }
    Ok(pages)
}

impl Run {
    /// Hands over its bytes, and counts what is known of them.
    pub fn write(
        &self,
        cursor: &mut Cursor<'_>,
        symbols: &mut Symbolizer,
        held: &mut Held,
        to: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < self.pages {
            let count = (self.pages - done).min(AT_ONCE);
            let (addr, len) = (self.start + done * PAGE, count * PAGE);
            let mut bytes = cursor.read_known(Addr(addr), len)?;
            bytes.resize(len as usize, None);
            let known = |bytes: &[Option<u8>]| bytes.iter().flatten().count() as u64;
            let recorded = known(&bytes);
            add_constants(addr, &mut bytes, symbols);
            let all = known(&bytes);
            held.pages += count;
            held.known += recorded;
            held.constant += all - recorded;
            held.unknown += len - all;
            let plain: Vec<u8> = bytes.into_iter().map(Option::unwrap_or_default).collect();
            to(&plain)?;
            done += count;
        }
        Ok(())
    }
}
