//! Instruments blocks so that the client is called at each position at which something is due.
//!
//! A raw thread-local slot, `left`, holds the number of instructions up to the next thing that is due. A block of `n`
//! instructions becomes:
//!
//! ```text
//!            left -= n
//!            if left is not negative: FAST, else SLOW
//!      FAST: the instructions but the last; jump to END
//!      SLOW: left += n
//!            for each instruction: CHECK; the instruction (but the last)
//!            CHECK for the last
//!      END:  the last instruction, if it transfers control (there can be only one of those); else SLOW has it, too
//!
//!     CHECK: if left is 0: call the client, and CHECK again
//!            left -= 1
//! ```
//!
//! Flags are not touched: `lea` counts and `jrcxz` tests, with RCX in another slot meanwhile. An instruction that
//! replay does not execute (a system call, `rdtsc`...), or of which the log has no code, ends its block: such a block
//! has no FAST part, and calls the client unconditionally where the instruction would be.

use crate::instruction;
use crate::memory::Memory;
use crate::state;
use crate::stub::Stub;
use bugnet_dr::access::classify;
use bugnet_dr::ir::{Block, Gpr, Instr, Opnd};
use bugnet_dr::sys;
use std::ffi::{c_char, c_void};

/// Adds instrumentation to one block.
struct Builder<'a> {
    block: Block,
    stub: &'a Stub,
    /// What stands behind everything that is added; `None` to add at the block's end.
    at: Option<Instr>,
}

impl Builder<'_> {
    fn meta(&self, instr: Instr) {
        self.block.meta(self.at, instr);
    }

    fn spill(&self) {
        self.meta(self.block.store(self.stub.rcx(), Opnd::reg(Gpr::RCX, 8)));
    }

    fn restore(&self) {
        self.meta(self.block.load(Opnd::reg(Gpr::RCX, 8), self.stub.rcx()));
    }

    /// Adds `count` to `left`, by way of RCX, which then holds `left`.
    fn count(&self, count: i32) {
        self.meta(self.block.load(Opnd::reg(Gpr::RCX, 8), self.stub.left()));
        self.add(count);
    }

    /// Adds `count` to `left`, which RCX holds.
    fn add(&self, count: i32) {
        self.meta(self.block.lea(Gpr::RCX, Opnd::at(Gpr::RCX, count, 8)));
        self.meta(self.block.store(self.stub.left(), Opnd::reg(Gpr::RCX, 8)));
    }

    fn set_slow(&self, value: i64) {
        let slow = self.stub.slow_flag();
        self.meta(self.block.store(slow, Opnd::imm(value, 4)));
    }

    /// Calls the client for the instruction at `pc`, and goes on at `resume`. RCX is spilled.
    fn call(&self, pc: u64, resume: Instr) {
        let rcx = Opnd::reg(Gpr::RCX, 8);
        self.meta(self.block.mov_imm64(Gpr::RCX, pc));
        self.meta(self.block.store(self.stub.pc(), rcx));
        self.meta(self.block.lea(Gpr::RCX, Opnd::label_address(resume)));
        self.meta(self.block.store(self.stub.resume(), rcx));
        // SAFETY: makes a value from an address.
        let code = Opnd(unsafe { sys::opnd_create_pc(self.stub.code()) });
        self.meta(self.block.make(sys::OP_jmp, &[], &[code]));
    }

    /// Calls the client for the instruction at `pc` unconditionally.
    fn call_always(&self, pc: u64) {
        let again = self.block.label();
        self.meta(again);
        self.spill();
        self.call(pc, again);
    }

    /// Calls the client if something is due before the instruction at `pc`, and counts the instruction.
    fn check(&self, pc: u64) {
        self.meta(self.block.raw(&self.stub.check(pc)));
    }

    /// The start of a block with a FAST part, up to that.
    fn enter(&self, count: i32, slow: Instr) {
        let fast = self.block.label();
        self.spill();
        self.count(-count);
        let upper = self.stub.left_upper();
        self.meta(self.block.load(Opnd::reg(Gpr::RCX, 4), upper));
        self.meta(self.block.jump_if_rcx_zero(fast));
        self.meta(self.block.jump(slow));
        self.meta(fast);
        self.restore();
    }

    fn copy(&self, instr: Instr) {
        self.block.app(self.at, self.block.clone_instr(instr), instr.pc());
    }
}

/// Cuts the program's instructions behind the first that replay does not execute; whether there is such a one.
fn cut(block: &Block, instrs: &mut Vec<Instr>, memory: &Memory) -> bool {
    let end = instrs.iter().position(|instr| !runs(block, *instr, memory));
    let Some(end) = end else { return false };
    instrs.drain(end + 1..).for_each(|instr| block.remove(instr));
    true
}

/// Whether replay executes the instruction.
fn runs(block: &Block, instr: Instr, memory: &Memory) -> bool {
    memory.is_code(instr.pc(), instr.len(block)) && instruction::runs(&classify(instr))
}

/// DynamoRIO's event for each block that it builds.
///
/// # Safety
/// DynamoRIO's contract for the event.
pub unsafe extern "C" fn on_block(
    context: *mut c_void,
    tag: *mut c_void,
    list: *mut sys::instrlist_t,
    _for_trace: c_char,
    _translating: c_char,
) -> sys::dr_emit_flags_t {
    // Translations are stored, since the program's code may have changed by the time that one is asked for.
    const FLAGS: sys::dr_emit_flags_t = sys::dr_emit_flags_t::DR_EMIT_STORE_TRANSLATIONS;
    // SAFETY: an event of the only thread; not during a clean call, as that returns to the dispatcher before.
    let replay = unsafe { state::replay() };
    replay.stub.prepare(context);
    // SAFETY: the pointers of the event; the block is dropped when it returns.
    let block = unsafe { Block::new(context, list) };
    let start = tag as u64;
    let mut instrs = block.app_instrs();
    let Some(first) = instrs.first().copied() else { return FLAGS };

    if replay.is_gate(start) {
        Builder { block, stub: &replay.stub, at: Some(first) }.call_always(start);
        return FLAGS;
    }
    if replay.memory.is_own(start) {
        return FLAGS;
    }

    let opaque = cut(&block, &mut instrs, &replay.memory);
    let Some(last) = instrs.last().copied() else { return FLAGS };
    replay.block_sizes.insert(start, instrs.len() as u32);
    if opaque {
        instrument_opaque(Builder { block, stub: &replay.stub, at: Some(first) }, &instrs, last);
    } else {
        instrument(block, &replay.stub, first, &instrs, last);
    }
    FLAGS
}

/// A block whose last instruction is not executed.
fn instrument_opaque(mut builder: Builder<'_>, instrs: &[Instr], last: Instr) {
    // A jump, of no effect, makes DynamoRIO believe that the flags are live at the block's start, so that it keeps them.
    let next = builder.block.label();
    builder.meta(builder.block.jump_if_rcx_zero(next));
    builder.meta(next);
    builder.set_slow(1);
    for instr in instrs {
        builder.at = Some(*instr);
        if *instr == last {
            builder.call_always(last.pc());
            // Never executed, but a block has to end in something.
            // SAFETY: makes a value from an address.
            let target = Opnd(unsafe { sys::opnd_create_pc(last.pc() as sys::app_pc) });
            builder.block.app(Some(last), builder.block.make(sys::OP_jmp, &[], &[target]), last.pc());
            builder.block.remove(last);
        } else {
            builder.check(instr.pc());
        }
    }
}

/// A block of instructions that are executed, see the module's page.
fn instrument(block: Block, stub: &Stub, first: Instr, instrs: &[Instr], last: Instr) {
    let ends_in_cti = last.is_cti();
    let (slow, end) = (block.label(), block.label());
    let mut builder = Builder { block, stub, at: Some(first) };
    builder.enter(instrs.len() as i32, slow);
    // The original instructions become the FAST part.
    builder.at = ends_in_cti.then_some(last);
    builder.meta(builder.block.jump(end));
    builder.meta(slow);
    builder.set_slow(1);
    builder.count(instrs.len() as i32);
    builder.restore();
    for instr in instrs {
        builder.check(instr.pc());
        if !(ends_in_cti && *instr == last) {
            builder.copy(*instr);
        }
    }
    builder.set_slow(0);
    builder.meta(end);
}
