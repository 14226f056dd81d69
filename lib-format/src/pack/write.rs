//! Writing a packed file, from its start to its end: where it goes to need not be a file.

use super::index::put_entry;
use super::{
    Kind, MAX_ENTRIES, MAX_INDEX, PACK_END_MAGIC, PACK_HEADER_SIZE, PACK_MAGIC, PACK_VERSION, lies_below, name_fault,
};
use std::io::{self, ErrorKind, Read, Write};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// How hard files are compressed: once, to be sent and kept.
const LEVEL: i32 = 12;
/// Bytes read at a time.
const PIECE: usize = 256 << 10;

/// A packed file that is being written. The same files make the same bytes, with the same version of zstd.
pub struct Writer<W> {
    to: W,
    /// Of files that are small: what makes ready for larger ones takes longer than they do.
    small: zstd::bulk::Compressor<'static>,
    index: Vec<u8>,
    entries: u64,
    last: String,
}

impl<W: Write> Writer<W> {
    /// Begins one.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(mut to: W) -> io::Result<Self> {
        let mut header = [0; PACK_HEADER_SIZE];
        header[..8].copy_from_slice(&PACK_MAGIC);
        header[8..12].copy_from_slice(&PACK_VERSION.to_le_bytes());
        to.write_all(&header)?;
        let small = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(Self { to, small, index: Vec::new(), entries: 0, last: String::new() })
    }

    /// Appends a file, or an empty folder without contents. Names ascend, byte by byte.
    ///
    /// # Errors
    /// The operating system's; or the name is none (`InvalidInput`), or there is no room for it in the index.
    pub fn add(&mut self, name: &str, kind: Kind, contents: impl Read) -> io::Result<()> {
        let wrong = |why: &str| Err(io::Error::new(ErrorKind::InvalidInput, format!("{name}: {why}")));
        if let Some(why) = name_fault(name) {
            return wrong(why);
        }
        if self.entries > 0 && (name <= self.last.as_str() || lies_below(name, &self.last)) {
            return wrong("the names do not ascend");
        }
        if self.entries == MAX_ENTRIES {
            return wrong("there are more files than a packed file may hold");
        }
        let mut contents = Hashing { from: contents, hash: Box::default(), size: 0 };
        let mut to = Counting { to: &mut self.to, size: 0 };
        match kind {
            Kind::Folder => {}
            Kind::Stored => drop(copy(&mut contents, &mut to)?),
            Kind::Compressed => {
                let mut start = Vec::with_capacity(PIECE);
                (&mut contents).take(PIECE as u64).read_to_end(&mut start)?;
                if start.len() < PIECE {
                    to.write_all(&self.small.compress(&start)?)?;
                } else {
                    let mut encoder = zstd::Encoder::new(&mut to, LEVEL)?;
                    encoder.write_all(&start)?;
                    copy(&mut contents, &mut encoder)?;
                    encoder.finish()?;
                }
            }
        }
        let (size, packed) = (contents.size, to.size);
        put_entry(&mut self.index, name, kind, size, packed, contents.hash.digest());
        if self.index.len() as u64 > MAX_INDEX {
            return wrong("the names are longer than a packed file may hold");
        }
        self.entries += 1;
        name.clone_into(&mut self.last);
        Ok(())
    }

    /// Writes the index. What it was written to is the result.
    ///
    /// # Errors
    /// The operating system's.
    pub fn finish(mut self) -> io::Result<W> {
        let index = zstd::bulk::compress(&self.index, LEVEL)?;
        self.to.write_all(&index)?;
        for number in [index.len() as u64, self.index.len() as u64, xxh3_64(&index)] {
            self.to.write_all(&number.to_le_bytes())?;
        }
        self.to.write_all(&PACK_END_MAGIC)?;
        self.to.flush()?;
        Ok(self.to)
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(&piece[..read])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes the checksum of what is read.
struct Hashing<R> {
    from: R,
    hash: Box<Xxh3>,
    size: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.size += read as u64;
        Ok(read)
    }
}

/// Counts what is written.
struct Counting<W> {
    to: W,
    size: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
