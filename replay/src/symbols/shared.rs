//! Copies of ELF files that recordings share: one file with a name in each log, and one in a folder beside the logs, by which other
//! recordings find it. Taking away a log, or that folder, takes away names only.
//!
//! The name there says what is in the file: its build id, its length, and a hash of its bytes. Whoever makes a recording has the original
//! before it, so that a copy is never taken for another file's, whatever lies there.

use super::pack::new_name;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;
use xxhash_rust::xxh64::xxh64;

/// Bytes of the checksum at the end of a zstd stream: the low half of an XXH64 of what it holds.
const CHECKSUM: usize = 4;

/// The place of one file's copy.
pub(super) struct Shared {
    path: PathBuf,
    checksum: [u8; CHECKSUM],
}

impl Shared {
    /// For a file with these bytes, in the folder.
    pub fn of(folder: &Path, build_id: &str, bytes: &[u8]) -> Self {
        let id = if build_id.is_empty() { "none" } else { build_id };
        let name = format!("{id}-{:x}-{:032x}.zst", bytes.len(), xxh3_128(bytes));
        let mut checksum = [0; CHECKSUM];
        checksum.copy_from_slice(&xxh64(bytes, 0).to_le_bytes()[..CHECKSUM]);
        Self { path: folder.join(name), checksum }
    }

    /// Gives the copy, if there is one, a name in a log. Its length is the result.
    pub fn link_to(&self, copy: &Path) -> Option<u64> {
        let len = self.whole(&self.open()?)?;
        let linked = fs::hard_link(&self.path, copy);
        linked.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }).ok()?;
        Some(len)
    }

    /// Gives a new copy, which is in a log, a name here. Where that cannot be, the log has it alone.
    pub fn offer(&self, copy: &Path) {
        let linked = fs::hard_link(copy, &self.path).or_else(|error| match (error.kind(), self.path.parent()) {
            (io::ErrorKind::NotFound, Some(folder)) => {
                // Unless another recording is quicker.
                let _ = DirBuilder::new().mode(0o700).create(folder);
                fs::hard_link(copy, &self.path)
            }
            _ => Err(error),
        });
        if linked.is_ok() {
            return;
        }
        match self.open().and_then(|file| self.whole(&file)) {
            // Another recording was quicker: this one shares its copy.
            Some(_) => {
                let new = new_name(copy);
                let _ = fs::hard_link(&self.path, &new).and_then(|()| fs::rename(&new, copy));
                // Still there where it failed, and where both are names of one file by now.
                let _ = fs::remove_file(&new);
            }
            // What lies there is damaged. Logs that have it keep it.
            None => {
                let new = self.path.with_extension(format!("{}.zst", std::process::id()));
                let _ = fs::hard_link(copy, &new).and_then(|()| fs::rename(&new, &self.path));
                let _ = fs::remove_file(&new);
            }
        }
    }

    /// Opens the copy, if there is one.
    fn open(&self) -> Option<File> {
        File::options().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(&self.path).ok()
    }

    /// The length of a copy, if it is whole: a machine that lost its power may have lost the end of what it had written.
    fn whole(&self, file: &File) -> Option<u64> {
        let metadata = file.metadata().ok()?;
        // Those of others could be changed by them.
        if !metadata.is_file() || metadata.uid() != geteuid().as_raw() {
            return None;
        }
        let mut end = [0; CHECKSUM];
        file.read_exact_at(&mut end, metadata.len().checked_sub(CHECKSUM as u64)?).ok()?;
        (end == self.checksum).then_some(metadata.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pack::write_copy;
    use super::*;

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn one_file_with_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        let copies: Vec<_> = (0..3).map(|n| folder.path().join(format!("copy-{n}.zst"))).collect();
        let bytes = b"bytes of a file".repeat(100);
        for copy in &copies {
            let len = write_copy(&bytes, "abcd", Some(&shared), copy).unwrap();
            assert_eq!(len, fs::metadata(copy).unwrap().len());
        }
        assert!(copies.iter().all(|copy| inode(copy) == inode(&copies[0])));
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 1);
        // Another file with the same build id is another file.
        let other = folder.path().join("other.zst");
        write_copy(b"other bytes", "abcd", Some(&shared), &other).unwrap();
        assert_ne!(inode(&other), inode(&copies[0]));
        // Without the folder, a log keeps what it has.
        fs::remove_dir_all(&shared).unwrap();
        assert_eq!(zstd::decode_all(File::open(&copies[1]).unwrap()).unwrap(), bytes);
    }

    #[test]
    fn damage_does_not_spread() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        let bytes = vec![7; 10_000];
        let [one, two, three] = ["one.zst", "two.zst", "three.zst"].map(|name| folder.path().join(name));
        write_copy(&bytes, "", Some(&shared), &one).unwrap();
        fs::write(&one, "").unwrap();
        write_copy(&bytes, "", Some(&shared), &two).unwrap();
        assert_eq!(zstd::decode_all(File::open(&two).unwrap()).unwrap(), bytes);
        write_copy(&bytes, "", Some(&shared), &three).unwrap();
        assert_eq!(inode(&two), inode(&three));
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 1);
    }

    #[test]
    fn two_recordings_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, bytes) = (folder.path(), vec![3; 100_000]);
        std::thread::scope(|scope| {
            for n in 0..8 {
                let (shared, bytes) = (folder.join("shared"), &bytes);
                scope.spawn(move || {
                    write_copy(bytes, "1234", Some(&shared), &folder.join(format!("copy-{n}.zst"))).unwrap()
                });
            }
        });
        let copies: Vec<_> = (0..8).map(|n| folder.join(format!("copy-{n}.zst"))).collect();
        assert!(copies.iter().all(|copy| inode(copy) == inode(&copies[0])));
        assert_eq!(fs::metadata(&copies[0]).unwrap().nlink(), 9);
    }
}
