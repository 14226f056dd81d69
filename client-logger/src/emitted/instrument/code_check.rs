//! A block's check that memory still holds the code that it was translated from.
//!
//! ```text
//!     mov  rax, [CODE]                      for each word of the code
//!     mov  rcx, -BYTES
//!     lea  rcx, [rcx+rax] ; jrcxz SAME
//!     jmp  CHANGED
//! SAME:
//! ```
//!
//! No register and no flag may be other than the program's behind it, not even one that the block overwrites: the interval
//! may end there, and other code may read what this code does not.

use super::Rewriter;
use super::paths::{Back, Slow};
use crate::base::slots::Slot;
use crate::emitted::callout;
use crate::emitted::machine::{self, Op};
use crate::emitted::site::Kind;
use bugnet_dr::assembled;
use bugnet_dr::assembled::Assembled;
use bugnet_dr::ir::Gpr;

/// What the check works with.
const SCRATCH: [Gpr; 2] = [Gpr::RAX, Gpr::RCX];

/// Bytes that one load gets.
const WORD: u64 = 8;

/// A part of the code that is compared with one load, which is aligned: alignment checks may be on. Of what is loaded, bits
/// that are no part of the code are shifted out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    address: u64,
    size: u64,
    /// By how many bits to the left, and then to the right. Both are 0 unless the size is [`WORD`].
    left: u64,
    right: u64,
}

/// The pieces that cover code. Without shifts that leave the flags alone, each has a natural size.
fn pieces(start: u64, len: u64, can_shift: bool) -> Vec<Piece> {
    let (mut at, end) = (start, start + len);
    let mut out = Vec::new();
    while at < end {
        let word = at & !(WORD - 1);
        let next = if can_shift {
            let next = end.min(word + WORD);
            let left = 8 * (word + WORD - next);
            out.push(Piece { address: word, size: WORD, left, right: left + 8 * (at - word) });
            next
        } else {
            let fits = |size: &u64| at.is_multiple_of(*size) && at + size <= end;
            let size = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
            out.push(Piece { address: at, size, left: 0, right: 0 });
            at + size
        };
        at = next;
    }
    out
}

/// Load to RAX from an address, up to that. Where it leaves the rest of the register as it is, that is zero.
const LOAD_8: Assembled = assembled!("movabs rax, [{u64}]"; 8);
const LOAD_4: Assembled = assembled!("movabs eax, [{u64}]"; 8);
const LOAD_2: Assembled = assembled!("mov eax, 0", "movabs ax, [{u64}]"; 8);
const LOAD_1: Assembled = assembled!("mov eax, 0", "movabs al, [{u64}]"; 8);
/// By how many bits RAX is shifted, up to that, and the shift.
const BITS: Assembled = assembled!("mov ecx, {u32}"; 4);
const SHIFT_LEFT: Assembled = assembled!("shlx rax, rax, rcx");
const SHIFT_RIGHT: Assembled = assembled!("shrx rax, rax, rcx");
/// What is added to find a difference, up to that, and the sum.
const MINUS_EXPECTED: Assembled = assembled!("movabs rcx, {u64}"; 8);
const DIFFERENCE: Assembled = assembled!("lea rcx, [rcx + rax]");

impl Piece {
    /// The part of the code that it compares: offset and length.
    fn part(&self, start: u64) -> (usize, usize) {
        let from = self.address + (self.right - self.left) / 8;
        ((from - start) as usize, (self.size - self.right / 8) as usize)
    }

    /// Loads it into RAX. Changes RCX if it shifts.
    fn load(&self) -> Vec<u8> {
        let code = match self.size {
            8 => LOAD_8,
            4 => LOAD_4,
            2 => LOAD_2,
            _ => LOAD_1,
        };
        let mut code = code.to_vec();
        code.extend_from_slice(&self.address.to_le_bytes());
        for (bits, shift) in [(self.left, SHIFT_LEFT), (self.right, SHIFT_RIGHT)] {
            if bits != 0 {
                code.extend_from_slice(&BITS);
                code.extend_from_slice(&(bits as u32).to_le_bytes());
                code.extend_from_slice(&shift);
            }
        }
        code
    }
}

/// The sum of RCX and another register; none for RCX itself, and for RSP, which cannot be added.
const SUMS: [Option<Assembled>; 16] = [
    Some(DIFFERENCE),
    None,
    Some(assembled!("lea rcx, [rcx + rdx]")),
    Some(assembled!("lea rcx, [rcx + rbx]")),
    None,
    Some(assembled!("lea rcx, [rcx + rbp]")),
    Some(assembled!("lea rcx, [rcx + rsi]")),
    Some(assembled!("lea rcx, [rcx + rdi]")),
    Some(assembled!("lea rcx, [rcx + r8]")),
    Some(assembled!("lea rcx, [rcx + r9]")),
    Some(assembled!("lea rcx, [rcx + r10]")),
    Some(assembled!("lea rcx, [rcx + r11]")),
    Some(assembled!("lea rcx, [rcx + r12]")),
    Some(assembled!("lea rcx, [rcx + r13]")),
    Some(assembled!("lea rcx, [rcx + r14]")),
    Some(assembled!("lea rcx, [rcx + r15]")),
];

impl Rewriter<'_> {
    /// Begins the block with the question whether it is at a moment of a light log, with these registers: it calls out where they are the same, but for those
    /// that are not looked at here.
    pub(super) fn check_moment(&mut self, registers: &[u64; 16]) {
        let block = self.block;
        let first = Some(self.instrs[0]);
        self.spill_live(first, Gpr::RCX);
        let (back, other) = (block.label(), block.label());
        let restored = machine::slot(Op::Load, Gpr::RCX, Slot::Spill(Gpr::RCX));
        let found = callout::make(block, restored.bytes(), self.site(0, Kind::Moment));
        self.slow.push(Slow { entry: found, back: Back::To(back) });
        for (sum, value) in SUMS.iter().zip(registers) {
            let Some(sum) = sum else { continue };
            let difference = [&MINUS_EXPECTED, &value.wrapping_neg().to_le_bytes()[..], sum].concat();
            block.meta(first, block.raw(&difference));
            let same = block.label();
            block.meta(first, block.jump_if_rcx_zero(same));
            block.meta(first, block.jump(other));
            block.meta(first, same);
        }
        block.meta(first, block.jump(found));
        block.meta(first, other);
        self.restore_live(first, Gpr::RCX);
        block.meta(first, back);
    }

    /// Begins the block with a check that its code is still `code`.
    pub(super) fn check_code(&mut self, code: Box<[u8]>) {
        let block = self.block;
        let first = Some(self.instrs[0]);
        let pc = self.instrs[0].pc();
        SCRATCH.into_iter().for_each(|reg| self.spill_live(first, reg));
        let expected = |piece: Piece| {
            let (from, len) = piece.part(pc);
            let bytes = code[from..from + len].iter().rev();
            (piece, bytes.fold(0, |value: u64, byte| value << 8 | u64::from(*byte)))
        };
        let can_shift = std::arch::is_x86_feature_detected!("bmi2");
        let pieces: Vec<_> = pieces(pc, code.len() as u64, can_shift).into_iter().map(expected).collect();
        let back = block.label();
        let restored = SCRATCH.map(|reg| machine::slot(Op::Load, reg, Slot::Spill(reg)));
        let restored = restored.iter().flat_map(machine::Code::bytes).copied().collect::<Vec<u8>>();
        let changed = callout::make(block, &restored, self.site(0, Kind::CodeChanged(code)));
        self.slow.push(Slow { entry: changed, back: Back::To(back) });
        for (piece, expected) in pieces {
            block.meta(first, block.raw(&piece.load()));
            let difference = [&MINUS_EXPECTED, &expected.wrapping_neg().to_le_bytes()[..], &DIFFERENCE].concat();
            block.meta(first, block.raw(&difference));
            let same = block.label();
            block.meta(first, block.jump_if_rcx_zero(same));
            block.meta(first, block.jump(changed));
            block.meta(first, same);
        }
        SCRATCH.into_iter().for_each(|reg| self.restore_live(first, reg));
        block.meta(first, back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_what_it_is_called() {
        assert_eq!(LOAD_8.bytes(), [0x48, 0xa1]);
        assert_eq!(LOAD_4.bytes(), [0xa1]);
        assert_eq!(LOAD_2.bytes(), [0xb8, 0, 0, 0, 0, 0x66, 0xa1]);
        assert_eq!(LOAD_1.bytes(), [0xb8, 0, 0, 0, 0, 0xa0]);
        assert_eq!(BITS.bytes(), [0xb9]);
        assert_eq!(SHIFT_LEFT.bytes(), [0xc4, 0xe2, 0xf1, 0xf7, 0xc0]);
        assert_eq!(SHIFT_RIGHT.bytes(), [0xc4, 0xe2, 0xf3, 0xf7, 0xc0]);
        assert_eq!(MINUS_EXPECTED.bytes(), [0x48, 0xb9]);
        assert_eq!(DIFFERENCE.bytes(), [0x48, 0x8d, 0x0c, 0x01]);
    }

    use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};

    /// What a piece leaves in RAX, of memory that holds at each address its lowest byte.
    fn loaded(piece: &Piece) -> u64 {
        let word = (0..piece.size).rev().fold(0, |value, n| value << 8 | (piece.address + n) & 0xff);
        word << piece.left >> piece.right
    }

    #[test]
    fn pieces_are_the_code_and_nothing_else() {
        for (start, len) in (1000..1016).flat_map(|start| (1..50).map(move |len| (start, len))) {
            for can_shift in [false, true] {
                let mut covered = Vec::new();
                for piece in pieces(start, len, can_shift) {
                    assert!(piece.address.is_multiple_of(piece.size), "{piece:?}");
                    let (from, len) = piece.part(start);
                    let addresses = (start + from as u64)..(start + (from + len) as u64);
                    let expected = addresses.clone().rev().fold(0, |value, at| value << 8 | at & 0xff);
                    assert_eq!(loaded(&piece), expected, "{piece:?}");
                    covered.extend(addresses);
                }
                assert!(covered.into_iter().eq(start..start + len), "{start} {len}");
            }
        }
    }

    #[test]
    fn loads_are_what_they_are_called() {
        for (size, register) in [(8, Register::RAX), (4, Register::EAX), (2, Register::AX), (1, Register::AL)] {
            let code = Piece { address: 0x7fff_1234_5678, size, left: 0, right: 0 }.load();
            let load = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).into_iter().last().unwrap();
            assert_eq!((load.op0_register(), load.memory_displacement64()), (register, 0x7fff_1234_5678));
        }
        let code = Piece { address: 0x5678, size: 8, left: 16, right: 40 }.load();
        let decoded = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).into_iter();
        let decoded: Vec<_> = decoded.map(|i| (i.mnemonic(), i.op0_register(), i.op2_register())).collect();
        let shift = |mnemonic| (mnemonic, Register::RAX, Register::RCX);
        let count = (Mnemonic::Mov, Register::ECX, Register::None);
        let load = (Mnemonic::Mov, Register::RAX, Register::None);
        assert_eq!(decoded, [load, count, shift(Mnemonic::Shlx), count, shift(Mnemonic::Shrx)]);
    }
}
