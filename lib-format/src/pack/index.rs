//! The index of a packed file: what is in it.

use super::{Kind, MAX_ENTRIES, MAX_NAME, name_fault};
use crate::wire::{Reader, WireError, put_bytes, put_varint};
use std::ops::Range;

/// A file or folder in a packed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where its name is in the index.
    name: Range<u32>,
    pub kind: Kind,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes that it takes in the packed file.
    pub packed: u64,
    /// XXH3 (64 bits) of the file.
    pub checksum: u64,
    /// Where its bytes begin in the packed file.
    pub offset: u64,
}

/// All entries, ascending by name.
#[derive(Debug, Default)]
pub(super) struct Index {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Index {
    /// Reads it; contents begin at `offset`. What is wrong with it otherwise, and where.
    pub fn decode(bytes: Vec<u8>, mut offset: u64) -> Result<Self, (u64, &'static str)> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut reader = Reader::new(&bytes, 0);
        while reader.peek().is_some() {
            let at = reader.offset() as u64;
            let fault = |why: &'static str| (at, why);
            if entries.len() as u64 >= MAX_ENTRIES {
                return Err(fault("there are more files than a packed file may hold"));
            }
            let entry = read_entry(&mut reader, offset).map_err(|WireError(why)| fault(why))?;
            let name = name(&bytes, &entry).ok_or(fault("a name is not UTF-8"))?;
            if let Some(why) = name_fault(name) {
                return Err(fault(why));
            }
            if entries.last().is_some_and(|last| self::name(&bytes, last) >= Some(name)) {
                return Err(fault("the names do not ascend"));
            }
            let fits = match entry.kind {
                Kind::Stored => entry.size == entry.packed,
                Kind::Compressed => true,
                Kind::Folder => entry.size == 0 && entry.packed == 0,
            };
            if !fits {
                return Err(fault("the sizes of a file contradict each other"));
            }
            offset = offset.checked_add(entry.packed).ok_or(fault("the sizes add up to more than there can be"))?;
            entries.push(entry);
        }
        let index = Self { bytes, entries };
        if index.entries().any(|(name, _)| index.is_below_a_file(name)) {
            return Err((0, "a name is that of a file and of a folder"));
        }
        Ok(index)
    }

    /// Where the last contents end; contents begin at `offset`.
    pub fn end(&self, offset: u64) -> u64 {
        self.entries.last().map_or(offset, |last| last.offset + last.packed)
    }

    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|entry| (self.name(entry), entry))
    }

    pub fn find(&self, name: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| self.name(entry).cmp(name)).ok()?;
        Some(&self.entries[at])
    }

    /// The entries whose names begin so.
    pub fn beginning_with(&self, prefix: &str) -> impl Iterator<Item = (&str, &Entry)> {
        let first = self.entries.partition_point(|entry| self.name(entry) < prefix);
        let entries = self.entries[first..].iter().map(|entry| (self.name(entry), entry));
        entries.take_while(move |(name, _)| name.starts_with(prefix))
    }

    /// The names in a folder, which ends with a slash or is the log itself (an empty name).
    pub fn names_in(&self, folder: &str) -> Vec<&str> {
        let mut names = Vec::new();
        let mut at = self.entries.partition_point(|entry| self.name(entry) < folder);
        while let Some(name) = self.entries.get(at).map(|entry| self.name(entry)) {
            let Some(inside) = name.strip_prefix(folder) else { break };
            let part = inside.split('/').next().unwrap_or(inside);
            names.push(part);
            // All that lies in this one, or is it, comes together.
            let before = folder.len() + part.len();
            let rest = &self.entries[at..];
            at += rest.partition_point(|entry| {
                let other = self.name(entry);
                other.get(..before) == name.get(..before) && matches!(other.as_bytes().get(before), None | Some(b'/'))
            });
        }
        names
    }

    fn name(&self, entry: &Entry) -> &str {
        name(&self.bytes, entry).unwrap_or_default()
    }

    fn is_below_a_file(&self, name: &str) -> bool {
        name.match_indices('/').any(|(at, _)| self.find(&name[..at]).is_some())
    }
}

fn name<'a>(bytes: &'a [u8], entry: &Entry) -> Option<&'a str> {
    std::str::from_utf8(bytes.get(entry.name.start as usize..entry.name.end as usize)?).ok()
}

fn read_entry(reader: &mut Reader<'_>, offset: u64) -> Result<Entry, WireError> {
    let len = reader.bytes(MAX_NAME)?.len();
    // An index has at most `MAX_INDEX` bytes.
    let end = reader.offset() as u32;
    let kind = Kind::from_byte(reader.u8()?).ok_or(WireError("a file is kept in an unknown way"))?;
    let (size, packed, checksum) = (reader.varint()?, reader.varint()?, reader.u64()?);
    Ok(Entry { name: end - len as u32..end, kind, size, packed, checksum, offset })
}

/// Appends an entry to an index.
pub(super) fn put_entry(index: &mut Vec<u8>, name: &str, kind: Kind, size: u64, packed: u64, checksum: u64) {
    put_bytes(index, name.as_bytes());
    index.push(kind as u8);
    put_varint(index, size);
    put_varint(index, packed);
    index.extend_from_slice(&checksum.to_le_bytes());
}
