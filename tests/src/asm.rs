//! Assembly cases: what a case expects (`asm_cases/case.inc` says how it is written), and what a log holds.

use crate::trace::Step;
use anyhow::{Context, Result, bail, ensure};
use bugnet_format::folder::Recording;
use bugnet_format::record::{EndReason, Record};
use object::{Object, ObjectSymbol};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An assembly case's source, read.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Processor features that it needs.
    pub cpu: Vec<String>,
    /// Further arguments for `bugnet record`.
    pub options: Vec<String>,
    /// What it expects of the log, in order.
    pub events: Vec<(Place, Event)>,
    /// Where exact replay ends, and why (as `bugnet dump --json` spells the reason), if that is not the exit.
    pub end: Option<(Place, String)>,
}

/// `LABEL#N`: the N-th execution of the instruction at a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The label.
    pub label: String,
    /// From 1.
    pub execution: usize,
}

/// An expected record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A memory read that needs a `LOAD`.
    Load {
        /// Which of the instruction's reads.
        ordinal: u8,
        /// The bytes that it reads.
        bytes: Vec<Byte>,
    },
    /// A `SPECIAL` of this kind, as serialised.
    Special(String),
}

/// What is expected of one byte of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Byte {
    /// Must be in the log, with this value.
    Logged(u8),
    /// Zero, which the picture may hold already.
    Zero,
    /// Anything.
    Any,
    /// A byte of a symbol's address: name, and number of the byte.
    AddressOf(String, u8),
}

fn place(text: &str) -> Result<Place> {
    let (label, execution) = match text.split_once('#') {
        Some((label, number)) => (label, number.parse().context("number behind #")?),
        None => (text, 1),
    };
    Ok(Place { label: label.to_owned(), execution })
}

fn bytes(tokens: &[&str]) -> Result<Vec<Byte>> {
    let mut out = Vec::new();
    for token in tokens {
        let (byte, times) = match token.split_once('*') {
            Some((byte, times)) => (byte, times.parse().context("number behind *")?),
            None => (*token, 1),
        };
        if let Some(symbol) = byte.strip_prefix("q:") {
            out.extend((0..8).map(|i| Byte::AddressOf(symbol.to_owned(), i)));
            continue;
        }
        if let Some(symbol) = byte.strip_prefix("d:") {
            out.extend((0..4).map(|i| Byte::AddressOf(symbol.to_owned(), i)));
            continue;
        }
        let value = |hex| u8::from_str_radix(hex, 16).with_context(|| format!("byte {byte:?}"));
        let byte = match byte.strip_prefix('!') {
            Some(hex) => Byte::Logged(value(hex)?),
            None if byte == ".." => Byte::Any,
            None => match value(byte)? {
                0 => Byte::Zero,
                value => Byte::Logged(value),
            },
        };
        out.extend(std::iter::repeat_n(byte, times));
    }
    ensure!(!out.is_empty(), "no bytes");
    Ok(out)
}

impl Case {
    /// Reads the comment lines of a case's source.
    ///
    /// # Errors
    /// A line that begins like one of them but cannot be understood.
    pub fn parse(source: &str) -> Result<Self> {
        let mut case = Self::default();
        for (number, line) in source.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let strings = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
            let at = || format!("line {}: {line}", number + 1);
            match words.as_slice() {
                ["#", "CPU", features @ ..] => case.cpu.extend(strings(features)),
                ["#", "RECORD", options @ ..] => case.options.extend(strings(options)),
                ["#", "EXPECT", "load", label, ordinal, tokens @ ..] => {
                    let ordinal = ordinal.parse().with_context(at)?;
                    let load = Event::Load { ordinal, bytes: bytes(tokens).with_context(at)? };
                    case.events.push((place(label).with_context(at)?, load));
                }
                ["#", "EXPECT", "special", label, kind] => {
                    case.events.push((place(label).with_context(at)?, Event::Special((*kind).to_owned())));
                }
                ["#", "EXPECT", "end", reason, label] => {
                    case.end = Some((place(label).with_context(at)?, (*reason).to_owned()));
                }
                ["#", "EXPECT", ..] => bail!("cannot read {}", at()),
                _ => {}
            }
        }
        Ok(case)
    }
}

/// Assembles and links a case into `folder`.
///
/// # Errors
/// There is no compiler, or it complains.
pub fn build(source: &Path, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("case");
    // `.include` looks in the working directory.
    let cases = source.parent().context("a case lies in a folder")?;
    let mut command = Command::new("gcc");
    command.args(["-nostdlib", "-static", "-no-pie", "-Wl,-z,separate-code", "-Wl,-z,noexecstack"]);
    command.arg("-o").arg(&program).arg(source).current_dir(cases);
    let output = crate::bugnet::run(&mut command)?;
    ensure!(output.status.success(), "assembling {}\n{}", source.display(), crate::bugnet::printed(&output));
    Ok(program)
}

/// The symbols of an ELF file: name to address.
///
/// # Errors
/// It cannot be read.
pub fn symbols(program: &Path) -> Result<HashMap<String, u64>> {
    let data = std::fs::read(program)?;
    let file = object::File::parse(&*data)?;
    Ok(file.symbols().filter_map(|s| Some((s.name().ok()?.to_owned(), s.address()))).collect())
}

/// What an interval holds of a read: all its `LOAD` records; or a `SPECIAL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The pieces `(offset, bytes)` that were logged of one read.
    Load {
        /// Which of the instruction's reads.
        ordinal: u8,
        /// Byte offset in the read, and the bytes.
        pieces: Vec<(u64, Vec<u8>)>,
    },
    /// Kind, as serialised.
    Special(String),
}

/// What a log of one interval holds.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Loads and specials with their positions, in order.
    pub events: Vec<(u64, Observed)>,
    /// System calls: position, number.
    pub syscalls: Vec<(u64, u64)>,
    /// Position and reason of the end.
    pub end: (u64, EndReason),
}

/// Reads a log that must consist of one interval of one thread.
///
/// # Errors
/// It does not, or it cannot be read.
pub fn read_log(log: &Path) -> Result<Logged> {
    let threads = Recording::open(log)?.threads()?;
    let [thread] = threads.as_slice() else { bail!("{} threads in the log, 1 expected", threads.len()) };
    let [interval] = thread.intervals.as_slice() else { bail!("{} intervals, 1 expected", thread.intervals.len()) };
    let interval = thread.interval(*interval)?;
    let mut logged = Logged { events: Vec::new(), syscalls: Vec::new(), end: (0, EndReason::Full) };
    for placed in interval.records() {
        let placed = placed.map_err(|e| anyhow::anyhow!("record at byte {}: {}", e.offset, e.reason))?;
        let position = placed.position.0;
        match placed.record {
            Record::Load { ordinal: number, offset, value, .. } => {
                let piece = (offset, value.to_vec());
                match logged.events.last_mut() {
                    Some((at, Observed::Load { ordinal, pieces })) if (*at, *ordinal) == (position, number) => {
                        pieces.push(piece);
                    }
                    _ => logged.events.push((position, Observed::Load { ordinal: number, pieces: vec![piece] })),
                }
            }
            Record::Special { kind, .. } => {
                let kind = serde_json::to_value(kind)?.as_str().unwrap_or_default().to_owned();
                logged.events.push((position, Observed::Special(kind)));
            }
            Record::Syscall { number, .. } => logged.syscalls.push((position, number)),
            Record::End { reason, .. } => logged.end = (position, reason),
            _ => {}
        }
    }
    ensure!(interval.complete, "the interval has no END");
    Ok(logged)
}

/// The name of an end's reason, as `EXPECT end` spells it.
#[must_use]
pub fn reason_name(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Full => "full",
        EndReason::Exit { .. } => "exit",
        EndReason::Signal { .. } => "signal",
        EndReason::Unsupported { .. } => "unsupported",
        EndReason::LogStopped { .. } => "log-stopped",
        EndReason::Exec => "exec",
        EndReason::Terminated => "terminated",
    }
}

/// Compares what a case expects with what was logged.
///
/// `steps` is the case's native execution, which gives positions to labels.
///
/// # Errors
/// Everything that differs, with labels.
pub fn compare(case: &Case, symbols: &HashMap<String, u64>, steps: &[Step], logged: &Logged) -> Result<()> {
    let position = |place: &Place| -> Result<u64> {
        let pc = symbols.get(&place.label).with_context(|| format!("no label {}", place.label))?;
        let executions = steps.iter().enumerate().filter(|(_, step)| step.pc == *pc);
        let (at, _) = executions.clone().nth(place.execution - 1).with_context(|| {
            format!("{} is executed {} times, not {}", place.label, executions.count(), place.execution)
        })?;
        Ok(at as u64)
    };
    let mut wrong = String::new();
    let (end, reason) = match &case.end {
        Some((place, reason)) => (position(place)?, reason.as_str()),
        None => (steps.len() as u64 - 1, "exit"),
    };
    if (logged.end.0, reason_name(&logged.end.1)) != (end, reason) {
        writeln!(wrong, "END at {} ({:?}), expected at {end} ({reason})", logged.end.0, logged.end.1)?;
    }
    let calls = steps.iter().enumerate().filter_map(|(at, step)| Some((at as u64, step.syscall?)));
    let calls: Vec<_> = calls.filter(|(at, _)| *at < end).collect();
    if calls != logged.syscalls {
        writeln!(wrong, "system calls (position, number): {:?}, expected {calls:?}", logged.syscalls)?;
    }
    let expected =
        case.events.iter().map(|(place, event)| Ok((position(place)?, place, event))).collect::<Result<Vec<_>>>()?;
    let label = |position: u64| -> String {
        let pc = steps.get(position as usize).map_or(0, |step| step.pc);
        let below = symbols.iter().filter(|(_, address)| **address <= pc).max_by_key(|(_, address)| **address);
        below.map_or_else(|| format!("{pc:#x}"), |(name, address)| format!("{name}+{:#x}", pc - address))
    };
    let mut log = logged.events.iter().peekable();
    for (at, place, event) in &expected {
        while let Some((early, observed)) = log.next_if(|(position, _)| position < at) {
            writeln!(wrong, "superfluous at {early} ({}): {observed:x?}", label(*early))?;
        }
        match log.next_if(|(position, _)| position == at) {
            None => writeln!(wrong, "missing at {at} ({}#{}): {event:x?}", place.label, place.execution)?,
            Some((_, observed)) => {
                if let Err(why) = fits(event, observed, symbols) {
                    writeln!(wrong, "at {at} ({}#{}): {why}: {observed:x?}", place.label, place.execution)?;
                }
            }
        }
    }
    for (late, observed) in log {
        writeln!(wrong, "superfluous at {late} ({}): {observed:x?}", label(*late))?;
    }
    ensure!(wrong.is_empty(), "the log does not hold exactly what it should:\n{wrong}");
    Ok(())
}

fn fits(event: &Event, observed: &Observed, symbols: &HashMap<String, u64>) -> Result<()> {
    match (event, observed) {
        (Event::Special(expected), Observed::Special(kind)) => {
            ensure!(expected == kind, "expected {expected}");
            Ok(())
        }
        (Event::Load { ordinal, bytes }, Observed::Load { ordinal: got, pieces }) => {
            ensure!(ordinal == got, "expected ordinal {ordinal}");
            let mut covered = vec![false; bytes.len()];
            for (offset, piece) in pieces {
                for (i, value) in (*offset as usize..).zip(piece) {
                    let expected = bytes.get(i).with_context(|| format!("more than {} bytes", bytes.len()))?;
                    let fits = match expected {
                        Byte::Any => true,
                        Byte::Zero => *value == 0,
                        Byte::Logged(byte) => value == byte,
                        Byte::AddressOf(name, number) => {
                            let address = symbols.get(name).with_context(|| format!("no symbol {name}"))?;
                            *value == address.to_le_bytes()[usize::from(*number)]
                        }
                    };
                    ensure!(fits, "byte {i} is {value:02x}, expected {expected:?}");
                    covered[i] = true;
                }
            }
            let missing = bytes.iter().zip(&covered).position(|(b, covered)| matches!(b, Byte::Logged(_)) && !covered);
            ensure!(missing.is_none(), "byte {missing:?} is not in the log");
            Ok(())
        }
        _ => bail!("expected {event:x?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
        # EXPECT load first 0 05 00*3 .. !00 q:second\n\
        # EXPECT special second#2 cpuid\n\
        # CPU avx2 fma\n";

    fn setting() -> Result<(Case, HashMap<String, u64>, Vec<Step>)> {
        let symbols = [("first", 0x1000), ("second", 0x1008)].map(|(name, pc)| (name.to_owned(), pc));
        let steps = [0x1000, 0x1008, 0x1000, 0x1008, 0x1010].map(|pc| Step { pc, syscall: None });
        Ok((Case::parse(SOURCE)?, symbols.into(), steps.to_vec()))
    }

    fn load(pieces: &[(u64, &[u8])]) -> Observed {
        Observed::Load { ordinal: 0, pieces: pieces.iter().map(|(at, bytes)| (*at, bytes.to_vec())).collect() }
    }

    fn complaint(events: Vec<(u64, Observed)>) -> Result<String> {
        let (case, symbols, steps) = setting()?;
        let logged = Logged { events, syscalls: Vec::new(), end: (4, EndReason::Exit { status: 0 }) };
        Ok(compare(&case, &symbols, &steps, &logged).err().map_or_else(String::new, |e| e.to_string()))
    }

    const WHOLE: &[u8] = &[5, 0, 0, 0, 9, 0, 8, 0x10, 0, 0, 0, 0, 0, 0];

    #[test]
    fn what_is_expected_passes_in_one_piece_or_several() -> Result<()> {
        let special = (3, Observed::Special("cpuid".to_owned()));
        assert_eq!(complaint(vec![(0, load(&[(0, WHOLE)])), special.clone()])?, "");
        assert_eq!(complaint(vec![(0, load(&[(0, &[5]), (5, &WHOLE[5..])])), special])?, "");
        assert_eq!(setting()?.0.cpu, ["avx2", "fma"]);
        Ok(())
    }

    #[test]
    fn what_is_not_expected_is_seen() -> Result<()> {
        let special = (3, Observed::Special("cpuid".to_owned()));
        let good = (0, load(&[(0, WHOLE)]));
        let mut wrong = WHOLE.to_vec();
        wrong[7] = 0x11;
        for (events, word) in [
            (vec![good.clone()], "missing at 3 (second#2)"),
            (vec![special.clone()], "missing at 0 (first#1)"),
            (vec![good.clone(), (2, load(&[(0, &[1])])), special.clone()], "superfluous at 2 (first+0x0)"),
            (vec![good.clone(), special.clone(), special.clone()], "superfluous at 3"),
            (vec![(0, load(&[(0, &wrong)])), special.clone()], "byte 7 is 11"),
            (vec![(0, load(&[(0, &WHOLE[..5])])), special.clone()], "byte Some(5) is not in the log"),
            (vec![(1, load(&[(0, WHOLE)])), special.clone()], "missing at 0"),
            (vec![good.clone(), (3, Observed::Special("rdtsc".to_owned()))], "expected cpuid"),
        ] {
            let complaint = complaint(events)?;
            assert!(complaint.contains(word), "{complaint:?} does not say {word:?}");
        }
        Ok(())
    }

    #[test]
    fn lines_that_cannot_be_read() {
        for line in ["# EXPECT lod a 0 05", "# EXPECT load a x 05", "# EXPECT load a 0 0x5", "# EXPECT load a 0"] {
            assert!(Case::parse(line).is_err(), "{line}");
        }
    }
}
