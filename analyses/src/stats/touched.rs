//! Which lines of memory were accessed: a bit for each, in pieces that are found without a search where accesses stay near each other.

use std::collections::HashMap;

/// Bytes of a line, as a power of two.
const LINE: u32 = 6;
/// Lines of a piece, as a power of two.
const PIECE: u32 = 12;
/// Pieces that are remembered.
const REMEMBERED: usize = 64;

type Bits = [u64; 1 << (PIECE - 6)];

/// The lines.
pub struct Lines {
    pieces: Vec<Bits>,
    /// By number, where it is in `pieces`.
    found: HashMap<u64, u32>,
    /// The pieces that were used last, by the lowest bits of their numbers.
    last: Box<[(u64, u32); REMEMBERED]>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { pieces: Vec::new(), found: HashMap::new(), last: Box::new([(u64::MAX, 0); REMEMBERED]) }
    }
}

impl Lines {
    /// These bytes were accessed.
    #[inline]
    pub fn touch(&mut self, addr: u64, len: u64) {
        if len > 0 {
            let (first, last) = (addr >> LINE, addr.saturating_add(len - 1) >> LINE);
            self.set(first);
            if first != last {
                (first + 1..=last).for_each(|line| self.set(line));
            }
        }
    }

    #[inline]
    fn set(&mut self, line: u64) {
        let number = line >> PIECE;
        let remembered = self.last[number as usize % REMEMBERED];
        let at = if remembered.0 == number { remembered.1 } else { self.find(number) };
        let bit = line & ((1 << PIECE) - 1);
        self.pieces[at as usize][(bit / 64) as usize] |= 1 << (bit % 64);
    }

    #[cold]
    fn find(&mut self, number: u64) -> u32 {
        let pieces = &mut self.pieces;
        let at = *self.found.entry(number).or_insert_with(|| {
            pieces.push([0; 1 << (PIECE - 6)]);
            (pieces.len() - 1) as u32
        });
        self.last[number as usize % REMEMBERED] = (number, at);
        at
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.pieces.iter().flatten().map(|bits| u64::from(bits.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_counts_once() {
        let mut lines = Lines::default();
        for (addr, len) in
            [(0, 1), (63, 1), (63, 2), (1 << 40, 0), (1 << 40, 1), ((1 << 40) + (1 << 24), 64), (1 << 40, 8)]
        {
            lines.touch(addr, len);
        }
        assert_eq!(lines.count(), 4);
        lines.touch(1 << 30, 1 << 20);
        assert_eq!(lines.count(), 4 + (1 << 14));
        lines.touch(u64::MAX - 1, 9);
        assert_eq!(lines.count(), 5 + (1 << 14));
    }
}
