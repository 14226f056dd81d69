//! Rewrites a block: counts its instructions, checks what it loads, mirrors what it stores.
//!
//! ```text
//!     sub [counter], n ; js LIMIT          count, and find thresholds
//!     ...
//!     mov  rax, [rbx+8]                 the program's load
//!     cmp  rax, fs:[rbx+8] ; jne DIFFERS
//!     ...
//!     jcc  TARGET                       the block's last instruction
//!     jmp  NEXT
//! LIMIT:  callout ; jmp back            slow paths, out of the way; those of loads lie apart from the block
//! ```

mod borrowed_register;
mod code_check;
mod emulate;
mod entry;
mod exchange;
mod flags;
mod forms;
mod grouping;
mod loader;
mod ownership;
mod paths;
mod shadow_by_fs;
mod shadow_by_xor;
mod shared_store;
mod slow;

use crate::base::light;
use crate::base::memory::read_memory;
use crate::base::process;
use crate::base::slots::Slot;
use crate::emitted::branches;
use crate::emitted::callout;
use crate::emitted::lies::{Home, Where};
use crate::emitted::machine::{self, Op};
use crate::emitted::map::{Change, Draft, Place as MapPlace};
use crate::emitted::reclaim;
use crate::emitted::site::{self, Kind, Site};
use crate::log::recording;
use crate::picture::placement;
use crate::picture::protections::PROTECTIONS;
use crate::picture::shared_code::SHARED;
use crate::picture::writable_code::is_told;
use bugnet_dr::access::{self, Access, Accesses, Action, Place};
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::events::{EMIT, EMIT_TRANSLATIONS, Emit};
use bugnet_dr::ir::{Block, Gpr, Instr, Instrs, List, Opnd, Segment};
use bugnet_dr::liveness::{self, Live};
use bugnet_dr::opcode;
use bugnet_format::record::SpecialKind;
use bugnet_format::types::CodeSeq;
use forms::{stores_as_is, written};
use paths::{Precisely, Slow};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::Arc;

/// Largest read or write, in bytes, that is checked or mirrored inline.
const INLINE: u32 = site::INLINE as u32;

/// Bytes of the longest instruction.
const LONGEST_INSTRUCTION: u64 = 15;

/// DynamoRIO builds a block. `observe`: code at this address, of so many bytes, is about to be executed by the calling thread; the oldest code
/// picture that has it. It is not asked where an address is to be translated.
///
/// # Safety
/// In DynamoRIO's block event, whose context and list these are.
pub unsafe fn rewrite(
    context: *mut c_void,
    tag: u64,
    list: *mut List,
    translating: bool,
    observe: impl FnOnce(u64, u64) -> CodeSeq,
) -> Emit {
    // SAFETY: the event's pointers, used within the event.
    let block = unsafe { Block::new(context, list) };
    block.restore_requests();
    let instrs = block.app_instrs();
    if instrs.is_empty() {
        return EMIT;
    }
    reclaim::on_build();
    if PROTECTIONS.get().of(instrs[0].pc()) & libc::PROT_EXEC == 0 {
        not_executable(&block, &instrs);
        // DynamoRIO cannot translate from code that it cannot read.
        return EMIT_TRANSLATIONS;
    }
    let len = |instrs: &[Instr]| instrs.last().map_or(0, |last| last.pc() + last.len(&block) - instrs[0].pc());
    let changes = may_change(instrs[0].pc(), len(&instrs));
    let instrs = if changes { end_at_store(&block, instrs) } else { instrs };
    let instrs = if light::expands() { end_as_kept(&block, instrs) } else { instrs };
    let (flags, code) = if changes {
        // DynamoRIO cannot translate from code that has changed.
        (EMIT_TRANSLATIONS, code_of(instrs[0].pc(), len(&instrs)))
    } else {
        (EMIT, None)
    };
    let emitted_as = (!translating).then_some(tag);
    if recording::over() {
        Rewriter::new(&block, instrs).run_unrecorded(code, emitted_as);
        return flags;
    }
    let mut needed = CodeSeq(0);
    if let (Some(first), Some(last), false) = (instrs.first(), instrs.last(), translating) {
        // A decoder may look beyond the last instruction, and replay has no other code than the log's.
        let end = last.pc() + last.len(&block) + LONGEST_INSTRUCTION;
        needed = observe(first.pc(), end.wrapping_sub(first.pc()));
    }
    Rewriter::new(&block, instrs).run(needed, code, emitted_as);
    flags
}

/// Whether code at these addresses may change without a system call that DynamoRIO knows: the program can write to it, or
/// others can.
fn may_change(start: u64, len: u64) -> bool {
    SHARED.get().overlaps_mapping(start, len)
        || PROTECTIONS.get().writable(start)
        || PROTECTIONS.get().writable(start + len.max(1) - 1)
}

/// The bytes of code; `None` if they are gone.
fn code_of(start: u64, len: u64) -> Option<Box<[u8]>> {
    let mut code = vec![0; len as usize].into_boxed_slice();
    read_memory(start, &mut code).then_some(code)
}

/// Up to the address.
const LOAD: Assembled = assembled!("movabs al, [{u64}]"; 8);

/// DynamoRIO executes whatever can be read. Where the processor would not, the block faults as a jump to it does: it reads
/// at its own address, which is not accessible at that moment.
fn not_executable(block: &Block, instrs: &[Instr]) {
    let pc = instrs[0].pc();
    instrs.iter().for_each(|instr| block.remove(*instr));
    callout::insert(block, None, Site { pc, back: 0, kind: Kind::NotExecutable, lies: Where::InBlock });
    block.app(None, block.raw(&[&LOAD, &pc.to_le_bytes()[..]].concat()), pc);
}

/// Code in writable memory may change itself, and is checked at a block's start only: such a block ends with its first store.
fn end_at_store(block: &Block, instrs: Instrs) -> Instrs {
    let stores = |instr: &Instr| match access::classify(*instr) {
        Action::Execute { writes, .. } => !writes.is_empty(),
        Action::Repeat(op) => op.kind.writes(),
        Action::OpaqueStore { .. } | Action::Emulate(_) => true,
        _ => false,
    };
    let mut len = instrs.iter().position(stores).map_or(instrs.len(), |at| at + 1);
    // Where DynamoRIO compares, a block must not become that short. A push changes no code, and of other stores DynamoRIO sees to it then.
    if len == 1 && instrs[0].len(block) == 1 && (is_push(instrs[0]) || !is_told(instrs[0].pc())) {
        len = instrs.len().min(2);
    }
    instrs[len..].iter().for_each(|instr| block.remove(*instr));
    instrs[..len].into()
}

/// Where a moment of a light log is looked for, a block begins; and behind each instruction with which that goes on, since a moment may be next then.
fn end_as_kept(block: &Block, instrs: Instrs) -> Instrs {
    let at = light::moment();
    let ends = |pair: &[Instr]| Some(pair[1].pc()) == at || matches!(access::classify(pair[0]), Action::Special(_));
    let len = instrs.windows(2).position(ends).map_or(instrs.len(), |at| at + 1);
    instrs[len..].iter().for_each(|instr| block.remove(*instr));
    instrs[..len].into()
}

fn is_push(instr: Instr) -> bool {
    [opcode::OP_push, opcode::OP_pushf].contains(&instr.opcode())
}

struct Rewriter<'a> {
    block: &'a Block,
    instrs: Instrs,
    actions: SmallVec<[Action; 8]>,
    live: SmallVec<[Live; 16]>,
    slow: Vec<Slow>,
    precisely: Vec<Precisely>,
    /// Where the block is, for its slow paths apart from it; none if there will be no such.
    home: Option<Arc<Home>>,
    threaded: bool,
    /// What is checked for permission where, if there are threads.
    plan: grouping::Plan,
    /// Whether the shadow is at a distance.
    by_fs: bool,
    /// Whether slow paths lie where they are jumped to: see [`loader`].
    compact: bool,
    /// The register that the instrumentation has for the whole block: see [`borrowed_register`].
    lent: Option<Gpr>,
    /// Whether the program's arithmetic flags are in their slot: see [`flags`].
    flags_saved: bool,
    /// The last piece of machine code to which another can be [joined](Self::join).
    piece: Cell<Option<Instr>>,
    /// Where the instrumentation holds what of the program's.
    map: RefCell<Draft>,
}

/// Two registers that the instrumentation may use around one instruction.
#[derive(Clone, Copy)]
struct Scratch {
    address: Gpr,
    value: Gpr,
}

impl<'a> Rewriter<'a> {
    fn new(block: &'a Block, instrs: Instrs) -> Self {
        let compact = loader::has(instrs[0].pc());
        let live = liveness::analyse(&instrs);
        let (threaded, by_fs) = (process::threaded(), placement::by_fs());
        let compact = compact && !threaded;
        let actions: SmallVec<[Action; 8]> = instrs.iter().map(|instr| access::classify(*instr)).collect();
        let plan = if threaded { grouping::Plan::new(&instrs, &actions) } else { grouping::Plan::default() };
        Self {
            block,
            home: (!compact && actions.iter().any(loads)).then(Arc::default),
            instrs,
            actions,
            live,
            slow: Vec::new(),
            precisely: Vec::new(),
            threaded,
            plan,
            by_fs,
            compact,
            lent: None,
            flags_saved: false,
            piece: Cell::new(None),
            map: RefCell::default(),
        }
    }

    /// `tag`: what the block is called, if it is going to be emitted.
    fn run(mut self, needed: CodeSeq, code: Option<Box<[u8]>>, tag: Option<u64>) {
        self.keep_bases();
        if let Some(code) = code {
            self.check_code(code);
        }
        if light::moment() == Some(self.instrs[0].pc()) {
            self.check_moment(&light::moment_registers());
        }
        self.count(self.by_fs && self.wants_flags_soon());
        if self.threaded {
            self.require_code(needed, self.by_fs);
        }
        self.borrow_register();
        for i in 0..self.instrs.len() {
            self.instruction(i);
        }
        self.program_flags(None, Live::ALL);
        self.give_back(self.instrs.last().copied().filter(|last| last.is_cti()));
        self.prepare_look_up();
        self.finish(tag);
    }

    /// Where nothing is recorded, or nothing more: what CPUID showed before stays hidden, and signals come, threads stop and system calls are
    /// made as in blocks that are recorded, where threads leave the code cache now and then. Nothing is checked, and no shadow is there.
    fn run_unrecorded(mut self, code: Option<Box<[u8]>>, tag: Option<u64>) {
        self.keep_bases();
        if let Some(code) = code {
            self.check_code(code);
        }
        self.home = None;
        self.count(false);
        if self.threaded {
            self.require_code(CodeSeq(0), false);
        }
        for i in 0..self.instrs.len() {
            match self.actions[i] {
                Action::Special(kind) => self.special(i, kind),
                Action::Emulate(what) => self.emulate(i, what),
                Action::OpaqueStore { selects: true, .. } => self.select_shown_components(i),
                Action::Syscall => self.say_where_call_is(i),
                _ => {}
            }
        }
        self.prepare_look_up();
        self.finish(tag);
    }

    fn finish(self, tag: Option<u64>) {
        let (block, map) = (self.block, self.map.take());
        self.place_slow_paths();
        if let Some(tag) = tag {
            block.when_emitted(map.finish(tag));
        }
    }

    /// Before the system call that the block ends with: where it is.
    fn say_where_call_is(&self, i: usize) {
        let (block, instr) = (self.block, self.instrs[i]);
        let half = |bits: u64| Opnd::imm((bits as u32).cast_signed().into(), 4);
        block.meta(Some(instr), block.store(Slot::SyscallPc.opnd(4), half(instr.pc())));
        block.meta(Some(instr), block.store(Slot::SyscallPc.upper_half(), half(instr.pc() >> 32)));
    }

    fn site(&self, i: usize, kind: Kind) -> Site {
        Site { pc: self.instrs[i].pc(), back: (self.instrs.len() - i) as u64, kind, lies: Where::InBlock }
    }

    fn instruction(&mut self, i: usize) {
        let instr = self.instrs[i];
        let action = std::mem::replace(&mut self.actions[i], Action::Syscall);
        if self.threaded {
            self.own(i, &action);
        }
        if !matches!(action, Action::Execute { .. }) {
            self.program_flags(Some(instr), self.live[i]);
        }
        match action {
            Action::Execute { reads, writes } => self.execute(i, reads, writes),
            Action::Repeat(op) => {
                self.callout(Some(instr), i, Kind::RepeatBefore(op));
                self.callout(instr.next(), i, Kind::RepeatAfter(op));
            }
            Action::Special(kind) => self.special(i, kind),
            Action::Emulate(what) => self.emulate(i, what),
            Action::Result(kind) => {
                self.callout(Some(instr), i, Kind::ResultBefore);
                self.callout(instr.next(), i, Kind::ResultAfter(kind, written(instr)));
            }
            Action::OpaqueStore { target, kind, selects, .. } => {
                self.callout(Some(instr), i, Kind::WriteAddresses([target].into()));
                let next = instr.next();
                if selects {
                    self.select_shown_components(i);
                }
                self.callout(next, i, Kind::OpaqueAfter(kind));
            }
            Action::Unsupported(why) => {
                self.callout(Some(instr), i, Kind::Unsupported { why, dead: !self.live[i].gprs });
            }
            Action::Syscall => self.say_where_call_is(i),
        }
    }

    /// Lets an instruction store no state component that the program is not shown, such as those of AVX-512: where there
    /// are some, it would store more than the program has room for.
    fn select_shown_components(&mut self, i: usize) {
        let instr = self.instrs[i];
        let next = instr.next();
        let selection = [Gpr::RAX, Gpr::RDX];
        for reg in selection {
            let place = self.insert(Some(instr), &machine::slot(Op::Store, reg, Slot::Spill(reg)));
            self.note(place, Change::Spilled(reg));
        }
        self.callout(Some(instr), i, Kind::HideComponents);
        for reg in selection {
            let place = self.insert(next, &machine::slot(Op::Load, reg, Slot::Spill(reg)));
            self.note(place, Change::Restored(reg));
        }
    }

    fn special(&mut self, i: usize, kind: SpecialKind) {
        let instr = self.instrs[i];
        let reg = instr.dsts().find_map(Opnd::get_reg).and_then(Gpr::from_id);
        let source = instr.srcs().find_map(Opnd::get_reg).and_then(Gpr::from_id);
        let gs = matches!(instr.opcode(), opcode::OP_rdgsbase | opcode::OP_wrgsbase);
        let segment = if gs { Segment::Gs } else { Segment::Fs };
        let site = match (instr.opcode(), reg, source) {
            (opcode::OP_rdfsbase | opcode::OP_rdgsbase, Some((reg, bytes)), _) => {
                Kind::SegmentBase(segment, reg, bytes)
            }
            (opcode::OP_wrfsbase | opcode::OP_wrgsbase, _, Some((reg, bytes))) => {
                Kind::SetSegmentBase(segment, reg, bytes)
            }
            _ => Kind::Special(kind, reg, written(instr)),
        };
        self.callout(Some(instr), i, site);
        self.replace(i);
    }

    /// The callout before it has done all that the instruction would do: takes it out.
    fn replace(&mut self, i: usize) {
        let instr = self.instrs[i];
        let nop = self.block.make(opcode::OP_nop, &[], &[]);
        self.block.app(Some(instr), nop, instr.pc());
        self.block.remove(instr);
        self.instrs[i] = nop;
    }

    /// Inserts machine code. Returns where it is, if it is any.
    fn insert(&self, at: Option<Instr>, code: &machine::Code) -> Option<MapPlace> {
        if code.bytes().is_empty() {
            return None;
        }
        let piece = self.block.raw(code.bytes());
        self.block.meta(at, piece);
        self.piece.set(Some(piece));
        Some(MapPlace(piece, 0))
    }

    /// Notes what changes at a place.
    fn note(&self, place: Option<MapPlace>, change: Change) {
        self.map.borrow_mut().note(place, change);
    }

    /// The same for the place before `at`.
    fn note_before(&self, at: Option<Instr>, change: Change) {
        let label = self.block.label();
        self.block.meta(at, label);
        self.note(Some(MapPlace(label, 0)), change);
    }

    /// Inserts an instruction, or a piece of machine code to which another can be [joined](Self::join).
    fn put(&self, at: Option<Instr>, instr: Instr) {
        self.block.meta(at, instr);
        self.piece.set((instr.opcode() == opcode::OP_nop).then_some(instr));
    }

    /// Inserts machine code that cannot fault and reads no flags, or only those that the code right before it has written: as
    /// a part of the piece before it, if there is one. DynamoRIO takes its time for each.
    fn join(&self, at: Option<Instr>, code: &machine::Code) {
        self.joined(at, code);
    }

    /// The same; returns where it is, if it is any.
    fn joined(&self, at: Option<Instr>, code: &machine::Code) -> Option<MapPlace> {
        let joined = self.piece.get().and_then(|piece| {
            let end = piece.len(self.block);
            self.block.extend_raw(piece, at, code.bytes()).then_some(MapPlace(piece, end))
        });
        joined.or_else(|| self.insert(at, code))
    }

    fn callout(&mut self, at: Option<Instr>, i: usize, kind: Kind) {
        callout::insert(self.block, at, self.site(i, kind));
    }

    fn execute(&mut self, i: usize, reads: Accesses, writes: Accesses) {
        let instr = self.instrs[i];
        if instr.is_call() {
            let reads = if self.is_inline(i, &reads, &[]) { reads } else { self.look_at(i, reads) };
            if self.by_fs {
                self.call_by_fs(i, &reads)
            } else {
                self.call_by_key(i, &reads, &writes)
            }
            return;
        }
        let end = self.exchanges(i, &reads, &writes).map(|routine| self.exchange(i, reads[0], routine));
        let shared = writes
            .first()
            .copied()
            .filter(|write| end.is_none() && self.is_inline(i, &reads, &writes) && self.reads_back(i, write));
        if let Some(write) = shared {
            self.look_if_shared(i, write);
        }
        self.execute_alone(i, reads, writes);
        if shared.is_some() {
            self.log_if_shared(i);
        }
        if let Some(end) = end {
            let behind = self.instrs.get(i + 1).copied();
            self.program_flags(behind, self.live[i + 1]);
            self.block.meta(behind, end);
        }
    }

    /// Checks what an instruction reads and mirrors what it writes, of memory that no other process changes meanwhile.
    fn execute_alone(&mut self, i: usize, reads: Accesses, writes: Accesses) {
        let instr = self.instrs[i];
        if !self.is_inline(i, &reads, &writes) {
            self.program_flags(Some(instr), self.live[i]);
            if !reads.is_empty() {
                self.look_at(i, reads);
            }
            if !writes.is_empty() {
                let writes = writes.into_boxed_slice();
                self.callout(Some(instr), i, Kind::WriteAddresses(writes.clone()));
                self.callout(instr.next(), i, Kind::Writes(writes));
            }
            return;
        }
        if self.by_fs { self.execute_by_fs(i, &reads, &writes) } else { self.execute_by_key(i, &reads, &writes) }
    }

    /// Checks what an instruction reads in a callout. Returns what there is left to check: nothing.
    fn look_at(&mut self, i: usize, reads: Accesses) -> Accesses {
        self.program_flags(Some(self.instrs[i]), self.live[i]);
        self.callout(Some(self.instrs[i]), i, Kind::Reads(reads.into_boxed_slice()));
        Accesses::new()
    }

    /// Whether the accesses of an instruction are checked and mirrored without a callout.
    fn is_inline(&self, i: usize, reads: &[Access], writes: &[Access]) -> bool {
        let inline = |a: &Access| {
            let plain = matches!(a.place, Place::Direct(_) | Place::Segmented(..) | Place::Absolute(_));
            plain && !a.masked && a.bytes > 0 && a.bytes <= INLINE && (!self.by_fs || forms::reachable(a))
        };
        reads.iter().chain(writes).all(inline)
            && reads.len() <= 2
            && writes.len() <= 1
            && (i + 1 < self.instrs.len() || writes.is_empty() || !self.instrs[i].is_cti())
    }

    /// Scratch registers that neither the instruction nor `avoid` uses, nor RAX, through which flags go.
    fn scratch(&self, i: usize, avoid: u16) -> Scratch {
        let instr = self.instrs[i];
        let used = instr.srcs().chain(instr.dsts()).fold(avoid, |mask, o| mask | o.gprs());
        // An instruction that names AH to BH has no encoding that names R8 to R15 as well.
        let high = instr.srcs().chain(instr.dsts()).any(Opnd::is_high_byte);
        let used = used | Gpr::RAX.bit() | Gpr::RSP.bit() | if high { 0xff00 } else { 0 };
        // Prefer registers that are dead here: restoring them stalls nobody.
        let live = self.live[i + 1].gprs;
        let free = |wanted: u16| (0..16).map(Gpr).filter(move |reg| wanted & reg.bit() != 0);
        let mut free = free(!used & !live).chain(free(!used & live));
        match (free.next(), free.next()) {
            (Some(address), Some(value)) => Scratch { address, value },
            _ => unreachable!("no instruction names so many registers"),
        }
    }

    fn acquire(&mut self, at: Option<Instr>, scratch: Scratch, live: Live) {
        for reg in [scratch.address, scratch.value] {
            self.spill(at, reg, live);
        }
        self.save_flags(at, live);
    }

    fn release(&mut self, at: Option<Instr>, scratch: Scratch, live: Live) {
        self.restore_flags(at);
        for reg in [scratch.address, scratch.value] {
            self.restore(at, reg, live);
        }
    }

    /// Spills a register, if its value is still wanted.
    fn spill(&self, at: Option<Instr>, reg: Gpr, live: Live) {
        if live.gprs & reg.bit() != 0 {
            self.spill_live(at, reg);
        }
    }

    fn spill_live(&self, at: Option<Instr>, reg: Gpr) {
        let place = self.joined(at, &machine::slot(Op::Store, reg, Slot::Spill(reg)));
        self.note(place, Change::Spilled(reg));
    }

    /// Undoes [`Self::spill`].
    fn restore(&self, at: Option<Instr>, reg: Gpr, live: Live) {
        if live.gprs & reg.bit() != 0 {
            self.restore_live(at, reg);
        }
    }

    fn restore_live(&self, at: Option<Instr>, reg: Gpr) {
        let place = self.joined(at, &machine::slot(Op::Load, reg, Slot::Spill(reg)));
        self.note(place, Change::Restored(reg));
    }

    /// For an instruction that [`stores_as_is`], the same store to the shadow.
    fn same_store(&self, i: usize, shadow: Opnd, bytes: u32) -> Option<Instr> {
        let (instr, block) = (self.instrs[i], self.block);
        let src = instr.srcs().next().filter(|_| stores_as_is(instr, bytes))?;
        Some(match instr.opcode() {
            opcode::OP_mov_st | opcode::OP_mov_imm => block.store(shadow, src.sized(bytes)),
            opcode::OP_push => block.store(shadow, src),
            // Without the alignment that the program's own form may ask for: it has just been met there.
            opcode::OP_movaps | opcode::OP_movapd | opcode::OP_movdqa | opcode::OP_movupd => {
                block.make(opcode::OP_movups, &[shadow], &[src])
            }
            opcode::OP_movntps | opcode::OP_movntpd | opcode::OP_movntdq => {
                block.make(opcode::OP_movups, &[shadow], &[src])
            }
            opcode::OP_vmovaps
            | opcode::OP_vmovdqa
            | opcode::OP_vmovntps
            | opcode::OP_vmovntpd
            | opcode::OP_vmovntdq => block.make(opcode::OP_vmovups, &[shadow], &[src]),
            opcode => block.make(opcode, &[shadow], &[src]),
        })
    }

    /// The look-up of an indirect branch's target comes next.
    fn prepare_look_up(&self) {
        let Some(last) = self.instrs.last().filter(|last| last.is_indirect_branch()) else { return };
        let number = Opnd::imm((branches::number(last.pc()) as i32).into(), 4);
        self.block.meta(Some(*last), self.block.store(Slot::branch(), number));
        self.block.save_for_look_up(*last);
    }
}

/// Whether an instruction loads something that is checked inline.
fn loads(action: &Action) -> bool {
    matches!(action, Action::Execute { reads, .. } if !reads.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(LOAD.bytes(), [0xa0]);
    }
}
