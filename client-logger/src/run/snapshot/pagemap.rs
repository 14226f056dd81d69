//! Which pages there are, as the kernel tells: memory can be much larger than what of it was ever touched.

use super::keeper::Keeper;
use super::parts::{Part, Rank, Untouched};
use crate::base::descriptors::OwnFile;
use crate::base::maps;
use bugnet_format::types::Addr;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pages of which is asked at once.
const AT_ONCE: u64 = 4096;
/// Most pages of which is asked: 128 GiB.
const MOST: u64 = 1 << 25;
/// Most pages that are looked at where the kernel does not tell: 1 GiB.
const MOST_READ: u64 = 1 << 18;

/// Whether the program may supply pages when they are first touched: then nothing is known of those that were not.
static SUPPLIED: AtomicBool = AtomicBool::new(false);

/// Before a system call.
pub fn follow(number: i64) {
    if number == libc::SYS_userfaultfd {
        SUPPLIED.store(true, Ordering::Relaxed);
    }
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// It has to be read.
    Touched,
    /// It holds zeros.
    Zeros,
    /// It is a page of a file, unchanged, or nothing is known of it.
    Elsewhere,
}

impl Page {
    fn of(entry: u64, untouched: Untouched, shared: bool) -> Self {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        const OF_FILE_OR_SHARED: u64 = 1 << 61;
        let is_there = entry & (PRESENT | SWAPPED) != 0;
        match untouched {
            _ if is_there && (shared || entry & OF_FILE_OR_SHARED == 0) => Self::Touched,
            Untouched::Unknown => Self::Touched,
            Untouched::Zeros if !is_there => Self::Zeros,
            _ => Self::Elsewhere,
        }
    }
}

/// The list of the process's pages.
pub struct Pagemap {
    file: Option<OwnFile>,
    /// Pages of which may still be asked.
    left: u64,
}

impl Pagemap {
    /// Opens it, if that is possible.
    pub fn open() -> Self {
        let file = maps::pagemap();
        Self { left: if file.is_some() { MOST } else { MOST_READ }, file }
    }

    /// Without one.
    pub fn none() -> Self {
        Self { file: None, left: MOST_READ }
    }

    /// What is known of the pages of a range.
    fn pages(&mut self, range: &Range<u64>, part: &Part) -> Vec<Page> {
        let mut entries = vec![0; (range.end - range.start) as usize / Addr::PAGE as usize * 8];
        let at = range.start / Addr::PAGE * 8;
        let told = self.file.as_ref().is_some_and(|file| file.read_exact_at(&mut entries, at).is_ok());
        let supplied = part.untouched == Untouched::Zeros && SUPPLIED.load(Ordering::Relaxed);
        let untouched = if supplied { Untouched::File } else { part.untouched };
        let page = |entry: &[u8; 8]| match told {
            true => Page::of(u64::from_le_bytes(*entry), untouched, part.rank == Rank::Shared),
            false if supplied || part.untouched == Untouched::File && !part.writable => Page::Elsewhere,
            false => Page::Touched,
        };
        entries.as_chunks().0.iter().map(page).collect()
    }
}

impl Part {
    /// Keeps the part.
    pub fn keep(&self, pagemap: &mut Pagemap, keeper: &mut Keeper<'_>) {
        let mut rest = self.range.clone();
        while !rest.is_empty() {
            let piece = rest.start..rest.end.min(rest.start + AT_ONCE.min(pagemap.left) * Addr::PAGE);
            if piece.is_empty() {
                keeper.omit(rest);
                return;
            }
            pagemap.left -= (piece.end - piece.start) / Addr::PAGE;
            rest.start = piece.end;
            let mut at = piece.start;
            for same in pagemap.pages(&piece, self).chunk_by(|a, b| a == b) {
                let run = at..at + same.len() as u64 * Addr::PAGE;
                at = run.end;
                match same[0] {
                    Page::Touched => keeper.keep(run),
                    Page::Zeros => keeper.zeros(run),
                    Page::Elsewhere => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells() {
        let (nothing, own, swapped, of_file) = (0, 1 << 63, 1 << 62, 1 << 63 | 1 << 61);
        let private = |entry, untouched| Page::of(entry, untouched, false);
        assert_eq!(private(nothing, Untouched::Zeros), Page::Zeros);
        assert_eq!(private(own, Untouched::Zeros), Page::Touched);
        assert_eq!(private(swapped, Untouched::Zeros), Page::Touched);
        assert_eq!(private(nothing, Untouched::File), Page::Elsewhere);
        assert_eq!(private(of_file, Untouched::File), Page::Elsewhere);
        assert_eq!(private(own, Untouched::File), Page::Touched);
        assert_eq!(private(nothing, Untouched::Unknown), Page::Touched);
        assert_eq!(Page::of(of_file, Untouched::File, true), Page::Touched);
        assert_eq!(Page::of(nothing, Untouched::File, true), Page::Elsewhere);
    }
}
