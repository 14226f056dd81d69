//! What a program wrote, and what of it is wrong.

use crate::slice::{Asked, Question, ask};
use bugnet_format::record::OutputStream;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::{Log, Selection};
use bugnet_replay::memory::Memory;
use bugnet_replay::output::write_output;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use std::num::NonZeroUsize;
use std::ops::Range;

/// Calls of which the right output is looked at, and lines of each that are remembered.
const CALLS: usize = 3;
/// Right lines that are asked about, each by itself.
const ASKED: usize = 5;
const LINES: usize = 200;
/// Bytes that are shown around a wrong one.
const AROUND: usize = 24;

/// What the user says of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// What standard output should be.
    Expected(Vec<u8>),
    /// The number of a byte that is wrong, from 0, among those of standard output and error together.
    Wrong(u64),
    /// A text in the output of which the first byte is wrong, where it stands first.
    Text(String),
}

/// How standard output differs from what it should be.
pub enum Differs {
    /// It does not.
    Not,
    /// A byte does, the first one: its number among all bytes, and its line as it is and as it should be.
    At { byte: u64, is: String, right: String },
    /// It lacks what comes next.
    Ends { bytes: u64, missing: String },
}

/// What the process wrote by one system call.
struct Piece {
    /// Its first byte's number among all bytes.
    start: u64,
    stream: OutputStream,
    bytes: Vec<u8>,
}

/// What a process wrote to its standard output and error.
pub struct Output {
    pieces: Vec<Piece>,
    /// The number, among all bytes, of each piece of a line of standard output that is right, piece by piece.
    right: Vec<Vec<Range<u64>>>,
    wrong: Option<u64>,
    /// What standard output should be, if that is known.
    expected: Option<Vec<u8>>,
}

impl Output {
    /// Of a process.
    ///
    /// # Errors
    /// The log cannot be replayed, or the output cannot be had as a whole.
    pub fn of(tools: &Tools, log: &Log, pid: ProcessId, jobs: NonZeroUsize) -> Result<Self> {
        let selection = Selection { processes: Some(vec![pid]), ..Selection::default() };
        let (mut pieces, mut start) = (Vec::new(), 0);
        let report = write_output(tools, log, &selection, jobs, |piece| {
            pieces.push(Piece { start, stream: piece.stream, bytes: piece.bytes.clone() });
            start += piece.bytes.len() as u64;
            Ok(())
        })?;
        if let Some(failed) = report.failures.first() {
            return Err(ReplayError::OutOfRange(format!("what the process wrote is not all known: {}", failed.id)));
        }
        Ok(Self { pieces, right: Vec::new(), wrong: None, expected: None })
    }

    /// All of standard output.
    pub fn stdout(&self) -> Vec<u8> {
        let pieces = self.pieces.iter().filter(|piece| piece.stream == OutputStream::Stdout);
        pieces.flat_map(|piece| piece.bytes.iter().copied()).collect()
    }

    /// What standard output should be, if that is known.
    pub fn expected(&self) -> Option<&[u8]> {
        self.expected.as_deref()
    }

    /// How standard output differs from what it should be; and notes which of its lines are right: those that are the same lines of both.
    pub fn differs(&self, right: &[u8]) -> Differs {
        let is = self.stdout();
        let at = is.iter().zip(right).position(|(is, right)| is != right);
        match at.or((is.len() > right.len()).then_some(right.len())) {
            Some(at) => Differs::At { byte: self.number(at), is: line_at(&is, at), right: line_at(right, at) },
            None if is.len() < right.len() => {
                Differs::Ends { bytes: is.len() as u64, missing: line_at(right, is.len()) }
            }
            None => Differs::Not,
        }
    }

    /// Notes which lines of standard output are right, and which byte is wrong.
    #[must_use]
    pub fn judged(mut self, right: &[u8], wrong: u64) -> Self {
        self.wrong = Some(wrong);
        self.expected = Some(right.to_vec());
        let is = self.stdout();
        let (mut at, mut lines) = (0, Vec::new());
        for (is, right) in is.split_inclusive(|byte| *byte == b'\n').zip(right.split_inclusive(|byte| *byte == b'\n')) {
            let text = is.strip_suffix(b"\n").unwrap_or(is);
            if is == right && !text.is_empty() {
                lines.push(at..at + text.len());
            }
            at += is.len();
        }
        self.right = self.by_piece(&lines);
        self
    }

    /// Of lines of standard output, those that one call wrote, call by call, by their bytes' numbers.
    fn by_piece(&self, lines: &[Range<usize>]) -> Vec<Vec<Range<u64>>> {
        let (mut all, mut before) = (Vec::new(), 0);
        for piece in self.pieces.iter().filter(|piece| piece.stream == OutputStream::Stdout) {
            let whole = before..before + piece.bytes.len();
            let within = lines.iter().filter(|line| whole.start <= line.start && line.end <= whole.end);
            let number = |at: usize| piece.start + (at - whole.start) as u64;
            let found: Vec<_> = within.take(LINES).map(|line| number(line.start)..number(line.end)).collect();
            before = whole.end;
            all.extend((!found.is_empty()).then_some(found));
        }
        all
    }

    /// The number, among all bytes, of a byte of standard output.
    fn number(&self, at: usize) -> u64 {
        let mut before = 0;
        for piece in self.pieces.iter().filter(|piece| piece.stream == OutputStream::Stdout) {
            if at < before + piece.bytes.len() {
                return piece.start + (at - before) as u64;
            }
            before += piece.bytes.len();
        }
        at as u64
    }

    /// The byte that the user means.
    ///
    /// # Errors
    /// There is no such byte.
    pub fn told(&self, told: &Told) -> Result<u64> {
        let all: Vec<u8> = self.pieces.iter().flat_map(|piece| piece.bytes.iter().copied()).collect();
        let found = |text: &str| all.windows(text.len()).position(|window| window == text.as_bytes());
        match told {
            Told::Wrong(byte) if *byte < all.len() as u64 => Ok(*byte),
            // A number that is no byte's is one that the program has printed.
            Told::Wrong(number) => found(&number.to_string()).map(|at| at as u64).ok_or_else(|| {
                ReplayError::OutOfRange(format!(
                    "the process wrote {} bytes to its standard output and error: there is no byte {number}, and no text {number} among them",
                    all.len()
                ))
            }),
            Told::Expected(_) => Err(ReplayError::OutOfRange("what is expected names no byte".to_owned())),
            Told::Text(text) if text.is_empty() => Err(ReplayError::OutOfRange("a text that is wrong has at least a letter".to_owned())),
            Told::Text(text) => found(text)
                .map(|at| at as u64)
                .ok_or_else(|| ReplayError::OutOfRange(format!("the output does not contain {text:?}"))),
        }
    }

    /// A byte with what stands around it, in words.
    pub fn shown(&self, byte: u64) -> String {
        let all: Vec<u8> = self.pieces.iter().flat_map(|piece| piece.bytes.iter().copied()).collect();
        format!("{:?} is said to be wrong", line_at(&all, byte as usize))
    }

    /// Right output to ask about: the lines next to the wrong byte, of the calls next to the one that wrote it.
    ///
    /// # Errors
    /// The log cannot be replayed.
    pub fn right(
        &self,
        (tools, log): (&Tools, &Log),
        cursor: &mut Cursor<'_>,
        symbols: &mut Symbolizer,
    ) -> Result<Vec<Asked>> {
        let mut calls: Vec<&Vec<Range<u64>>> = self.right.iter().collect();
        calls.sort_by_key(|lines| lines[0].start.abs_diff(self.wrong.unwrap_or(0)));
        let mut all = Vec::new();
        for lines in calls.into_iter().take(CALLS) {
            let first = lines[0].start;
            cursor.seek(Seek::End)?;
            // Output that is not in memory as it was written says nothing.
            let Ok(asked) = ask((tools, log), cursor, symbols, &Question::Output(first)) else { continue };
            let Some(&(addr, _)) = asked.criterion.memory.first() else { continue };
            cursor.seek(Seek::Place(asked.criterion.place))?;
            let mut nearest: Vec<&Range<u64>> = lines.iter().collect();
            nearest.sort_by_key(|line| line.start.abs_diff(self.wrong.unwrap_or(0)));
            for line in nearest {
                let at = addr + (line.start - first);
                let bytes = cursor.read_memory(Addr(at), line.end - line.start)?;
                if self.bytes(line) == Some(&*bytes) && all.len() < ASKED {
                    let mut one = asked.clone();
                    one.criterion.memory = vec![(at, line.end - line.start)];
                    all.push(one);
                }
            }
        }
        Ok(all)
    }

    fn bytes(&self, range: &Range<u64>) -> Option<&[u8]> {
        let piece = self.pieces.iter().rfind(|piece| piece.start <= range.start)?;
        piece.bytes.get((range.start - piece.start) as usize..(range.end - piece.start) as usize)
    }
}

/// The line in which a byte is, at most so much of it around the byte.
fn line_at(all: &[u8], at: usize) -> String {
    let at = at.min(all.len());
    let start = all[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |line| line + 1);
    let end = all[at..].iter().position(|byte| *byte == b'\n').map_or(all.len(), |line| at + line);
    let (start, end) = (start.max(at.saturating_sub(AROUND)), end.min(at + AROUND));
    String::from_utf8_lossy(&all[start..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Differs, Output, Piece};
    use bugnet_format::record::OutputStream::{Stderr, Stdout};

    fn output(pieces: &[(bugnet_format::record::OutputStream, &str)]) -> Output {
        let mut start = 0;
        let of = |(stream, text): &(_, &str)| {
            let piece = Piece { start, stream: *stream, bytes: text.as_bytes().to_vec() };
            start += text.len() as u64;
            piece
        };
        Output { pieces: pieces.iter().map(of).collect(), right: Vec::new(), wrong: None, expected: None }
    }

    #[test]
    fn the_first_wrong_byte() {
        let found = output(&[(Stdout, "one\n"), (Stderr, "!\n"), (Stdout, "two 3\nfour\n")]);
        let Differs::At { byte, is, right } = found.differs(b"one\ntwo 2\nfour\n") else { panic!("they differ") };
        assert_eq!((byte, &*is, &*right), (10, "two 3", "two 2"));
        assert!(matches!(found.differs(b"one\ntwo 3\nfour\n"), Differs::Not));
        assert!(matches!(found.differs(b"one\ntwo 3\nfour\nfive\n"), Differs::Ends { bytes: 15, .. }));
        assert!(matches!(found.differs(b"one\n"), Differs::At { byte: 6, .. }));
        assert_eq!(found.told(&super::Told::Wrong(10)).unwrap(), 10);
        assert_eq!(found.told(&super::Told::Text("two".to_owned())).unwrap(), 6);
        let many = output(&[(Stdout, "in all 4711 days")]);
        assert_eq!(many.told(&super::Told::Wrong(4711)).unwrap(), 7);
        assert!(many.told(&super::Told::Wrong(4712)).is_err());
        let judged = found.judged(b"one\ntwo 2\nfour\n", 10);
        assert_eq!(judged.right.concat(), [0..3, 12..16]);
    }
}
