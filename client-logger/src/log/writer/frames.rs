//! An interval's file: its header, and frame after frame.

use crate::base::lock::{Mutex, MutexGuard};
use crate::log::file::LogFile;
use bugnet_format::frame::{HEADER_SIZE, IntervalHeader, LEVEL, Packer};
use std::path::Path;

/// What compression needs, as long as no thread uses it: most threads compress little, and seldom at the same time.
static PACKERS: Mutex<Vec<Packer>> = Mutex::new(Vec::new());

/// Most of these that are kept.
const MOST_PACKERS: usize = 2;

fn packers() -> MutexGuard<'static, Vec<Packer>> {
    PACKERS.lock()
}

/// Appends a frame to a buffer.
fn pack(frame: u32, records: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    let kept = packers().pop();
    let mut packer = kept.map_or_else(|| Packer::new(LEVEL), Ok)?;
    packer.frame(frame, records, out)?;
    let mut packers = packers();
    if packers.len() < MOST_PACKERS {
        packers.push(packer);
    }
    Ok(())
}

/// The file.
pub struct Frames {
    file: LogFile,
    /// Bytes in it, up to which all frames are whole.
    written: u64,
    /// Whether no frame may follow: it ends in what is not a whole one, or an earlier one is missing.
    broken: bool,
    buffer: Vec<u8>,
}

impl Frames {
    /// No file.
    pub fn none() -> Self {
        Self { file: LogFile::none(), written: 0, broken: false, buffer: Vec::new() }
    }

    /// Creates the file of another interval, with room for its header.
    ///
    /// # Errors
    /// A sentence.
    pub fn prepare(path: &Path) -> Result<LogFile, String> {
        let mut file = LogFile::create(path)?;
        let written = file.write(&[0; HEADER_SIZE]);
        if let Err(why) = written {
            file.close();
            let _ = std::fs::remove_file(path);
            return Err(why);
        }
        Ok(file)
    }

    /// Begins another interval, with the file that was prepared for it.
    ///
    /// # Errors
    /// A sentence.
    pub fn begin(&mut self, prepared: LogFile, header: &IntervalHeader) -> Result<(), String> {
        self.file = prepared;
        self.written = HEADER_SIZE as u64;
        self.file.rewind()?;
        self.file.write(&header.encode())
    }

    /// Bytes of the file.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// A sentence, and then again for each frame that would follow.
    pub fn append(&mut self, frame: u32, records: &[u8]) -> Result<(), String> {
        self.go_on(|this| {
            this.buffer.clear();
            pack(frame, records, &mut this.buffer).map_err(|e| e.to_string())?;
            this.file.write(&this.buffer)?;
            this.written += this.buffer.len() as u64;
            Ok(())
        })
    }

    /// Another process has written the next frame: goes behind it.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn skip(&mut self) -> Result<(), String> {
        self.go_on(|this| {
            let end = this.file.end()?;
            if end <= this.written {
                return Err("a frame that was handed over is not in its file".into());
            }
            this.written = end;
            Ok(())
        })
    }

    /// If this fails, a part of a frame may stand there, and nothing can follow it. A tail still has its records.
    fn go_on(&mut self, step: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        if self.broken {
            return Err("an earlier frame is not whole".into());
        }
        step(self).inspect_err(|_| self.broken = true)
    }

    /// No frame is to follow.
    pub fn give_up(&mut self) {
        self.broken = true;
    }

    /// Lets go of the other process's file, in a child that was just forked.
    pub fn abandon(&mut self) {
        self.file.abandon();
    }

    /// Closes the file.
    pub fn close(&mut self) {
        self.file.close();
    }
}
