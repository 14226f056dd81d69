//! Which flags are undefined behind an instruction, and which conditions of jumps.
//!
//! The rule is memcheck's for comparisons (section 2.5 of the paper, "expensive" ones): what undefined bits may be is a range of
//! values; where both ends of it give the same answer, that is defined.

use super::regs::{ALL, CF, OF, PF, SF, ZF, conditions};

/// An operand: its V bits, and its value where that is known.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    pub v: u64,
    pub value: Option<u64>,
}

/// Which flags and conditions are undefined.
pub type Undefined = (u8, u16);

/// Numbers of pairs of conditions, as the processor has them.
const OVERFLOW: u16 = 0;
const BELOW: u16 = 1;
const EQUAL: u16 = 2;
const BELOW_EQUAL: u16 = 3;
const SIGN: u16 = 4;
const PARITY: u16 = 5;
const LESS: u16 = 6;
const LESS_EQUAL: u16 = 7;

fn mask_of(bytes: usize) -> u64 {
    super::regs::low(bytes)
}

fn of(pairs: &[(u16, bool)]) -> u16 {
    pairs.iter().filter(|(_, is)| *is).fold(0, |all, (pair, _)| all | 3 << (2 * pair))
}

/// Whether `a < b` (or `<=`) may be either.
fn may_be_both(a: (u64, u64), b: (u64, u64), or_equal: bool) -> bool {
    let less = |a: u64, b: u64| if or_equal { a <= b } else { a < b };
    less(a.0, b.1) != less(a.1, b.0)
}

/// Behind a comparison by subtraction.
pub fn compared(a: Operand, b: Operand, bytes: usize) -> Undefined {
    let mask = mask_of(bytes);
    let (va, vb) = (a.v & mask, b.v & mask);
    if va | vb == 0 {
        return (0, 0);
    }
    let (Some(a), Some(b)) = (a.value, b.value) else {
        // If one may be anything, so may the result.
        let is_any = va == mask || vb == mask;
        return if is_any { (ALL, !0) } else { (0, 0) };
    };
    let (a, b) = (a & mask, b & mask);
    let range = |value: u64, v: u64| (value & !v, value | v);
    let top = 1 << (bytes * 8 - 1);
    // Numbers with a sign are in order if that is turned over.
    let signed = |value: u64, v: u64| range(value ^ top, v);
    let equal = (a ^ b) & !(va | vb) == 0;
    let (below, below_equal) =
        (may_be_both(range(a, va), range(b, vb), false), may_be_both(range(a, va), range(b, vb), true));
    let (less, less_equal) =
        (may_be_both(signed(a, va), signed(b, vb), false), may_be_both(signed(a, va), signed(b, vb), true));
    let (ra, rb) = (range(a, va), range(b, vb));
    let difference = (va | vb | (ra.0.wrapping_sub(rb.1) ^ ra.1.wrapping_sub(rb.0))) & mask;
    let sign = difference & top != 0;
    let overflow = sign || (va | vb) & top != 0;
    let parity = difference & 0xff != 0;
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    let flags = flag(equal, ZF) | flag(below, CF) | flag(sign, SF) | flag(overflow, OF) | flag(parity, PF);
    let pairs = [
        (OVERFLOW, overflow),
        (BELOW, below),
        (EQUAL, equal),
        (BELOW_EQUAL, below_equal),
        (SIGN, sign),
        (PARITY, parity),
        (LESS, less),
        (LESS_EQUAL, less_equal),
    ];
    (flags, of(&pairs))
}

/// Behind an instruction of bits, which leaves CF and OF zero: its result.
pub fn of_bits(result: Operand, bytes: usize) -> Undefined {
    let mask = mask_of(bytes);
    let v = result.v & mask;
    if v == 0 {
        return (0, 0);
    }
    let top = 1 << (bytes * 8 - 1);
    let is_known_one = match result.value {
        Some(value) => value & mask & !v != 0,
        None => v != mask,
    };
    let (zero, sign, parity) = (!is_known_one, v & top != 0, v & 0xff != 0);
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    let is_negative = !sign && result.value.is_some_and(|value| value & top != 0);
    let pairs = [
        (EQUAL, zero),
        (BELOW_EQUAL, zero),
        (SIGN, sign),
        (PARITY, parity),
        (LESS, sign),
        (LESS_EQUAL, (zero || sign) && !is_negative),
    ];
    (flag(zero, ZF) | flag(sign, SF) | flag(parity, PF), of(&pairs))
}

/// Behind another one: its result, and whether CF and OF follow from what is undefined.
pub fn of_result(result: Operand, bytes: usize, carries: bool) -> Undefined {
    let (flags, _) = of_bits(result, bytes);
    let flags = if carries { flags | CF | OF } else { flags };
    (flags, conditions(flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(a: (u64, u64), b: (u64, u64)) -> u16 {
        let operand = |(value, v): (u64, u64)| Operand { v, value: Some(value) };
        compared(operand(a), operand(b), 4).1
    }

    fn has(all: u16, pair: u16) -> bool {
        all >> (2 * pair) & 1 != 0
    }

    #[test]
    fn comparisons_go_by_what_may_be() {
        // The lowest bit is undefined: 4 or 5.
        let with_four = compare((4, 1), (4, 0));
        assert!(has(with_four, EQUAL) && !has(with_four, BELOW) && has(with_four, BELOW_EQUAL));
        assert_eq!(compare((4, 1), (9, 0)) & of(&[(EQUAL, true), (BELOW, true), (LESS, true), (SIGN, true)]), 0);
        // Against zero, no sign.
        let nothing = compare((0, !0), (0, 0));
        assert!(has(nothing, EQUAL) && has(nothing, LESS) && !has(nothing, BELOW));
        // All that is compared is the sign.
        assert!(has(compare((0, 1 << 31), (0, 0)), LESS) && !has(compare((0, 0xff), (0, 0)), LESS));
    }

    #[test]
    fn bits_that_are_known_to_be_one_tell_zero() {
        let zero = |v, value| has(of_bits(Operand { v, value }, 4).1, EQUAL);
        assert!(zero(0xf0, Some(0)) && !zero(0xf0, Some(1)) && zero(0xffff_ffff, None) && !zero(0xf0, None));
    }
}
