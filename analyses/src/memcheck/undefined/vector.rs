//! V bits through vector instructions.

use super::bits::{Bits, DEFINED};
use super::kinds::{Kind, kind};
use super::origins::OriginId;
use super::regs::{ALL, CF, Regs, ZF, low_bits};
use super::{At, Flow};
use iced_x86::{EncodingKind, Mnemonic, OpKind, Register};

/// Bytes of a lane within which most instructions stay.
const LANE: usize = 16;

/// Bits of V, or values, as bytes.
pub fn bytes_of(bits: &Bits) -> [u8; 32] {
    std::array::from_fn(|at| (bits[at / 8] >> (at % 8 * 8)) as u8)
}

pub fn from_bytes(bytes: &[u8; 32]) -> Bits {
    let mut bits = DEFINED;
    for (at, byte) in bytes.iter().enumerate() {
        bits[at / 8] |= u64::from(*byte) << (at % 8 * 8);
    }
    bits
}

fn zip(a: &Bits, b: &Bits, with: impl Fn(u64, u64) -> u64) -> Bits {
    std::array::from_fn(|word| with(a[word], b[word]))
}

fn or(a: &Bits, b: &Bits) -> Bits {
    zip(a, b, |a, b| a | b)
}

/// Lanes in which anything is undefined are as a whole.
fn lanes(v: &Bits, bytes: usize) -> Bits {
    let mut all = bytes_of(v);
    for lane in all.chunks_mut(bytes) {
        if lane.iter().any(|byte| *byte != 0) {
            lane.fill(0xff);
        }
    }
    from_bytes(&all)
}

/// Operands of a vector instruction.
struct Operands {
    a: Bits,
    b: Bits,
    origin: OriginId,
    /// Their numbers.
    numbers: (u32, u32),
    /// Bytes of the result.
    size: usize,
    constant: u64,
}

/// What a vector instruction does to V bits; whether it is one that is known.
pub fn propagate(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    let instr = at.instr;
    let is_mm = |number: u32| instr.op_kind(number) == OpKind::Register && instr.op_register(number).is_mm();
    if (0..instr.op_count()).any(is_mm) {
        return false;
    }
    let Some(kind) = kind(instr.mnemonic()) else { return false };
    let is_vex = instr.encoding() != EncodingKind::Legacy;
    let has_constant = instr.op_count() > 1
        && !matches!(instr.op_kind(instr.op_count() - 1), OpKind::Register | OpKind::Memory);
    let count = instr.op_count() - u32::from(has_constant);
    let numbers = match count {
        0 => (0, 0),
        1 => (0, 0),
        2 => (0, 1),
        _ => (1, 2),
    };
    let mut operands = Operands { a: DEFINED, b: DEFINED, origin: OriginId::NONE, numbers, size: 0, constant: 0 };
    if count > 0 {
        let ((a, first), (b, second)) = (flow.operand(regs, at, numbers.0), flow.operand(regs, at, numbers.1));
        (operands.a, operands.b, operands.origin) = (a, b, first.or(second));
        operands.size = Flow::size(at, 0).min(32);
    }
    if has_constant {
        operands.constant = instr.immediate(instr.op_count() - 1) & 0xff;
    }
    if is_constant(at, kind, &operands) {
        flow.write(regs, at, 0, &DEFINED, OriginId::NONE);
        return true;
    }
    if let Some(result) = whole(flow, regs, at, kind, &operands) {
        flow.write(regs, at, 0, &result, operands.origin);
        return true;
    }
    if let Some(result) = combined(flow, regs, at, kind, &operands, is_vex) {
        flow.write(regs, at, 0, &result, operands.origin);
        return true;
    }
    if let Some(result) = arranged(flow, at, kind, &operands, count) {
        flow.write(regs, at, 0, &result, operands.origin);
    }
    true
}

/// Whether a register is combined with itself in such a way that the result does not follow from what it has.
fn is_constant(at: &At<'_>, kind: Kind, operands: &Operands) -> bool {
    let (one, other) = operands.numbers;
    let is_register = |number: u32| at.instr.op_kind(number) == OpKind::Register;
    if one == other || !is_register(one) || !is_register(other) || at.instr.op_register(one) != at.instr.op_register(other) {
        return false;
    }
    let name = format!("{:?}", at.instr.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    matches!(kind, Kind::Xor | Kind::AndNot | Kind::Equal(_)) || name.starts_with("psub") || name.starts_with("pcmpgt")
}

/// Moves, and instructions whose result is no vector, or several.
fn whole(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>, kind: Kind, operands: &Operands) -> Option<Bits> {
    let Operands { a, b, origin, .. } = *operands;
    match kind {
        Kind::Copy(bytes) => {
            let low = low_bits(bytes);
            Some(zip(&b, &low, |b, low| b & low))
        }
        Kind::Signs(bytes) => {
            let v = bytes_of(&b);
            let size = Flow::size(at, 1);
            let signs = (0..size / bytes).map(|lane| v[lane * bytes + bytes - 1] >> 7);
            Some([signs.zip(0..).fold(0, |all, (sign, bit)| all | u64::from(sign) << bit), 0, 0, 0])
        }
        Kind::Extract(bytes) => {
            let lane = operands.constant as usize % (LANE / bytes);
            let v = bytes_of(&b);
            let part = (0..bytes).fold(0, |all, byte| all | u64::from(v[lane * bytes + byte]) << (8 * byte));
            Some([part, 0, 0, 0])
        }
        Kind::Whole => {
            let is_undefined = or(&a, &b) != DEFINED && (at.instr.op_count() > 2 || b != DEFINED);
            Some(if is_undefined { low_bits(operands.size) } else { DEFINED })
        }
        _ => None,
    }
    .or_else(|| {
        match kind {
            Kind::Test => test(flow, regs, at, operands),
            Kind::Compare(bytes) => {
                let low = low_bits(bytes);
                let is_undefined = zip(&or(&a, &b), &low, |v, low| v & low) != DEFINED;
                regs.set_flags(ALL, if is_undefined { ALL } else { 0 }, None, origin);
            }
            Kind::ZeroUpper | Kind::ZeroAll => {
                for number in 0..16 {
                    let register = Register::XMM0 + number;
                    let (low, origin) = regs.get(register);
                    let kept = if kind == Kind::ZeroAll { DEFINED } else { low };
                    regs.set(register, &kept, origin, true);
                }
            }
            _ => {}
        }
        None
    })
}

/// `ptest`: ZF is whether no bit is in both, CF whether all of the second one's are in the first.
fn test(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>, operands: &Operands) {
    let v = or(&operands.a, &operands.b);
    if v == DEFINED {
        regs.set_flags(ALL, 0, None, OriginId::NONE);
        return;
    }
    let values = (flow.wide_value(at, 0), flow.wide_value(at, 1));
    let undefined = match values {
        (Some(x), Some(y)) => {
            let may = |x: Bits, vx: &Bits, negated: bool| {
                // Bits that are one for sure, and those that may be.
                let (mut surely, mut maybe) = (false, false);
                for word in 0..4 {
                    let x = if negated { !x[word] } else { x[word] };
                    let (vx, vy) = (vx[word], operands.b[word]);
                    surely |= x & !vx & y[word] & !vy != 0;
                    maybe |= (x | vx) & (y[word] | vy) & (vx | vy) != 0;
                }
                maybe && !surely
            };
            let (zero, carry) = (may(x, &operands.a, false), may(x, &operands.a, true));
            u8::from(zero) * ZF | u8::from(carry) * CF
        }
        _ => 0,
    };
    regs.set_flags(ALL, undefined, None, operands.origin);
}

/// Results that follow lane by lane.
fn combined(
    flow: &mut Flow<'_>,
    regs: &mut Regs,
    at: &At<'_>,
    kind: Kind,
    operands: &Operands,
    is_vex: bool,
) -> Option<Bits> {
    let Operands { a, b, numbers, .. } = *operands;
    let is_binary = at.instr.op_count() > 2 || !is_unary(at.instr.mnemonic());
    let both = if is_binary { or(&a, &b) } else { b };
    Some(match kind {
        Kind::And | Kind::AndNot | Kind::Or => {
            if both == DEFINED {
                return Some(DEFINED);
            }
            let (x, y) = (flow.wide_value(at, numbers.0), flow.wide_value(at, numbers.1));
            let (Some(x), Some(y)) = (x, y) else { return Some(DEFINED) };
            let defines = |word: usize| match kind {
                Kind::And => (a[word] | x[word]) & (b[word] | y[word]),
                Kind::AndNot => (a[word] | !x[word]) & (b[word] | y[word]),
                _ => (a[word] | !x[word]) & (b[word] | !y[word]),
            };
            std::array::from_fn(|word| both[word] & defines(word))
        }
        Kind::Xor => both,
        Kind::Lanes(bytes) => {
            let third = three(flow, regs, at);
            lanes(&or(&both, &third), bytes)
        }
        Kind::LeastBytes => {
            let mut result = bytes_of(&lanes(&both, 1));
            if both != DEFINED
                && let (Some(x), Some(y)) = (flow.wide_value(at, numbers.0), flow.wide_value(at, numbers.1))
            {
                let (va, vb, x, y) = (bytes_of(&a), bytes_of(&b), bytes_of(&x), bytes_of(&y));
                for lane in 0..32 {
                    // Nothing is smaller than a zero.
                    let is_zero = va[lane] == 0 && x[lane] == 0 || vb[lane] == 0 && y[lane] == 0;
                    if is_zero {
                        result[lane] = 0;
                    }
                }
            }
            from_bytes(&result)
        }
        Kind::Equal(bytes) => equal(flow, at, operands, bytes),
        Kind::Low(_) | Kind::High | Kind::Cross { .. } | Kind::Scalar(_) => partial(flow, regs, at, kind, operands, is_vex),
        _ => return None,
    })
}

/// Instructions with two operands of which the first is only written.
fn is_unary(mnemonic: Mnemonic) -> bool {
    let name = format!("{mnemonic:?}").to_lowercase();
    let plain = name.strip_prefix('v').unwrap_or(&name);
    ["pabs", "sqrt", "rcp", "rsqrt", "cvt", "round"].iter().any(|start| plain.starts_with(start))
}

/// What a third operand adds: of multiplications with an addition, the first.
fn three(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> Bits {
    let is_fused = format!("{:?}", at.instr.mnemonic()).to_lowercase().starts_with("vf");
    if is_fused { flow.operand(regs, at, 0).0 } else { DEFINED }
}

fn equal(flow: &mut Flow<'_>, at: &At<'_>, operands: &Operands, bytes: usize) -> Bits {
    let Operands { a, b, numbers, .. } = *operands;
    let both = or(&a, &b);
    let result = lanes(&both, bytes);
    if both == result {
        return result;
    }
    // Lanes with some bits defined that differ are told apart by these.
    let (Some(x), Some(y)) = (flow.wide_value(at, numbers.0), flow.wide_value(at, numbers.1)) else { return DEFINED };
    let differs = zip(&zip(&x, &y, |x, y| x ^ y), &both, |differs, v| differs & !v);
    let told = lanes(&differs, bytes);
    zip(&result, &told, |result, told| result & !told)
}

/// What is written of a part only; the rest is the first operand's.
fn partial(
    flow: &mut Flow<'_>,
    regs: &mut Regs,
    at: &At<'_>,
    kind: Kind,
    operands: &Operands,
    is_vex: bool,
) -> Bits {
    let Operands { a, b, .. } = *operands;
    let instr = at.instr;
    let has_memory = |number: u32| instr.op_kind(number) == OpKind::Memory;
    match kind {
        Kind::Low(bytes) => {
            let low = low_bits(bytes);
            let loads = instr.op_count() == 2 && has_memory(1);
            let is_half = !matches!(instr.mnemonic(), Mnemonic::Movss | Mnemonic::Movsd | Mnemonic::Vmovss | Mnemonic::Vmovsd);
            if has_memory(0) {
                return b;
            }
            // A load of a number zeroes the rest.
            let kept = if loads && !is_half { DEFINED } else { a };
            std::array::from_fn(|word| b[word] & low[word] | kept[word] & !low[word])
        }
        Kind::High if has_memory(0) => [b[1], 0, 0, 0],
        Kind::High => [a[0], b[0], if is_vex { 0 } else { a[2] }, if is_vex { 0 } else { a[3] }],
        Kind::Cross { to_high: true } => [a[0], b[0], 0, 0],
        Kind::Cross { .. } => [b[1], a[1], 0, 0],
        Kind::Scalar(bytes) => {
            let low = low_bits(bytes);
            let from = low_bits(8);
            let third = three(flow, regs, at);
            let is_unary = is_unary(instr.mnemonic());
            let any = (0..4).any(|word| {
                let a = if is_unary { 0 } else { a[word] & low[word] };
                let b = if is_unary { b[word] & from[word] } else { b[word] & low[word] };
                a | b | third[word] & low[word] != 0
            });
            std::array::from_fn(|word| if any { low[word] } else { 0 } | a[word] & !low[word])
        }
        _ => DEFINED,
    }
}

/// Results whose bytes come from other places.
fn arranged(flow: &mut Flow<'_>, at: &At<'_>, kind: Kind, operands: &Operands, count: u32) -> Option<Bits> {
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
        result[at] = if b[at] != 0 { 0xff } else if by[at] & 0x80 != 0 { 0 } else { a[from] };
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
            (_, true) => if is_sign { !0 } else { 0 },
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
