//! Moving through a recording in `bugnet debug`, as people do, with gdb in between: what is measured is what they wait for.

use super::Plan;
use super::gdb::{Answer, Gdb};
use super::moment::{Moment, Random};
use super::questions::{Column, Question, Series};
use anyhow::{Context, Result, ensure};
use bugnet_format::types::Addr;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::index::Index;
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::binary;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// How far back a breakpoint is to be, in instructions.
const FAR: u64 = 5_000_000_000;
/// Where random positions come from.
const SEED: u64 = 20_261_123;
/// How often a byte is looked for of which something is known.
const TRIES: usize = 200;

/// A gdb on a recording.
struct Session {
    gdb: Gdb,
    here: Moment,
}

impl Session {
    /// Starts it; it begins at the end. Also returns how long that took.
    fn open(log: &Path) -> Result<(Self, f64)> {
        let mut command = Command::new(binary()?);
        command.arg("debug").arg(log).args(["--", "-nx", "-i=mi3"]);
        let (gdb, first) = Gdb::start(command)?;
        let here = Moment::find(&first.text)?;
        ensure!(here.time == here.end, "the first prompt is at {here:?} and not at the end");
        Ok((Self { gdb, here }, first.seconds))
    }

    fn when(&mut self) -> Result<Moment> {
        Moment::find(&self.gdb.console("when")?.text)
    }

    /// Goes somewhere, in the words of `seek`.
    fn go(&mut self, to: &str) -> Result<f64> {
        let answer = self.gdb.console(&format!("seek {to}"))?;
        self.here = Moment::find(&answer.text)?;
        Ok(answer.seconds)
    }

    fn seek(&mut self, time: u64) -> Result<f64> {
        let seconds = self.go(&format!("@{time}"))?;
        ensure!(self.here.time == time, "asked for @{time}, at {:?}", self.here);
        Ok(seconds)
    }

    fn step(&mut self, back: bool) -> Result<f64> {
        let answer = self.gdb.run(if back { "-exec-step-instruction --reverse" } else { "-exec-step-instruction" })?;
        ensure!(answer.record.contains("reason=\"end-stepping-range\""), "a step {}", answer.record.trim_end());
        Ok(answer.seconds)
    }
}

/// The first prompt of so many sessions.
pub fn prompt(log: &Path, runs: usize) -> Series {
    let mut series = Series::default();
    for _ in 0..runs {
        series.add(Session::open(log).and_then(|(session, seconds)| session.gdb.end().map(|()| seconds)));
    }
    series
}

/// Seeks, and steps after them.
///
/// # Errors
/// There is no session.
pub fn moves(log: &Path, plan: Plan, column: &mut Column) -> Result<()> {
    let (mut session, _) = Session::open(log)?;
    let (mut random, end) = (Random::new(SEED), session.here.end);
    let [mut seek, mut step, mut back, mut back_at_once] = [(); 4].map(|()| Series::default());
    let deadline = plan.deadline();
    for time in random.times(plan.positions(), end).into_iter().take_while(|_| Instant::now() < deadline) {
        if !seek.add(session.seek(time)) {
            continue;
        }
        let (forth_and_back, here) = (there_and_back(&mut session), session.here.clone());
        match forth_and_back {
            Ok((forward, backward, back_at, forward_at)) => {
                step.add(if forward_at == here.time + 1 {
                    Ok(forward)
                } else {
                    Err(anyhow::anyhow!("from {here:?} one step leads to @{forward_at}"))
                });
                back.add(if back_at == here {
                    Ok(backward)
                } else {
                    Err(anyhow::anyhow!("from {here:?} a step there and one back lead to {back_at:?}"))
                });
            }
            Err(error) => {
                let why = format!("at {here:?}: {error:#}");
                step.add(Err(anyhow::anyhow!(why.clone())));
                back.add(Err(anyhow::anyhow!(why)));
            }
        }
    }
    let deadline = plan.deadline();
    for time in random.times(plan.positions(), end).into_iter().take_while(|_| Instant::now() < deadline) {
        if !seek.add(session.seek(time)) {
            continue;
        }
        let here = session.here.clone();
        let result = session.step(true).and_then(|seconds| {
            let at = session.when()?;
            ensure!(at.is_one_before(&here), "it leads to {at:?}");
            Ok(seconds)
        });
        let result = result.with_context(|| format!("a step back from {here:?}"));
        back_at_once.add(result);
    }
    session.gdb.end()?;
    column.set(Question::Seek, seek.median());
    column.set(Question::SeekWorst, seek.worst());
    column.set(Question::Step, step.median());
    column.set(Question::StepBack, back.median());
    column.set(Question::StepBackAfterSeek, back_at_once.worst());
    column.keep(Question::Seek, &seek);
    column.keep(Question::Step, &step);
    column.keep(Question::StepBack, &back);
    column.keep(Question::StepBackAfterSeek, &back_at_once);
    Ok(())
}

/// How long a step took and one back, where that led, and the time to which another step led.
fn there_and_back(session: &mut Session) -> Result<(f64, f64, Moment, u64)> {
    // Nothing is asked in between: gdb would forget what it has just read.
    let forward = session.step(false)?;
    let backward = session.step(true)?;
    let back_at = session.when()?;
    session.step(false)?;
    Ok((forward, backward, back_at, session.when()?.time))
}

/// A byte, and what it is at a time.
struct Byte {
    time: u64,
    addr: u64,
    value: u8,
}

/// Random bytes of those that are known at random times: of pages that are in use then, or were before.
fn bytes(tools: &Tools, log: &Log, plan: Plan) -> Result<Vec<Byte>> {
    let pid = log.last_of_first_process()?.context("no process")?;
    let mut cursor = Cursor::open(tools, log, pid)?;
    cursor.use_index(Index::find(log, pid)?.context("there is no index")?)?;
    let mut random = Random::new(SEED + 1);
    let mut times = random.times(plan.bytes(), cursor.end());
    times.sort_unstable();
    let number = times.len();
    let (mut pages, mut bytes) = (BTreeSet::new(), Vec::new());
    for time in times {
        cursor.seek(Seek::Time(time))?;
        pages.extend(cursor.known_pages()?);
        let all: Vec<u64> = pages.iter().copied().collect();
        for _ in 0..TRIES.min(all.len() * TRIES) {
            let page = all[random.below(all.len() as u64) as usize];
            let at = random.below(Addr::PAGE);
            if let [Some(value)] = cursor.read_known(Addr(page + at), 1)?[..] {
                bytes.push(Byte { time, addr: page + at, value });
                break;
            }
        }
    }
    ensure!(bytes.len() * 2 > number, "a known byte was found at {} of {number} times", bytes.len());
    random.shuffle(&mut bytes);
    Ok(bytes)
}

/// What wrote bytes last.
///
/// # Errors
/// There is no session, or no byte is known.
pub fn last_writes(tools: &Tools, log: &Log, plan: Plan, column: &mut Column) -> Result<()> {
    let bytes = bytes(tools, log, plan)?;
    let (mut session, _) = Session::open(log.path())?;
    let mut series = Series::default();
    let deadline = plan.deadline();
    for byte in bytes.iter().take_while(|_| Instant::now() < deadline) {
        series.add(last_write(&mut session, byte, column));
    }
    session.gdb.end()?;
    column.set(Question::LastWrite, series.median());
    column.set(Question::LastWriteWorst, series.worst());
    column.keep(Question::LastWrite, &series);
    Ok(())
}

fn last_write(session: &mut Session, byte: &Byte, column: &mut Column) -> Result<f64> {
    let Byte { time, addr, value } = byte;
    session.seek(*time)?;
    let Answer { text, seconds, .. } = session.gdb.console(&format!("last-write {addr:#x}:1"))?;
    let at = session.when()?;
    ensure!(at == session.here, "last-write has moved from @{time} to {at:?}");
    let kind = if text.contains("Nothing in the recording wrote there") {
        "unknown"
    } else if text.contains("No instruction wrote it") {
        "found"
    } else if text.contains("Not an instruction of the process") {
        "outside"
    } else {
        "instruction"
    };
    if kind == "instruction" {
        ensure!(
            text.contains(&format!("  after   {value:02x}\n")),
            "{addr:#x} is {value:02x} at @{time}, and last-write says:\n{text}"
        );
        let place = text.split_whitespace().next().context("last-write says nothing")?.to_owned();
        session.go(&place)?;
        let written = session.here.time;
        ensure!(written < *time, "the last write of {addr:#x} before @{time} is at @{written}");
    }
    *column.writes.entry(kind).or_default() += 1;
    Ok(seconds)
}

/// Back to a breakpoint that was hit last long ago: the program's entry.
pub fn back_to_breakpoint(log: &Path, runs: usize, column: &mut Column) {
    let mut series = Series::default();
    for _ in 0..runs {
        // In a session of its own: what an earlier one has found does not count.
        series.add(back_once(log, column));
    }
    column.set(Question::BackToBreakpoint, series.median());
    column.keep(Question::BackToBreakpoint, &series);
}

fn back_once(log: &Path, column: &mut Column) -> Result<f64> {
    let (mut session, _) = Session::open(log)?;
    let files = session.gdb.console("info files")?.text;
    let entry = files.split_once("Entry point: ").and_then(|(_, rest)| rest.lines().next());
    let entry = entry.context("gdb knows no entry point")?.trim().to_owned();
    session.go("start")?;
    session.gdb.console(&format!("break *{entry}"))?;
    let hit = |answer: &Answer| {
        ensure!(answer.record.contains("reason=\"breakpoint-hit\""), "no breakpoint: {}", answer.record.trim_end());
        Ok(())
    };
    hit(&session.gdb.run("-exec-continue")?)?;
    let first = session.when()?;
    let distance = FAR.min(first.end - first.time);
    session.seek(first.time + distance)?;
    let answer = session.gdb.run("-exec-continue --reverse")?;
    hit(&answer)?;
    let found = session.when()?;
    ensure!(found == first, "the entry was hit at {first:?}, and backwards at {found:?}");
    session.gdb.end()?;
    column.distance = distance;
    Ok(answer.seconds)
}
