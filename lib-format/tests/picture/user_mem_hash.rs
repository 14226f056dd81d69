//! UserMemHash, the reference model's: what is known of memory beyond the [UserMemCache](super::user_mem_cache::UserMemCache), by blocks.

use hashbrown::HashMap;

/// Bytes of a block: a cache line, the unit in which memory moves between UserMemCache and UserMemHash.
pub const BLOCK: usize = 64;

/// A block's address divided by [`BLOCK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNo(pub u64);

/// The bytes of a block, lowest address first.
pub type Block = [u8; BLOCK];

/// Blocks of memory by number. A block that is absent is zero, as is all memory where a replay begins; hence a block
/// that becomes zero is dropped.
///
/// Unlike the paper's, it is never cleared in the middle of an interval: absent would no longer mean zero, and replay
/// would go wrong. A logger that finds it too [large](Self::len) begins a new interval.
#[derive(Clone, Debug, Default)]
pub struct UserMemHash {
    blocks: HashMap<BlockNo, Block>,
}

impl UserMemHash {
    /// Nothing known: all memory is zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes of a block.
    #[must_use]
    pub fn get(&self, block: BlockNo) -> Block {
        self.blocks.get(&block).copied().unwrap_or([0; BLOCK])
    }

    /// Sets the bytes of a block.
    pub fn set(&mut self, block: BlockNo, bytes: Block) {
        if bytes == [0; BLOCK] {
            self.blocks.remove(&block);
        } else {
            self.blocks.insert(block, bytes);
        }
    }

    /// How many blocks it holds, of [`BLOCK`] bytes each.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether all memory is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Forgets everything, at the start of an interval. The room stays for the next one.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }
}
