//! Races, atomicity violations and deadlocks: those that the programs of `programs/races` and `programs/deadlocks` have are found, each at its
//! lines, and no other ones; and none that cannot be explained in programs that people use.
//!
//! The first lines of a program say what is to be found:
//!
//! | line | meaning |
//! |---|---|
//! | `race: NAME` | races on this variable, or what its description ends with; there may be several |
//! | `benign: WHY` | each race may do no harm, for this reason |
//! | `torn: PATTERN NAME` | an atomicity violation |
//! | `deadlock: NAME...`, `cycle: NAME...` | the locks of a deadlock, or of a cycle that did not close, with ", " between |
//! | `flags: ...` | further arguments for the compiler |
//! | `recorded: ...` | options of `bugnet record`; there may be several |
//!
//! Lines of which accesses race end with `/* RACE */`, those of a violation with `/* TORN */`; where locks of a deadlock or cycle are taken, and
//! where they are wanted, with `/* HOLDS */` and `/* WAITS */`.

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, Workshop, built, must_pass, printed, run, source_tree};
use bugnet_tests::faulty::{Fails, Program as Faulty};
use bugnet_tests::sample::one_of;
use bugnet_tests::threaded::{self, Threaded};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A program, and what its source says of it.
struct Program {
    source: PathBuf,
    text: String,
}

impl Program {
    fn name(&self) -> String {
        self.source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn said(&self, key: &str) -> Vec<&str> {
        let comments = self.text.lines().map_while(|line| line.strip_prefix("// "));
        comments.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).collect()
    }

    fn marked(&self, mark: &str) -> BTreeSet<u64> {
        let mark = format!("/* {mark} */");
        (1..).zip(self.text.lines()).filter(|(_, line)| line.ends_with(&mark)).map(|(number, _)| number).collect()
    }

    fn build(&self, folder: &Path) -> Result<PathBuf> {
        if let [name] = self.said("built")[..] {
            return Ok(built(name));
        }
        let program = folder.join("program");
        let extension = self.source.extension().unwrap_or_default();
        let (compiler, options): (_, &[&str]) = match extension.to_str() {
            Some("rs") => ("rustc", &["-g", "--edition=2024"]),
            Some("c") => ("gcc", &["-O1", "-g", "-pthread", "-Wall"]),
            _ => ("g++", &["-O1", "-g", "-pthread", "-Wall"]),
        };
        let mut compiler = Command::new(compiler);
        compiler.args(options).arg(&self.source).arg("-o").arg(&program);
        compiler.args(self.said("flags").iter().flat_map(|flags| flags.split_whitespace()));
        let output = run(&mut compiler)?;
        ensure!(output.status.success(), "{}", printed(&output));
        Ok(program)
    }

    /// The ways in which it is recorded: options.
    fn ways(&self) -> Vec<Vec<&str>> {
        let ways = self.said("recorded");
        if ways.is_empty() { vec![Vec::new()] } else { ways.iter().map(|way| way.split(' ').collect()).collect() }
    }

    /// Builds it, records it with these options, and runs a command on the log, which stays.
    fn found(&self, workshop: &Workshop, options: &[&str], command: &str) -> Result<Value> {
        let (program, log) = (self.build(&workshop.path)?, workshop.path.join("log"));
        let job = Job::new(&workshop.path, [program.to_string_lossy()]);
        let output = run(&mut job.recorded(&log, options)?)?;
        let expected = if self.said("deadlock").is_empty() { None } else { Some(libc::SIGALRM) };
        ensure!(output.status.signal() == expected, "{}\n{}", output.status, printed(&output));
        ensure!(expected.is_some() || output.status.success(), "{}\n{}", output.status, printed(&output));
        Ok(serde_json::from_slice(&must_pass(&[command, "--json"], &log)?.stdout)?)
    }

    /// The line of an access or call, if it is one of the program's own.
    fn line(&self, spot: &Value) -> Option<u64> {
        (Path::new(spot["file"].as_str()?) == self.source).then(|| spot["line"].as_u64())?
    }
}

/// Whether replay processes look at accesses or each is followed, the report is the same, but for how many are looked at: the processes tell the first and
/// the last ones of those that are made again and again. If the order of segments is looked for first, so is what is found, of fewer lines.
fn must_be_same(log: &Path) -> Result<()> {
    let found = |options: &[&str]| Looked::new(&must_pass(&[&["races", "--json"], options].concat(), log)?.stdout);
    let [all, ordered] = [found(&[])?, found(&["--segments"])?];
    let [all_followed, ordered_followed] = [found(&["--follow"])?, found(&["--segments", "--follow"])?];
    // By how many accesses are told, it is decided whether the order of segments is looked for; what it leaves out is not looked at.
    if all.lines_left_out() == all_followed.lines_left_out() {
        all.must_be(&all_followed)?;
    }
    ordered.must_be(&ordered_followed)?;
    for other in [&all_followed, &ordered] {
        ensure!(all.found() == other.found(), "{:#}\nother: {:#}", all.json, other.json);
    }
    Ok(())
}

/// What `bugnet races --json` printed.
struct Looked {
    json: Value,
    /// How many accesses it has looked at, and how many of them were atomic: each that is made again in a turn may be left out.
    accesses: [u64; 2],
}

impl Looked {
    fn new(printed: &[u8]) -> Result<Self> {
        let mut json: Value = serde_json::from_slice(printed)?;
        let looked = json["looked"].as_object_mut().context("no counts")?;
        let mut taken = |key| looked.remove(key).and_then(|count| count.as_u64()).context("no count");
        let accesses = [taken("accesses")?, taken("atomic")?];
        Ok(Self { json, accesses })
    }

    /// Of how many lines it knows by segments alone that nothing is wrong.
    fn lines_left_out(&self) -> &Value {
        &self.json["looked"]["ordered_lines"]
    }

    /// All but counts of what it has looked at.
    fn found(&self) -> (Vec<&Value>, &Value) {
        let keys = ["pid", "threads", "races", "more_races", "violations", "more_violations"];
        (keys.map(|key| &self.json[key]).into(), &self.json["looked"]["instructions"])
    }

    /// The same as if it had followed each instruction, with no more accesses.
    fn must_be(&self, followed: &Self) -> Result<()> {
        ensure!(self.json == followed.json, "looked at: {:#}\nfollowed: {:#}", self.json, followed.json);
        let [here, there] = [self.accesses, followed.accesses];
        ensure!(here[0] <= there[0] && here[1] <= there[1], "{here:?} accesses, followed {there:?}");
        Ok(())
    }
}

/// The same of a job, recorded with these options. How it ends does not matter.
fn same(name: &str, options: &[&str], job: impl FnOnce(&Path) -> Result<Job>) -> Result<()> {
    let workshop = Workshop::new(&format!("races-same-{name}{}", options.concat()))?;
    let log = workshop.path.join("log");
    let output = run(&mut job(&workshop.path)?.recorded(&log, options)?)?;
    ensure!(log.exists(), "{}", printed(&output));
    must_be_same(&log)?;
    workshop.done()
}

fn same_of_threaded(program: &Threaded, options: &[&str]) -> Result<()> {
    same(&program.name, options, |folder| {
        let built = program.build("O1", folder)?.to_string_lossy().into_owned();
        Ok(Job::new(folder, std::iter::once(built).chain(program.test.iter().cloned())))
    })
}

/// A program that accesses much of what its threads share, and in an order: that order is looked for by itself.
fn large(program: &Threaded) -> Result<()> {
    let workshop = Workshop::new("races-large")?;
    let log = workshop.path.join("log");
    let built = program.build("O1", &workshop.path)?.to_string_lossy().into_owned();
    let mut job = Job::new(&workshop.path, [built.as_str(), "2", "192"]).recorded(&log, &[])?;
    let output = run(&mut job)?;
    ensure!(output.status.success(), "{}", printed(&output));
    let found: Value = serde_json::from_slice(&must_pass(&["races", "--json"], &log)?.stdout)?;
    ensure!(list(&found, "races")?.is_empty() && list(&found, "violations")?.is_empty(), "{found:#}");
    let [lines, accesses] = ["ordered_lines", "accesses"].map(|key| found["looked"][key].as_u64().unwrap_or_default());
    ensure!(lines > 1000 && accesses < 100_000, "{found:#}");
    must_be_same(&log)?;
    let said = printed(&must_pass(&["races"], &log)?);
    ensure!(said.contains(&format!("{lines} more lines that threads share")), "{said}");
    workshop.done()
}

/// A program whose threads access the same again and again in long turns: of what they access, little is told, and the races are the same.
fn repeats(program: &Faulty) -> Result<()> {
    let workshop = Workshop::new("races-repeats")?;
    let log = workshop.path.join("log");
    let [built, _] = program.build("-O1", &workshop.path)?;
    let job = Job::new(&workshop.path, [&*built.to_string_lossy(), "4", "40000"]);
    let output = run(&mut job.recorded(&log, &[])?)?;
    ensure!(output.status.success(), "{}", printed(&output));
    let found = |more: &[&str]| -> Result<Value> {
        Ok(serde_json::from_slice(&must_pass(&[&["races", "--json"], more].concat(), &log)?.stdout)?)
    };
    let (told, followed) = (found(&[])?, found(&["--follow"])?);
    let count = |found: &Value, key: &str| found["looked"][key].as_u64().context("no count");
    let own = |found: &Value| anyhow::Ok(count(found, "accesses")? - count(found, "internal")?);
    ensure!(own(&told)? > 0 && own(&told)? * 10 < own(&followed)?, "told: {told:#}\nfollowed: {followed:#}");
    ensure!(!list(&told, "races")?.is_empty() && told["races"] == followed["races"], "{told:#}\n{followed:#}");
    workshop.done()
}

fn same_of_faulty(program: &Faulty) -> Result<()> {
    same(&program.name(), &[], |folder| {
        let [wrong, right] = program.build("-O1", folder)?;
        let built = if program.fails == Fails::Hang { right } else { wrong };
        Ok(program.job(&built, &program.run, folder))
    })
}

fn list<'a>(of: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    of[key].as_array().with_context(|| format!("no {key} in {of}"))
}

/// A name without what is said of its bytes.
fn variable(found: &Value) -> &str {
    let name = found["variable"].as_str().unwrap_or("no name");
    name.split_once(" (byte").map_or(name, |(name, _)| name)
}

/// The position is that of the access: its line is the one where a cursor is there.
fn must_be_there(access: &Value, log: &Path) -> Result<()> {
    let place = position(&access["place"])?;
    let there: Value = serde_json::from_slice(&must_pass(&["at", &place, "--json"], log)?.stdout)?;
    ensure!(there["time"] == access["time"], "{place} is at {}, not at {}", there["time"], access["time"]);
    let line = &there["backtrace"][0]["source"][0]["line"];
    ensure!(access["spot"]["line"].is_null() || *line == access["spot"]["line"], "{place} is in line {line}");
    Ok(())
}

fn position(place: &Value) -> Result<String> {
    let part = |key: &str| place[key].as_u64().with_context(|| format!("no {key} in {place}"));
    Ok(format!("{}/{}/{}", part("tid")?, part("interval")?, part("position")?))
}

/// Races and violations are those that the program says, and no other ones.
fn races(program: &Program) -> Result<()> {
    program.ways().iter().try_for_each(|options| races_if(program, options).with_context(|| options.join(" ")))
}

fn races_if(program: &Program, options: &[&str]) -> Result<()> {
    let workshop = Workshop::new(&format!("races-{}", program.name()))?;
    let log = workshop.path.join("log");
    let found = program.found(&workshop, options, "races")?;
    let expected = program.said("race");
    let mut lines = BTreeSet::new();
    for race in list(&found, "races")? {
        let name = variable(race);
        let is_it =
            |expected: &&&str| name == **expected || race["variable"].as_str().is_some_and(|v| v.contains(**expected));
        ensure!(expected.iter().any(|one| is_it(&one)), "a race on {name}: {race:#}");
        for benign in program.said("benign") {
            ensure!(list(race, "benign")?.iter().any(|why| why == benign), "it is not {benign}: {race:#}");
        }
        for side in [&race["first"], &race["second"]] {
            lines.extend(program.line(&side["spot"]));
            must_be_there(side, &log)?;
        }
    }
    for expected in &expected {
        let is_it = |race: &Value| race["variable"].as_str().is_some_and(|name| name.contains(expected));
        ensure!(list(&found, "races")?.iter().any(is_it), "no race on {expected}: {found:#}");
    }
    ensure!(lines == program.marked("RACE"), "races in the lines {lines:?}: {found:#}");
    torn(program, &found, &log)?;
    workshop.done()
}

/// However they are looked for, they are the same.
fn same_races(program: &Program) -> Result<()> {
    program.ways().iter().try_for_each(|options| {
        let workshop = Workshop::new(&format!("races-same-{}", program.name()))?;
        program.found(&workshop, options, "races")?;
        must_be_same(&workshop.path.join("log"))?;
        workshop.done()
    })
}

fn torn(program: &Program, found: &Value, log: &Path) -> Result<()> {
    let (mut lines, mut all) = (BTreeSet::new(), BTreeSet::new());
    for violation in list(found, "violations")? {
        let pattern = violation["pattern"].as_str().context("no pattern")?;
        all.insert(format!("{pattern} {}", variable(violation)));
        for access in list(violation, "accesses")? {
            lines.extend(program.line(&access["spot"]));
            must_be_there(access, log)?;
        }
    }
    let expected: BTreeSet<String> = program.said("torn").into_iter().map(ToOwned::to_owned).collect();
    // Where accesses race, they may be torn apart, too, as chance has it.
    let races = !program.said("race").is_empty();
    ensure!(races || all == expected, "violations: {all:?}: {found:#}");
    ensure!(races || lines == program.marked("TORN"), "violations in the lines {lines:?}: {found:#}");
    Ok(())
}

fn deadlocks(program: &Program) -> Result<()> {
    let workshop = Workshop::new(&format!("deadlocks-{}", program.name()))?;
    let found = program.found(&workshop, &[], "deadlocks")?;
    let waits = list(&found, "waits")?;
    let (mut closed, mut cycles) = (Vec::new(), Vec::new());
    let (mut holds, mut wants) = (BTreeSet::new(), BTreeSet::new());
    let name = |name: &Value| name.as_str().unwrap_or("no name").to_owned();
    for circle in list(&found, "deadlocks")? {
        let mut names = BTreeSet::new();
        for wait in circle.as_array().context("no circle")? {
            let wait = &waits[wait.as_u64().context("no index")? as usize];
            names.insert(name(&wait["name"]));
            wants.extend(program.line(&wait["since"]["spot"]));
            for holder in list(wait, "holders")? {
                holds.extend(program.line(&holder["since"][1]["spot"]));
            }
        }
        closed.push(names);
    }
    for cycle in list(&found, "cycles")? {
        let mut names = BTreeSet::new();
        for step in list(cycle, "steps")? {
            names.insert(name(&step["held"][2]));
            holds.extend(program.line(&step["since"]["spot"]));
            wants.extend(program.line(&step["at"]["spot"]));
        }
        cycles.push(names);
    }
    let said = |key: &str| -> Vec<BTreeSet<String>> {
        let split = |names: &str| names.split(", ").map(ToOwned::to_owned).collect();
        program.said(key).into_iter().map(split).collect()
    };
    ensure!(closed == said("deadlock"), "deadlocks of {closed:?}: {found:#}");
    ensure!(cycles == said("cycle"), "cycles of {cycles:?}: {found:#}");
    ensure!(holds == program.marked("HOLDS") && wants == program.marked("WAITS"), "{holds:?}, {wants:?}: {found:#}");
    ensure!(found["unknown"] == 0, "calls of unknown locks: {found:#}");
    workshop.done()
}

/// A program that people use, with threads: nothing races, and no lock is taken in different orders.
fn real(name: &str, command: &[&str]) -> Result<()> {
    let workshop = Workshop::new(&format!("races-of-{name}"))?;
    let data: Vec<u8> =
        (0..400_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761) >> 20).to_le_bytes()).collect();
    fs::write(workshop.path.join("data"), data)?;
    let log = workshop.path.join("log");
    let output = run(&mut Job::new(&workshop.path, command.iter().copied()).recorded(&log, &[])?)?;
    ensure!(output.status.success(), "{}", printed(&output));
    let found: Value = serde_json::from_slice(&must_pass(&["races", "--json"], &log)?.stdout)?;
    ensure!(found["threads"].as_u64().is_some_and(|threads| threads > 1), "it has no threads");
    ensure!(found["looked"]["accesses"].as_u64().is_some_and(|count| count > 100), "nothing was looked at: {found:#}");
    ensure!(list(&found, "races")?.is_empty(), "{found:#}");
    let found: Value = serde_json::from_slice(&must_pass(&["deadlocks", "--json"], &log)?.stdout)?;
    ensure!(list(&found, "deadlocks")?.is_empty() && list(&found, "cycles")?.is_empty(), "{found:#}");
    workshop.done()
}

/// One thread that no signal interrupted shares nothing, which takes no look at what it executed; one that a handler interrupted may.
fn alone() -> Result<()> {
    const NOTHING: &str = "there is no memory that two threads";
    let workshop = Workshop::new("races-of-one-thread")?;
    for (name, script, is_alone) in
        [("plain", "echo one", true), ("handler", "trap 'echo two' USR1; kill -USR1 $$; echo one", false)]
    {
        let log = workshop.path.join(name);
        let output = run(&mut Job::new(&workshop.path, ["/bin/bash", "-c", script]).recorded(&log, &[])?)?;
        ensure!(output.status.success(), "{}", printed(&output));
        let said = printed(&must_pass(&["races"], &log)?);
        ensure!(said.contains(NOTHING) == is_alone && said.contains("no races"), "{name}: {said}");
        let said = printed(&must_pass(&["deadlocks"], &log)?);
        ensure!(said.contains("no deadlocks at the end"), "{name}: {said}");
    }
    workshop.done()
}

fn programs(folder: &str) -> Result<Vec<Program>> {
    let folder = source_tree().join("tests/programs").join(folder);
    let mut programs = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let source = entry?.path();
        if source.extension().is_some_and(|extension| ["c", "cpp", "rs"].iter().any(|known| extension == *known)) {
            let text = fs::read_to_string(&source)?;
            programs.push(Program { source, text });
        }
    }
    programs.sort_by(|a, b| a.source.cmp(&b.source));
    if programs.is_empty() {
        bail!("no programs in {}", folder.display());
    }
    Ok(programs)
}

fn trial(name: String, test: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || test().map_err(|error| Failed::from(format!("{error:?}"))))
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let (mut racing, mut trials, mut same) = (Vec::new(), Vec::new(), Vec::new());
    for program in programs("races")?.into_iter().map(Arc::new) {
        let other = program.clone();
        racing.push(trial(format!("races::{}", program.name()), move || races(&program)));
        same.push(trial(format!("same::races::{}", other.name()), move || same_races(&other)));
    }
    for program in programs("deadlocks")? {
        trials.push(trial(format!("deadlocks::{}", program.name()), move || deadlocks(&program)));
    }
    for program in Faulty::all()?.into_iter().filter(|program| program.class == "parallel") {
        if program.name() == "tickets" {
            let program = program.clone();
            trials.push(trial("repeats::tickets".into(), move || repeats(&program)));
        }
        same.push(trial(format!("same::{}", program.name()), move || same_of_faulty(&program)));
    }
    for program in threaded::programs()? {
        // The last intervals alone, of programs whose threads end and begin, and that have handlers.
        if ["many_short_threads", "signals_to_threads", "barriers"].contains(&&*program.name) {
            let (program, options) = (program.clone(), ["--keep", "2", "--interval", "100000"]);
            same.push(trial(format!("same::kept::{}", program.name), move || same_of_threaded(&program, &options)));
        }
        if program.name == "kernel_lu" {
            let program = program.clone();
            trials.push(trial("large::kernel_lu".into(), move || large(&program)));
        }
        same.push(trial(format!("same::{}", program.name), move || same_of_threaded(&program, &[])));
    }
    let source = source_tree().join("tests/src/bin/parked.rs");
    let parked = Program { text: fs::read_to_string(&source)?, source };
    trials.push(trial("deadlocks::parked".into(), move || deadlocks(&parked)));
    trials.push(trial("real::pigz".into(), || real("pigz", &["/usr/bin/pigz", "-p", "2", "-k", "-c", "data"])));
    let xz = ["/usr/bin/xz", "-T2", "--block-size=500KiB", "-1", "-k", "-c", "data"];
    trials.push(trial("real::xz".into(), move || real("xz", &xz)));
    // Its threads wake each other by an eventfd, which they find by poll.
    trials.push(trial("real::gio".into(), || real("gio", &["/usr/bin/gio", "info", "data"])));
    trials.push(trial("real::alone".into(), alone));
    trials.extend(one_of(2, racing));
    trials.extend(one_of(7, same));
    Ok(trials)
}
