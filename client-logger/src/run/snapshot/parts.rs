//! The parts of the program's memory.

use crate::base::maps::{self, Region};
use crate::kernel::{joined, memory_limit};
use crate::picture::shadow;
use bugnet_format::types::Addr;
use std::ops::Range;
use std::path::Path;

/// In which order parts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// What the program writes to, and what it has written of its files before it gave that up (`.data.rel.ro`).
    Writable,
    /// The rest of what is no file's: generated code, for example.
    Readable,
    /// What others can write to.
    Shared,
}

/// What pages hold that were never touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untouched {
    /// Zeros.
    Zeros,
    /// What is in a file.
    File,
    /// That is not known.
    Unknown,
}

/// A part of the program's memory: whole pages that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where.
    pub range: Range<u64>,
    /// Whether the program can write to it.
    pub writable: bool,
    /// When it is kept.
    pub rank: Rank,
    /// What it is where it was never touched.
    pub untouched: Untouched,
}

impl Part {
    /// Memory of which nothing more is known.
    pub fn unknown(range: Range<u64>) -> Self {
        Self { range, writable: true, rank: Rank::Writable, untouched: Untouched::Unknown }
    }
}

/// What kind of memory a region with this name is; none if none of it is kept.
fn kind(region: &Region, name: &str) -> Option<(Rank, Untouched)> {
    let allows = |wanted| region.protection & wanted != 0;
    // To read a device can change it.
    let is_device = name.starts_with("/dev/") && !name.starts_with("/dev/zero") && !name.starts_with("/dev/shm/");
    let is_file =
        name.starts_with('/') && !is_device && Path::new(name).file_name() != Some(bugnet_handover::FILE.as_ref());
    let is_anonymous = name.is_empty() || ["[heap]", "[stack]", "[anon:"].iter().any(|start| name.starts_with(start));
    if !allows(libc::PROT_READ) || region.range.end > Addr::USER_END {
        return None;
    }
    match (region.shared, allows(libc::PROT_WRITE)) {
        (false, true) if is_anonymous => Some((Rank::Writable, Untouched::Zeros)),
        (false, false) if is_anonymous => Some((Rank::Readable, Untouched::Zeros)),
        (false, _) if is_file => Some((Rank::Writable, Untouched::File)),
        (true, true) if is_file => Some((Rank::Shared, Untouched::File)),
        _ => None,
    }
}

/// All parts of the program's memory, ascending.
pub fn all() -> Vec<Part> {
    let others = memory_limit::others();
    let parts = maps::all_with_names().into_iter().filter_map(|(region, name)| {
        let (rank, untouched) = kind(&region, &name)?;
        let writable = region.protection & libc::PROT_WRITE != 0;
        let program =
            if shadow::is_ours(region.range.start) { Vec::new() } else { joined::the_programs(&region.range, &others) };
        Some(program.into_iter().map(move |range| Part { range, writable, rank, untouched }))
    });
    parts.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept() {
        let kind = |protection, shared, name: &str| {
            let region = Region { range: 0x1000..0x2000, protection, stack: false, shared, named: false };
            super::kind(&region, name)
        };
        let (read, both) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(kind(both, false, ""), Some((Rank::Writable, Untouched::Zeros)));
        assert_eq!(kind(both, false, "[stack]"), Some((Rank::Writable, Untouched::Zeros)));
        assert_eq!(kind(read | libc::PROT_EXEC, false, ""), Some((Rank::Readable, Untouched::Zeros)));
        assert_eq!(kind(read, false, "/usr/lib/libc.so.6"), Some((Rank::Writable, Untouched::File)));
        assert_eq!(kind(both, true, "/dev/zero (deleted)"), Some((Rank::Shared, Untouched::File)));
        assert_eq!(kind(both, true, "/memfd:x (deleted)"), Some((Rank::Shared, Untouched::File)));
        for (protection, shared, name) in [
            (libc::PROT_NONE, false, ""),
            (libc::PROT_WRITE, false, ""),
            (read, false, "[vvar]"),
            (read, true, "/usr/lib/locale/locale-archive"),
            (both, true, "/dev/dri/card0"),
            (both, true, "anon_inode:[io_uring]"),
            (both, true, "/log/.handover"),
        ] {
            assert_eq!(kind(protection, shared, name), None, "{name}");
        }
    }
}
