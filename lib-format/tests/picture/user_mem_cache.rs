//! UserMemCache, the way to keep a picture that the paper proposes: the reference model.

use super::user_mem_hash::{BLOCK, Block, BlockNo, UserMemHash};
use bitvec::vec::BitVec;
use bugnet_format::picture::{Picture, check_load};
use bugnet_format::types::Addr;

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
