//! Passes over what cannot be wrong and changes nothing: most blocks. Whatever a visit of such a block would do is nothing but to count its
//! instructions.

use super::check::Checker;
use bugnet_events::calls::Calls;
use bugnet_events::code::Block;
use bugnet_events::stretch::Ran;
use bugnet_events::walk::{Visit, Visitor};
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use bugnet_replay::looked::Suspect;
use std::ops::ControlFlow;

/// A check, and the calls that are open.
pub struct Passing<'c, 'a> {
    pub checker: Checker<'c, 'a>,
    calls: Calls,
    /// The thread that was visited last, where its next block may be passed over: it has not just returned, which the next block tells.
    quiet: Option<Tid>,
    most: u64,
    /// Instructions up to what is visited now.
    before: u64,
}

impl<'c, 'a> Passing<'c, 'a> {
    /// Before the first instruction. It ends after about so many instructions.
    pub fn new(checker: Checker<'c, 'a>, most: u64) -> Self {
        Self { checker, calls: Calls::default(), quiet: None, most, before: 0 }
    }
}

impl Visitor for Passing<'_, '_> {
    #[inline]
    fn passes(&mut self, tid: Tid, ran: &Ran<'_>) -> bool {
        ran.block.is_plain
            && self.before < self.most
            && self.quiet == Some(tid)
            && (self.checker.brief.is_none() || ran.block.traced.accesses.is_empty())
            && self.checker.below.passes(ran)
            && self.checker.is_right(ran)
    }

    fn visit(&mut self, visit: Visit<'_>) -> ControlFlow<()> {
        let Self { checker, calls, quiet, most, before } = self;
        if *before >= *most {
            return ControlFlow::Break(());
        }
        calls.visit(&visit, &mut |called| checker.called(called));
        checker.visit(&visit);
        *quiet = match visit {
            Visit::Ran { place, .. } => Some(place.tid),
            // Rare, so that what it changes need not be known here.
            Visit::Skipped { .. } | Visit::Delivered { .. } | Visit::Resumed { .. } => None,
        };
        *quiet = quiet.filter(|tid| !calls.has_returned(*tid) && !checker.frames.has_returned(*tid));
        if checker.has_failed() || checker.is_in_doubt() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn executes(&mut self, instructions: u64) {
        self.before = self.checker.counts.instructions;
        if self.before < self.most {
            self.checker.counts.instructions += instructions;
        }
    }

    fn suspects(&mut self, place: Place, suspect: &Suspect, block: &Block) -> ControlFlow<()> {
        if self.before < self.most
            && let Some(number) = block.instructions.iter().position(|decoded| decoded.instruction.ip() == suspect.pc)
        {
            self.checker.suspect(place, suspect, block, number);
        }
        if self.checker.is_in_doubt() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
