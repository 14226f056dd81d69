//! Control dependence on the way back: who waits for the branch that decided that it is executed, function by function.
//!
//! Calls and returns are matched by where the return address lies. A frame that ends without a return (by a jump out of it, an end of
//! the program, or where one asks) is one of which that is not known.

use super::branches::{Branches, decides};
use super::wants::{Sets, Want};
use bugnet_events::code::{Block, Decoded};
use bugnet_events::effects::Control;
use bugnet_events::stretch::Access;
use bugnet_format::types::Tid;
use hashbrown::HashSet;
use iced_x86::FlowControl;
use smallvec::SmallVec;

/// A function that is executed.
#[derive(Default)]
struct Frame {
    /// Where its return address lies, if that is known.
    slot: Option<u64>,
    /// Instructions that were executed in it for the slice, and those who want to know why.
    waiting: SmallVec<[(u64, Want); 4]>,
    /// Branches that decide for none of them.
    idle: Idle,
}

/// Branches of which it was found, by what was known of the code then, that nobody in a frame waits for them.
#[derive(Default)]
struct Idle {
    branches: HashSet<u64>,
    /// [`Branches::generation`] then.
    generation: u64,
}

impl Idle {
    fn has(&self, branch: u64, generation: u64) -> bool {
        self.generation == generation && self.branches.contains(&branch)
    }

    fn add(&mut self, branch: u64, generation: u64) {
        if self.generation != generation {
            self.branches.clear();
            self.generation = generation;
        }
        self.branches.insert(branch);
    }
}

impl Frame {
    fn wait(&mut self, at: u64, want: Want, sets: &mut Sets) {
        match self.waiting.iter_mut().find(|(known, _)| *known == at) {
            Some((_, before)) => *before = sets.join(*before, want),
            None => {
                self.waiting.push((at, want));
                self.idle.branches.clear();
            }
        }
    }
}

/// The functions that a thread is in, outermost first.
#[derive(Default)]
struct Stack {
    frames: Vec<Frame>,
    /// Where it goes on behind the instruction that comes next.
    next: Option<u64>,
}

impl Stack {
    fn top(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// The innermost function, if it alone can be the one that is executed.
    fn alone(&mut self) -> Option<&mut Frame> {
        let is_only = self.frames.len() == 1;
        self.frames.last_mut().filter(|frame| is_only || frame.slot.is_some())
    }
}

/// Those of all threads.
pub struct Frames {
    branches: Branches,
    stacks: Vec<(Tid, Stack)>,
    /// A call by its thread and where it returns to, and who wants to know why it was made.
    sought: Option<(Tid, u64, Want)>,
    /// Whether what is in the slice waits, or only the call that is sought.
    pub follows_all: bool,
}

impl Frames {
    /// None yet.
    pub fn new(branches: Branches, follows_all: bool) -> Self {
        Self { branches, stacks: Vec::new(), sought: None, follows_all }
    }

    /// Why was the call made that returns there?
    pub fn seek(&mut self, tid: Tid, returns: u64, want: Want) {
        self.sought = Some((tid, returns, want));
    }

    fn stack(&mut self, tid: Tid) -> &mut Stack {
        let at = self.stacks.iter().position(|(known, _)| *known == tid);
        let at = at.unwrap_or_else(|| {
            self.stacks.push((tid, Stack::default()));
            self.stacks.len() - 1
        });
        &mut self.stacks[at].1
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        let nobody_waits = |(_, stack): &(Tid, Stack)| stack.frames.iter().all(|frame| frame.waiting.is_empty());
        self.sought.is_none() && self.stacks.iter().all(nobody_waits)
    }

    /// An instruction was executed for the slice: why was it?
    pub fn wait(&mut self, tid: Tid, at: u64, want: Want, sets: &mut Sets) {
        self.stack(tid).top().wait(at, want, sets);
    }

    /// A block begins: what comes behind the instruction before it is known then.
    pub fn began(&mut self, tid: Tid, at: u64) {
        self.branches.began(at);
        self.stack(tid).next = Some(at);
    }

    /// Whether there is nothing to find out from a block: where it begins was executed before, and how it ends decides for nobody who
    /// waits. Most of what a loop executes is such blocks.
    pub fn passes(&mut self, tid: Tid, block: &Block) -> bool {
        if !self.branches.has_begun(block.traced.pc) {
            return false;
        }
        let generation = self.branches.generation;
        let Some(last) = block.instructions.last() else { return false };
        let stack = self.stack(tid);
        let is_idle = match block.control {
            Control::Branch => stack
                .alone()
                .is_some_and(|frame| frame.waiting.is_empty() || frame.idle.has(last.instruction.ip(), generation)),
            Control::Jump => last.instruction.flow_control() == FlowControl::UnconditionalBranch,
            Control::Next => true,
            _ => false,
        };
        if is_idle {
            stack.next = Some(block.traced.pc);
        }
        is_idle
    }

    /// Whether an instruction has to be looked at.
    pub fn concerns(decoded: &Decoded) -> bool {
        matches!(decoded.control, Control::Call | Control::Return | Control::Branch | Control::Jump)
    }

    /// An instruction that calls, returns or jumps: those who waited for it.
    pub fn instruction(&mut self, tid: Tid, decoded: &Decoded, accesses: &[Access], sets: &mut Sets) -> Option<Want> {
        let at = decoded.instruction.ip();
        let next = self.stack(tid).next.take();
        match decoded.control {
            Control::Return => {
                let slot = accesses.iter().find(|access| access.reads).map(|access| access.addr);
                self.stack(tid).frames.push(Frame { slot, ..Frame::default() });
                None
            }
            Control::Call => {
                self.branches.began(at);
                let slot = accesses.iter().find(|access| access.writes).map(|access| access.addr)?;
                // One that has returned is not the one.
                let is_open =
                    self.sought.is_some() && !self.stack(tid).frames.iter().any(|frame| frame.slot == Some(slot));
                let is_it = |(thread, returns, _): &mut (Tid, u64, Want)| {
                    is_open && *thread == tid && *returns == decoded.instruction.next_ip()
                };
                let sought = self.sought.take_if(is_it).map(|(_, _, want)| want);
                let waited = self.called(tid, slot, sets);
                [waited, sought].into_iter().flatten().reduce(|one, other| sets.join(one, other))
            }
            Control::Branch | Control::Jump => {
                if let Some(next) = next {
                    self.branches.went(&decoded.instruction, next);
                }
                if !decides(decoded) {
                    return None;
                }
                self.decided(tid, at, sets)
            }
            _ => None,
        }
    }

    /// A function was called, with its return address there: those who waited in it.
    fn called(&mut self, tid: Tid, slot: u64, sets: &mut Sets) -> Option<Want> {
        let stack = self.stack(tid);
        let waited = match stack.frames.iter().rposition(|frame| frame.slot == Some(slot)) {
            Some(at) => {
                // What was called from it, and has not ended as functions do, lies deeper.
                let is_deeper = |frame: &Frame| frame.slot.is_none_or(|other| other <= slot);
                let (inner, others): (Vec<Frame>, Vec<Frame>) = stack.frames.drain(at..).partition(is_deeper);
                stack.frames.extend(others);
                inner.into_iter().flat_map(|frame| frame.waiting).collect()
            }
            // The frame that one is in has not ended by a return.
            None if stack.top().slot.is_none() => std::mem::take(&mut stack.top().waiting),
            None => return None,
        };
        waited.into_iter().map(|(_, want)| want).reduce(|one, other| sets.join(one, other))
    }

    /// A branch went one of its ways: those for whom that was decisive.
    fn decided(&mut self, tid: Tid, at: u64, sets: &mut Sets) -> Option<Want> {
        let Self { branches, stacks, .. } = self;
        let stack = stacks.iter_mut().find(|(known, _)| *known == tid).map(|(_, stack)| stack)?;
        let mut met: Option<Want> = None;
        // A frame of which not all is known may be the one below.
        for frame in stack.frames.iter_mut().rev() {
            frame.waiting.retain(|(waiting, want)| {
                let is_its = branches.decides(at, *waiting);
                if is_its {
                    met = Some(met.map_or(*want, |before| sets.join(before, *want)));
                }
                !is_its
            });
            if frame.slot.is_some() {
                break;
            }
        }
        if let Some(frame) = stack.alone().filter(|_| met.is_none()) {
            frame.idle.add(at, branches.generation);
        }
        met
    }

    /// A signal's handler begins, with its frame there: those who waited in it.
    pub fn delivered(&mut self, tid: Tid, slot: u64, sets: &mut Sets) -> Option<Want> {
        self.stack(tid).next = None;
        self.called(tid, slot, sets)
    }

    /// A thread began: those who waited in it.
    pub fn born(&mut self, tid: Tid, sets: &mut Sets) -> Option<Want> {
        let frames = std::mem::take(&mut self.stack(tid).frames);
        let waited = frames.into_iter().flat_map(|frame| frame.waiting);
        waited.map(|(_, want)| want).reduce(|one, other| sets.join(one, other))
    }
}
