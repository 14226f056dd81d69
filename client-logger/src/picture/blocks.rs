//! Coherence blocks, by their numbers, and what a thread may do with one.

/// Bytes of a coherence block, as a power of two.
pub const BLOCK_SHIFT: u32 = 6;
/// Values of a permission byte: nothing, reading, reading and writing.
pub const INVALID: u8 = 0;
/// See [`INVALID`].
pub const SHARED: u8 = 1;
/// See [`INVALID`].
pub const MODIFIED: u8 = 3;
/// Blocks whose entries stand together: those of a page. The thread that is the first to access any of them gets them all,
/// since most pages are used by one thread only.
pub const GROUP_SHIFT: u32 = 6;
/// Blocks of a group.
pub const GROUP: u32 = 1 << GROUP_SHIFT;

// Each has a bit.
const _: () = assert!(GROUP == u64::BITS);

/// Number of the block of an address.
pub fn block_of(address: u64) -> u32 {
    (address >> BLOCK_SHIFT) as u32
}

/// Blocks of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of the group.
    pub group: u32,
    /// A bit for each block.
    pub bits: u64,
}

impl Blocks {
    /// Their numbers.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        let mut rest = self.bits;
        std::iter::from_fn(move || {
            let first = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (first < u64::BITS).then_some(self.group << GROUP_SHIFT | first)
        })
    }

    /// Those of some bits.
    pub fn only(self, bits: u64) -> Self {
        Self { bits: self.bits & bits, ..self }
    }
}
