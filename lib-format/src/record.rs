//! Records: what an interval's stream consists of (FORMAT.md, "Records").
//!
//! [`Record::encode`] is used by the logger and the tests, [`Records`] by everything that reads.

use crate::regs::RegisterFile;
use crate::types::{Addr, CodeSeq, Position};
use crate::wire::{Reader, WireError, put_bytes, put_varint};

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
    pub const SYSCALL: u8 = 0x11;
    pub const SPECIAL: u8 = 0x12;
    pub const MEMORY: u8 = 0x13;
    pub const CODE: u8 = 0x14;
    pub const SYSCALL_DATA: u8 = 0x20;
    pub const SNAPSHOT: u8 = 0x22;
    pub const NOTE: u8 = 0x23;
    pub const END: u8 = 0x2f;
    pub const LOAD: u8 = 0x80;
}

/// Which instruction a [`Record::Special`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum SpecialKind {
    /// `rdtsc`
    Rdtsc = 1,
    /// `rdtscp`
    Rdtscp = 2,
    /// `rdpid`
    Rdpid = 3,
    /// `cpuid`
    Cpuid = 4,
    /// `rdrand`
    Rdrand = 5,
    /// `rdseed`
    Rdseed = 6,
    /// `xgetbv`
    Xgetbv = 7,
    /// `rdpmc`
    Rdpmc = 8,
    /// `sgdt`, `sidt`, `sldt`, `str`, `smsw`
    SystemTable = 9,
    /// An instruction whose stores depend on more than recorded state (`fxsave`, `xsave`, `fnstenv`, ...):
    /// a [`Record::Memory`] at the same position holds what it stored.
    OpaqueStore = 10,
}

impl SpecialKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Rdtsc,
        Self::Rdtscp,
        Self::Rdpid,
        Self::Cpuid,
        Self::Rdrand,
        Self::Rdseed,
        Self::Xgetbv,
        Self::Rdpmc,
        Self::SystemTable,
        Self::OpaqueStore,
    ];

    fn from_number(n: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| *k as u8 == n)
    }
}

/// Where a write went that the recorded program made: its original standard output, standard error, or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum OutputStream {
    /// Not one of the two.
    None = 0,
    /// The open file that was descriptor 1 when recording began.
    Stdout = 1,
    /// The open file that was descriptor 2 when recording began.
    Stderr = 2,
}

/// Why an interval ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum EndReason {
    /// The interval is full; the thread's next interval goes on.
    Full,
    /// The thread ended by `exit`, or the process by `exit_group`, with this argument.
    Exit {
        /// The status given to the system call.
        status: i32,
    },
    /// A signal killed the process at this position.
    Signal {
        /// Signal number.
        signo: u32,
        /// `si_code`.
        code: i32,
        /// `si_addr` for faults, else 0.
        addr: Addr,
    },
    /// Exact replay of the thread ends here; the note says why.
    Unsupported {
        /// What could not be recorded.
        why: String,
    },
    /// The log could not be written any further (disk full, for example); the program went on.
    LogStopped {
        /// What went wrong.
        why: String,
    },
    /// The process replaced its program by `execve`.
    Exec,
}

/// New values for some registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RegisterUpdates {
    /// `(register number, value)`, ascending by number: 0 to 15 general purpose in the order of
    /// [`crate::regs::GPR_NAMES`], then the numbers of [`register_number`].
    pub values: Vec<(u8, u64)>,
}

/// Numbers of the registers beside the general purpose ones in [`RegisterUpdates`].
pub mod register_number {
    /// RIP
    pub const RIP: u8 = 16;
    /// RFLAGS
    pub const RFLAGS: u8 = 17;
    /// Base of FS
    pub const FS_BASE: u8 = 18;
    /// Base of GS
    pub const GS_BASE: u8 = 19;
    /// One above the highest register number.
    pub const COUNT: u8 = 20;
}

impl RegisterUpdates {
    /// Sets the listed registers in `regs`.
    pub fn apply(&self, regs: &mut RegisterFile) {
        for &(number, value) in &self.values {
            match number {
                0..16 => regs.gpr[usize::from(number)] = value,
                register_number::RIP => regs.rip = value,
                register_number::RFLAGS => regs.rflags = value,
                register_number::FS_BASE => regs.fs_base = value,
                register_number::GS_BASE => regs.gs_base = value,
                _ => {}
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mask = self.values.iter().fold(0u64, |m, (n, _)| m | 1 << n);
        put_varint(out, mask);
        for (_, value) in &self.values {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let mask = r.varint()?;
        if mask >> register_number::COUNT != 0 {
            return Err(WireError("unknown register number"));
        }
        let mut values = Vec::new();
        for number in 0..register_number::COUNT {
            if mask >> number & 1 == 1 {
                values.push((number, r.u64()?));
            }
        }
        Ok(Self { values })
    }
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
    /// Bytes that a system call's pointer argument referred to, before the [`Record::Syscall`] that follows; for people.
    SyscallData {
        /// Number of the argument, from 0.
        arg: u8,
        /// What stood there.
        bytes: &'a [u8],
    },
    /// Memory as it was at the end of the thread (stack of a crash): readable at the end of replay, where
    /// replay itself has not touched it.
    Snapshot {
        /// Address of the first byte.
        addr: Addr,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A sentence for people, a warning of the logger for example.
    Note {
        /// UTF-8 text.
        text: &'a str,
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

/// Sizes and forms of a `LOAD` record's value, in the low five bits of its tag: `(form, stored bytes, value bytes)`.
/// A value of more bytes than stored has zeros above.
pub const LOAD_FORMS: [(u8, usize, usize); 11] = [
    (0, 1, 1),
    (1, 2, 2),
    (2, 4, 4),
    (3, 8, 8),
    (4, 1, 8),
    (5, 2, 8),
    (6, 4, 8),
    (7, 1, 4),
    (8, 2, 4),
    (9, 16, 16),
    (10, 32, 32),
];

/// Form of a `LOAD` with explicit ordinal, offset and length.
const LOAD_GENERAL: u8 = 31;

/// The value of a [`Record::Load`]: the bytes that the stream holds, then zeros up to the length.
#[derive(Clone, Copy, Debug, Eq)]
pub struct LoadValue<'a> {
    stored: &'a [u8],
    len: usize,
}

impl<'a> LoadValue<'a> {
    /// A value with all of its bytes at hand.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { stored: bytes, len: bytes.len() }
    }

    /// Length in bytes.
    #[must_use]
    #[allow(
        clippy::len_without_is_empty,
        reason = "a value is a register's or a memory operand's: never empty by format"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes, lowest address first.
    pub fn iter(&self) -> impl Iterator<Item = u8> + 'a {
        self.stored.iter().copied().chain(std::iter::repeat(0)).take(self.len)
    }

    /// The bytes, lowest address first.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.iter().collect()
    }
}

impl PartialEq for LoadValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> Record<'a> {
    /// Instructions since the record before; 0 for records that have no position of their own.
    #[must_use]
    pub fn delta(&self) -> u64 {
        match self {
            Self::Check { delta, .. }
            | Self::Load { delta, .. }
            | Self::Registers { delta, .. }
            | Self::Syscall { delta, .. }
            | Self::Special { delta, .. }
            | Self::Memory { delta, .. }
            | Self::Code { delta, .. }
            | Self::End { delta, .. } => *delta,
            Self::Checkpoint { .. } | Self::SyscallData { .. } | Self::Snapshot { .. } | Self::Note { .. } => 0,
        }
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
            Self::Syscall { delta, number, result, args, stream, updates } => {
                out.push(tag::SYSCALL);
                put_varint(out, *delta);
                put_varint(out, *number);
                out.extend_from_slice(&result.to_le_bytes());
                out.push(*stream as u8);
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
            Self::Note { text } => {
                out.push(tag::NOTE);
                put_bytes(out, text.as_bytes());
            }
            Self::End { delta, reason, regs } => {
                out.push(tag::END);
                put_varint(out, *delta);
                encode_reason(reason, out);
                regs.encode(out);
            }
        }
    }
}

/// Appends a `LOAD` record in its shortest form; the logger's slow path calls this directly.
pub fn encode_load(out: &mut Vec<u8>, delta: u64, ordinal: u8, offset: u64, value: &[u8]) {
    let form = if ordinal < 4 && offset == 0 {
        let significant = value.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
        LOAD_FORMS
            .iter()
            .filter(|(_, stored, len)| *len == value.len() && significant <= *stored)
            .min_by_key(|(_, stored, _)| *stored)
    } else {
        None
    };
    if let Some((form, stored, _)) = form {
        out.push(tag::LOAD | ordinal << 5 | form);
        put_varint(out, delta);
        out.extend_from_slice(&value[..*stored]);
    } else {
        out.push(tag::LOAD | LOAD_GENERAL);
        put_varint(out, delta);
        out.push(ordinal);
        put_varint(out, offset);
        put_bytes(out, value);
    }
}

mod reason {
    pub const FULL: u8 = 0;
    pub const EXIT: u8 = 1;
    pub const SIGNAL: u8 = 2;
    pub const UNSUPPORTED: u8 = 3;
    pub const LOG_STOPPED: u8 = 4;
    pub const EXEC: u8 = 5;
}

fn encode_reason(value: &EndReason, out: &mut Vec<u8>) {
    match value {
        EndReason::Full => out.push(reason::FULL),
        EndReason::Exit { status } => {
            out.push(reason::EXIT);
            out.extend_from_slice(&status.to_le_bytes());
        }
        EndReason::Signal { signo, code, addr } => {
            out.push(reason::SIGNAL);
            out.extend_from_slice(&signo.to_le_bytes());
            out.extend_from_slice(&code.to_le_bytes());
            out.extend_from_slice(&addr.0.to_le_bytes());
        }
        EndReason::Unsupported { why } => {
            out.push(reason::UNSUPPORTED);
            put_bytes(out, why.as_bytes());
        }
        EndReason::LogStopped { why } => {
            out.push(reason::LOG_STOPPED);
            put_bytes(out, why.as_bytes());
        }
        EndReason::Exec => out.push(reason::EXEC),
    }
}

fn text<'a>(r: &mut Reader<'a>) -> Result<&'a str, WireError> {
    std::str::from_utf8(r.bytes(MAX_TEXT)?).map_err(|_| WireError("text is not UTF-8"))
}

fn decode_reason(r: &mut Reader<'_>) -> Result<EndReason, WireError> {
    Ok(match r.u8()? {
        reason::FULL => EndReason::Full,
        reason::EXIT => EndReason::Exit { status: r.u32()?.cast_signed() },
        reason::SIGNAL => EndReason::Signal { signo: r.u32()?, code: r.u32()?.cast_signed(), addr: Addr(r.u64()?) },
        reason::UNSUPPORTED => EndReason::Unsupported { why: text(r)?.to_owned() },
        reason::LOG_STOPPED => EndReason::LogStopped { why: text(r)?.to_owned() },
        reason::EXEC => EndReason::Exec,
        _ => return Err(WireError("unknown reason of an END")),
    })
}

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

/// Reads the records of a stream, in order. After an error it ends.
///
/// Works on hostile bytes: no panic, no allocation beyond the stream's own size.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    reader: Reader<'a>,
    position: Position,
    failed: bool,
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
        Self { reader: Reader::new(stream, offset), position, failed: false }
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

    fn read(&mut self) -> Result<Option<Record<'a>>, WireError> {
        let r = &mut self.reader;
        let Ok(first) = r.u8() else { return Ok(None) };
        Ok(Some(match first {
            tag::END_OF_STREAM => return Ok(None),
            tag::CHECKPOINT => {
                Record::Checkpoint { tsc: r.u64()?, unix_nanos: r.u64()?, regs: Box::new(RegisterFile::decode(r)?) }
            }
            tag::CHECK => Record::Check { delta: r.varint()?, rflags_known: r.varint()?, hash: r.u64()? },
            tag::LOAD.. => decode_load(r, first)?,
            tag::REGISTERS => Record::Registers { delta: r.varint()?, updates: RegisterUpdates::decode(r)? },
            tag::SYSCALL => {
                let delta = r.varint()?;
                let number = r.varint()?;
                let result = r.u64()?.cast_signed();
                let stream = match r.u8()? {
                    0 => OutputStream::None,
                    1 => OutputStream::Stdout,
                    2 => OutputStream::Stderr,
                    _ => return Err(WireError("unknown output stream")),
                };
                let mut args = [0; 6];
                for arg in &mut args {
                    *arg = r.varint()?;
                }
                let updates = RegisterUpdates::decode(r)?;
                Record::Syscall { delta, number, result, args, stream, updates }
            }
            tag::SPECIAL => Record::Special {
                delta: r.varint()?,
                kind: SpecialKind::from_number(r.u8()?).ok_or(WireError("unknown kind of special instruction"))?,
                updates: RegisterUpdates::decode(r)?,
            },
            tag::MEMORY => Record::Memory { delta: r.varint()?, addr: Addr(r.u64()?), bytes: r.bytes(MAX_VALUE)? },
            tag::CODE => Record::Code { delta: r.varint()?, seq: CodeSeq(r.varint()?) },
            tag::SYSCALL_DATA => Record::SyscallData { arg: r.u8()?, bytes: r.bytes(MAX_TEXT)? },
            tag::SNAPSHOT => Record::Snapshot { addr: Addr(r.u64()?), bytes: r.bytes(MAX_VALUE)? },
            tag::NOTE => Record::Note { text: text(r)? },
            tag::END => {
                Record::End { delta: r.varint()?, reason: decode_reason(r)?, regs: Box::new(RegisterFile::decode(r)?) }
            }
            _ => return Err(WireError("unknown record tag")),
        }))
    }
}

fn decode_load<'a>(r: &mut Reader<'a>, first: u8) -> Result<Record<'a>, WireError> {
    let form = first & 0x1f;
    let delta = r.varint()?;
    if form == LOAD_GENERAL {
        if first & 0x60 != 0 {
            return Err(WireError("ordinal in the tag of a general LOAD"));
        }
        let ordinal = r.u8()?;
        if ordinal > MAX_ORDINAL {
            return Err(WireError("ordinal of a LOAD out of range"));
        }
        let offset = r.varint()?;
        return Ok(Record::Load { delta, ordinal, offset, value: LoadValue::new(r.bytes(MAX_VALUE)?) });
    }
    let (_, stored, len) = *LOAD_FORMS.get(usize::from(form)).ok_or(WireError("unknown form of a LOAD"))?;
    let value = LoadValue { stored: r.take(stored)?, len };
    Ok(Record::Load { delta, ordinal: first >> 5 & 3, offset: 0, value })
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Placed<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let offset = self.reader.offset();
        let placed = self.read().and_then(|record| {
            let Some(record) = record else { return Ok(None) };
            let position = self.position.0.checked_add(record.delta());
            self.position = Position(position.ok_or(WireError("position overflows"))?);
            Ok(Some(Placed { offset, position: self.position, record }))
        });
        match placed {
            Ok(placed) => placed.map(Ok),
            Err(WireError(reason)) => {
                self.failed = true;
                Some(Err(RecordError { offset, reason }))
            }
        }
    }
}
