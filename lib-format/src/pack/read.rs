//! Reading a packed file in place: nothing of it is written anywhere.

use super::index::{Entry, Index};
use super::{Kind, MAX_INDEX, PACK_END_MAGIC, PACK_HEADER_SIZE, PACK_MAGIC, PACK_TRAILER_SIZE, PACK_VERSION};
use crate::error::{FormatError, Result};
use crate::wire::Reader;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes that can be read at any place, by several threads: a file, or one that is decrypted on the way.
pub trait ReadAt: Send + Sync {
    /// How many there are.
    ///
    /// # Errors
    /// The operating system's.
    fn size(&self) -> io::Result<u64>;

    /// Reads as many bytes as `buffer` has from `offset` on, or fewer.
    ///
    /// # Errors
    /// The operating system's; `InvalidData` if they are damaged.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

/// A packed file, opened.
pub struct Pack {
    bytes: Arc<dyn ReadAt>,
    index: Index,
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pack of {} entries", self.index.entries().count())
    }
}

impl Pack {
    /// Reads what is in a packed file; `path` is what it is called.
    ///
    /// # Errors
    /// It is none, it is of another version, or damaged.
    pub fn open(bytes: Arc<dyn ReadAt>, path: &Path) -> Result<Self> {
        let io = |error| read_error(path, error);
        let len = bytes.size().map_err(io)?;
        let mut header = [0; PACK_HEADER_SIZE];
        let found = read_full(&*bytes, &mut header, 0).map_err(io)?;
        if !header[..found].starts_with(&PACK_MAGIC) {
            let found = match found {
                0 => "it is empty",
                _ => "it is neither a folder nor a file that bugnet pack has made",
            };
            return Err(FormatError::NotALog { path: path.to_owned(), what: "log", found: found.to_owned() });
        }
        let damaged = |at: u64, why: String| FormatError::damaged(path, at, why);
        let cut = || damaged(len, "the file ends too early: it was not copied or written to its end".to_owned());
        let smallest = (PACK_HEADER_SIZE + PACK_TRAILER_SIZE) as u64;
        let mut fields = Reader::new(&header, PACK_MAGIC.len());
        let (Ok(version), Ok(zero)) = (fields.u32(), fields.u32()) else { return Err(cut()) };
        if found < header.len() {
            return Err(cut());
        }
        if version != PACK_VERSION {
            return Err(FormatError::Version { path: path.to_owned(), found: version, expected: PACK_VERSION });
        }
        if zero != 0 {
            return Err(damaged(12, "bytes that have no meaning are not zero".to_owned()));
        }
        let Some(trailer_at) = len.checked_sub(PACK_TRAILER_SIZE as u64).filter(|_| len >= smallest) else {
            return Err(cut());
        };
        let mut trailer = [0; PACK_TRAILER_SIZE];
        read_exact(&*bytes, &mut trailer, trailer_at).map_err(io)?;
        if !trailer.ends_with(&PACK_END_MAGIC) {
            return Err(cut());
        }
        let mut fields = Reader::new(&trailer, 0);
        let (Ok(packed), Ok(raw), Ok(checksum)) = (fields.u64(), fields.u64(), fields.u64()) else {
            return Err(cut());
        };
        let index_at = trailer_at.checked_sub(packed).filter(|at| *at >= PACK_HEADER_SIZE as u64);
        let Some(index_at) = index_at.filter(|_| packed <= MAX_INDEX && raw <= MAX_INDEX) else {
            return Err(damaged(trailer_at, "the index is longer than it can be".to_owned()));
        };
        let index = read_index(&*bytes, index_at, packed, raw, checksum).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => damaged(index_at, error.to_string()),
            _ => io(error),
        })?;
        let first = PACK_HEADER_SIZE as u64;
        let index = Index::decode(index, first)
            .map_err(|(at, why)| damaged(index_at, format!("the index is damaged at byte {at}: {why}")))?;
        if index.end(first) != index_at {
            return Err(damaged(index_at, "the index is about another file: the sizes do not add up".to_owned()));
        }
        Ok(Self { bytes, index })
    }

    /// All files and empty folders, by name, with the bytes of each.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Kind, u64)> {
        self.index.entries().map(|(name, entry)| (name, entry.kind, entry.size))
    }

    /// Opens a file of the log for reading; with it, its size.
    ///
    /// # Errors
    /// There is no such file (`NotFound`), or it is a folder (`IsADirectory`).
    pub fn open_file(&self, name: &str) -> io::Result<(PackedFile, u64)> {
        let entry = match self.index.find(name) {
            Some(entry) if entry.kind != Kind::Folder => entry,
            None if !self.is_folder(name) => return Err(ErrorKind::NotFound.into()),
            _ => return Err(ErrorKind::IsADirectory.into()),
        };
        Ok((PackedFile::new(&self.bytes, entry)?, entry.size))
    }

    /// The names in a folder of the log, sorted; the log itself has an empty name.
    ///
    /// # Errors
    /// There is no such folder (`NotFound`), or it is a file (`NotADirectory`).
    pub fn names(&self, folder: &str) -> io::Result<Vec<&str>> {
        if folder.is_empty() {
            return Ok(self.index.names_in(""));
        }
        match self.index.find(folder) {
            Some(entry) if entry.kind == Kind::Folder => Ok(Vec::new()),
            Some(_) => Err(ErrorKind::NotADirectory.into()),
            None if self.is_folder(folder) => Ok(self.index.names_in(&format!("{folder}/"))),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Bytes that a file, or all files in a folder, take in here; the log itself has an empty name.
    pub(crate) fn size_below(&self, name: &str) -> u64 {
        match self.index.find(name) {
            _ if name.is_empty() => self.bytes.size().unwrap_or_default(),
            Some(entry) => entry.packed,
            None => self.index.beginning_with(&format!("{name}/")).map(|(_, entry)| entry.packed).sum(),
        }
    }

    fn is_folder(&self, name: &str) -> bool {
        self.index.beginning_with(&format!("{name}/")).next().is_some()
    }
}

fn read_index(bytes: &dyn ReadAt, at: u64, packed: u64, raw: u64, checksum: u64) -> io::Result<Vec<u8>> {
    let invalid = |why: &str| io::Error::new(ErrorKind::InvalidData, why);
    let mut compressed = vec![0; packed as usize];
    read_exact(bytes, &mut compressed, at)?;
    if xxh3_64(&compressed) != checksum {
        return Err(invalid("the checksum of the index does not fit"));
    }
    let mut index = Vec::new();
    let decoder = zstd::Decoder::new(&compressed[..])?;
    let read = decoder.take(raw + 1).read_to_end(&mut index);
    match read {
        Ok(read) if read as u64 == raw => Ok(index),
        _ => Err(invalid("the index does not decompress to what it should be")),
    }
}

/// A damaged packed file is the log's fault, all else the system's.
fn read_error(path: &Path, error: io::Error) -> FormatError {
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => FormatError::damaged(path, 0, error.to_string()),
        _ => FormatError::io(path)(error),
    }
}

fn read_full(bytes: &dyn ReadAt, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match bytes.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn read_exact(bytes: &dyn ReadAt, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let done = read_full(bytes, buffer, offset)?;
    if done < buffer.len() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// A file in a packed file, read from its start. Its checksum is compared where its last byte is read.
pub struct PackedFile {
    from: Contents,
    left: u64,
    hash: Box<Xxh3>,
    checksum: u64,
}

enum Contents {
    Stored(Part),
    Compressed(Box<zstd::Decoder<'static, BufReader<Part>>>),
}

impl PackedFile {
    fn new(bytes: &Arc<dyn ReadAt>, entry: &Entry) -> io::Result<Self> {
        let part = Part { bytes: Arc::clone(bytes), at: entry.offset, end: entry.offset + entry.packed };
        let from = match entry.kind {
            Kind::Compressed => Contents::Compressed(Box::new(zstd::Decoder::new(part)?)),
            Kind::Stored | Kind::Folder => Contents::Stored(part),
        };
        Ok(Self { from, left: entry.size, hash: Box::default(), checksum: entry.checksum })
    }
}

impl fmt::Debug for PackedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackedFile with {} bytes left", self.left)
    }
}

impl Read for PackedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let invalid = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let read = match &mut self.from {
            Contents::Stored(part) => part.read(&mut buffer[..most])?,
            // What the decoder says of its own has no kind.
            Contents::Compressed(decoder) => decoder.read(&mut buffer[..most]).map_err(|error| match error.kind() {
                ErrorKind::Other | ErrorKind::UnexpectedEof => invalid(format!("it does not decompress: {error}")),
                _ => error,
            })?,
        };
        if read == 0 {
            return Err(invalid("its bytes end too early".to_owned()));
        }
        self.hash.update(&buffer[..read]);
        self.left -= read as u64;
        if self.left == 0 && self.hash.digest() != self.checksum {
            return Err(invalid("its checksum does not fit".to_owned()));
        }
        Ok(read)
    }
}

/// A part of some bytes.
struct Part {
    bytes: Arc<dyn ReadAt>,
    at: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.bytes.read_at(&mut buffer[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
