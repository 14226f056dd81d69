//! Keeps the heap of a process that has one thread, along with an outline of what it executes: so it is known at each access what is wrong
//! ([`crate::shades`]), and nobody has to find that out first.
//!
//! The client is called where a function of an allocator begins, and before the `ret` that takes the return address of the outermost one from its
//! slot. What such a call changes is wrong, or right, once it has returned: meanwhile, the allocator may do all.

use crate::engine::Engine;
use crate::light;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::ir::Gpr;
use bugnet_format::allocator::{Allocator, Allocators, Does};
use bugnet_heap::{Block, Family, Given, Heap, Outcome, Set, maps, may_be_older, settle};
use hashbrown::HashMap;

/// Registers that hold arguments (System V ABI, 3.2.3).
const ARGUMENTS: [Gpr; 6] = [Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::RCX, Gpr(8), Gpr(9)];

/// Bytes of the smallest vector.
const VECTOR: u64 = 16;

/// The outermost call of an allocator's function that has not returned.
struct Open {
    /// Where its return address is.
    slot: u64,
    /// What was called with which arguments; none where an allocator has called it.
    call: Option<(Allocator, [u64; 6])>,
}

/// What is known of the heap.
pub struct Keeper {
    functions: HashMap<u64, Allocator>,
    is_whole: bool,
    heap: Heap<()>,
    open: Option<Open>,
    /// What has changed and is not in force.
    held: Vec<Set>,
    /// Why no more is known of what is wrong.
    pub failed: Option<String>,
}

impl Keeper {
    /// Before the first instruction.
    fn new(allocators: &Allocators) -> Self {
        let mut heap = Heap::new(allocators.is_whole);
        heap.shadow.note_changes();
        let functions = allocators.functions.iter().map(|function| (function.address, *function)).collect();
        Self { functions, is_whole: allocators.is_whole, heap, open: None, held: Vec::new(), failed: None }
    }

    fn begins(&mut self, allocator: Allocator, slot: u64, args: [u64; 6], is_own: bool) {
        // One whose frame lies below was left without a return.
        if self.open.as_ref().is_some_and(|open| open.slot >= slot) {
            return;
        }
        self.open = Some(Open { slot, call: (!is_own).then_some((allocator, args)) });
        if let Does::Release(number) = allocator.does
            && !is_own
        {
            self.takes_back(args[usize::from(number)]);
        }
    }

    fn takes_back(&mut self, addr: u64) {
        if self.heap.block(addr).is_some() {
            self.heap.release(addr, ());
        } else if addr != 0 && !self.is_whole && may_be_older(&self.heap, addr) {
            self.heap.release_unknown(addr, ());
        }
    }

    /// The outermost function returns.
    fn returns(&mut self, result: u64, stored: impl FnOnce(u64) -> Option<u64>) {
        let Some((allocator, args)) = self.open.take().and_then(|open| open.call) else { return };
        let stored = || stored(args[0]);
        let outcome = Outcome::of(allocator.does, &args.map(Some), Some(result), stored, &self.heap);
        if let Some(before) = outcome.taken {
            self.takes_back(before);
        }
        // Where it is not known what was given out, it stays wrong.
        if let Some(Given { start: Some(start), size: Some(size), .. }) = outcome.given {
            let family = if allocator.is_named { Family::Named(String::new()) } else { Family::C };
            let (size, family, allocated) = (Some(size), Some(family), Some(()));
            self.heap.allocate(Block { start, size, family, allocated, freed: None });
        }
        if let Some((start, size)) = outcome.told {
            self.heap.resize(start, size);
        }
    }

    /// Whether an access that is shaded cannot be wrong: an allocator may do all, as may what it calls, and a vector may be loaded of which some bytes are
    /// needed. Whoever checks the program finds the same.
    pub fn excuses(&self, addr: u64, len: u64, writes: bool) -> bool {
        let shadow = &self.heap.shadow;
        if self.open.is_some() || !shadow.is_wrong(addr, len) {
            return true;
        }
        let is_vector = len >= VECTOR && len.is_power_of_two() && addr.is_multiple_of(len);
        !writes && is_vector && !shadow.all_wrong(addr, len)
    }
}

impl Engine {
    /// Keeps the heap from here on, and looks at each access.
    ///
    /// # Errors
    /// It cannot, which the other side is to know.
    pub fn begin_keeping(&mut self, allocators: &Allocators) -> Result<(), String> {
        self.begin_looking(allocators.looked.clone())?;
        self.keeper = Some(Box::new(Keeper::new(allocators)));
        Ok(())
    }

    /// Whether a function of an allocator begins here of whose calls the heap follows.
    pub fn is_allocator(&self, pc: u64) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.functions.contains_key(&pc))
    }

    /// A function of an allocator begins.
    pub fn allocator_begins(&mut self, pc: u64) {
        let Self { keeper: Some(keeper), shades: Some(shades), memory, stub, .. } = self else { return };
        let Some(allocator) = keeper.functions.get(&pc).copied() else { return };
        let regs = light::saved();
        let slot = regs.gpr(Gpr::RSP);
        let is_own = shades.trusts(memory.element(slot, 8));
        keeper.begins(allocator, slot, ARGUMENTS.map(|reg| regs.gpr(reg)), is_own);
        stub.shared().awaited = keeper.open.as_ref().map_or(0, |open| !open.slot);
    }

    /// The outermost one returns with the next instruction, the last of its block.
    pub fn allocator_returns(&mut self) {
        let Self { keeper: Some(keeper), memory, stub, .. } = self else { return };
        stub.shared().awaited = 0;
        keeper.returns(light::saved().gpr(Gpr::RAX), |at| Some(memory.element(at, 8)));
        if !self.change_in_place() {
            // The rest is due behind the instruction.
            self.make_due();
        }
    }

    /// A system call has returned.
    pub fn keep_call(&mut self, number: u64, args: &[u64; 6], result: i64) {
        let Some(keeper) = &mut self.keeper else { return };
        maps(&mut keeper.heap, (number, args, result), keeper.open.is_some());
        if keeper.open.is_none() {
            self.change_in_place();
        }
    }

    /// Puts what has changed in force, as long as memory has places beside the others; whether it all had.
    fn change_in_place(&mut self) -> bool {
        let Self { keeper: Some(keeper), shades: Some(shades), .. } = self else { return true };
        keeper.held.append(keeper.heap.shadow.changes());
        settle(&mut keeper.held);
        let done = keeper.held.iter().position(|set| !shades.change(set)).unwrap_or(keeper.held.len());
        keeper.held.drain(..done);
        keeper.held.is_empty()
    }

    /// Whether there is memory that has no place, and is to have one now.
    pub fn awaits_places(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| !keeper.held.is_empty() && keeper.open.is_none())
    }

    /// Gives memory for which there was no place others, with all that has a place: whether that was so.
    pub fn move_places(&mut self) -> bool {
        if !self.awaits_places() {
            return false;
        }
        let Self { keeper: Some(keeper), shades: Some(shades), .. } = self else { return false };
        for set in std::mem::take(&mut keeper.held) {
            if let Err(why) = shades.change_anyway(&set) {
                keeper.failed = Some(why);
            }
        }
        true
    }
}
