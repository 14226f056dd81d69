//! Blocks that run often address slots relative to RIP, as long as there is one thread.
//!
//! A processor may let a load have what was stored just before without waiting for it, by renaming memory as it renames
//! registers. AMD's Zen 5 does that for addresses relative to RIP or to a register, but not for `gs:[slot]`: there, a value comes
//! back from a slot after 7 cycles, and the counter, which each block decrements, takes as long from block to block. An address
//! relative to RIP depends on where the block lies, which is known once it runs. So blocks are made with `gs:[slot]`, which
//! suits any thread, and those that thresholds meet are rewritten, in place: each instruction keeps its length. Before anyone
//! else executes blocks, another thread or a child of `vfork`, all are thrown away, and none is rewritten any more.

use crate::base::slots::{SLOTS, Slot};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Register};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where the slots of the only thread are; 0 before a block addresses them by RIP.
static START: AtomicU64 = AtomicU64::new(0);

/// Whether others execute blocks, too, or did.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Bytes of all slots.
const BYTES: u64 = 8 * SLOTS as u64;
/// The segment prefix of GS.
const GS: u8 = 0x65;
/// That of DS, which means nothing.
const DS: u8 = 0x3e;
/// An address without base and index, in the byte behind ModRM.
const ABSOLUTE: u8 = 0x25;
/// Most bytes that are looked through: more than any block has.
const MOST: usize = 256 << 10;

/// Whether blocks may be rewritten.
pub fn is_possible() -> bool {
    !SHARED.load(Ordering::Relaxed)
}

/// From now on, blocks are not rewritten. Returns whether there may be some that have been, and have to be thrown away.
pub fn end() -> bool {
    !SHARED.swap(true, Ordering::Relaxed) && START.load(Ordering::Relaxed) != 0
}

/// Where the slots of a thread start, of which [`Slot::Left`] begin at `left`.
pub fn slots(left: u64) -> u64 {
    left - u64::from(Slot::Left(0).offset() - Slot::FIRST.offset())
}

/// Lets code from `from` up to `to`, or to where it does not go on behind an instruction, address slots, of which the first lies
/// at `slots`, relative to RIP.
///
/// # Safety
/// Instructions begin at `from`, and end at `to`; one thread executes them, and not at this moment.
pub unsafe fn rewrite(from: u64, to: Option<u64>, slots: u64) {
    START.store(slots, Ordering::Relaxed);
    let len = to.map_or(MOST, |to| (to - from) as usize);
    // SAFETY: as the caller says; where the end is not told, nothing behind the last instruction is looked at.
    let code = unsafe { std::slice::from_raw_parts_mut(from as *mut u8, len) };
    let mut at = 0;
    while at < code.len() {
        let instruction =
            Decoder::with_ip(64, &code[at..code.len().min(at + 15)], from + at as u64, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            break;
        }
        let next = at + instruction.len();
        let absolute = instruction.memory_base() == Register::None && instruction.memory_index() == Register::None;
        if instruction.memory_segment() == Register::GS && absolute {
            by_rip(&mut code[at..next], from + next as u64, slots);
        }
        let goes_on = matches!(instruction.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
        if to.is_none() && !goes_on {
            break;
        }
        at = next;
    }
}

/// Lets one instruction, behind which the next one lies at `next`, address its slot relative to RIP, if it addresses one and
/// that is near enough. `gs:[slot]` takes two bytes more, which become prefixes without a meaning.
fn by_rip(instruction: &mut [u8], next: u64, slots: u64) {
    let [GS, rest @ ..] = &*instruction else { return };
    let rex = usize::from(rest.first().is_some_and(|byte| byte & 0xf0 == 0x40));
    let opcode = 1 + usize::from(rest.get(rex) == Some(&0x0f));
    let mod_rm = 1 + rex + opcode;
    let Some([mode, ABSOLUTE, offset @ ..]) = instruction.get(mod_rm..) else { return };
    let Some((offset, _)) = offset.split_first_chunk() else { return };
    let offset = u64::from(u32::from_le_bytes(*offset)).wrapping_sub(Slot::FIRST.offset().into());
    let distance = slots.wrapping_add(offset).wrapping_sub(next).cast_signed();
    let (0x04, true, Ok(distance)) = (mode & 0xc7, offset < BYTES, i32::try_from(distance)) else { return };
    let mode = mode | 1;
    instruction.copy_within(1..mod_rm, 2);
    instruction[..2].fill(DS);
    instruction[mod_rm + 1] = mode;
    instruction[mod_rm + 2..mod_rm + 6].copy_from_slice(&distance.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::slots::pretend_slots;
    use crate::emitted::machine;
    use bugnet_dr::assembled;
    use iced_x86::Instruction;

    fn decoded(code: &[u8]) -> Vec<Instruction> {
        Decoder::with_ip(64, code, code.as_ptr() as u64, DecoderOptions::NONE).into_iter().collect()
    }

    /// What a block may begin with, then something else with GS, a jump, and what comes behind it.
    #[test]
    fn only_slots_up_to_the_end_are_addressed_by_rip_and_nothing_moves() {
        pretend_slots();
        let [before, save] = machine::save_flags(false);
        let restore = machine::restore_flags(false);
        let mut code =
            [before.bytes(), save.bytes(), machine::count(Slot::Left(3), 7).bytes(), restore.bytes()].concat();
        code.extend(&*assembled!("mov rcx, gs:[0x10]", "mov rcx, gs:[rax + 0x100]", "jmp 2f", "2:"));
        let end = code.len();
        code.extend(restore.bytes());
        let old = code.clone();
        let slots = code.as_ptr() as u64 + 0x1000;
        // SAFETY: instructions, which nobody executes.
        unsafe { rewrite(code.as_ptr() as u64, None, slots) };
        assert_eq!(code[end..], old[end..]);
        let is_slot = |i: &Instruction| {
            let at = i.memory_displacement64().wrapping_sub(Slot::FIRST.offset().into());
            i.memory_segment() == Register::GS && i.memory_base() == Register::None && at < BYTES
        };
        let mut rewritten = 0;
        for (was, is) in decoded(&old[..end]).iter().zip(decoded(&code[..end])) {
            assert_eq!((was.code(), was.len(), was.op0_register()), (is.code(), is.len(), is.op0_register()));
            if is_slot(was) {
                assert!(is.is_ip_rel_memory_operand(), "{was:?} became {is:?}");
                let offset = was.memory_displacement64() - u64::from(Slot::FIRST.offset());
                assert_eq!(is.ip_rel_memory_address(), slots + offset);
                rewritten += 1;
            } else {
                assert_eq!((was.memory_base(), was.memory_segment()), (is.memory_base(), is.memory_segment()));
            }
        }
        assert_eq!(rewritten, 7);
    }

    #[test]
    fn slots_that_are_too_far_away_stay_as_they_are() {
        pretend_slots();
        let mut code = machine::count(Slot::Left(3), 7).bytes().to_vec();
        let (old, at) = (code.clone(), code.as_ptr() as u64);
        // SAFETY: one instruction, which nobody executes.
        unsafe { rewrite(at, Some(at + old.len() as u64), at.wrapping_add(1 << 33)) };
        assert_eq!(code, old);
        code.clear();
    }
}
