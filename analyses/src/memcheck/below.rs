//! What lies below the stack pointer: the frames of functions that have returned.
//!
//! Where the stack pointer is follows from a return: behind the slot from which it took its address. What the function that called has below that is
//! nobody's, since one that calls keeps nothing there (System V ABI, 3.2.2: the red zone is for those that call nothing), until it moves the
//! stack pointer or calls again. Elsewhere it would take each value of the stack pointer to know, and nothing is said.

use bugnet_events::code::Stack;
use bugnet_events::effects::Control;
use bugnet_events::stretch::{Access, Ran};
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use iced_x86::Register;
use std::ops::Range;

/// How far below the innermost call that there was a frame may reach.
const FRAME: u64 = 1 << 16;
/// Bytes of a return address.
const SLOT: u64 = 8;

/// A function that was entered, and has not been left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    slot: u64,
    /// The innermost slot of a call from there on, through any number of others, on the same stack.
    lowest: u64,
}

/// Functions that were entered, one in the other, with their slots in descending order: those that lie below another one's have been left, on this
/// stack at least.
type Nested = Vec<Call>;

/// All that were entered, and have not been left. Each of these may be on another stack than the one before.
#[derive(Default)]
struct Open(Vec<Nested>);

/// A function that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its `ret`.
    pub place: Place,
    /// Where its return address was.
    pub slot: u64,
    /// Whether an access was of memory that was of the stack for sure, or may be of what else lies below it.
    pub is_sure: bool,
}

/// What lies below the stack pointer.
#[derive(Default)]
struct Dead {
    /// Those that have returned since the last call, the innermost first.
    gone: Vec<Gone>,
    /// The slot of the innermost call that there was.
    lowest: u64,
    /// Where it lies, if that is known.
    below: Range<u64>,
}

/// What is known of a thread.
#[derive(Default)]
struct Thread {
    open: Open,
    dead: Dead,
    /// The same when the last call was made.
    before: Dead,
    /// Where the function goes on that has called.
    returns_to: u64,
}

/// Of all threads.
#[derive(Default)]
pub struct Below {
    threads: Vec<(Tid, Thread)>,
    /// The thread that ran last.
    last: usize,
}

/// An access of what lies there.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub access: Access,
    /// Of which function's frame.
    pub gone: Gone,
    /// An instruction of the function for which nothing lies there.
    pub function: u64,
}

impl Below {
    #[inline]
    fn thread(&mut self, tid: Tid) -> &mut Thread {
        if self.threads.get(self.last).is_none_or(|(known, _)| *known != tid) {
            self.last = self.threads.iter().position(|(known, _)| *known == tid).unwrap_or(self.threads.len());
            if self.last == self.threads.len() {
                self.threads.push((tid, Thread::default()));
            }
        }
        &mut self.threads[self.last].1
    }

    /// Whether the thread that ran last may execute a block without that anything comes of it here.
    #[inline]
    pub fn passes(&self, ran: &Ran<'_>) -> bool {
        let Some((_, thread)) = self.threads.get(self.last) else { return ran.block.stack != Stack::Switches };
        match ran.block.stack {
            Stack::Stays => thread.dead.below.is_empty() || !ran.may_touch(&thread.dead.below),
            Stack::Moves => thread.dead.below.is_empty(),
            Stack::Switches => false,
        }
    }

    /// A signal's handler begins or is over, on whichever stack.
    pub fn switch(&mut self, tid: Tid) {
        self.thread(tid).switch();
    }

    /// A thread executes a part of a block: the first access of what is nobody's.
    pub fn ran(&mut self, place: Place, ran: &Ran<'_>, part: &Range<usize>) -> Option<(usize, Found)> {
        let thread = self.thread(place.tid);
        let mut found = None;
        if !thread.dead.below.is_empty() {
            if thread.returns_to == 0 {
                thread.returns_to = ran.block.instructions[part.start].instruction.ip();
            }
            found = thread.first(ran, part);
        }
        match ran.block.stack {
            Stack::Stays => {}
            Stack::Moves => thread.dead.below = 0..0,
            Stack::Switches => thread.switch(),
        }
        if part.end == ran.block.instructions.len()
            && let Some(slot) = ran.slot()
        {
            match ran.block.control {
                Control::Call => thread.called(slot),
                Control::Return => {
                    let mut at = place;
                    at.position.0 += (part.end - 1 - part.start) as u64;
                    thread.returned(slot, at);
                    thread.returns_to = ran.returned().map_or(0, |(_, target)| target);
                }
                _ => {}
            }
        }
        found
    }

    /// An instruction of a thread accesses what may be nobody's, between a return and the next time that the stack pointer moves: whether it is
    /// of a frame.
    pub fn accessed(&mut self, tid: Tid, ip: u64, access: Access) -> Option<Found> {
        let thread = self.thread(tid);
        let function = if thread.returns_to == 0 { ip } else { thread.returns_to };
        let below = &thread.dead.below;
        let is_below = below.contains(&access.addr) && access.addr.saturating_add(access.len) <= below.end;
        let gone = thread.dead.gone(access.addr).filter(|_| is_below)?;
        Some(Found { access, gone, function })
    }

    /// Of which function's frame an address is that a function gets whose return address is in a slot: of one that had returned when it was
    /// called.
    pub fn passed(&mut self, tid: Tid, slot: u64, addr: u64) -> Option<Gone> {
        let before = &self.thread(tid).before;
        before.gone(addr).filter(|_| before.below.end > slot && before.below.contains(&addr) && addr < slot)
    }
}

impl Dead {
    /// The function of whose frame an address is.
    fn gone(&self, addr: u64) -> Option<Gone> {
        let gone = self.gone.iter().find(|gone| addr < gone.slot + SLOT)?;
        Some(Gone { is_sure: addr >= self.lowest, ..*gone })
    }
}

impl Open {
    /// From here on, it may be another stack.
    fn switch(&mut self) {
        if self.0.last().is_some_and(|last| !last.is_empty()) {
            self.0.push(Nested::new());
        }
    }

    fn called(&mut self, slot: u64) {
        for nested in &mut self.0 {
            while nested.pop_if(|call| call.slot <= slot).is_some() {}
        }
        let last = self.0.pop().unwrap_or_default();
        self.0.retain(|nested| !nested.is_empty());
        self.0.push(last);
        if let Some(last) = self.0.last_mut() {
            last.push(Call { slot, lowest: slot });
        }
    }

    /// The innermost slot of the calls that are over with the one of a slot, if there is such a one.
    fn returned(&mut self, slot: u64) -> Option<u64> {
        let within = |nested: &Nested| nested.binary_search_by(|call| slot.cmp(&call.slot)).ok();
        let (of, at) = self.0.iter().enumerate().rev().find_map(|(number, nested)| Some((number, within(nested)?)))?;
        self.0.truncate(of + 1);
        let nested = self.0.last_mut()?;
        let least = nested.drain(at..).map(|call| call.lowest).min().unwrap_or(slot);
        if let Some(outer) = nested.last_mut() {
            outer.lowest = outer.lowest.min(least);
        }
        Some(least)
    }
}

impl Thread {
    fn switch(&mut self) {
        (self.dead, self.before) = Default::default();
        self.open.switch();
    }

    fn called(&mut self, slot: u64) {
        self.open.called(slot);
        std::mem::swap(&mut self.dead, &mut self.before);
        self.dead.gone.clear();
        self.dead.below = 0..0;
    }

    fn returned(&mut self, slot: u64, place: Place) {
        let dead = &mut self.dead;
        dead.below = 0..0;
        let Some(least) = self.open.returned(slot) else { return };
        dead.gone.push(Gone { place, slot, is_sure: false });
        (dead.lowest, dead.below) = (least, least.saturating_sub(FRAME)..slot + SLOT);
        self.returns_to = 0;
    }

    /// The first access of what is nobody's, by an instruction before the stack pointer moves.
    fn first(&self, ran: &Ran<'_>, part: &Range<usize>) -> Option<(usize, Found)> {
        let below = &self.dead.below;
        if !ran.may_touch(below) {
            return None;
        }
        for number in part.clone() {
            let decoded = &ran.block.instructions[number];
            if Stack::of(decoded) != Stack::Stays {
                break;
            }
            // What is told from the stack pointer on is meant to be there.
            if decoded.instruction.memory_base() == Register::RSP {
                continue;
            }
            let is_below =
                |access: &Access| below.contains(&access.addr) && access.addr.saturating_add(access.len) <= below.end;
            if let Some(access) = ran.accesses(number).find(is_below) {
                let gone = self.dead.gone(access.addr)?;
                return Some((number, Found { access, gone, function: self.returns_to }));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is open, in one list, with a mark where it may be another stack.
    #[derive(Default)]
    struct Plain(Vec<Option<Call>>);

    impl Plain {
        fn switch(&mut self) {
            if self.0.last().is_some_and(Option::is_some) {
                self.0.push(None);
            }
        }

        fn called(&mut self, slot: u64) {
            self.0.retain(|open| open.is_none_or(|call| call.slot > slot));
            self.0.push(Some(Call { slot, lowest: slot }));
        }

        fn returned(&mut self, slot: u64) -> Option<u64> {
            let at = self.0.iter().rposition(|open| open.is_some_and(|call| call.slot == slot))?;
            let least = self.0.drain(at..).map_while(|open| open).map(|call| call.lowest).min();
            if let (Some(Some(outer)), Some(least)) = (self.0.last_mut(), least) {
                outer.lowest = outer.lowest.min(least);
            }
            least
        }
    }

    #[test]
    fn what_is_open() {
        let mut random = fastrand::Rng::with_seed(6);
        for _ in 0..2000 {
            let (mut open, mut plain) = (Open::default(), Plain::default());
            for _ in 0..random.usize(1..40) {
                let slot = random.u64(1..12);
                match random.u8(0..5) {
                    0 => {
                        open.switch();
                        plain.switch();
                    }
                    1 | 2 => {
                        open.called(slot);
                        plain.called(slot);
                    }
                    _ => assert_eq!(open.returned(slot), plain.returned(slot), "{:?}", plain.0),
                }
            }
        }
    }

    /// However deep a recursion is, a call costs the same: else, this would take hours.
    #[test]
    fn what_is_deep() {
        let (mut open, deep) = (Open::default(), 3_000_000);
        for slot in (0..deep).rev() {
            open.called(8 * slot);
        }
        for slot in 0..deep {
            assert_eq!(open.returned(8 * slot), Some(0));
        }
        assert_eq!(open.returned(0), None);
    }
}
