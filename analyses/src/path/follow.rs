//! Where steps of a path begin: behind each jump, call and return, wherever blocks begin and end.

use super::objects::Objects;
use super::trail::Element;
use bugnet_events::code::{Block, Blocks};
use bugnet_events::effects::Control;
use bugnet_replay::trace::{Chunk, Run, TracedAccess};

/// How a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The next instruction follows.
    Plainly,
    /// By a jump, or in the kernel.
    Jump,
    /// By a call, whose return address lies here.
    Call(u64),
    /// By a return, whose address lay here.
    Return(u64),
}

/// Behind a block.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    ended: Ended,
    /// The address behind it.
    next: u64,
    is_own: bool,
}

/// A block that is executed now.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pc: u64,
    /// Whether it is the program's own.
    pub is_own: bool,
}

impl Behind {
    /// What there is on the path before a block, and whether a step begins with it: then, whether the program's own code led there.
    #[must_use]
    pub fn before(behind: Option<Self>, block: Start) -> (Option<Element>, Option<bool>) {
        let Some(Self { ended, next, is_own }) = behind else { return (None, block.is_own.then_some(false)) };
        let element = match ended {
            Ended::Call(slot) if block.is_own => Some(Element::Enter(slot)),
            Ended::Return(slot) if block.is_own || is_own => Some(Element::Leave(slot)),
            _ => None,
        };
        let begins = block.is_own && (ended != Ended::Plainly || next != block.pc);
        (element, begins.then_some(is_own))
    }
}

/// What is known of a block.
struct Known {
    start: Start,
    is_stub: bool,
    next: u64,
    control: Control,
    /// Where its last instruction accesses the stack.
    slot: Option<TracedAccess>,
}

impl Known {
    fn of(block: &Block, objects: &Objects) -> Self {
        let pc = block.traced.pc;
        let last = block.instructions.last();
        let control = last.map_or(Control::Next, |last| last.control);
        let is_slot = |access: &&TracedAccess| {
            let is_last = access.instruction + 1 == block.traced.count;
            is_last && (if control == Control::Call { access.writes } else { access.reads })
        };
        Self {
            start: Start { pc, is_own: objects.is_own(pc) },
            is_stub: objects.is_stub(pc),
            next: last.map_or(pc, |last| last.instruction.next_ip()),
            control,
            slot: block.traced.accesses.iter().rfind(is_slot).cloned(),
        }
    }

    fn ended(&self, chunk: &Chunk<'_>, run: Run) -> Ended {
        let slot = || self.slot.as_ref().map(|access| chunk.address(run, access));
        match self.control {
            Control::Next => Ended::Plainly,
            Control::Call => slot().map_or(Ended::Jump, Ended::Call),
            Control::Return => slot().map_or(Ended::Jump, Ended::Return),
            Control::Jump | Control::Branch | Control::System => Ended::Jump,
        }
    }
}

/// What a block is on the path.
pub enum Followed {
    /// The first of all.
    First(Start),
    /// As [`Behind::before`] has it.
    Behind {
        /// A call or a return.
        element: Option<Element>,
        /// A step begins.
        step: Option<bool>,
    },
}

/// Follows a thread from block to block.
#[derive(Default)]
pub struct Follower {
    behind: Option<Behind>,
    known: Vec<Option<Known>>,
}

impl Follower {
    /// Blocks may have other numbers from here on.
    pub fn renumber(&mut self) {
        self.known.clear();
    }

    /// Where it is.
    #[must_use]
    pub fn behind(&self) -> Option<Behind> {
        self.behind
    }

    /// The next block.
    pub fn follow(&mut self, objects: &Objects, chunk: &Chunk<'_>, run: Run, blocks: &Blocks) -> Followed {
        let number = run.block as usize;
        if self.known.len() <= number {
            self.known.resize_with(chunk.blocks.len(), || None);
        }
        let known = self.known[number].get_or_insert_with(|| Known::of(blocks.get(run.block), objects));
        if known.is_stub
            && let Some(Behind { ended: Ended::Call(_), .. }) = self.behind
        {
            // The function to which it leads is the one that is called.
            return Followed::Behind { element: None, step: None };
        }
        let next = Behind { ended: known.ended(chunk, run), next: known.next, is_own: known.start.is_own };
        match self.behind.replace(next) {
            None => Followed::First(known.start),
            behind => {
                let (element, step) = Behind::before(behind, known.start);
                Followed::Behind { element, step }
            }
        }
    }
}
