//! Passes over what cannot be wrong and changes nothing: most blocks. Whatever a visit of such a block would do is nothing but to count its
//! instructions.

use super::check::Checker;
use bugnet_events::calls::Calls;
use bugnet_events::stretch::Ran;
use bugnet_events::walk::{Visit, Visitor};
use bugnet_format::types::Tid;
use std::ops::ControlFlow;

/// A check, and the calls that are open.
pub struct Passing<'c, 'a> {
    pub checker: Checker<'c, 'a>,
    calls: Calls,
    /// The thread that was visited last, where its next block may be passed over: it has not just returned, which the next block tells.
    quiet: Option<Tid>,
    most: u64,
}

impl<'c, 'a> Passing<'c, 'a> {
    /// Before the first instruction. It ends after about so many instructions.
    pub fn new(checker: Checker<'c, 'a>, most: u64) -> Self {
        Self { checker, calls: Calls::default(), quiet: None, most }
    }
}

impl Visitor for Passing<'_, '_> {
    #[inline]
    fn passes(&mut self, tid: Tid, ran: &Ran<'_>) -> bool {
        let passes = ran.block.is_plain
            && self.checker.counts.instructions < self.most
            && self.quiet == Some(tid)
            && self.checker.below.passes(ran)
            && self.checker.is_right(ran);
        if passes {
            self.checker.counts.instructions += ran.block.instructions.len() as u64;
        }
        passes
    }

    fn visit(&mut self, visit: Visit<'_>) -> ControlFlow<()> {
        let Self { checker, calls, quiet, most } = self;
        if checker.counts.instructions >= *most {
            return ControlFlow::Break(());
        }
        calls.visit(&visit, &mut |called| checker.called(called));
        checker.visit(&visit);
        *quiet = match visit {
            Visit::Ran { place, .. } => Some(place.tid),
            // Rare, so that what it changes need not be known here.
            Visit::Skipped { .. } | Visit::Delivered { .. } => None,
        };
        *quiet = quiet.filter(|tid| !calls.has_returned(*tid) && !checker.frames.has_returned(*tid));
        if checker.has_failed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
