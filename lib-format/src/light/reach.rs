//! Which memory tells a moment from others: lines that can be reached from registers, the stack and the program's data. Both who captures and who expands
//! find them in this way; nothing here needs a standard library.

use super::layout::hash;

/// Bytes of a line.
pub const LINE: usize = 64;
/// Most lines.
pub const MOST: usize = 4096;
/// Bytes of the stack that belong to a moment.
const STACK: u64 = 2048;
/// What lies below the stack pointer is nobody's, and may be anything.
const DEAD: u64 = 1 << 20;
/// Most lines of the program's data.
const DATA: usize = 1024;
/// Places in the table of lines that are known.
const PLACES: usize = 2 * MOST;

/// The lines of a moment, in the order in which they are found.
pub struct Reach {
    /// Their addresses.
    pub lines: [u64; MOST],
    /// How many there are.
    pub count: usize,
    known: [u64; PLACES],
}

impl Reach {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { lines: [0; MOST], count: 0, known: [0; PLACES] }
    }

    /// Adds the line of an address, if it may be one.
    fn add(&mut self, address: u64, stack: u64) {
        let line = address & !(LINE as u64 - 1);
        let dead = line < stack & !(LINE as u64 - 1) && line >= stack.saturating_sub(DEAD);
        if !(0x1_0000..1 << 47).contains(&line) || dead || self.count == MOST {
            return;
        }
        let mut at = hash(0, &line.to_le_bytes()) as usize % PLACES;
        while self.known[at] != 0 {
            if self.known[at] == line {
                return;
            }
            at = (at + 1) % PLACES;
        }
        self.known[at] = line;
        self.lines[self.count] = line;
        self.count += 1;
    }

    /// Finds the lines of a thread with these registers, whose program has its data there. `read`: the bytes of a line, if there is memory.
    /// Lines without memory are not among those that are found.
    pub fn find(
        &mut self,
        registers: &[u64],
        stack: u64,
        data: (u64, u64),
        mut read: impl FnMut(u64) -> Option<[u8; LINE]>,
    ) {
        self.count = 0;
        self.known.fill(0);
        registers.iter().for_each(|value| self.add(*value, stack));
        (0..STACK / LINE as u64).for_each(|i| self.add(stack + i * LINE as u64, stack));
        let lines = (data.1.saturating_sub(data.0) / LINE as u64).min(DATA as u64);
        (0..lines).for_each(|i| self.add(data.0 + i * LINE as u64, stack));
        let (mut at, mut kept) = (0, 0);
        while at < self.count {
            let line = self.lines[at];
            at += 1;
            let Some(bytes) = read(line) else { continue };
            self.lines[kept] = line;
            kept += 1;
            let (words, _) = bytes.as_chunks::<8>();
            // What is found while `at` is ahead of `kept` is put behind it.
            words.iter().for_each(|word| self.add(u64::from_le_bytes(*word), stack));
        }
        self.count = kept;
    }
}

impl Default for Reach {
    fn default() -> Self {
        Self::new()
    }
}

/// What a line of a moment has, in short.
#[must_use]
pub fn digest(bytes: &[u8; LINE]) -> u32 {
    (hash(1, bytes) >> 32) as u32
}
