//! Standard input, output and error of programs that run again and again.

use super::inherited;
use crate::failure::complain;
use rustix::fs::{FileType, SeekFrom, fstat, seek};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Result, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use tempfile::TempDir;

/// What a program gets in place of this process's standard descriptors, by their numbers.
pub type Streams = [Option<RawFd>; 3];

/// Standard input, of which each run gets the same.
#[derive(Debug)]
pub enum Input {
    /// It is as it is: a terminal, a device, or nothing.
    Any,
    /// A file, read from this offset on.
    File(u64),
    /// What came by a pipe or a socket.
    Read(File),
}

impl Input {
    /// Looks at standard input; what can be read once only is read to its end.
    ///
    /// # Errors
    /// The operating system's.
    pub fn take(quiet: bool) -> Result<Self> {
        let input = io::stdin();
        if inherited::was_closed(0) {
            return Ok(Self::Any);
        }
        match FileType::from_raw_mode(fstat(&input)?.st_mode) {
            FileType::RegularFile | FileType::BlockDevice => Ok(Self::File(seek(&input, SeekFrom::Current(0))?)),
            FileType::Fifo | FileType::Socket => {
                if !quiet {
                    complain(&"reading standard input to its end first, since each run gets all of it");
                }
                let mut file = tempfile::tempfile()?;
                io::copy(&mut input.lock().by_ref(), &mut file)?;
                Ok(Self::Read(file))
            }
            _ => Ok(Self::Any),
        }
    }

    /// A run is about to begin. Returns what it gets, if that is not this process's.
    ///
    /// # Errors
    /// The operating system's.
    pub fn rewind(&self) -> Result<Option<RawFd>> {
        match self {
            Self::Any => Ok(None),
            Self::File(offset) => Ok(seek(io::stdin(), SeekFrom::Start(*offset)).map(|_| None)?),
            Self::Read(file) => {
                seek(file, SeekFrom::Start(0))?;
                Ok(Some(file.as_fd().as_raw_fd()))
            }
        }
    }
}

/// Files into which programs print, for whoever judges them.
#[derive(Debug)]
pub struct Captured {
    folder: TempDir,
    files: [File; 2],
}

impl Captured {
    /// Names of the files.
    const NAMES: [&str; 2] = ["stdout", "stderr"];

    /// Makes them.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("bugnet-record-").tempdir()?;
        let make = |name| OpenOptions::new().create_new(true).read(true).append(true).open(folder.path().join(name));
        let [output, error] = Self::NAMES.map(make);
        Ok(Self { files: [output?, error?], folder })
    }

    /// Where they are.
    pub fn paths(&self) -> [PathBuf; 2] {
        Self::NAMES.map(|name| self.folder.path().join(name))
    }

    /// Empties them for the next run. Returns what it gets.
    ///
    /// # Errors
    /// The operating system's.
    pub fn empty(&self) -> Result<[RawFd; 2]> {
        self.files.iter().try_for_each(|file| file.set_len(0))?;
        Ok([0, 1].map(|at| self.files[at].as_raw_fd()))
    }

    /// Prints what the program has printed. Where nobody reads that any more, it is not.
    pub fn print(&self) {
        let [output, error] = self.paths().map(File::open);
        let mut stdout = io::stdout().lock();
        let _ = output.and_then(|mut file| io::copy(&mut file, &mut stdout)).and_then(|_| stdout.flush());
        let _ = error.and_then(|mut file| io::copy(&mut file, &mut io::stderr()));
    }
}
