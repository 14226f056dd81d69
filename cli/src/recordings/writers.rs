//! Recorded programs that still write, with no `bugnet record` that waits for them: one that was killed leaves its program running,
//! and children outlive the first process.
//!
//! Each recorded thread has a tail of its log mapped, and each captured process its light log, which the system lists.

use bugnet_format::folder::TAIL_FILES;
use bugnet_format::light::LIGHT_FOLDER;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The tails that processes of this machine have mapped. They are looked for when they are first asked for.
#[derive(Debug, Default)]
pub struct Writers(OnceCell<Mapped>);

#[derive(Debug, Default)]
struct Mapped {
    paths: HashSet<PathBuf>,
    inodes: HashSet<u64>,
}

impl Writers {
    /// Whether a process has one of these tails mapped, of which path and inode number are known.
    pub fn write_any(&self, tails: &[(PathBuf, u64)]) -> bool {
        if tails.is_empty() {
            return false;
        }
        let mapped = self.0.get_or_init(Mapped::now);
        // Either alone may be another one: in a container, the path; with some file systems, the number.
        tails.iter().any(|(path, inode)| mapped.inodes.contains(inode) || mapped.paths.contains(path))
    }
}

impl Mapped {
    fn now() -> Self {
        let mut mapped = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
                // Other users' processes write no log of this one's.
                mapped.add(&fs::read(entry.path().join("maps")).unwrap_or_default());
            }
        }
        mapped
    }

    fn add(&mut self, maps: &[u8]) {
        for line in maps.split(|byte| *byte == b'\n') {
            let Some((inode, path)) = mapping(line) else { continue };
            let is_tail = TAIL_FILES.iter().any(|name| path.file_name() == Some(OsStr::new(name)));
            if is_tail || path.parent().is_some_and(|folder| folder.ends_with(LIGHT_FOLDER)) {
                self.inodes.insert(inode);
                self.paths.insert(path);
            }
        }
    }
}

/// Inode number and path in a line of `/proc/<pid>/maps`.
fn mapping(line: &[u8]) -> Option<(u64, PathBuf)> {
    let start = line.iter().position(|byte| *byte == b'/')?;
    let inode = line[..start].split(|byte| *byte == b' ').rfind(|field| !field.is_empty())?;
    let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
    // The system writes a newline in a name as its octal number.
    let mut name = Vec::new();
    let mut rest = &line[start..];
    while let Some((first, others)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(others) => {
                name.push(b'\n');
                rest = others;
            }
            None => {
                name.push(*first);
                rest = others;
            }
        }
    }
    Some((inode, PathBuf::from(OsString::from_vec(name))))
}

/// The tails and light logs in a recording's folder, each with its inode number.
pub fn tails(recording: &Path) -> Vec<(PathBuf, u64)> {
    use std::os::unix::fs::MetadataExt;
    let mut tails = Vec::new();
    let folders = |path: &Path, first: u8| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let named = entries.filter(move |entry| entry.file_name().as_bytes().first() == Some(&first));
        named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
    };
    for thread in folders(recording, b'p').flat_map(|process| folders(&process, b't').collect::<Vec<_>>()) {
        for path in TAIL_FILES.map(|name| thread.join(name)) {
            tails.extend(path.symlink_metadata().ok().map(|metadata| (path, metadata.ino())));
        }
    }
    // Parts of light logs, of which each process has the last one mapped.
    let light = fs::read_dir(recording.join(LIGHT_FOLDER)).into_iter().flatten().flatten();
    let files = light.filter_map(|entry| entry.metadata().ok().map(|metadata| (entry.path(), metadata)));
    tails.extend(files.filter(|(_, metadata)| metadata.is_file()).map(|(path, metadata)| (path, metadata.ino())));
    tails
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = b"7f3a20000000-7f3a20100000 rw-s 00000000 fe:00 4711      /logs/a b/p1/t1/tail";
        assert_eq!(mapping(line), Some((4711, "/logs/a b/p1/t1/tail".into())));
        assert_eq!(mapping(b"7f-80 rw-p 0 00:00 12 /x\\012y"), Some((12, "/x\ny".into())));
        assert_eq!(mapping(b"7ffc-7ffd rw-p 00000000 00:00 0    [stack]"), None);
        assert_eq!(mapping(b""), None);
    }

    #[test]
    fn nobody_maps_what_is_not_there() {
        assert!(!Writers::default().write_any(&[("/nonexistent/p1/t1/tail".into(), u64::MAX)]));
    }
}
