//! The functions in which each thread is, by its calls and returns: who called whom, without unwinding; and returns that do not go where the call came from.

use bugnet_events::effects::Control;
use bugnet_events::stretch::Ran;
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;
use std::ops::Range;

/// Frames of a stack that are kept for a report.
const DEPTH: usize = 24;

/// A stack that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

impl Default for StackId {
    /// None.
    fn default() -> Self {
        Self(u32::MAX)
    }
}

/// A call that has not returned.
#[derive(Clone, Copy)]
struct Frame {
    /// Where its return address is.
    slot: u64,
    returns_to: u64,
}

/// A return that went elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Astray {
    /// The `ret`.
    pub place: Place,
    /// Its address.
    pub ip: u64,
    /// Where the return address was.
    pub slot: u64,
    /// What the call had put there.
    pub expected: u64,
}

#[derive(Default)]
struct Thread {
    frames: Vec<Frame>,
    /// The last instruction was a return, to be compared with where the thread goes on.
    returned: Option<Astray>,
    /// Calls below this stack pointer were left by something else than their returns, and are gone with the next call or return, at the latest.
    left_below: Option<u64>,
}

/// Of all threads.
#[derive(Default)]
pub struct Frames {
    threads: Vec<(Tid, Thread)>,
    /// The thread that ran last.
    last: usize,
    known: HashMap<Box<[u64]>, StackId>,
    stacks: Vec<Box<[u64]>>,
    /// Whether a call was left otherwise than by its return, or may have been, and it is not known when ([`Frames::goes_to`]).
    pub has_strayed: bool,
}

impl Frames {
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

    /// A thread executes a part of a block; the return before it, if that has gone astray.
    #[inline]
    pub fn ran(&mut self, place: Place, ran: &Ran<'_>, part: &Range<usize>) -> Option<Astray> {
        let thread = self.thread(place.tid);
        let instructions = &ran.block.instructions;
        let astray = match thread.returned.take() {
            None => None,
            Some(returned) => Some(returned).filter(|it| it.expected != instructions[part.start].instruction.ip()),
        };
        let last = instructions.len() - 1;
        if part.end != instructions.len() {
            return astray;
        }
        match ran.block.control {
            Control::Call => {
                let Some(slot) = ran.slot() else { return astray };
                let has_strayed = thread.called(slot, instructions[last].instruction.next_ip());
                self.has_strayed |= has_strayed;
            }
            Control::Return => {
                let Some(slot) = ran.slot() else { return astray };
                let mut at = place;
                at.position.0 += (last - part.start) as u64;
                let (has_strayed, expected) = thread.returns(slot);
                let ip = instructions[last].instruction.ip();
                thread.returned = expected.map(|expected| Astray { place: at, ip, slot, expected });
                let returned = ran.returned().map(|(_, target)| (thread.returned.take(), target));
                self.has_strayed |= has_strayed;
                if let Some((returned, target)) = returned {
                    return returned.filter(|it| it.expected != target);
                }
            }
            _ => {}
        }
        astray
    }

    /// Whether the last instruction of a thread was a return, to be compared with where it goes on.
    #[inline]
    pub fn has_returned(&self, tid: Tid) -> bool {
        self.threads.iter().any(|(known, thread)| *known == tid && thread.returned.is_some())
    }

    /// A signal's handler begins; the return before it, if the signal may be of where that went.
    pub fn delivered(&mut self, tid: Tid, frame: u64) -> Option<Astray> {
        let thread = self.thread(tid);
        let before = thread.frames.len();
        thread.frames.retain(|call| call.slot > frame);
        let has_strayed = thread.frames.len() < before || thread.left_below.take().is_some();
        let returned = thread.returned.take();
        self.has_strayed |= has_strayed;
        returned
    }

    /// A thread has this stack pointer by something else than calls and returns.
    pub fn goes_to(&mut self, tid: Tid, stack: u64) {
        let thread = self.thread(tid);
        let has_strayed = thread.left_below.is_some();
        if thread.frames.last().is_some_and(|last| last.slot < stack) {
            thread.left_below = Some(stack);
        }
        self.has_strayed |= has_strayed;
    }

    /// Whether there are calls that were left by something else than their returns, and neither a call nor a return since.
    pub fn has_left(&self) -> bool {
        self.threads.iter().any(|(_, thread)| thread.left_below.is_some())
    }

    /// Returns behind which nothing was executed: whether they went where they should is not known.
    pub fn last_returns(&self) -> Vec<Astray> {
        let mut all: Vec<Astray> = self.threads.iter().filter_map(|(_, thread)| thread.returned).collect();
        all.sort_by_key(|astray| astray.place);
        all
    }

    /// What the call has put into a slot where a return finds its address, if the function is one that a thread is in.
    pub fn expected(&self, tid: Tid, slot: u64) -> Option<u64> {
        let (_, thread) = self.threads.iter().find(|(known, _)| *known == tid)?;
        let frame = thread.frames.iter().rev().find(|frame| frame.slot == slot)?;
        Some(frame.returns_to)
    }

    /// Where the functions in which a thread is return to, the innermost first; those that are known.
    pub fn stack(&mut self, tid: Tid) -> StackId {
        let frames = &self.thread(tid).frames;
        let mut stack = [0; DEPTH];
        let count = frames.len().min(DEPTH);
        for (to, frame) in stack.iter_mut().zip(frames.iter().rev()) {
            *to = frame.returns_to;
        }
        if let Some(known) = self.known.get(&stack[..count]) {
            return *known;
        }
        let id = StackId(self.stacks.len() as u32);
        self.known.insert(stack[..count].into(), id);
        self.stacks.push(stack[..count].into());
        id
    }

    /// Where the function returns to in which a thread is.
    pub fn caller(&mut self, tid: Tid) -> Option<u64> {
        self.callers(tid).next()
    }

    /// Where the functions return to in which a thread is, the innermost first.
    pub fn callers(&mut self, tid: Tid) -> impl Iterator<Item = u64> {
        self.thread(tid).frames.iter().rev().map(|frame| frame.returns_to)
    }

    /// What was kept.
    pub fn kept(&self, stack: StackId) -> &[u64] {
        self.stacks.get(stack.0 as usize).map_or(&[], |stack| stack)
    }
}

impl Thread {
    /// Leaves the innermost calls; whether there are others among these than those that are known to have been left, or one of those stays.
    fn leave(&mut self, is_left: impl Fn(&Frame) -> bool) -> bool {
        let below = self.left_below.take().unwrap_or(0);
        let mut has_strayed = false;
        while let Some(frame) = self.frames.pop_if(|frame| is_left(frame)) {
            has_strayed |= frame.slot >= below;
        }
        has_strayed || self.frames.last().is_some_and(|last| last.slot < below)
    }

    /// Whether calls were left, and it is not known when.
    fn called(&mut self, slot: u64, returns_to: u64) -> bool {
        // What lies below has been left.
        let has_strayed = self.leave(|frame| frame.slot <= slot);
        self.frames.push(Frame { slot, returns_to });
        has_strayed
    }

    /// The same; and what the call has put there where a return finds its address, if it was a call.
    fn returns(&mut self, slot: u64) -> (bool, Option<u64>) {
        let has_strayed = self.leave(|frame| frame.slot < slot);
        (has_strayed, self.frames.pop_if(|frame| frame.slot == slot).map(|frame| frame.returns_to))
    }
}
