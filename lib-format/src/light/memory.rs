//! The list of a process's memory where an epoch begins: its regions, and where their pages are ([`super::layout::MEMORY_MAGIC`]).

use super::layout as l;
use super::{Body, Damaged, FileKey, word};

/// A region of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first address, and the one behind it.
    pub range: std::ops::Range<u64>,
    /// The file that it has, and the path of that.
    pub file: Option<(FileKey, String)>,
}

/// Reads the regions of a list.
///
/// # Errors
/// It is damaged.
pub fn regions(bytes: &[u8]) -> Result<Vec<Region>, Damaged> {
    let field = |at: usize| word(bytes, at).ok_or(Damaged { at, what: "the list of memory is cut off" });
    if field(0)? != l::MEMORY_MAGIC {
        return Err(Damaged { at: 0, what: "this is no list of memory" });
    }
    let len = usize::try_from(field(8)?).unwrap_or(usize::MAX);
    let end = l::MEMORY_HEADER.saturating_add(len);
    let Some(own) = bytes.get(l::MEMORY_HEADER..end) else {
        return Err(Damaged { at: 8, what: "the list of memory is cut off" });
    };
    let mut body = Body { bytes: own, at: 0, start: l::MEMORY_HEADER };
    let mut regions = Vec::new();
    while body.at < body.bytes.len() {
        let [start, end, _, source, _] = body.words()?;
        let key = FileKey(body.words()?);
        let len = body.word()?;
        let path = String::from_utf8_lossy(body.take(len)?).into_owned();
        if end < start {
            return body.wrong("a region ends before it begins");
        }
        regions.push(Region { range: start..end, file: (source == l::OF_FILE).then_some((key, path)) });
    }
    Ok(regions)
}

/// The numbers of a list's pages, in the file that has them.
///
/// # Errors
/// It is damaged.
pub fn pages(bytes: &[u8]) -> Result<Vec<u64>, Damaged> {
    const ENTRY: usize = 16;
    let cut = |at: usize| Damaged { at, what: "the list of memory is cut off" };
    let [regions, count] = [8, 16].map(|at| word(bytes, at).and_then(|n| usize::try_from(n).ok()));
    let start = regions.and_then(|regions| l::MEMORY_HEADER.checked_add(regions)).ok_or(cut(8))?;
    let end = count.and_then(|count| count.checked_mul(ENTRY)?.checked_add(start)).ok_or(cut(16))?;
    let own = bytes.get(start..end).ok_or(cut(16))?;
    Ok(own.chunks_exact(ENTRY).filter_map(|entry| word(entry, 8)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_read_and_what_is_cut_off_is_an_error() {
        let path = b"/lib/x";
        let mut own: Vec<u64> = vec![0x1000, 0x3000, 5, l::OF_FILE, 0, 1, 2, 3, 4, path.len() as u64];
        own.push(u64::from_le_bytes(*b"/lib/x\0\0"));
        own.extend([0x4000, 0x5000, 3, l::ZEROS, 0, 0, 0, 0, 0, 0]);
        let words = [l::MEMORY_MAGIC, own.len() as u64 * 8, 0].into_iter().chain(own);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let file = Some((FileKey([1, 2, 3, 4]), "/lib/x".to_owned()));
        let expected = vec![Region { range: 0x1000..0x3000, file }, Region { range: 0x4000..0x5000, file: None }];
        assert_eq!(regions(&bytes), Ok(expected));
        for len in 0..bytes.len() {
            assert!(regions(&bytes[..len]).is_err());
        }
    }
}
