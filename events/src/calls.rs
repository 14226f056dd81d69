//! Calls of functions that one wants to know of: where they begin, with what, and what comes back.
//!
//! The trace tells registers where such a function begins, and RAX where any block does ([`bugnet_replay::trace::Wanted`]). A call returns where `ret` takes
//! the return address from the slot in which its caller has put it, through whatever the function jumped to in between.

use crate::effects::Control;
use crate::stretch::Ran;
use crate::walk::{Did, Visit};
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;

/// Numbers of the registers that hold arguments (System V ABI, 3.2.3).
const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];
const RAX: u8 = 0;
const RSP: u8 = 4;

/// A function that was called, and has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Its first instruction.
    pub place: Place,
    /// Address of that.
    pub function: u64,
    /// Its arguments, or what was in the registers for them; none where the trace has no room for one.
    pub args: [Option<u64>; 6],
    /// Where its return address is.
    pub slot: u64,
}

/// What one comes to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called<'a> {
    /// A function begins.
    Entered(&'a Entered),
    /// One has returned; the instruction at the place is the next one.
    Returned {
        /// Its call.
        call: &'a Entered,
        /// What is in RAX.
        result: Option<u64>,
        /// Where its caller goes on.
        place: Place,
    },
    /// One does not return any more: its frame is gone (`longjmp`, an exception).
    Left(&'a Entered),
}

/// Something that returns.
enum Frame {
    Call(Entered),
    /// A signal's handler, with the stack pointer where it begins. What it interrupted goes on behind it.
    Handler(u64),
}

#[derive(Default)]
struct Thread {
    frames: Vec<Frame>,
    /// Whose `ret` was the last instruction, and what was in RAX there, if that is told.
    returned: Vec<(Entered, Option<u64>)>,
}

/// The calls that are open, of all threads.
#[derive(Default)]
pub struct Calls {
    threads: Vec<(Tid, Thread)>,
    /// The thread that ran last.
    last: usize,
    /// Whether a return is told with what comes behind it, also if it is known before.
    with_next: bool,
}

impl Calls {
    /// None yet, of somebody who is told of a return with what is executed behind it ([`Self::goes_on`]).
    #[must_use]
    pub fn with_next() -> Self {
        Self { with_next: true, ..Self::default() }
    }

    /// Goes on by a visit of [`crate::onward::walk_on`], and tells what comes of it, before what the visit itself shows.
    #[inline]
    pub fn visit(&mut self, visit: &Visit<'_>, each: &mut impl FnMut(Called<'_>)) {
        match visit {
            Visit::Ran { place, ran, instructions } => {
                let with_next = self.with_next;
                let thread = self.thread(place.tid);
                let begins = instructions.start == 0;
                if begins && (!thread.returned.is_empty() || ran.registers_told() > 1) {
                    thread.begin(*place, ran, each);
                }
                if thread.frames.is_empty() || instructions.end != ran.block.instructions.len() {
                    return;
                }
                match ran.block.control {
                    Control::Call => thread.call(ran, each),
                    Control::Return => {
                        thread.go_back(ran, each);
                        // Else, the next block tells.
                        if let Some((result, _)) = ran.returned().filter(|_| !with_next) {
                            let mut at = *place;
                            at.position.0 += instructions.len() as u64;
                            for (call, _) in thread.returned.drain(..) {
                                each(Called::Returned { call: &call, result: Some(result), place: at });
                            }
                        }
                    }
                    _ => {}
                }
            }
            Visit::Skipped { place, did: Did::Return, .. } => {
                let thread = self.thread(place.tid);
                while let Some(Frame::Call(call)) = thread.frames.pop() {
                    each(Called::Left(&call));
                }
            }
            Visit::Skipped { .. } | Visit::Resumed { .. } => {}
            Visit::Delivered { place, frame, .. } => self.thread(place.tid).frames.push(Frame::Handler(*frame)),
        }
    }

    /// A thread executes something behind its last visit, of which it is not told: where that was a return, its function has returned.
    pub fn goes_on(&mut self, place: Place, each: &mut impl FnMut(Called<'_>)) {
        for (call, result) in self.thread(place.tid).returned.drain(..) {
            each(Called::Returned { call: &call, result, place });
        }
    }

    /// The calls in which a thread is, the outermost one first.
    pub fn open(&self, tid: Tid) -> impl DoubleEndedIterator<Item = &Entered> {
        let thread = self.threads.iter().find(|(known, _)| *known == tid);
        let frames = thread.into_iter().flat_map(|(_, thread)| &thread.frames);
        frames.filter_map(|frame| match frame {
            Frame::Call(call) => Some(call),
            Frame::Handler(_) => None,
        })
    }

    /// Whether a function has returned with the last instruction of a thread, which its next visit tells.
    #[must_use]
    #[inline]
    pub fn has_returned(&self, tid: Tid) -> bool {
        self.threads.iter().any(|(known, thread)| *known == tid && !thread.returned.is_empty())
    }

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
}

impl Thread {
    /// A block begins.
    fn begin(&mut self, place: Place, ran: &Ran<'_>, each: &mut impl FnMut(Called<'_>)) {
        for (call, result) in self.returned.drain(..) {
            each(Called::Returned { call: &call, result: result.or_else(|| ran.register(RAX)), place });
        }
        let Some(slot) = ran.register(RSP) else { return };
        let args = ARGUMENTS.map(|number| ran.register(number));
        let call = Entered { place, function: ran.block.traced.pc, args, slot };
        // A function that waits in a loop may jump to its own beginning: `pthread_spin_lock` does.
        let is_again = |known: &Entered| (known.function, known.slot, known.args) == (call.function, slot, args);
        if matches!(self.frames.last(), Some(Frame::Call(known)) if is_again(known)) {
            return;
        }
        each(Called::Entered(&call));
        self.frames.push(Frame::Call(call));
    }

    /// The block ends with a call: frames whose slots are overwritten, or lie below, have been left. A function that jumps to another one gives it
    /// its own slot.
    fn call(&mut self, ran: &Ran<'_>, each: &mut impl FnMut(Called<'_>)) {
        let Some(slot) = ran.slot() else { return };
        self.leave_handlers(slot + 1, each);
        // A handler on a stack of its own, wherever that is, writes over none.
        let is_over = |frame: &Frame| matches!(frame, Frame::Call(call) if call.slot == slot);
        if let Some(first) = self.frames.iter().position(is_over) {
            self.leave(first, each);
        }
        while matches!(self.frames.last(), Some(Frame::Call(call)) if call.slot <= slot) {
            if let Some(Frame::Call(call)) = self.frames.pop() {
                each(Called::Left(&call));
            }
        }
    }

    /// Handlers that begin below a slot, which the thread uses, have been left, too (`siglongjmp`): what one calls is below its own beginning. What it
    /// interrupted is behind that, and told as left by who overwrites it.
    fn leave_handlers(&mut self, slot: u64, each: &mut impl FnMut(Called<'_>)) {
        while let Some(last) = self.frames.iter().rposition(|frame| matches!(frame, Frame::Handler(_))) {
            if matches!(self.frames[last], Frame::Handler(start) if start >= slot) {
                break;
            }
            self.leave(last, each);
        }
    }

    /// This frame and all that began behind it are gone.
    fn leave(&mut self, first: usize, each: &mut impl FnMut(Called<'_>)) {
        for frame in self.frames.drain(first..).rev() {
            if let Frame::Call(call) = frame {
                each(Called::Left(&call));
            }
        }
    }

    /// The block ends with `ret`.
    fn go_back(&mut self, ran: &Ran<'_>, each: &mut impl FnMut(Called<'_>)) {
        let Some(slot) = ran.slot() else { return };
        self.leave_handlers(slot, each);
        let from = self.frames.iter().rposition(|frame| matches!(frame, Frame::Handler(_))).map_or(0, |last| last + 1);
        let is_it = |frame: &Frame| matches!(frame, Frame::Call(call) if call.slot == slot);
        let Some(first) = self.frames[from..].iter().position(is_it) else { return };
        for frame in self.frames.drain(from + first..).rev() {
            match frame {
                Frame::Call(call) if call.slot == slot => {
                    self.returned.push((call, ran.returned().map(|(result, _)| result)));
                }
                Frame::Call(call) => each(Called::Left(&call)),
                Frame::Handler(_) => {}
            }
        }
    }
}
