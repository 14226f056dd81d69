//! Records as lines of text, for people.

use crate::signal;
use crate::syscall;
use bugnet_format::record::{
    DependencyKind, EndReason, OutputStream, Record, RegisterUpdates, SignalStep, register_number,
};
use bugnet_format::regs::GPR_NAMES;
use std::fmt::Write;

/// Most bytes of memory that a line shows.
const SHOWN: usize = 32;

/// What a record says, in one line without its position.
#[must_use]
pub fn record(record: &Record<'_>) -> String {
    match record {
        Record::Checkpoint { tsc, regs, .. } => format!("checkpoint at {:#x}, time stamp {tsc}", regs.rip),
        Record::Check { hash, .. } => format!("check {hash:016x}"),
        Record::Load { ordinal, offset, value, .. } => {
            let part = if *offset == 0 { String::new() } else { format!(" from byte {offset}") };
            format!("load {ordinal}{part}: {}", bytes(&value.to_vec()))
        }
        Record::Registers { updates, .. } => format!("registers{}", self::updates(updates)),
        Record::Signal { step: SignalStep::Delivery, number, regs, .. } => {
            let name = signal::name(i32::try_from(*number).unwrap_or(0));
            format!("{name} delivered to a handler at {:#x}", regs.rip)
        }
        Record::Signal { step: SignalStep::Return, regs, .. } => format!("signal handler returns to {:#x}", regs.rip),
        Record::Signal { step: SignalStep::Resume, regs, .. } => {
            format!("the parent of a child of vfork goes on at {:#x}", regs.rip)
        }
        Record::Syscall { number, result, args, stream, updates, .. } => {
            let stream = match stream {
                OutputStream::None => "",
                OutputStream::Stdout => " to standard output",
                OutputStream::Stderr => " to standard error",
            };
            let (call, result) = (syscall::call(*number, args, &[]), syscall::result(*number, *result));
            format!("system call {call} = {result}{stream}{}", self::updates(updates))
        }
        Record::Special { kind, updates, .. } => {
            format!("special {}{}", format!("{kind:?}").to_lowercase(), self::updates(updates))
        }
        Record::Memory { addr, bytes, .. } => format!("memory at {addr}: {}", self::bytes(bytes)),
        Record::Code { seq, .. } => format!("code up to page {seq}"),
        Record::Dependency { kind, block, other, other_interval, other_position, .. } => {
            let kind = match kind {
                DependencyKind::Raw => format!("read after write at {block}"),
                DependencyKind::Waw => format!("write after write at {block}"),
                DependencyKind::War => format!("write after read at {block}"),
                DependencyKind::Birth => "birth".to_owned(),
            };
            format!("{kind}, behind instruction {other_position} of interval {other_interval} of thread {other}")
        }
        Record::SyscallData { arg, bytes } => format!("argument {arg} points to {}", text(bytes)),
        Record::Snapshot { addr, bytes } => format!("snapshot of {} bytes at {addr}", bytes.len()),
        Record::Zeros { addr, len } => format!("snapshot of {len} zeros at {addr}"),
        Record::Omitted { addr, len } => format!("snapshot without {len} bytes at {addr}"),
        Record::Reach { addr, len } => format!("reach of {len} bytes from {addr}"),
        Record::Note { text } => format!("note: {}", text.escape_debug()),
        Record::End { reason, regs, .. } => format!("end at {:#x}: {}", regs.rip, end_reason(reason)),
    }
}

/// How a thread's log ends, of which `last` is the reason of the last interval's end, if that is there; as a phrase.
#[must_use]
pub fn thread_end(last: Option<&EndReason>) -> String {
    match last {
        None => "alive where its log ends: SIGKILL came, or it still ran".into(),
        Some(EndReason::Full) => {
            "alive where its log ends, behind a whole interval: SIGKILL came, or it still ran".into()
        }
        Some(reason) => end_reason(reason),
    }
}

/// Why an interval ended, as a phrase.
#[must_use]
pub fn end_reason(reason: &EndReason) -> String {
    match reason {
        EndReason::Full => "interval full".into(),
        EndReason::Exit { status } => format!("exit with status {status}"),
        EndReason::Signal { signo, code, addr } => {
            let code = signal::meaning(signo.cast_signed(), *code)
                .map_or_else(|| format!("code {code}"), |(name, _)| name.into());
            format!("killed by {}, {code}, address {addr}", signal::name(signo.cast_signed()))
        }
        EndReason::Unsupported { why } => format!("exact replay ends: {}", why.escape_debug()),
        EndReason::LogStopped { why } => format!("the log could not go on: {}", why.escape_debug()),
        EndReason::Exec => "another program took the process over".into(),
        EndReason::Terminated => "ended from outside of the thread".into(),
    }
}

/// Bytes as a C string literal, shortened if they are many.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}

fn bytes(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes.iter().take(SHOWN) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    if bytes.len() > SHOWN {
        let _ = write!(out, "... ({} bytes)", bytes.len());
    }
    out
}

fn updates(updates: &RegisterUpdates) -> String {
    let mut out = String::new();
    for &(number, value) in &updates.values {
        let name = match number {
            register_number::RIP => "rip",
            register_number::RFLAGS => "rflags",
            register_number::FS_BASE => "fs_base",
            register_number::GS_BASE => "gs_base",
            number => GPR_NAMES.get(usize::from(number)).copied().unwrap_or("?"),
        };
        let _ = write!(out, ", {name} = {value:#x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::record::{LoadValue, SpecialKind};
    use bugnet_format::regs::RegisterFile;
    use bugnet_format::types::{Addr, CodeSeq, IntervalNo, Position, Tid};

    #[test]
    fn each_record_has_its_line() {
        let updates = RegisterUpdates { values: vec![(0, 7), (register_number::FS_BASE, 0x7000)] };
        let regs = Box::new(RegisterFile { rip: 0x1000, ..RegisterFile::default() });
        let signal = EndReason::Signal { signo: 11, code: 1, addr: Addr(8) };
        let (delta, stream) = (0, OutputStream::Stderr);
        let lines = [
            (Record::Checkpoint { tsc: 9, unix_nanos: 1, regs: regs.clone() }, "checkpoint at 0x1000, time stamp 9"),
            (Record::Check { delta, rflags_known: 0, hash: 0xab }, "check 00000000000000ab"),
            (
                Record::Load { delta, ordinal: 1, offset: 4, value: LoadValue::new(&[1, 0xff]) },
                "load 1 from byte 4: 01ff",
            ),
            (Record::Registers { delta, updates: updates.clone() }, "registers, rax = 0x7, fs_base = 0x7000"),
            (
                Record::Syscall {
                    delta,
                    number: 1,
                    result: 2,
                    args: [2, 0x10, 2, 0, 0, 0],
                    stream,
                    order: 0,
                    updates: RegisterUpdates::default(),
                },
                "system call write(2, 0x10, 2) = 2 to standard error",
            ),
            (
                Record::Special { delta, kind: SpecialKind::OpaqueStore, updates },
                "special opaquestore, rax = 0x7, fs_base = 0x7000",
            ),
            (
                Record::Memory { delta, addr: Addr(0x20), bytes: &[7; 40] },
                "memory at 0x20: 0707070707070707070707070707070707070707070707070707070707070707... (40 bytes)",
            ),
            (Record::Code { delta, seq: CodeSeq(3) }, "code up to page 3"),
            (
                Record::Dependency {
                    delta,
                    kind: DependencyKind::Raw,
                    block: Addr(0x7000),
                    other: Tid(9),
                    other_interval: IntervalNo(2),
                    other_position: Position(30),
                    implied: 4,
                },
                "read after write at 0x7000, behind instruction 30 of interval 2 of thread 9",
            ),
            (Record::SyscallData { arg: 1, bytes: b"a\n\"\x1b" }, r#"argument 1 points to "a\n\"\x1b""#),
            (Record::Snapshot { addr: Addr(0x20), bytes: b"abc" }, "snapshot of 3 bytes at 0x20"),
            (Record::Zeros { addr: Addr(0x1000), len: 8192 }, "snapshot of 8192 zeros at 0x1000"),
            (Record::Omitted { addr: Addr(0x3000), len: 4096 }, "snapshot without 4096 bytes at 0x3000"),
            (Record::Reach { addr: Addr(0x40000000), len: 32 }, "reach of 32 bytes from 0x40000000"),
            (Record::Note { text: "tab\there" }, "note: tab\\there"),
            (Record::End { delta, reason: signal, regs }, "end at 0x1000: killed by SIGSEGV, SEGV_MAPERR, address 0x8"),
        ];
        for (record, line) in lines {
            assert_eq!(super::record(&record), line);
        }
    }
}
