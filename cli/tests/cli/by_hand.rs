//! Logs made by hand: of one process with a page of code, and threads that run it.

use bugnet_format::code::{PAGE, encode_header, encode_page};
use bugnet_format::folder::{CODE_FILE, Ending, Machine, Meta, interval_file, process_folder, thread_folder};
use bugnet_format::frame::{IntervalHeader, encode_frame};
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::{COMPARED_FLAGS, RegisterFile};
use bugnet_format::types::{Addr, CodeSeq, Epoch, IntervalNo, Pid, Tid};
use std::fs;
use std::path::Path;

pub const PID: u32 = 4711;
pub const CODE: u64 = 0x40_1000;

/// `recording.json` of a program that exited.
pub fn meta() -> Meta {
    Meta {
        format_version: bugnet_format::FORMAT_VERSION,
        bugnet_version: "0.0.0".into(),
        program: "/bin/made".into(),
        args: vec!["made".into()],
        cwd: "/".into(),
        started: 1,
        machine: Machine::default(),
        interval: 1000,
        keep: 0,
        check_every: 0,
        cpu_level: "x86-64-v2".into(),
        pid: Some(PID),
        ending: Ending::Exited { status: 0 },
        follow: true,
        chaos: None,
        light: false,
        contents: None,
    }
}

pub fn info() -> ProcessInfo {
    ProcessInfo {
        parent: 1,
        origin: Origin::Start,
        began: 1,
        program: "/bin/made".into(),
        args: vec!["made".into()],
        unrecorded: None,
    }
}

pub fn registers(rip: u64) -> RegisterFile {
    RegisterFile { rip, rflags: 0x202 & COMPARED_FLAGS, rflags_known: COMPARED_FLAGS, ..RegisterFile::default() }
}

pub fn end(delta: u64, rip: u64) -> Record<'static> {
    Record::End { delta, reason: EndReason::Exit { status: 0 }, regs: Box::new(registers(rip)) }
}

/// Writes a log of threads with these ids, with these records of their only interval behind the checkpoint.
pub fn write(log: &Path, meta: &Meta, info: &ProcessInfo, code: &[u8], threads: &[(u32, Vec<Record<'_>>)]) {
    let process = log.join(process_folder(Pid(PID)));
    fs::create_dir_all(&process).unwrap();
    meta.write(log).unwrap();
    info.write(&process).unwrap();
    let mut page = [0; PAGE];
    page[..code.len()].copy_from_slice(code);
    let (mut pages, mut file) = (Vec::new(), encode_header().to_vec());
    encode_page(CodeSeq(1), Addr(CODE), &page, &mut pages);
    encode_frame(0, &pages, 1, &mut file).unwrap();
    fs::write(process.join(CODE_FILE), file).unwrap();
    for (sequence, (tid, records)) in threads.iter().enumerate() {
        let mut stream = Vec::new();
        Record::Checkpoint { tsc: 1, unix_nanos: 2, regs: Box::new(registers(CODE)) }.encode(&mut stream);
        records.iter().for_each(|record| record.encode(&mut stream));
        let header = IntervalHeader {
            pid: Pid(PID),
            tid: Tid(*tid),
            interval: IntervalNo(0),
            sequence: sequence as u64,
            code_seq: CodeSeq(1),
            instructions_before: 0,
            epoch: Epoch(0),
            epoch_before: Epoch(0),
        };
        let mut file = header.encode().to_vec();
        encode_frame(0, &stream, 1, &mut file).unwrap();
        let thread = process.join(thread_folder(Tid(*tid)));
        fs::create_dir(&thread).unwrap();
        fs::write(thread.join(interval_file(IntervalNo(0))), file).unwrap();
    }
}
