//! Room on the disk. Recordings share copies of ELF files by hard links: together, these count once.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What something takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the files that have no other name.
    own: u64,
    /// The files that have others: device, inode number, and bytes.
    shared: HashMap<(u64, u64), u64>,
}

impl Usage {
    /// What a file, or a folder with all that is in it, takes. What cannot be read counts as nothing.
    pub fn of(path: &Path) -> Self {
        let mut usage = Self::default();
        usage.add_all(path);
        usage
    }

    fn add_all(&mut self, path: &Path) {
        let Ok(metadata) = path.symlink_metadata() else { return };
        self.add(&metadata);
        if metadata.is_dir() {
            fs::read_dir(path).into_iter().flatten().flatten().for_each(|entry| self.add_all(&entry.path()));
        }
    }

    fn add(&mut self, metadata: &Metadata) {
        // The system counts these blocks, whatever the file system's are.
        let bytes = metadata.blocks() * 512;
        if metadata.is_dir() || metadata.nlink() < 2 {
            self.own += bytes;
        } else {
            self.shared.insert((metadata.dev(), metadata.ino()), bytes);
        }
    }

    /// Bytes, if nothing else was there.
    pub fn bytes(&self) -> u64 {
        self.own + self.shared.values().sum::<u64>()
    }
}

/// Bytes that all of these take together.
pub fn together<'a>(all: impl IntoIterator<Item = &'a Usage>) -> u64 {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for usage in all {
        bytes += usage.own;
        bytes += usage.shared.iter().filter(|(file, _)| seen.insert(**file)).map(|(_, bytes)| bytes).sum::<u64>();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_links_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        for log in [&a, &b] {
            fs::create_dir(log).unwrap();
            fs::write(log.join("own"), vec![1; 100_000]).unwrap();
        }
        fs::write(a.join("elf"), vec![1; 1 << 20]).unwrap();
        let before = Usage::of(&a).bytes();
        fs::hard_link(a.join("elf"), b.join("elf")).unwrap();
        let [a, b] = [a, b].map(|log| Usage::of(&log));
        assert_eq!((a.bytes(), b.bytes()), (before, before));
        assert!(before > 1 << 20);
        assert_eq!(together([&a, &b]), 2 * before - (1 << 20));
        assert_eq!(Usage::of(Path::new("/nonexistent")).bytes(), 0);
    }
}
