//! Blocks, and how instructions are made and put into them.

use super::List;
use super::instr::Instr;
use super::operand::{Opnd, Segment};
use super::registers::Gpr;
use crate::decode::{MAX_LEN, decode_from_copy};
use crate::sys;
use smallvec::SmallVec;
use std::ffi::c_void;

unsafe extern "C" {
    /// DynamoRIO's statement that the (no) operands of an instruction are all of them; the bindings leave it out.
    fn instr_set_operands_valid(instr: *mut sys::instr_t, valid: sys::bool_);
    /// DynamoRIO's decoder, which the bindings leave out, too.
    fn decode(context: *mut c_void, pc: *mut sys::byte, instr: *mut sys::instr_t) -> *mut sys::byte;
}

/// A block's instructions. Most have few, and memory of its own takes time.
pub type Instrs = SmallVec<[Instr; 16]>;

/// A block that DynamoRIO is building.
#[derive(Debug)]
pub struct Block {
    /// DynamoRIO's context of the thread.
    pub context: *mut c_void,
    list: *mut sys::instrlist_t,
}

/// Instructions that were decoded from a copy. Their lengths cannot be asked for: the bytes of those that depend on their
/// address count for nothing.
pub struct Copied {
    /// The instructions.
    pub instrs: Instrs,
    /// The jump behind them, if there is one.
    pub leave: Option<Instr>,
    /// Address of the first byte behind the last one.
    pub end: u64,
}

/// What is told that a block has been emitted.
pub trait Emitted {
    /// DynamoRIO has put the block into the code cache, or has given it up. All instructions of the instrumentation's are still there, with
    /// [`Instr::offset`].
    fn emitted(self: Box<Self>);
}

/// A label of [`Block::when_emitted`] is about to go.
///
/// # Safety
/// DynamoRIO's event for that, of such a label.
unsafe extern "C" fn emitted<T: Emitted>(_context: *mut c_void, label: *mut sys::instr_t) {
    // SAFETY: the pointer was put there when the label was made, and this is called once.
    let what = unsafe { Box::from_raw((*sys::instr_get_label_data_area(label)).data[0] as *mut T) };
    what.emitted();
}

impl Block {
    /// # Safety
    /// The pointers are those of a block event, and neither the block nor anything taken from it is used after the
    /// event has returned.
    #[must_use]
    pub unsafe fn new(context: *mut c_void, list: *mut List) -> Self {
        Self { context, list }
    }

    /// The program's instructions, in order.
    #[must_use]
    pub fn app_instrs(&self) -> Instrs {
        // SAFETY: see the crate's "Safety of the whole".
        let first = unsafe { sys::instrlist_first(self.list) };
        let first = (!first.is_null()).then_some(Instr(first));
        std::iter::successors(first, |i| i.next()).filter(|i| i.is_app() && !i.is_label()).collect()
    }

    /// Inserts an instruction of the instrumentation before `at`, or at the end.
    pub fn meta(&self, at: Option<Instr>, instr: Instr) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        // SAFETY: see the crate's "Safety of the whole"; `instr` is in no list yet.
        unsafe { sys::instrlist_meta_preinsert(self.list, at, instr.0) };
    }

    /// Inserts an instruction of the instrumentation that touches the program's memory for the program's instruction
    /// at `pc`: if it faults, the program's instruction has faulted.
    pub fn meta_faulting(&self, at: Option<Instr>, instr: Instr, pc: u64) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        // SAFETY: see the crate's "Safety of the whole"; `instr` is in no list yet.
        unsafe {
            sys::instr_set_translation(instr.0, pc as sys::app_pc);
            sys::instrlist_meta_fault_preinsert(self.list, at, instr.0);
        }
    }

    /// Inserts an instruction as the program's own, standing for the one at `pc`.
    pub fn app(&self, at: Option<Instr>, instr: Instr, pc: u64) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        // SAFETY: see the crate's "Safety of the whole"; `instr` is in no list yet.
        unsafe {
            sys::instr_set_translation(instr.0, pc as sys::app_pc);
            sys::instrlist_preinsert(self.list, at, instr.0);
        }
    }

    /// The block is nothing but the program's instruction at `pc` from here on. `false` if that cannot be decoded, and the block is empty.
    pub fn begin_anew(&self, pc: u64) -> bool {
        // SAFETY: see the crate's "Safety of the whole"; the instruction is made for this block.
        unsafe {
            sys::instrlist_clear(self.context, self.list);
            let instr = sys::instr_create(self.context);
            if decode(self.context, pc as *mut sys::byte, instr).is_null() {
                sys::instr_destroy(self.context, instr);
                return false;
            }
            sys::instr_set_translation(instr, pc as sys::app_pc);
            sys::instrlist_append(self.list, instr);
        }
        true
    }

    /// Puts the program's instructions back that DynamoRIO takes for a request to Valgrind (four `rol rdi`, which do
    /// nothing together, and `xchg rbx, rbx`; libraries like GLib have them) and answers itself: it leaves a label in
    /// their place, and a `mov edx, 0` that is none of the program's. At the start of a block event.
    pub fn restore_requests(&self) {
        /// From the start of each of the instructions to that of the last.
        const OFFSETS: [u64; 5] = [16, 12, 8, 4, 0];
        // SAFETY: see the crate's "Safety of the whole".
        let first = unsafe { sys::instrlist_first(self.list) };
        let first = (!first.is_null()).then_some(Instr(first));
        let all = || std::iter::successors(first, |i| i.next());
        if !all().any(Instr::is_label) {
            return;
        }
        let all: Vec<Instr> = all().collect();
        for (index, label) in all.iter().enumerate().filter(|(_, instr)| instr.is_label()) {
            let Some(answer) = all.get(index + 1) else { continue };
            // Where a block begins among them, those before the last are still there.
            let kept = index.checked_sub(1).map_or(0, |before| all[before].pc() + 1);
            for pc in OFFSETS.map(|offset| answer.pc() - offset).into_iter().filter(|pc| *pc >= kept) {
                // SAFETY: DynamoRIO has just decoded the instruction there; it is in no list yet.
                let instr = unsafe {
                    let instr = sys::instr_create(self.context);
                    decode(self.context, pc as *mut sys::byte, instr);
                    Instr(instr)
                };
                self.app(Some(*label), instr, pc);
            }
            self.remove(*answer);
            self.remove(*label);
        }
    }

    /// Adds the program's instruction at `pc` to the end of the block.
    ///
    /// # Safety
    /// There are readable bytes at `pc` up to the longest instruction's length.
    #[must_use]
    pub unsafe fn decode_app(&self, pc: u64) -> Instr {
        // SAFETY: see the crate's "Safety of the whole"; the caller vouches for the bytes.
        let instr = unsafe {
            let instr = sys::instr_create(self.context);
            decode(self.context, pc as *mut sys::byte, instr);
            Instr(instr)
        };
        self.app(None, instr, pc);
        instr
    }

    /// Makes the empty block one of the program's instructions at `pc`, decoded from a copy of its code: as far as `goes_on`
    /// says, up to the first branch, or to where the copy may have but a part of an instruction. Where the block does not
    /// end by itself, it goes on behind the last one, by a jump.
    ///
    /// # Safety
    /// The copy stays as it is until DynamoRIO has made the block.
    pub unsafe fn decode_apps(&self, pc: u64, copy: &[u8], mut goes_on: impl FnMut(Instr) -> bool) -> Copied {
        let mut instrs = Instrs::new();
        let mut at = 0;
        while at + MAX_LEN <= copy.len() {
            let from = &copy[at..];
            // SAFETY: see the crate's "Safety of the whole"; an instruction's bytes are in the copy.
            let (instr, end) = unsafe {
                let instr = sys::instr_create(self.context);
                let original = (pc + at as u64) as *mut sys::byte;
                let end = decode_from_copy(self.context, from.as_ptr().cast_mut(), original, instr);
                (Instr(instr), end)
            };
            if end.is_null() {
                // SAFETY: an instruction of ours that is in no list.
                unsafe { sys::instr_destroy(self.context, instr.0) };
                break;
            }
            self.app(None, instr, pc + at as u64);
            instrs.push(instr);
            at += end as usize - from.as_ptr() as usize;
            let goes_on = goes_on(instr);
            // SAFETY: as above. Bytes that depend on their address do not stand where that is right.
            unsafe {
                if instr.is_cti() || sys::instr_has_rel_addr_reference(instr.0) != 0 {
                    sys::instr_set_raw_bits_valid(instr.0, 0);
                }
            }
            if !goes_on || instr.is_cti() {
                return Copied { instrs, leave: None, end: pc + at as u64 };
            }
        }
        let end = pc + at as u64;
        let leave = instrs.last().map(|last| self.go_on_at(end, *last));
        Copied { instrs, leave, end }
    }

    /// Ends the block with a jump to what comes behind its last instruction.
    pub fn go_on_at(&self, target: u64, last: Instr) -> Instr {
        let leave = self.leave(target);
        self.app(None, leave, last.pc());
        leave
    }

    /// Takes an instruction out of the block for good; the handle must not be used afterwards.
    pub fn remove(&self, instr: Instr) {
        // SAFETY: see the crate's "Safety of the whole"; the instruction is in this list.
        unsafe {
            sys::instrlist_remove(self.list, instr.0);
            sys::instr_destroy(self.context, instr.0);
        }
    }

    /// Calls a function of the client's before `at`, all registers saved, with an argument that has to be valid as long as
    /// the block can be executed.
    pub fn clean_call<T>(&self, at: Option<Instr>, function: unsafe extern "C" fn(*const T), argument: *const T) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        let argument = argument as i64;
        // SAFETY: see the crate's "Safety of the whole"; makes an operand from a value.
        unsafe {
            let argument = sys::opnd_create_immed_int64(argument, sys::OPSZ_8 as u8);
            let function = function as *mut c_void;
            sys::dr_insert_clean_call(self.context, self.list.cast(), at.cast(), function, 0, 1, argument);
        }
    }

    /// Machine code in memory that calls a function of the client's, all registers saved, as [`Self::clean_call`] does, and then goes on where a
    /// word says; how many bytes that is. `None` where it would be more than `room`.
    ///
    /// # Safety
    /// In a block event, whose context this is; `room` bytes at `at` are free.
    pub unsafe fn encode_clean_call(
        context: *mut c_void,
        function: unsafe extern "C" fn(),
        resume: Opnd,
        (at, room): (*mut u8, usize),
    ) -> Option<usize> {
        // SAFETY: the caller's promise; the list is made and destroyed here.
        unsafe {
            let list = sys::instrlist_create(context);
            let block = Self::new(context, list);
            sys::dr_insert_clean_call(context, list, std::ptr::null_mut(), function as *mut c_void, 0, 0);
            block.meta(None, block.make(sys::OP_jmp_ind, &[], &[resume]));
            let end = sys::instrlist_encode(context, list, at, 1);
            sys::instrlist_clear_and_destroy(context, list);
            let len = (end as usize).checked_sub(at as usize)?;
            (len <= room).then_some(len)
        }
    }

    /// A copy of an instruction, not yet in the block.
    #[must_use]
    pub fn clone_instr(&self, instr: Instr) -> Instr {
        // SAFETY: see the crate's "Safety of the whole".
        Instr(unsafe { sys::instr_clone(self.context, instr.0) })
    }

    /// A copy of an instruction that reads its only memory source from `memory` instead, not yet in the block; `None`
    /// if it has no such form.
    #[must_use]
    pub fn clone_reading(&self, instr: Instr, memory: Opnd) -> Option<Instr> {
        let copy = self.clone_instr(instr);
        if copy.redirect_read(memory) {
            return Some(copy);
        }
        // SAFETY: a copy of ours that is in no list.
        unsafe { sys::instr_destroy(self.context, copy.0) };
        None
    }

    /// A label, not yet in the block.
    #[must_use]
    pub fn label(&self) -> Instr {
        self.make(sys::OP_LABEL, &[], &[])
    }

    /// Lets `what` be told when the block has been emitted. The last thing that is done to a block: DynamoRIO takes its instructions apart
    /// from the first one on, which is this one's label.
    pub fn when_emitted<T: Emitted>(&self, what: Box<T>) {
        let label = self.label();
        // SAFETY: see the crate's "Safety of the whole"; a label has such an area, which nobody else uses.
        unsafe {
            (*sys::instr_get_label_data_area(label.0)).data[0] = Box::into_raw(what) as u64;
            sys::instr_set_label_callback(label.0, Some(emitted::<T>));
            sys::instrlist_meta_preinsert(self.list, sys::instrlist_first(self.list), label.0);
        }
    }

    /// An instruction from its opcode, destinations and sources as DynamoRIO lists them, implicit ones included.
    ///
    /// # Panics
    /// For a shape that no instruction of the instrumentation has.
    #[must_use]
    pub fn make(&self, opcode: u32, dsts: &[Opnd], srcs: &[Opnd]) -> Instr {
        let (dc, op) = (self.context, opcode as i32);
        // SAFETY: makes an instruction from values, owned by nobody until it is inserted.
        Instr(unsafe {
            match (dsts, srcs) {
                ([], []) => sys::instr_create_0dst_0src(dc, op),
                ([], [a]) => sys::instr_create_0dst_1src(dc, op, a.0),
                ([], [a, b]) => sys::instr_create_0dst_2src(dc, op, a.0, b.0),
                ([d], []) => sys::instr_create_1dst_0src(dc, op, d.0),
                ([d], [a]) => sys::instr_create_1dst_1src(dc, op, d.0, a.0),
                ([d], [a, b]) => sys::instr_create_1dst_2src(dc, op, d.0, a.0, b.0),
                ([d, e], [a, b]) => sys::instr_create_2dst_2src(dc, op, d.0, e.0, a.0, b.0),
                _ => unreachable!("instruction shape"),
            }
        })
    }

    /// Machine code of the instrumentation that DynamoRIO takes as it is, as if it were one instruction. It must not
    /// depend on its own address.
    #[must_use]
    pub fn raw(&self, code: &[u8]) -> Instr {
        // SAFETY: makes an instruction with room for as many bytes as are then copied, owned by nobody until inserted.
        unsafe {
            let instr = sys::instr_build_bits(self.context, sys::OP_nop as i32, code.len() as u32);
            sys::instr_set_raw_bytes(instr, code.as_ptr().cast_mut(), code.len() as u32);
            // Else DynamoRIO would decode the first of the instructions in the code, and forget the others.
            instr_set_operands_valid(instr, 1);
            Instr(instr)
        }
    }

    /// Appends machine code to a piece of [`Self::raw`] that is in the block, if that is what comes right before `at`.
    #[must_use]
    pub fn extend_raw(&self, piece: Instr, at: Option<Instr>, code: &[u8]) -> bool {
        // SAFETY: see the crate's "Safety of the whole"; the piece has as many bytes as it says, and gets room for as many
        // more as are then copied.
        unsafe {
            let before = at.map_or_else(|| sys::instrlist_last(self.list), |at| sys::instr_get_prev(at.0));
            if before != piece.0 {
                return false;
            }
            let len = piece.len(self) as usize;
            sys::instr_allocate_raw_bits(self.context, piece.0, (len + code.len()) as u32);
            let end = sys::instr_get_raw_bits(piece.0).add(len);
            end.copy_from_nonoverlapping(code.as_ptr(), code.len());
            instr_set_operands_valid(piece.0, 1);
        }
        true
    }

    /// `mov reg, memory` of the operand's own size.
    #[must_use]
    pub fn load(&self, dst: Opnd, memory: Opnd) -> Instr {
        self.make(sys::OP_mov_ld, &[dst], &[memory])
    }

    /// `mov memory, reg-or-imm`.
    #[must_use]
    pub fn store(&self, memory: Opnd, src: Opnd) -> Instr {
        let opcode = if src.is_imm() { sys::OP_mov_imm } else { sys::OP_mov_st };
        self.make(opcode, &[memory], &[src])
    }

    /// `mov reg, imm64`.
    #[must_use]
    pub fn mov_imm64(&self, reg: Gpr, value: u64) -> Instr {
        self.make(sys::OP_mov_imm, &[Opnd::reg(reg, 8)], &[Opnd::imm(value as i64, 8)])
    }

    /// `push` of a register or of memory, of 8 bytes.
    #[must_use]
    pub fn push(&self, what: Opnd) -> Instr {
        let rsp = Opnd::reg(Gpr::RSP, 8);
        self.make(sys::OP_push, &[rsp, Opnd::at(Gpr::RSP, -8, 8)], &[what, rsp])
    }

    /// `lea reg, address`; the operand's size does not matter.
    #[must_use]
    pub fn lea(&self, reg: Gpr, address: Opnd) -> Instr {
        let mut address = address;
        // SAFETY: changes a value of ours.
        unsafe { sys::opnd_set_size(&raw mut address.0, sys::OPSZ_0 as sys::opnd_size_t) };
        self.make(sys::OP_lea, &[Opnd::reg(reg, 8)], &[address])
    }

    /// `jmp label`.
    #[must_use]
    pub fn jump(&self, label: Instr) -> Instr {
        self.make(sys::OP_jmp, &[], &[Opnd::label(label)])
    }

    /// A conditional jump with DynamoRIO's long-form opcode (`OP_jnz` ...).
    #[must_use]
    pub fn jump_if(&self, opcode: u32, label: Instr) -> Instr {
        self.make(opcode, &[], &[Opnd::label(label)])
    }

    /// A conditional jump, as [`Self::jump_if`], to an address outside of the code cache that is near to it.
    #[must_use]
    pub fn jump_out_if(&self, opcode: u32, target: u64) -> Instr {
        // SAFETY: makes an operand.
        let target = unsafe { sys::opnd_create_pc(target as sys::app_pc) };
        self.make(opcode, &[], &[Opnd(target)])
    }

    /// A jump to one of the program's addresses, with which the block is left.
    #[must_use]
    pub fn leave(&self, target: u64) -> Instr {
        // SAFETY: makes an operand.
        let target = unsafe { sys::opnd_create_pc(target as sys::app_pc) };
        self.make(sys::OP_jmp, &[], &[Opnd(target)])
    }

    /// `jrcxz label`; the label must be near.
    #[must_use]
    pub fn jump_if_rcx_zero(&self, label: Instr) -> Instr {
        self.make(sys::OP_jecxz, &[], &[Opnd::label(label), Opnd::reg(Gpr::RCX, 8)])
    }

    /// What a call does behind its push, not yet in the block; `None` where the push would change where it goes or what faults. DynamoRIO makes
    /// two stores of 4 bytes of the push of an address above 2 GB, and the load of 8 bytes with which the function returns has to
    /// wait until both have left the processor's store buffer. So a client makes the push itself, of 8 bytes.
    #[must_use]
    pub fn jump_of_call(&self, call: Instr) -> Option<Instr> {
        let target = call.srcs().next()?;
        match call.opcode() {
            sys::OP_call => Some(self.make(sys::OP_jmp, &[], &[target])),
            sys::OP_call_ind if target.is_reg() && target.gprs() & Gpr::RSP.bit() == 0 => {
                Some(self.make(sys::OP_jmp_ind, &[], &[target]))
            }
            _ => None,
        }
    }

    /// Puts RBX, before the indirect branch at `at`, where DynamoRIO's look-up of its target leaves it. Where that look-up
    /// begins in the block itself (`-inline_bb_ibl`), the way out of the code cache takes RBX from there without having put
    /// it there.
    pub fn save_for_look_up(&self, at: Instr) {
        let (rbx, slot) = (Gpr::RBX.id(8), sys::dr_spill_slot_t::SPILL_SLOT_3);
        // SAFETY: see the crate's "Safety of the whole".
        unsafe { sys::dr_save_reg(self.context, self.list, at.0, rbx, slot) };
    }

    /// Inserts the code that puts the base of the program's FS or GS into `reg`, before `at`.
    pub fn insert_segment_base(&self, at: Option<Instr>, segment: Segment, reg: Gpr) {
        let at = at.map_or(std::ptr::null_mut(), |i| i.0);
        let segment = match segment {
            Segment::Fs => sys::DR_SEG_FS,
            Segment::Gs => sys::DR_SEG_GS,
        };
        // SAFETY: see the crate's "Safety of the whole".
        unsafe {
            sys::dr_insert_get_seg_base(self.context, self.list, at, segment as sys::reg_id_t, reg.id(8));
        }
    }
}

/// Offset, from DynamoRIO's own segment base, of the thread-local word in which it keeps the base of the program's FS
/// or GS; found in the code that DynamoRIO itself inserts to read it.
#[must_use]
pub fn segment_base_slot(segment: Segment) -> Option<u32> {
    // SAFETY: a list of our own, from its creation to its end.
    unsafe {
        let context = sys::dr_get_current_drcontext();
        let list = sys::instrlist_create(context);
        let block = Block::new(context, list);
        block.insert_segment_base(None, segment, Gpr::RAX);
        let first = sys::instrlist_first(list);
        let slot = (!first.is_null())
            .then(|| Instr(first).srcs().find(|o| o.is_memory()).and_then(Opnd::parts))
            .flatten()
            .filter(|parts| parts.segment.is_some() && parts.base == 0 && parts.index == 0)
            .and_then(|parts| u32::try_from(parts.disp).ok());
        sys::instrlist_clear_and_destroy(context, list);
        slot
    }
}
