//! Which bytes instructions write that save the state of the processor, and that no trace tells: XSAVE and its like write parts of their area only
//! (Intel SDM, volume 1, 13.4 and 13.7 to 13.10).

use iced_x86::{Instruction, Mnemonic, OpKind};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// State components that programs are shown: x87, SSE and AVX.
const X87: u64 = 1;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;
/// Where the header is. Its first word says what was saved, and the second one, which XSAVEC writes, what the area has room for.
pub const HEADER: u64 = 512;
pub const WORD: u64 = 8;
/// Where the component of AVX is, in both forms, since none lies before it.
const HIGHS: Range<u64> = 576..832;

/// Parts of memory, from the operand's address on.
pub type Parts = SmallVec<[Range<u64>; 6]>;

/// Whether it depends on what is asked for, in RAX and RDX, and on the header that it writes.
pub fn is_chosen(instruction: &Instruction) -> bool {
    use Mnemonic::{Xsave, Xsave64, Xsavec, Xsavec64, Xsaveopt, Xsaveopt64};
    matches!(instruction.mnemonic(), Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64)
}

/// Whether it stores what no trace tells.
pub fn stores(instruction: &Instruction) -> bool {
    !parts(instruction, !0, None).is_empty() && instruction.op0_kind() == OpKind::Memory
}

/// What an instruction stores that asks for these components, and of which it says in the header that it saved these, if that is known.
pub fn parts(instruction: &Instruction, asked: u64, saved: Option<u64>) -> Parts {
    use Mnemonic::{
        Fnsave, Fnstenv, Fsave, Fstenv, Fxsave, Fxsave64, Sgdt, Sidt, Sldt, Smsw, Str, Xsave, Xsave64, Xsavec, Xsavec64,
    };
    let asked = asked & (X87 | SSE | AVX);
    match instruction.mnemonic() {
        Fxsave | Fxsave64 => smallvec![0..416],
        Fnsave | Fsave | Fnstenv | Fstenv | Sgdt | Sidt | Str | Sldt | Smsw => {
            smallvec![0..instruction.memory_size().size() as u64]
        }
        Xsavec | Xsavec64 => {
            // What is in its initial state is not written, and MXCSR belongs to SSE.
            let written = saved.map_or(asked, |saved| asked & saved);
            let mut parts = legacy(written, written & SSE != 0);
            parts.push(HEADER..HEADER + 2 * WORD);
            parts.extend((written & AVX != 0).then_some(HIGHS));
            parts
        }
        _ if is_chosen(instruction) => {
            // XSAVE writes initial states, too, and XSAVEOPT does not.
            let is_plain = matches!(instruction.mnemonic(), Xsave | Xsave64);
            let written = saved.filter(|_| !is_plain).map_or(asked, |saved| asked & saved);
            let mut parts = legacy(written, asked & (SSE | AVX) != 0);
            parts.push(HEADER..HEADER + WORD);
            parts.extend((written & AVX != 0).then_some(HIGHS));
            parts
        }
        _ => Parts::new(),
    }
}

/// What is written of the part that is as FXSAVE's.
fn legacy(written: u64, has_mxcsr: bool) -> Parts {
    let x87: &[Range<u64>] = if written & X87 != 0 { &[0..24, 32..160] } else { &[] };
    let mut parts: Parts = x87.iter().cloned().collect();
    parts.extend(has_mxcsr.then_some(24..32));
    parts.extend((written & SSE != 0).then_some(160..416));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn instruction(bytes: &[u8]) -> Instruction {
        Decoder::new(64, bytes, DecoderOptions::NONE).decode()
    }

    /// Where parts begin and end.
    fn ends(parts: Parts) -> Vec<[u64; 2]> {
        parts.iter().map(|part| [part.start, part.end]).collect()
    }

    #[test]
    fn what_is_compacted() {
        let xsavec = instruction(&[0x48, 0x0f, 0xc7, 0x27]);
        let of = |asked, saved| ends(parts(&xsavec, asked, Some(saved)));
        assert_eq!(of(0b110, 0b010), [[24, 32], [160, 416], [512, 528]]);
        assert_eq!(of(0xe6, 0b110), [[24, 32], [160, 416], [512, 528], [576, 832]]);
        assert_eq!(of(0b1, 0), [[512, 528]]);
        // SMSW, STR and SLDT store 2 bytes, and the environment may be the short one.
        let short = |bytes: &[u8]| ends(parts(&instruction(bytes), 0, None));
        assert_eq!(short(&[0x0f, 0x01, 0x27]), [[0, 2]]);
        assert_eq!(short(&[0x66, 0xd9, 0x37]), [[0, 14]]);
        assert_eq!(short(&[0xdd, 0x37]), [[0, 108]]);
    }
}
