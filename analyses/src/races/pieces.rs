//! Pieces of an interval, between which something ends or begins that orders threads: what is accessed in one of them is looked at as one.

use bugnet_format::frame::Interval;
use bugnet_format::record::{Record, SignalStep};
use std::collections::BTreeMap;

/// The system call with which threads wait for a word of memory to change, and wake each other.
pub const FUTEX: u64 = 202;
/// Those that make threads.
pub const CLONE: u64 = 56;
pub const CLONE3: u64 = 435;

/// Whose a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    /// The thread's own.
    Thread,
    /// A handler's that has interrupted it.
    Handler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// The position of its first instruction.
    start: u64,
    /// `None`: what is executed there comes before the making of the second thread.
    whose: Option<Whose>,
}

/// The pieces of an interval, in their order. There is one at least, and together they are the whole.
#[derive(Debug)]
pub struct Pieces {
    pieces: Vec<Piece>,
    handlers: usize,
}

impl Pieces {
    /// Of an interval, of which what comes before `alone_until` comes before the making of the second thread; and the words of memory with which
    /// the kernel was called for threads to wait or to wake. Pieces end with no more than `most` such calls and makings of threads; of more, with
    /// those that come least often: the calls for locks are many, and order nothing that the program wants to be in an order.
    pub fn of(interval: &Interval, alone_until: u64, most: usize) -> (Self, Vec<u64>) {
        let mut handlers: Vec<(u64, bool)> = Vec::new();
        let mut ends: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for placed in interval.records().flatten() {
            let at = placed.position.0;
            match placed.record {
                Record::Signal { step: SignalStep::Resume, .. } => {}
                Record::Signal { step, .. } => {
                    let begins = step == SignalStep::Delivery;
                    handlers.push((at + u64::from(!begins), begins));
                }
                Record::Syscall { number: FUTEX, args, .. } => ends.entry(args[0]).or_default().push(at + 1),
                Record::Syscall { number: CLONE | CLONE3, .. } => ends.entry(0).or_default().push(at + 1),
                _ => {}
            }
        }
        let words = ends.keys().copied().filter(|word| *word != 0).collect();
        let mut by_count: Vec<Vec<u64>> = ends.into_values().collect();
        by_count.sort_by_key(Vec::len);
        let ends = by_count.into_iter().flatten().take(most);
        (Self::new(ends, &handlers, alone_until), words)
    }

    fn new(ends: impl Iterator<Item = u64>, handlers: &[(u64, bool)], alone_until: u64) -> Self {
        let mut starts: Vec<u64> = handlers.iter().map(|(at, _)| *at).chain([0]).chain(ends).collect();
        starts.extend(Some(alone_until).filter(|until| *until != u64::MAX));
        starts.sort_unstable();
        starts.dedup();
        let (mut depth, mut next) = (0_u32, handlers.iter().peekable());
        let pieces = starts.into_iter().map(|start| {
            while let Some((_, begins)) = next.next_if(|(at, _)| *at <= start) {
                depth = if *begins { depth + 1 } else { depth.saturating_sub(1) };
            }
            let whose = if depth > 0 { Whose::Handler } else { Whose::Thread };
            Piece { start, whose: (start >= alone_until).then_some(whose) }
        });
        Self { pieces: pieces.collect(), handlers: handlers.len() }
    }

    /// Joins those that follow each other and are of the same; for each, the number of the one that it is part of.
    pub fn join(&mut self) -> Vec<usize> {
        let mut joined: Vec<Piece> = Vec::new();
        let number = |piece: &Piece| {
            if joined.last().is_none_or(|last| last.whose != piece.whose) {
                joined.push(*piece);
            }
            joined.len() - 1
        };
        let numbers = self.pieces.iter().map(number).collect();
        self.pieces = joined;
        numbers
    }

    /// How many handlers begin or end.
    pub fn handlers(&self) -> usize {
        self.handlers
    }

    /// The pieces, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        0..self.pieces.len()
    }

    /// The piece to which a position belongs.
    pub fn at(&self, position: u64) -> usize {
        self.pieces.partition_point(|piece| piece.start <= position) - 1
    }

    /// The same, where one knows a piece that begins before.
    #[inline]
    pub fn from(&self, piece: usize, position: u64) -> usize {
        let next = |number: usize| self.pieces.get(number + 1).is_some_and(|next| next.start <= position);
        (piece..).find(|number| !next(*number)).unwrap_or(piece)
    }

    /// The position of its first instruction.
    pub fn start(&self, piece: usize) -> u64 {
        self.pieces[piece].start
    }

    /// The position before which it ends; none if that is the interval's end.
    pub fn end(&self, piece: usize) -> Option<u64> {
        self.pieces.get(piece + 1).map(|next| next.start)
    }

    /// Whose it is; none if it comes before the making of the second thread.
    pub fn whose(&self, piece: usize) -> Option<Whose> {
        self.pieces[piece].whose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_handlers_and_calls() {
        let handlers = [(10, true), (20, true), (25, false), (30, false)];
        let pieces = Pieces::new([5, 22].into_iter(), &handlers, 5);
        let all: Vec<_> = pieces.iter().map(|piece| (pieces.start(piece), pieces.whose(piece))).collect();
        let (thread, handler) = (Some(Whose::Thread), Some(Whose::Handler));
        let expected =
            [(0, None), (5, thread), (10, handler), (20, handler), (22, handler), (25, handler), (30, thread)];
        assert_eq!(all, expected);
        assert_eq!((pieces.at(4), pieces.at(5), pieces.at(99)), (0, 1, 6));
        assert_eq!((pieces.from(0, 4), pieces.from(0, 24), pieces.from(2, 12)), (0, 4, 2));
        assert_eq!((pieces.end(0), pieces.end(6)), (Some(5), None));
    }

    #[test]
    fn pieces_of_the_same_are_joined() {
        let mut pieces = Pieces::new([5, 22, 40, 50].into_iter(), &[(10, true), (30, false)], 5);
        assert_eq!(pieces.join(), [0, 1, 2, 2, 3, 3, 3]);
        let (thread, handler) = (Some(Whose::Thread), Some(Whose::Handler));
        let all: Vec<_> = pieces.iter().map(|piece| (pieces.start(piece), pieces.whose(piece))).collect();
        assert_eq!(all, [(0, None), (5, thread), (10, handler), (30, thread)]);
    }

    #[test]
    fn what_is_alone_is_nobodys() {
        let pieces = Pieces::new(std::iter::empty(), &[], u64::MAX);
        assert_eq!((pieces.whose(0), pieces.end(0)), (None, None));
    }
}
