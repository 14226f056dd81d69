//! Records as JSON, for `bugnet dump --json`.
//!
//! A line is `{"pid", "program", "tid", "interval", "offset", "position", "record": {"kind", ...}}`. Numbers are decimal, bytes
//! are hexadecimal strings with the lowest address first, register updates an object from name to value.

use bugnet_format::record::{Placed, Record, RegisterUpdates, register_number};
use bugnet_format::regs::GPR_NAMES;
use bugnet_replay::log::IntervalId;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// A record with its place.
pub fn line(id: IntervalId, placed: &Placed<'_>) -> Value {
    json!({
        "pid": id.thread.pid.pid,
        "program": id.thread.pid.program,
        "tid": id.thread.tid,
        "interval": id.interval,
        "offset": placed.offset,
        "position": placed.position,
        "record": record(&placed.record),
    })
}

fn record(record: &Record<'_>) -> Value {
    match record {
        Record::Checkpoint { tsc, unix_nanos, regs } => {
            json!({ "kind": "checkpoint", "tsc": tsc, "unix_nanos": unix_nanos, "regs": regs })
        }
        Record::Check { rflags_known, hash, .. } => {
            json!({ "kind": "check", "rflags_known": rflags_known, "hash": format!("{hash:016x}") })
        }
        Record::Load { ordinal, offset, value, .. } => {
            json!({ "kind": "load", "ordinal": ordinal, "offset": offset, "value": hex(value.iter()) })
        }
        Record::Registers { updates, .. } => json!({ "kind": "registers", "updates": self::updates(updates) }),
        Record::Signal { step, number, regs, .. } => {
            json!({ "kind": "signal", "step": step, "number": number, "regs": regs })
        }
        Record::Syscall { number, result, args, stream, order, updates, .. } => json!({
            "kind": "syscall",
            "number": number,
            "result": result,
            "args": args,
            "stream": stream,
            "order": order,
            "updates": self::updates(updates),
        }),
        Record::Special { kind, updates, .. } => {
            json!({ "kind": "special", "instruction": kind, "updates": self::updates(updates) })
        }
        Record::Memory { addr, bytes, .. } => json!({ "kind": "memory", "addr": addr, "bytes": hex_of(bytes) }),
        Record::Code { seq, .. } => json!({ "kind": "code", "seq": seq }),
        Record::Dependency { kind, block, other, other_interval, other_position, implied, .. } => json!({
            "kind": "dependency",
            "dependency": kind,
            "block": block,
            "other": other,
            "other_interval": other_interval,
            "other_position": other_position,
            "implied": implied,
        }),
        Record::SyscallData { arg, bytes } => json!({ "kind": "syscall-data", "arg": arg, "bytes": hex_of(bytes) }),
        Record::Snapshot { addr, bytes } => json!({ "kind": "snapshot", "addr": addr, "bytes": hex_of(bytes) }),
        Record::Zeros { addr, len } => json!({ "kind": "zeros", "addr": addr, "len": len }),
        Record::Omitted { addr, len } => json!({ "kind": "omitted", "addr": addr, "len": len }),
        Record::Reach { addr, len } => json!({ "kind": "reach", "addr": addr, "len": len }),
        Record::Note { text } => json!({ "kind": "note", "text": text }),
        Record::End { reason, regs, .. } => json!({ "kind": "end", "end": reason, "regs": regs }),
    }
}

fn hex_of(bytes: &[u8]) -> String {
    hex(bytes.iter().copied())
}

fn hex(bytes: impl Iterator<Item = u8>) -> String {
    bytes.fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn updates(updates: &RegisterUpdates) -> Value {
    let named = updates.values.iter().map(|&(number, value)| (register_name(number), value.into()));
    Value::Object(named.collect::<Map<_, _>>())
}

fn register_name(number: u8) -> String {
    match number {
        register_number::RIP => "rip".into(),
        register_number::RFLAGS => "rflags".into(),
        register_number::FS_BASE => "fs_base".into(),
        register_number::GS_BASE => "gs_base".into(),
        other => GPR_NAMES.get(usize::from(other)).map_or_else(|| format!("register {other}"), |name| (*name).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::record::{EndReason, LoadValue, OutputStream, SpecialKind};
    use bugnet_format::regs::RegisterFile;
    use bugnet_format::types::{Addr, IntervalNo, Pid, Position, Tid};
    use bugnet_replay::log::ThreadId;

    #[test]
    fn a_line() {
        let id = IntervalId { thread: ThreadId { pid: Pid(7).into(), tid: Tid(8) }, interval: IntervalNo(9) };
        let record = Record::Load { delta: 3, ordinal: 1, offset: 2, value: LoadValue::new(&[0xab, 0]) };
        let placed = Placed { offset: 40, position: Position(30), record };
        let expected = json!({
            "pid": 7, "program": 0, "tid": 8, "interval": 9, "offset": 40, "position": 30,
            "record": { "kind": "load", "ordinal": 1, "offset": 2, "value": "ab00" },
        });
        assert_eq!(line(id, &placed), expected);
    }

    #[test]
    fn kinds() {
        let rax = RegisterUpdates { values: vec![(0, 5), (register_number::FS_BASE, 6)] };
        let expected = json!({ "rax": 5, "fs_base": 6 });
        let special = Record::Special { delta: 0, kind: SpecialKind::Cpuid, updates: rax.clone() };
        assert_eq!(record(&special), json!({ "kind": "special", "instruction": "cpuid", "updates": expected }));
        let stream = OutputStream::Stdout;
        let syscall = Record::Syscall { delta: 0, number: 1, result: -5, args: [1; 6], stream, order: 8, updates: rax };
        assert_eq!(record(&syscall)["stream"], "stdout");
        assert_eq!(record(&syscall)["result"], -5);
        assert_eq!(record(&syscall)["order"], 8);
        let memory = Record::Memory { delta: 0, addr: Addr(16), bytes: b"\x01\xff" };
        assert_eq!(record(&memory), json!({ "kind": "memory", "addr": 16, "bytes": "01ff" }));
        let regs = Box::new(RegisterFile { rip: 77, ..RegisterFile::default() });
        let end = Record::End { delta: 0, reason: EndReason::Exit { status: 3 }, regs };
        assert_eq!(record(&end)["end"], json!({ "reason": "exit", "status": 3 }));
        assert_eq!(record(&end)["regs"]["rip"], 77);
    }
}
