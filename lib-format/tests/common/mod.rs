//! A recording made by hand, with every kind of record, for tests and for the frozen sample.
#![allow(dead_code, reason = "each test uses a part")]

use bugnet_format::FORMAT_VERSION;
use bugnet_format::code::{self, CodeStore, PAGE};
use bugnet_format::folder::{self, Ending, Machine, Meta, Module};
use bugnet_format::frame::Interval as Decoded;
use bugnet_format::frame::{IntervalHeader, TailHeader, encode_frame};
use bugnet_format::package::{IntervalOutline, Outline, Segment, write_head};
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::record::{
    DependencyKind, EndReason, LoadValue, OutputStream, Record, RegisterUpdates, SignalStep, SpecialKind, encode_load,
    register_number,
};
use bugnet_format::regs::{RAX, RCX, RSP, RegisterFile};
use bugnet_format::types::{Addr, CodeSeq, Epoch, IntervalNo, Pid, Position, Tid};
use std::path::Path;

/// For an interval without tails.
pub const NO_TAILS: &[&[u8]] = &[];

/// Compression level of frames.
pub const LEVEL: i32 = 1;

/// A recording of one process, not yet written.
#[derive(Clone, Debug)]
pub struct Log {
    pub meta: Meta,
    pub process: ProcessInfo,
    pub modules: Vec<Module>,
    /// Addresses of the code store's pages; page number `n` is filled with the byte `n`.
    pub code: Vec<Addr>,
    pub threads: Vec<Thread>,
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub tid: Tid,
    pub intervals: Vec<Interval>,
    pub tail: Option<(TailHeader, Vec<Record<'static>>)>,
    pub tail2: Option<(TailHeader, Vec<Record<'static>>)>,
}

#[derive(Clone, Debug)]
pub struct Interval {
    pub header: IntervalHeader,
    pub frames: Vec<Vec<Record<'static>>>,
}

pub fn encode(records: &[Record<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    records.iter().for_each(|record| record.encode(&mut out));
    out
}

/// The file of an interval.
pub fn interval_file(header: &IntervalHeader, frames: &[Vec<Record<'_>>]) -> Vec<u8> {
    let mut file = header.encode().to_vec();
    for (number, records) in frames.iter().enumerate() {
        encode_frame(number as u32, &encode(records), LEVEL, &mut file).unwrap();
    }
    file
}

/// The file of a tail, with zero bytes behind as the logger's mapping has them.
pub fn tail_file(header: TailHeader, records: &[Record<'_>]) -> Vec<u8> {
    let mut file = header.encode().to_vec();
    file.extend(encode(records));
    file.resize(file.len().next_multiple_of(4096), 0);
    file
}

pub fn page(number: usize) -> [u8; PAGE] {
    [number as u8; PAGE]
}

/// The file of a code store: a frame a page.
pub fn code_file(pages: &[Addr]) -> Vec<u8> {
    let mut file = code::encode_header().to_vec();
    for (i, addr) in pages.iter().enumerate() {
        let mut bytes = Vec::new();
        code::encode_page(CodeSeq(i as u64 + 1), *addr, &page(i + 1), &mut bytes);
        encode_frame(i as u32, &bytes, LEVEL, &mut file).unwrap();
    }
    file
}

impl Log {
    /// Writes the folder of the recording.
    pub fn write(&self, folder: &Path) {
        let process = folder.join(folder::process_folder(Pid(self.meta.pid.unwrap())));
        std::fs::create_dir_all(&process).unwrap();
        self.meta.write(folder).unwrap();
        self.process.write(&process).unwrap();
        std::fs::write(process.join(folder::CODE_FILE), code_file(&self.code)).unwrap();
        let lines: String = self.modules.iter().map(|m| serde_json::to_string(m).unwrap() + "\n").collect();
        std::fs::write(process.join(folder::MODULES_FILE), lines).unwrap();
        for thread in &self.threads {
            let path = process.join(folder::thread_folder(thread.tid));
            std::fs::create_dir_all(&path).unwrap();
            for interval in &thread.intervals {
                let file = interval_file(&interval.header, &interval.frames);
                std::fs::write(path.join(folder::interval_file(interval.header.interval)), file).unwrap();
            }
            for (name, tail) in folder::TAIL_FILES.iter().zip([&thread.tail, &thread.tail2]) {
                if let Some((header, records)) = tail {
                    std::fs::write(path.join(name), tail_file(*header, records)).unwrap();
                }
            }
        }
    }
}

/// Registers with another value in each place; `seed` tells two sets apart.
pub fn registers(seed: u64) -> RegisterFile {
    let mut regs = RegisterFile { rip: 0x40_1000 + seed, fs_base: 0x7000_1000, ..RegisterFile::default() };
    regs.gpr[RAX] = seed;
    regs.gpr[RSP] = 0x7fff_ffff_e000 - 8 * seed;
    for (i, reg) in regs.ymm.iter_mut().enumerate() {
        *reg = [(seed as u8).wrapping_add(i as u8); 32];
    }
    for (i, reg) in regs.st.iter_mut().enumerate() {
        *reg = [(seed as u8).wrapping_mul(3).wrapping_add(i as u8); 10];
    }
    regs
}

fn boxed(seed: u64) -> Box<RegisterFile> {
    Box::new(registers(seed))
}

pub fn load(delta: u64, ordinal: u8, offset: u64, value: &'static [u8]) -> Record<'static> {
    Record::Load { delta, ordinal, offset, value: LoadValue::new(value) }
}

pub fn end(delta: u64, reason: EndReason, seed: u64) -> Record<'static> {
    Record::End { delta, reason, regs: boxed(seed) }
}

pub fn checkpoint(seed: u64) -> Record<'static> {
    Record::Checkpoint { tsc: 1000 + seed, unix_nanos: 1_800_000_000_000_000_000 + seed, regs: boxed(seed) }
}

/// A process of two threads that died by SIGSEGV: the first thread's log is whole, the other's was cut off.
pub fn sample() -> Log {
    let pid = Pid(4242);
    let header = |tid: u32, interval: u64, sequence: u64, code_seq: u64, instructions_before: u64| IntervalHeader {
        pid,
        tid: Tid(tid),
        interval: IntervalNo(interval),
        sequence,
        code_seq: CodeSeq(code_seq),
        instructions_before,
        epoch: Epoch(interval),
        epoch_before: Epoch(interval.saturating_sub(1)),
    };
    let check = registers(77);
    let check = Record::Check { delta: 10, rflags_known: check.rflags_known, hash: check.hash(check.rflags_known) };
    let first = vec![
        checkpoint(1),
        Record::Note { text: "recording begins" },
        Record::Code { delta: 0, seq: CodeSeq(2) },
        load(1, 0, 0, &[0x2a]),
        load(1, 1, 0, &[1, 2]),
        load(1, 2, 0, &[1, 2, 3, 4]),
        load(1, 3, 0, &[1, 2, 3, 4, 5, 6, 7, 8]),
        load(1, 0, 0, &[1, 0, 0, 0, 0, 0, 0, 0]),
        load(1, 0, 0, &[1, 2, 0, 0, 0, 0, 0, 0]),
        load(1, 0, 0, &[1, 2, 3, 4, 0, 0, 0, 0]),
        load(1, 0, 0, &[1, 0, 0, 0]),
        load(1, 0, 0, &[1, 2, 0, 0]),
        load(1, 0, 0, &[16; 16]),
        load(1, 0, 0, &[32; 32]),
        load(1, 15, 0, &[64; 64]),
        load(1, 0, 4, &[1, 2, 3]),
        load(0, 0, 300, &[9; 10]),
        load(0, 4, 0, &[5]),
        Record::Signal { delta: 1, step: SignalStep::Delivery, number: 14, regs: Box::new(registers(7)) },
        Record::Signal { delta: 1, step: SignalStep::Return, number: 0, regs: Box::new(registers(8)) },
        Record::Registers {
            delta: 2,
            updates: RegisterUpdates { values: vec![(RSP as u8, 0x7000), (register_number::RIP, 0x40_1040)] },
        },
    ];
    let second = vec![
        Record::SyscallData { arg: 1, bytes: b"hello" },
        Record::Syscall {
            delta: 3,
            number: 1,
            result: 5,
            args: [1, 0x7000_0000, 5, 0, 0, 0],
            stream: OutputStream::Stdout,
            order: 300,
            updates: RegisterUpdates::default(),
        },
        Record::Special {
            delta: 1,
            kind: SpecialKind::Rdtsc,
            updates: RegisterUpdates { values: vec![(RAX as u8, 17), (RCX as u8 + 1, 4)] },
        },
        Record::Special { delta: 1, kind: SpecialKind::OpaqueStore, updates: RegisterUpdates::default() },
        Record::Memory { delta: 1, addr: Addr(0x7000_0040), bytes: &[7; 40] },
        check,
        end(5, EndReason::Full, 2),
    ];
    let third = vec![
        checkpoint(2),
        load(0, 0, 0, &[1]),
        Record::Dependency {
            delta: 10,
            kind: DependencyKind::War,
            block: Addr(0x7000_0040),
            other: Tid(4243),
            other_interval: IntervalNo(0),
            other_position: Position(300),
            implied: 2,
        },
        Record::Code { delta: 90, seq: CodeSeq(3) },
        Record::Snapshot { addr: Addr(0x7fff_ffff_d000), bytes: &[3; 100] },
        Record::Zeros { addr: Addr(0x40_5000), len: 0x3000 },
        Record::Omitted { addr: Addr(0x7f00_0000_0000), len: 0x1000_0000 },
        Record::Reach { addr: Addr(0x7fc0_0000_0000), len: 0x4000_0000 },
        end(7, EndReason::Signal { signo: 11, code: 1, addr: Addr(8) }, 3),
    ];
    let other = vec![checkpoint(4), load(3, 0, 0, &[4, 5])];
    let rest = vec![load(200, 0, 0, &[6, 7, 8, 9]), Record::Note { text: "cut off soon" }];
    let length: u64 = first.iter().chain(&second).map(Record::delta).sum();
    Log {
        meta: Meta {
            format_version: FORMAT_VERSION,
            bugnet_version: "0.1.0".into(),
            program: "/usr/bin/sample".into(),
            args: vec!["sample".into(), "-x".into()],
            cwd: "/tmp".into(),
            started: 1_800_000_000,
            machine: Machine {
                kernel: "Linux 6.1".into(),
                cpu: "Any".into(),
                features: vec!["sse2".into(), "avx2".into()],
            },
            interval: 100_000_000,
            keep: 0,
            check_every: 0,
            cpu_level: "x86-64-v3".into(),
            pid: Some(pid.0),
            ending: Ending::Killed { signal: 11 },
            follow: true,
            chaos: None,
            light: false,
            contents: None,
        },
        process: ProcessInfo {
            parent: 4241,
            origin: Origin::Start,
            began: 1_800_000_000_000_000_000,
            program: "/usr/bin/sample".into(),
            args: vec!["sample".into(), "-x".into()],
            unrecorded: None,
        },
        modules: vec![Module {
            base: 0x40_0000,
            size: 0x4000,
            path: "/usr/bin/sample".into(),
            build_id: "00112233445566778899aabbccddeeff00112233".into(),
        }],
        code: vec![Addr(0x40_1000), Addr(0x40_2000), Addr(0x40_1000)],
        threads: vec![
            Thread {
                tid: Tid(4242),
                intervals: vec![
                    Interval { header: header(4242, 0, 0, 0, 0), frames: vec![first, second] },
                    Interval { header: header(4242, 1, 2, 2, length), frames: vec![third] },
                ],
                tail: None,
                tail2: None,
            },
            Thread {
                tid: Tid(4243),
                intervals: vec![Interval { header: header(4243, 0, 1, 2, 0), frames: vec![other] }],
                tail: Some((TailHeader { interval: IntervalNo(0), frame: 1 }, rest)),
                tail2: None,
            },
        ],
    }
}

/// A `LOAD` record's bytes.
pub fn load_bytes(delta: u64, ordinal: u8, offset: u64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_load(&mut out, delta, ordinal, offset, value);
    out
}

/// A package of these threads' intervals.
pub fn package(threads: &[(Tid, Vec<Decoded>)], code: &CodeStore, segments: &[Segment]) -> Vec<u8> {
    let outline = |(tid, intervals): &(Tid, Vec<Decoded>)| Outline {
        tid: *tid,
        unknown_from: u64::from(tid.0) + 1000,
        intervals: intervals.iter().map(IntervalOutline::of).collect(),
    };
    let mut out = Vec::new();
    write_head(&mut out, &threads.iter().map(outline).collect::<Vec<_>>(), code, CodeSeq(0), segments).unwrap();
    threads
        .iter()
        .flat_map(|(_, intervals)| intervals)
        .flat_map(Decoded::replayed)
        .for_each(|piece| out.extend_from_slice(piece));
    out
}
