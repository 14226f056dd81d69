//! The stream of what was executed is true: each instruction has its place in it, with the addresses of its accesses, and what changed
//! when it was executed is what it is said to write. A session that goes step by step tells.

use anyhow::{Context, Result, ensure};
use bugnet_events::atoms::Atoms;
use bugnet_events::backward::Backward;
use bugnet_events::calls::{Called, Calls};
use bugnet_events::code::Blocks;
use bugnet_events::effects::{Control, Effects};
use bugnet_events::onward::walk_on;
use bugnet_events::stretch::{self, Stretch};
use bugnet_events::walk::{Did, Visit, walk_back};
use bugnet_format::record::{Record, SignalStep};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::Position;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log, Selection};
use bugnet_replay::session::{Session, Stop};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::{Chunk, Tracer, Wanted};
use bugnet_tests::bugnet::{Job, Workshop, binary, must_pass, printed, run};
use bugnet_tests::sample::one_of;
use bugnet_tests::small::build_named;
use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

/// Instructions that are stepped through at a time.
const WINDOW: u64 = 700;
/// How many such windows of a program.
const WINDOWS: usize = 12;

/// An access: first byte, how many, whether it writes.
type Access = (u64, u64, bool);

/// What the stream says of an instruction.
struct Said {
    instruction: Instruction,
    effects: Effects,
    accesses: Vec<Access>,
    /// Whether a record says what it did.
    skipped: bool,
    /// Whether no sum of registers tells what it accesses.
    odd: bool,
    /// The register that it stores, and its size.
    operand: Option<(u64, u8)>,
}

fn note(chunk: &Chunk<'_>, blocks: &Blocks, window: &Range<u64>, said: &mut BTreeMap<u64, Said>) -> Result<()> {
    let mut odd = chunk.odd.iter().peekable();
    for run in chunk.runs {
        let block = blocks.get(run.block);
        let mut accesses = block.traced.accesses.iter().peekable();
        for (number, decoded) in block.instructions.iter().enumerate() {
            let word = run.word + number as u32;
            let (mut all, mut operand) = (Vec::new(), None);
            while let Some(access) = accesses.next_if(|access| usize::from(access.instruction) == number) {
                let (at, len) = (chunk.address(*run, access), u64::from(access.bytes));
                all.extend(access.reads.then_some((at, len, false)));
                all.extend(access.writes.then_some((at, len, true)));
                let bytes = access.operand.map(|operand| operand.bytes);
                operand = operand.or(chunk.operand(*run, access).zip(bytes));
            }
            let mut is_odd = false;
            while let Some(odd) = odd.next_if(|odd| odd.word == word) {
                is_odd = true;
                all.push((odd.addr, odd.len, odd.writes));
            }
            let at = chunk.first.0 + u64::from(word);
            if window.contains(&at) {
                let (instruction, effects) = (decoded.instruction, decoded.effects().clone());
                let new =
                    Said { instruction, effects, accesses: all, skipped: block.traced.skipped, odd: is_odd, operand };
                ensure!(said.insert(at, new).is_none(), "instruction {at} is there twice");
            }
        }
    }
    ensure!(odd.next().is_none(), "an access of no instruction");
    Ok(())
}

/// Everything that changed of the registers.
fn changed(before: &RegisterFile, after: &RegisterFile) -> Atoms {
    let mut all = Atoms::NONE;
    for number in 0..16 {
        let bytes =
            Atoms::gpr(number).each().zip(before.gpr[number].to_le_bytes()).zip(after.gpr[number].to_le_bytes());
        all |= bytes.filter(|((_, before), after)| before != after).map(|((atom, _), _)| atom).collect();
        let bytes = Atoms::vector(number).each().zip(before.ymm[number]).zip(after.ymm[number]);
        all |= bytes.filter(|((_, before), after)| before != after).map(|((atom, _), _)| atom).collect();
    }
    all | Atoms::rflags(before.rflags ^ after.rflags)
}

/// What an instruction accesses by its operands and these registers; `None` where the decoder does not tell.
fn computed(instruction: &Instruction, regs: &RegisterFile) -> Option<Vec<Access>> {
    let mut factory = InstructionInfoFactory::new();
    let mut all = Vec::new();
    for used in factory.info(instruction).used_memory() {
        let len = used.memory_size().size() as u64;
        let at = used.virtual_address(0, |register, _, _| match register {
            Register::FS => Some(regs.fs_base),
            Register::GS => Some(regs.gs_base),
            _ if register.is_segment_register() => Some(0),
            _ if register.is_gpr() => {
                let whole = regs.gpr[register.full_register().number()];
                Some(if register.size() == 8 { whole } else { whole & ((1 << (8 * register.size())) - 1) })
            }
            _ => None,
        })?;
        match used.access() {
            OpAccess::Read => all.push((at, len, false)),
            OpAccess::Write => all.push((at, len, true)),
            OpAccess::ReadWrite => all.extend([(at, len, false), (at, len, true)]),
            OpAccess::NoMemAccess => {}
            _ => return None,
        }
        if len == 0 {
            return None;
        }
    }
    Some(all)
}

/// The register that an instruction stores, by its operands: the last one that is a register.
fn stored(instruction: &Instruction, regs: &RegisterFile, bytes: u8) -> Option<u64> {
    let last = (0..instruction.op_count()).rev().find(|number| instruction.op_kind(*number) == OpKind::Register)?;
    let register = instruction.op_register(last);
    let value = match register.is_gpr() {
        true => regs.gpr[register.full_register().number()],
        false if register.is_vector_register() => {
            u64::from_le_bytes(regs.ymm[register.number()].first_chunk().copied()?)
        }
        false => return None,
    };
    Some(value & (u64::MAX >> (64 - 8 * u32::from(bytes))))
}

fn check_interval(tools: &Tools, log: &Log, id: IntervalId, window: &Range<u64>) -> Result<(u64, u64)> {
    let interval = log.interval(id)?;
    let wanted = Arc::new(Wanted { operands: true, ..Wanted::default() });
    let mut tracer = Tracer::with(tools, log, id, &interval, None, &wanted)?;
    let (mut blocks, mut said, mut next) = (Blocks::default(), BTreeMap::new(), 0);
    // In stretches of any length.
    let mut random = fastrand::Rng::with_seed(id.interval.0);
    loop {
        let until = Position(if random.bool() { u64::MAX } else { next + random.u64(1..50_000) });
        let Some(chunk) = tracer.next(until)? else { break };
        ensure!(chunk.first.0 == next, "a stretch begins at {}, not at {next}", chunk.first);
        next += u64::from(chunk.len);
        blocks.learn(&chunk);
        note(&chunk, &blocks, window, &mut said)?;
    }
    let (mut steps, mut operands) = (0, 0);
    let mut session = Session::start(tools, log, id, &interval)?;
    for at in window.clone().filter(|at| *at < next) {
        if session.position().0 < at {
            session.run_to(Position(at))?;
        }
        let before = session.regs().clone();
        let said = said.get(&at).with_context(|| format!("the stream lacks instruction {at}"))?;
        let text = || format!("instruction {at} at {:#x}, {:?}", said.instruction.ip(), said.instruction.code());
        if let Some((value, bytes)) = said.operand {
            let expected = stored(&said.instruction, &before, bytes);
            ensure!(expected == Some(value), "{}: stores {value:#x}, not {expected:x?}", text());
            operands += 1;
        }
        let stop = session.run_to(Position(at + 1))?;
        let after = session.regs().clone();
        ensure!(before.rip == said.instruction.ip(), "{}: execution is at {:#x}", text(), before.rip);
        if said.skipped || stop != Stop::Reached || session.position().0 != at + 1 {
            continue;
        }
        let unsaid = changed(&before, &after) - said.effects.writes();
        // A signal's handler may have begun behind it.
        let goes_on = said.instruction.next_ip() == after.rip;
        ensure!(unsaid.is_empty() || !goes_on, "{}: {unsaid} changed", text());
        if let Some(mut computed) = computed(&said.instruction, &before).filter(|_| !said.odd) {
            let mut accesses = said.accesses.clone();
            computed.sort_unstable();
            accesses.sort_unstable();
            // Of prefetches and the like nothing is accessed, and what both read and write is told in either way.
            let is_same = accesses.iter().all(|access| computed.contains(access)) && (accesses.len() == computed.len());
            ensure!(is_same, "{}: accesses {accesses:x?}, not {computed:x?}", text());
        }
        steps += 1;
    }
    Ok((steps, operands))
}

fn check(name: &str, job: impl Fn(&Workshop) -> Result<Job>) -> Result<()> {
    let workshop = Workshop::new(&format!("stream-{name}"))?;
    let log = workshop.path.join("log");
    let recorded = run(&mut job(&workshop)?.recorded(&log, &["--interval", "300k"])?)?;
    ensure!(log.exists(), "{}", printed(&recorded));
    let log = Log::open(&log)?;
    let tools = Tools::locate_for(&binary()?, None)?;
    let mut random = fastrand::Rng::with_seed(11);
    let all = Selection::default().intervals_of(&log)?;
    let (mut steps, mut operands) = (0, 0);
    for number in 0..WINDOWS {
        let id = all[random.usize(0..all.len())];
        // The first ones have what is rare: system calls, relocations, the processor's features.
        let start = if number % 3 == 0 { 0 } else { random.u64(0..300_000) };
        let (more, stored) = check_interval(&tools, &log, id, &(start..start + WINDOW))?;
        (steps, operands) = (steps + more, operands + stored);
    }
    ensure!(steps > 500, "only {steps} instructions were looked at");
    ensure!(operands > 0, "nothing was stored");
    workshop.done()
}

/// Backwards, an interval is what it is forwards, in pieces of any length.
fn backwards() -> Result<()> {
    let workshop = Workshop::new("stream-backwards")?;
    let log = workshop.path.join("log");
    let job = Job::new(
        &workshop.folder("run")?,
        ["/usr/bin/python3", "-c", "print(sum(hash(str(i)) & 1 for i in range(9999)) > 0)"],
    );
    run(&mut job.recorded(&log, &["--interval", "3M"])?)?;
    let (log, tools) = (Log::open(&log)?, Tools::locate_for(&binary()?, None)?);
    let mut random = fastrand::Rng::with_seed(5);
    for id in Selection::default().intervals_of(&log)?.into_iter().take(3) {
        let interval = log.interval(id)?;
        let (mut tracer, mut blocks, mut all) =
            (Tracer::start(&tools, &log, id, &interval, None)?, Blocks::default(), Vec::new());
        let end = Position(random.u64(1_000_000..3_000_000));
        while let Some(chunk) = tracer.next(end)? {
            blocks.learn(&chunk);
            all.extend(flat(&Stretch::of(&chunk, &blocks), &blocks));
        }
        ensure!(all.len() as u64 == tracer.position().0, "{} of {}", all.len(), tracer.position());
        let mut backward = Backward::in_pieces(&tools, &log, id, &interval, end, random.u64(50_000..900_000))?;
        let mut stretches = 0;
        while backward.retreat()? {
            let (stretch, blocks) = backward.stretch().context("no stretch")?;
            ensure!(stretch.end().0 == all.len() as u64, "a stretch ends at {}, not at {}", stretch.end(), all.len());
            let expected = all.split_off(usize::try_from(stretch.first().0)?);
            ensure!(flat(stretch, blocks) == expected, "the stretch from {} on is another one", stretch.first());
            stretches += 1;
        }
        ensure!(all.is_empty() && stretches > 1, "{} instructions are left behind {stretches} stretches", all.len());
    }
    workshop.done()
}

/// Backwards through all threads, one comes to each instruction when a cursor says that it was executed, and to each signal before its
/// handler.
fn walks_back(name: &str, job: impl Fn(&Workshop) -> Result<Job>) -> Result<()> {
    let workshop = Workshop::new(&format!("stream-walk-{name}"))?;
    let path = workshop.path.join("log");
    run(&mut job(&workshop)?.recorded(&path, &["--interval", "10M"])?)?;
    let (log, tools) = (Log::open(&path)?, Tools::locate_for(&binary()?, None)?);
    let pid = log.threads().map(|thread| thread.pid).last().context("no process")?;
    let mut cursor = Cursor::open(&tools, &log, pid)?;
    let mut random = fastrand::Rng::with_seed(9);
    for from in [Seek::End, Seek::Time(random.u64(1..cursor.end()))] {
        cursor.seek(from)?;
        let mut left = cursor.time();
        let (mut samples, mut calls, mut signals) = (Vec::new(), 0, 0);
        walk_back(&tools, &log, pid, cursor.place(), &mut |visit| {
            let (place, count, at) = match visit {
                Visit::Ran { place, ran, instructions } => {
                    (place, instructions.len() as u64, ran.block.instructions[instructions.start].instruction.ip())
                }
                Visit::Skipped { place, ran, did } => {
                    calls += u64::from(matches!(did, Did::Call { .. }));
                    (place, 1, ran.block.traced.pc)
                }
                Visit::Delivered { .. } | Visit::Resumed { .. } => {
                    signals += 1;
                    return ControlFlow::Continue(());
                }
            };
            left = left.wrapping_sub(count);
            // One of very many, whatever came before.
            if random.u32(0..40_000) == 0 {
                samples.push((place, left, at));
            }
            ControlFlow::Continue(())
        })?;
        ensure!(left == 0, "{left} instructions are left");
        for (place, time, at) in samples {
            cursor.seek(Seek::Place(place))?;
            let found = (cursor.time(), cursor.place(), cursor.regs().rip);
            ensure!(found == (time, place, at), "{place} at {time}, {at:#x}: the cursor is at {found:x?}");
        }
        if from == Seek::End {
            let (mut recorded, mut delivered) = (0, 0);
            let selection = Selection { processes: Some(vec![pid]), ..Selection::default() };
            for id in selection.intervals_of(&log)? {
                for placed in log.interval(id)?.records().flatten() {
                    recorded += u64::from(matches!(placed.record, Record::Syscall { .. }));
                    delivered += u64::from(matches!(
                        placed.record,
                        Record::Signal { step: SignalStep::Delivery | SignalStep::Resume, .. }
                    ));
                }
            }
            ensure!(
                (calls, signals) == (recorded, delivered),
                "{calls} calls, {signals} signals, not {recorded}, {delivered}"
            );
            ensure!(signals > 0 || name != "signals", "no signals");
        }
    }
    workshop.done()
}

/// What functions are called with, and what they give back, is what the program says, in each thread.
fn calls() -> Result<()> {
    let workshop = Workshop::new("stream-calls")?;
    let program = build_named("analyses/calls.c", &["-O2", "-pthread"], &workshop.path)?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.folder("run")?, [program.to_string_lossy()]);
    let printed = run(&mut job.recorded(&log, &["--interval", "20k"])?)?;
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in String::from_utf8(printed.stdout)?.lines() {
        let (thread, text) = line.split_once(' ').context("no thread")?;
        expected.entry(thread.to_owned()).or_default().push(text.to_owned());
    }
    let (log, tools) = (Log::open(&log)?, Tools::locate_for(&binary()?, None)?);
    let first = log.threads().next().context("no thread")?;
    let names = [("again", 2), ("six", 6), ("passes_on", 1), ("jumps", 1)];
    let functions = Symbolizer::new(&log, first.pid)?.functions(&names.map(|(name, _)| name));
    ensure!(functions.len() == names.len(), "{functions:x?}");
    let wanted = Arc::new(Wanted { functions: functions.keys().copied().collect(), ..Wanted::default() });
    let start = Place { tid: first.tid, interval: log.intervals(first)?[0], position: Position(0) };
    let (mut calls, mut found, mut left) = (Calls::default(), BTreeMap::<_, Vec<String>>::new(), 0);
    walk_on(&tools, &log, first.pid, start, &wanted, &mut |visit| {
        calls.visit(&visit, &mut |called| {
            let (tid, text) = match called {
                Called::Entered(call) => {
                    let (name, count) = names[functions[&call.function]];
                    let args = call.args[..count].iter().map(|arg| arg.map_or("?".into(), |arg| arg.to_string()));
                    (call.place.tid, format!("{name} {}", args.collect::<Vec<_>>().join(" ")))
                }
                Called::Returned { call, result, place } => {
                    let result = result.map_or("?".into(), |result| result.to_string());
                    // It says nothing of what it gives back itself.
                    let is_quiet = names[functions[&call.function]].0 == "passes_on";
                    (place.tid, format!("= {result}{}", if is_quiet { " passed on" } else { "" }))
                }
                Called::Left(_) => {
                    left += 1;
                    return;
                }
            };
            found.entry(tid).or_default().push(text);
        });
        ControlFlow::Continue(())
    })?;
    for texts in found.values_mut() {
        for at in (1..texts.len()).rev().filter(|at| texts[*at].ends_with("passed on")).collect::<Vec<_>>() {
            let passed = texts.remove(at);
            ensure!(passed.strip_suffix(" passed on") == Some(&*texts[at - 1]), "{passed} behind {}", texts[at - 1]);
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|texts| texts.first().cloned());
    let expected: Vec<_> = expected.into_values().collect();
    ensure!(expected.len() == 3 && found == expected, "{found:#?}\nand not\n{expected:#?}");
    ensure!(left == 3 * 5 * 3, "{left} calls have not returned");
    workshop.done()
}

/// The calls that are open where a function begins: where, and the slots and return addresses, the outermost one first.
type Open = (Place, Vec<(u64, u64)>);

/// The same for all functions that are wanted, in the order in which they begin, and how many blocks tell it.
fn open_at(tools: &Tools, log: &Log, start: Place, wanted: &Arc<Wanted>) -> Result<(Vec<Open>, u64)> {
    let pid = log.threads().next().context("no thread")?.pid;
    let (mut frames, mut all, mut blocks) = (Vec::<(u64, u64)>::new(), Vec::new(), 0);
    walk_on(tools, log, pid, start, wanted, &mut |visit| {
        let Visit::Ran { place, ran, instructions } = visit else { return ControlFlow::Continue(()) };
        blocks += 1;
        if ran.registers_told() > 1 && instructions.start == 0 {
            all.push((place, frames.clone()));
        }
        if let Some(slot) = ran.slot().filter(|_| instructions.end == ran.block.instructions.len()) {
            match ran.block.control {
                Control::Call => {
                    let next = ran.block.instructions.last().map_or(0, |last| last.instruction.next_ip());
                    frames.retain(|(open, _)| *open > slot);
                    frames.push((slot, next));
                }
                Control::Return => frames.retain(|(open, _)| *open > slot),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok((all, blocks))
}

/// An outline of open calls tells the same of these as one of all calls, wherever a function begins, and is much shorter.
fn open_calls() -> Result<()> {
    let workshop = Workshop::new("stream-open-calls")?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.folder("run")?, ["ls", "-l", "/usr/bin"]);
    run(&mut job.recorded(&log, &["--interval", "500k"])?)?;
    let (log, tools) = (Log::open(&log)?, Tools::locate_for(&binary()?, None)?);
    let first = log.threads().next().context("no thread")?;
    let functions = Symbolizer::new(&log, first.pid)?.functions(&["malloc", "realloc", "qsort"]);
    let functions: Vec<u64> = functions.into_keys().collect();
    let start = Place { tid: first.tid, interval: log.intervals(first)?[0], position: Position(0) };
    let found = |open: bool| {
        let wanted = Wanted { functions: functions.clone(), outline: true, open, ..Wanted::default() };
        open_at(&tools, &log, start, &Arc::new(wanted))
    };
    let ((all, blocks), (open, fewer)) = (found(false)?, found(true)?);
    ensure!(all.len() > 100 && all == open, "{} and {} functions begin", all.len(), open.len());
    ensure!(fewer < blocks / 4, "{fewer} of {blocks} blocks");
    workshop.done()
}

/// Each instruction, with what it accesses.
fn flat(stretch: &Stretch, blocks: &Blocks) -> Vec<(u64, Vec<stretch::Access>)> {
    let each = |ran: stretch::Ran<'_>| {
        let instructions = ran.block.instructions.iter().enumerate();
        instructions
            .map(|(number, decoded)| (decoded.instruction.ip(), ran.accesses(number).collect()))
            .collect::<Vec<_>>()
    };
    stretch.ran(blocks).flat_map(each).collect()
}

/// `bugnet stats --json` of a recording.
fn stats(log: &Path) -> Result<Value> {
    let printed = must_pass(&["stats", "--json"], log)?;
    Ok(serde_json::from_slice(&printed.stdout)?)
}

/// Of a program of which one knows what it does, the counts are known.
fn counted() -> Result<()> {
    let workshop = Workshop::new("stream-counted")?;
    let program = build_named("analyses/counted.s", &[], &workshop.path)?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.folder("run")?, [program.to_string_lossy()]);
    // Where an interval ends changes nothing but what is loaded first, and the lines, which count in each.
    for (options, lines) in [(&["--interval", "1M"][..], 3), (&["--interval", "100"], 100)] {
        run(&mut job.recorded(&log, options)?)?;
        let found = stats(&log)?;
        let count = |name: &str| found["total"][name].as_u64().with_context(|| format!("no {name} in {found}"));
        let all = ["instructions", "loads", "loaded", "stores", "stored"].map(count);
        let all: Vec<u64> = all.into_iter().collect::<Result<_>>()?;
        // The call that ends the process is not over.
        let expected = [5007, 2001, 8000 + 2000 + 64, 2001, 8000 + 2000 + 64];
        ensure!(all == expected, "{all:?}, not {expected:?}, with {options:?}");
        ensure!(count("lines")? >= lines, "{found}");
        std::fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

/// Each instruction of a real program is one of a function, and of a line or of none.
fn sums() -> Result<()> {
    let workshop = Workshop::new("stream-sums")?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.folder("run")?, ["sh", "-c", "seq 1 1000 | sort -R | sort -n | tail -n 3"]);
    run(&mut job.recorded(&log, &["--interval", "50k"])?)?;
    let (found, replayed) = (stats(&log)?, must_pass(&["replay", "--json"], &log)?);
    let replayed: Value = serde_json::from_slice(&replayed.stdout)?;
    let sum = |part: &str| {
        let all = found["hottest"][part].as_array().into_iter().flatten();
        all.filter_map(|hot| hot["instructions"].as_u64()).sum::<u64>()
    };
    let (total, without) = (&found["total"], found["hottest"]["without_line"].as_u64().unwrap_or_default());
    let instructions = total["instructions"].as_u64().context("no instructions")?;
    ensure!(replayed["counts"]["instructions"] == total["instructions"], "{} and {}", replayed["counts"], total);
    ensure!(replayed["counts"]["loads"] == total["first_loads"], "{} and {}", replayed["counts"], total);
    ensure!(sum("functions") == instructions, "{} of {instructions} are in functions", sum("functions"));
    ensure!(sum("lines") + without == instructions, "{} + {without} of {instructions} are in lines", sum("lines"));
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let real = |name: &'static str, command: &'static [&'static str]| {
        let body = move || {
            let folder = |workshop: &Workshop| Ok(Job::new(&workshop.folder("run")?, command.iter().copied()));
            check(name, folder).map_err(|e| Failed::from(format!("{e:#}")))
        };
        Trial::test(format!("real_{name}"), body)
    };
    let small = |name: &'static str, flags: &'static [&'static str]| {
        let body = move || {
            let program = |workshop: &Workshop| {
                let program = build_named(name, flags, &workshop.path)?;
                Ok(Job::new(&workshop.folder("run")?, [program.to_string_lossy()]))
            };
            check(&name.replace('/', "-"), program).map_err(|e| Failed::from(format!("{e:#}")))
        };
        Trial::test(name.to_owned(), body)
    };
    let other = |name: &str, body: fn() -> Result<()>| {
        Trial::test(name, move || body().map_err(|e| Failed::from(format!("{e:#}"))))
    };
    let walk = |name: &'static str, command: &'static [&'static str]| {
        let job = |workshop: &Workshop| Ok(Job::new(&workshop.folder("run")?, command.iter().copied()));
        Trial::test(format!("walk_{name}"), move || walks_back(name, job).map_err(|e| Failed::from(format!("{e:#}"))))
    };
    let signals = |workshop: &Workshop| {
        let program = build_named("signals/nested.c", &[], &workshop.path)?;
        Ok(Job::new(&workshop.folder("run")?, [program.to_string_lossy()]))
    };
    let walks = vec![
        walk("pigz", &["sh", "-c", "seq 1 6000 | exec pigz -p 3"]),
        walk("pigz_long", &["sh", "-c", "seq 1 60000 | exec pigz -p 3"]),
        walk("python3", &["/usr/bin/python3", "-c", "print(sorted(str(i) for i in range(20000))[7])"]),
    ];
    let others = vec![
        Trial::test("walk_signals", move || walks_back("signals", signals).map_err(|e| Failed::from(format!("{e:#}")))),
        other("backwards", backwards),
        other("calls", calls),
        other("open_calls", open_calls),
        other("counted", counted),
        other("sums", sums),
    ];
    let programs = vec![
        real("true", &["/bin/true"]),
        real("bc", &["sh", "-c", "echo '2^2000 % 12345; scale=60; e(1); s(2)' | bc -l"]),
        real("python3", &["/usr/bin/python3", "-c", "import re; print(re.sub('b+', 'x', 'abbbc' * 99), 1.5 ** 3.7)"]),
        real("perl", &["perl", "-e", "$h{$_ % 97} .= sprintf('%x', $_) for 1..9999; print length(join '', values %h)"]),
        real("sort", &["sh", "-c", "seq 1 3000 | sort -R | sort -n | sha256sum"]),
        real("pigz", &["sh", "-c", "seq 1 100000 | pigz -p 3 | wc -c"]),
        small("instructions/gathers.c", &["-mavx2"]),
        small("instructions/string_prefixes.c", &[]),
        small("instructions/x87.c", &[]),
        small("instructions/address_sizes.c", &["-no-pie"]),
        small("instructions/xsave.c", &[]),
        small("signals/nested.c", &[]),
        small("code/overwrites_itself.s", &[]),
        small("code/patched_call.c", &[]),
    ];
    Ok([others, one_of(3, walks), one_of(3, programs)].into_iter().flatten().collect())
}
