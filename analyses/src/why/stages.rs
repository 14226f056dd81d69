//! What is done one after the other: how long each stage may take, and what stands in the report where one is not done.
//!
//! A stage that is over leaves what it has found. Whoever interrupts one wants to know what is known: no other one begins.

use super::report::Report;
use bugnet_replay::cursor::Cursor;
use bugnet_replay::work::Over;
use bugnet_replay::{ReplayError, Result};
use std::time::Duration;

/// Time of a stage, of a run of so many instructions; longer runs have more of it.
const TIME: Duration = Duration::from_secs(20);
const INSTRUCTIONS: u64 = 1_000_000_000;

/// The stages of a question about one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages {
    /// How long each may take; none: as long as it takes.
    time: Option<Duration>,
    /// Instructions of the run.
    of: u64,
}

impl Stages {
    /// Of the run that a cursor is on.
    pub fn new(cursor: &Cursor<'_>, is_thorough: bool) -> Self {
        let of = cursor.end();
        let more = u32::try_from(of / INSTRUCTIONS).unwrap_or(u32::MAX - 1);
        Self { time: (!is_thorough).then(|| TIME.saturating_mul(1 + more)), of }
    }

    /// A stage begins, or the next part of one, of which nobody knows how much there is to do.
    ///
    /// # Errors
    /// The one before was interrupted.
    pub fn begin(&self, what: &str, cursor: &Cursor<'_>) -> Result<()> {
        self.begin_of(what, 0, cursor)
    }

    /// The same for one that goes through the whole run.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_whole(&self, what: &str, cursor: &Cursor<'_>) -> Result<()> {
        self.begin_of(what, self.of, cursor)
    }

    fn begin_of(&self, what: &str, of: u64, cursor: &Cursor<'_>) -> Result<()> {
        let work = &cursor.tools().work;
        if work.is_interrupted() {
            return Err(ReplayError::Over(Over::Interrupted));
        }
        work.begin(what, of, self.time);
        Ok(())
    }

    /// Does a stage; none if it is over before it is done, which a note then says.
    ///
    /// # Errors
    /// Its.
    pub fn run<'a, T>(
        &self,
        what: &str,
        cursor: &mut Cursor<'a>,
        report: &mut Report,
        stage: impl FnOnce(&mut Cursor<'a>, &mut Report) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.begin(what, cursor).and_then(|()| stage(cursor, report)) {
            Ok(done) => Ok(Some(done)),
            Err(ReplayError::Over(over)) => {
                report.notes.push(left_out(what, &over));
                cursor.tools().work.resume();
                cursor.begin_anew()?;
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

/// What a note says of a stage that is over.
pub(super) fn left_out(what: &str, over: &Over) -> String {
    let then = match over {
        Over::Interrupted => "",
        Over::Late(_) => " `bugnet why --thorough` takes as long as it takes.",
    };
    format!("Not looked for to the end: {what} ({over}).{then}")
}
