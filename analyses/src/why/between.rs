//! What another thread changed between two steps of a function: it calls what reads a variable, another thread writes that, and then it calls what uses the
//! variable again, as where one asks whether something is there, and takes it. Each call by itself may hold the right lock (high-level data races:
//! Artho, Havelund and Biere, 2003).

use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;

/// Calls of functions, the innermost ones, of which two accesses may have one in common.
const NEAR: usize = 4;

/// A call of a function: its number, and the instruction that called it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub number: u64,
    pub from: u64,
}

/// The last access of a piece of memory by a thread.
#[derive(Clone, Copy, Debug)]
struct Access {
    tid: Tid,
    calls: [Option<Call>; NEAR],
    ip: u64,
    place: Place,
    writes: bool,
    /// Whether another thread has written since then.
    is_stale: bool,
    /// The step before, in a function in which this access was, too.
    earlier: Option<Step>,
}

/// An access by a function, or by what it calls.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The function's call.
    call: u64,
    /// The instruction in it.
    ip: u64,
    place: Place,
    writes: bool,
    is_stale: bool,
}

/// Two steps of a function: the instructions in it, and where the memory was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    pub steps: [u64; 2],
    pub places: [Place; 2],
}

/// The last accesses of all threads, by eight bytes.
#[derive(Default)]
pub struct Between {
    cells: HashMap<u64, Vec<Access>>,
    pub found: HashMap<[u64; 2], Split>,
}

impl Between {
    /// A thread accesses memory, in these calls, the innermost one last.
    pub fn access(&mut self, place: Place, (ip, addr, writes): (u64, u64, bool), calls: &[Call]) {
        let mut near = [None; NEAR];
        let innermost = calls.iter().rev().zip(&mut near);
        innermost.for_each(|(call, known)| *known = Some(*call));
        let mut now = Access { tid: place.tid, calls: near, ip, place, writes, is_stale: false, earlier: None };
        let all = self.cells.entry(addr & !7).or_default();
        let own = all.iter().position(|access| access.tid == now.tid);
        let before = own.map(|own| all.swap_remove(own));
        if let Some((step, ip)) = before.and_then(|before| steps(&before, &now)) {
            now.earlier = Some(step);
            if step.is_stale && !step.writes {
                let split = Split { steps: [step.ip, ip], places: [step.place, place] };
                self.found.insert(split.steps, split);
            }
        }
        for other in all.iter_mut().filter(|_| writes) {
            other.is_stale = true;
            other.earlier.iter_mut().for_each(|step| step.is_stale = true);
        }
        all.push(now);
    }
}

/// The steps of the innermost function in which both accesses were: the first one, and the instruction of the second one, which is further down. Where the
/// first one is a round of a loop in which the second one is, too, it is the step before that.
fn steps(one: &Access, other: &Access) -> Option<(Step, u64)> {
    let number = |call: &Option<Call>| call.map(|call| call.number);
    let (at, with, call) = one.calls.iter().enumerate().find_map(|(at, call)| {
        let wanted = number(call)?;
        Some((at, other.calls.iter().position(|call| number(call) == Some(wanted))?, wanted))
    })?;
    let step = |access: &Access, at: usize| match at.checked_sub(1) {
        Some(inner) => access.calls[inner].map_or(access.ip, |call| call.from),
        None => access.ip,
    };
    let [first, second] = [step(one, at), step(other, with)];
    // Both accesses in the function itself are an atomicity violation of the usual kind.
    let is_split = at + with > 0 && first < second;
    let step = Step { call, ip: first, place: one.place, writes: one.writes, is_stale: one.is_stale };
    let before = one.earlier.filter(|step| first == second && step.call == call && step.ip < second);
    let before = before.map(|step| Step { is_stale: step.is_stale || one.is_stale, ..step });
    Some((Some(step).filter(|_| is_split).or(before)?, second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::types::{IntervalNo, Position};

    fn place(tid: u32, position: u64) -> Place {
        Place { tid: Tid(tid), interval: IntervalNo(0), position: Position(position) }
    }

    fn call(number: u64, from: u64) -> Call {
        Call { number, from }
    }

    #[test]
    fn two_calls_of_a_function() {
        let mut between = Between::default();
        let (reads, writes) = ((0x10, 0x8000, false), (0x20, 0x8000, true));
        between.access(place(1, 0), reads, &[call(1, 0x100), call(2, 0x204)]);
        between.access(place(2, 0), writes, &[call(9, 0x300)]);
        between.access(place(1, 5), reads, &[call(1, 0x100), call(3, 0x208)]);
        let found: Vec<&Split> = between.found.values().collect();
        assert_eq!(found, [&Split { steps: [0x204, 0x208], places: [place(1, 0), place(1, 5)] }]);
    }

    #[test]
    fn the_second_step_in_a_loop() {
        let mut between = Between::default();
        let (reads, writes) = ((0x10, 0x8000, false), (0x20, 0x8000, true));
        between.access(place(1, 0), reads, &[call(1, 0x100), call(2, 0x204)]);
        between.access(place(1, 5), reads, &[call(1, 0x100), call(3, 0x208)]);
        assert!(between.found.is_empty());
        between.access(place(2, 0), writes, &[call(9, 0x300)]);
        between.access(place(1, 8), reads, &[call(1, 0x100), call(4, 0x208)]);
        let found: Vec<&Split> = between.found.values().collect();
        assert_eq!(found, [&Split { steps: [0x204, 0x208], places: [place(1, 0), place(1, 8)] }]);
    }

    #[test]
    fn what_is_no_pair() {
        let mut between = Between::default();
        let (reads, writes) = ((0x10, 0x8000, false), (0x20, 0x8000, true));
        // Nobody wrote.
        between.access(place(1, 0), reads, &[call(1, 0x100), call(2, 0x204)]);
        between.access(place(2, 0), reads, &[call(9, 0x300)]);
        between.access(place(1, 5), reads, &[call(1, 0x100), call(3, 0x208)]);
        // Another round.
        between.access(place(2, 1), writes, &[call(9, 0x300)]);
        between.access(place(1, 6), reads, &[call(1, 0x100), call(4, 0x204)]);
        // Another call of the function.
        between.access(place(2, 2), writes, &[call(9, 0x300)]);
        between.access(place(1, 7), reads, &[call(5, 0x100), call(6, 0x208)]);
        assert!(between.found.is_empty(), "{:?}", between.found);
    }
}
