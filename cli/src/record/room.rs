//! Room on the disk for the last words: `recording.json` can be completed even where the log has filled the disk.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

/// Name of the file in the log's folder that holds the room while the program runs.
const FILE: &str = ".room";
/// Bytes held: more than any `recording.json`, whose size is mostly the program's arguments.
const SIZE: usize = 64 << 10;

/// Room that is held on the disk until it is dropped.
pub struct Room {
    file: PathBuf,
}

impl Room {
    /// Takes room in the folder of a log.
    ///
    /// # Errors
    /// The operating system's; the disk may be full already.
    pub fn take(log: &Path) -> Result<Self> {
        let room = Self { file: log.join(FILE) };
        let mut file = File::create(&room.file)?;
        match fallocate(&file, FallocateFlags::empty(), 0, SIZE as u64) {
            // Written, and on the disk, which takes its time: such a file system may take room only then.
            Err(Errno::OPNOTSUPP) => {
                file.write_all(&vec![0x5a; SIZE])?;
                file.sync_all()?;
            }
            done => done?,
        }
        Ok(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Where it cannot be removed, all that is lost is the room.
        let _ = std::fs::remove_file(&self.file);
    }
}
