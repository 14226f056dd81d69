//! What CPUID has answered: each asks the hypervisor, where there is one, which takes longer than all else that is done for the instruction. A program that is executed gets what its
//! process knows as an argument of this program's ([`crate::exec`]).
//!
//! Kept are leaves that are the same on all cores and at all times: not those that name the core (1, 0xb, 0x1f ...), and none of processors with cores of several kinds.

use crate::text::Text;

/// Most leaves that are kept, and how long they are as text.
const MOST: usize = 64;
const ENTRY: usize = 6 * DIGITS;
const DIGITS: usize = 8;
pub const TEXT: usize = MOST * ENTRY + 1;
/// Leaf 7, EDX: cores of several kinds.
const HYBRID: u32 = 1 << 15;

/// Leaf, subleaf, and the registers EAX to EDX.
type Entry = [u32; 6];

/// What is known.
pub struct Answers {
    entries: [Entry; MOST],
    count: usize,
}

impl Answers {
    pub const fn new() -> Self {
        Self { entries: [[0; 6]; MOST], count: 0 }
    }

    /// Takes over what [`Self::encode`] has written.
    pub fn begin(&mut self, text: &[u8]) {
        for (entry, digits) in self.entries.iter_mut().zip(text.chunks_exact(ENTRY)) {
            for (word, digits) in entry.iter_mut().zip(digits.chunks_exact(DIGITS)) {
                *word = digits.iter().fold(0, |n, digit| n << 4 | u32::from(digit & 15));
            }
            self.count += 1;
        }
    }

    /// What another program is given: 16 letters from `@` on are the digits.
    pub fn encode(&self, text: &mut Text<TEXT>) {
        for word in self.entries[..self.count].iter().flatten() {
            let digits: [u8; DIGITS] = core::array::from_fn(|i| b'@' | (word >> (28 - 4 * i) & 15) as u8);
            text.push(&digits);
        }
    }

    /// What the processor says, which `ask` asks if need be.
    pub fn of(&mut self, leaf: u32, subleaf: u32, ask: fn(u32, u32) -> [u32; 4]) -> [u32; 4] {
        let known = self.entries[..self.count].iter().find(|entry| entry[..2] == [leaf, subleaf]);
        if let Some([_, _, answer @ ..]) = known {
            return *answer;
        }
        let answer = ask(leaf, subleaf);
        // One is kept only where all cores are of one kind.
        let is_uniform = || self.count > 0 || ask(7, 0)[3] & HYBRID == 0;
        if self.count < MOST && is_constant(leaf) && is_uniform() {
            let [a, b, c, d] = answer;
            self.entries[self.count] = [leaf, subleaf, a, b, c, d];
            self.count += 1;
        }
        answer
    }
}

/// Whether a leaf is the same on all cores, where these are all of one kind.
fn is_constant(leaf: u32) -> bool {
    matches!(leaf, 0 | 2 | 4 | 7 | 0xd | 0x14..=0x16 | 0x19 | 0x8000_0000..=0x8000_0008 | 0x8000_001d)
}
