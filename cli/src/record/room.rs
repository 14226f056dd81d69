//! Room on the disk for the last words: `recording.json` can be completed even where the log has filled the disk.

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
        // Written, and on the disk: some file systems take room only then.
        file.write_all(&vec![0x5a; SIZE])?;
        file.sync_all()?;
        Ok(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Where it cannot be removed, all that is lost is the room.
        let _ = std::fs::remove_file(&self.file);
    }
}
