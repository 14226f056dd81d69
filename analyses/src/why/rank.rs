//! Which lines come first, and why.

use super::meant::Changed;
use super::near::{Line, Near, Work};
use super::report::Suspect;
use super::spectra::Spectrum;
use super::variants::Kind;
use bugnet_replay::cursor::Place;
use bugnet_replay::symbols::Symbolizer;
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// What the first thing that was illegal counts for, more than all else together; and later ones, which may follow from it.
const ILLEGAL: f64 = 10.0;
const LATER: f64 = 0.3;
/// What the line counts for that gave the block back, against the one that used it afterwards: less than that where the block was only moved to grow,
/// which is meant, and more where it is given back too early for what its own function does next, or a first time of two.
const FREED: f64 = 0.95;
const MOVED: f64 = 0.5;
const EARLY: f64 = 1.05;
/// What the line counts for that made the size of a block which is written beyond: the program meant it to be larger.
const TOO_SMALL: f64 = 1.05;
/// What the line counts for that took a lock of a deadlock, against the one that waits for another one.
const HELD: f64 = 0.9;
/// The same for the call by which a function that holds a lock comes to wait for it.
const CALLS: f64 = 0.95;
/// What a race counts for on a line of a slice, and elsewhere: some races do no harm.
const RACE: f64 = 1.0;
const RACE_ELSEWHERE: f64 = 0.05;
/// What a line counts for by which another thread's write was lost, in a slice, against a memory error that follows: it was the first thing that went
/// wrong.
const LOST: f64 = 1.02;
/// What a line counts for that wrote without an order to a block before that was given back and then used, where the failure, or that it was given
/// back, follows from the line.
const RACED: f64 = 1.01;
/// What a line counts for that told other threads of what was not finished yet, where the wrong value follows from what they then read.
const PUBLISHED: f64 = 2.5;
/// And one between two steps of which another thread wrote what both used.
const SPLIT: f64 = 1.5;
/// What the line counts for at which a thread waits to the end.
const WAITS: f64 = 2.0;
/// What a conflict counts for that a right run does not have.
const CONFLICT: f64 = 0.1;
/// What a line of the full slice alone counts for, against one of the thin slice.
const FULL: f64 = 0.3;
/// What a line counts for that has done the same for all right lines of the output.
const MAKES_RIGHT: f64 = 0.3;
/// What the line counts for at which the failure shows: little, unless a check is missing there, as one does where a null pointer is used.
const LAST: f64 = 0.2;
/// What a check counts for that has let the wrong value pass, against a line of the thin slice.
const GUARD: f64 = 0.9;
/// What it counts for where the value that passed was just the bound, as one is that is off by one.
const EDGE: f64 = 2.0;
/// What a line counts for that stores a part of a value which is loaded whole, against others that copy.
const TEARS: f64 = 2.5;
/// What a call counts for that stores a part of a value which is loaded whole.
const RUNS_OVER: f64 = 1.2;
/// What lines count for from which the address of the first memory error follows, or which decide that it happens, against those of the failure.
const ILLEGAL_SLICE: f64 = 3.0;
const ILLEGAL_THIN: f64 = 2.0;
/// And lines that decide that the block was given back which is used then.
const GIVEN_BACK: f64 = 2.0;
/// What the line counts for that asked for the block, where an access goes beyond it; and lines from which the block's size follows, against those
/// of the failure.
const ALLOCATED: f64 = 1.2;
const SIZE: f64 = 5.0;
/// And lines from which what was added to the pointer follows.
const OFFSET: f64 = 5.0;
/// What the line counts for that sets what lies next to something undefined, which it may have left out; and that of another one which sets what lies
/// farther away.
const BESIDE: f64 = 1.5;
const BESIDE_NEXT: f64 = 0.6;
/// The same, where it is in the function that asked for the block and so is to fill it, and of the line that would have set what is undefined, it seems,
/// but was not executed: against the line that used what is undefined, which is seldom wrong itself.
const FILLS: f64 = 1.02;
const SKIPPED: f64 = 1.05;
/// What a line counts for where another operator or constant was tried that made the output right; where it made only more of it right; and against these,
/// another variable, and a condition that was turned round, or something that was left out.
const REPAIRED: f64 = 1.0;
const BETTER: f64 = 0.3;
const BESIDES: f64 = 0.6;
/// What is left of that where the output of right runs becomes wrong.
const HARMS: f64 = 0.2;
const TURNED: f64 = 0.5;
/// What a condition counts for that made the output right when it was turned at a single execution.
const ONCE: f64 = 0.6;
/// What a line counts for before which a variable was set back, and the output became right.
const SET_BACK: f64 = 0.9;
/// The exponent of the distance, by which what is farther away counts for less.
const FARTHER: f64 = 0.7;
/// What a line counts for that decides by what is computed elsewhere, one in which a constant enters, and one that only copies.
const DECIDES: f64 = 0.7;
const CONSTANT: f64 = 0.6;
const COPIES: f64 = 0.5;
/// The same, where a null pointer was used: one that passes it on may be the one that should look at it.
const PASSES: f64 = 0.8;
/// What suspiciousness counts for, from 0 to 1, and the first difference from a right run, which may be the input alone.
const SUSPICIOUS: f64 = 1.0;
const DIFFERS: f64 = 0.2;
/// What is left of these where threads share memory: there, an order is wrong, and what only the failing run executed is what follows from that.
const SHARED: f64 = 0.2;
/// Lines that only the failing run executed of which each is looked at with full attention.
const FEW: f64 = 8.0;

/// How a block was given back that was used afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// It was moved by what made it larger.
    Moved,
    /// The function that gave it back used it, or it was given back again.
    Early,
    /// Elsewhere.
    Apart,
}

/// What a line does for a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It took a lock that is held.
    Takes,
    /// It waits for one, or calls what does.
    Waits,
    /// It calls what waits for a lock, in the function that holds it.
    Holder,
}

/// What was illegal at a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A memory error: the number of those before.
    Memory { text: String, number: usize },
    /// The block was given back that a memory error used: the number of those before.
    Freed { text: String, number: usize, how: Given },
    /// It made the size of the block that the first memory error writes beyond.
    TooSmall { text: String },
    /// The block was asked for beyond which a memory error goes.
    Allocated { text: String },
    /// It sets bytes of the block next to those that are undefined: the number of lines that do so nearer; whether it is in the function that asked for
    /// the block.
    Beside { text: String, number: usize, by_maker: bool },
    /// It calls what stores a part of a value that was stored whole before, and is loaded whole.
    RunsOver { text: String },
    /// It would have set bytes that are undefined, as far as its displacement tells, but was not executed for that block.
    Skipped { text: String },
    /// A race.
    Race { text: String },
    /// A race of two writes to the block that the first memory error used when it had been given back.
    Raced { text: String },
    /// An atomicity violation; whether it is the access that follows from what was read too early; whether that is a write, by which the other thread's
    /// is lost.
    Torn { text: String, is_last: bool, is_lost: bool },
    /// It told other threads of what was not finished; whether what they then read is in a slice.
    Published { text: String, is_in_slice: bool },
    /// Another thread wrote between two steps of a function what both used; whether both are in a slice.
    Split { text: String, is_in_slice: bool },
    /// A conflict of threads or handlers that a right run does not have; whether two accesses of one call are among it.
    OnlyHere { text: String, is_torn: bool },
    /// A thread waits there to the end, for what nobody holds.
    Waits { text: String },
    /// A deadlock, and what the line does for it.
    Deadlock { text: String, by: Lock },
}

impl Reason {
    fn text(&self) -> &str {
        match self {
            Self::Memory { text, .. }
            | Self::Freed { text, .. }
            | Self::Allocated { text }
            | Self::TooSmall { text }
            | Self::Published { text, .. }
            | Self::Split { text, .. }
            | Self::Beside { text, .. }
            | Self::Skipped { text }
            | Self::OnlyHere { text, .. }
            | Self::RunsOver { text }
            | Self::Waits { text }
            | Self::Race { text }
            | Self::Raced { text }
            | Self::Torn { text, .. }
            | Self::Deadlock { text, .. } => text,
        }
    }

    fn counts(&self, is_in_slice: bool, is_memory: bool) -> f64 {
        let memory = |number: usize| if number == 0 { ILLEGAL } else { LATER / number as f64 };
        match self {
            Self::Memory { number, .. } => memory(*number),
            Self::Freed { number, how, .. } => {
                let share = match how {
                    Given::Moved => MOVED,
                    Given::Early => EARLY,
                    Given::Apart => FREED,
                };
                share * memory(*number)
            }
            Self::TooSmall { .. } => TOO_SMALL * ILLEGAL,
            Self::Allocated { .. } => ALLOCATED,
            Self::Beside { number, by_maker: true, .. } => FILLS * ILLEGAL * BESIDE_NEXT.powi(*number as i32),
            Self::Beside { number, .. } => BESIDE * BESIDE_NEXT.powi(*number as i32),
            Self::Skipped { .. } => SKIPPED * ILLEGAL,
            Self::RunsOver { .. } => RUNS_OVER,
            Self::Waits { .. } => WAITS,
            Self::Published { is_in_slice: true, .. } => PUBLISHED,
            Self::Split { is_in_slice: true, .. } => SPLIT,
            Self::Published { .. } | Self::Split { .. } => RACE_ELSEWHERE,
            Self::OnlyHere { is_torn: true, .. } if is_in_slice => RACE,
            Self::OnlyHere { .. } => CONFLICT,
            Self::Race { .. } | Self::Torn { is_last: false, .. } if is_in_slice => RACE,
            Self::Torn { is_lost: true, .. } if is_in_slice && is_memory => LOST * ILLEGAL,
            Self::Torn { is_last: true, .. } if is_in_slice => 2.0 * RACE,
            Self::Raced { .. } if is_in_slice => RACED * ILLEGAL,
            Self::Race { .. } | Self::Raced { .. } | Self::Torn { .. } => RACE_ELSEWHERE,
            Self::Deadlock { by: Lock::Takes, .. } => HELD * ILLEGAL,
            Self::Deadlock { by: Lock::Waits, .. } => ILLEGAL,
            Self::Deadlock { by: Lock::Holder, .. } => CALLS * ILLEGAL,
        }
    }
}

/// A change of an instruction that was tried, and made the output right.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Which, in words.
    pub what: String,
    /// What tells what it means for the line, where that is not the same.
    pub changed: Option<Changed>,
    /// In how many more of the line's instructions the same is changed.
    pub others: usize,
    /// Of which kind.
    pub kind: Kind,
    /// Whether all of the output is right then, and not only more of it.
    pub is_whole: bool,
    /// Of how many right runs the output stays as it is then, of how many.
    pub right: [u32; 2],
    /// What is left of it where the same comes of a change of other lines: from 0 to 1.
    pub share: f64,
}

impl Tried {
    fn counts(&self) -> f64 {
        let [same, all] = self.right.map(f64::from);
        // As without any right run, if it stays in all of them.
        let kept = if all == 0.0 { 1.0 } else { HARMS + (1.0 - HARMS) * same / all };
        let whole = if self.is_whole { REPAIRED * kept } else { BETTER };
        match self.kind {
            Kind::Small => whole,
            Kind::Beside => BESIDES * whole,
            Kind::Once => ONCE * whole,
            Kind::SetBack => SET_BACK * whole * self.share,
            Kind::Turned | Kind::Always | Kind::Out => TURNED * whole,
        }
    }

    /// What was tried, and what came of it; `line` is its text.
    fn text(&self, line: Option<&str>) -> String {
        let comes = if self.is_whole { "is as it should be" } else { "is right further on" };
        let right = match self.right {
            [_, 0] => String::new(),
            [same, all] => format!(", and that of {same} of {all} right runs stays so"),
        };
        let means = self.changed.as_ref().map(|changed| changed.words(line));
        let (means, code) = match means {
            Some(means) => (means, format!(" ({})", self.what)),
            None => (self.what.clone(), String::new()),
        };
        let everywhere = match self.others {
            0 => String::new(),
            others => format!(", and the same in {others} more of the line's instructions"),
        };
        format!("with {means}{everywhere}, the output {comes}{right}: that was tried{code}")
    }
}

/// What is known of a line.
#[derive(Clone, Debug, Default)]
pub struct Clues {
    /// How near it is in the thin slice.
    pub thin: Option<Near>,
    /// And in the full one.
    pub full: Option<Near>,
    /// In the slices of the address that the first memory error accesses, and of why it happens.
    pub wrong_access: Option<Near>,
    /// In the thin slice of that address.
    pub wrong_address: Option<Near>,
    /// In the slice of why the block was given back that the first memory error uses.
    pub given_back: Option<Near>,
    /// In the thin slice of what was added to a pointer into a block, so that the access is beyond it.
    pub offset: Option<Near>,
    /// In the slice of the size of the block beyond which that goes.
    pub size: Option<Near>,
    /// Of how many right lines of the output it has made a value, as near as for the wrong one.
    pub makes_right: u32,
    /// And of how many it has decided, or made one.
    pub decides_right: u32,
    /// The first value that differs from a right run.
    pub differs: Option<String>,
    /// Where a right run goes another way.
    pub parts: Option<String>,
    /// Whether it is a check of an order that has let a wrong value pass which was equal to what it was compared with.
    pub is_edge: bool,
    /// Its instructions in the full slice.
    pub code: BTreeSet<u64>,
    /// The change that made most of the output right.
    tried: Option<Tried>,
    illegal: Vec<Reason>,
    spectrum: Option<Spectrum>,
    seen: Option<(Place, Option<String>)>,
}

/// What is known of all lines.
#[derive(Default)]
pub struct Table {
    lines: HashMap<Line, Clues>,
    /// Whether the failure shows where a check is missing.
    pub shows: bool,
    /// Whether there is a memory error.
    pub is_memory: bool,
    /// Whether several threads share memory: what is wrong is then an order, which right runs mostly do not have, and not a line.
    pub is_shared: bool,
    /// Right lines of the output of which the slices are known.
    pub right: u32,
}

impl Table {
    /// What is known of a line.
    pub fn clues(&mut self, line: Line) -> &mut Clues {
        self.lines.entry(line).or_default()
    }

    /// Whether something of a line is in a slice.
    pub fn is_in_slice(&self, line: &Line) -> bool {
        self.lines.get(line).is_some_and(|clues| clues.near().is_some())
    }

    /// Whether nothing is known of any line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Something illegal happened at a line.
    pub fn illegal(&mut self, line: Line, function: Option<String>, place: Place, reason: Reason) {
        let clues = self.clues(line);
        // What it does next follows from the first one.
        if !clues.illegal.iter().any(|known| std::mem::discriminant(known) == std::mem::discriminant(&reason)) {
            clues.illegal.push(reason);
        }
        clues.seen.get_or_insert((place, function));
    }

    /// A line was executed at a place.
    pub fn seen(&mut self, line: Line, function: Option<String>, place: Place) {
        self.clues(line).seen.get_or_insert((place, function));
    }

    /// In which runs a line was executed, if something is known of it.
    pub fn spectrum(&mut self, line: &Line, spectrum: Spectrum) {
        if let Some(clues) = self.lines.get_mut(line) {
            clues.spectrum = Some(spectrum);
        }
    }

    /// The lines of which something is in the full slice, the most suspicious ones first.
    pub fn nearest(&self) -> Vec<Line> {
        let mut all: Vec<(f64, usize, &Line)> = self
            .lines
            .iter()
            .filter(|(_, clues)| !clues.code.is_empty())
            .map(|(line, clues)| (clues.score(self), clues.nth(), line))
            .collect();
        all.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)).then(one.2.cmp(other.2)));
        all.into_iter().map(|(.., line)| line.clone()).collect()
    }

    /// The first lines, the most suspicious one first.
    pub fn ranked(&self, symbols: &mut Symbolizer, top: usize) -> Vec<Suspect> {
        let mut all: Vec<(f64, usize, &Line, &Clues)> = Vec::new();
        for (line, clues) in &self.lines {
            let score = clues.score(self);
            if clues.place().is_some() && score > 0.0 {
                all.push((score, clues.nth(), line, clues));
            }
        }
        // Of lines that count the same, those come first that were executed last.
        all.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)).then(one.2.cmp(other.2)));
        all.into_iter()
            .take(top)
            .filter_map(|(score, _, line, clues)| clues.suspect(line, score, self.right, symbols))
            .collect()
    }
}

impl Clues {
    fn near(&self) -> Option<&Near> {
        self.thin
            .as_ref()
            .or(self.full.as_ref())
            .or(self.wrong_access.as_ref())
            .or(self.size.as_ref())
            .or(self.offset.as_ref())
            .or(self.given_back.as_ref())
    }

    /// Whether it is a check that has let the wrong value pass.
    fn is_guard(&self) -> bool {
        [&self.full, &self.wrong_access].into_iter().flatten().any(|near| near.is_guard)
    }

    /// For how many right lines of the output it has done what it does for the wrong value.
    fn in_right(&self) -> u32 {
        if self.thin.is_some() { self.makes_right } else { self.decides_right }
    }

    /// Takes up a change that was tried, if it made more right than others.
    pub fn tried(&mut self, tried: Tried) {
        if self.tried.as_ref().is_none_or(|known| known.counts() < tried.counts()) {
            self.tried = Some(tried);
        }
    }

    fn nth(&self) -> usize {
        self.near().map_or(usize::MAX, |near| near.nth)
    }

    fn place(&self) -> Option<(Place, Option<&String>)> {
        let near = self.near().map(|near| (near.place, near.function.as_ref()));
        // What was illegal is looked at where it was.
        let seen = self.seen.as_ref().map(|(place, function)| (*place, function.as_ref()));
        if self.illegal.is_empty() { near.or(seen) } else { seen.or(near) }
    }

    fn of_slice(near: &Near, is_thin: bool, shows: bool) -> f64 {
        let work = match near.work {
            _ if near.is_last && shows => 1.0,
            Work::Computes => 1.0,
            Work::Decides => DECIDES,
            Work::Constant => CONSTANT,
            Work::Copies if shows => PASSES,
            Work::Copies => COPIES,
        };
        let work = if near.tears { work.max(COPIES) * TEARS } else { work };
        let last = if near.is_last && !shows { LAST } else { 1.0 };
        let kind = match (is_thin, near.is_guard) {
            (true, _) => work * last,
            (false, true) => GUARD,
            (false, false) => work * last * FULL,
        };
        kind / 2.0 * (2.0 / (2.0 + f64::from(near.steps))).powf(FARTHER)
    }

    fn score(&self, table: &Table) -> f64 {
        let (shows, right) = (table.shows, table.right);
        let unusual = if table.is_shared { SHARED } else { 1.0 };
        let thin = self.thin.as_ref().map(|near| Self::of_slice(near, true, shows));
        let full = self.full.as_ref().filter(|near| thin.is_none() || near.is_guard);
        let full = full.map(|near| self.edge() * Self::of_slice(near, false, shows));
        // That the wrong access is near to itself says nothing.
        let is_access = self.illegal.iter().any(|reason| matches!(reason, Reason::Memory { .. }));
        let [wrong, address] =
            [&self.wrong_access, &self.wrong_address].map(|near| near.as_ref().filter(|_| !is_access));
        let wrong = wrong.map(|near| self.edge() * ILLEGAL_SLICE * Self::of_slice(near, false, false));
        let address = address.map(|near| ILLEGAL_THIN * Self::of_slice(near, true, false));
        let size = self.size.as_ref().map(|near| SIZE * Self::of_slice(near, true, true));
        let offset = self.offset.as_ref().map(|near| OFFSET * Self::of_slice(near, true, true));
        let given_back = self.given_back.as_ref().filter(|_| !is_access);
        let given_back = given_back.map(|near| GIVEN_BACK * Self::of_slice(near, false, false));
        let mut score =
            [thin, full, wrong, address, size, offset, given_back].into_iter().flatten().fold(0.0, f64::max);
        let share = f64::from(self.in_right()) / f64::from(right.max(1));
        score *= 1.0 - (1.0 - MAKES_RIGHT) * share;
        if let Some(spectrum) = self.spectrum {
            // What each right run executed as well counts as without them, and what only this one did the less, the more of it there is.
            let least = Spectrum::new(spectrum.all, spectrum.all).ochiai;
            score += unusual * SUSPICIOUS * (spectrum.ochiai - least) * (FEW / spectrum.others.max(1) as f64).min(1.0);
        }
        score += unusual
            * DIFFERS
            * (f64::from(u8::from(self.differs.is_some())) + f64::from(u8::from(self.parts.is_some())));
        let is_in_slice = self.near().is_some();
        // What changes the wrong access itself only hides it.
        score += self.tried.as_ref().filter(|_| !is_access).map_or(0.0, Tried::counts);
        score + self.illegal.iter().map(|reason| reason.counts(is_in_slice, table.is_memory)).fold(0.0, f64::max)
    }

    /// What a check counts for against others.
    fn edge(&self) -> f64 {
        if self.is_edge && self.is_guard() { EDGE } else { 1.0 }
    }

    fn suspect(&self, line: &Line, score: f64, right: u32, symbols: &mut Symbolizer) -> Option<Suspect> {
        let (place, function) = self.place()?;
        let text = symbols.source_line(&line.file, line.line).map(|text| text.trim().to_owned());
        let why = self.reasons(right, text.as_deref());
        Some(Suspect {
            file: line.file.clone(),
            line: line.line,
            function: function.cloned(),
            text,
            place,
            score,
            spectrum: self.spectrum,
            why,
        })
    }

    /// Why it stands there, in sentences; `text` is the line's.
    fn reasons(&self, right: u32, text: Option<&str>) -> Vec<String> {
        let mut all: Vec<String> = self.illegal.iter().map(|reason| reason.text().to_owned()).collect();
        if let Some(near) = self.near() {
            let does = match near.work {
                Work::Computes => "computes",
                Work::Constant => "brings in a constant for",
                Work::Copies => "copies",
                Work::Decides => "decides by",
            };
            let what = if self.thin.is_some() {
                format!("{does} a value that the wrong one is made of")
            } else if self.full.is_some() {
                format!("{does} a value that decides whether, or from where, the wrong one was made")
            } else if self.wrong_access.is_some() {
                format!("{does} a value that decides whether, or where, the wrong access was made")
            } else if self.size.is_some() {
                format!("{does} a value that the size of the block is made of")
            } else if self.offset.is_some() {
                format!("{does} a value that was added to a pointer into the block")
            } else {
                format!("{does} a value that decides whether the block was given back")
            };
            let steps = match near.steps {
                0 => "with no other line of the program's own in between".to_owned(),
                1 => "one line of the program's own further back".to_owned(),
                steps => format!("{steps} lines of the program's own further back"),
            };
            all.push(format!("{what}, {steps}"));
            if self.offset.is_some() && !what.ends_with("into the block") {
                all.push("what was added to a pointer into the block follows from it".to_owned());
            }
            if self.is_guard() {
                let bound = if self.is_edge { ", which was just the bound" } else { "" };
                all.push(format!("is a check that has let the wrong value pass{bound}"));
            }
            if near.tears {
                all.push(
                    "overwrites a part of a value that another line had stored whole, as what runs over into it does"
                        .to_owned(),
                );
            }
            if near.is_last {
                all.push("is the line at which the failure shows".to_owned());
            }
        }
        all.extend(self.tried.as_ref().map(|tried| tried.text(text)));
        if self.in_right() > 0 {
            all.push(format!("has done the same for {} of {right} right lines of the output", self.in_right()));
        }
        all.extend(self.differs.iter().chain(&self.parts).cloned());
        if let Some(Spectrum { passed, all: runs, ochiai, dstar, .. }) = self.spectrum {
            let dstar = dstar.map_or("infinite".to_owned(), |dstar| format!("{dstar:.2}"));
            all.push(format!(
                "was executed by {passed} of {runs} right runs (how suspicious that is: {ochiai:.2} of 1 by Ochiai's formula, {dstar} by DStar's, which has no \
                 end)"
            ));
        }
        all
    }
}
