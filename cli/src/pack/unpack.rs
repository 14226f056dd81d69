//! `bugnet unpack`: the folder of a log that is packed.

use super::contents::{self, Contents, Place};
use crate::args::UnpackArgs;
use crate::ending::Ends;
use crate::failure::Failure;
use crate::find_log::find_log;
use crate::record::{LogFolder, RecordError};
use bugnet_format::FormatError;
use bugnet_format::folder::Recording;
use indicatif::HumanBytes;
use rustix::fs::Mode;
use rustix::process::umask;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Unpacks a log.
pub fn unpack(args: &UnpackArgs) -> Result<(), Failure> {
    let source = find_log(&args.log)?;
    let Some(pack) = source.pack() else {
        // Where there is no log at all, this says so.
        let path = Recording::open_source(source.clone())?.path;
        return Err(Failure::Usage(format!("{} is a folder: there is nothing to unpack", path.display())));
    };
    Recording::open_source(source.clone())?;
    // Whatever the mask: all of it is for its owner, who can use it.
    umask(Mode::RWXG | Mode::RWXO);
    let make = || {
        LogFolder::named(&args.output, None).map_err(|error| match error {
            RecordError::LogFolder { path, source } => {
                Failure::System { what: format!("make {}", path.display()), source }
            }
            other => Failure::Usage(other.to_string()),
        })
    };
    let (mut folder, ends) = Ends::with(make, |folder| folder.is_new().then_some(folder.path()))?;
    has_room(folder.path(), pack.entries().fold(0u64, |sum, (_, _, size)| sum.saturating_add(size)))?;
    for (name, place) in Contents::of(&source)?.all() {
        // Names lead down from the folder, in which there are no links: it is new and nobody else's.
        let to = folder.path().join(name);
        let written = if *place == Place::EmptyFolder {
            make_folder(&to)
        } else {
            let mut from = contents::open(&source, &source.path().join(name))?;
            write(&mut from, &to)
        };
        written.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => FormatError::damaged(&source.path().join(name), 0, error.to_string()).into(),
            _ => Failure::System { what: format!("write {}", to.display()), source: error },
        })?;
    }
    folder.keep(true);
    drop(ends);
    Ok(())
}

/// A few bytes can stand for very many: what does not fit is not begun.
fn has_room(folder: &Path, bytes: u64) -> Result<(), Failure> {
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if bytes <= free {
        return Ok(());
    }
    let what = format!("unpack it: that takes {}, and {} are free on the disk", HumanBytes(bytes), HumanBytes(free));
    Err(Failure::System { what, source: ErrorKind::StorageFull.into() })
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write(from: &mut impl io::Read, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        make_folder(folder)?;
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(from, &mut file).map(drop)
}
