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
}

/// Of all threads.
#[derive(Default)]
pub struct Frames {
    threads: Vec<(Tid, Thread)>,
    /// The thread that ran last.
    last: usize,
    known: HashMap<Box<[u64]>, StackId>,
    stacks: Vec<Box<[u64]>>,
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
                thread.called(slot, instructions[last].instruction.next_ip());
            }
            Control::Return => {
                let Some(slot) = ran.slot() else { return astray };
                let mut at = place;
                at.position.0 += (last - part.start) as u64;
                thread.returned = thread.returns(slot).map(|expected| Astray {
                    place: at,
                    ip: instructions[last].instruction.ip(),
                    slot,
                    expected,
                });
                if let Some((_, target)) = ran.returned() {
                    return thread.returned.take().filter(|it| it.expected != target);
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
        thread.frames.retain(|call| call.slot > frame);
        thread.returned.take()
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
    fn called(&mut self, slot: u64, returns_to: u64) {
        // What lies below has been left.
        while self.frames.last().is_some_and(|frame| frame.slot <= slot) {
            self.frames.pop();
        }
        self.frames.push(Frame { slot, returns_to });
    }

    /// What the call has put there where a return finds its address, if it was a call.
    fn returns(&mut self, slot: u64) -> Option<u64> {
        while self.frames.last().is_some_and(|frame| frame.slot < slot) {
            self.frames.pop();
        }
        let frame = self.frames.pop_if(|frame| frame.slot == slot)?;
        Some(frame.returns_to)
    }
}
