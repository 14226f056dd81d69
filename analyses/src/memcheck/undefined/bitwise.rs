//! V bits through instructions that work on single bits: logic, shifts, tests, and searches for bits.

use super::flags::{self, Operand};
use super::regs::{ALL, CF, OF, Regs, ZF, low};
use super::scalar::{all, is_same, left, result_flags, wide};
use super::{At, Flow};
use iced_x86::Mnemonic;

pub fn logic(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    let instr = at.instr;
    let (one, other) = if instr.mnemonic() == Mnemonic::Andn { (1, 2) } else { (0, 1) };
    match instr.mnemonic() {
        Mnemonic::Not => {
            let (v, origin) = flow.operand(regs, at, 0);
            flow.write(regs, at, 0, &v, origin);
            return true;
        }
        Mnemonic::And | Mnemonic::Test | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Andn => {}
        _ => return false,
    }
    let ((a, first), (b, second)) = (flow.operand(regs, at, one), flow.operand(regs, at, other));
    let bytes = Flow::size(at, one);
    let mask = low(bytes);
    let (va, vb, origin) = (a[0] & mask, b[0] & mask, first.or(second));
    let is_xor = instr.mnemonic() == Mnemonic::Xor;
    // Of a register with itself, nothing of what it holds is needed where all of it is undefined.
    let is_plain = va | vb == 0 || is_same(at) && va == mask || is_xor && va | vb == mask;
    let (x, y) = if is_plain { (None, None) } else { (flow.value(at, one), flow.value(at, other)) };
    let (x, y) = if instr.mnemonic() == Mnemonic::Andn { (x.map(|x| !x & mask), y) } else { (x, y) };
    let (v, value) = match (instr.mnemonic(), x, y) {
        (Mnemonic::Xor, x, y) => (if is_same(at) { 0 } else { va | vb }, x.zip(y).map(|(x, y)| x ^ y)),
        (Mnemonic::Or, Some(x), Some(y)) => ((va | vb) & (va | !x) & (vb | !y), Some(x | y)),
        (_, Some(x), Some(y)) => ((va | vb) & (va | x) & (vb | y), Some(x & y)),
        _ if is_same(at) => (va, x),
        // Nothing is known.
        _ => (0, None),
    };
    let v = v & mask;
    if instr.mnemonic() != Mnemonic::Test {
        flow.write(regs, at, 0, &wide(v), origin);
    }
    let (flags, conditions) = flags::of_bits(Operand { v, value }, bytes);
    regs.set_flags(ALL, flags, Some(conditions), origin);
    true
}

pub fn shifts(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    let instr = at.instr;
    let has_three = matches!(instr.mnemonic(), Mnemonic::Shlx | Mnemonic::Shrx | Mnemonic::Sarx | Mnemonic::Rorx);
    let (from, by) = if has_three { (1, 2) } else { (0, 1) };
    match instr.mnemonic() {
        Mnemonic::Shl
        | Mnemonic::Sal
        | Mnemonic::Shr
        | Mnemonic::Sar
        | Mnemonic::Rol
        | Mnemonic::Ror
        | Mnemonic::Shlx
        | Mnemonic::Shrx
        | Mnemonic::Sarx
        | Mnemonic::Rorx => {}
        Mnemonic::Shld | Mnemonic::Shrd | Mnemonic::Rcl | Mnemonic::Rcr => {
            let ((a, first), (b, second)) = (flow.operand(regs, at, 0), flow.operand(regs, at, 1));
            let bytes = Flow::size(at, 0);
            let v = all((a[0] | b[0]) & low(bytes), bytes);
            flow.write(regs, at, 0, &wide(v), first.or(second));
            result_flags(regs, (v, None), bytes, true, first.or(second));
            return true;
        }
        _ => return false,
    }
    let ((a, first), (b, second)) = (flow.operand(regs, at, from), flow.operand(regs, at, by));
    let (bytes, origin) = (Flow::size(at, from), first.or(second));
    let count_mask = if bytes == 8 { 63 } else { 31 };
    let v = if b[0] & count_mask != 0 {
        low(bytes)
    } else if a[0] & low(bytes) == 0 {
        0
    } else {
        match flow.value(at, by) {
            Some(count) => shifted(instr.mnemonic(), a[0], (count & count_mask) as u32, bytes),
            None => 0,
        }
    };
    flow.write(regs, at, 0, &wide(v), origin);
    if !has_three {
        // What is shifted out follows from the same bits.
        let value = if v == low(bytes) || v == 0 { None } else { flow.value_behind(at) };
        let (flags, conditions) = flags::of_bits(Operand { v, value }, bytes);
        let carry = if a[0] & low(bytes) == 0 && b[0] == 0 { 0 } else { CF | OF };
        let is_rotated = matches!(instr.mnemonic(), Mnemonic::Rol | Mnemonic::Ror);
        let written = if is_rotated { CF | OF } else { ALL };
        let flags = flags | carry;
        let conditions = conditions | super::regs::conditions(carry) & !(0b11 << 4 | 0b11 << 8 | 0b11 << 10);
        regs.set_flags(written, flags, (!is_rotated).then_some(conditions), origin);
    }
    true
}

fn shifted(mnemonic: Mnemonic, v: u64, count: u32, bytes: usize) -> u64 {
    let (mask, width) = (low(bytes), 8 * bytes as u32);
    let v = v & mask;
    let turned = |count: u32| {
        let count = count % width;
        if count == 0 { v } else { (v << count | v >> (width - count)) & mask }
    };
    let sign = v >> (width - 1) & 1 != 0;
    match mnemonic {
        Mnemonic::Shl | Mnemonic::Sal | Mnemonic::Shlx => v.checked_shl(count).unwrap_or(0) & mask,
        Mnemonic::Shr | Mnemonic::Shrx => v.checked_shr(count).unwrap_or(0),
        Mnemonic::Sar | Mnemonic::Sarx if count >= width => {
            if sign {
                mask
            } else {
                0
            }
        }
        Mnemonic::Sar | Mnemonic::Sarx => {
            let high = if sign && count > 0 { mask & !(mask >> count) } else { 0 };
            v >> count | high
        }
        Mnemonic::Rol => turned(count),
        _ => turned(width - count % width),
    }
}

pub fn bits(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    match at.instr.mnemonic() {
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc => bit_test(flow, regs, at),
        Mnemonic::Bsf | Mnemonic::Tzcnt | Mnemonic::Bsr | Mnemonic::Lzcnt | Mnemonic::Popcnt => {
            let (a, origin) = flow.operand(regs, at, 1);
            let bytes = Flow::size(at, 1);
            let v = a[0] & low(bytes);
            let value = if v == 0 || v == low(bytes) { None } else { flow.value(at, 1) };
            // The bits that are one for sure.
            let ones = value.map_or(if v == low(bytes) { 0 } else { !0 }, |value| value & !v & low(bytes));
            let is_found = match at.instr.mnemonic() {
                Mnemonic::Bsf | Mnemonic::Tzcnt => ones.trailing_zeros() < v.trailing_zeros(),
                Mnemonic::Popcnt => v == 0 || value.is_none() && v != low(bytes),
                _ => ones.leading_zeros() < v.leading_zeros(),
            };
            let result = if is_found { 0 } else { 0x7f };
            // Where there is no bit, the first ones leave what was there.
            flow.write(regs, at, 0, &wide(result), origin);
            let zero = if ones == 0 && v != 0 { ZF | CF } else { 0 };
            let counts = matches!(at.instr.mnemonic(), Mnemonic::Tzcnt | Mnemonic::Lzcnt);
            let zero = if counts && !is_found { ZF | zero } else { zero };
            regs.set_flags(ALL, zero, None, origin);
        }
        Mnemonic::Blsr | Mnemonic::Blsi | Mnemonic::Blsmsk => {
            let (a, origin) = flow.operand(regs, at, 1);
            let bytes = Flow::size(at, 1);
            let v = a[0] & low(bytes);
            let ones = if v == 0 { None } else { flow.value(at, 1) }.map_or(!0, |value| value & !v);
            let is_found = ones.trailing_zeros() < v.trailing_zeros();
            let result = match (at.instr.mnemonic(), is_found) {
                (Mnemonic::Blsr, true) => v,
                (_, true) => 0,
                _ => left(v) & low(bytes),
            };
            flow.write(regs, at, 0, &wide(result), origin);
            let value = if result == 0 { None } else { flow.value_behind(at) };
            let (flags, _) = flags::of_bits(Operand { v: result, value }, bytes);
            let carry = if ones == 0 && v != 0 { CF } else { 0 };
            regs.set_flags(ALL, flags | carry, None, origin);
        }
        Mnemonic::Bzhi | Mnemonic::Bextr | Mnemonic::Pext | Mnemonic::Pdep => picked(flow, regs, at),
        _ => return false,
    }
    true
}

fn bit_test(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) {
    let ((a, first), (b, second)) = (flow.operand(regs, at, 0), flow.operand(regs, at, 1));
    let bytes = Flow::size(at, 0);
    let width = 8 * bytes as u64;
    let v = a[0] & low(bytes);
    let index = if v == 0 { Some(0) } else { flow.value(at, 1) };
    let is_undefined = b[0] & (width - 1) != 0 || index.is_some_and(|index| v >> (index % width) & 1 != 0);
    if at.instr.mnemonic() != Mnemonic::Bt {
        let bit = index.map_or(!0, |index| 1 << (index % width));
        let v = match at.instr.mnemonic() {
            _ if b[0] != 0 => low(bytes),
            Mnemonic::Btc => v,
            _ => v & !bit,
        };
        flow.write(regs, at, 0, &wide(v), first.or(second));
    }
    regs.set_flags(CF, if is_undefined { CF } else { 0 }, None, first.or(second));
}

/// Bits that a second operand selects.
fn picked(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) {
    let ((a, first), (b, second)) = (flow.operand(regs, at, 1), flow.operand(regs, at, 2));
    let (bytes, origin) = (Flow::size(at, 0), first.or(second));
    let (v, mask) = (a[0] & low(bytes), low(bytes));
    let by = if v == 0 { None } else { flow.value(at, 2) };
    let result = match by {
        _ if b[0] & mask != 0 => mask,
        None => 0,
        Some(by) => match at.instr.mnemonic() {
            Mnemonic::Bzhi if by & 0xff >= 8 * bytes as u64 => v,
            Mnemonic::Bzhi => v & ((1 << (by & 0xff)) - 1),
            Mnemonic::Bextr => {
                let (start, len) = (by as u32 & 0xff, by as u32 >> 8 & 0xff);
                let kept = if len >= 64 { !0 } else { (1_u64 << len) - 1 };
                v.checked_shr(start).unwrap_or(0) & kept
            }
            Mnemonic::Pext => {
                let set = (0..64).filter(|bit| by & mask & 1 << bit != 0);
                set.zip(0..).fold(0, |all, (bit, to)| all | (v >> bit & 1) << to)
            }
            _ => {
                let set = (0..64).filter(|bit| by & mask & 1 << bit != 0);
                set.zip(0..).fold(0, |all, (bit, from)| all | (v >> from & 1) << bit)
            }
        },
    };
    flow.write(regs, at, 0, &wide(result), origin);
    if matches!(at.instr.mnemonic(), Mnemonic::Bzhi | Mnemonic::Bextr) {
        let value = if result == 0 { None } else { flow.value_behind(at) };
        let (flags, _) = flags::of_bits(Operand { v: result, value }, bytes);
        regs.set_flags(ALL, flags, None, origin);
    }
}
