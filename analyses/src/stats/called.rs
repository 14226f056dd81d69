//! How much each function of the program itself has executed, with the libraries that it called, and with all that it called.
//!
//! Intervals are gone through each by itself: who called what was executed at their starts is known only when they are joined. So an interval is told in
//! stretches, between which functions returned that had been called before it.

use super::own::Own;
use bugnet_events::code::{Block, Blocks};
use bugnet_events::effects::Control;
use bugnet_replay::trace::{Chunk, Run, TracedAccess};
use hashbrown::HashMap;

/// Frames of one stack are nearer to each other than this, and those of others are not.
const FAR: u64 = 1 << 20;

/// What a function has executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// With the libraries that it called.
    pub with_libraries: u64,
    /// With all that it called.
    pub total: u64,
}

/// What is known of a block.
struct Known {
    is_stub: bool,
    /// The function of the program itself to which it belongs.
    function: Option<u64>,
    /// Whether that begins with it.
    begins: bool,
    pc: u64,
    next: u64,
    control: Control,
    /// Where it jumps to, if its last instruction says so.
    target: Option<u64>,
    /// Where its last instruction accesses the stack.
    slot: Option<TracedAccess>,
}

impl Known {
    fn of(block: &Block, own: &Own) -> Self {
        let (pc, control) = (block.traced.pc, block.control);
        let is_slot = |access: &&TracedAccess| {
            let is_last = access.instruction + 1 == block.traced.count;
            is_last && (if control == Control::Call { access.writes } else { access.reads })
        };
        let last = block.instructions.last().map(|last| &last.instruction);
        Self {
            is_stub: own.is_stub(pc),
            function: own.function(pc),
            begins: own.begins(pc),
            pc,
            next: last.map_or(pc, |last| last.next_ip()),
            control,
            target: last.map(|last| last.near_branch_target()).filter(|target| *target != 0),
            slot: block.traced.accesses.iter().rfind(is_slot).cloned(),
        }
    }
}

/// How the last block ended.
#[derive(Clone, Copy)]
enum Ended {
    /// There was none.
    Unknown,
    /// The next instruction follows, or what the kernel wants.
    Plainly {
        next: u64,
    },
    /// By a call, whose return address lies here.
    Call(u64),
    /// By a jump, if it says where to, there; else the next instruction follows.
    Jump {
        target: Option<u64>,
        next: u64,
    },
    Return,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    /// Where its return address is; none of a signal's handler, and of what was called nobody knows where.
    slot: Option<u64>,
    /// The function, if it is one of the program itself.
    function: Option<u64>,
}

/// Calls that have not returned, the innermost one last.
#[derive(Debug, Default)]
struct Frames(Vec<Frame>);

impl Frames {
    /// The frames that are over where a return address is put into a slot: their calls have not returned, nor will they.
    fn over(&self, slot: u64) -> usize {
        let is_over = |frame: &&Frame| frame.slot.is_some_and(|own| own <= slot && slot - own < FAR);
        self.0.iter().rev().take_while(is_over).count()
    }

    /// How many frames are over where a function returns by the return address in a slot; none if it was called before all of these.
    fn returning(&self, slot: u64) -> Option<usize> {
        let over = self.over(slot);
        let (left, gone) = self.0.split_at(self.0.len() - over);
        if gone.iter().any(|frame| frame.slot == Some(slot)) {
            return Some(over);
        }
        let last = left.last()?;
        // What is in between is of another stack.
        if let Some(at) = left.iter().position(|frame| frame.slot == Some(slot)) {
            return Some(self.0.len() - at);
        }
        // The kernel made the frame of a handler; else it is a jump to where nobody has called from.
        Some(over + usize::from(last.slot.is_none()))
    }
}

/// What was executed up to where a function returned that had been called before, or others were jumped out of, or to the end.
#[derive(Default)]
struct Stretch {
    len: u64,
    /// Of functions that were called in it, or executed.
    found: HashMap<u64, Executed>,
    /// Nothing but libraries that had been called before, and what they called.
    outside: u64,
    ended: How,
}

/// How a stretch ended.
#[derive(Clone, Copy, Default)]
enum How {
    /// With the interval.
    #[default]
    Over,
    /// A function returned that had been called before, by the return address in this slot.
    Returned(u64),
    /// This function went on, behind calls that will not return.
    Lands(Option<u64>),
}

/// What was found in an interval.
pub struct Walk {
    known: Vec<Option<Known>>,
    ended: Ended,
    /// What was called in it.
    frames: Frames,
    /// For each frame, the innermost function of the program itself, as far as it was called or executed in the interval.
    inner: Vec<Option<u64>>,
    /// What is executed below all frames.
    below: Option<u64>,
    /// How often a function is on the stack, and from where on.
    active: HashMap<u64, (u32, u64)>,
    /// Who executed what was executed up to here is known.
    at: u64,
    /// Where the stretch began.
    start: u64,
    /// Where the last chunk ended.
    end: u64,
    stretch: Stretch,
    done: Vec<Stretch>,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            ended: Ended::Unknown,
            frames: Frames::default(),
            inner: Vec::new(),
            below: None,
            active: HashMap::new(),
            at: 0,
            start: 0,
            end: 0,
            stretch: Stretch::default(),
            done: Vec::new(),
        }
    }
}

impl Walk {
    /// Goes through a chunk.
    pub fn go_through(&mut self, own: &Own, chunk: &Chunk<'_>, blocks: &Blocks) {
        let mut all = std::mem::take(&mut self.known);
        all.resize_with(chunk.blocks.len(), || None);
        for run in chunk.runs {
            let known = all[run.block as usize].get_or_insert_with(|| Known::of(blocks.get(run.block), own));
            self.block(known, chunk, *run);
        }
        self.known = all;
        self.end = chunk.first.0 + u64::from(chunk.len);
    }

    fn block(&mut self, known: &Known, chunk: &Chunk<'_>, run: Run) {
        let position = chunk.first.0 + u64::from(run.word);
        match self.ended {
            // The function to which it leads is the one that is called.
            Ended::Call(_) if known.is_stub => return,
            Ended::Call(slot) => {
                self.leave(self.frames.over(slot), position);
                self.enter(Some(slot), known.function, position);
            }
            Ended::Unknown => {}
            ended if known.begins => self.begin(ended, known, position),
            _ => {}
        }
        if known.function.is_some() && known.function != self.innermost() {
            self.land(known, position);
        }
        let slot = known.slot.as_ref().map(|access| chunk.address(run, access));
        let next = known.next;
        self.ended = match (known.control, slot) {
            (Control::Call, Some(slot)) => Ended::Call(slot),
            (Control::Jump | Control::Branch, _) => Ended::Jump { target: known.target, next },
            (Control::Return, _) => Ended::Return,
            _ => Ended::Plainly { next },
        };
        if let (Control::Return, Some(slot)) = (known.control, slot) {
            let end = position + u64::from(chunk.blocks[run.block as usize].count);
            match self.frames.returning(slot) {
                Some(over) => self.leave(over, end),
                None => self.end_stretch(How::Returned(slot), end),
            }
        }
    }

    /// A function begins that nobody has called just before: one has jumped to it, in place of calling it and returning, or it handles a signal.
    fn begin(&mut self, ended: Ended, known: &Known, position: u64) {
        match ended {
            Ended::Plainly { next } | Ended::Jump { next, .. } if next == known.pc => {}
            Ended::Jump { target, .. } if target.is_none_or(|target| target == known.pc) => {
                let Some(Frame { slot, .. }) = self.frames.0.last().copied() else { return };
                let jumped = self.frames.0.iter().rev().take_while(|frame| frame.slot == slot);
                // Those that jump to and fro return together.
                let over = jumped.enumerate().find(|(_, frame)| frame.function == known.function).map(|(over, _)| over);
                match over {
                    Some(over) => self.leave(over, position),
                    None => self.enter(slot, known.function, position),
                }
            }
            _ => self.enter(None, known.function, position),
        }
    }

    /// A function is executed that is not the innermost one that was called: it goes on behind others that will not return any more (`longjmp`, an exception), or
    /// behind a part of it that the compiler has put elsewhere; or nobody knows who called it.
    fn land(&mut self, known: &Known, position: u64) {
        let is_it = |frame: &Frame| frame.function == known.function;
        if let Some(at) = self.frames.0.iter().rposition(is_it) {
            self.leave(self.frames.0.len() - at - 1, position);
            return;
        }
        let has_jumped = match self.ended {
            Ended::Plainly { next } => next != known.pc,
            Ended::Jump { next, .. } => next != known.pc && !known.begins,
            Ended::Unknown | Ended::Call(_) | Ended::Return => false,
        };
        if has_jumped {
            self.end_stretch(How::Lands(known.function), position);
        }
        if self.frames.0.is_empty() {
            self.below(known.function, position);
        }
    }

    /// The function of the program itself that is executed, or has called what is, as far as it was called or executed in the interval.
    fn innermost(&self) -> Option<u64> {
        self.inner.last().copied().unwrap_or(self.below)
    }

    /// What was executed up to here is of the innermost function of the program itself.
    fn settle(&mut self, position: u64) {
        let len = position - std::mem::replace(&mut self.at, position);
        match self.innermost() {
            Some(function) => self.stretch.found.entry(function).or_default().with_libraries += len,
            None => self.stretch.outside += len,
        }
    }

    fn enter(&mut self, slot: Option<u64>, function: Option<u64>, position: u64) {
        self.settle(position);
        let inner = function.or(self.innermost());
        self.frames.0.push(Frame { slot, function });
        self.inner.push(inner);
        self.start_of(function, position);
    }

    fn leave(&mut self, frames: usize, position: u64) {
        if frames == 0 {
            return;
        }
        self.settle(position);
        for frame in self.frames.0.split_off(self.frames.0.len() - frames) {
            self.end_of(frame.function, position);
        }
        self.inner.truncate(self.frames.0.len());
    }

    /// Below all frames, this is executed from now on.
    fn below(&mut self, function: Option<u64>, position: u64) {
        self.settle(position);
        self.end_of(self.below, position);
        self.below = function;
        self.start_of(function, position);
    }

    fn start_of(&mut self, function: Option<u64>, position: u64) {
        let Some(function) = function else { return };
        let (times, since) = self.active.entry(function).or_insert((0, position));
        if *times == 0 {
            *since = position;
        }
        *times += 1;
    }

    fn end_of(&mut self, function: Option<u64>, position: u64) {
        let Some((function, (times, since))) = function.and_then(|one| Some((one, self.active.get_mut(&one)?))) else {
            return;
        };
        *times -= 1;
        if *times == 0 {
            self.stretch.found.entry(function).or_default().total += position - *since;
        }
    }

    fn end_stretch(&mut self, ended: How, position: u64) {
        self.leave(self.frames.0.len(), position);
        self.below(None, position);
        let len = position - std::mem::replace(&mut self.start, position);
        self.done.push(Stretch { len, ended, ..std::mem::take(&mut self.stretch) });
    }

    /// The interval ends; what is open goes on in the next one.
    pub fn finish(&mut self) {
        let (below, open) = (self.below, self.frames.0.clone());
        self.end_stretch(How::Over, self.end);
        (self.below, self.frames.0) = (below, open);
        self.known = Vec::new();
        self.active = HashMap::new();
    }
}

/// What all functions of a process executed.
#[derive(Default)]
pub struct Called {
    /// Functions of the program itself, by their addresses.
    pub functions: HashMap<u64, Executed>,
    /// Of the thread that is gone through, what was called and has not returned.
    frames: Frames,
    /// How often each function is among these.
    around: HashMap<u64, u32>,
}

impl Called {
    /// Another thread follows, or a part of one that is not the next.
    pub fn begin_anew(&mut self) {
        self.frames.0.clear();
        self.around.clear();
    }

    /// The next interval of a thread.
    pub fn join(&mut self, walk: Walk) {
        let Walk { done, below, frames, .. } = walk;
        for Stretch { len, found, outside, ended } in done {
            let inner = self.frames.0.iter().rev().find_map(|frame| frame.function);
            if let Some(function) = inner {
                self.functions.entry(function).or_default().with_libraries += outside;
            }
            for function in self.around.keys() {
                self.functions.entry(*function).or_default().total += len;
            }
            for (function, executed) in found {
                let all = self.functions.entry(function).or_default();
                all.with_libraries += executed.with_libraries;
                // All of the stretch counts for who is around it.
                all.total += if self.around.contains_key(&function) { 0 } else { executed.total };
            }
            match ended {
                How::Over => {}
                How::Returned(slot) => self.leave(self.frames.returning(slot).unwrap_or(0)),
                How::Lands(function) => {
                    let at = self.frames.0.iter().rposition(|frame| frame.function == function);
                    at.into_iter().for_each(|at| self.leave(self.frames.0.len() - at - 1));
                }
            }
        }
        // Nobody knows who called what was executed when the recording began.
        if below.is_some_and(|function| !self.around.contains_key(&function)) {
            self.enter(Frame { slot: None, function: below });
        }
        frames.0.into_iter().for_each(|frame| self.enter(frame));
    }

    fn enter(&mut self, frame: Frame) {
        self.frames.0.push(frame);
        frame.function.into_iter().for_each(|function| *self.around.entry(function).or_default() += 1);
    }

    fn leave(&mut self, frames: usize) {
        for frame in self.frames.0.split_off(self.frames.0.len() - frames) {
            let Some(function) = frame.function else { continue };
            let times = self.around.get(&function).map_or(0, |times| times - 1);
            match times {
                0 => self.around.remove(&function),
                times => self.around.insert(function, times),
            };
        }
    }
}
