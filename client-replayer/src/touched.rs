//! Which bytes of memory are known: those that the thread has accessed in the interval, or that a record has put there.
//!
//! Memory begins as zero, and a load of zero from memory that nobody has touched leaves no record: neither the records nor what is in
//! memory tell a zero that the thread has seen from a byte that it never looked at. Only the accesses do. Instructions that
//! access memory call the client, which is slow, but only a replay that is asked for it has to bear it.
//!
//! What a system call may have changed is not known until it is read again.

use crate::compare::origin::Origins;
use crate::compare::system::System;
use crate::instruction::{Instruction, Registers, range};
use crate::memory::Memory;
use bugnet_dr::access::{Action, StringKind};
use bugnet_dr::ir::Gpr;
use bugnet_format::control::MAX_PAGES;
use bugnet_format::types::Addr;
use hashbrown::HashMap;

const PAGE: u64 = Addr::PAGE;
/// Longest range that is taken note of at a time, in bytes; no string instruction goes over more that is looked at later.
const MAX_RANGE: u64 = 1 << 30;

/// The bytes of a page, a bit each.
type Bits = [u64; PAGE as usize / 64];

/// The known bytes.
#[derive(Default)]
pub struct Touched {
    pages: HashMap<u64, Box<Bits>>,
    system: System,
}

impl Touched {
    /// At an interval's start, where the code picture is all that is known.
    pub fn new(code: impl Iterator<Item = u64>) -> Self {
        let mut touched = Self::default();
        code.for_each(|page| touched.know(page, PAGE));
        touched
    }

    /// The bytes are known from here on.
    pub fn know(&mut self, at: u64, len: u64) {
        for (page, first, end) in pieces(at, len) {
            let bits = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE as usize / 64]));
            words(bits, first, end).for_each(|(word, mask)| *word |= mask);
        }
    }

    /// The bytes are not known any more.
    fn forget(&mut self, at: u64, len: u64) {
        for (page, first, end) in pieces(at, len) {
            if let Some(bits) = self.pages.get_mut(&page) {
                words(bits, first, end).for_each(|(word, mask)| *word &= !mask);
            }
        }
    }

    /// Whether a byte is known.
    fn is_known(&self, at: u64) -> bool {
        let bit = at % PAGE;
        self.pages.get(&(at - bit)).is_some_and(|bits| bits[bit as usize / 64] >> (bit % 64) & 1 == 1)
    }

    /// A bit for each of `len` bytes from `at` on, the first one lowest.
    pub fn known(&self, at: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len.div_ceil(8)];
        for number in 0..len {
            if self.is_known(at.wrapping_add(number as u64)) {
                out[number / 8] |= 1 << (number % 8);
            }
        }
        out
    }

    /// The pages from an address on of which a byte is known, ascending.
    pub fn pages_from(&self, from: u64) -> Vec<u64> {
        let known = self.pages.iter().filter(|(page, bits)| **page >= from && bits.iter().any(|word| *word != 0));
        let mut pages: Vec<u64> = known.map(|(page, _)| *page).collect();
        pages.sort_unstable();
        pages.truncate(MAX_PAGES);
        pages
    }

    /// A system call has returned.
    pub fn called(&mut self, memory: &Memory, number: u64, args: &[u64; 6], result: i64) {
        let changed = self.system.changed(memory, &mut Origins::default(), number, args, result);
        for (at, len) in changed {
            self.forget(at, len);
        }
    }
}

/// The pages of a range, each with the first of its bytes that are in it and the first one behind.
fn pieces(at: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = at.saturating_add(len.min(MAX_RANGE));
    let mut from = at;
    std::iter::from_fn(move || {
        let page = from - from % PAGE;
        let to = end.min(page.saturating_add(PAGE));
        let piece = (page, (from - page) as usize, (to.max(page) - page) as usize);
        let any = from < to;
        from = to;
        any.then_some(piece)
    })
}

/// The words of a page in which bits `first..end` lie, each with a mask of these.
fn words(bits: &mut Bits, first: usize, end: usize) -> impl Iterator<Item = (&mut u64, u64)> {
    let touched = bits.iter_mut().enumerate().take(end.div_ceil(64)).skip(first / 64);
    touched.map(move |(number, word)| {
        let low = first.saturating_sub(64 * number);
        let high = (end - 64 * number).min(64);
        (word, (u64::MAX >> (64 - (high - low))) << low)
    })
}

impl Touched {
    /// An instruction is about to access memory.
    pub fn accessed(&mut self, instruction: &Instruction, regs: &impl Registers) {
        match instruction.action() {
            // Which bytes a mask lets through is not looked at: those stay as they were.
            Action::Execute { reads, writes } => {
                for access in reads.iter().chain(writes).filter(|access| !access.masked) {
                    if let Some(at) = access.address(regs) {
                        self.know(at, access.bytes.into());
                    }
                }
            }
            Action::Repeat(op) => {
                let count = match op.kind {
                    // How far these get depends on what they find: one element is certain.
                    StringKind::Compare | StringKind::Scan => regs.gpr(Gpr::RCX).min(1),
                    _ => regs.gpr(Gpr::RCX),
                };
                let pointers = op.kind.reads().iter().copied().chain(op.kind.writes().then_some(Gpr::RDI));
                for pointer in pointers {
                    if let Some((at, len)) = range(*op, pointer, count, regs) {
                        self.know(at, len);
                    }
                }
            }
            _ => {}
        }
    }
}
