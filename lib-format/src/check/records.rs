//! The rules for the records of an interval, one after the other.

use super::epochs::Behind;
use super::{Invariant, Report};
use crate::complete::Mentions;
use crate::record::{EndReason, Placed, Record, Records, SignalStep};
use crate::regs::{ARITHMETIC_FLAGS, COMPARED_FLAGS, FPU_UNKNOWN, NOTHING_KNOWN, RegisterFile};
use crate::types::{Addr, CodeSeq, IntervalNo, Position, ProcessId, Tid};
use std::path::Path;

/// What an interval's records say to those who check how intervals follow each other.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Registers at the start.
    pub begin: Option<Box<RegisterFile>>,
    /// Reason and registers of the end.
    pub end: Option<(EndReason, Box<RegisterFile>)>,
    /// Position of the last record.
    pub position: Position,
    /// The newest code picture.
    pub code_seq: CodeSeq,
    /// Whether the stream was read to its end.
    pub whole: bool,
    /// What they say of other parts of the log.
    pub mentions: Mentions,
    /// What other threads did before.
    pub behind: Behind,
}

/// What the rules need to know of the records before.
#[derive(Debug, Default)]
struct Before {
    /// Position, ordinal and end offset of the last `LOAD`.
    load: Option<(Position, u8, u64)>,
    /// Position of the last `SYSCALL` or `SPECIAL`.
    opaque: Option<Position>,
    /// Where a `SYSCALL_DATA` stands whose `SYSCALL` has not come.
    data: Option<usize>,
    /// Where a record about the ending stands after which no `END` has come.
    ending: Option<usize>,
}

/// Checks the records of an interval that begins with `code_seq`, where the store has `known`; `file` is for findings.
pub(super) fn check_stream(
    bytes: &[u8],
    (process, thread, interval): (ProcessId, Tid, IntervalNo),
    code_seq: CodeSeq,
    known: CodeSeq,
    file: &Path,
    report: &mut Report,
) -> Stream {
    let mut stream = Stream { code_seq, ..Stream::default() };
    let mut before = Before::default();
    let mut records = Records::new(bytes);
    for next in records.by_ref() {
        let placed = match next {
            Ok(placed) => placed,
            Err(e) => {
                report.error(Invariant::RecordForm, file, e.offset as u64, e.reason);
                return stream;
            }
        };
        let at = placed.offset as u64;
        if stream.end.is_some() {
            report.error(Invariant::EndLast, file, at, "a record follows the END");
            return stream;
        }
        report.records += 1;
        stream.position = placed.position;
        check_record(&placed, &mut before, file, report);
        stream.mentions.take(process, thread, interval, &placed);
        stream.behind.take(&placed);
        match placed.record {
            Record::Checkpoint { regs, .. } if at == 0 => {
                check_known(&regs, at, file, report);
                stream.begin = Some(regs);
            }
            Record::Checkpoint { .. } => {
                report.error(Invariant::CheckpointFirst, file, at, "a CHECKPOINT in the middle");
            }
            _ if at == 0 => report.error(Invariant::CheckpointFirst, file, at, "the first record is another"),
            Record::Code { seq, .. } => {
                if seq <= stream.code_seq {
                    let detail = format!("CODE to {seq} where {} was in force", stream.code_seq);
                    report.error(Invariant::CodeAscending, file, at, detail);
                }
                if seq > known {
                    report.error(Invariant::CodeKnown, file, at, format!("CODE to {seq}, the store ends with {known}"));
                }
                stream.code_seq = stream.code_seq.max(seq);
            }
            Record::End { reason, regs, .. } => {
                if matches!(reason, EndReason::Full | EndReason::Exec) {
                    check_known(&regs, at, file, report);
                }
                stream.end = Some((reason, regs));
            }
            _ => {}
        }
    }
    stream.whole = records.offset() == bytes.len();
    if !stream.whole {
        report.error(Invariant::RecordForm, file, records.offset() as u64, "a zero byte among the records");
    }
    stream
}

/// The rules about what may follow what.
fn check_record(placed: &Placed<'_>, before: &mut Before, file: &Path, report: &mut Report) {
    let Placed { offset, position, record } = placed;
    let at = *offset as u64;
    let of_the_ending = record.is_of_ending();
    if let Some(ending) = before.ending
        && !of_the_ending
        && !matches!(record, Record::Note { .. } | Record::End { .. })
    {
        report.error(Invariant::EndingPlace, file, ending as u64, "another record follows than an END");
        before.ending = None;
    }
    if let Some(data) = before.data
        && !matches!(record, Record::SyscallData { .. } | Record::Note { .. } | Record::Memory { .. })
    {
        let follows = matches!(record, Record::Syscall { .. } | Record::Signal { .. } | Record::End { .. });
        if !follows && !of_the_ending {
            report.error(Invariant::SyscallData, file, data as u64, "another record follows than a SYSCALL");
        }
        before.data = None;
    }
    if before.opaque == Some(*position) && record.has_position() {
        report.error(Invariant::OpaqueLast, file, at, format!("a record more at position {position}"));
    }
    match record {
        Record::Load { ordinal, offset, value, .. } => {
            if let Some((last, last_ordinal, end)) = before.load
                && last == *position
                && (*ordinal < last_ordinal || *ordinal == last_ordinal && *offset < end)
            {
                let detail = format!("ordinal {ordinal} offset {offset} follows ordinal {last_ordinal} up to {end}");
                report.error(Invariant::LoadOrdinal, file, at, detail);
            }
            before.load = Some((*position, *ordinal, offset.saturating_add(value.len() as u64)));
        }
        Record::Syscall { .. } | Record::Special { .. } | Record::Signal { step: SignalStep::Return, .. } => {
            before.opaque = Some(*position)
        }
        Record::SyscallData { arg, .. } => {
            if *arg > 5 {
                report.error(Invariant::SyscallData, file, at, format!("argument {arg}"));
            }
            before.data = Some(*offset);
        }
        Record::Snapshot { addr, bytes } => {
            before.ending = Some(*offset);
            check_range(*addr, bytes.len() as u64, at, file, report);
        }
        Record::Reach { addr, len } | Record::Zeros { addr, len } | Record::Omitted { addr, len } => {
            before.ending = Some(*offset);
            check_range(*addr, *len, at, file, report);
        }
        Record::Memory { addr, bytes, .. } => check_range(*addr, bytes.len() as u64, at, file, report),
        _ => {}
    }
}

fn check_range(addr: Addr, len: u64, at: u64, file: &Path, report: &mut Report) {
    if addr.0.saturating_add(len) > Addr::USER_END {
        report.error(Invariant::AddressRange, file, at, format!("{len} bytes at {addr}"));
    }
}

fn check_known(regs: &RegisterFile, at: u64, file: &Path, report: &mut Report) {
    let others = COMPARED_FLAGS & !ARITHMETIC_FLAGS;
    if regs.rflags_known & (others | FPU_UNKNOWN | NOTHING_KNOWN) != others {
        report.error(Invariant::RegistersKnown, file, at, format!("known are {:#x}", regs.rflags_known));
    }
}
