//! What comes of small changes: with which other instruction is the output as it should be? Programs are run on from `main` with one instruction
//! changed ([`bugnet_what_if`]), line by line; and where that makes the output right, so are right runs, of which the output has to stay as it is. A line where that makes the output right is suspect, though the fault may be one that makes up for another
//! (mutation-based fault localization: Papadakis and Le Traon, *Metallaxis-FL*; Moon et al., *Ask the Mutants*).

use super::Options;
use super::budget::Budget;
use super::meant::Changed;
use super::near::Line;
use super::ran;
use super::rank::{Table, Tried};
use super::variants::{Kind, Meant, Variant, shown, variants};
use super::wrong::Output;
use crate::runs::scene::Spot;
use bugnet_format::control::Conditions;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::cursor::{Cursor, Direction, Place, Seek, Stopped};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::name;
use bugnet_replay::tools::Tools;
use bugnet_replay::work::Work;
use bugnet_replay::{ReplayError, Result, signal};
use bugnet_what_if::{Change, Ended, Outcome, Pool, Seed, Trial, Until};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::Duration;

/// Instructions behind `main` in a program that is run so often.
const LONGEST: u64 = 300_000_000;
/// For how long a run without a change is waited for.
const LONG: Duration = Duration::from_secs(20);
/// How many changes are tried of lines that are in a slice, and of those that are in none.
const NEAR: u64 = 3000;
const OTHERS: u64 = 500;
/// Right runs that changes are tried on.
const GOOD: usize = 3;
/// How long a run may execute at least, and against the one without a change.
const LEAST: Duration = Duration::from_millis(50);
const TIMES: u32 = 5;
/// Trials that are made together, for each processor.
const BATCH: usize = 16;

/// What the output should be from `main` on, and how much of it the run that failed has, up to the end of its first wrong line.
#[derive(Clone, Copy)]
pub(super) struct Right<'a> {
    pub(super) output: &'a [u8],
    known: usize,
}

impl Right<'_> {
    /// Whether all of it is right, and the run came to its end.
    pub(super) fn is_whole(self, outcome: &Outcome) -> bool {
        outcome.stdout == self.output && matches!(outcome.ended, Ended::Exited(_))
    }

    /// Whether that is so, or more of it is right than before.
    pub(super) fn is_better(self, outcome: &Outcome) -> bool {
        self.is_whole(outcome) || equal(self.output, &outcome.stdout) > self.known
    }
}

/// A run that can begin anew at `main`.
pub(super) struct Start {
    pub(super) seed: Seed,
    /// Where `main` is, and the file that it is in: the first address, and how many.
    main: u64,
    file: (u64, u64),
    pub(super) place: Place,
    /// Instructions from there on.
    length: u64,
    /// What it writes from there on.
    stdout: Vec<u8>,
    /// Until when trials are made.
    work: Work,
    /// What runs trials: each up to where more than this is wrong.
    pool: Pool,
}

/// What a change is, in words.
#[derive(Clone)]
struct What {
    code: String,
    changed: Option<Changed>,
    /// In how many more of the line's instructions the same is changed.
    others: usize,
}

/// A change that was tried.
struct Attempt {
    line: Line,
    changes: Vec<Change>,
    tried: Tried,
}

impl Attempt {
    fn new(line: &Line, changes: Vec<Change>, what: What, kind: Kind) -> Self {
        let What { code, changed, others } = what;
        let tried = Tried { what: code, changed, others, kind, is_whole: false, right: [0, 0], share: 1.0 };
        Self { line: line.clone(), changes, tried }
    }

    fn trial(&self) -> Trial {
        Trial::Changes(self.changes.clone())
    }
}

/// Tries changes of the lines that are in a slice of the wrong output, likely ones first, and notes what came of it; how many could be tried.
/// At the place, if it is known, the wrong output was made.
///
/// # Errors
/// Nothing can be tried, or the log cannot be replayed.
pub fn find(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (output, shows): (&Output, Option<Place>),
    options: &Options<'_>,
    table: &mut Table,
) -> Result<u32> {
    let Some(right) = output.expected() else { return Ok(0) };
    let start = Start::new((tools, log), cursor, symbols, (&output.stdout(), right), options.jobs)?;
    let right = &right[output.stdout().len() - start.stdout.len()..];
    let wrong = equal(right, &start.stdout).min(right.len());
    // More is right if it is so beyond the first wrong line.
    let line = right[wrong..].iter().position(|byte| *byte == b'\n');
    let known = line.map_or(right.len(), |line| wrong + line);
    let wanted = Right { output: right, known };
    let (mut count, mut whole) = (0, Vec::new());
    let near = table.nearest();
    let others = others((tools, log), cursor.pid(), symbols, (options, &start), table)?;
    let lines: Vec<(Line, Vec<u64>)> = near
        .iter()
        .chain(&others)
        .map(|line| (line.clone(), table.clues(line.clone()).code.iter().copied().collect()))
        .collect();
    for (lines, runs) in [(&near, NEAR), (&others, OTHERS)] {
        let tries = attempts(&start, lines, table).into_iter().map(|attempt| (attempt.trial(), attempt));
        start.each(tries, &mut start.budget(runs), |Attempt { line, changes, mut tried }, outcome| {
            count += 1;
            tried.is_whole = wanted.is_whole(outcome);
            if tried.is_whole {
                whole.push(Attempt { line, changes, tried });
            } else if wanted.is_better(outcome) {
                table.clues(line).tried(tried);
            }
            ControlFlow::Continue(())
        })?;
    }
    harmless(tools, options, &start, &mut whole)?;
    let pid = cursor.pid();
    let executions = super::uses::jumps((tools, log), (pid, shows), &start)?;
    let turned = super::turns::find(&start, wanted, (&lines, &executions), table)?;
    let set_back = super::set_back::find((tools, log), cursor, symbols, &start, wanted, table)?;
    whole.into_iter().for_each(|Attempt { line, tried, .. }| table.clues(line).tried(tried));
    Ok(count + turned + set_back)
}

/// Lines of the program that were executed and are in no slice: what is left out there is missed elsewhere. The last executed first.
fn others(
    (tools, log): (&Tools, &Log),
    pid: ProcessId,
    symbols: &mut Symbolizer,
    (options, start): (&Options<'_>, &Start),
    table: &mut Table,
) -> Result<Vec<Line>> {
    let mut all: HashMap<Line, Place> = HashMap::new();
    for (ip, place) in ran::find(tools, log, pid, options.jobs)? {
        if !start.is_own(ip) {
            continue;
        }
        let spot = Spot::of(symbols, ip);
        let Some(line) = Line::of(&spot) else { continue };
        let clues = table.clues(line.clone());
        if !clues.code.is_empty() && !all.contains_key(&line) {
            continue;
        }
        clues.code.insert(ip);
        table.seen(line.clone(), spot.function, place);
        let known = all.entry(line).or_insert(place);
        *known = (*known).max(place);
    }
    let mut all: Vec<(Line, Place)> = all.into_iter().collect();
    all.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    Ok(all.into_iter().map(|(line, _)| line).collect())
}

/// All changes of these lines. Every line's likely ones come before the first one's unlikely ones.
fn attempts(start: &Start, lines: &[Line], table: &mut Table) -> Vec<Attempt> {
    let mut all = Vec::new();
    for line in lines {
        let mut alike: BTreeMap<Meant, Vec<(Kind, What, Vec<Change>)>> = BTreeMap::new();
        let mut add = |kind: Kind, what: What, meant: Option<Meant>, changes: Vec<Change>| {
            if let Some(meant) = meant {
                alike.entry(meant).or_default().push((kind, what.clone(), changes.clone()));
            }
            all.push(Attempt::new(line, changes, what, kind));
        };
        let mut before = None;
        for ip in &table.clues(line.clone()).code {
            let bytes = start.seed.instruction(*ip);
            let follows = before.replace((*ip, ip + bytes.len() as u64)).filter(|(_, end)| end == ip);
            for Variant { bytes, what: code, changed, kind, meant } in variants(&bytes, *ip) {
                let what = What { code, changed: Some(changed), others: 0 };
                add(kind, what, meant, vec![Change::Code { addr: *ip, bytes }]);
            }
            if let Some(change) = start.seed.difference(*ip, follows.map(|(start, _)| start)) {
                let code = format!("the difference instead of the sum by `{}`", shown(&bytes, *ip));
                let what = What { code, changed: None, others: 0 };
                add(Kind::Small, what, Some(Meant::Difference), vec![change]);
            }
        }
        // What is meant otherwise in one place of a line may be in all its places.
        for together in alike.into_values().filter(|together| together.len() > 1) {
            let (kind, first, _) = &together[0];
            let what = What { others: together.len() - 1, ..first.clone() };
            let changes = together.iter().flat_map(|(_, _, changes)| changes.iter().cloned()).collect();
            all.push(Attempt::new(line, changes, what, *kind));
        }
    }
    all.sort_by_key(|attempt| attempt.tried.kind);
    all
}

/// Finds out which of these changes leave the output of right runs as it is.
fn harmless(tools: &Tools, options: &Options<'_>, bad: &Start, attempts: &mut [Attempt]) -> Result<()> {
    if attempts.is_empty() {
        return Ok(());
    }
    for good in options.good.iter().take(GOOD) {
        let Some(pid) = good.last_of_first_process()? else { continue };
        let (mut cursor, mut symbols) = (Cursor::open(tools, good, pid)?, Symbolizer::new(good, pid)?);
        let stdout = Output::of(tools, good, pid, options.jobs)?.stdout();
        // One that cannot be run on says nothing.
        let start = Start::new((tools, good), &mut cursor, &mut symbols, (&stdout, &stdout), options.jobs);
        let Ok(start) = start else { continue };
        // Other files may be elsewhere than beside this one.
        let is_own = |attempt: &&mut Attempt| attempt.changes.iter().all(|change| bad.is_own(change.addr()));
        let mut own: Vec<&mut Attempt> = attempts.iter_mut().filter(is_own).collect();
        let moved = |addr: u64| addr.wrapping_sub(bad.main).wrapping_add(start.main);
        let change = |change: &Change| match change {
            Change::Code { addr, bytes } => Change::Code { addr: moved(*addr), bytes: bytes.clone() },
            Change::Difference { addr, behind } => Change::Difference { addr: moved(*addr), behind: *behind },
        };
        let trials = own.iter().map(|attempt| Trial::Changes(attempt.changes.iter().map(change).collect()));
        let outcomes = start.pool.run(trials)?;
        let same = Right { output: &start.stdout, known: 0 };
        for (Attempt { tried, .. }, outcome) in own.iter_mut().zip(outcomes) {
            tried.right[0] += u32::from(outcome.is_some_and(|outcome| same.is_whole(&outcome)));
            tried.right[1] += 1;
        }
    }
    Ok(())
}

fn impossible(why: &str) -> ReplayError {
    ReplayError::OutOfRange(why.to_owned())
}

impl Start {
    /// Whether an address is within the file of `main`.
    pub(super) fn is_own(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.file.0) < self.file.1
    }

    /// For so many runs, or fewer if they take long.
    pub(super) fn budget(&self, runs: u64) -> Budget {
        Budget::new(runs, self.length)
    }

    /// Runs these trials in their order, several at a time, as long as the budget lasts and `look` at what came of one wants to go on. Those that cannot be
    /// made are left out.
    pub(super) fn each<T>(
        &self,
        tries: impl IntoIterator<Item = (Trial, T)>,
        budget: &mut Budget,
        mut look: impl FnMut(T, &Outcome) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut tries = tries.into_iter();
        while !budget.is_spent() && self.work.over().is_none() {
            let (trials, of): (Vec<Trial>, Vec<T>) = tries.by_ref().take(BATCH * self.pool.width()).unzip();
            if of.is_empty() {
                break;
            }
            for (of, outcome) in of.into_iter().zip(self.pool.run(trials)?) {
                let Some(outcome) = outcome.filter(|_| !budget.is_spent()) else { continue };
                budget.spend(&outcome);
                if look(of, &outcome).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Of a process that wrote the one to its standard output, and should have written the other.
    fn new(
        (tools, log): (&Tools, &Log),
        cursor: &mut Cursor<'_>,
        symbols: &mut Symbolizer,
        (whole, right): (&[u8], &[u8]),
        jobs: NonZeroUsize,
    ) -> Result<Self> {
        let addresses: Vec<u64> = symbols.functions(&["main"]).into_keys().collect();
        cursor.seek(Seek::Start)?;
        let stopped = cursor.run(Direction::Forward, &Conditions { addresses, ..Conditions::default() })?;
        if !matches!(stopped, Stopped::Condition(_)) {
            return Err(impossible("the log does not have the beginning of a function `main`"));
        }
        let length = cursor.end() - cursor.time();
        if length > LONGEST {
            return Err(impossible("the program runs for too long"));
        }
        let (main, place) = (cursor.regs().rip, cursor.place());
        let file = symbols.module_at(Addr(main)).map_or((main, 0), |module| (module.base, module.size));
        let seed = Seed::new((tools, log), cursor)?;
        let long = Until { time: LONG, output: None };
        let unchanged = seed.run(&Trial::Nothing, &long)?;
        let Outcome { stdout, ended, took, .. } = unchanged.ok_or_else(|| impossible("nothing of it can be run"))?;
        let other = match ended {
            Ended::Exited(_) if whole.ends_with(&stdout) => {
                let right = right.get(whole.len() - stdout.len()..);
                let right = right.ok_or_else(|| impossible("the output is wrong before `main`"))?;
                // What is wrong already does not become right.
                let until = Until { time: LEAST.max(TIMES * took), output: Some(right.to_vec()) };
                let pool = Pool::new(&seed, &until, jobs)?;
                let work = tools.work.clone();
                return Ok(Self { seed, main, file, place, length, stdout, work, pool });
            }
            Ended::Exited(_) | Ended::Stopped | Ended::Same => "it writes something else".to_owned(),
            Ended::Asked(number) => format!("it makes a system call `{}` that the log does not have", name(number)),
            Ended::Signal(number) => format!("{} arrives", signal::name(number)),
            Ended::Late => "it does not come to an end".to_owned(),
        };
        Err(impossible(&format!("run on from `main` without a change, it does not do the same: {other}")))
    }
}

/// How many bytes are the same.
fn equal(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
