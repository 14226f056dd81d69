//! The picture of the replayer's memory, and UserMemCache, the way to keep it that the paper proposes.
//!
//! [`check_load`] is the one place that decides which loads are logged. It works on any [`Picture`]: a
//! [`UserMemCache`] with the [`UserMemHash`] behind it, or a flat shadow of the address space.

use crate::hash::{BLOCK, Block, BlockNo, UserMemHash};
use crate::record::MAX_VALUE;
use crate::types::Addr;
use bitvec::vec::BitVec;

/// What a replay would find in memory at this position if nothing were injected; zero where nothing is known.
///
/// Addresses wrap around at the top of the address space.
pub trait Picture {
    /// Fills `out` with the picture's bytes from `addr` on. By `&mut self`, as a cache may move blocks on a read.
    fn read(&mut self, addr: Addr, out: &mut [u8]);

    /// The thread itself, or a record, wrote `bytes` at `addr`.
    fn write(&mut self, addr: Addr, bytes: &[u8]);
}

/// A load of up to so many bytes is logged whole or not at all: a `LOAD` record of a whole operand has short forms.
pub const WHOLE: usize = 32;

/// In a longer load, so many equal bytes between two differing ones are cheaper than a `LOAD` record more.
const MERGE: usize = 8;

/// Bytes of a longer load that are compared at a time.
const CHUNK: usize = 256;

/// The thread loads `actual` from `addr`: hands to `sink` every piece of it, with its byte offset in `actual`, that a
/// replay could not know and that must be logged, and puts it into the picture.
///
/// Pieces ascend, do not overlap, and have at most [`MAX_VALUE`] bytes; each begins and ends with a byte that differs
/// unless it is a load of at most [`WHOLE`] bytes, which comes in one piece. `actual` must be what the program's
/// instruction itself loads: where others can write at the same time, take a copy first.
pub fn check_load<P: Picture + ?Sized>(picture: &mut P, addr: Addr, actual: &[u8], mut sink: impl FnMut(usize, &[u8])) {
    if actual.len() <= WHOLE {
        let known = &mut [0; WHOLE][..actual.len()];
        picture.read(addr, known);
        if known != actual {
            sink(0, actual);
            picture.write(addr, actual);
        }
        return;
    }
    let mut known = [0; CHUNK];
    // The differing bytes found last and not yet reported: `actual[piece]`.
    let mut piece = 0..0;
    let mut report = |piece: &std::ops::Range<usize>, picture: &mut P| {
        if !piece.is_empty() {
            sink(piece.start, &actual[piece.clone()]);
            picture.write(offset(addr, piece.start), &actual[piece.clone()]);
        }
    };
    for (chunk_no, chunk) in actual.chunks(CHUNK).enumerate() {
        let start = chunk_no * CHUNK;
        let known = &mut known[..chunk.len()];
        picture.read(offset(addr, start), known);
        if known == chunk {
            continue;
        }
        for at in (0..chunk.len()).filter(|i| known[*i] != chunk[*i]).map(|i| start + i) {
            let near = !piece.is_empty() && at - piece.end < MERGE && at - piece.start < MAX_VALUE;
            if !near {
                report(&piece, picture);
                piece.start = at;
            }
            piece.end = at + 1;
        }
    }
    report(&piece, picture);
}

fn offset(addr: Addr, by: usize) -> Addr {
    Addr(addr.0.wrapping_add(by as u64))
}

/// UserMemCache: the blocks of memory that a thread used last, direct mapped. Others are in the [`UserMemHash`].
#[derive(Clone, Debug)]
pub struct UserMemCache {
    /// Which block is in each line.
    tags: Vec<Option<BlockNo>>,
    /// Lines with bytes that the UserMemHash does not have.
    dirty: BitVec,
    lines: Vec<Block>,
}

impl Default for UserMemCache {
    /// The paper's 32 KB.
    fn default() -> Self {
        Self::with_lines(512)
    }
}

impl UserMemCache {
    /// A cache of so many lines of [`BLOCK`] bytes, rounded up to a power of two.
    #[must_use]
    pub fn with_lines(lines: usize) -> Self {
        let lines = lines.next_power_of_two();
        Self { tags: vec![None; lines], dirty: BitVec::repeat(false, lines), lines: vec![[0; BLOCK]; lines] }
    }

    /// The thread loads `actual` from `addr`: see [`check_load`].
    pub fn load(&mut self, addr: Addr, actual: &[u8], hash: &mut UserMemHash, sink: impl FnMut(usize, &[u8])) {
        check_load(&mut Backed { cache: self, hash }, addr, actual, sink);
    }

    /// The thread stores `bytes` at `addr`.
    pub fn store(&mut self, addr: Addr, bytes: &[u8], hash: &mut UserMemHash) {
        Backed { cache: self, hash }.write(addr, bytes);
    }

    /// Forgets everything, at the start of an interval.
    pub fn clear(&mut self) {
        self.tags.fill(None);
        self.dirty.fill(false);
    }

    /// The line that holds `block`, fetched if it was not there; the block that it displaces goes to `hash`.
    fn line(&mut self, block: BlockNo, hash: &mut UserMemHash) -> usize {
        let line = block.0 as usize & (self.tags.len() - 1);
        if self.tags[line] != Some(block) {
            if let Some(displaced) = self.tags[line]
                && self.dirty[line]
            {
                hash.set(displaced, self.lines[line]);
            }
            self.lines[line] = hash.get(block);
            self.tags[line] = Some(block);
            self.dirty.set(line, false);
        }
        line
    }
}

/// A thread's cache with the hash behind it: together they are a picture.
#[derive(Debug)]
pub struct Backed<'a> {
    /// The cache.
    pub cache: &'a mut UserMemCache,
    /// What it displaced.
    pub hash: &'a mut UserMemHash,
}

impl Picture for Backed<'_> {
    fn read(&mut self, addr: Addr, out: &mut [u8]) {
        for (block, within, range) in blocks(addr, out.len()) {
            let line = self.cache.line(block, self.hash);
            let len = range.len();
            out[range].copy_from_slice(&self.cache.lines[line][within..within + len]);
        }
    }

    fn write(&mut self, addr: Addr, bytes: &[u8]) {
        for (block, within, range) in blocks(addr, bytes.len()) {
            let line = self.cache.line(block, self.hash);
            self.cache.lines[line][within..within + range.len()].copy_from_slice(&bytes[range]);
            self.cache.dirty.set(line, true);
        }
    }
}

/// The blocks that `len` bytes at `addr` touch: the block, the first byte in it, and which of the bytes lie there.
fn blocks(addr: Addr, len: usize) -> impl Iterator<Item = (BlockNo, usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = offset(addr, at).0;
        let within = (start % BLOCK as u64) as usize;
        let range = at..len.min(at + BLOCK - within);
        at = range.end;
        (!range.is_empty()).then_some((BlockNo(start / BLOCK as u64), within, range))
    })
}
