use super::*;
use crate::backtrace::Found;
use crate::symbols::{ModulePlace, Place, SourceFrame, Symbol};
use crate::testing::{LogBuilder, PID, THREAD, fake_tools, say};
use bugnet_format::control::{Counts, Response};
use bugnet_format::record::{LoadValue, RegisterUpdates};
use bugnet_format::types::{Addr, Tid};
use std::path::Path;

const CODE: Addr = Addr(0x40_1000);
const RIP: u64 = CODE.0 + 0x10;
const STACK: u64 = 0x7ffe_0000;

/// Registers of a thread that is about to execute `mov rcx, qword ptr [rax+8]` with RAX = 0.
fn regs() -> RegisterFile {
    let mut regs = RegisterFile { rip: RIP, rflags: 0x246, fs_base: 0x7000_1000, ..RegisterFile::default() };
    regs.gpr = std::array::from_fn(|number| 0x1111 * number as u64);
    regs.gpr[4] = STACK;
    regs.gpr[5] = STACK + 0x10;
    regs
}

fn write(arg: u64, text: &'static [u8], stream: OutputStream) -> [Record<'static>; 2] {
    let (result, args) = (text.len() as i64, [arg, 0x5000, text.len() as u64, 0, 0, 0]);
    let updates = RegisterUpdates::default();
    [
        Record::SyscallData { arg: 1, bytes: text },
        Record::Syscall { delta: 5, number: 1, result, args, stream, order: 0, updates },
    ]
}

/// A log of two intervals: the first is full, the second ends in a crash by `mov rcx, [rax+8]`.
fn log(reason: EndReason) -> LogBuilder {
    let full = Record::End { delta: 1, reason: EndReason::Full, regs: Box::new(regs()) };
    let mut first = write(1, b"to output\n", OutputStream::Stdout).to_vec();
    first.push(full);
    let mut second = write(2, b"to error\n", OutputStream::Stderr).to_vec();
    second.push(Record::Load { delta: 10, ordinal: 0, offset: 0, value: LoadValue::new(b"12345678") });
    let stack: Vec<u8> = [0, 0, 0, CODE.0 + 0x20].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    second.push(Record::Snapshot { addr: Addr(STACK), bytes: &stack });
    second.push(Record::End { delta: 8, reason, regs: Box::new(regs()) });
    let mut code = [0x90; 0x20];
    code[0x10..0x14].copy_from_slice(&[0x48, 0x8b, 0x48, 0x08]);
    LogBuilder::new().code(CODE, &code).interval(&regs(), &first).interval(&regs(), &second)
}

fn fault() -> EndReason {
    EndReason::Signal { signo: 11, code: 1, addr: Addr(8) }
}

#[test]
fn a_report_from_the_log_alone() {
    let builder = log(fault());
    let log = builder.open();
    assert_eq!(crashes(&log).unwrap(), [THREAD]);
    let report = report(None, &log, THREAD, Limits::default()).unwrap().unwrap();
    assert_eq!((report.interval, report.position.0, report.instructions), (IntervalNo(1), 23, 1023));
    assert_eq!((report.signal.name.as_str(), report.signal.code_name), ("SIGSEGV", Some("SEGV_MAPERR")));
    assert_eq!(report.signal.address, Some(8));
    let instruction = report.instruction.unwrap();
    assert_eq!(instruction.text, "mov rcx, [rax+8]");
    assert_eq!(instruction.bytes, "48 8b 48 08");
    assert_eq!(instruction.accesses, [Access { access: "read", address: 8, size: 8 }]);
    // By the frame pointer and the stack that the log holds: the caller, which is in executed code.
    let frames: Vec<_> = report.backtrace.iter().map(|frame| (frame.pc, frame.found)).collect();
    assert_eq!(frames, [(RIP, Found::Registers), (CODE.0 + 0x20, Found::FramePointer)]);
    let calls: Vec<String> = report.calls.iter().map(ToString::to_string).collect();
    assert_eq!(calls, [r#"write(1, "to output\n", 10) = 10"#, r#"write(2, "to error\n", 9) = 9"#]);
    assert!(report.output.is_empty() && report.missing.len() == 1, "{:?}", report.missing);
}

#[test]
fn limits_hold() {
    let builder = log(fault());
    let limits = Limits { calls: 1, output: 0, threads: 0, tracked: 0 };
    let report = report(None, &builder.open(), THREAD, limits).unwrap().unwrap();
    assert_eq!(report.calls.len(), 1);
    assert_eq!(report.calls[0].interval, IntervalNo(1));
}

#[test]
fn output_comes_from_replay() {
    let builder = log(fault());
    let output = |stream, text: &str| say(&Response::Output { stream, bytes: text.into() });
    let stop = Stop::End;
    let stopped = Response::Stopped {
        stop,
        thread: 0,
        at: 23,
        time: 23,
        hit: None,
        regs: Box::new(regs()),
        counts: Counts::default(),
        written: None,
    };
    // Each process answers its first request with both kinds of output; 7 bytes are the shortest request to run.
    let script = [
        say(&Response::Ready),
        "head -c 7 <&4 >/dev/null".into(),
        output(OutputStream::Stdout, "one "),
        output(OutputStream::Stdout, "two\n"),
        output(OutputStream::Stderr, "three\n"),
        say(&stopped),
        "exec sleep 100".into(),
    ];
    let folder = tempfile::tempdir().unwrap();
    let tools = fake_tools(folder.path(), &script.join("\n"));
    let limits = Limits { output: 18, tracked: 0, ..Limits::default() };
    let report = report(Some(&tools), &builder.open(), THREAD, limits).unwrap().unwrap();
    assert!(report.missing.iter().all(|missing| missing.starts_with("zeros")), "{:?}", report.missing);
    let output: Vec<_> = report.output.iter().map(|o| (o.stream, o.text.as_str())).collect();
    // 18 bytes from the end: all of the second interval's 14, and 4 of the first's.
    let (out, err) = (OutputStream::Stdout, OutputStream::Stderr);
    assert_eq!(output, [(err, "ree\n"), (out, "one two\n"), (err, "three\n")]);
}

#[test]
fn a_failing_replay_costs_only_what_needs_it() {
    let builder = log(fault());
    let folder = tempfile::tempdir().unwrap();
    let tools = fake_tools(folder.path(), "exit 7");
    let report = report(Some(&tools), &builder.open(), THREAD, Limits::default()).unwrap().unwrap();
    assert_eq!(report.backtrace.len(), 2);
    assert_eq!(report.missing.len(), 2);
    assert!(report.missing[1].contains("ended with status 7"), "{:?}", report.missing);
}

#[test]
fn other_ends_are_no_crashes() {
    let builder = log(EndReason::Exit { status: 1 });
    let log = builder.open();
    assert!(crashes(&log).unwrap().is_empty());
    assert_eq!(report(None, &log, THREAD, Limits::default()).unwrap(), None);
    let nobody = ThreadId { tid: Tid(PID + 1), ..THREAD };
    assert!(report(None, &log, nobody, Limits::default()).unwrap_err().to_string().contains("not in the log"));
}

#[test]
fn general_protection_tells_the_address_by_the_operand() {
    let builder = log(EndReason::Signal { signo: 11, code: libc::SI_KERNEL, addr: Addr(0) });
    let report = report(None, &builder.open(), THREAD, Limits::default()).unwrap().unwrap();
    assert_eq!(report.signal.address, None);
    assert_eq!(report.instruction.unwrap().accesses[0].address, 8);
}

#[test]
fn the_text_is_stable() {
    let module = Some(ModulePlace { path: "/usr/bin/story".into(), offset: 0x1010 });
    let symbol = |name: &str| Some(Symbol { name: name.into(), offset: 0x10 });
    let source = |function: &str, line| SourceFrame {
        function: Some(function.into()),
        file: Some("/src/story.c".into()),
        line: Some(line),
        column: None,
    };
    let frame = |pc, found, place| Frame { pc, found, place, scopes: vec![] };
    let lines = vec![source("value_of", 12), source("parse_line", 31)];
    let report = CrashReport {
        headline: "SIGSEGV reading 0x8".into(),
        command: vec!["./story".into(), "in.txt".into()],
        thread: THREAD,
        interval: IntervalNo(3),
        position: Position(23),
        instructions: 300_023,
        signal: Signal {
            number: 11,
            name: "SIGSEGV".into(),
            code: 1,
            code_name: Some("SEGV_MAPERR"),
            meaning: Some("nothing is mapped at the address"),
            address: Some(8),
        },
        instruction: Some(Instruction {
            divisor: None,
            address: RIP,
            bytes: "48 8b 48 08".into(),
            text: "mov rcx, [rax+8]".into(),
            accesses: vec![Access { access: "read", address: 8, size: 8 }],
        }),
        registers: regs(),
        backtrace: vec![
            frame(RIP, Found::Registers, Place { module: module.clone(), symbol: symbol("parse_line"), source: lines }),
            frame(0x40_1234, Found::Tables, Place { module: module.clone(), symbol: symbol("main"), source: vec![] }),
            frame(0x40_1300, Found::FramePointer, Place { module, ..Place::default() }),
            frame(0x7000_0000, Found::StackTop, Place::default()),
        ],
        own: None,
        source: None,
        before: vec![],
        waiting: None,
        calls: vec![Call {
            interval: IntervalNo(2),
            position: Position(9),
            call: r#"open("/nowhere", O_RDONLY, 00)"#.into(),
            result: Some("-1 ENOENT (No such file or directory)".into()),
        }],
        others: vec![],
        output: vec![
            Output { stream: OutputStream::Stdout, text: "reading\nin.txt\n".into() },
            Output { stream: OutputStream::Stderr, text: "warning\n".into() },
        ],
        missing: vec!["memory beside the stack: the replay process ended".into()],
    };
    let text = report.to_string();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/crash/golden.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap(), "write it anew with BLESS=1 if it is better");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["signal"]["code_name"], "SEGV_MAPERR");
    assert_eq!(json["backtrace"][0]["source"][0]["line"], 12);
    assert_eq!(json["tid"], PID);
}
