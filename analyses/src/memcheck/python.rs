//! Python's allocator for blocks of up to 512 bytes, pymalloc (`Objects/obmalloc.c` of CPython 3.9 to 3.13).
//!
//! Compilers put its parts into many functions of the interpreter, so that it is not known of each block when it is given out and taken back. What is
//! known is what extensions ask for, by calling its functions; and that blocks begin and end at multiples of 16, so that what is left up to there is
//! nobody's. Memory that was given back may be another block at once, of which nothing is known.

use super::check::Checker;
use super::functions::{Does, Family, Size};
use super::heap::{Block, Call};
use bugnet_events::calls::Entered;
use bugnet_format::types::Tid;
use bugnet_heap::Wrong;

/// What the family of its functions is called.
pub const FAMILY: &str = "Python's";
/// Its functions, which embed one another.
pub const FUNCTIONS: [(&str, Does); 8] = [
    ("PyMem_Malloc", Does::Allocate(Size::Arg(0))),
    ("PyMem_Calloc", Does::Allocate(Size::Product(0, 1))),
    ("PyMem_Realloc", Does::Resize(0, Size::Arg(1))),
    ("PyMem_Free", Does::Release(0)),
    ("PyObject_Malloc", Does::Allocate(Size::Arg(0))),
    ("PyObject_Calloc", Does::Allocate(Size::Product(0, 1))),
    ("PyObject_Realloc", Does::Resize(0, Size::Arg(1))),
    ("PyObject_Free", Does::Release(0)),
];
/// Larger blocks are `malloc`'s.
const LARGEST: u64 = 512;
const ALIGNED: u64 = 16;
const WORD: u64 = 8;

/// A call of one of the functions that give something out.
pub struct Asking {
    slot: u64,
    size: u64,
    call: Call,
    /// By an extension, and not by the interpreter itself.
    is_outside: bool,
}

fn behind(block: &Block) -> u64 {
    (block.start + block.size.unwrap_or(0)).next_multiple_of(ALIGNED)
}

impl Checker<'_, '_> {
    /// One of its functions begins.
    pub(super) fn python_entered(&mut self, call: &Entered, function: usize) {
        let tid = call.place.tid;
        let does = self.known.allocators[function].does;
        let argument = |number: u8| call.args[usize::from(number)];
        let stack = self.frames.stack(tid);
        let by = Call { place: call.place, function, stack };
        if let Does::Release(number) | Does::Resize(number, _) = does
            && let Some(addr) = argument(number)
        {
            self.python_takes(addr, by);
        }
        let size = match does {
            Does::Allocate(Size::Arg(number)) | Does::Resize(_, Size::Arg(number)) => argument(number),
            Does::Allocate(Size::Product(one, other)) | Does::Resize(_, Size::Product(one, other)) => {
                argument(one).zip(argument(other)).and_then(|(one, other)| one.checked_mul(other))
            }
            _ => None,
        };
        let Some(size) = size.filter(|size| (1..=LARGEST).contains(size)) else { return };
        let own = self.known.module_at(call.function).map(|module| module.base);
        let caller = self.frames.caller(tid).and_then(|caller| self.known.module_at(caller)).map(|module| module.base);
        let asking = Asking { slot: call.slot, size, call: by, is_outside: caller != own };
        self.doing.entry(tid).or_default().python = Some(asking);
    }

    /// One of its functions has returned.
    pub(super) fn python_left(&mut self, tid: Tid, slot: u64, result: Option<u64>) {
        let asking = self.doing.get_mut(&tid).and_then(|doing| doing.python.take_if(|asking| asking.slot == slot));
        let (Some(asking), Some(start)) = (asking, result.filter(|start| *start != 0)) else { return };
        // With PYTHONMALLOC=malloc, it is a block already.
        if self.heap.holding(start).is_some_and(|block| !is_pythons(block)) {
            return;
        }
        self.gives_python = true;
        let end = (start + asking.size).next_multiple_of(ALIGNED);
        while let Some(before) = (start..end).step_by(WORD as usize).find(|at| self.python_block(*at).is_some()) {
            let Some(first) = self.python_block(before).map(|block| block.start) else { break };
            self.python_takes(first, asking.call);
        }
        if !asking.is_outside {
            return;
        }
        self.counts.allocations += 1;
        self.counts.allocated += asking.size;
        let family = Some(Family::Named(FAMILY.to_owned()));
        let block = Block { start, size: Some(asking.size), family, allocated: Some(asking.call), freed: None };
        self.heap.allocate(block);
        if start.is_multiple_of(ALIGNED) {
            self.heap.shadow.own((start + asking.size).next_multiple_of(WORD)..end);
        }
    }

    fn python_block(&self, addr: u64) -> Option<&Block> {
        self.heap.holding(addr).filter(|block| is_pythons(block))
    }

    /// A block is given back, if it is one.
    fn python_takes(&mut self, start: u64, by: Call) {
        let Some(block) = self.heap.block(start).filter(|block| is_pythons(block)) else { return };
        let end = behind(block);
        self.counts.releases += 1;
        self.heap.release(start, by);
        self.heap.shadow.forget(start..end);
    }

    /// Whether the interpreter itself accesses what lies behind one of its blocks: it may be another block of which one does not know.
    pub(super) fn is_interpreters(&self, ip: u64, (at, why): (u64, Wrong)) -> bool {
        let block = self.heap.near(at, why).map(|(block, _)| block).filter(|block| is_pythons(block));
        let by = block.and_then(|block| block.allocated).map(|call| call.function);
        let of = by.and_then(|by| self.known.python.iter().find(|(_, function)| *function == by));
        let base = |addr: u64| self.known.module_at(addr).map(|module| module.base);
        of.is_some_and(|(address, _)| base(*address) == base(ip))
    }
}

fn is_pythons(block: &Block) -> bool {
    matches!(&block.family, Some(Family::Named(name)) if name == FAMILY)
}
