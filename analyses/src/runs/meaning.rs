//! Whether two values mean the same in two runs: addresses differ from run to run, and so do a few secrets of the system's.

use super::both::{BAD, GOOD};
use super::side::{Recorded, Side};
use bugnet_format::regs::RSP;
use bugnet_format::types::Addr;
use bugnet_replay::mappings::{Mapping, Mappings};
use bugnet_replay::memory::Memory as _;
use std::sync::Arc;

/// Nothing is mapped below.
const LOWEST: u64 = 1 << 16;
/// Where the secret is that is put behind arrays on the stack, from the FS base on.
const CANARY: u64 = 0x28;
/// As far from a stack pointer, it is the same stack.
const STACK: u64 = 8 << 20;

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    /// A number.
    Number,
    /// An address in a mapped file, so far behind its start.
    File(Arc<str>, u64),
    /// An address in a stack.
    Stack,
    /// An address in other memory.
    Memory,
}

/// What a value of 8 bytes is, where this is mapped, and a stack is there.
fn meaning(recorded: &Recorded<'_>, mappings: &Mappings, stack: u64, value: u64) -> Meaning {
    if !(LOWEST..Addr::USER_END).contains(&value) {
        return Meaning::Number;
    }
    if let Some((name, offset)) = recorded.objects.place(value) {
        return Meaning::File(name, offset);
    }
    if value.wrapping_sub(stack.saturating_sub(STACK)) < 2 * STACK && stack >= LOWEST {
        return Meaning::Stack;
    }
    // A pointer may point behind the last byte of something.
    match mappings.at(value).or_else(|| mappings.at(value - 1)) {
        Some(mapping) if mapping.name.starts_with("[stack") => Meaning::Stack,
        Some(_) => Meaning::Memory,
        None => Meaning::Number,
    }
}

/// Whether two values have the same lower half, and upper halves of addresses: those of pointers that were there before, as where a program
/// copies a structure of which it has set a part.
fn half_left(mappings: [&Mappings; 2], values: [u64; 2]) -> bool {
    let is_upper_half = |side: usize| {
        let upper = values[side] >> 32;
        let has = |mapping: &Mapping| (mapping.start >> 32..=mapping.end >> 32).contains(&upper);
        upper != 0 && mappings[side].all.iter().any(has)
    };
    values[GOOD] as u32 == values[BAD] as u32 && is_upper_half(GOOD) && is_upper_half(BAD)
}

/// Whether two values of so many bytes are the same, or addresses of which only the numbers differ: in a file, of the same place; in a
/// stack or in other memory, any. What an old pointer has left in the upper half does not count. As things are at the end of each run, where the stack pointers are these.
#[must_use]
pub fn same(runs: [&Recorded<'_>; 2], stacks: [u64; 2], values: [u64; 2], bytes: u8) -> bool {
    if values[GOOD] == values[BAD] {
        return true;
    }
    if bytes != 8 {
        return false;
    }
    let mappings = runs.map(|run| run.objects.mappings());
    let of = |side: usize| meaning(runs[side], mappings[side], stacks[side], values[side]);
    (of(GOOD) != Meaning::Number && of(GOOD) == of(BAD)) || half_left(mappings, values)
}

/// The same where the cursors of the runs are, in which memory may be mapped that is not there any more at the end, and the secret of the
/// stack is known.
///
/// # Errors
/// A replay process is lost.
pub fn same_here(sides: &mut [Side<'_>; 2], values: [u64; 2], bytes: u8) -> bugnet_replay::Result<bool> {
    if values[GOOD] == values[BAD] {
        return Ok(true);
    }
    if bytes != 8 {
        return Ok(false);
    }
    let mut found = Vec::new();
    let mut are_secrets = true;
    for (side, value) in sides.iter_mut().zip(values) {
        let mappings = side.cursor.mappings()?;
        found.push(meaning(&side.recorded, &mappings, side.cursor.regs().gpr[RSP], value));
        let secret = side.cursor.read_known(Addr(side.cursor.regs().fs_base.wrapping_add(CANARY)), 8)?;
        let secret: Option<Vec<u8>> = secret.into_iter().collect();
        are_secrets &= secret.is_some_and(|bytes| bytes == value.to_le_bytes());
    }
    Ok(are_secrets || (found[GOOD] != Meaning::Number && found[GOOD] == found[BAD]))
}
