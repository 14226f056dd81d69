//! What was found to be wrong, as it is collected: each error once, however often it happens.

use super::below::Gone;
use super::frames::{Frames, StackId};
use super::heap::Block;
use super::undefined::{Origin, Use};
use bugnet_heap::Relation;
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;
use iced_x86::Instruction;
use serde::Serialize;

/// Callers by which errors at the same instruction are told apart.
const CALLERS: usize = 3;
/// Most errors that are told apart.
const MOST: usize = 1000;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Bytes are read that are of no block.
    Read,
    /// Bytes are written that are of no block.
    Write,
    /// A block is given back that was given back.
    DoubleFree,
    /// Something is given back that is no block.
    InvalidFree,
    /// A block is given back to another family of functions than gave it out.
    Mismatch,
    /// What is copied overlaps where it is copied to.
    Overlap,
    /// A return address was overwritten.
    Return,
    /// A canary was overwritten, which stands before a return address.
    Canary,
    /// A branch goes by a value that is undefined.
    UndefinedBranch,
    /// A jump, call or return goes where such a value says.
    UndefinedJump,
    /// Memory is accessed where such a value says.
    UndefinedAddress,
    /// A system call gets such a value, or reads it from memory.
    UndefinedArgument,
}

impl Kind {
    /// Whether it is about a value that is undefined.
    #[must_use]
    pub fn is_undefined(self) -> bool {
        matches!(self, Self::UndefinedBranch | Self::UndefinedJump | Self::UndefinedAddress | Self::UndefinedArgument)
    }
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// An instruction.
    Instruction,
    /// A system call, by its number.
    System(u64),
    /// A function of an allocator, by its index.
    Function(usize),
    /// A function of a library, by its index.
    Library(usize),
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: Kind,
    pub by: By,
    /// Where it happens the first time.
    pub place: Place,
    /// The instruction's address.
    pub ip: u64,
    /// What the instruction is, where one accesses.
    pub instruction: Option<Instruction>,
    /// Who called the function in which it is.
    pub stack: StackId,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// The first of these bytes that is wrong.
    pub wrong_at: u64,
    /// From where it copies.
    pub from: Option<u64>,
    /// The block that has to do with it.
    pub block: Option<(Block, Relation)>,
    /// The function that has returned in whose frame it is.
    pub gone: Option<Gone>,
    /// For what an undefined value is used, and where it comes from.
    pub undefined: Option<(Use, Option<Origin>)>,
    /// How often.
    pub times: u64,
}

impl Error {
    /// Nothing is known of it but where it is.
    pub fn new(kind: Kind, by: By, place: Place, ip: u64, stack: StackId) -> Self {
        Self {
            kind,
            by,
            place,
            ip,
            stack,
            addr: 0,
            len: 0,
            wrong_at: 0,
            from: None,
            block: None,
            gone: None,
            undefined: None,
            times: 1,
            instruction: None,
        }
    }
}

/// All of them, the first one first.
#[derive(Default)]
pub struct Errors {
    pub all: Vec<Error>,
    known: HashMap<(Kind, By, u64, [u64; CALLERS]), usize>,
    /// How often something was wrong, of which nothing more is kept.
    pub others: u64,
}

impl Errors {
    /// Something is wrong.
    pub fn add(&mut self, error: Error, frames: &Frames) {
        let mut callers = [0; CALLERS];
        for (to, from) in callers.iter_mut().zip(frames.kept(error.stack)) {
            *to = *from;
        }
        let key = (error.kind, error.by, error.ip, callers);
        if let Some(known) = self.known.get(&key) {
            self.all[*known].times += 1;
        } else if self.all.len() < MOST {
            self.known.insert(key, self.all.len());
            self.all.push(error);
        } else {
            self.others += 1;
        }
    }
}
