//! How the address space is divided for shadows.

use std::ops::Range;

/// What is reserved at once.
pub const GRANULE: u64 = 1 << 30;
/// What the code cache adds to each operand in a shadow at a distance, and what FS has less than that. AMD's processors guess that a load
/// finds what was stored last by the same registers and the same lowest 10 bits of a constant, and take long to find out that it does
/// not: a program's load would mostly follow a store to the shadow.
pub const BIAS: i32 = 0x140;
/// Shadows are moved by multiples of 2 to the power of this: the program's memory is assumed to lie in few parts of this size.
pub const UNIT_SHIFT: u32 = 32;
/// Distances are multiples of 2 to the power of this, but for [`COLOUR`], as long as there is room between them: so that
/// mappings that grow into the next unit do not take the room of another thread's shadow.
pub const STEP_SHIFT: u32 = 36;
pub const ADDRESS_BITS: u32 = 47;
pub const UNITS: u64 = 1 << (ADDRESS_BITS - UNIT_SHIFT);
/// The lowest page cannot be mapped by unprivileged programs; nor can a program have memory there.
pub const LOWEST: u64 = 0x1_0000;
/// Memory and its shadow are used together. Some processors look for a line in their first cache by a few bits of its
/// address, in which the two must therefore differ. (Not so with a key: an access may cross from page to page.)
pub const COLOUR: u64 = 0x5000;
/// Where tables are put, from here on upwards: the usual layout of a process has nothing there.
pub const TABLES: u64 = 1 << 44;
/// Bytes of a table.
pub const TABLE: usize = 1 << UNIT_SHIFT;

pub fn units(range: &Range<u64>) -> Range<u64> {
    range.start >> UNIT_SHIFT..((range.end - 1) >> UNIT_SHIFT) + 1
}

pub fn extent(start: u64) -> Range<u64> {
    start..start + GRANULE
}

/// The start of the granule of a shadow address: what is reserved at once.
pub fn granule(shadow: u64) -> u64 {
    shadow & !(GRANULE - 1)
}
