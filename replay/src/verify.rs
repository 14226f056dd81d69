//! Replays a log and checks every interval against what was recorded.

use crate::describe;
use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, Selection, ThreadId};
use crate::pool;
use crate::session::{Counts, Session, Stop};
use crate::signal;
use crate::tools::Tools;
use bugnet_format::complete::{Gap, Gaps, Mentions};
use bugnet_format::folder::Ending;
use bugnet_format::frame::Interval;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::{RegisterDifference, RegisterFile};
use bugnet_format::types::{Position, ProcessId};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;

/// How many records before a divergence its report shows.
const EVENTS_SHOWN: usize = 12;

/// How far a verification has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Intervals done.
    pub intervals: usize,
    /// Intervals to do in all.
    pub of_intervals: usize,
    /// Instructions replayed in the intervals done.
    pub instructions: u64,
}

/// What a verification found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Each interval's result, by process, thread and number.
    pub intervals: Vec<IntervalReport>,
    /// Sums over all intervals.
    #[serde(with = "CountsDef")]
    pub counts: Counts,
    /// What the log lacks of the selected processes; where only some threads or intervals were selected, of these.
    pub gaps: Vec<Gap>,
    /// Processor features that the recorded program could see and that this processor lacks. Replay is exact
    /// without them unless the program used them.
    pub missing_features: Vec<String>,
}

/// Result of one interval.
#[derive(Debug, Serialize)]
pub struct IntervalReport {
    /// Which one.
    #[serde(flatten)]
    pub id: IntervalId,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Counters.
    #[serde(with = "CountsDef")]
    pub counts: Counts,
}

#[derive(Serialize)]
#[serde(remote = "Counts")]
struct CountsDef {
    instructions: u64,
    loads: u64,
    checks: u64,
}

/// What came of replaying an interval.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// It reached its end in exactly the recorded state.
    End {
        /// Where that is.
        position: Position,
        /// Why the interval ends.
        end: EndReason,
    },
    /// The thread's recording was cut off in this interval (the recorder was killed); all that the log holds of it
    /// was replayed.
    CutOff {
        /// Where the log ends.
        position: Position,
        /// Why, as far as is known.
        why: String,
    },
    /// Replay went another way than the recording.
    Divergence(Box<Divergence>),
    /// The log is damaged in this interval: it cannot be read, or lacks an end that it must have.
    Damaged {
        /// Up to here it was replayed; none if it was not.
        position: Option<Position>,
        /// What is wrong.
        what: String,
    },
    /// It could not be replayed.
    Failed {
        /// Why.
        error: String,
    },
}

/// A divergence, with all that helps to find its cause.
#[derive(Debug, Serialize)]
pub struct Divergence {
    /// Where.
    #[serde(flatten)]
    pub id: IntervalId,
    /// Instructions since the interval's start, when it was noticed.
    pub position: Position,
    /// Address of the next instruction there.
    pub rip: u64,
    /// What differs, in a sentence.
    pub what: String,
    /// Registers that differ from the recorded ones, where these are known.
    pub differences: Vec<RegisterDifference>,
    /// The last records before it.
    pub events: Vec<Event>,
    /// The command that shows it again.
    pub command: String,
}

/// A record before a divergence.
#[derive(Debug, Serialize)]
pub struct Event {
    /// Its position.
    pub position: Position,
    /// What it says.
    pub text: String,
}

impl Report {
    /// Whether every interval reached its recorded end state, or the end that the log states.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.intervals.iter().all(|i| i.outcome.is_exact())
    }

    /// Whether the log holds all that was recorded of what was selected, but for what is expected.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.gaps.iter().all(|gap| gap.expected)
    }

    /// The intervals that are not exact.
    pub fn failures(&self) -> impl Iterator<Item = &IntervalReport> {
        self.intervals.iter().filter(|i| !i.outcome.is_exact())
    }
}

impl Outcome {
    /// An interval that could not be replayed.
    pub(crate) fn of(error: &ReplayError) -> Self {
        match error {
            ReplayError::Format(error) if !error.is_refusal() => {
                Self::Damaged { position: None, what: error.to_string() }
            }
            other => Self::Failed { error: other.to_string() },
        }
    }

    /// Whether this is a recorded end, or the end that the log states.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::End { .. } | Self::CutOff { .. })
    }
}

/// Intervals that something else than [`verify`] has replayed, and found to be exact.
#[derive(Debug, Default)]
pub struct Verified(BTreeMap<IntervalId, (EndReason, Counts, Mentions)>);

impl Verified {
    /// Adds an interval that was replayed up to its recorded end, for `reason`, in the recorded state.
    pub(crate) fn add(&mut self, id: IntervalId, reason: EndReason, counts: Counts, said: Mentions) {
        self.0.insert(id, (reason, counts, said));
    }

    /// Adds what another one holds.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// What [`verify_interval`] would have found.
    fn get(&self, id: IntervalId) -> Option<(Outcome, Counts, Mentions)> {
        let (reason, counts, said) = self.0.get(&id)?;
        let position = Position(counts.instructions);
        Some((Outcome::End { position, end: reason.clone() }, *counts, said.clone()))
    }
}

/// Replays the selected intervals, `jobs` at a time, and compares each with the recording. Those that are known to be exact already are not
/// replayed again.
///
/// `progress` is called before the first interval and after each. An interval that diverges or fails does not stop
/// the others.
///
/// # Errors
/// Nothing is selected, or the installation lacks something; what is wrong with an interval stands in the report.
pub fn verify(
    tools: &Tools,
    log: &Log,
    selection: &Selection,
    known: &Verified,
    jobs: NonZeroUsize,
    mut progress: impl FnMut(Progress),
) -> Result<Report> {
    let selected = selection.intervals_of(log)?;
    let mut done = Progress { of_intervals: selected.len(), ..Progress::default() };
    progress(done);
    let missing_features = crate::machine::missing_features(log.meta());
    let mut report = Report { intervals: Vec::new(), counts: Counts::default(), gaps: Vec::new(), missing_features };
    let mut mentions = Mentions::default();
    pool::in_order(
        &selected,
        jobs,
        |session, id| known.get(*id).map_or_else(|| verify_interval(tools, log, *id, session), Ok),
        |id, result| {
            let (outcome, counts) = match result {
                Ok((outcome, counts, said)) => {
                    mentions.add(said);
                    (outcome, counts)
                }
                Err(fault @ ReplayError::ToolMissing { .. }) => return Err(fault),
                Err(error) => (Outcome::of(&error), Counts::default()),
            };
            done.intervals += 1;
            let instructions = counts.instructions + u64::from(is_followed_by_failed_exec(log, *id, &outcome)?);
            done.instructions += instructions;
            report.counts.instructions += instructions;
            report.counts.loads += counts.loads;
            report.counts.checks += counts.checks;
            report.intervals.push(IntervalReport { id: *id, outcome, counts });
            progress(done);
            Ok(())
        },
    )?;
    report.gaps = selection.gaps(log, &mentions)?;
    Ok(report)
}

/// Whether an interval has ended at an `execve` that failed: the thread has executed that between this one and the next.
fn is_followed_by_failed_exec(log: &Log, id: IntervalId, outcome: &Outcome) -> Result<bool> {
    Ok(matches!(outcome, Outcome::End { end: EndReason::Exec, .. }) && !log.is_last(id)?)
}

/// What there is to say of the selected intervals without replaying them: those that were cut off or are damaged, and what
/// they mention, for [`Selection::gaps`].
///
/// # Errors
/// Nothing is selected, or the system does not let the log be read.
pub fn survey(log: &Log, selection: &Selection) -> Result<(Vec<IntervalReport>, Mentions)> {
    let (mut unfinished, mut mentions) = (Vec::new(), Mentions::default());
    for id in selection.intervals_of(log)? {
        let interval = log.interval(id)?;
        mentions.add(Mentions::of(id.thread.pid, &interval));
        let last = interval.records().flatten().last();
        let full = last.as_ref().is_some_and(|last| matches!(last.record, Record::End { reason: EndReason::Full, .. }));
        if !interval.complete || full && log.is_last(id)? {
            let position = last.map_or(Position(0), |last| last.position);
            let outcome = if full {
                Outcome::CutOff { position, why: why_cut_off(log, id)? }
            } else {
                cut_off(log, id, &interval, position)?
            };
            unfinished.push(IntervalReport { id, outcome, counts: Counts::default() });
        }
    }
    Ok((unfinished, mentions))
}

/// Verifies an interval. `last` is the session of the one before and becomes that of this one.
fn verify_interval(
    tools: &Tools,
    log: &Log,
    id: IntervalId,
    last: &mut Option<Session>,
) -> Result<(Outcome, Counts, Mentions)> {
    let interval = log.interval(id)?;
    let started = Session::start_behind(last.take(), tools, log, id, &interval)?;
    let session = last.insert(started);
    let stop = session.run_to_end()?;
    let position = session.position();
    let outcome = match stop {
        Stop::End => match session.recorded_end() {
            // The next interval should follow: the log was cut off before its first record.
            Some((end, EndReason::Full)) if end == position && log.is_last(id)? => {
                Outcome::CutOff { position, why: why_cut_off(log, id)? }
            }
            Some((end, reason)) if end == position => Outcome::End { position, end: reason.clone() },
            _ => Outcome::Failed { error: format!("{id}: the replay process claims an end at {position}") },
        },
        Stop::CutOff => cut_off(log, id, &interval, position)?,
        Stop::Divergence { what, expected } => diverged(log, session, what, expected)?,
        Stop::Reached | Stop::Hit | Stop::Interrupted => {
            Outcome::Failed { error: format!("{id}: replay stops at {position}, before its end") }
        }
    };
    Ok((outcome, session.counts(), Mentions::of(id.thread.pid, &interval)))
}

/// A session that has diverged.
pub(crate) fn diverged(
    log: &Log,
    session: &Session,
    what: String,
    expected: Option<Box<RegisterFile>>,
) -> Result<Outcome> {
    let (id, position, rip) = (session.id(), session.position(), session.regs().rip);
    let differences = expected.map(|expected| expected.differences(session.regs())).unwrap_or_default();
    let (events, command) = (last_events(log, id, position)?, command(log, id));
    Ok(Outcome::Divergence(Box::new(Divergence { id, position, rip, what, differences, events, command })))
}

/// An interval without an end: what a killed recorder leaves, or damage?
pub(crate) fn cut_off(log: &Log, id: IntervalId, interval: &Interval, position: Position) -> Result<Outcome> {
    let exited = log.exited(id.thread.pid)?;
    let why = if interval.damaged {
        "its records break off"
    } else if !log.is_last(id)? {
        "it has no end, though later intervals follow"
    } else if exited {
        "it has no end, though the program exited by itself"
    } else {
        return Ok(Outcome::CutOff { position, why: why_cut_off(log, id)? });
    };
    let at = interval.broken.as_ref().map_or_else(String::new, |(offset, rule)| format!(" (at byte {offset}: {rule})"));
    Ok(Outcome::Damaged { position: Some(position), what: format!("{why}{at}") })
}

/// What is known of why a log was cut off.
fn why_cut_off(log: &Log, id: IntervalId) -> Result<String> {
    let ThreadId { pid, .. } = id.thread;
    let next = ProcessId { program: pid.program.saturating_add(1), ..pid };
    if log.threads().any(|thread| thread.pid == next) {
        return Ok("another thread executed a program, which ends all others".to_owned());
    }
    if log.last_of_first_process()? != Some(id.thread.pid) {
        return Ok("the process was still running, or killed from outside".to_owned());
    }
    Ok(match log.meta().ending {
        Ending::Unknown => "the program was still running, or killed together with its recorder".to_owned(),
        Ending::Exited { status } => format!("the program went on, and exited with status {status}"),
        Ending::Killed { signal } => format!("{} killed the program", signal::name(signal)),
    })
}

fn last_events(log: &Log, id: IntervalId, position: Position) -> Result<Vec<Event>> {
    let interval = log.interval(id)?;
    let mut events = VecDeque::with_capacity(EVENTS_SHOWN + 1);
    for placed in interval.records().flatten().take_while(|placed| placed.position <= position) {
        if events.len() == EVENTS_SHOWN {
            events.pop_front();
        }
        events.push_back(Event { position: placed.position, text: describe::record(&placed.record) });
    }
    Ok(events.into())
}

fn command(log: &Log, id: IntervalId) -> String {
    let path = log.path().display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,@%".contains(c);
    let path = if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) };
    let (tid, from) = (id.thread.tid, id.interval.0);
    format!("bugnet replay {path} --thread {tid} --intervals {from}..{}", from + 1)
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "divergence in {} at instruction {}, address {:#x}", self.id, self.position, self.rip)?;
        writeln!(f, "  {}", self.what)?;
        for d in &self.differences {
            writeln!(f, "  {d}")?;
        }
        writeln!(f, "  last records:")?;
        for event in &self.events {
            writeln!(f, "    {:>12}  {}", event.position.0, event.text)?;
        }
        writeln!(f, "  again: {}", self.command)
    }
}

impl fmt::Display for IntervalReport {
    /// Lines about what is not exact, or not to the end; none otherwise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id;
        match &self.outcome {
            Outcome::End { .. } => Ok(()),
            Outcome::CutOff { position, why } => {
                writeln!(f, "{id}: the log was cut off at instruction {position}: {why}; exact up to there")
            }
            Outcome::Divergence(divergence) => divergence.fmt(f),
            Outcome::Damaged { position: Some(position), what } => {
                writeln!(f, "{id}: damaged after instruction {position}: {what}")
            }
            Outcome::Damaged { position: None, what } => writeln!(f, "{id}: damaged: {what}"),
            Outcome::Failed { error } => writeln!(f, "{error}"),
        }
    }
}

impl fmt::Display for Report {
    /// What is not exact, and a last line that sums up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.intervals.iter().try_for_each(|interval| interval.fmt(f))?;
        let failures = self.failures().count();
        let is_cut_off = |interval: &&IntervalReport| matches!(interval.outcome, Outcome::CutOff { .. });
        let cut_off = self.intervals.iter().filter(is_cut_off).count();
        if failures > 0 && !self.missing_features.is_empty() {
            let missing = self.missing_features.join(", ");
            writeln!(f, "this processor lacks {missing}, which the recorded program could use: that may be the cause")?;
        }
        Gaps(&self.gaps).fmt(f)?;
        let (all, instructions) = (self.intervals.len(), self.counts.instructions);
        if all == 0 {
            return write!(f, "nothing to replay: the log holds no interval");
        }
        let exact = all - failures;
        write!(f, "{exact} of {all} intervals exact")?;
        if cut_off > 0 {
            write!(f, " ({cut_off} cut off)")?;
        }
        write!(f, ", {instructions} instructions")?;
        if !self.is_complete() {
            write!(f, "; the recording is not complete")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
