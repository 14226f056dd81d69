//! Checks and mirroring with a shadow at a distance from memory: the shadow of a memory operand is the same operand with FS, and a constant
//! ([`crate::picture::shadow::sizes::BIAS`]) by which the FS base is less than the distance.
//!
//! ```text
//!     mov  rax, [rbx+8]                 the program's load
//!     cmp  rax, fs:[rbx+BIAS+8] ; jne DIFFERS
//!     mov  [rcx], rax                   the program's store
//!     mov  fs:[rcx+BIAS], rax
//! ```
//!
//! The shadow has its bytes at the same alignment as memory has them.

use super::Rewriter;
use super::forms::{MAX_DISP, pieces, plain_load, reads_once};
use crate::emitted::callout;
use crate::emitted::machine::{self, Condition, FS, Op};
use crate::emitted::site::{Kind, Target};
use crate::picture::shadow::sizes::BIAS;
use bugnet_dr::access::{Access, Place};
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::{Block, Gpr, Instr, MemoryParts, NO_REGISTER, Opnd, Segment, vector_from_id};
use bugnet_dr::liveness::Live;
use bugnet_dr::opcode;

/// What is at an address, in memory and in the shadow.
#[derive(Clone, Copy)]
struct Both {
    parts: MemoryParts,
}

impl Both {
    fn at(base: Gpr, disp: i32) -> Self {
        let null = NO_REGISTER;
        Self { parts: MemoryParts { segment: None, base: base.id(8), index: null, scale: 0, disp } }
    }

    fn memory(self, offset: i32, bytes: u32) -> Opnd {
        Opnd::in_segment(None, self.parts, offset, bytes)
    }

    fn shadow(self, offset: i32, bytes: u32) -> Opnd {
        Opnd::in_segment(Some(Segment::Fs), self.parts, offset + BIAS, bytes)
    }

    /// `op` on the low `bytes` of a register and what is `offset` behind the address: in the shadow if `segment` is FS, else
    /// in memory.
    fn code(self, block: &Block, op: Op, reg: Gpr, bytes: u32, segment: Option<u8>, offset: i32) -> Instr {
        let bias = if segment.is_some() { BIAS } else { 0 };
        let parts = MemoryParts { disp: self.parts.disp.wrapping_add(offset + bias), ..self.parts };
        if let Some(code) = machine::access(op, reg, bytes, segment, parts) {
            return block.raw(code.bytes());
        }
        let memory = if segment.is_some() { self.shadow(offset, bytes) } else { self.memory(offset, bytes) };
        match op {
            Op::Load => block.load(Opnd::reg(reg, bytes), memory),
            Op::Store => block.store(memory, Opnd::reg(reg, bytes)),
            Op::Compare => block.make(opcode::OP_cmp, &[], &[Opnd::reg(reg, bytes), memory]),
            Op::Address => block.lea(reg, memory),
        }
    }

    /// For a slow path, which finds the registers as they are at the check.
    fn target(self) -> Target {
        Target::Parts(self.parts)
    }
}

/// Up to where that is, and the value.
const MIRROR_PUSH: Assembled = assembled!("mov qword ptr fs:[rsp + {u32}], {u32}"; 8);

impl Rewriter<'_> {
    /// Instruments an instruction whose accesses are all [reachable](super::forms::reachable).
    pub(super) fn execute_by_fs(&mut self, i: usize, reads: &[Access], writes: &[Access]) {
        let instr = self.instrs[i];
        // Where the instruction itself changes it, the address of a write is taken before.
        let mut early = None;
        if let [write] = writes
            && !is_push(instr)
        {
            let changed = instr.dsts().filter(|o| o.is_reg()).fold(0, |mask, o| mask | o.gprs());
            if changed & write.address_gprs() != 0 {
                let s = self.scratch(i, write.address_gprs()).address;
                self.spill(Some(instr), s, self.live[i + 1]);
                self.address_by_fs(Some(instr), *write, s);
                early = Some(s);
            }
        }
        match reads {
            [] => self.flags_for(i),
            [read] if writes.is_empty() && popped(instr).is_some() => self.check_popped(i, read.bytes),
            [read] if writes.is_empty() && plain_load(instr, read).is_some() => self.check_load(i, *read),
            [read] if writes.is_empty() && plain_vector_load(instr, read) => self.check_vector_load(i, *read),
            // Behind the last instruction of the program's own in a block, DynamoRIO expects the next block.
            [read] if i + 1 < self.instrs.len() && reads_once(instr) => self.check_and_replace(i, *read),
            _ => {
                for (ordinal, read) in reads.iter().enumerate() {
                    self.check_first(i, ordinal as u8, *read, early);
                }
                self.flags_for(i);
            }
        }
        if let [write] = *writes {
            self.mirror_by_fs(i, write, early);
        }
    }

    /// A near call: its push is mirrored before it executes, since nothing can be behind it.
    pub(super) fn call_by_fs(&mut self, i: usize, reads: &[Access]) {
        for (ordinal, read) in reads.iter().enumerate() {
            self.check_first(i, ordinal as u8, *read, None);
        }
        self.flags_for(i);
        let (instr, block, live) = (self.instrs[i], self.block, self.live[i]);
        let at = Some(instr);
        let return_address = instr.pc() + instr.len(block);
        let top = Both::at(Gpr::RSP, -8);
        if let Ok(short) = i32::try_from(return_address) {
            let code = [&MIRROR_PUSH, &(BIAS - 8).to_le_bytes()[..], &short.to_le_bytes()].concat();
            block.meta(at, block.raw(&code));
            return;
        }
        let v = value_register(instr.srcs().fold(0, |mask, o| mask | o.gprs()), live);
        self.spill(at, v, live);
        self.join(at, &machine::constant(v, return_address));
        self.put(at, top.code(block, Op::Store, v, 8, Some(FS), 0));
        let jump = block.jump_of_call(instr).filter(|_| i + 1 == self.instrs.len());
        if jump.is_some() {
            block.app(at, block.push(Opnd::reg(v, 8)), instr.pc());
        }
        self.restore(at, v, live);
        if let Some(jump) = jump {
            block.app(at, jump, instr.pc());
            block.remove(instr);
            self.instrs[i] = jump;
        }
    }

    /// Where to insert what comes behind instruction `i` and all that is there already.
    fn behind(&self, i: usize) -> Option<Instr> {
        self.instrs.get(i + 1).copied()
    }

    /// Whether a scratch register has to hold a part of the address.
    fn wants_register(access: &Access) -> bool {
        match access.place {
            Place::Absolute(address) => address > MAX_DISP as u64,
            Place::Segmented(..) => true,
            _ => false,
        }
    }

    /// A scratch register for the address of an access, if it [`Self::wants_register`].
    fn part_register(&self, i: usize, access: &Access, taken: u16) -> Option<Gpr> {
        Self::wants_register(access).then(|| self.scratch(i, taken).address)
    }

    /// Memory and shadow of an access; `s` is its [`Self::part_register`], which is changed.
    fn both(&self, at: Option<Instr>, access: &Access, s: Option<Gpr>) -> Both {
        let block = self.block;
        let null = NO_REGISTER;
        match (access.place, s) {
            (Place::Absolute(address), None) => {
                let disp = address as i32;
                Both { parts: MemoryParts { segment: None, base: null, index: null, scale: 0, disp } }
            }
            (Place::Absolute(address), Some(s)) => {
                self.join(at, &machine::constant(s, address));
                Both::at(s, 0)
            }
            (Place::Segmented(parts, segment), Some(s)) => {
                block.insert_segment_base(at, segment, s);
                let s = s.id(8);
                let none = MemoryParts { segment: None, ..parts };
                Both {
                    parts: match (parts.base, parts.index) {
                        (0, 0) => MemoryParts { base: s, ..none },
                        (0, _) => MemoryParts { base: s, scale: 1, ..none },
                        (_, _) => MemoryParts { index: s, scale: 1, ..none },
                    },
                }
            }
            (Place::Direct(opnd), _) => match opnd.parts() {
                Some(parts) => Both { parts },
                None => unreachable!("an access is looked at first"),
            },
            _ => unreachable!("not checked inline"),
        }
    }

    /// The address of an access into `reg`. Changes no flags.
    fn address_by_fs(&self, at: Option<Instr>, access: Access, reg: Gpr) {
        let both = self.both(at, &access, Some(reg));
        match machine::access(Op::Address, reg, 8, None, both.parts) {
            Some(code) => self.join(at, &code),
            None => self.block.meta(at, self.block.lea(reg, both.memory(0, 8))),
        }
    }

    /// A load whose value is in a register afterwards: the value is compared that the program got.
    fn check_load(&mut self, i: usize, read: Access) {
        let instr = self.instrs[i];
        let Some((loaded, bytes)) = plain_load(instr, &read) else { return };
        let (behind, live) = (self.behind(i), self.live[i + 1]);
        let early = read.address_gprs() & loaded.bit() != 0;
        let wants = early || Self::wants_register(&read);
        let s = wants.then(|| self.scratch(i, read.address_gprs()).address);
        let both = match s {
            Some(s) if early => {
                self.spill(Some(instr), s, live);
                self.address_by_fs(Some(instr), read, s);
                self.flags_for(i);
                Both::at(s, 0)
            }
            _ => {
                self.flags_for(i);
                s.inspect(|s| self.spill(behind, *s, live));
                self.both(behind, &read, s)
            }
        };
        self.check_register(i, behind, both, loaded, bytes, read.address_gprs());
        s.inspect(|s| self.restore(behind, *s, live));
    }

    /// A `pop` or `leave`, behind which the stack pointer says where it has read.
    fn check_popped(&mut self, i: usize, bytes: u32) {
        let instr = self.instrs[i];
        let Some(loaded) = popped(instr) else { return };
        self.flags_for(i);
        self.check_register(i, self.behind(i), Both::at(Gpr::RSP, -8), loaded, bytes, 0);
    }

    /// Compares what an instruction has loaded into a register with the shadow, whose address is made of `address`.
    fn check_register(&mut self, i: usize, at: Option<Instr>, both: Both, loaded: Gpr, bytes: u32, address: u16) {
        self.free_flags(at, self.live[i + 1], address | loaded.bit());
        let block = self.block;
        self.put(at, both.code(block, Op::Compare, loaded, bytes, Some(FS), 0));
        let kind = Kind::Differs { ordinal: 0, bytes, target: both.target(), loaded: Some(loaded) };
        self.call_out_if_different(at, self.site(i, kind));
    }

    /// A load of a whole vector register: what the program got is compared in the register itself, which then gets the
    /// value back from the shadow.
    fn check_vector_load(&mut self, i: usize, read: Access) {
        let instr = self.instrs[i];
        let Some(reg) = instr.dsts().next().and_then(Opnd::get_reg) else { return };
        let (behind, block, live, bytes) = (self.behind(i), self.block, self.live[i + 1], read.bytes);
        let s = self.part_register(i, &read, read.address_gprs());
        self.flags_for(i);
        self.free_flags(behind, live, read.address_gprs());
        s.inspect(|s| self.spill(behind, *s, live));
        let both = self.both(behind, &read, s);
        let (x, shadow) = (Opnd::reg_id(reg), both.shadow(0, bytes));
        let (xor, test, load) = if is_vex(instr) {
            (block.make(opcode::OP_vpxor, &[x], &[x, shadow]), opcode::OP_vptest, opcode::OP_vmovdqu)
        } else {
            (block.make(opcode::OP_pxor, &[x], &[shadow, x]), opcode::OP_ptest, opcode::OP_movdqu)
        };
        block.meta(behind, xor);
        block.meta(behind, block.make(test, &[], &[x, x]));
        let kind = Kind::Differs { ordinal: 0, bytes, target: both.target(), loaded: None };
        self.call_out_if_different(behind, self.site(i, kind));
        block.meta(behind, block.make(load, &[x], &[shadow]));
        s.inspect(|s| self.restore(behind, *s, live));
    }

    /// A read by an instruction that can as well read the shadow: memory is read and compared once, and the instruction
    /// then gets the value that was compared, even if somebody else has written to the memory since.
    fn check_and_replace(&mut self, i: usize, read: Access) {
        let instr = self.instrs[i];
        let (at, block, live) = (Some(instr), self.block, self.live[i]);
        self.free_flags(at, live, 0);
        let s = self.part_register(i, &read, read.address_gprs());
        s.inspect(|s| self.spill(at, *s, live));
        let both = self.both(at, &read, s);
        let taken = read.address_gprs() | s.map_or(0, Gpr::bit);
        self.compare_by_fs(i, 0, both, read.bytes, taken);
        self.flags_for(i);
        if let Some(copy) =
            prefixed(block, instr, &read).or_else(|| block.clone_reading(instr, both.shadow(0, read.bytes)))
        {
            block.meta_faulting(at, copy, instr.pc());
            block.remove(instr);
            self.instrs[i] = copy;
            s.inspect(|s| self.restore(self.behind(i), *s, live));
        } else {
            s.inspect(|s| self.restore(at, *s, live));
        }
    }

    /// Any other read: memory is compared before the instruction executes.
    fn check_first(&mut self, i: usize, ordinal: u8, read: Access, taken: Option<Gpr>) {
        let (at, live) = (Some(self.instrs[i]), self.live[i]);
        let taken = read.address_gprs() | taken.map_or(0, Gpr::bit);
        let s = self.part_register(i, &read, taken);
        self.free_flags(at, live, 0);
        s.inspect(|s| self.spill(at, *s, live));
        let both = self.both(at, &read, s);
        self.compare_by_fs(i, ordinal, both, read.bytes, taken | s.map_or(0, Gpr::bit));
        s.inspect(|s| self.restore(at, *s, live));
    }

    /// Compares memory with its shadow by way of a register that is not among those `taken`.
    fn compare_by_fs(&mut self, i: usize, ordinal: u8, both: Both, bytes: u32, taken: u16) {
        let (instr, block, live) = (self.instrs[i], self.block, self.live[i]);
        let at = Some(instr);
        let v = value_register(taken, live);
        self.spill(at, v, live);
        let kind = Kind::Differs { ordinal, bytes, target: both.target(), loaded: None };
        if let (1 | 2 | 4 | 8, true) = (bytes, self.compact) {
            block.meta_faulting(at, both.code(block, Op::Load, v, bytes, None, 0), instr.pc());
            self.put(at, both.code(block, Op::Compare, v, bytes, Some(FS), 0));
            self.slow_if(at, Condition::Differs, &callout::inline(self.site(i, kind)));
            self.restore(at, v, live);
            return;
        }
        let slow = self.leads(pieces(bytes).count(), self.site(i, kind));
        for (offset, bytes) in pieces(bytes) {
            block.meta_faulting(at, both.code(block, Op::Load, v, bytes, None, offset), instr.pc());
            block.meta(at, both.code(block, Op::Compare, v, bytes, Some(FS), offset));
            slow.jump(block, at);
        }
        slow.end(block, at);
        self.restore(at, v, live);
    }

    /// A write: the picture takes what was stored. `early`: the register that has its address already.
    fn mirror_by_fs(&mut self, i: usize, write: Access, early: Option<Gpr>) {
        let (instr, block, live) = (self.instrs[i], self.block, self.live[i + 1]);
        let behind = self.behind(i);
        let s = early.or_else(|| self.part_register(i, &write, write.address_gprs()));
        if early.is_none() {
            s.inspect(|s| self.spill(behind, *s, live));
        }
        let both = match early {
            Some(s) => Both::at(s, 0),
            None if is_push(instr) => Both::at(Gpr::RSP, 0),
            None => self.both(behind, &write, s),
        };
        if let Some(reg) = stored_register(instr, write.bytes) {
            self.put(behind, both.code(block, Op::Store, reg, write.bytes, Some(FS), 0));
        } else if let Some(copy) = self.same_store(i, both.shadow(0, write.bytes), write.bytes) {
            block.meta(behind, copy);
        } else {
            let taken = if is_push(instr) { 0 } else { write.address_gprs() } | s.map_or(0, Gpr::bit);
            let v = value_register(taken, live);
            self.spill(behind, v, live);
            for (offset, bytes) in pieces(write.bytes) {
                block.meta(behind, both.code(block, Op::Load, v, bytes, None, offset));
                self.put(behind, both.code(block, Op::Store, v, bytes, Some(FS), offset));
            }
            self.restore(behind, v, live);
        }
        s.inspect(|s| self.restore(behind, *s, live));
    }
}

/// A copy of an instruction with nothing but a memory operand without a segment, which reads the shadow. It takes less time
/// than [`Block::clone_reading`], but DynamoRIO does not see any more what it is.
fn prefixed(block: &Block, instr: Instr, read: &Access) -> Option<Instr> {
    let Place::Direct(_) = read.place else { return None };
    // What a push stores is still looked at.
    if instr.opcode() == opcode::OP_push {
        return None;
    }
    let code = machine::with_fs(instr.raw_bytes()?, BIAS)?;
    Some(block.raw(code.bytes()))
}

/// A register for a value that is looked at: none of those `taken`, and a dead one where there is any.
fn value_register(taken: u16, live: Live) -> Gpr {
    let free = |reg: &Gpr| (taken | Gpr::RSP.bit()) & reg.bit() == 0;
    let dead = (0..16).map(Gpr).filter(free).find(|reg| live.gprs & reg.bit() == 0);
    dead.or_else(|| (1..16).map(Gpr).find(free)).unwrap_or(Gpr::RAX)
}

/// The register that a `pop` or `leave` loads.
fn popped(instr: Instr) -> Option<Gpr> {
    if !matches!(instr.opcode(), opcode::OP_pop | opcode::OP_leave) {
        return None;
    }
    let loaded = |id| Gpr::from_id(id).filter(|(reg, bytes)| *reg != Gpr::RSP && *bytes == 8).map(|(reg, _)| reg);
    instr.dsts().filter_map(Opnd::get_reg).find_map(loaded)
}

/// The register whose low `bytes` a plain store stores.
fn stored_register(instr: Instr, bytes: u32) -> Option<Gpr> {
    if !matches!(instr.opcode(), opcode::OP_mov_st | opcode::OP_push) {
        return None;
    }
    let id = instr.srcs().next()?.get_reg()?;
    let (reg, size) = Gpr::from_id(id)?;
    let pushes_itself = instr.opcode() == opcode::OP_push && reg == Gpr::RSP;
    // AH to BH are not the low byte.
    (size == bytes && id == reg.id(size) && !pushes_itself).then_some(reg)
}

/// Whether it pushes to where RSP points behind it.
fn is_push(instr: Instr) -> bool {
    matches!(instr.opcode(), opcode::OP_push | opcode::OP_push_imm | opcode::OP_pushf)
}

fn is_vex(instr: Instr) -> bool {
    matches!(
        instr.opcode(),
        opcode::OP_vmovups
            | opcode::OP_vmovupd
            | opcode::OP_vmovaps
            | opcode::OP_vmovapd
            | opcode::OP_vmovdqu
            | opcode::OP_vmovdqa
            | opcode::OP_vlddqu
    )
}

/// Whether it loads a vector register as it is, and the processor can compare it there: without VEX only where the
/// operand is aligned.
fn plain_vector_load(instr: Instr, read: &Access) -> bool {
    let aligned = matches!(instr.opcode(), opcode::OP_movaps | opcode::OP_movapd | opcode::OP_movdqa);
    let whole = instr.dsts().next().and_then(Opnd::get_reg).and_then(vector_from_id);
    let features = if is_vex(instr) {
        std::arch::is_x86_feature_detected!("avx2")
    } else {
        aligned && std::arch::is_x86_feature_detected!("sse4.1")
    };
    features && whole.is_some_and(|(_, bytes)| bytes == read.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(MIRROR_PUSH.bytes(), [0x64, 0x48, 0xc7, 0x84, 0x24]);
    }
}
