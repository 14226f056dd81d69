//! What the instrumentation holds of the program's at an address in the code cache, found out by following a fragment's machine code up to there.

use crate::base::slots::{COUNTERS, Slot};
use crate::emitted::by_rip;
use crate::emitted::instrument::BEFORE_LIMIT;
use crate::emitted::site::Site;
use bugnet_dr::ir::Gpr;
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// What the code cache holds up to an address in a fragment.
#[derive(Default)]
pub struct Scan {
    /// Registers whose program value is in their slot.
    pub spilled: u16,
    /// The scratch register that holds a shadow address.
    pub shadow: Option<Gpr>,
    /// Whether RAX's program value is in [`Slot::Rax`].
    pub rax_moved: bool,
    /// Whether the program's arithmetic flags are in [`Slot::Flags`].
    pub flags_saved: bool,
    /// The block that is being executed: address of its limit callout.
    pub limit: Option<u64>,
    /// Whether the count of a block that begins has been changed, and the jump for thresholds is still to come.
    counting: bool,
    /// Whether the last instruction accessed the shadow.
    behind_shadow: bool,
}

/// The general purpose register of which this is one, or a part.
pub fn gpr(register: Register) -> Option<Gpr> {
    let full = register.full_register();
    full.is_gpr64().then(|| Gpr((full as u32 - Register::RAX as u32) as u8))
}

/// The slot of ours that an instruction's memory operand is.
fn slot_offset(i: &Instruction) -> Option<u64> {
    if i.is_ip_rel_memory_operand() {
        return by_rip::slot_offset(i.ip_rel_memory_address());
    }
    let tls = i.memory_segment() == Register::GS && i.memory_base() == Register::None;
    (tls && i.memory_index() == Register::None).then(|| i.memory_displacement64())
}

fn spill_of(offset: u64) -> Option<Gpr> {
    (0..16).map(Gpr).find(|reg| u64::from(Slot::Spill(*reg).offset()) == offset)
}

/// Whether a slot is one of the counters.
fn is_counter(offset: u64) -> bool {
    (0..COUNTERS).any(|number| u64::from(Slot::Left(number as u8).offset()) == offset)
}

/// A decoder over code at an address of this process.
///
/// # Safety
/// Readable up to `end`.
pub unsafe fn decoder<'a>(start: u64, end: u64) -> Decoder<'a> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, (end - start) as usize) };
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
}

/// Whether an instruction puts the program's own arithmetic flags in place: `sahf` of the instrumentation does, and what
/// changes flags without being a check. `behind_shadow`: the instruction before it accesses the shadow.
fn overwrites_flags(i: &Instruction, behind_shadow: bool) -> bool {
    let of_check = match i.mnemonic() {
        Mnemonic::Cmp => {
            let code = [Slot::CodeSeq, Slot::CodeSeqByFs].map(|slot| Some(u64::from(slot.offset())));
            i.memory_segment() == Register::FS || code.contains(&slot_offset(i))
        }
        Mnemonic::Sub => slot_offset(i).is_some_and(is_counter),
        Mnemonic::Ptest | Mnemonic::Vptest => behind_shadow,
        // Before `sahf`.
        Mnemonic::Add => {
            i.op0_register() == Register::AL && i.op1_kind() == OpKind::Immediate8 && i.immediate8() == 0x7f
        }
        _ => false,
    };
    i.rflags_modified() != 0 && !of_check
}

/// Which instructions are those of checks for permission: see [`crate::emitted::instrument`]. What they end with, no program has.
fn of_permission_checks(all: &[Instruction]) -> Vec<bool> {
    let mut ours = vec![false; all.len()];
    let permissions = u64::from(Slot::Permissions.offset());
    for at in 0..all.len() {
        if all[at].mnemonic() != Mnemonic::Add || slot_offset(&all[at]) != Some(permissions) {
            continue;
        }
        // shr, mov, add, cmp
        ours[at.saturating_sub(2)..all.len().min(at + 2)].fill(true);
        // Before that, and, cmp, ja, with no change of flags in between. Only a block's end has a jump of the program's.
        let before = &all[..at.saturating_sub(2)];
        let changes = |i: &Instruction| i.mnemonic() == Mnemonic::Ja || i.rflags_modified() != 0;
        if let Some(jump) = before.iter().rposition(changes)
            && before[jump].mnemonic() == Mnemonic::Ja
        {
            ours[jump.saturating_sub(2)..jump].fill(true);
        }
    }
    ours
}

/// Follows the instrumentation from a fragment's start to `pc`.
pub fn scan(start: u64, pc: u64) -> Scan {
    let mut out = Scan::default();
    // SAFETY: the fragment reaches beyond the instruction at `pc`, which has just executed.
    let decoder = unsafe { decoder(start, pc) };
    let all: Vec<Instruction> = decoder.into_iter().collect();
    let of_permission_checks = of_permission_checks(&all);
    for (i, of_check) in all.iter().zip(of_permission_checks) {
        out.pass(i, of_check);
    }
    out
}

impl Scan {
    /// Passes an instruction; `of_check`: one of a check for permission.
    fn pass(&mut self, i: &Instruction, of_check: bool) {
        let slot = slot_offset(i);
        let behind_shadow = std::mem::replace(&mut self.behind_shadow, i.memory_segment() == Register::FS);
        self.flags_saved &= of_check || !overwrites_flags(i, behind_shadow);
        if self.moves_address(i, slot) {
            return;
        }
        match (i.mnemonic(), slot) {
            (Mnemonic::Sub, Some(offset)) if is_counter(offset) => self.counting = true,
            (Mnemonic::Mov, Some(offset)) => self.moves(i, offset),
            // A callout, behind which RAX is the program's.
            (Mnemonic::Jmp, Some(_)) => self.rax_moved = false,
            (Mnemonic::Js, _) if self.counting => self.counted(i.near_branch_target()),
            (Mnemonic::Jns, _) if self.counting => self.counted(i.next_ip()),
            (Mnemonic::Jrcxz, _) if self.counting => self.counted(i.next_ip() + BEFORE_LIMIT),
            _ => {}
        }
    }

    /// Whether the instruction leads from an address to its shadow, or back; keeps track of the register in which it is.
    fn moves_address(&mut self, i: &Instruction, slot: Option<u64>) -> bool {
        if i.mnemonic() == Mnemonic::Xor && slot == Some(u64::from(Slot::Key.offset())) {
            let reg = gpr(i.op0_register());
            self.shadow = if self.shadow == reg { None } else { reg };
            return true;
        }
        if slot == Some(u64::from(Slot::Distance.offset())) {
            // The same register, on the same way.
            return true;
        }
        let writes = |used: &iced_x86::UsedRegister| {
            !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) && gpr(used.register()) == self.shadow
        };
        if self.shadow.is_some() && InstructionInfoFactory::new().info(i).used_registers().iter().any(writes) {
            self.shadow = None;
        }
        false
    }

    /// A `mov` to a slot, or from it.
    fn moves(&mut self, i: &Instruction, offset: u64) {
        let to_slot = i.op0_kind() == OpKind::Memory;
        let own = gpr(if to_slot { i.op1_register() } else { i.op0_register() });
        if let Some(reg) = spill_of(offset).filter(|reg| own == Some(*reg)) {
            self.spilled = if to_slot { self.spilled | reg.bit() } else { self.spilled & !reg.bit() };
        }
        if offset == u64::from(Slot::Rax.offset()) {
            self.rax_moved = to_slot;
        }
        if to_slot {
            self.flags_saved |= offset == u64::from(Slot::Flags.offset());
            self.counting |= is_counter(offset);
        }
    }

    /// A block has counted its instructions, and calls out here at thresholds.
    fn counted(&mut self, callout: u64) {
        self.limit = Some(callout);
        self.counting = false;
    }
}

/// The site of a limit callout, from its inline part in the code cache.
pub fn site_at(callout: u64) -> Option<&'static Site> {
    // SAFETY: a callout's inline part is longer than this.
    let decoder = unsafe { decoder(callout, callout + 64) };
    let pointer = decoder.into_iter().find(|i| i.code() == Code::Mov_r64_imm64)?.immediate64();
    // SAFETY: the instrumentation put the address of a site there, which is kept as long as the block.
    unsafe { (pointer as *const Site).as_ref() }
}
