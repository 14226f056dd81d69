//! Which instructions are at the places of conflicts: address, function, source line.

use super::{ConflictReport, Place};
use crate::error::Result;
use crate::log::{IntervalId, Log, ThreadId};
use crate::session::{Session, Stop};
use crate::symbols::Symbolizer;
use crate::tools::Tools;
use bugnet_format::types::{Addr, IntervalNo, Position, ProcessId, Tid};
use std::collections::BTreeMap;

/// Says which instructions the conflicts are between. A place that a replay of its thread does not reach stays without.
///
/// # Errors
/// The log cannot be read, or a replay process is lost.
pub(super) fn name(tools: &Tools, log: &Log, pid: ProcessId, conflicts: &mut [ConflictReport]) -> Result<()> {
    let mut intervals: BTreeMap<(Tid, IntervalNo), BTreeMap<Position, Option<Addr>>> = BTreeMap::new();
    for place in conflicts.iter().flat_map(|conflict| [&conflict.reader, &conflict.writer]) {
        intervals.entry((place.tid, place.interval)).or_default().insert(place.position, None);
    }
    for ((tid, interval), positions) in &mut intervals {
        let mut session =
            Session::open(tools, log, IntervalId { thread: ThreadId { pid, tid: *tid }, interval: *interval })?;
        for (position, pc) in positions {
            if session.run_to(*position)? != Stop::Reached {
                break;
            }
            *pc = Some(Addr(session.regs().rip));
        }
    }
    let mut symbols = Symbolizer::new(log, pid)?;
    let mut code = |place: &mut Place| {
        let pc = intervals.get(&(place.tid, place.interval)).and_then(|positions| *positions.get(&place.position)?);
        place.code = pc.map(|pc| match symbols.lookup(pc).brief() {
            Some(name) => format!("{pc} {name}"),
            None => pc.to_string(),
        });
    };
    for conflict in conflicts {
        code(&mut conflict.reader);
        code(&mut conflict.writer);
    }
    Ok(())
}
