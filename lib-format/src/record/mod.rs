//! Records: what an interval's stream consists of (FORMAT.md, "Records").
//!
//! [`Record::encode`] is used by the logger and the tests, [`Records`] by everything that reads.

mod load;
mod parts;
mod read;

pub use load::{LOAD_FORMS, LOAD_GENERAL, LoadValue, encode_load};
pub use parts::{DependencyKind, EndReason, OutputStream, RegisterUpdates, SignalStep, SpecialKind, register_number};
pub use read::{Placed, RecordError, Records};

use crate::regs::RegisterFile;
use crate::types::{Addr, CodeSeq, IntervalNo, Position, Tid};
use crate::wire::{put_bytes, put_varint};

/// Longest value of one [`Record::Load`], [`Record::Memory`] or [`Record::Snapshot`] record, in bytes.
pub const MAX_VALUE: usize = 1 << 20;
/// Longest path or note in a record, in bytes.
pub const MAX_TEXT: usize = 1 << 16;
/// Largest ordinal of a memory read within one instruction (a gather of 16 lanes and its mask).
pub const MAX_ORDINAL: u8 = 63;

/// Tag bytes of the records, as FORMAT.md lists them. A tag with the top bit set is a `LOAD`.
#[allow(missing_docs, reason = "each constant is the tag of the record variant of the same name")]
pub mod tag {
    pub const END_OF_STREAM: u8 = 0x00;
    pub const CHECKPOINT: u8 = 0x01;
    pub const CHECK: u8 = 0x02;
    pub const REGISTERS: u8 = 0x10;
    pub const SIGNAL: u8 = 0x15;
    pub const SYSCALL: u8 = 0x11;
    pub const SPECIAL: u8 = 0x12;
    pub const MEMORY: u8 = 0x13;
    pub const CODE: u8 = 0x14;
    pub const DEPENDENCY: u8 = 0x16;
    pub const SYSCALL_DATA: u8 = 0x20;
    pub const SNAPSHOT: u8 = 0x22;
    pub const NOTE: u8 = 0x23;
    pub const REACH: u8 = 0x24;
    pub const ZEROS: u8 = 0x25;
    pub const OMITTED: u8 = 0x26;
    pub const END: u8 = 0x2f;
    pub const LOAD: u8 = 0x80;
}

/// One record. `delta` is the distance in instructions from the position of the record before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// First record of every interval: the state at position 0.
    Checkpoint {
        /// Time stamp counter of the recording machine.
        tsc: u64,
        /// Nanoseconds since the Unix epoch.
        unix_nanos: u64,
        /// Every register.
        regs: Box<RegisterFile>,
    },
    /// The register state at this position, hashed; replay compares.
    Check {
        /// Instructions since the record before.
        delta: u64,
        /// The flags that [`RegisterFile::hash`] covers.
        rflags_known: u64,
        /// [`RegisterFile::hash`].
        hash: u64,
    },
    /// The instruction at this position reads `value` from memory, where the replayer's memory may hold other bytes.
    Load {
        /// Instructions since the record before.
        delta: u64,
        /// Which of the instruction's memory reads, from 0.
        ordinal: u8,
        /// Byte offset of `value` in what is read; above 0 only where a part of a wide read is logged.
        offset: u64,
        /// The bytes, lowest address first.
        value: LoadValue<'a>,
    },
    /// Registers change at this position, outside the instruction stream.
    Registers {
        /// Instructions since the record before.
        delta: u64,
        /// The changes.
        updates: RegisterUpdates,
    },
    /// The kernel moves the thread: into a signal handler, or back out of it.
    Signal {
        /// Instructions since the record before.
        delta: u64,
        /// Which way.
        step: SignalStep,
        /// Signal number; 0 for a return, which does not know it.
        number: u64,
        /// All registers afterwards. Where they say [`crate::regs::FPU_UNKNOWN`], x87 state and MXCSR stay as they are.
        regs: Box<RegisterFile>,
    },
    /// The instruction at this position is a system call. Replay does not execute it, but sets RAX to `result`,
    /// RCX to the address of the next instruction and R11 to RFLAGS, applies `updates`, and goes on behind it.
    Syscall {
        /// Instructions since the record before.
        delta: u64,
        /// System call number (RAX before the call).
        number: u64,
        /// RAX after the call.
        result: i64,
        /// RDI, RSI, RDX, R10, R8, R9 before the call.
        args: [u64; 6],
        /// For writes: whether it went to standard output or error.
        stream: OutputStream,
        /// Its place among the calls of all threads of the process, if it has one: the larger, the later; else 0.
        order: u64,
        /// Other register changes (an FS base set by `arch_prctl`, for example).
        updates: RegisterUpdates,
    },
    /// The instruction at this position is not executed by replay: it sets these registers and goes on behind it.
    Special {
        /// Instructions since the record before.
        delta: u64,
        /// Which instruction it is.
        kind: SpecialKind,
        /// Its results.
        updates: RegisterUpdates,
    },
    /// Memory holds these bytes from this position on (the instruction at this position already sees them).
    Memory {
        /// Instructions since the record before.
        delta: u64,
        /// Address of the first byte.
        addr: Addr,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// From this position on, code pages up to this sequence number are in force, in the thread's memory too.
    Code {
        /// Instructions since the record before.
        delta: u64,
        /// The new picture of the code.
        seq: CodeSeq,
    },
    /// What another thread has executed before its position `other_position` happened before this thread's instruction
    /// at this position, and all that follows it. Replaying one thread alone does not need it.
    Dependency {
        /// Instructions since the record before.
        delta: u64,
        /// Which accesses it orders.
        kind: DependencyKind,
        /// The coherence block that both accessed: its first address. 0 for [`DependencyKind::Birth`].
        block: Addr,
        /// The other thread, of the same process.
        other: Tid,
        /// An interval of the other thread.
        other_interval: IntervalNo,
        /// How many instructions of that interval it had completed.
        other_position: Position,
        /// Dependencies of this thread since the last record of one (or the interval's start) that are not in the log,
        /// since they follow from those that are.
        implied: u64,
    },
    /// Bytes that a system call's pointer argument referred to, before the [`Record::Syscall`] that follows; for people.
    SyscallData {
        /// Number of the argument, from 0.
        arg: u8,
        /// What stood there.
        bytes: &'a [u8],
    },
    /// Memory of the process as it was at the end of the thread: readable at the end of replay.
    Snapshot {
        /// Address of the first byte.
        addr: Addr,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Memory that held nothing but zeros at the end of the thread; otherwise as [`Record::Snapshot`].
    Zeros {
        /// Address of the first byte.
        addr: Addr,
        /// Bytes, not zero.
        len: u64,
    },
    /// Memory that the process had at the end of the thread and that is in no [`Record::Snapshot`], as there would have been too
    /// many.
    Omitted {
        /// Address of the first byte.
        addr: Addr,
        /// Bytes, not zero.
        len: u64,
    },
    /// A sentence for people, a warning of the logger for example.
    Note {
        /// UTF-8 text.
        text: &'a str,
    },
    /// A part of the address space in which the interval's instructions may access memory. Those of an interval, if it
    /// has any, are all there are, but for its code pages: elsewhere, they access nothing.
    Reach {
        /// Address of the first byte.
        addr: Addr,
        /// Bytes, not zero.
        len: u64,
    },
    /// Last record of a complete interval: the state that replay must have reached.
    End {
        /// Instructions since the record before.
        delta: u64,
        /// Why.
        reason: EndReason,
        /// Every register.
        regs: Box<RegisterFile>,
    },
}

/// What comes of a record's `delta`, or of a record that has none: all kinds are named, so that a new one is not forgotten.
macro_rules! with_delta {
    ($record:expr, $delta:ident => $with:expr, $without:expr) => {
        match $record {
            Self::Check { $delta, .. }
            | Self::Load { $delta, .. }
            | Self::Registers { $delta, .. }
            | Self::Signal { $delta, .. }
            | Self::Syscall { $delta, .. }
            | Self::Special { $delta, .. }
            | Self::Memory { $delta, .. }
            | Self::Code { $delta, .. }
            | Self::Dependency { $delta, .. }
            | Self::End { $delta, .. } => $with,
            Self::Checkpoint { .. } | Self::SyscallData { .. } | Self::Note { .. } => $without,
            Self::Snapshot { .. } | Self::Zeros { .. } | Self::Omitted { .. } | Self::Reach { .. } => $without,
        }
    };
}

impl<'a> Record<'a> {
    /// Instructions since the record before; 0 for records that have no position of their own.
    #[must_use]
    pub fn delta(&self) -> u64 {
        with_delta!(self, delta => *delta, 0)
    }

    /// Puts the record so many instructions behind the one before; what has no position of its own stays as it is.
    pub fn follow(&mut self, by: u64) {
        with_delta!(self, delta => *delta = by, ());
    }

    /// Whether the record has a position of its own; the others belong to the record before or behind them.
    #[must_use]
    pub fn has_position(&self) -> bool {
        !matches!(self, Self::SyscallData { .. } | Self::Note { .. }) && !self.is_of_ending()
    }

    /// Whether it is about an interval's end, and stands just before its [`Record::End`].
    #[must_use]
    pub fn is_of_ending(&self) -> bool {
        matches!(self, Self::Snapshot { .. } | Self::Zeros { .. } | Self::Omitted { .. } | Self::Reach { .. })
    }

    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Checkpoint { tsc, unix_nanos, regs } => {
                out.push(tag::CHECKPOINT);
                out.extend_from_slice(&tsc.to_le_bytes());
                out.extend_from_slice(&unix_nanos.to_le_bytes());
                regs.encode(out);
            }
            Self::Check { delta, rflags_known, hash } => {
                out.push(tag::CHECK);
                put_varint(out, *delta);
                put_varint(out, *rflags_known);
                out.extend_from_slice(&hash.to_le_bytes());
            }
            Self::Load { delta, ordinal, offset, value } => {
                encode_load(out, *delta, *ordinal, *offset, &value.to_vec());
            }
            Self::Registers { delta, updates } => {
                out.push(tag::REGISTERS);
                put_varint(out, *delta);
                updates.encode(out);
            }
            Self::Signal { delta, step, number, regs } => {
                out.push(tag::SIGNAL);
                put_varint(out, *delta);
                out.push(*step as u8);
                put_varint(out, *number);
                regs.encode(out);
            }
            Self::Syscall { delta, number, result, args, stream, order, updates } => {
                out.push(tag::SYSCALL);
                put_varint(out, *delta);
                put_varint(out, *number);
                out.extend_from_slice(&result.to_le_bytes());
                out.push(*stream as u8);
                put_varint(out, *order);
                args.iter().for_each(|arg| put_varint(out, *arg));
                updates.encode(out);
            }
            Self::Special { delta, kind, updates } => {
                out.push(tag::SPECIAL);
                put_varint(out, *delta);
                out.push(*kind as u8);
                updates.encode(out);
            }
            Self::Memory { delta, addr, bytes } => {
                out.push(tag::MEMORY);
                put_varint(out, *delta);
                out.extend_from_slice(&addr.0.to_le_bytes());
                put_bytes(out, bytes);
            }
            Self::Code { delta, seq } => {
                out.push(tag::CODE);
                put_varint(out, *delta);
                put_varint(out, seq.0);
            }
            Self::Dependency { delta, kind, block, other, other_interval, other_position, implied } => {
                out.push(tag::DEPENDENCY);
                put_varint(out, *delta);
                out.push(*kind as u8);
                let numbers = [block.0, other.0.into(), other_interval.0, other_position.0, *implied];
                numbers.iter().for_each(|number| put_varint(out, *number));
            }
            Self::SyscallData { arg, bytes } => {
                out.push(tag::SYSCALL_DATA);
                out.push(*arg);
                put_bytes(out, bytes);
            }
            Self::Snapshot { addr, bytes } => {
                out.push(tag::SNAPSHOT);
                out.extend_from_slice(&addr.0.to_le_bytes());
                put_bytes(out, bytes);
            }
            Self::Zeros { addr, len } => put_part(out, tag::ZEROS, *addr, *len),
            Self::Omitted { addr, len } => put_part(out, tag::OMITTED, *addr, *len),
            Self::Note { text } => {
                out.push(tag::NOTE);
                put_bytes(out, text.as_bytes());
            }
            Self::Reach { addr, len } => put_part(out, tag::REACH, *addr, *len),
            Self::End { delta, reason, regs } => {
                out.push(tag::END);
                put_varint(out, *delta);
                reason.encode(out);
                regs.encode(out);
            }
        }
    }
}

/// Appends a record about a part of the address space.
fn put_part(out: &mut Vec<u8>, tag: u8, addr: Addr, len: u64) {
    out.push(tag);
    put_varint(out, addr.0);
    put_varint(out, len);
}
