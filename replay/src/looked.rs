//! Which accesses of an interval may be wrong: its replay process looks at each ([`bugnet_format::shade`]), and says which these are.
//!
//! The process is a stranger: what it says is checked.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use crate::process::Process;
use crate::session::{Session, Stop};
use crate::tools::Tools;
use bugnet_format::control::{Request, Response};
use bugnet_format::frame::Interval;
use bugnet_format::shade::MAX_SHADES;
use bugnet_format::types::Position;
use std::ops::RangeInclusive;

pub use bugnet_format::shade::{Looked, Shade, Suspect, SuspectBlock};

/// An interval in a replay process that looks at each access.
pub struct Looker {
    session: Session,
    blocks: Vec<SuspectBlock>,
}

impl Looker {
    /// At the start of an interval; with the process that another one leaves behind, if it will do, and what was said to that. Else, with nothing being
    /// wrong: whether it is so. `None`: the machine does not let it look.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        interval: &Interval,
        before: Option<Self>,
        looked: &Looked,
    ) -> Result<Option<(Self, bool)>> {
        let (before, blocks) = before.map(|before| (before.session, before.blocks)).unzip();
        let process = before.as_ref().map(Session::number);
        let session = Session::start_behind(before, tools, log, id, interval)?;
        let is_new = process != Some(session.number());
        let blocks = blocks.filter(|_| !is_new).unwrap_or_default();
        let mut new = Self { session, blocks };
        let does = !is_new || new.ask(&Request::Look(looked.clone()))?;
        Ok(does.then_some((new, is_new)))
    }

    /// Whether it does what is asked for.
    fn ask(&mut self, request: &Request) -> Result<bool> {
        let process = self.session.process();
        process.send(request)?;
        match process.receive_any()? {
            Response::Ready => Ok(true),
            Response::Refused(_) => Ok(false),
            other => Err(process.unexpected(&other)),
        }
    }

    /// The blocks in which instructions are that have accessed what may be wrong, by their numbers.
    #[must_use]
    pub fn blocks(&self) -> &[SuspectBlock] {
        &self.blocks
    }

    /// Says what is wrong, and what is not any more, from which instructions on, in that order; none of them has been executed. `false`: the process cannot
    /// tell all of that memory apart, and is of no use any more.
    ///
    /// # Errors
    /// The process is lost.
    pub fn shade(&mut self, shades: &[Shade]) -> Result<bool> {
        for some in shades.chunks(MAX_SHADES) {
            if !self.ask(&Request::Shade(some.to_vec()))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on to a position: accesses before it that may be wrong, in the order of their instructions.
    ///
    /// # Errors
    /// The interval does not go so far, or otherwise than recorded; or the process is lost.
    pub fn run_to(&mut self, until: Position) -> Result<Vec<Suspect>> {
        let first = self.session.position();
        if until <= first {
            return Ok(Vec::new());
        }
        if let Stop::Divergence { what, .. } = self.session.run_to(until)? {
            return Err(self.session.diverged(what));
        }
        let last = self.session.position();
        let range = first.0..=last.0;
        let found = found(self.session.process(), &mut self.blocks, range)?;
        found.map_or_else(|why| Err(ReplayError::NotTraced { interval: self.session.process().interval(), why }), Ok)
    }
}

/// What a process has found in a run between these positions, and blocks that are new with that; or why it does not look any more.
pub(crate) fn found(
    process: &mut Process,
    known: &mut Vec<SuspectBlock>,
    between: RangeInclusive<u64>,
) -> Result<std::result::Result<Vec<Suspect>, String>> {
    let mut all: Vec<Suspect> = Vec::new();
    loop {
        process.send(&Request::Suspects { from: all.len() as u32, blocks: known.len() as u32 })?;
        match process.receive_any()? {
            Response::Suspects { suspects, blocks } if suspects.is_empty() && blocks.is_empty() => break,
            Response::Suspects { suspects, blocks } => {
                all.extend(suspects);
                known.extend(blocks);
            }
            Response::Refused(why) => return Ok(Err(why)),
            other => return Err(process.unexpected(&other)),
        }
    }
    let is_in = |suspect: &Suspect| between.contains(&suspect.at) && (suspect.block as usize) < known.len();
    if !all.is_sorted_by_key(|suspect| suspect.at) || !all.iter().all(is_in) {
        return Err(process.makes_no_sense("what it has looked at"));
    }
    Ok(Ok(all))
}
