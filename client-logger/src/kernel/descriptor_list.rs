//! The recorder's descriptors are left out of the list that the program finds in `/proc/self/fd`: it may close all that are listed,
//! or count them.

use crate::base::memory::{read_memory, write_memory};
use crate::base::options;
use crate::base::process;
use rustix::process::{Resource, getrlimit};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where `struct linux_dirent64` has its length, and its name.
const LEN: usize = 16;
const NAME: usize = 19;
/// DynamoRIO keeps so many descriptors, at the top of what the kernel allows, for itself and for clients.
const KEPT: u64 = 96;

/// Whether a folder is a list of this process's descriptors.
fn is_list(folder: &Path) -> bool {
    let own = PathBuf::from(format!("/proc/{}", process::current_pid()));
    let Ok(rest) = folder.strip_prefix(own) else { return false };
    let rest: Vec<_> = rest.iter().collect();
    matches!(rest.last().and_then(|last| last.to_str()), Some("fd" | "fdinfo")) && matches!(rest.len(), 1 | 3)
}

/// Whether a descriptor, of those that the recorder may have, is its own.
fn is_ours(fd: u64) -> bool {
    let target = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    target.starts_with("/proc") || target.starts_with(&options::get().log)
}

/// The first of the descriptors that the recorder may have.
fn first_kept() -> u64 {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(libc::RLIM_INFINITY);
    limit.saturating_sub(KEPT)
}

/// The entry that begins at a place, with what its name says.
fn entry(bytes: &[u8], start: usize) -> Option<(Range<usize>, Option<u64>)> {
    let len = usize::from(u16::from_le_bytes([*bytes.get(start + LEN)?, *bytes.get(start + LEN + 1)?]));
    let name = bytes.get(start + NAME..start + len)?;
    let name = name.split(|byte| *byte == 0).next().map(OsStr::from_bytes)?;
    Some((start..start + len, name.to_str().and_then(|name| name.parse().ok())))
}

/// Entries without those of descriptors that `hidden` names.
fn without(bytes: &[u8], hidden: impl Fn(u64) -> bool) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut start = 0;
    while let Some((range, fd)) = entry(bytes, start) {
        start = range.end;
        if !fd.is_some_and(&hidden) {
            kept.extend_from_slice(&bytes[range]);
        }
    }
    kept
}

/// Behind a call of `getdents64` that has put `len` bytes to an address: the length that the program is to find, if it is
/// another. The list is in order, and the recorder's descriptors are its last.
pub fn filter(fd: u64, address: u64, len: i64) -> Option<u64> {
    let folder = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    if len <= 0 || !is_list(&folder) {
        return None;
    }
    let mut bytes = vec![0; len as usize];
    if !read_memory(address, &mut bytes) {
        return None;
    }
    let first = first_kept();
    let kept = without(&bytes, |fd| fd >= first && is_ours(fd));
    (kept.len() < bytes.len() && write_memory(address, &kept)).then_some(kept.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Vec<u8> {
        let mut bytes = vec![0; NAME];
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize((bytes.len() + 8) & !7, 0);
        let len = bytes.len() as u16;
        bytes[LEN..LEN + 2].copy_from_slice(&len.to_le_bytes());
        bytes
    }

    #[test]
    fn entries_are_left_out() {
        let all = [".", "..", "0", "17", "19904", "19905"].map(named).concat();
        assert_eq!(without(&all, |fd| fd > 100), [".", "..", "0", "17"].map(named).concat());
        assert_eq!(without(&all, |_| false), all);
        assert_eq!(without(&named("5"), |_| true), [0; 0]);
    }
}
