//! `bugnet unpack`: the folder of a log that is packed.

use super::contents::{self, Contents, Place};
use crate::args::{LogArg, UnpackArgs};
use crate::ending::Ends;
use crate::failure::{Failure, complain};
use crate::find_log::find_log_as_it_is;
use crate::record::{LogFolder, RecordError};
use bugnet_format::FormatError;
use bugnet_format::folder::{META_FILE, Recording};
use bugnet_format::source::Source;
use indicatif::HumanBytes;
use rustix::fs::Mode;
use rustix::process::umask;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Unpacks a log.
pub fn unpack(args: &UnpackArgs) -> Result<(), Failure> {
    let source = find_log_as_it_is(&args.log)?;
    if source.pack().is_none() {
        // Where there is no log at all, this says so.
        let path = Recording::open_source(source.clone())?.path;
        return Err(Failure::Usage(format!("{} is a folder: there is nothing to unpack", path.display())));
    }
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
    write_all(&source, folder.path())?;
    folder.keep(true);
    drop(ends);
    Ok(())
}

/// Writes all files of a packed log into a folder that is new and nobody else's.
fn write_all(source: &Source, folder: &Path) -> Result<(), Failure> {
    let size = source.pack().map_or(0, |pack| pack.entries().fold(0u64, |sum, (_, _, size)| sum.saturating_add(size)));
    has_room(folder, size)?;
    for (name, place) in Contents::of(source)?.all() {
        // Names lead down from the folder, in which there are no links: it is new and nobody else's.
        let to = folder.join(name);
        let written = if *place == Place::EmptyFolder {
            make_folder(&to)
        } else {
            let mut from = contents::open(source, &source.path().join(name))?;
            write(&mut from, &to)
        };
        written.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => FormatError::damaged(&source.path().join(name), 0, error.to_string()).into(),
            _ => Failure::System { what: format!("write {}", to.display()), source: error },
        })?;
    }
    Ok(())
}

/// What is behind the name of a packed file in that of the folder with its light log.
pub const BESIDE: &str = ".expanded";
/// In that folder: what the packed file says of the recording.
const PACKED_META: &str = "light/packed.json";

/// The folder in which a packed log lies open if it is a light one: what is made of it is to be kept. None of any other.
pub fn beside(source: &Source, arg: &LogArg) -> Result<Option<PathBuf>, Failure> {
    let is_light = source.pack().is_some_and(|pack| pack.entries().any(|(name, ..)| contents::is_light(name)));
    if !is_light {
        return Ok(None);
    }
    let path = source.path();
    if !arg.identity.is_empty() {
        let what = format!(
            "{} is a light log, and encrypted: what is made of it would not be; bugnet unpack it first, to where it may lie open",
            path.display()
        );
        return Err(Failure::Usage(what));
    }
    let name = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let (folder, new) = (name(BESIDE), name(".expanded.new"));
    let fail = |to: &Path| {
        let what =
            format!("open the light log {} in {} (bugnet unpack puts it elsewhere)", path.display(), to.display());
        move |source| Failure::System { what, source }
    };
    // Nobody else does so meanwhile.
    let lock = File::open(path).map_err(fail(&folder))?;
    lock.lock().map_err(fail(&folder))?;
    let mut meta = Vec::new();
    contents::open(source, &path.join(META_FILE))?.read_to_end(&mut meta).map_err(fail(&folder))?;
    if folder.exists() {
        let same = std::fs::read(folder.join(PACKED_META)).is_ok_and(|own| own == meta);
        return if same {
            Ok(Some(folder))
        } else {
            Err(Failure::Usage(format!("{} is of another recording: remove it", folder.display())))
        };
    }
    let _ = std::fs::remove_dir_all(&new);
    complain(&format_args!("this is a light log: what is made of it is kept in {}", folder.display()));
    // What the command writes elsewhere gets what the user's mask lets it have.
    let mask = umask(Mode::RWXG | Mode::RWXO);
    let written = make_folder(&new).map_err(fail(&new)).and_then(|()| write_all(source, &new)).and_then(|()| {
        std::fs::write(new.join(PACKED_META), &meta).map_err(fail(&new))?;
        std::fs::rename(&new, &folder).map_err(fail(&folder))
    });
    umask(mask);
    if written.is_err() {
        let _ = std::fs::remove_dir_all(&new);
    }
    written.map(|()| Some(folder))
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
