//! V bits through vector instructions that put bytes elsewhere: shuffles, shifts, blends.

use super::bits::{Bits, DEFINED};
use super::kinds::Kind;
use super::regs::low_bits;
use super::vector::{LANE, Operands, bytes_of, from_bytes};
use super::{At, Flow};
use iced_x86::{EncodingKind, Mnemonic, OpKind};

/// Results whose bytes come from other places.
pub fn arranged(flow: &mut Flow<'_>, at: &At<'_>, kind: Kind, operands: &Operands, count: u32) -> Option<Bits> {
    let (a, b) = (bytes_of(&operands.a), bytes_of(&operands.b));
    let constant = operands.constant as usize;
    let size = operands.size;
    let each = |from: &dyn Fn(usize, usize) -> u8| -> Bits {
        let mut result = [0; 32];
        for (at, byte) in result.iter_mut().enumerate().take(size) {
            *byte = from(at / LANE * LANE, at % LANE);
        }
        from_bytes(&result)
    };
    Some(match kind {
        Kind::Shuffle(bytes) if count == 2 => {
            each(&|lane, at| b[lane + (constant >> (2 * (at / bytes)) & 3) * bytes + at % bytes])
        }
        Kind::ShuffleLow => {
            each(&|lane, at| if at < 8 { b[lane + (constant >> (at / 2 * 2) & 3) * 2 + at % 2] } else { b[lane + at] })
        }
        Kind::ShuffleHigh => each(&|lane, at| match at {
            0..8 => b[lane + at],
            _ => b[lane + 8 + (constant >> ((at - 8) / 2 * 2) & 3) * 2 + at % 2],
        }),
        Kind::ShuffleBytes => shuffle_bytes(flow, at, operands),
        Kind::ShufflePairs(4) => each(&|lane, at| {
            let from = if at < 8 { &a } else { &b };
            from[lane + (constant >> (2 * (at / 4)) & 3) * 4 + at % 4]
        }),
        Kind::ShufflePairs(_) => each(&|lane, at| {
            let from = if at < 8 { &a } else { &b };
            from[lane + (constant >> (lane / LANE * 2 + at / 8) & 1) * 8 + at % 8]
        }),
        Kind::Unpack { bytes, high } => each(&|lane, at| {
            let from = if at / bytes % 2 == 0 { &a } else { &b };
            from[lane + usize::from(high) * 8 + at / bytes / 2 * bytes + at % bytes]
        }),
        Kind::Pack(bytes) => each(&|lane, at| {
            let from = if at < 8 { &a } else { &b };
            let start = lane + at % 8 / (bytes / 2) * bytes;
            if from[start..start + bytes].iter().any(|byte| *byte != 0) { 0xff } else { 0 }
        }),
        Kind::Align => each(&|lane, at| match at + constant {
            from @ 0..16 => b[lane + from],
            from @ 16..32 => a[lane + from - 16],
            _ => 0,
        }),
        Kind::ShiftBytes { left } => {
            let from = if count == 1 { &a } else { &b };
            each(&|lane, at| {
                let place = if left { at.checked_sub(constant) } else { Some(at + constant) };
                place.filter(|place| *place < LANE).map_or(0, |place| from[lane + place])
            })
        }
        Kind::Shift { bytes, left, sign } => return Some(shift(flow, at, operands, (bytes, left, sign), count)),
        Kind::Insert(bytes) => {
            let place = constant % (LANE / bytes) * bytes;
            each(&|lane, at| if lane == 0 && at / bytes * bytes == place { b[at % bytes] } else { a[lane + at] })
        }
        _ => return spread(flow, at, kind, operands),
    })
}

/// The bytes of the first operand, as the value of the second one says.
fn shuffle_bytes(flow: &mut Flow<'_>, at: &At<'_>, operands: &Operands) -> Bits {
    let Some(by) = flow.wide_value(at, operands.numbers.1) else { return DEFINED };
    let (a, b, by) = (bytes_of(&operands.a), bytes_of(&operands.b), bytes_of(&by));
    let mut result = [0; 32];
    for at in 0..operands.size {
        let from = at / LANE * LANE + usize::from(by[at] & 15);
        result[at] = if b[at] != 0 {
            0xff
        } else if by[at] & 0x80 != 0 {
            0
        } else {
            a[from]
        };
    }
    from_bytes(&result)
}

fn shift(flow: &mut Flow<'_>, at: &At<'_>, operands: &Operands, how: (usize, bool, bool), count: u32) -> Bits {
    let (bytes, left, sign) = how;
    let by_constant = at.instr.op_kind(at.instr.op_count() - 1) != OpKind::Register
        && at.instr.op_kind(at.instr.op_count() - 1) != OpKind::Memory;
    let v = if by_constant && count == 2 { operands.b } else { operands.a };
    let by = if by_constant {
        operands.constant
    } else if operands.b[0] != 0 {
        return low_bits(operands.size);
    } else {
        match flow.wide_value(at, operands.numbers.1) {
            Some(by) => by[0],
            None => return DEFINED,
        }
    };
    let by = by.min(255) as u32;
    let width = 8 * bytes as u32;
    let all = bytes_of(&v);
    let mut result = [0; 32];
    for (from, to) in all.chunks(bytes).zip(result.chunks_mut(bytes)).take(operands.size / bytes) {
        let lane = from.iter().rev().fold(0_u64, |lane, byte| lane << 8 | u64::from(*byte));
        let is_sign = sign && lane >> (width - 1) & 1 != 0;
        let shifted = match (left, by >= width) {
            (true, false) => lane << by,
            (false, false) => lane >> by | if is_sign && by > 0 { !0 << (width - by) } else { 0 },
            (_, true) => {
                if is_sign {
                    !0
                } else {
                    0
                }
            }
        };
        for (at, byte) in to.iter_mut().enumerate() {
            *byte = (shifted >> (8 * at)) as u8;
        }
    }
    from_bytes(&result)
}

/// Results that go over lanes of 16 bytes, or have other sizes than the operands.
fn spread(flow: &mut Flow<'_>, at: &At<'_>, kind: Kind, operands: &Operands) -> Option<Bits> {
    let (a, b) = (bytes_of(&operands.a), bytes_of(&operands.b));
    let (constant, size) = (operands.constant as usize, operands.size);
    let each = |from: &dyn Fn(usize) -> u8| -> Bits {
        let mut result = [0; 32];
        (0..size).for_each(|at| result[at] = from(at));
        from_bytes(&result)
    };
    Some(match kind {
        Kind::Broadcast(8) if size == 16 || size == 32 && !is_pairs(at) => each(&|at| b[at % 8]),
        Kind::Broadcast(8) => each(&|at| b[at / LANE * LANE + at % 8]),
        Kind::Broadcast(bytes) => each(&|at| b[at % bytes]),
        Kind::InsertHalf => each(&|at| if at / LANE == constant & 1 { b[at % LANE] } else { a[at] }),
        Kind::ExtractHalf => each(&|at| if at < LANE { b[(constant & 1) * LANE + at] } else { 0 }),
        Kind::PermuteHalves => each(&|at| match constant >> (4 * (at / LANE)) & 0xf {
            half @ 0..4 => (if half < 2 { &a } else { &b })[half % 2 * LANE + at % LANE],
            _ => 0,
        }),
        Kind::PermuteWide => each(&|at| b[(constant >> (2 * (at / 8)) & 3) * 8 + at % 8]),
        Kind::Extend { from, to, sign } => each(&|at| {
            let lane = at / to * from;
            let part = &b[lane..lane + from];
            match at % to {
                byte if byte < from => part[byte],
                _ if sign && part[from - 1] & 0x80 != 0 => 0xff,
                _ => 0,
            }
        }),
        Kind::Blend(bytes) => each(&|at| {
            let bit = if bytes == 2 { at % LANE / 2 } else { at / bytes };
            if constant >> bit & 1 != 0 { b[at] } else { a[at] }
        }),
        Kind::BlendBy(bytes) => blend_by(flow, at, operands, bytes)?,
        _ => return None,
    })
}

fn is_pairs(at: &At<'_>) -> bool {
    matches!(at.instr.mnemonic(), Mnemonic::Vmovddup)
}

/// Lanes from one operand or the other, by the signs of a third one.
fn blend_by(flow: &mut Flow<'_>, at: &At<'_>, operands: &Operands, bytes: usize) -> Option<Bits> {
    let number = at.instr.op_count() - 1;
    let is_legacy = at.instr.op_count() < 3 || at.instr.encoding() == EncodingKind::Legacy;
    if is_legacy {
        return Some(if operands.a == operands.b { operands.a } else { DEFINED });
    }
    let by = flow.wide_value(at, number).map(|by| bytes_of(&by))?;
    let (a, b) = (bytes_of(&operands.a), bytes_of(&operands.b));
    let mut result = [0; 32];
    for at in 0..operands.size {
        let sign = by[at / bytes * bytes + bytes - 1] & 0x80 != 0;
        result[at] = if sign { b[at] } else { a[at] };
    }
    Some(from_bytes(&result))
}
