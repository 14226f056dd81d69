//! The pages of memory of which something is known.

use super::{Held, PAGE};
use crate::crash::add_constants;
use crate::cursor::Cursor;
use crate::error::Result;
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
}

impl Pages {
    /// Those of which the cursor knows something, and those of the files' segments that nobody can write to.
    pub fn of(cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<Self> {
        let mut pages: BTreeSet<u64> = cursor.known_pages()?.into_iter().filter(|page| *page < END).collect();
        let mut flags: BTreeMap<u64, u32> = BTreeMap::new();
        for (image, bias) in symbols.images() {
            for segment in image.segments() {
                let start = segment.address.wrapping_add(bias);
                let first = start - start % PAGE;
                let last = start.saturating_add(segment.size).min(END);
                let own = READ
                    | if segment.is_writable { WRITE } else { 0 }
                    | if segment.is_executable { EXECUTE } else { 0 };
                for page in (first..last).step_by(PAGE as usize) {
                    // What the loader protects later was written to before.
                    flags.insert(page, own);
                    if !segment.is_writable {
                        pages.insert(page);
                    }
                }
            }
        }
        let mut runs: Vec<Run> = Vec::new();
        for page in pages {
            let own = flags.get(&page).copied().unwrap_or(READ | WRITE);
            match runs.last_mut() {
                Some(run) if run.start + run.pages * PAGE == page && run.flags == own => run.pages += 1,
                _ => runs.push(Run { start: page, pages: 1, flags: own }),
            }
        }
        Ok(Self { runs })
    }
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
