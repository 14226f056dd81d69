//! What comes of a variable that is set back: with what it was at first, is the output as it should be? What was forgotten is in no slice and no change of an
//! instruction brings it about. So first a variable gets an earlier value at a single moment, before it is read (a state change that repairs the run:
//! Zeller, *Isolating Cause-Effect Chains*; value replacement: Jeffrey, Gupta and Gupta, *Fault Localization Using Value Replacement*); and
//! where that makes the output right, it gets that value before each line in turn that was executed since the variable was last used, each time when the
//! line is executed, as a statement would set it that was forgotten there.

use super::rank::{Table, Tried};
use super::tries::{Right, Start};
use super::uses::{Entry, Former, Gap, Local, Uses, Variable, entries, function};
use super::variants::Kind;
use bugnet_format::regs::GPR_NAMES;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::crash::{local_at, pointed_at};
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_what_if::{Ended, Outcome, Set, Spot, Trial};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// How many moments are tried, and then lines.
const MOMENTS: u64 = 600;
const LINES: u64 = 1500;
/// Moments of which the lines are looked at.
const MOST: usize = 8;
/// Frames in which a variable is looked for that is set back.
const FRAMES: usize = 50;
/// An instruction that is executed more often than this is not stopped at.
const OFTEN: u64 = 2_000;
/// Lines of which one is as good as another, so that each counts for less.
const AMONG: f64 = 3.0;
/// What is left for a line that is executed so many times as often as another one that will do: to set back what is set back already is for nothing.
const AGAIN: f64 = 0.25;
/// What a line counts for that does not set something itself, as those do beside what was forgotten; and one in a function that has nothing to do with
/// the variable, nor calls one that has.
const ALONE: f64 = 0.6;
const STRANGER: f64 = 0.8;

/// What is set back, and where that may have been forgotten.
struct Forgotten {
    spot: Spot,
    len: u64,
    value: u64,
    /// Where it is read.
    read: Place,
    /// Functions that use it, by their first bytes.
    users: HashSet<u64>,
    entries: Vec<Entry>,
    /// How many lines are more suspect than the first one that reads it; 0 where it is known that it makes more of the output right.
    nth: usize,
}

/// A line that will do, and how often it was executed then.
struct Kept {
    entry: Entry,
    times: u64,
}

/// Sets variables back that were read for the wrong output, and notes what came of it; how many times.
///
/// # Errors
/// The log cannot be replayed, or the operating system's.
pub fn find(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    start: &Start,
    right: Right<'_>,
    table: &mut Table,
) -> Result<u32> {
    let (pid, near) = (cursor.pid(), table.nearest());
    let mut readers: HashMap<u64, usize> = HashMap::new();
    for (line, number) in near.into_iter().zip(0..) {
        for ip in &table.clues(line).code {
            readers.entry(*ip).or_insert(number);
        }
    }
    let uses = Uses::find((tools, log), pid, start, &readers)?;
    let mut tries = Tries { start, right, count: 0 };
    let repairs = tries.moments(&uses)?;
    let times: Vec<_> = repairs.iter().map(|(gap, _)| gap.time[0]..gap.time[1] + 1).collect();
    let within = entries((tools, log), pid, start, symbols, &times)?;
    let mut all: Vec<Forgotten> = Vec::new();
    for ((gap, value), entries) in repairs.into_iter().zip(within) {
        let Gap { variable: Variable { addr, len }, place: read, .. } = gap;
        let users = uses.users(symbols, gap.variable);
        all.push(Forgotten { spot: Spot::At(addr), len, value, read, users, entries, nth: 0 });
    }
    for Former { local: Local { function, spot, len }, value, reader: (nth, read) } in uses.locals(symbols, &readers) {
        let entries = uses.entries(symbols, function);
        all.push(Forgotten { spot, len, value, read, users: HashSet::from([function]), entries, nth });
    }
    let setters = uses.setters(symbols);
    let mut kept: Vec<Vec<Kept>> = all.iter().map(|_| Vec::new()).collect();
    tries.lines(&lines(&uses, symbols, &all), &all, |number, found| kept[number].push(found))?;
    for (forgotten, kept) in all.iter().zip(kept) {
        if !kept.is_empty() {
            let name = name(log, cursor, symbols, forgotten)?;
            note(symbols, (forgotten, &name), &kept, &setters, table);
        }
    }
    Ok(tries.count)
}

/// All lines at which one of these may have been forgotten; those that are executed least first, which take the least time, and of these those of what
/// suspect lines read.
fn lines<'a>(uses: &Uses, symbols: &mut Symbolizer, all: &'a [Forgotten]) -> Vec<(usize, &'a Entry)> {
    let of = |(number, forgotten): (usize, &'a Forgotten)| forgotten.entries.iter().map(move |entry| (number, entry));
    let mut lines: Vec<(usize, &Entry)> = all.iter().enumerate().flat_map(of).collect();
    lines.retain(|(number, entry)| {
        let Forgotten { spot, users, .. } = &all[*number];
        // A frame's variable is only known within its function, once that has its frame.
        let is_in_frame = |begins: u64| begins != entry.ip && users.contains(&begins);
        let is_known = matches!(spot, Spot::At(_)) || function(symbols, entry.ip).is_some_and(is_in_frame);
        is_known && uses.executions(entry.ip) < OFTEN
    });
    lines.sort_by_key(|(number, entry)| (uses.executions(entry.ip).max(1).ilog2() / 3, all[*number].nth));
    lines
}

/// What the variable is called, as far as debug information says.
fn name(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, forgotten: &Forgotten) -> Result<String> {
    cursor.seek(Seek::Place(forgotten.read))?;
    let register = |name: &str| {
        let number = GPR_NAMES.iter().position(|known| *known == name);
        number.map_or(0, |number| cursor.regs().gpr[number])
    };
    let addr = match forgotten.spot {
        Spot::At(addr) => addr,
        Spot::ByRbp(displacement) => register("rbp").wrapping_add_signed(displacement),
        Spot::ByRsp(displacement) => register("rsp").wrapping_add_signed(displacement),
        Spot::Through(pointer, offset) => {
            let pointer = cursor.read_memory(Addr(register("rbp").wrapping_add_signed(pointer)), 8)?;
            let first = u64::from_le_bytes(pointer.try_into().unwrap_or_default());
            let addr = first.wrapping_add_signed(offset);
            if let Some(name) = pointed_at(log, cursor, symbols, (addr, first..addr.saturating_add(1)), FRAMES)? {
                return Ok(format!("`{name}`"));
            }
            addr
        }
    };
    let known = local_at(log, cursor, symbols, addr, FRAMES)?.or_else(|| symbols.describe(Addr(addr)));
    Ok(known.map_or_else(|| format!("what is at {addr:#x}"), |name| format!("`{name}`")))
}

/// Notes the lines at which it may have been forgotten.
fn note(
    symbols: &mut Symbolizer,
    (forgotten, name): (&Forgotten, &str),
    kept: &[Kept],
    setters: &HashSet<super::near::Line>,
    table: &mut Table,
) {
    let among = kept.iter().map(|kept| &kept.entry.line).collect::<BTreeSet<_>>().len() as f64;
    let least = kept.iter().map(|kept| kept.times).min().unwrap_or(1).max(1) as f64;
    for Kept { entry, times } in kept {
        let is_user = function(symbols, entry.ip).is_some_and(|function| forgotten.users.contains(&function));
        let share = (AMONG / among).min(1.0).sqrt()
            * (least / *times as f64).powf(AGAIN)
            * if setters.contains(&entry.line) { 1.0 } else { ALONE }
            * if is_user { 1.0 } else { STRANGER };
        let what = format!("{name} set to {} before it", forgotten.value);
        let (kind, is_whole, right) = (Kind::SetBack, true, [0, 0]);
        let tried = Tried { what, changed: None, others: 0, kind, is_whole, right, share };
        table.clues(entry.line.clone()).tried(tried);
    }
}

struct Tries<'a> {
    start: &'a Start,
    right: Right<'a>,
    count: u32,
}

impl Tries<'_> {
    /// One more was made, if it made a difference.
    fn count(&mut self, outcome: &Outcome) {
        self.count += u32::from(outcome.ended != Ended::Same);
    }

    /// The values that a variable may be set back to: what it was at `main`, or had from constants, or zero.
    fn values(&self, uses: &Uses, variable: Variable) -> Vec<u64> {
        let mut all = Vec::new();
        if self.start.is_own(variable.addr)
            && let Some(bytes) = self.start.seed.memory(variable.addr, variable.len as usize)
        {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(&bytes);
            all.push(u64::from_le_bytes(whole));
        }
        for value in uses.constants(variable).iter().chain(&[0]) {
            if !all.contains(value) {
                all.push(*value);
            }
        }
        all
    }

    /// Times in which a variable may have been set back, and to what: more of the output is right then.
    fn moments(&mut self, uses: &Uses) -> Result<Vec<(Gap, u64)>> {
        let gaps = uses.gaps().into_iter().filter(|gap| gap.nth < OFTEN);
        let tries: Vec<(Trial, (Gap, u64))> = gaps
            .flat_map(|gap| self.values(uses, gap.variable).into_iter().map(move |value| (gap, value)))
            .map(|(gap, value)| {
                let Gap { reader: at, nth, variable: Variable { addr, len }, .. } = gap;
                let set = Set { at, nth: Some(nth), spot: Spot::At(addr), bytes: bytes(len, value) };
                (Trial::Set(set), (gap, value))
            })
            // Each is a run at least.
            .take(MOMENTS as usize)
            .collect();
        let mut repairs = Vec::new();
        let start = self.start;
        start.each(tries, &mut start.budget(MOMENTS), |repair, outcome| {
            self.count(outcome);
            if self.right.is_better(outcome) {
                repairs.push(repair);
            }
            if repairs.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(repairs)
    }

    /// What comes of variables that are set each time before a line: hands over those that make the output right.
    fn lines(
        &mut self,
        lines: &[(usize, &Entry)],
        all: &[Forgotten],
        mut found: impl FnMut(usize, Kept),
    ) -> Result<()> {
        let tries = lines.iter().map(|(number, entry)| {
            let Forgotten { spot, len, value, .. } = all[*number];
            (Trial::Set(Set { at: entry.ip, nth: None, spot, bytes: bytes(len, value) }), (*number, *entry))
        });
        let start = self.start;
        start.each(tries, &mut start.budget(LINES), |(number, entry), outcome| {
            self.count(outcome);
            if self.right.is_whole(outcome) {
                found(number, Kept { entry: entry.clone(), times: outcome.executions });
            }
            ControlFlow::Continue(())
        })
    }
}

fn bytes(len: u64, value: u64) -> Vec<u8> {
    value.to_le_bytes()[..len as usize].to_vec()
}
