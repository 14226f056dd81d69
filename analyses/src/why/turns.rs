//! What comes of conditional jumps that go the other way at a single execution: with which one is the output as it should be? Where a decision is wrong,
//! or where what it decides by is, the run of the other way is the right one (predicate switching: Zhang, Gupta and Gupta, *Locating Faults Through
//! Automated Predicate Switching*). What would have been executed is in no slice, so that jumps outside of them are turned, too.

use super::meant::Changed;
use super::near::Line;
use super::rank::{Table, Tried};
use super::tries::{Right, Start};
use super::variants::{Kind, instruction};
use bugnet_replay::Result;
use bugnet_what_if::{Trial, Turn};
use hashbrown::HashMap;
use std::ops::ControlFlow;

/// How many executions of jumps are turned.
const TURN: u64 = 1200;
/// A jump that is executed more often is not turned, and of others, so many executions are, the last ones.
const OFTEN: u64 = 5_000;
const MOST: u64 = 48;

/// A line, and its instructions.
type Lines = (Line, Vec<u64>);

/// A jump of a line, and how often it is executed.
struct Jump {
    line: Line,
    addr: u64,
    executions: u64,
}

/// Turns the jumps of these lines, one execution of each after the other, the last ones first before what is wrong was made, and notes what came of it;
/// how many could be turned.
///
/// # Errors
/// The operating system's.
pub fn find(
    start: &Start,
    right: Right<'_>,
    (lines, executions): (&[Lines], &HashMap<u64, u64>),
    table: &mut Table,
) -> Result<u32> {
    let (mut count, mut jumps) = (0, Vec::new());
    for (line, addr) in lines.iter().flat_map(|(line, code)| code.iter().map(move |addr| (line, *addr))) {
        if let Some(executions) = executions.get(&addr).copied().filter(|executions| *executions <= OFTEN) {
            jumps.push(Jump { line: line.clone(), addr, executions });
        }
    }
    let turn = |jump: &Jump, before_last: u64| Turn { addr: jump.addr, nth: jump.executions - before_last };
    let tries = (1..=MOST).flat_map(|before_last| {
        let jumps = jumps.iter().filter(move |jump| before_last <= jump.executions);
        jumps.map(move |jump| (Trial::Turn(turn(jump, before_last)), (jump, turn(jump, before_last))))
    });
    start.each(tries, &mut start.budget(TURN), |(jump, turn), outcome| {
        count += 1;
        if right.is_better(outcome) {
            let what = format!("the jump at {:#x} turned at its execution {}", jump.addr, turn.nth + 1);
            let (kind, is_whole) = (Kind::Once, right.is_whole(outcome));
            let was = instruction(&start.seed.instruction(jump.addr), jump.addr);
            let changed = Some(Changed { was, other: None, kind, nth: Some(turn.nth + 1) });
            let tried = Tried { what, changed, others: 0, kind, is_whole, right: [0, 0], share: 1.0 };
            table.clues(jump.line.clone()).tried(tried);
        }
        ControlFlow::Continue(())
    })?;
    Ok(count)
}
