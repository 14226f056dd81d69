//! Reading a record stream.

use super::load::decode_load;
use super::parts::text;
use super::{
    DependencyKind, EndReason, MAX_TEXT, MAX_VALUE, OutputStream, Record, RegisterUpdates, SignalStep, SpecialKind, tag,
};
use crate::regs::RegisterFile;
use crate::types::{Addr, CodeSeq, IntervalNo, Position, Tid};
use crate::wire::{Reader, WireError};

/// A record with its place: where it stands in the stream, and at which position it takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// Byte offset of the record in its interval's stream.
    pub offset: usize,
    /// Position at which it takes effect.
    pub position: Position,
    /// The record.
    pub record: Record<'a>,
}

/// A broken rule in a record stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError {
    /// Byte offset of the record in its interval's stream.
    pub offset: usize,
    /// The rule.
    pub reason: &'static str,
}

/// Reads the records of a stream, in order, up to its end, to the first record that breaks a rule, or to a zero byte.
///
/// Works on hostile bytes: no panic, no allocation beyond the stream's own size.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    reader: Reader<'a>,
    position: Position,
    ended: bool,
}

impl<'a> Records<'a> {
    /// Reads from the start of an interval's stream.
    #[must_use]
    pub fn new(stream: &'a [u8]) -> Self {
        Self::resume(stream, 0, Position(0))
    }

    /// Reads on from `offset`, where the record before was at `position`.
    #[must_use]
    pub fn resume(stream: &'a [u8], offset: usize, position: Position) -> Self {
        Self { reader: Reader::new(stream, offset), position, ended: false }
    }

    /// Byte offset of the record that [`Self::next`] returns next.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.reader.offset()
    }

    /// Position of the record that was returned last.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Passes over the `LOAD` and `MEMORY` records that come next, which are nearly all there are, up to the first of
    /// another kind or that breaks a rule.
    pub fn skip_data(&mut self) {
        while let Some(first @ (tag::LOAD.. | tag::MEMORY)) = self.reader.peek() {
            let before = self.reader.clone();
            let position =
                data_delta(&mut self.reader, first).ok().and_then(|delta| self.position.0.checked_add(delta));
            let Some(position) = position else {
                self.reader = before;
                return;
            };
            self.position = Position(position);
        }
    }

    fn read(&mut self) -> Result<Option<Record<'a>>, WireError> {
        let r = &mut self.reader;
        let first = match r.peek() {
            None | Some(tag::END_OF_STREAM) => return Ok(None),
            Some(_) => r.u8()?,
        };
        Ok(Some(match first {
            tag::CHECKPOINT => {
                Record::Checkpoint { tsc: r.u64()?, unix_nanos: r.u64()?, regs: Box::new(RegisterFile::decode(r)?) }
            }
            tag::CHECK => Record::Check { delta: r.varint()?, rflags_known: r.varint()?, hash: r.u64()? },
            tag::LOAD.. => decode_load(r, first)?.record(),
            tag::REGISTERS => Record::Registers { delta: r.varint()?, updates: RegisterUpdates::decode(r)? },
            tag::SIGNAL => Record::Signal {
                delta: r.varint()?,
                step: SignalStep::from_number(r.u8()?).ok_or(WireError("unknown step of a SIGNAL"))?,
                number: r.varint()?,
                regs: Box::new(RegisterFile::decode(r)?),
            },
            tag::SYSCALL => {
                let delta = r.varint()?;
                let number = r.varint()?;
                let result = r.u64()?.cast_signed();
                let stream = OutputStream::from_number(r.u8()?).ok_or(WireError("unknown output stream"))?;
                let order = r.varint()?;
                let mut args = [0; 6];
                for arg in &mut args {
                    *arg = r.varint()?;
                }
                let updates = RegisterUpdates::decode(r)?;
                Record::Syscall { delta, number, result, args, stream, order, updates }
            }
            tag::SPECIAL => Record::Special {
                delta: r.varint()?,
                kind: SpecialKind::from_number(r.u8()?).ok_or(WireError("unknown kind of special instruction"))?,
                updates: RegisterUpdates::decode(r)?,
            },
            tag::MEMORY => {
                let delta = r.varint()?;
                let (addr, bytes) = memory(r)?;
                Record::Memory { delta, addr, bytes }
            }
            tag::CODE => Record::Code { delta: r.varint()?, seq: CodeSeq(r.varint()?) },
            tag::DEPENDENCY => Record::Dependency {
                delta: r.varint()?,
                kind: DependencyKind::from_number(r.u8()?).ok_or(WireError("unknown kind of dependency"))?,
                block: Addr(r.varint()?),
                other: Tid(u32::try_from(r.varint()?).map_err(|_| WireError("thread id above 32 bits"))?),
                other_interval: IntervalNo(r.varint()?),
                other_position: Position(r.varint()?),
                implied: r.varint()?,
            },
            tag::SYSCALL_DATA => Record::SyscallData { arg: r.u8()?, bytes: r.bytes(MAX_TEXT)? },
            tag::SNAPSHOT => {
                let (addr, bytes) = memory(r)?;
                Record::Snapshot { addr, bytes }
            }
            tag::NOTE => Record::Note { text: text(r)? },
            tag::REACH => {
                let (addr, len) = part(r)?;
                Record::Reach { addr, len }
            }
            tag::ZEROS => {
                let (addr, len) = part(r)?;
                Record::Zeros { addr, len }
            }
            tag::OMITTED => {
                let (addr, len) = part(r)?;
                Record::Omitted { addr, len }
            }
            tag::END => Record::End {
                delta: r.varint()?,
                reason: EndReason::decode(r)?,
                regs: Box::new(RegisterFile::decode(r)?),
            },
            _ => return Err(WireError("unknown record tag")),
        }))
    }
}

/// Reads a `LOAD` or `MEMORY` whose tag is `first`; its `delta`.
fn data_delta(r: &mut Reader<'_>, first: u8) -> Result<u64, WireError> {
    r.u8()?;
    if first == tag::MEMORY {
        let delta = r.varint()?;
        return memory(r).map(|_| delta);
    }
    decode_load(r, first).map(|load| load.delta)
}

/// A piece of memory; one that would reach past the top of the address space is an error.
fn memory<'a>(r: &mut Reader<'a>) -> Result<(Addr, &'a [u8]), WireError> {
    let addr = r.u64()?;
    let bytes = r.bytes(MAX_VALUE)?;
    match addr.checked_add(bytes.len() as u64) {
        Some(_) => Ok((Addr(addr), bytes)),
        None => Err(WireError("memory beyond the top of the address space")),
    }
}

/// Where a part of the address space begins, and how many bytes it has.
fn part(r: &mut Reader<'_>) -> Result<(Addr, u64), WireError> {
    let (addr, len) = (r.varint()?, r.varint()?);
    if len == 0 || addr.checked_add(len).is_none() {
        return Err(WireError("no part of the address space"));
    }
    Ok((Addr(addr), len))
}

impl<'a> Records<'a> {
    /// The next one, if it is a `LOAD` of which nothing is wrong.
    #[inline(always)]
    fn load(&mut self) -> Option<Placed<'a>> {
        let first @ tag::LOAD.. = self.reader.peek()? else { return None };
        let mut r = self.reader.clone();
        r.u8().ok()?;
        let load = decode_load(&mut r, first).ok()?;
        let position = Position(self.position.0.checked_add(load.delta)?);
        let offset = self.reader.offset();
        (self.reader, self.position) = (r, position);
        Some(Placed { offset, position, record: load.record() })
    }

    /// The next one, whatever it is.
    fn any(&mut self) -> Option<Result<Placed<'a>, RecordError>> {
        let offset = self.reader.offset();
        let placed = self.read().and_then(|record| {
            let Some(record) = record else {
                self.ended = true;
                return Ok(None);
            };
            let position = self.position.0.checked_add(record.delta());
            self.position = Position(position.ok_or(WireError("position overflows"))?);
            Ok(Some(Placed { offset, position: self.position, record }))
        });
        match placed {
            Ok(placed) => placed.map(Ok),
            Err(WireError(reason)) => {
                self.ended = true;
                Some(Err(RecordError { offset, reason }))
            }
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Placed<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.load() {
            Some(load) => Some(Ok(load)),
            None => self.any(),
        }
    }
}
