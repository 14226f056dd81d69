//! Room on the disk for the last words: `recording.json` can be completed even where the log has filled the disk.
//!
//! The room is in the file in which it is written before it takes its name. That file is there then, which saves time at the
//! end: some file systems look long for a free place for a new one.

use bugnet_format::folder::NEW_META_FILE;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// Bytes held: more than any `recording.json`, whose size is mostly the program's arguments.
const SIZE: usize = 64 << 10;

/// Takes room in the folder of a log. [`Meta::write`](bugnet_format::folder::Meta::write) gives it up, and uses it.
///
/// # Errors
/// The operating system's; the disk may be full already.
pub fn take(log: &Path) -> Result<()> {
    let mut file = File::create(log.join(NEW_META_FILE))?;
    match fallocate(&file, FallocateFlags::empty(), 0, SIZE as u64) {
        // Written, and on the disk, which takes its time: such a file system may take room only then.
        Err(Errno::OPNOTSUPP) => {
            file.write_all(&vec![0x5a; SIZE])?;
            file.sync_all()
        }
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::folder::{Ending, META_FILE, Machine, Meta, Recording};

    #[test]
    fn the_room_becomes_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let meta = Meta {
            format_version: bugnet_format::FORMAT_VERSION,
            bugnet_version: String::new(),
            program: "/bin/true".to_owned(),
            args: Vec::new(),
            cwd: "/".to_owned(),
            started: 0,
            machine: Machine::default(),
            interval: 1,
            keep: 0,
            check_every: 0,
            cpu_level: String::new(),
            pid: None,
            ending: Ending::Unknown,
            follow: true,
            chaos: None,
            light: false,
            contents: None,
        };
        take(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(dir.path().join(NEW_META_FILE)).unwrap().len(), SIZE as u64);
        meta.write(dir.path()).unwrap();
        assert_eq!(Recording::open(dir.path()).unwrap().meta, meta);
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [META_FILE]);
    }
}
