//! The index of a process: what a replay of all its epochs has found of memory and code, so that questions about all of them need not
//! replay all of them. It is no part of the log: it can always be made again.
//!
//! A header of `HEADER` bytes, blocks, and a directory. All numbers are little-endian. Header: magic, version (`u32`), zero
//! (`u32`), the identity of what it is about (`u128`), offset, length and checksum of the directory, checksum of the header up to
//! there (`u64` each). Blocks and the directory are each compressed (zstd) and named by offset, length and checksum (XXH3) of what is
//! in the file. The directory is a [`Directory`] and leads to an [`EpochTable`] for each epoch, both as [postcard]; a table leads to the
//! contents of pages: [`KNOWN`] bytes with a bit for each byte that is known, and a page, zero where it is not; and, where there are
//! several threads, to their [`Patch`]es, as [postcard].

use crate::error::{FormatError, Result};
use crate::patch::{MOST_ROOM, Patch};
use crate::types::Addr;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;
use zstd::bulk::Compressor;

/// First bytes of an index.
const MAGIC: [u8; 8] = *b"BUGNETIX";
/// Version of the format, also of what the tables mean.
const VERSION: u32 = 3;
/// Bytes of the header.
const HEADER: usize = 64;
/// Bytes of the bits for the known bytes of a page.
pub const KNOWN: usize = PAGE / 8;
const PAGE: usize = Addr::PAGE as usize;
/// Most bytes of a directory or a table.
const MAX_TABLE: u64 = 1 << 30;
/// Speed counts more than room.
const LEVEL: i32 = 1;

/// Where a block is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Block {
    at: u64,
    len: u32,
    checksum: u64,
}

/// The epochs, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// The table of each.
    pub epochs: Vec<Block>,
}

/// What was found in an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochTable {
    /// The pages of which something was accessed or executed, ascending.
    pub pages: Vec<PageEntry>,
    /// Memory that may have been changed by something that nobody saw: start and length of each range, ascending.
    pub changed: Vec<(u64, u64)>,
    /// Memory that others may change at any time from then on, likewise.
    pub unsteady: Vec<(u64, u64)>,
    /// Memory that the kernel made in the epoch, as zeros; all else that the epoch has left of it is in the pages. Likewise.
    pub zeros: Vec<(u64, u64)>,
    /// Where it mapped a file in the epoch, privately, in the same way. Likewise.
    pub mapped: Vec<(u64, u64)>,
    /// Numbers of the system calls that were made, ascending.
    pub calls: Vec<u64>,
    /// Whether a signal's handler began.
    pub signals: bool,
    /// Whether it could not be replayed: anything may have happened.
    pub is_unknown: bool,
    /// With several threads, the patches of a replay that does not compare what each reads. Nothing if there are too many.
    pub patches: Option<Block>,
}

/// A page in an epoch. Bits of `u64` are its 64 lines of 64 bytes, the first one lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEntry {
    /// Its address.
    pub addr: u64,
    /// Lines of which something was accessed.
    pub accessed: u64,
    /// Lines of which something was written.
    pub written: u64,
    /// Lines of which code was executed; perhaps a little more.
    pub executed: u64,
    /// What the epoch has left there, if something of it is known: all that was accessed, and not changed since by something that nobody saw.
    pub left: Option<Block>,
    /// What the epoch has found there, as it was at its start, if something of it is known.
    pub found: Option<Block>,
}

/// What is known of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// A bit for each byte that is known, the first one lowest.
    pub known: [u64; PAGE / 64],
    /// The bytes.
    pub bytes: [u8; PAGE],
}

impl Content {
    /// Of so many bytes, [`KNOWN`] and a page; none if there are more or fewer.
    #[must_use]
    pub fn new(known: &[u8], bytes: &[u8]) -> Option<Self> {
        Some(Self { known: known_bits(known)?, bytes: bytes.try_into().ok()? })
    }
}

/// The bits of [`KNOWN`] bytes, a word for each line; none of more or fewer.
#[must_use]
pub fn known_bits(known: &[u8]) -> Option<[u64; PAGE / 64]> {
    let (words, rest) = known.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.try_into().ok().filter(|_| rest.is_empty())
}

impl EpochTable {
    /// The page at this address.
    #[must_use]
    pub fn page(&self, addr: u64) -> Option<&PageEntry> {
        self.pages.binary_search_by_key(&addr, |page| page.addr).ok().map(|index| &self.pages[index])
    }

    /// What has to be true of a table that comes from a file.
    fn is_sound(&self) -> bool {
        let ascend = |ranges: &[(u64, u64)]| {
            ranges.iter().all(|(start, len)| start.checked_add(*len).is_some())
                && ranges.is_sorted_by(|(a, len), (b, _)| a + len <= *b)
        };
        self.pages.is_sorted_by(|a, b| a.addr < b.addr)
            && self.pages.iter().all(|page| page.addr.is_multiple_of(Addr::PAGE))
            && ascend(&self.changed)
            && [&self.unsteady, &self.zeros, &self.mapped].into_iter().all(|ranges| ascend(ranges))
            && self.calls.is_sorted_by(|a, b| a < b)
    }
}

/// Whether one of the ranges, which ascend, holds the byte at this address.
#[must_use]
pub fn holds(ranges: &[(u64, u64)], addr: u64) -> bool {
    let behind = ranges.partition_point(|(start, _)| *start <= addr);
    behind.checked_sub(1).is_some_and(|index| addr - ranges[index].0 < ranges[index].1)
}

/// A block that is not in the file yet, compressed.
#[derive(Clone, Debug)]
pub struct Packed(Vec<u8>);

impl Packed {
    fn of(bytes: &[u8]) -> io::Result<Self> {
        thread_local! {
            /// To make one takes longer than to compress a page.
            static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
        }
        COMPRESSOR.with_borrow_mut(|slot| {
            let compressor = match slot {
                Some(compressor) => compressor,
                None => slot.insert(Compressor::new(LEVEL)?),
            };
            compressor.compress(bytes).map(Self)
        })
    }

    /// The patches of an epoch.
    ///
    /// # Errors
    /// There is no memory.
    pub fn patches(patches: &[Patch]) -> io::Result<Self> {
        Self::of(&postcard::to_allocvec(patches).map_err(io::Error::other)?)
    }

    /// The contents of a page.
    ///
    /// # Errors
    /// There is no memory.
    pub fn page(known: &[u8], bytes: &[u8]) -> io::Result<Self> {
        let mut all = known.to_vec();
        all.extend_from_slice(bytes);
        Self::of(&all)
    }
}

/// An index that is being written. It has no header before it is whole.
#[derive(Debug)]
pub struct IndexWriter {
    file: BufWriter<File>,
    at: u64,
    directory: Directory,
}

impl IndexWriter {
    /// One in an empty file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(file: File) -> io::Result<Self> {
        let mut file = BufWriter::new(file);
        file.write_all(&[0; HEADER])?;
        Ok(Self { file, at: HEADER as u64, directory: Directory::default() })
    }

    /// Adds a block.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn block(&mut self, packed: &Packed) -> io::Result<Block> {
        self.file.write_all(&packed.0)?;
        let len = u32::try_from(packed.0.len()).map_err(io::Error::other)?;
        let block = Block { at: self.at, len, checksum: xxh3_64(&packed.0) };
        self.at += u64::from(len);
        Ok(block)
    }

    /// Adds the table of the next epoch.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn epoch(&mut self, table: &EpochTable) -> io::Result<()> {
        let block = self.block(&Packed::of(&postcard::to_allocvec(table).map_err(io::Error::other)?)?)?;
        self.directory.epochs.push(block);
        Ok(())
    }

    /// All epochs are there: it becomes an index of what has this identity.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, identity: u128) -> io::Result<File> {
        let directory = Packed::of(&postcard::to_allocvec(&self.directory).map_err(io::Error::other)?)?;
        let directory = self.block(&directory)?;
        let mut file = self.file.into_inner()?;
        file.seek(SeekFrom::Start(0))?;
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend([0; 4]);
        header.extend(identity.to_le_bytes());
        for number in [directory.at, directory.len.into(), directory.checksum] {
            header.extend(number.to_le_bytes());
        }
        header.extend(xxh3_64(&header).to_le_bytes());
        file.write_all(&header)?;
        Ok(file)
    }
}

/// An index, opened.
#[derive(Debug)]
pub struct IndexReader {
    file: File,
    path: PathBuf,
    directory: Directory,
}

impl IndexReader {
    /// Opens an index; `None` if it is one of something else, or of another version.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn open(file: File, path: &Path, identity: u128) -> Result<Option<Self>> {
        let mut header = [0; HEADER];
        (&file).read_exact(&mut header).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => FormatError::damaged(path, 0, "shorter than its header"),
            _ => FormatError::io(path)(error),
        })?;
        let number = |at: usize| header[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        if header[..8] != MAGIC || number(8) != u64::from(VERSION) {
            return Ok(None);
        }
        if xxh3_64(&header[..HEADER - 8]) != number(HEADER - 8) {
            return Err(FormatError::damaged(path, 0, "the header's checksum does not fit"));
        }
        if header[16..32] != identity.to_le_bytes() {
            return Ok(None);
        }
        let Ok(len) = u32::try_from(number(40)) else {
            return Err(FormatError::damaged(path, 40, "a directory that is too long"));
        };
        let mut reader = Self { file, path: path.to_owned(), directory: Directory::default() };
        reader.directory = reader.decode(Block { at: number(32), len, checksum: number(48) })?;
        Ok(Some(reader))
    }

    /// How many epochs it has.
    #[must_use]
    pub fn epochs(&self) -> usize {
        self.directory.epochs.len()
    }

    /// The table of an epoch, by its index.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn table(&self, epoch: usize) -> Result<EpochTable> {
        let Some(block) = self.directory.epochs.get(epoch) else {
            return Err(FormatError::Missing(format!("{}: no epoch with index {epoch}", self.path.display())));
        };
        let table: EpochTable = self.decode(*block)?;
        if table.is_sound() { Ok(table) } else { Err(self.damaged(*block, "a table that is in no order")) }
    }

    /// What is known of a page.
    ///
    /// # Errors
    /// It is damaged.
    pub fn content(&self, block: Block) -> Result<Content> {
        let all = self.read(block, (KNOWN + PAGE) as u64)?;
        let content = all.split_at_checked(KNOWN).and_then(|(known, bytes)| Content::new(known, bytes));
        content.ok_or_else(|| self.damaged(block, "a page that is too short"))
    }

    /// The patches of an epoch.
    ///
    /// # Errors
    /// They are damaged.
    pub fn patches(&self, block: Block) -> Result<Vec<Patch>> {
        let patches: Vec<Patch> = self.decode(block)?;
        let room: usize = patches.iter().map(Patch::room).sum();
        if patches.iter().all(Patch::is_sound) && room <= 2 * MOST_ROOM {
            Ok(patches)
        } else {
            Err(self.damaged(block, "patches that make no sense"))
        }
    }

    fn damaged(&self, block: Block, why: impl Into<String>) -> FormatError {
        FormatError::damaged(&self.path, block.at, why)
    }

    fn decode<T: for<'a> Deserialize<'a>>(&self, block: Block) -> Result<T> {
        let bytes = self.read(block, MAX_TABLE)?;
        postcard::from_bytes(&bytes).map_err(|error| self.damaged(block, error.to_string()))
    }

    /// The bytes of a block, of which there may be so many.
    fn read(&self, block: Block, most: u64) -> Result<Vec<u8>> {
        let size = self.file.metadata().map_err(FormatError::io(&self.path))?.len();
        if block.at.checked_add(block.len.into()).is_none_or(|end| end > size) {
            return Err(self.damaged(block, "a block that reaches beyond the end"));
        }
        let mut packed = vec![0; block.len as usize];
        self.file.read_exact_at(&mut packed, block.at).map_err(FormatError::io(&self.path))?;
        if xxh3_64(&packed) != block.checksum {
            return Err(self.damaged(block, "a block's checksum does not fit"));
        }
        let mut bytes = Vec::new();
        let decoder = zstd::stream::Decoder::with_buffer(&packed[..]);
        let read = decoder.and_then(|decoder| decoder.take(most + 1).read_to_end(&mut bytes));
        read.map_err(|error| self.damaged(block, error.to_string()))?;
        if bytes.len() as u64 > most {
            return Err(self.damaged(block, format!("a block of more than {most} bytes")));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        tempfile::tempfile().unwrap()
    }

    fn write() -> File {
        let mut writer = IndexWriter::new(file()).unwrap();
        let mut known = [0; KNOWN];
        known[0] = 0b101;
        let mut bytes = [0; PAGE];
        (bytes[0], bytes[2]) = (7, 9);
        let left = writer.block(&Packed::page(&known, &bytes).unwrap()).unwrap();
        let page = PageEntry { addr: 0x1000, accessed: 1, written: 0, executed: 0, left: Some(left), found: None };
        let table = EpochTable { pages: vec![page], changed: vec![(0x10, 5), (0x20, 1)], ..EpochTable::default() };
        writer.epoch(&table).unwrap();
        writer.finish(42).unwrap()
    }

    fn open(file: File, identity: u128) -> Result<Option<IndexReader>> {
        let mut file = file;
        file.rewind().unwrap();
        IndexReader::open(file, Path::new("x"), identity)
    }

    #[test]
    fn what_is_written_can_be_read() {
        let reader = open(write(), 42).unwrap().unwrap();
        assert_eq!(reader.epochs(), 1);
        let table = reader.table(0).unwrap();
        assert!(holds(&table.changed, 0x14) && !holds(&table.changed, 0x15) && !holds(&table.changed, 0xf));
        let page = table.page(0x1000).unwrap();
        let content = reader.content(page.left.unwrap()).unwrap();
        assert_eq!((content.known[0], content.bytes[2]), (5, 9));
        assert!(table.page(0x2000).is_none() && reader.table(1).is_err());
        assert!(open(write(), 43).unwrap().is_none());
    }

    /// Each changed byte is noticed, or makes no difference.
    #[test]
    fn damage_is_noticed() {
        let file = write();
        let len = file.metadata().unwrap().len();
        for at in 0..len {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            let all = |reader: IndexReader| {
                let table = reader.table(0)?;
                reader.content(table.pages[0].left.unwrap())
            };
            match open(file.try_clone().unwrap(), 42) {
                Ok(Some(reader)) => assert!(all(reader).is_err(), "byte {at}"),
                Ok(None) => assert!(at < 32, "byte {at}"),
                Err(_) => {}
            }
            file.write_all_at(&byte, at).unwrap();
        }
        file.set_len(len / 2).unwrap();
        assert!(open(file, 42).is_err());
    }
}
