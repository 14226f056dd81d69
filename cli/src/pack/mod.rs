//! `bugnet pack` and `bugnet unpack`: a log as one file, to be kept and sent.

mod contents;
mod copies;
mod recipients;
mod sources;
mod unpack;

pub use unpack::{BESIDE, beside, unpack};

use crate::args::PackArgs;
use crate::ending::Ends;
use crate::failure::{Failure, complain};
use crate::find_log::{find_log, find_log_as_it_is};
use crate::recordings::is_being_recorded;
use bugnet_format::FormatError;
use bugnet_format::folder::{ELF_FOLDER, Recording};
use bugnet_format::pack::{Kind, Writer};
use bugnet_replay::new_file::NewFile;
use contents::{Contents, Place};
use copies::Copies;
use indicatif::HumanBytes;
use recipients::recipients;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Packs a log.
pub fn pack(args: &PackArgs) -> Result<(), Failure> {
    let recipients = recipients(&args.encrypt_to)?;
    let output = &args.output;
    if output.symlink_metadata().is_ok() {
        let what = format!("{} is there already; give -o the name of a new file", output.display());
        return Err(Failure::Usage(what));
    }
    // Which sources a log is about, the programs that were executed say: those of a light one have to be executed again.
    let source = if args.sources { find_log(&args.log)? } else { find_log_as_it_is(&args.log)? };
    if is_being_recorded(source.path()) {
        return Err(Failure::BeingRecorded(source.path().to_owned()));
    }
    let recording = Recording::open_source(source)?;
    let fail = |source| Failure::System { what: format!("write {}", output.display()), source };
    // In the same folder, so that only a whole file gets its name, at once.
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (file, ends) = Ends::with(|| NewFile::create(folder).map_err(fail), NewFile::other_name)?;
    let packed = if recipients.is_empty() {
        write(&recording, args.sources, BufWriter::new(file.file()))?.1
    } else {
        let recipients = recipients.iter().map(|recipient| &**recipient as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(recipients)
            .map_err(|error| Failure::Usage(format!("cannot encrypt to these recipients: {error}")))?;
        let to = encryptor.wrap_output(BufWriter::new(file.file())).map_err(fail)?;
        let (to, packed) = write(&recording, args.sources, to)?;
        to.finish().and_then(|mut to| to.flush()).map_err(fail)?;
        packed
    };
    let size = file.file().metadata().map_err(fail)?.len();
    file.persist(output).map_err(fail)?;
    drop(ends);
    if !args.quiet {
        let encrypted = if recipients.is_empty() { "" } else { ", encrypted" };
        complain(&format_args!("{packed}: {}, {}{encrypted}", output.display(), HumanBytes(size)));
    }
    Ok(())
}

/// What was packed, for people.
#[derive(Debug, Default)]
struct Packed {
    files: usize,
    elf: usize,
    sources: usize,
    asked_for_sources: bool,
}

impl std::fmt::Display for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "packed {} files, of them {} ELF and debug files", self.files, self.elf)?;
        if self.asked_for_sources { write!(f, " and {} sources", self.sources) } else { Ok(()) }
    }
}

/// Writes all that belongs to a log.
fn write<W: Write>(recording: &Recording, with_sources: bool, to: W) -> Result<(W, Packed), Failure> {
    let fail = |source| Failure::System { what: "write the packed file".to_owned(), source };
    let mut contents = Contents::of(&recording.source)?;
    let copies = Copies::make(recording, &mut contents)?;
    let mut packed = Packed { asked_for_sources: with_sources, ..Packed::default() };
    if with_sources {
        packed.sources = sources::add(&recording.source, &mut contents);
    }
    let mut writer = Writer::new(to).map_err(fail)?;
    for (name, from) in contents.all() {
        let path = || recording.path.join(name);
        let is_elf = name.strip_prefix(ELF_FOLDER).is_some_and(|rest| rest.starts_with('/'));
        packed.files += usize::from(*from != Place::EmptyFolder);
        packed.elf += usize::from(is_elf);
        let done = match from {
            Place::EmptyFolder => writer.add(name, Kind::Folder, io::empty()),
            Place::Log if is_elf => add_elf(&mut writer, name, || contents::open(&recording.source, &path())),
            Place::Log => {
                let file = contents::open(&recording.source, &path())?;
                writer.add(name, contents::kind(name), file)
            }
            Place::File(path) if is_elf => add_elf(&mut writer, name, || plain(path)),
            Place::File(path) => writer.add(name, Kind::Compressed, plain(path)?),
        };
        done.map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => FormatError::damaged(&path(), 0, source.to_string()).into(),
            _ => Failure::System { what: format!("pack {}", path().display()), source },
        })?;
    }
    drop(copies);
    Ok((writer.finish().map_err(fail)?, packed))
}

/// Adds a copy of an ELF file, which was compressed in haste, compressed harder; one that is damaged as it is.
fn add_elf<W: Write, R: Read>(
    writer: &mut Writer<W>,
    name: &str,
    open: impl Fn() -> Result<R, Failure>,
) -> io::Result<()> {
    /// How hard.
    const LEVEL: i32 = 12;
    let open = || open().map_err(io::Error::other);
    let is_whole = zstd::Decoder::new(open()?).is_ok_and(|mut copy| io::copy(&mut copy, &mut io::sink()).is_ok());
    if !is_whole {
        return writer.add(name, Kind::Stored, open()?);
    }
    let mut again = zstd::stream::read::Encoder::new(zstd::Decoder::new(open()?)?, LEVEL)?;
    again.include_checksum(true)?;
    writer.add(name, Kind::Stored, again)
}

fn plain(path: &Path) -> Result<File, Failure> {
    let what = || format!("read {}", path.display());
    let opened = bugnet_format::source::open_file(path)?;
    opened.ok_or_else(|| Failure::System { what: what(), source: io::ErrorKind::NotFound.into() })
}
