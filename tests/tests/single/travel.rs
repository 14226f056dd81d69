//! Going through recorded executions in both directions: wherever one goes, and from wherever, registers and memory are those of a
//! straight run.

use anyhow::{Context, Result, bail, ensure};
use bugnet_format::regs::{RSP, RegisterFile};
use bugnet_format::types::Addr;
use bugnet_replay::cursor::{Conditions, Cursor, Direction, Event, Place, Seek, Stopped, WatchedRange};
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Job, Workshop, binary, bugnet, printed, run, source_tree};
use bugnet_tests::sample::some_of;
use bugnet_tests::small::build_named;
use bugnet_tests::threaded::programs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// How much is compared.
#[derive(Clone, Copy)]
struct Campaign {
    /// Places of the straight run with which others are compared.
    places: usize,
    /// Moves that are made between them.
    moves: usize,
    /// Whether all memory of which something is known is compared as well.
    all_memory: bool,
}

/// For every test run.
const SHORT: Campaign = Campaign { places: 60, moves: 150, all_memory: false };
/// For long runs.
const LONG: Campaign = Campaign { places: 300, moves: 10_000, all_memory: true };

/// What there is to see at a time.
#[derive(Debug, PartialEq)]
struct Seen {
    place: Place,
    regs: RegisterFile,
    /// Nothing of a byte that is not known.
    stack: Vec<Option<u8>>,
    others: Vec<(Place, RegisterFile)>,
    /// The pages of which something is known, with a hash of their bytes, if they were looked at.
    pages: Vec<(u64, u64)>,
}

fn look(cursor: &mut Cursor<'_>, all_memory: bool) -> Result<Seen> {
    let (place, regs) = (cursor.place(), cursor.regs().clone());
    let stack = cursor.read_known(Addr(regs.gpr[RSP] & !63), 256)?;
    let mut others: Vec<_> = cursor.threads()?.into_iter().map(|thread| (thread.place, thread.regs)).collect();
    others.retain(|(other, _)| other.tid != place.tid);
    let mut pages = Vec::new();
    if all_memory {
        for page in cursor.known_pages()? {
            let mut hasher = DefaultHasher::new();
            cursor.read_known(Addr(page), Addr::PAGE)?.hash(&mut hasher);
            pages.push((page, hasher.finish()));
        }
    }
    Ok(Seen { place, regs, stack, others, pages })
}

/// Records a program, and opens its log.
fn with_log(
    name: &str,
    command: impl FnOnce(&Workshop) -> Result<Vec<String>>,
    options: &[&str],
    check: impl FnOnce(&Tools, &Log) -> Result<()>,
) -> Result<()> {
    let workshop = Workshop::new(name)?;
    let command = command(&workshop)?;
    let path = workshop.path.join("log");
    let recorded = run(&mut Job::new(&workshop.path, command.iter().map(String::as_str)).recorded(&path, options)?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let tools = Tools::locate_for(&binary()?, None)?;
    check(&tools, &Log::open(&path)?)?;
    workshop.done()
}

/// Random moves between places of a straight run, by time, by position and by single steps.
fn moves_agree(tools: &Tools, log: &Log, campaign: Campaign) -> Result<()> {
    let Campaign { places, moves, all_memory } = campaign;
    let pid = log.processes()?.last().context("no process")?.0;
    let mut random = fastrand::Rng::with_seed(4711);
    let mut cursor = Cursor::open(tools, log, pid)?;
    let end = cursor.end();
    ensure!(end > 10_000, "a program of {end} instructions");
    let mut seen = BTreeMap::new();
    let mut times: Vec<u64> = (0..places).map(|_| random.u64(0..end)).chain([0, 1, end - 1, end]).collect();
    // Neighbours, for steps.
    times.extend(times.clone().iter().map(|time| (time + 1).min(end)));
    times.sort_unstable();
    times.dedup();
    for time in &times {
        cursor.seek(Seek::Time(*time))?;
        ensure!(cursor.time() == *time, "asked for {time}, at {}", cursor.time());
        seen.insert(*time, look(&mut cursor, all_memory)?);
    }
    for number in 0..moves {
        let time = times[random.usize(0..times.len())];
        let wanted = &seen[&time];
        let how = random.u8(0..4);
        match how {
            0 if time < end && seen.contains_key(&(time + 1)) => {
                cursor.seek(Seek::Time(time + 1))?;
                cursor.step(Direction::Backward)?;
            }
            1 if time > 0 && seen.contains_key(&(time - 1)) => {
                cursor.seek(Seek::Time(time - 1))?;
                cursor.step(Direction::Forward)?;
            }
            // Another thread may be the next one at the same position.
            2 if time < end => {
                cursor.seek(Seek::Place(wanted.place))?;
            }
            _ => {
                cursor.seek(Seek::Time(time))?;
            }
        }
        ensure!(cursor.time() == time, "move {number} ({how}) went to {} and not to {time}", cursor.time());
        let found = look(&mut cursor, all_memory)?;
        ensure!(found == *wanted, "move {number} ({how}) to {time}: {found:#?}\nand not {wanted:#?}");
    }
    Ok(())
}

#[test]
fn moves_through_a_calculator_agree_with_a_straight_run() -> Result<()> {
    let command = |workshop: &Workshop| {
        std::fs::write(workshop.path.join("sums.bc"), "for (i = 0; i < 300; i++) s += i ^ 3 / 7\ns\n")?;
        Ok(["/usr/bin/bc", "sums.bc"].map(str::to_owned).to_vec())
    };
    with_log("travel-bc", command, &["--interval", "100k"], |tools, log| moves_agree(tools, log, SHORT))
}

#[test]
fn moves_through_threads_agree_with_a_straight_run() -> Result<()> {
    for (name, args) in some_of(2, [("barriers", "20"), ("lock_ping_pong", "200")]) {
        let command = |workshop: &Workshop| {
            let programs = programs()?;
            let program = programs.iter().find(|program| program.name == name).context("no such program")?;
            let binary = program.build("O1", &workshop.path)?;
            Ok(vec![binary.to_string_lossy().into_owned(), args.to_owned()])
        };
        with_log(&format!("travel-{name}"), command, &["--interval", "50k"], |tools, log| {
            moves_agree(tools, log, SHORT)
        })?;
    }
    Ok(())
}

/// What one epoch has left in the code cache is used in earlier and later ones, as far as it is the same code.
#[test]
fn moves_through_code_that_changes_agree_with_a_straight_run() -> Result<()> {
    for name in some_of(2, ["mapped_anew", "libraries_in_turn"]) {
        let command = |workshop: &Workshop| {
            let program = build_named(&format!("code/{name}.c"), &["-ldl"], &workshop.path)?;
            Ok(vec![program.to_string_lossy().into_owned()])
        };
        with_log(&format!("travel-{name}"), command, &["--interval", "20k"], |tools, log| {
            moves_agree(tools, log, SHORT)
        })?;
    }
    Ok(())
}

#[test]
#[ignore = "takes minutes: make soak"]
fn ten_thousand_moves_through_one_thread() -> Result<()> {
    let command = |workshop: &Workshop| {
        std::fs::write(workshop.path.join("sums.bc"), "for (i = 0; i < 1000; i++) s += i ^ 3 / 7\ns\n")?;
        Ok(["/usr/bin/bc", "sums.bc"].map(str::to_owned).to_vec())
    };
    with_log("travel-long", command, &["--interval", "100k"], |tools, log| moves_agree(tools, log, LONG))
}

#[test]
#[ignore = "takes minutes: make soak"]
fn ten_thousand_moves_through_four_threads() -> Result<()> {
    let command = |workshop: &Workshop| {
        let programs = programs()?;
        let program = programs.iter().find(|program| program.name == "kernel_fft").context("no such program")?;
        let binary = program.build("O1", &workshop.path)?;
        Ok(vec![binary.to_string_lossy().into_owned(), "4".to_owned(), "64".to_owned()])
    };
    with_log("travel-long-threads", command, &["--interval", "50k"], |tools, log| {
        let pid = log.processes()?.last().context("no process")?.0;
        let threads = log.threads().filter(|thread| thread.pid == pid).count();
        ensure!(threads >= 4, "{threads} threads");
        moves_agree(tools, log, LONG)
    })
}

/// From wherever a run begins, wherever the cursor was before, it meets the first of those that a straight run met there.
fn first_from_anywhere(cursor: &mut Cursor<'_>, conditions: &Conditions, straight: &[u64]) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(15);
    let behind = u64::from(!conditions.ranges.is_empty());
    for _ in 0..40 {
        let met = straight[random.usize(0..straight.len())] + behind;
        let from = random.u64(met.saturating_sub(3000)..met);
        cursor.seek(Seek::Time(from))?;
        let expected = straight.iter().map(|time| time + behind).find(|time| *time > from);
        while let Stopped::Condition(Event::Outside { .. }) = cursor.run(Direction::Forward, conditions)? {}
        ensure!(expected == Some(cursor.time()), "from {from}: at {}, and not at {expected:?}", cursor.time());
    }
    Ok(())
}

#[test]
fn what_is_met_forwards_is_met_backwards() -> Result<()> {
    let command = |workshop: &Workshop| {
        std::fs::write(workshop.path.join("sums.bc"), "for (i = 0; i < 60; i++) s += i ^ 3 / 7\ns\n")?;
        Ok(["/usr/bin/bc", "sums.bc"].map(str::to_owned).to_vec())
    };
    with_log("travel-conditions", command, &["--interval", "100k"], |tools, log| {
        let pid = log.processes()?.last().context("no process")?.0;
        let mut cursor = Cursor::open(tools, log, pid)?;
        let end = cursor.end();
        // An instruction in the middle, and a word on the stack there.
        cursor.seek(Seek::Time(end / 2))?;
        let (rip, rsp) = (cursor.regs().rip, cursor.regs().gpr[RSP]);
        let range = WatchedRange { addr: rsp - 64, len: 72, reads: false, writes: true, changes: false };
        let conditions = [
            Conditions { addresses: vec![rip], ..Conditions::default() },
            Conditions { ranges: vec![range], ..Conditions::default() },
            Conditions { all_calls: true, ..Conditions::default() },
        ];
        for conditions in conditions {
            let is_access = !conditions.ranges.is_empty();
            let mut forwards = Vec::new();
            cursor.seek(Seek::Start)?;
            loop {
                match cursor.run(Direction::Forward, &conditions)? {
                    Stopped::Condition(Event::Outside { .. }) => {}
                    Stopped::Condition(_) => forwards.push(cursor.time() - u64::from(is_access)),
                    Stopped::End => break,
                    other => bail!("forwards: {other:?}"),
                }
                ensure!(forwards.len() < 100_000, "no end");
            }
            ensure!(!forwards.is_empty(), "{conditions:?} never held");
            first_from_anywhere(&mut cursor, &conditions, &forwards)?;
            let mut backwards = Vec::new();
            cursor.seek(Seek::End)?;
            // Of many, the last ones.
            while backwards.len() < 60 {
                match cursor.run(Direction::Backward, &conditions)? {
                    Stopped::Condition(Event::Outside { .. }) => {}
                    Stopped::Condition(_) => backwards.push(cursor.time()),
                    Stopped::Start => break,
                    other => bail!("backwards: {other:?}"),
                }
            }
            forwards.reverse();
            forwards.truncate(backwards.len());
            ensure!(forwards == backwards, "{conditions:?}: {forwards:?} and {backwards:?}");
        }
        Ok(())
    })
}

/// What a command prints of a log.
fn says(args: &[&str], log: &Path) -> Result<String> {
    let output = bugnet(args.iter().map(Path::new).chain([log]))?;
    ensure!(output.status.success(), "{args:?}: {}\n{}", output.status, printed(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn from_a_crash_to_the_store_that_caused_it() -> Result<()> {
    let workshop = Workshop::new("travel-crash")?;
    let (source, program) = (source_tree().join("tests/programs/travel/overwritten.c"), workshop.path.join("program"));
    let compiled = run(Command::new("gcc").args(["-g", "-O1", "-o"]).arg(&program).arg(&source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    let log = workshop.path.join("log");
    let recorded = run(&mut Job::new(&workshop.path, [&*program.to_string_lossy()]).recorded(&log, &[])?)?;
    ensure!(recorded.status.signal() == Some(11), "{}", printed(&recorded));
    std::fs::remove_file(&program)?;
    // The developer knows neither the program nor its surroundings: only the log.
    let at_end: Value = serde_json::from_str(&says(&["at", "end", "--json"], &log)?)?;
    let regs = &at_end["registers"];
    let wild = regs["gpr"].as_array().context("registers")?.iter().filter_map(Value::as_u64);
    ensure!(wild.into_iter().any(|value| value == 0x4141_4141_4141_4141), "no wild pointer in {regs}");
    let text = says(&["at", "--full", "end"], &log)?;
    let argument = |name: &str, text: &str| -> Option<String> {
        let line = text.lines().find(|line| line.contains(&format!(" {name} = 0x")))?;
        Some(line.rsplit_once(' ')?.1.to_owned())
    };
    let first = argument("first", &text).with_context(|| text.clone())?;
    let found = says(&["last-write", &format!("{first}:8")], &log)?;
    ensure!(found.contains("make at"), "{found}");
    let victim = argument("victim", &text).with_context(|| text.clone())?;
    let found = says(&["last-write", &format!("{victim}:16")], &log)?;
    ensure!(found.contains("overwrite at"), "{found}");
    ensure!(found.contains("after   41 41 41 41 41 41 41 41 41 41 41 41 41 41 41 41"), "{found}");
    let place = found.lines().next().context("no line")?;
    // What was printed can be pasted.
    let there = says(&["at", place], &log)?;
    ensure!(there.starts_with(&format!("at {place} ")) && there.contains("overwrite at"), "{there}");
    // The other half of it, and what was there before.
    let half = says(&["last-write", &format!("{victim}:16"), "--before", place], &log)?;
    ensure!(half.contains("overwrite at"), "{half}");
    let place = half.lines().next().context("no line")?;
    let before = says(&["last-write", &format!("{victim}:16"), "--before", place], &log)?;
    ensure!(before.contains("make at"), "{before}");
    let nothing = says(&["last-write", "0x10000:4"], &log)?;
    ensure!(nothing.starts_with("Nothing in the recording wrote there"), "{nothing}");
    workshop.done()
}

#[test]
fn what_a_system_call_wrote_is_told_from_stores() -> Result<()> {
    let workshop = Workshop::new("travel-outside")?;
    let (source, program) = (source_tree().join("tests/programs/travel/read_over.c"), workshop.path.join("program"));
    let compiled = run(Command::new("gcc").args(["-g", "-O1", "-o"]).arg(&program).arg(&source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    let log = workshop.path.join("log");
    let recorded = run(&mut Job::new(&workshop.path, [&*program.to_string_lossy()]).recorded(&log, &[])?)?;
    let text = String::from_utf8_lossy(&recorded.stdout).into_owned();
    let address = text.trim().split_once(' ').context("no address")?.0.to_owned();
    let found = says(&["last-write", &format!("{address}:4")], &log)?;
    ensure!(found.contains("Not an instruction of the process"), "{found}");
    ensure!(found.contains("before  73 74 6f 72") && found.contains("after   72 65 61 64"), "{found}");
    workshop.done()
}
