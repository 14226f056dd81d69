//! What there is to say about what was found.

use super::atomicity::{Passed, Pattern, Torn};
use super::found::{Looked, Pair};
use super::shadow::Made;
use super::side::{Side, Wanted, sides};
use super::watch::Watch;
use crate::runs::scene::Spot;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::work::Over;
use hashbrown::HashMap;
use serde::Serialize;

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The process.
    pub pid: ProcessId,
    /// How many threads it had.
    pub threads: usize,
    /// What could not be followed, as sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfollowed: Vec<String>,
    /// The races, in the order in which they first happened; those of the same two lines once.
    pub races: Vec<Race>,
    /// How many more there are, which were not looked at more closely.
    pub more_races: usize,
    /// Accesses that another thread has torn apart, in that order.
    pub violations: Vec<Violation>,
    /// How many more of these there are.
    pub more_violations: usize,
    /// How much was looked at.
    pub looked: Looked,
    /// Pairs of accesses with another thread in between that are no violation.
    pub passed: Passed,
    /// Why not all was looked at, if so: what lies behind the instructions is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<Over>,
}

impl Report {
    /// The work was over before anything was known.
    pub(super) fn nothing(pid: ProcessId, threads: usize, over: Over) -> Self {
        Self {
            pid,
            threads,
            unfollowed: Vec::new(),
            races: Vec::new(),
            more_races: 0,
            violations: Vec::new(),
            more_violations: 0,
            looked: Looked::default(),
            passed: Passed::default(),
            over: Some(over),
        }
    }
}

/// Why a race may do no harm. It is inferred from what happened in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benign {
    /// The other order would have given the same values.
    SameValue,
    /// Both only count or add, by their instructions or the text of their lines: counts may be lost.
    Counter,
    /// They may have been ordered by what went through the kernel: see [`Race::channels`].
    MayBeOrdered,
    /// Neither line's text is to be had, by debug information and the source. These would tell whether plain accesses are meant to be atomic.
    Untold,
    /// The text of both lines speaks of something atomic, but the instructions are plain ones, which do not say whether they are meant to be.
    Atomic,
}

/// Two accesses of the same memory that nothing orders, of which one writes.
#[derive(Clone, Debug, Serialize)]
pub struct Race {
    /// `WR` if the first one wrote and the second one read, and so on.
    pub kind: &'static str,
    /// What the memory is called, as far as it is known.
    pub variable: Option<String>,
    /// First byte that both accessed.
    pub address: u64,
    /// How many.
    pub bytes: u64,
    /// The access that came first in the recording.
    pub first: Side,
    /// The other one.
    pub second: Side,
    /// How often accesses of these two lines raced: again and again before another thread comes is once.
    pub times: u64,
    /// Whether the values would have been other ones if the two had come in the other order, right behind each other; none where they are not
    /// known.
    pub matters: Option<bool>,
    /// Why it may do no harm, or be none.
    pub benign: Vec<Benign>,
    /// What may have ordered the two accesses, of which the recording does not tell for sure whether it did.
    pub channels: Vec<String>,
}

/// Two accesses of a call, with another thread's in between, that have no order in which they could be next to each other.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Which accesses.
    pub pattern: Pattern,
    /// What the memory is called, as far as it is known.
    pub variable: Option<String>,
    /// Where it is.
    pub address: u64,
    /// The first one of the call, the one in between, and the second one of the call.
    pub accesses: [Side; 3],
    /// Whether the one in between was made by a signal's handler in the same thread.
    pub by_handler: bool,
    /// How often.
    pub times: u64,
}

/// What identifies lines: the functions with their lines, and code without lines by its addresses.
type Lines = Vec<(Spot, u64)>;

fn lines(watch: &Watch, symbols: &mut Symbolizer, made: &[Made]) -> Lines {
    let of = |made: &Made| {
        let ip = watch.code.sites[made.site as usize];
        let spot = Spot::of(symbols, ip);
        let ip = if spot.line.is_some() { 0 } else { ip };
        (spot, ip)
    };
    made.iter().map(of).collect()
}

/// Those of the same lines together, the first of them first: one that says more, if there is one.
fn together<T: Copy, K: std::hash::Hash + Eq>(
    all: impl Iterator<Item = (T, u64)>,
    mut key: impl FnMut(&T) -> K,
    says_more: impl Fn(&T, &T) -> bool,
) -> Vec<(T, u64)> {
    let (mut found, mut known): (Vec<(T, u64)>, HashMap<K, usize>) = (Vec::new(), HashMap::new());
    for (one, times) in all {
        let at = *known.entry(key(&one)).or_insert(found.len());
        if at == found.len() {
            found.push((one, 0));
        } else if says_more(&one, &found[at].0) {
            found[at].0 = one;
        }
        found[at].1 += times;
    }
    found
}

/// Reports on what a search has found, and looks at the first `top` of each kind.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub(super) fn report(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    watch: &Watch,
    top: usize,
) -> Result<Report> {
    let found = &watch.found;
    let pairs = together(
        found.pairs.iter().map(|pair| (*pair, pair.times)),
        |pair| (lines(watch, symbols, &pair.made), pair.writes),
        |one, other| one.via.is_none() && other.via.is_some(),
    );
    let key = |torn: &Torn| (lines(watch, symbols, &torn.made), torn.pattern);
    let torn = together(found.torn.iter().copied(), key, |_, _| false);
    let (shown, shown_torn) = (&pairs[..pairs.len().min(top)], &torn[..torn.len().min(top)]);
    let of_pair = |pair: &Pair| [0, 1].map(|nth| (pair.made[nth], pair.writes[nth], pair.bytes));
    let of_torn = |torn: &Torn| [0, 1, 2].map(|nth| (torn.made[nth], writes(torn.pattern)[nth], (torn.addr, torn.len)));
    let wanted: Vec<Wanted> = (shown.iter().flat_map(|(pair, _)| of_pair(pair)))
        .chain(shown_torn.iter().flat_map(|(torn, _)| of_torn(torn)))
        .collect();
    let mut sides = sides((log, cursor, symbols), watch, &wanted)?.into_iter();
    let (mut races, mut violations) = (Vec::new(), Vec::new());
    for (pair, times) in shown {
        let both = std::array::from_fn(|_| sides.next().flatten());
        races.extend(race(symbols, watch, pair, *times, both));
    }
    for (torn, times) in shown_torn {
        let all = std::array::from_fn(|_| sides.next().flatten());
        violations.extend(violation(symbols, watch, torn, *times, all));
    }
    Ok(Report {
        pid: cursor.pid(),
        threads: watch.times.len(),
        unfollowed: Vec::new(),
        more_races: pairs.len() - races.len(),
        races,
        more_violations: torn.len() - violations.len(),
        violations,
        looked: found.looked,
        passed: watch.pairs.passed,
        over: None,
    })
}

fn race(symbols: &mut Symbolizer, watch: &Watch, pair: &Pair, times: u64, sides: [Option<Side>; 2]) -> Option<Race> {
    let [Some(first), Some(second)] = sides else { return None };
    let matters = matters(&first, &second);
    let mut benign = Vec::new();
    benign.extend((matters == Some(false)).then_some(Benign::SameValue));
    benign.extend((first.counts && second.counts).then_some(Benign::Counter));
    benign.extend((first.names_atomic && second.names_atomic).then_some(Benign::Atomic));
    benign.extend(may_be_atomic(pair, [&first, &second]).then_some(Benign::Untold));
    let channels = watch.channels.names(pair.via.unwrap_or(0));
    benign.extend(pair.via.map(|_| Benign::MayBeOrdered));
    let (address, bytes) = pair.bytes;
    let kind = match pair.writes {
        [true, true] => "WW",
        [true, false] => "WR",
        [false, _] => "RW",
    };
    let variable = variable(symbols, watch, address, [&first, &second]);
    Some(Race { kind, variable, address, bytes, first, second, times, matters, benign, channels })
}

/// Whether both may be accesses of an atomic variable as far as anybody can tell: no text says what they are.
fn may_be_atomic(pair: &Pair, sides: [&Side; 2]) -> bool {
    let (address, bytes) = pair.bytes;
    matches!(bytes, 1 | 2 | 4 | 8) && address % bytes == 0 && sides.iter().all(|side| side.text.is_none())
}

/// Whether the other order would give other values, if nothing else came in between.
fn matters(first: &Side, second: &Side) -> Option<bool> {
    match (first.changes, second.changes) {
        (Some(true), Some(true)) => return Some(false),
        (None, None) => {}
        // What it would have made of another value is not known.
        _ => return None,
    }
    let [before_first, behind_first] = &first.bytes;
    let [before_second, behind_second] = &second.bytes;
    let (one, other) = match (first.writes, second.writes) {
        // The read would have found what was there before the write.
        (true, false) => (before_first, before_second),
        // The read would have found what was written.
        (false, _) => (before_first, behind_second),
        // The value that stays.
        (true, true) => (behind_first, behind_second),
    };
    Some(one.as_ref()? != other.as_ref()?)
}

/// Which of the accesses of a pattern write.
fn writes(pattern: Pattern) -> [bool; 3] {
    match pattern {
        Pattern::Rwr => [false, true, false],
        Pattern::Wwr => [true, true, false],
        Pattern::Rww => [false, true, true],
        Pattern::Wrw => [true, false, true],
    }
}

fn violation(
    symbols: &mut Symbolizer,
    watch: &Watch,
    torn: &Torn,
    times: u64,
    sides: [Option<Side>; 3],
) -> Option<Violation> {
    let [Some(first), Some(between), Some(second)] = sides else { return None };
    let variable = variable(symbols, watch, torn.addr, [&first, &second]);
    let by_handler = first.place.tid == between.place.tid;
    let accesses = [first, between, second];
    Some(Violation { pattern: torn.pattern, variable, address: torn.addr, accesses, by_handler, times })
}

/// What memory is called: a global variable, one of a function in whose call the accesses are, or a block that was allocated.
fn variable(symbols: &mut Symbolizer, watch: &Watch, addr: u64, sides: [&Side; 2]) -> Option<String> {
    let behind = |name: String, offset: u64| if offset == 0 { name } else { format!("{name} (byte {offset})") };
    if let Some(name) = symbols.describe(Addr(addr)) {
        return Some(name);
    }
    let scopes = sides.into_iter().flat_map(|side| &side.frames).flat_map(|frame| &frame.scopes);
    for scope in scopes {
        for variable in scope.arguments.iter().chain(&scope.locals) {
            let Some((start, size)) = variable.address.zip(variable.size) else { continue };
            if (start..start.saturating_add(size)).contains(&addr) {
                let function = scope.function.as_deref().unwrap_or("a function");
                return Some(format!("{} of {function}", behind(variable.name.clone(), addr - start)));
            }
        }
    }
    let block = watch.heap.block(addr)?;
    let place: Place = block.place;
    Some(format!("byte {} of {} that {} gave at {place}", addr - block.start, block.len, block.function))
}
