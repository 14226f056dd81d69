//! V bits through instructions of general purpose registers (section 2.4 and 2.5 of memcheck's paper).

use super::bits::{Bits, DEFINED};
use super::flags::{self, Operand};
use super::origins::OriginId;
use super::recipe::FLAGS;
use super::regs::{ALL, CF, OF, PF, Regs, SF, ZF, condition, low};
use super::{At, Flow, Use, bitwise};
use iced_x86::{FlowControl, Mnemonic, OpKind, Register};

/// From the lowest undefined bit on, all is undefined: where it is added, it may be carried.
pub fn left(v: u64) -> u64 {
    v | v.wrapping_neg()
}

/// All of so many bytes, if anything is undefined.
pub fn all(v: u64, bytes: usize) -> u64 {
    if v == 0 { 0 } else { low(bytes) }
}

pub fn wide(v: u64) -> Bits {
    [v, 0, 0, 0]
}

/// What an instruction does to V bits; whether it is one of these.
pub fn propagate(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    let instr = at.instr;
    let is_other = |register: Register| register.is_vector_register() || register.is_st() || register.is_mm();
    if instr.op_count() > 0
        && (0..instr.op_count())
            .any(|number| instr.op_kind(number) == OpKind::Register && is_other(instr.op_register(number)))
    {
        return false;
    }
    moves(flow, regs, at)
        || control(flow, regs, at)
        || arithmetic(flow, regs, at)
        || bitwise::logic(flow, regs, at)
        || bitwise::shifts(flow, regs, at)
        || bitwise::bits(flow, regs, at)
        || others(flow, regs, at)
}

fn moves(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    let instr = at.instr;
    match instr.mnemonic() {
        Mnemonic::Nop | Mnemonic::Endbr64 => {}
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movnti => {
            let (v, origin) = flow.operand(regs, at, 1);
            flow.write(regs, at, 0, &v, origin);
        }
        Mnemonic::Movsx | Mnemonic::Movsxd => {
            let (v, origin) = flow.operand(regs, at, 1);
            let v = extended(v[0], Flow::size(at, 1));
            flow.write(regs, at, 0, &wide(v), origin);
        }
        Mnemonic::Cbw | Mnemonic::Cwde | Mnemonic::Cdqe => {
            let (from, to) = match instr.mnemonic() {
                Mnemonic::Cbw => (1, Register::AX),
                Mnemonic::Cwde => (2, Register::EAX),
                _ => (4, Register::RAX),
            };
            let v = extended(regs.gpr[0] & low(from), from);
            regs.set(to, &wide(v), regs.origins[0], false);
        }
        Mnemonic::Cwd | Mnemonic::Cdq | Mnemonic::Cqo => {
            let (from, to) = match instr.mnemonic() {
                Mnemonic::Cwd => (2, Register::DX),
                Mnemonic::Cdq => (4, Register::EDX),
                _ => (8, Register::RDX),
            };
            let sign = regs.gpr[0] >> (from * 8 - 1) & 1;
            regs.set(to, &wide(all(sign, from)), regs.origins[0], false);
        }
        Mnemonic::Xchg => {
            let (first, second) = (flow.operand(regs, at, 0), flow.operand(regs, at, 1));
            flow.write(regs, at, 0, &second.0, second.1);
            flow.write(regs, at, 1, &first.0, first.1);
        }
        Mnemonic::Bswap | Mnemonic::Movbe => {
            let number = u32::from(instr.mnemonic() == Mnemonic::Movbe);
            let (v, origin) = flow.operand(regs, at, number);
            let bytes = Flow::size(at, number);
            flow.write(regs, at, 0, &wide(v[0].swap_bytes() >> (64 - 8 * bytes)), origin);
        }
        Mnemonic::Push => {
            let (v, origin) = flow.operand(regs, at, 0);
            flow.store(at, &v, origin);
        }
        Mnemonic::Pop => {
            if let Some(access) = Flow::read(at).copied() {
                let (v, origin) = flow.load(at, access.addr, access.len);
                flow.write(regs, at, 0, &v, origin);
            }
        }
        Mnemonic::Leave => {
            if let Some(access) = Flow::read(at).copied() {
                let (v, origin) = flow.load(at, access.addr, access.len);
                regs.set(Register::RBP, &v, origin, false);
            }
        }
        Mnemonic::Lea => {
            let (base, first) = regs.get(instr.memory_base());
            let (index, second) = regs.get(instr.memory_index());
            let v = left(base[0] | index[0].wrapping_mul(u64::from(instr.memory_index_scale())));
            flow.write(regs, at, 0, &wide(v), first.or(second));
        }
        _ => return false,
    }
    true
}

fn extended(v: u64, from: usize) -> u64 {
    let is_undefined = v >> (from * 8 - 1) & 1 != 0;
    if is_undefined { v | !low(from) } else { v }
}

/// Branches, calls, and what goes by flags.
fn control(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    let instr = at.instr;
    let code = condition(instr.condition_code());
    let is_undefined = code.is_some_and(|code| regs.conditions >> code & 1 != 0);
    match instr.flow_control() {
        FlowControl::ConditionalBranch => {
            if code.is_some() {
                if is_undefined {
                    flow.decides(regs, at, 1 << FLAGS);
                }
            } else {
                // `loop` and `jrcxz`.
                flow.check_register(regs, at, Register::RCX, Use::Branch);
            }
            return true;
        }
        FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Call | FlowControl::Return => {
            if instr.mnemonic() == Mnemonic::Syscall {
                return false;
            }
            if instr.op_count() > 0 && instr.op0_kind() == OpKind::Register {
                flow.check_register(regs, at, instr.op0_register(), Use::Jump);
            } else if let Some(access) = Flow::read(at).copied() {
                let (v, origin) = flow.load(at, access.addr, access.len);
                if v != DEFINED {
                    flow.used(at, Use::Jump, origin);
                }
            }
            if matches!(instr.flow_control(), FlowControl::IndirectCall | FlowControl::Call) {
                flow.store(at, &DEFINED, OriginId::NONE);
            }
            return true;
        }
        _ => {}
    }
    let origin = regs.origins[FLAGS as usize];
    let name = format!("{:?}", instr.mnemonic());
    if code.is_some() && name.starts_with("Set") {
        flow.write(regs, at, 0, &wide(is_undefined.into()), origin);
    } else if let Some(code) = code.filter(|_| name.starts_with("Cmov")) {
        let bytes = Flow::size(at, 0);
        let (kept, taken) = (flow.operand(regs, at, 0), flow.operand(regs, at, 1));
        if is_undefined {
            flow.write(regs, at, 0, &wide(low(bytes)), origin);
        } else {
            let needs_flags = kept.0 != DEFINED || taken.0 != DEFINED;
            let takes = if needs_flags { flow.flags_value(at).map(|value| holds(code, value)) } else { None };
            let (v, from) = match takes {
                Some(true) => taken,
                Some(false) => kept,
                None => (DEFINED, OriginId::NONE),
            };
            flow.write(regs, at, 0, &v, from);
        }
    } else {
        return false;
    }
    true
}

/// Whether a condition, by the processor's number, holds with these flags.
fn holds(code: u16, rflags: u64) -> bool {
    let flag = |bit: u32| rflags >> bit & 1 != 0;
    let (cf, pf, zf, sf, of) = (flag(0), flag(2), flag(6), flag(7), flag(11));
    let positive = match code / 2 {
        0 => of,
        1 => cf,
        2 => zf,
        3 => cf || zf,
        4 => sf,
        5 => pf,
        6 => sf != of,
        _ => zf || sf != of,
    };
    positive == code.is_multiple_of(2)
}

fn arithmetic(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    let instr = at.instr;
    match instr.mnemonic() {
        Mnemonic::Cmp | Mnemonic::Sub => subtract(flow, regs, at),
        Mnemonic::Add | Mnemonic::Adc | Mnemonic::Sbb | Mnemonic::Xadd | Mnemonic::Adcx | Mnemonic::Adox => {
            let (a, first) = flow.operand(regs, at, 0);
            let (b, second) = flow.operand(regs, at, 1);
            let takes = matches!(instr.mnemonic(), Mnemonic::Adc | Mnemonic::Sbb | Mnemonic::Adcx | Mnemonic::Adox);
            let carry = u64::from(takes && regs.flags & (CF | OF) != 0);
            let is_same = instr.mnemonic() == Mnemonic::Sbb && is_same(at);
            let v = left(if is_same { carry } else { a[0] | b[0] | carry });
            let origin = first.or(second).or(regs.origins[FLAGS as usize]);
            if instr.mnemonic() == Mnemonic::Xadd {
                flow.write(regs, at, 1, &a, first);
            }
            let bytes = Flow::size(at, 0);
            let v = v & low(bytes);
            let value = if v != 0 && v != low(bytes) { flow.value_behind(at) } else { None };
            flow.write(regs, at, 0, &wide(v), origin);
            result_flags(regs, (v, value), bytes, true, origin);
        }
        Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Neg => {
            let (a, origin) = flow.operand(regs, at, 0);
            let (bytes, v) = (Flow::size(at, 0), left(a[0]));
            let is_partly = v & low(bytes) != 0 && v & low(bytes) != low(bytes);
            let value = if is_partly { flow.value(at, 0) } else { None };
            let value = value.map(|value| match instr.mnemonic() {
                Mnemonic::Inc => value.wrapping_add(1),
                Mnemonic::Dec => value.wrapping_sub(1),
                _ => value.wrapping_neg(),
            });
            flow.write(regs, at, 0, &wide(v & low(bytes)), origin);
            let (mut flags, _) = flags::of_result(Operand { v, value }, bytes, true);
            let written = if instr.mnemonic() == Mnemonic::Neg { ALL } else { ALL & !CF };
            flags &= written;
            regs.set_flags(written, flags, None, origin);
        }
        Mnemonic::Imul if instr.op_count() > 1 => {
            let (from, with) = if instr.op_count() == 3 { (1, 2) } else { (0, 1) };
            let ((a, first), (b, second)) = (flow.operand(regs, at, from), flow.operand(regs, at, with));
            let (bytes, origin) = (Flow::size(at, 0), first.or(second));
            let v = left(a[0] | b[0]) & low(bytes);
            flow.write(regs, at, 0, &wide(v), origin);
            result_flags(regs, (v, None), bytes, true, origin);
        }
        Mnemonic::Imul | Mnemonic::Mul | Mnemonic::Div | Mnemonic::Idiv => products(flow, regs, at),
        Mnemonic::Mulx => {
            let (b, second) = flow.operand(regs, at, 2);
            let (bytes, origin) = (Flow::size(at, 0), second.or(regs.origins[2]));
            let any = (b[0] | regs.gpr[2]) & low(bytes);
            flow.write(regs, at, 1, &wide(left(any) & low(bytes)), origin);
            flow.write(regs, at, 0, &wide(all(any, bytes)), origin);
        }
        _ => return false,
    }
    true
}

pub fn is_same(at: &At<'_>) -> bool {
    let instr = at.instr;
    (0..2).all(|number| instr.op_kind(number) == OpKind::Register) && instr.op0_register() == instr.op1_register()
}

fn subtract(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) {
    let ((a, first), (b, second)) = (flow.operand(regs, at, 0), flow.operand(regs, at, 1));
    let (bytes, origin) = (Flow::size(at, 0), first.or(second));
    let mask = low(bytes);
    let (va, vb) = if is_same(at) { (0, 0) } else { (a[0] & mask, b[0] & mask) };
    // What may be anything, compared with a constant, needs no value of its own.
    let is_plain = va == mask && at.instr.op1_kind() != OpKind::Register && at.instr.op1_kind() != OpKind::Memory;
    let (x, y) = match (va | vb, is_plain) {
        (0, _) => (None, None),
        (_, true) => (Some(0), flow.value(at, 1)),
        _ if va == mask && vb == mask => (Some(0), Some(0)),
        _ => (flow.value(at, 0), flow.value(at, 1)),
    };
    let (flags, conditions) = flags::compared(Operand { v: va, value: x }, Operand { v: vb, value: y }, bytes);
    if at.instr.mnemonic() == Mnemonic::Sub {
        flow.write(regs, at, 0, &wide(left(va | vb) & mask), origin);
    }
    regs.set_flags(ALL, flags, Some(conditions), origin);
}

fn products(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) {
    let (b, second) = flow.operand(regs, at, 0);
    let bytes = Flow::size(at, 0);
    let is_division = matches!(at.instr.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
    let upper = if is_division && bytes > 1 { regs.gpr[2] & low(bytes) } else { 0 };
    let any = (b[0] | regs.gpr[0]) & low(bytes) | upper;
    let origin = second.or(if regs.gpr[0] != 0 { regs.origins[0] } else { regs.origins[2] });
    if bytes == 1 {
        regs.set(Register::AX, &wide(all(any, 2)), origin, false);
    } else {
        let named = |number: usize| match (number, bytes) {
            (0, 2) => Register::AX,
            (0, 4) => Register::EAX,
            (0, _) => Register::RAX,
            (_, 2) => Register::DX,
            (_, 4) => Register::EDX,
            _ => Register::RDX,
        };
        let lower = if is_division { all(any, bytes) } else { left(any) & low(bytes) };
        regs.set(named(0), &wide(lower), origin, false);
        regs.set(named(2), &wide(all(any, bytes)), origin, false);
    }
    let flags = if any != 0 && !is_division { ALL } else { 0 };
    regs.set_flags(ALL, flags, None, origin);
}

/// Flags of a result, of which the value may be known.
pub fn result_flags(regs: &mut Regs, (v, value): (u64, Option<u64>), bytes: usize, carries: bool, origin: OriginId) {
    let carries = carries && v & low(bytes) != 0;
    let (flags, _) = flags::of_result(Operand { v, value }, bytes, carries);
    regs.set_flags(ALL, flags, None, origin);
}

fn others(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    const PLACES: [(u8, u32); 5] = [(CF, 0), (PF, 2), (ZF, 6), (SF, 7), (OF, 11)];
    let instr = at.instr;
    let of_flags =
        |flags: u8| PLACES.iter().filter(|(flag, _)| flags & flag != 0).fold(0, |v, (_, bit)| v | 1_u64 << bit);
    let to_flags = |v: u64| PLACES.iter().filter(|(_, bit)| v >> bit & 1 != 0).fold(0, |flags, (flag, _)| flags | flag);
    match instr.mnemonic() {
        Mnemonic::Cmpxchg => {
            let ((a, first), (b, second)) = (flow.operand(regs, at, 0), flow.operand(regs, at, 1));
            let (bytes, origin) = (Flow::size(at, 0), first.or(second).or(regs.origins[0]));
            let mask = low(bytes);
            let (va, vr) = (a[0] & mask, regs.gpr[0] & mask);
            let old = if va | vr == 0 { None } else { flow.value(at, 0) };
            let expected =
                if va | vr == 0 { None } else { flow.register_value(at, Register::RAX).map(|rax| rax & mask) };
            let expected_v = Operand { v: vr, value: expected };
            let (flags, conditions) = flags::compared(expected_v, Operand { v: va, value: old }, bytes);
            let stored = if va == 0 && b[0] & mask == 0 { 0 } else { va | b[0] & mask };
            flow.write(regs, at, 0, &wide(stored), origin);
            let rax = match bytes {
                1 => Register::AL,
                2 => Register::AX,
                4 => Register::EAX,
                _ => Register::RAX,
            };
            regs.set(rax, &wide(va), origin, false);
            regs.set_flags(ALL, flags, Some(conditions), origin);
        }
        Mnemonic::Lahf => {
            regs.set(Register::AH, &wide(of_flags(regs.flags) & 0xff), regs.origins[FLAGS as usize], false)
        }
        Mnemonic::Sahf => {
            let (v, origin) = regs.get(Register::AH);
            regs.set_flags(ALL & !OF, to_flags(v[0]), None, origin);
        }
        Mnemonic::Pushfq => flow.store(at, &wide(of_flags(regs.flags)), regs.origins[FLAGS as usize]),
        Mnemonic::Popfq => {
            if let Some(access) = Flow::read(at).copied() {
                let (v, origin) = flow.load(at, access.addr, access.len);
                regs.set_flags(ALL, to_flags(v[0]), None, origin);
            }
        }
        Mnemonic::Stc | Mnemonic::Clc => regs.set_flags(CF, 0, None, OriginId::NONE),
        Mnemonic::Cmc => {}
        Mnemonic::Crc32 => {
            let ((a, first), (b, second)) = (flow.operand(regs, at, 0), flow.operand(regs, at, 1));
            flow.write(regs, at, 0, &wide(all(a[0] | b[0], 4)), first.or(second));
        }
        _ => return false,
    }
    true
}

impl Flow<'_> {
    /// The value of the first operand behind the instruction, if that is a register.
    pub fn value_behind(&mut self, at: &At<'_>) -> Option<u64> {
        if at.instr.op0_kind() != OpKind::Register {
            return None;
        }
        let mut behind = at.place;
        behind.position.0 += 1;
        let register = at.instr.op0_register();
        let bit = Regs::bit(register).filter(|bit| *bit < super::recipe::VECTORS)?;
        let value = match self.values.registers(behind) {
            Ok(registers) => registers?.gpr[bit as usize],
            Err(error) => return self.fail(error),
        };
        Some(value & low(register.size()))
    }
}
