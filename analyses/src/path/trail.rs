//! A path, compressed: a billion instructions make some hundred million steps, of which most repeat.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Elements that are compressed together.
const PIECE: usize = 1 << 15;
/// How fast to compress.
const LEVEL: i32 = 1;
/// Frames of one stack are nearer to each other than this, and those of others are not.
const FAR: u64 = 1 << 20;

/// Elements that are no steps.
const ENTER: u32 = u32::MAX;
const LEAVE: u32 = u32::MAX - 1;

/// What happens on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A stretch of code begins that is executed from its first instruction on, up to a jump, call or return.
    Step {
        /// Which one: numbers belong to the part that the element is in.
        code: u32,
        /// Instructions of the thread before it, in the interval.
        count: u64,
        /// Whether the program's own code led here, nothing in between.
        is_direct: bool,
    },
    /// The program's own code was called; the return address lies here.
    Enter(u64),
    /// A function returned, by the return address that lies here.
    Leave(u64),
}

/// Some elements of a path that follow each other.
#[derive(Debug)]
struct Piece {
    /// What each is, and what goes with it.
    packed: Vec<u8>,
    elements: usize,
    steps: u64,
    /// The count from which the first step's is told.
    from: u64,
}

/// Elements as they come, in pieces.
#[derive(Debug, Default)]
pub struct Pieces {
    done: Vec<Piece>,
    kinds: Vec<u32>,
    numbers: Vec<u64>,
    steps: u64,
    from: u64,
    last: u64,
}

impl Pieces {
    /// One more.
    pub fn push(&mut self, element: Element) {
        match element {
            Element::Step { code, count, is_direct } => {
                if self.steps == 0 {
                    (self.from, self.last) = (count, count);
                }
                self.add(code, (count - self.last) << 1 | u64::from(is_direct));
                self.last = count;
                self.steps += 1;
            }
            Element::Enter(slot) => self.add(ENTER, slot),
            Element::Leave(slot) => self.add(LEAVE, slot),
        }
        if self.kinds.len() == PIECE {
            self.finish();
        }
    }

    fn add(&mut self, kind: u32, number: u64) {
        self.kinds.push(kind);
        self.numbers.push(number);
    }

    /// No more come for now.
    pub fn finish(&mut self) {
        if self.kinds.is_empty() {
            return;
        }
        let mut bytes = Vec::with_capacity(self.kinds.len() * 12);
        self.kinds.iter().for_each(|kind| bytes.extend(kind.to_le_bytes()));
        self.numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        // Memory cannot refuse what is written into it.
        let packed =
            zstd::bulk::compress(&bytes, LEVEL).ok().filter(|packed| packed.len() < bytes.len()).unwrap_or(bytes);
        self.done.push(Piece { packed, elements: self.kinds.len(), steps: self.steps, from: self.from });
        self.kinds.clear();
        self.numbers.clear();
        self.steps = 0;
    }
}

impl Piece {
    /// What is not compressed is longer than any that is.
    fn open(&self) -> io::Result<(Vec<u32>, Vec<u64>)> {
        let len = self.elements * 12;
        let bytes =
            if self.packed.len() == len { self.packed.clone() } else { zstd::bulk::decompress(&self.packed, len)? };
        let (kinds, numbers) = bytes.split_at(self.elements * 4);
        let kind = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Ok((kinds.chunks_exact(4).map(kind).collect(), numbers.chunks_exact(8).map(number).collect()))
    }
}

/// The pieces of a part of the path, with what its numbers of code are in the whole.
#[derive(Debug)]
struct Part {
    pieces: Vec<Piece>,
    codes: Arc<Vec<u32>>,
    /// Instructions of the thread before the part.
    before: u64,
}

/// The path of a thread.
#[derive(Debug, Default)]
pub struct Trail {
    parts: Vec<Part>,
    steps: u64,
}

impl Trail {
    /// Goes on with these elements; `codes` says what their numbers of code are in the whole.
    pub fn extend(&mut self, mut pieces: Pieces, codes: Arc<Vec<u32>>, before: u64) {
        pieces.finish();
        self.steps += pieces.done.iter().map(|piece| piece.steps).sum::<u64>();
        self.parts.push(Part { pieces: pieces.done, codes, before });
    }

    /// How many steps it has.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().flat_map(|part| &part.pieces).map(|piece| piece.packed.len()).sum()
    }

    /// From its start on.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        Walk { trail: self, part: 0, piece: 0, at: 0, open: None, frames: Vec::new(), index: 0, count: 0 }
    }
}

/// A stretch of the program's own code that a thread executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many came before it.
    pub index: u64,
    /// Which code.
    pub code: u32,
    /// Instructions of the thread before it.
    pub count: u64,
    /// Calls of the program's own functions in which it is.
    pub depth: u32,
    /// Whether the program's own code led here, nothing in between.
    pub is_direct: bool,
}

/// A walk along a path. Copies go on from where they are.
#[derive(Clone)]
pub struct Walk<'a> {
    trail: &'a Trail,
    part: usize,
    piece: usize,
    at: usize,
    open: Option<Arc<(Vec<u32>, Vec<u64>)>>,
    /// Where the return addresses of the functions lie in which it is.
    frames: Vec<u64>,
    index: u64,
    count: u64,
}

impl Walk<'_> {
    fn forget(&mut self, slot: u64) {
        // What lies below is gone, by return or by `longjmp`; what lies far away is another stack.
        while self.frames.last().is_some_and(|top| *top <= slot && slot - top < FAR) {
            self.frames.pop();
        }
    }

    /// The next element as it stands there.
    fn element(&mut self) -> Option<(u32, u64, &Part)> {
        loop {
            let part = self.trail.parts.get(self.part)?;
            let Some(piece) = part.pieces.get(self.piece) else {
                (self.part, self.piece) = (self.part + 1, 0);
                continue;
            };
            if self.open.is_none() {
                // Made by this process a moment ago: it is what it was.
                self.open = Some(Arc::new(piece.open().ok()?));
                (self.at, self.count) = (0, piece.from);
            }
            let opened = self.open.as_ref()?;
            let Some(kind) = opened.0.get(self.at) else {
                (self.piece, self.open) = (self.piece + 1, None);
                continue;
            };
            let number = opened.1[self.at];
            self.at += 1;
            return Some((*kind, number, part));
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            let (kind, number, part) = self.element()?;
            let (codes, before) = (part.codes.clone(), part.before);
            match kind {
                ENTER => {
                    self.forget(number);
                    self.frames.push(number);
                }
                LEAVE => self.forget(number),
                kind => {
                    self.count += number >> 1;
                    let index = self.index;
                    self.index += 1;
                    return Some(Step {
                        index,
                        code: codes[kind as usize],
                        count: before + self.count,
                        depth: self.frames.len() as u32,
                        is_direct: number & 1 == 1,
                    });
                }
            }
        }
    }
}

/// Numbers for things, each thing one.
#[derive(Clone, Debug)]
pub struct Numbers<T>(HashMap<T, u32>, Vec<T>);

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self(HashMap::new(), Vec::new())
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbers<T> {
    /// The number of a thing, a new one if it has none.
    pub fn of(&mut self, thing: &T) -> u32 {
        if let Some(number) = self.0.get(thing) {
            return *number;
        }
        let number = self.1.len() as u32;
        self.0.insert(thing.clone(), number);
        self.1.push(thing.clone());
        number
    }

    /// The things, by their numbers.
    #[must_use]
    pub fn all(&self) -> &[T] {
        &self.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(elements: &[Element]) -> Trail {
        let mut pieces = Pieces::default();
        elements.iter().for_each(|element| pieces.push(*element));
        let mut trail = Trail::default();
        trail.extend(pieces, Arc::new((0..100).map(|code| code + 1000).collect()), 5);
        trail
    }

    #[test]
    fn steps_come_as_they_went_with_their_depth() {
        let step = |code, count| Element::Step { code, count, is_direct: code % 2 == 1 };
        let trail = trail(&[
            step(1, 0),
            Element::Enter(0x7000),
            step(2, 3),
            Element::Enter(0x6f00),
            step(3, 10),
            // A library's return address, which nobody entered, lies lower.
            Element::Leave(0x6e00),
            step(4, 11),
            // Out of two functions at once.
            Element::Leave(0x7000),
            step(1, 20),
        ]);
        let steps: Vec<Step> = trail.walk().collect();
        let found: Vec<_> = steps.iter().map(|s| (s.index, s.code, s.count, s.depth, s.is_direct)).collect();
        let expected = [
            (0, 1001, 5, 0, true),
            (1, 1002, 8, 1, false),
            (2, 1003, 15, 2, true),
            (3, 1004, 16, 2, false),
            (4, 1001, 25, 0, true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn long_ones_are_small_and_can_be_walked_from_anywhere() {
        let elements: Vec<_> =
            (0..200_000).map(|n| Element::Step { code: n % 7, count: u64::from(n) * 5, is_direct: true }).collect();
        let trail = trail(&elements);
        assert_eq!(trail.steps(), 200_000);
        assert!(trail.bytes() < 100_000, "{}", trail.bytes());
        let mut walk = trail.walk();
        for n in 0..200_000_u64 {
            if n == 123_456 {
                let copy = walk.clone();
                assert!(copy.zip(n..).all(|(step, n)| step.count == n * 5 + 5 && step.index == n));
            }
            assert_eq!(walk.next().map(|step| (step.code, step.count)), Some(((n % 7) as u32 + 1000, n * 5 + 5)));
        }
        assert_eq!(walk.next(), None);
    }

    #[test]
    fn short_ones_are_what_they_were() {
        let step = |count: u64| Element::Step { code: 3, count, is_direct: true };
        for len in 1..60 {
            let trail = trail(&(0..len).map(|n| step(n * n * 977)).collect::<Vec<_>>());
            assert!(
                trail.walk().map(|step| (step.code, step.count)).eq((0..len).map(|n| (1003, 5 + n * n * 977))),
                "{len}"
            );
        }
    }

    #[test]
    fn a_handler_on_another_stack_leaves_frames_alone() {
        let step = Element::Step { code: 0, count: 1, is_direct: false };
        let other = 0x7000_0000;
        let trail = trail(&[Element::Enter(0x7000), step, Element::Enter(other), step, Element::Leave(other), step]);
        let depths: Vec<_> = trail.walk().map(|step| step.depth).collect();
        assert_eq!(depths, [1, 2, 1]);
    }
}
