//! `--chaos`: how each run is perturbed.

use std::hash::{BuildHasher, RandomState};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// Any.
    Random,
    /// This one.
    Given(u64),
}

impl Seed {
    /// Parses `--chaos`.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "random" {
            return Ok(Self::Random);
        }
        text.parse().map(Self::Given).map_err(|_| "a seed is a number, as bugnet info shows it".into())
    }

    /// The seed of the first run; that of each later one is the next number.
    pub fn first(self) -> u64 {
        match self {
            // Numbers of up to 10 digits, for people to type.
            Self::Random => RandomState::new().hash_one(std::process::id()) & 0xffff_ffff,
            Self::Given(seed) => seed,
        }
    }
}

/// `-max_bb_instrs` where nothing is perturbed. DynamoRIO ends a block of code once it has more instructions than that.
pub const WHOLE_BLOCKS: u64 = 100;

/// The same with this seed. Threads take memory from each other between blocks only, so that what a block does is rarely interrupted; with
/// blocks of one instruction, a thread may lose memory between any two. These take longer, so that whole ones come further in the same
/// time.
pub fn longest_block(seed: u64) -> u64 {
    [0, 2, 0, WHOLE_BLOCKS][(seed % 4) as usize]
}
