//! Which lines of memory, or bytes, were accessed: a bit for each, in pieces that are found without a search where accesses stay near each other.

use hashbrown::HashMap;

/// Lines of a piece, as a power of two.
const PIECE: u32 = 12;
/// Pieces that are remembered.
const REMEMBERED: usize = 64;

/// In place of a piece: there is none.
const NONE: u32 = u32::MAX;

type Bits = [u64; 1 << (PIECE - 6)];

/// Lines of 2 to the power of `LINE` bytes.
#[derive(Clone)]
pub struct Touched<const LINE: u32> {
    pieces: Vec<Bits>,
    /// By number, where it is in `pieces`.
    found: HashMap<u64, u32>,
    /// The pieces that were used last, by the lowest bits of their numbers.
    last: Box<[(u64, u32); REMEMBERED]>,
}

impl<const LINE: u32> Default for Touched<LINE> {
    fn default() -> Self {
        Self { pieces: Vec::new(), found: HashMap::new(), last: Box::new([(u64::MAX, 0); REMEMBERED]) }
    }
}

impl<const LINE: u32> Touched<LINE> {
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
        let at = if remembered.0 == number && remembered.1 != NONE { remembered.1 } else { self.find(number) };
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().flatten().all(|bits| *bits == 0)
    }

    /// Whether any of these bytes lie in one of the lines.
    #[inline]
    pub fn has(&mut self, addr: u64, len: u64) -> bool {
        if len == 0 {
            return false;
        }
        let (first, last) = (addr >> LINE, addr.saturating_add(len - 1) >> LINE);
        self.get(first) || first != last && (first + 1..=last).any(|line| self.get(line))
    }

    #[inline]
    fn get(&mut self, line: u64) -> bool {
        let number = line >> PIECE;
        let mut remembered = self.last[number as usize % REMEMBERED];
        if remembered.0 != number {
            remembered = (number, self.found.get(&number).copied().unwrap_or(NONE));
            self.last[number as usize % REMEMBERED] = remembered;
        }
        let bit = line & ((1 << PIECE) - 1);
        remembered.1 != NONE && self.pieces[remembered.1 as usize][(bit / 64) as usize] >> (bit % 64) & 1 != 0
    }

    /// Adds those of another set.
    pub fn add(&mut self, other: &Self) {
        for (number, at) in &other.found {
            let own = self.find(*number) as usize;
            for (word, more) in self.pieces[own].iter_mut().zip(&other.pieces[*at as usize]) {
                *word |= more;
            }
        }
    }

    /// Those that two sets have in common.
    pub fn common(&self, other: &Self) -> Self {
        let mut all = Self::default();
        for (number, at) in &other.found {
            let Some(own) = self.found.get(number) else { continue };
            let to = all.find(*number) as usize;
            let both = self.pieces[*own as usize].iter().zip(&other.pieces[*at as usize]);
            for (word, (one, other)) in all.pieces[to].iter_mut().zip(both) {
                *word = one & other;
            }
        }
        all
    }

    /// Those that are not in another set.
    pub fn without(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (number, at) in &other.found {
            let Some(own) = all.found.get(number) else { continue };
            let both = all.pieces[*own as usize].iter_mut().zip(&other.pieces[*at as usize]);
            both.for_each(|(word, other)| *word &= !other);
        }
        all
    }

    /// The lines, 64 to a number: the number of the first one of them divided by 64, and a bit for each. In no order, without those that are all zero.
    pub fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.found.iter().flat_map(|(number, at)| {
            let words = self.pieces[*at as usize].iter().zip(number << (PIECE - 6)..);
            words.filter(|(bits, _)| **bits != 0).map(|(bits, word)| (word, *bits))
        })
    }

    /// Adds lines, 64 to a number, as [`Self::words`] has them.
    pub fn add_word(&mut self, word: u64, bits: u64) {
        let at = self.find(word >> (PIECE - 6));
        self.pieces[at as usize][word as usize % (1 << (PIECE - 6))] |= bits;
    }

    /// Lines that have some of these, which are no longer than they.
    pub fn coarse<const COARSE: u32>(&self) -> Touched<COARSE> {
        let mut all = Touched::default();
        for (word, bits) in self.words() {
            for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
                all.touch((word << 6 | bit) << LINE, 1);
            }
        }
        all
    }

    /// Ranges of memory that are all of the lines: first bytes, and how many, in ascending order; they do not touch.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let mut numbers: Vec<(u64, u32)> = self.found.iter().map(|(number, at)| (*number, *at)).collect();
        numbers.sort_unstable();
        let mut all: Vec<(u64, u64)> = Vec::new();
        for (number, at) in numbers {
            let bits = &self.pieces[at as usize];
            for line in (0..1 << PIECE).filter(|line: &u64| bits[(line / 64) as usize] >> (line % 64) & 1 != 0) {
                let start = (number << PIECE | line) << LINE;
                match all.last_mut().filter(|(before, len)| before + len == start) {
                    Some((_, len)) => *len += 1 << LINE,
                    None => all.push((start, 1 << LINE)),
                }
            }
        }
        all
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        size_of::<[(u64, u32); REMEMBERED]>() + self.pieces.len() * (size_of::<Bits>() + size_of::<(u64, u32)>())
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
        let mut lines = Touched::<6>::default();
        for (addr, len) in
            [(0, 1), (63, 1), (63, 2), (1 << 40, 0), (1 << 40, 1), ((1 << 40) + (1 << 24), 64), (1 << 40, 8)]
        {
            lines.touch(addr, len);
        }
        assert_eq!(lines.count(), 4);
        let far = (1_u64 << 40) + (1 << 24);
        assert_eq!(lines.ranges(), [(0, 128), (1 << 40, 64), (far, 64)]);
        lines.touch(1 << 30, 1 << 20);
        assert_eq!(lines.count(), 4 + (1 << 14));
        assert_eq!(lines.ranges()[1], (1 << 30, 1 << 20));
        lines.touch(u64::MAX - 1, 9);
        assert_eq!(lines.count(), 5 + (1 << 14));
    }

    #[test]
    fn each_byte_counts_once() {
        let mut bytes = Touched::<0>::default();
        [(7, 8), (14, 2), (1 << 30, 100), ((1 << 30) + 50, 100)]
            .iter()
            .for_each(|(addr, len)| bytes.touch(*addr, *len));
        assert_eq!(bytes.count(), 9 + 150);
    }

    #[test]
    fn sets_of_lines() {
        let (mut one, mut other) = (Touched::<6>::default(), Touched::<6>::default());
        assert!(!one.has(64, 8));
        one.touch(64, 1);
        one.touch(1 << 40, 1);
        other.touch(127, 2);
        assert!(one.has(127, 1) && one.has(0, 65) && !one.has(0, 64) && !one.has(64, 0) && !one.has(128, 8));
        assert!(other.has(128, 1) && !other.has(1 << 40, 1));
        let mut both = one.common(&other);
        assert!(both.has(64, 1) && both.count() == 1);
        let mut left = other.without(&one);
        assert!(left.has(128, 1) && left.count() == 1);
        other.add(&one);
        assert!(other.has(1 << 40, 1) && other.count() == 3);
        let mut again = Touched::<6>::default();
        other.words().for_each(|(word, bits)| again.add_word(word, bits));
        assert_eq!(again.ranges(), other.ranges());
        assert_eq!(other.coarse::<12>().ranges(), [(0, 4096), (1 << 40, 4096)]);
    }
}
