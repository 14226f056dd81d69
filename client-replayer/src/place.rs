//! Machine code that finds the places of an access ([`crate::places`]), and uses them.

use crate::operand::{Operand, Segmented};
use crate::places::{Places, Plane};
use crate::stub::Stub;
use bugnet_dr::ir::Gpr;

/// The parts of so many bytes that are accessed at once: how far from the start, and how many bytes.
pub fn parts(bytes: u64) -> impl Iterator<Item = (i32, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let part = [8, 4, 2, 1].into_iter().find(|part| done + part <= bytes)?;
        done += part;
        Some(((done - part) as i32, part))
    })
}

/// The place of an access: machine code that finds it, and the operand in FS from which the planes' are.
pub struct Place {
    /// It changes the register, if it is not empty.
    pub find: Vec<u8>,
    operand: Operand,
    segment: Segmented,
}

impl Place {
    /// That of an operand. `register` is free for it, or has what it has in the program; where the operand has a segment, it is none of the
    /// operand's.
    pub fn of(places: Places, stub: &Stub, operand: Operand, register: Gpr) -> Self {
        let (mut find, is_narrow) = (Vec::new(), places == Places::Narrow);
        let segment = if is_narrow { Segmented::FsCut } else { Segmented::Fs };
        if is_narrow && operand.segment.is_none() {
            return Self { find, operand, segment };
        }
        operand.load_address(stub, &mut find, register);
        if !is_narrow {
            find.extend(stub.wide_place(register));
        }
        Self { find, operand: Operand::at(register), segment }
    }

    /// Marks so many bytes, so far from the start, in a plane.
    pub fn mark(&self, code: &mut Vec<u8>, (start, bytes): (i32, u64), plane: Plane) {
        for (from, bytes) in parts(bytes) {
            self.operand.put(code, shifted(plane, start + from), bytes, self.segment == Segmented::FsCut);
        }
    }

    /// Loads what the first plane has, so far from the start; see [`Operand::load`].
    pub fn load(&self, code: &mut Vec<u8>, to: Gpr, from: i32, bytes: u64) {
        self.operand.load(code, to, shifted(Plane::First, from), bytes, self.segment);
    }

    /// Compares what the first plane has, so far from the start, with zero.
    pub fn is_zero(&self, code: &mut Vec<u8>, from: i32, bytes: u64) {
        self.operand.compare_with_zero(code, shifted(Plane::First, from), bytes, self.segment);
    }

    /// Stores to the first plane.
    pub fn store(&self, code: &mut Vec<u8>, from: Gpr, at: i32, bytes: u64) {
        self.operand.store(code, from, shifted(Plane::First, at), bytes, self.segment);
    }
}

/// What an operand has to have added for a plane's place of the byte that is so far from its start.
pub fn shifted(plane: Plane, from: i32) -> i32 {
    (plane.shift() as i32).wrapping_add(from)
}
