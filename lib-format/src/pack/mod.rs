//! A log in one file (FORMAT.md, "Packed file"): what `bugnet pack` makes, and all commands read as they read a folder.
//!
//! A header, the contents of the log's files one behind the other, an index that names them, and a trailer that says where the
//! index begins. It holds regular files and empty folders and nothing else, so that there is nothing to refuse: no links, devices,
//! owners or rights. Where the contents of a file begin follows from the sizes of those before it: nothing overlaps.

mod index;
mod read;
mod write;

pub use read::{Pack, PackedFile, ReadAt};
pub use write::Writer;

/// First bytes of a packed file.
pub const PACK_MAGIC: [u8; 8] = *b"BUGNETPF";
/// Its last bytes.
pub const PACK_END_MAGIC: [u8; 8] = *b"BUGNETPE";
/// Version of the packed file, apart from that of the log in it.
pub const PACK_VERSION: u32 = 1;
/// Bytes of the header.
pub const PACK_HEADER_SIZE: usize = 16;
/// Bytes of the trailer.
pub const PACK_TRAILER_SIZE: usize = 32;
/// Most bytes of the index.
pub const MAX_INDEX: u64 = 256 << 20;
/// Most files and empty folders.
pub const MAX_ENTRIES: u64 = 4 << 20;
/// Most bytes of a name.
pub const MAX_NAME: usize = 4096;
/// Most bytes of one part of a name.
pub const MAX_NAME_PART: usize = 255;

/// How an entry is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A file, its bytes as they are.
    Stored = 0,
    /// A file, its bytes as one zstd stream.
    Compressed = 1,
    /// A folder with nothing in it.
    Folder = 2,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Stored, Self::Compressed, Self::Folder];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What is wrong with a name, if anything: it has to lead from the log's folder down, and nowhere else.
pub(crate) fn name_fault(name: &str) -> Option<&'static str> {
    let wrong = |part: &str| part.is_empty() || part == "." || part == ".." || part.len() > MAX_NAME_PART;
    match name {
        _ if name.len() > MAX_NAME => Some("a name is too long"),
        _ if name.contains('\0') => Some("a name has a zero byte in it"),
        _ if name.split('/').any(wrong) => Some("a name does not lead to a place in the log"),
        _ => None,
    }
}

/// Whether `name` lies in the folder `above`.
pub(crate) fn lies_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}
