//! A block's check that memory still holds the code that it was translated from.
//!
//! ```text
//!     mov  rax, [CODE]                      for each 8 bytes of the code
//!     mov  rcx, -BYTES
//!     lea  rcx, [rcx+rax] ; jrcxz SAME
//!     jmp  CHANGED
//! SAME:
//! ```
//!
//! No register and no flag may be other than the program's behind it, not even one that the block overwrites: the interval
//! may end there, and other code may read what this code does not.

use super::machine::{self, Op};
use super::{Rewriter, Slow};
use crate::callout::Slot;
use crate::site::Kind;
use bugnet_dr::ir::Gpr;

/// What the check works with.
const SCRATCH: [Gpr; 2] = [Gpr::RAX, Gpr::RCX];

/// Offsets and sizes of the pieces that are compared; the last one of several may overlap the one before it.
fn pieces(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let size = [8, 4, 2, 1].into_iter().find(|size| *size <= len).unwrap_or(1);
    let rest = (!len.is_multiple_of(size)).then(|| len - size);
    (0..len / size).map(move |n| n * size).chain(rest).map(move |at| (at, size))
}

/// Loads `size` bytes from an address into RAX.
fn load(address: u64, size: usize) -> Vec<u8> {
    let mut code = match size {
        8 => vec![0x48, 0xa1],
        4 => vec![0xa1],
        // mov eax, 0: what follows leaves the rest of the register as it is.
        2 => vec![0xb8, 0, 0, 0, 0, 0x66, 0xa1],
        _ => vec![0xb8, 0, 0, 0, 0, 0xa0],
    };
    code.extend_from_slice(&address.to_le_bytes());
    code
}

impl Rewriter<'_> {
    /// Begins the block with a check that its code is still `code`.
    pub(super) fn check_code(&mut self, code: Box<[u8]>) {
        let block = self.block;
        let first = Some(self.instrs[0]);
        let pc = self.instrs[0].pc();
        for reg in SCRATCH {
            self.insert(first, &machine::slot(Op::Store, reg, Slot::Spill(reg)));
        }
        let changed = block.label();
        for (at, size) in pieces(code.len()) {
            let bytes = &code[at..at + size];
            let expected = bytes.iter().rev().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
            block.meta(first, block.raw(&load(pc + at as u64, size)));
            let mut difference = vec![0x48, 0xb9]; // mov rcx, -expected
            difference.extend_from_slice(&expected.wrapping_neg().to_le_bytes());
            difference.extend_from_slice(&[0x48, 0x8d, 0x0c, 0x01]); // lea rcx, [rcx + rax]
            block.meta(first, block.raw(&difference));
            let same = block.label();
            block.meta(first, block.jump_if_rcx_zero(same));
            block.meta(first, block.jump(changed));
            block.meta(first, same);
        }
        for reg in SCRATCH {
            self.insert(first, &machine::slot(Op::Load, reg, Slot::Spill(reg)));
        }
        let back = block.label();
        block.meta(first, back);
        let site = self.site(0, Kind::CodeChanged(code));
        self.slow.push(Slow { entry: changed, back, site, spilled: &SCRATCH });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Register};

    #[test]
    fn pieces_cover_the_code_and_nothing_else() {
        for len in 1..100 {
            let mut covered = vec![false; len];
            for (at, size) in pieces(len) {
                covered[at..at + size].fill(true);
            }
            assert!(covered.iter().all(|covered| *covered), "{len}");
        }
    }

    #[test]
    fn loads_are_of_their_size() {
        for (size, register) in [(8, Register::RAX), (4, Register::EAX), (2, Register::AX), (1, Register::AL)] {
            let code = load(0x7fff_1234_5678, size);
            let load = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).into_iter().last().unwrap();
            assert_eq!((load.op0_register(), load.memory_displacement64()), (register, 0x7fff_1234_5678));
        }
    }
}
