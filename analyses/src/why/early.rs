//! Which condition has led to an early end, where a run ends as a right one does but has not written all: the last one of the program's own
//! that was decided before `main` returned, or before the program's own code ended the program.

use super::near::Line;
use crate::names::brief;
use crate::runs::scene::Spot;
use crate::slice::{Asked, Criterion};
use bugnet_events::effects::Control;
use bugnet_events::walk::{Visit, walk_back};
use bugnet_format::types::Position;
use bugnet_replay::Result;
use bugnet_replay::crash::moment;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use hashbrown::HashMap;
use std::ops::ControlFlow;

/// What decided in the last branch of the program's own code before its end; none if nothing of it has lines, or nothing was decided.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn find((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<Option<Asked>> {
    cursor.seek(Seek::End)?;
    let end = cursor.place();
    let mut lines: HashMap<u64, (bool, bool)> = HashMap::new();
    // Whether the code at an address is the program's own, with a line; and whether it is of `main`.
    let mut known = |at: u64| {
        *lines.entry(at).or_insert_with(|| {
            let spot = Spot::of(symbols, at);
            (Line::of(&spot).is_some(), spot.function.as_deref() == Some("main"))
        })
    };
    // Behind the return of `main` come handlers and destructors, which decide nothing of it.
    let ended_itself = moment(log, cursor)?.backtrace.iter().any(|frame| known(frame.pc.wrapping_sub(1)).0);
    let (mut is_before, mut found) = (ended_itself, None);
    walk_back(tools, log, cursor.pid(), end, &mut |visit| {
        let Visit::Ran { place, ran, instructions } = visit else { return ControlFlow::Continue(()) };
        if place.tid != end.tid {
            return ControlFlow::Continue(());
        }
        let first = instructions.start;
        for number in instructions.rev() {
            let decoded = &ran.block.instructions[number];
            let at = decoded.instruction.ip();
            match decoded.control {
                Control::Return => is_before = is_before || known(at).1,
                Control::Branch if is_before && known(at).0 => {
                    let position = Position(place.position.0 + (number - first) as u64);
                    found = Some((Place { position, ..place }, at, decoded.effects().decides));
                    return ControlFlow::Break(());
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(found.map(|(place, at, atoms)| {
        let what = format!("the last condition before the end, in {}", brief(&Spot::of(symbols, at).to_string()));
        Asked { criterion: Criterion { place, atoms, memory: Vec::new(), call: None, here: None }, what }
    }))
}
