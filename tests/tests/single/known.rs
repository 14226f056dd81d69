//! What a cursor says of memory is true: whatever a program writes to its standard output was in its memory when it did, so there, each
//! byte is known to be what came out, or is not known.

use anyhow::{Context, Result, ensure};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::Addr;
use bugnet_replay::cursor::{Conditions, Cursor, Direction, Event, Origin, Seek, Stopped};
use bugnet_replay::index::Index;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Job, Workshop, binary, printed, run, source_tree, verify_and_index};
use bugnet_tests::sample::some_of;
use std::num::NonZeroUsize;
use std::process::Command;

/// Number of the system call.
const WRITE: u64 = 1;
/// Outputs at which memory is looked at.
const LOOKS: usize = 60;

/// A piece of output, when it was written, and where in memory it was then.
struct Output {
    time: u64,
    addr: u64,
    bytes: Vec<u8>,
}

/// How many bytes came from where.
#[derive(Debug, Default)]
struct Tally {
    present: usize,
    earlier: usize,
    later: usize,
    elsewhere: usize,
    unknown: usize,
}

impl Tally {
    fn known(&self) -> usize {
        self.present + self.earlier + self.later + self.elsewhere
    }
}

/// The writes to standard output.
fn outputs(cursor: &mut Cursor<'_>, mut printed: &[u8]) -> Result<Vec<Output>> {
    let conditions = Conditions { calls: vec![WRITE], ..Conditions::default() };
    let mut outputs = Vec::new();
    cursor.seek(Seek::Start)?;
    while cursor.run(Direction::Forward, &conditions)? == Stopped::Condition(Event::Call(WRITE)) {
        let RegisterFile { gpr, .. } = cursor.regs();
        let (descriptor, addr, len) = (gpr[7], gpr[6], gpr[2]);
        if descriptor == 1 && len > 0 {
            let (bytes, rest) = printed.split_at_checked(usize::try_from(len)?).context("more than was printed")?;
            outputs.push(Output { time: cursor.time(), addr, bytes: bytes.to_vec() });
            printed = rest;
        }
    }
    ensure!(printed.is_empty(), "{} bytes were written by something else", printed.len());
    Ok(outputs)
}

/// Looks at outputs in no order, before and behind the call.
fn look(cursor: &mut Cursor<'_>, outputs: &[Output]) -> Result<Tally> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut tally = Tally::default();
    for _ in 0..LOOKS {
        let Output { time, addr, bytes } = &outputs[random.usize(0..outputs.len())];
        cursor.seek(Seek::Time(time + u64::from(random.bool())))?;
        for piece in cursor.read_with_origin(Addr(*addr), bytes.len() as u64)? {
            let (from, len) = (usize::try_from(piece.addr - addr)?, usize::try_from(piece.len)?);
            let counter = match piece.origin {
                Origin::Present => &mut tally.present,
                Origin::Earlier { .. } => &mut tally.earlier,
                Origin::Later { .. } => &mut tally.later,
                Origin::Unknown => &mut tally.unknown,
                _ => &mut tally.elsewhere,
            };
            *counter += len;
            if piece.origin != Origin::Unknown {
                let truth = &bytes[from..from + len];
                let wrong = truth.iter().zip(&piece.bytes).position(|(a, b)| a != b);
                ensure!(
                    piece.bytes.len() == len && wrong.is_none(),
                    "at {}, {:#x} and {len} bytes behind are said to come from {:?}: byte {wrong:?} is wrong",
                    cursor.place(),
                    piece.addr,
                    piece.origin,
                );
            }
        }
    }
    Ok(tally)
}

/// Records a program, and looks at its outputs without an index and with one.
fn check(name: &str, command: &[&str], options: &[&str], workshop: &Workshop) -> Result<(Tally, Tally)> {
    let path = workshop.path.join(name);
    let recorded = run(&mut Job::new(&workshop.path, command.iter().copied()).recorded(&path, options)?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let (tools, log) = (Tools::locate_for(&binary()?, None)?, Log::open(&path)?);
    let pid = log.processes()?.last().context("no process")?.0;
    let mut cursor = Cursor::open(&tools, &log, pid)?;
    let outputs = outputs(&mut cursor, &recorded.stdout)?;
    ensure!(!outputs.is_empty(), "no output");
    let without = look(&mut cursor, &outputs)?;
    ensure!(Index::find(&log, pid)?.is_none(), "an index nobody made");
    verify_and_index(&path)?;
    cursor.use_index(Index::find(&log, pid)?.context("no index")?)?;
    let with = look(&mut cursor, &outputs)?;
    ensure!(with.known() >= without.known(), "{name}: {without:?} without an index, and {with:?} with one");
    Ok((without, with))
}

#[test]
fn a_program_that_prints_its_memory() -> Result<()> {
    let workshop = Workshop::new("known-dumps")?;
    let (source, program) = (source_tree().join("tests/programs/travel/dumps.c"), workshop.path.join("dumps"));
    let compiled = run(Command::new("gcc").args(["-O1", "-o"]).arg(&program).arg(&source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    let (without, with) = check("log", &[&*program.to_string_lossy()], &["--interval", "20k"], &workshop)?;
    // Each rule is put to the test.
    ensure!(with.present > 0 && with.earlier > 0 && with.later > 0 && with.unknown > 0, "{with:?}");
    ensure!(with.known() > 2 * without.known(), "{without:?} without an index, and {with:?} with one");
    workshop.done()
}

/// Memory at addresses of which the lower halves are the same, which marks have to tell apart.
#[test]
fn memory_whose_marks_would_collide() -> Result<()> {
    let workshop = Workshop::new("known-collisions")?;
    let (source, program) = (source_tree().join("tests/programs/travel/dumps.c"), workshop.path.join("dumps"));
    let compiled = run(Command::new("gcc").args(["-O1", "-o"]).arg(&program).arg(&source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    for buffers in some_of(2, ["2", "3", "4", "5"]) {
        let (_, with) = check(buffers, &[&*program.to_string_lossy(), buffers], &["--interval", "20k"], &workshop)?;
        ensure!(with.present > 0 && with.earlier > 0 && with.later > 0 && with.unknown > 0, "{buffers}: {with:?}");
    }
    workshop.done()
}

#[test]
fn programs_that_people_use() -> Result<()> {
    let workshop = Workshop::new("known-real")?;
    std::fs::write(workshop.path.join("sums.bc"), "for (i = 0; i < 200; i++) { s += i ^ 3 / 7; s }\n")?;
    let source = source_tree().join("Cargo.lock");
    let source = source.to_string_lossy();
    let gzip = ["gzip", "-9", "-c", &source];
    let python = ["/usr/bin/python3", "-c", "for i in range(300): print(i, 'x' * (i % 50))"];
    let programs = [("bc", &["/usr/bin/bc", "sums.bc"][..], "100k"), ("gzip", &gzip, "2M"), ("python", &python, "5M")];
    for (name, command, interval) in some_of(2, programs) {
        check(name, command, &["--interval", interval], &workshop)?;
    }
    workshop.done()
}

#[test]
fn an_index_that_does_not_fit_or_is_damaged_is_none() -> Result<()> {
    let workshop = Workshop::new("known-damaged")?;
    std::fs::write(workshop.path.join("sums.bc"), "for (i = 0; i < 50; i++) s += i ^ 3 / 7\ns\n")?;
    let path = workshop.path.join("log");
    let command = ["/usr/bin/bc", "sums.bc"];
    let recorded = run(&mut Job::new(&workshop.path, command).recorded(&path, &["--interval", "50k"])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let (tools, log) = (Tools::locate_for(&binary()?, None)?, Log::open(&path)?);
    let pid = log.processes()?.last().context("no process")?.0;
    let file = Index::make(&tools, &log, pid, NonZeroUsize::MIN, |_| {})?.path().to_owned();
    ensure!(file.starts_with(&path), "{file:?} is not beside the log");
    let whole = std::fs::read(&file)?;
    std::fs::write(&file, &whole[..whole.len() / 2])?;
    ensure!(Index::find(&log, pid)?.is_none(), "half an index counts");
    // Damage that is found when it is come upon.
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[64..middle].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&file, &damaged)?;
    let mut cursor = Cursor::open(&tools, &log, pid)?;
    cursor.use_index(Index::find(&log, pid)?.context("the directory is sound")?)?;
    cursor.seek(Seek::End)?;
    let stack = cursor.regs().gpr[4];
    ensure!(cursor.read_with_origin(Addr(stack & !0xfff), 4096).is_err(), "damage was believed");
    ensure!(!file.exists(), "a damaged index is kept");
    // Another log.
    std::fs::write(&file, &whole)?;
    std::fs::write(path.join("recording.json"), [&std::fs::read(path.join("recording.json"))?[..], b" "].concat())?;
    ensure!(Index::find(&Log::open(&path)?, pid)?.is_none(), "an index of another log counts");
    workshop.done()
}
