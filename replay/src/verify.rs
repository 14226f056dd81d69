//! Replays a log and checks every interval against what was recorded.

use crate::describe;
use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, Selection};
use crate::pool;
use crate::session::{Counts, Session, Stop};
use crate::tools::Tools;
use bugnet_format::record::EndReason;
use bugnet_format::regs::RegisterDifference;
use bugnet_format::types::Position;
use serde::Serialize;
use std::collections::VecDeque;
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
        /// Why the interval ends.
        end: EndReason,
    },
    /// The thread's recording was cut off in this interval (the recorder was killed); all that the log holds of it
    /// was replayed.
    CutOff {
        /// Where the log ends.
        position: Position,
    },
    /// Replay went another way than the recording.
    Divergence(Box<Divergence>),
    /// The log is damaged in this interval: it lacks an end that it must have.
    Damaged {
        /// Up to here it was replayed.
        position: Position,
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

    /// The intervals that are not exact.
    pub fn failures(&self) -> impl Iterator<Item = &IntervalReport> {
        self.intervals.iter().filter(|i| !i.outcome.is_exact())
    }
}

impl Outcome {
    /// Whether this is a recorded end, or the end that the log states.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::End { .. } | Self::CutOff { .. })
    }
}

/// Replays the selected intervals, `jobs` at a time, and compares each with the recording.
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
    jobs: NonZeroUsize,
    mut progress: impl FnMut(Progress),
) -> Result<Report> {
    let selected = selection.intervals_of(log)?;
    let mut done = Progress { of_intervals: selected.len(), ..Progress::default() };
    progress(done);
    let missing_features = crate::machine::missing_features(log.meta());
    let mut report = Report { intervals: Vec::new(), counts: Counts::default(), missing_features };
    pool::in_order(
        &selected,
        jobs,
        |session, id| verify_interval(tools, log, *id, session),
        |id, result| {
            let (outcome, counts) = match result {
                Ok(done) => done,
                Err(fault @ ReplayError::ToolMissing { .. }) => return Err(fault),
                Err(error) => (Outcome::Failed { error: error.to_string() }, Counts::default()),
            };
            done.intervals += 1;
            done.instructions += counts.instructions;
            report.counts.instructions += counts.instructions;
            report.counts.loads += counts.loads;
            report.counts.checks += counts.checks;
            report.intervals.push(IntervalReport { id: *id, outcome, counts });
            progress(done);
            Ok(())
        },
    )?;
    Ok(report)
}

/// Verifies an interval. `last` is the session of the one before and becomes that of this one.
fn verify_interval(tools: &Tools, log: &Log, id: IntervalId, last: &mut Option<Session>) -> Result<(Outcome, Counts)> {
    let interval = log.interval(id)?;
    let started = Session::start_behind(last.take(), tools, log, id, &interval)?;
    let session = last.insert(started);
    let stop = session.run_to_end()?;
    let position = session.position();
    let outcome = match stop {
        Stop::End => match session.recorded_end() {
            // The next interval should follow: the log was cut off before its first record.
            Some((end, EndReason::Full)) if end == position && log.is_last(id)? => Outcome::CutOff { position },
            Some((end, reason)) if end == position => Outcome::End { end: reason.clone() },
            _ => Outcome::Failed { error: format!("{id}: the replay process claims an end at {position}") },
        },
        Stop::CutOff => cut_off(log, id, position)?,
        Stop::Divergence { what, expected } => {
            let differences = expected.map(|expected| expected.differences(session.regs())).unwrap_or_default();
            let rip = session.regs().rip;
            let (events, command) = (last_events(log, id, position)?, command(log, id));
            Outcome::Divergence(Box::new(Divergence { id, position, rip, what, differences, events, command }))
        }
        Stop::Reached => Outcome::Failed { error: format!("{id}: replay stops at {position}, before its end") },
    };
    Ok((outcome, session.counts()))
}

/// An interval without an end: what a killed recorder leaves, or damage?
fn cut_off(log: &Log, id: IntervalId, position: Position) -> Result<Outcome> {
    let interval = log.interval(id)?;
    let exited = log.exited(id.thread.pid)?;
    let why = if interval.damaged {
        "its records break off"
    } else if !log.is_last(id)? {
        "it has no end, though later intervals follow"
    } else if exited {
        "it has no end, though the program exited by itself"
    } else {
        return Ok(Outcome::CutOff { position });
    };
    let at = interval.broken.map_or_else(String::new, |(offset, rule)| format!(" (at byte {offset}: {rule})"));
    Ok(Outcome::Damaged { position, what: format!("{why}{at}") })
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

impl fmt::Display for Report {
    /// What is not exact, and a last line that sums up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut failures = 0;
        let mut cut_off = 0;
        for interval in &self.intervals {
            failures += usize::from(!interval.outcome.is_exact());
            match &interval.outcome {
                Outcome::End { .. } => {}
                Outcome::CutOff { position } => {
                    cut_off += 1;
                    writeln!(f, "{}: the log was cut off at instruction {position}; exact up to there", interval.id)?;
                }
                Outcome::Divergence(divergence) => divergence.fmt(f)?,
                Outcome::Damaged { position, what } => {
                    writeln!(f, "{}: damaged after instruction {position}: {what}", interval.id)?;
                }
                Outcome::Failed { error } => writeln!(f, "{error}")?,
            }
        }
        if failures > 0 && !self.missing_features.is_empty() {
            let missing = self.missing_features.join(", ");
            writeln!(f, "this processor lacks {missing}, which the recorded program could use: that may be the cause")?;
        }
        let (all, instructions) = (self.intervals.len(), self.counts.instructions);
        if all == 0 {
            return write!(f, "the log was cut off before its first checkpoint: there is nothing to replay");
        }
        let exact = all - failures;
        write!(f, "{exact} of {all} intervals exact")?;
        if cut_off > 0 {
            write!(f, " ({cut_off} cut off)")?;
        }
        write!(f, ", {instructions} instructions")
    }
}

#[cfg(test)]
mod tests;
