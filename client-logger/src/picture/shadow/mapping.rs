//! Where a shadow lies: how the address of memory becomes that of its shadow.

use super::sizes::{ADDRESS_BITS, GRANULE, LOWEST, UNIT_SHIFT, granule, units};
use std::ops::Range;

/// How the address of memory becomes that of its shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// By adding, modulo 2^64: with the FS base as summand, any memory operand reaches its shadow.
    Plus(u64),
    /// By changing bits: finds room wherever the program's memory lies.
    Xor(u64),
}

impl Mapping {
    /// A number below [`GRANULE`] that no other mapping has.
    pub(super) fn number(self) -> u64 {
        match self {
            // Of what is subtracted, the bits above those of an address are set.
            Self::Plus(by) => 1 + 2 * (by >> UNIT_SHIFT & 0xffff),
            Self::Xor(key) => 2 * (key >> UNIT_SHIFT),
        }
    }

    pub(super) fn of(self, address: u64) -> u64 {
        match self {
            Self::Plus(by) => address.wrapping_add(by),
            Self::Xor(key) => address ^ key,
        }
    }

    pub(super) fn is_plus(self) -> bool {
        matches!(self, Self::Plus(_))
    }

    /// Where the granules begin that the shadow of a range takes up; maybe not in the address space.
    pub(super) fn granules_of(self, range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
        // The last byte may lie in one granule more than the steps meet.
        let addresses = range.clone().step_by(GRANULE as usize).chain([range.end - 1]);
        addresses.map(move |address| granule(self.of(address)))
    }

    /// The units that the shadow of a range may take up; `None` if it has no place in the address space.
    pub(super) fn units_of(self, range: &Range<u64>) -> Option<Vec<u64>> {
        match self {
            Self::Plus(_) => {
                // Programs grow.
                let shadow = self.of(range.start)..self.of(range.end).wrapping_add(GRANULE);
                let inside = shadow.start >= LOWEST && shadow.end >> ADDRESS_BITS == 0 && shadow.start < shadow.end;
                inside.then(|| units(&shadow).collect())
            }
            Self::Xor(key) => Some(units(range).map(|unit| unit ^ key >> UNIT_SHIFT).collect()),
        }
    }
}

/// Which mappings are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At a distance; whether the initial stack is going to be moved.
    Distance {
        /// See [`super::Shadow::at_distance`].
        stack_moves: bool,
    },
    /// With a key.
    Key,
}
