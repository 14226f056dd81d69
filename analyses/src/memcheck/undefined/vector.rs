//! V bits through vector instructions.

use super::bits::{Bits, DEFINED};
use super::kinds::{Kind, kind};
use super::origins::OriginId;
use super::regs::{ALL, CF, Regs, ZF, low_bits};
use super::{At, Flow, arrange};
use iced_x86::{EncodingKind, Mnemonic, OpKind, Register};

/// Bytes of a lane within which most instructions stay.
pub const LANE: usize = 16;

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
pub struct Operands {
    pub a: Bits,
    pub b: Bits,
    pub origin: OriginId,
    /// Their numbers.
    pub numbers: (u32, u32),
    /// Bytes of the result.
    pub size: usize,
    pub constant: u64,
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
    let has_constant =
        instr.op_count() > 1 && !matches!(instr.op_kind(instr.op_count() - 1), OpKind::Register | OpKind::Memory);
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
    if let Some(result) = arrange::arranged(flow, at, kind, &operands, count) {
        flow.write(regs, at, 0, &result, operands.origin);
    }
    true
}

/// Whether a register is combined with itself in such a way that the result does not follow from what it has.
fn is_constant(at: &At<'_>, kind: Kind, operands: &Operands) -> bool {
    let (one, other) = operands.numbers;
    let is_register = |number: u32| at.instr.op_kind(number) == OpKind::Register;
    if one == other
        || !is_register(one)
        || !is_register(other)
        || at.instr.op_register(one) != at.instr.op_register(other)
    {
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
            (if zero { ZF } else { 0 }) | (if carry { CF } else { 0 })
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
        Kind::LowerHalves => lanes(&both.map(|lane| lane & u64::from(u32::MAX)), 8),
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
        Kind::Low(_) | Kind::High | Kind::Cross { .. } | Kind::Scalar(_) => {
            partial(flow, regs, at, kind, operands, is_vex)
        }
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
fn partial(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>, kind: Kind, operands: &Operands, is_vex: bool) -> Bits {
    let Operands { a, b, .. } = *operands;
    let instr = at.instr;
    let has_memory = |number: u32| instr.op_kind(number) == OpKind::Memory;
    match kind {
        Kind::Low(bytes) => {
            let low = low_bits(bytes);
            let loads = instr.op_count() == 2 && has_memory(1);
            let is_half =
                !matches!(instr.mnemonic(), Mnemonic::Movss | Mnemonic::Movsd | Mnemonic::Vmovss | Mnemonic::Vmovsd);
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
