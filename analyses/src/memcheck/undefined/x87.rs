//! V bits through the x87 unit: of each of its registers, whether anything is undefined.

use super::bits::{Bits, DEFINED};
use super::origins::OriginId;
use super::regs::{ALL, Regs};
use super::{At, Flow};
use iced_x86::{Mnemonic, OpKind, Register};

/// What an instruction of the unit does; whether it is one.
pub fn propagate(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) -> bool {
    let instr = at.instr;
    let name = format!("{:?}", instr.mnemonic());
    if !name.starts_with('F') || name.starts_with("Fx") && instr.mnemonic() != Mnemonic::Fxch {
        return false;
    }
    let mine = regs.origins[super::recipe::X87 as usize];
    let register = |number: u32| match instr.op_kind(number) {
        OpKind::Register if instr.op_register(number).is_st() => {
            Some((instr.op_register(number) as u32 - Register::ST0 as u32) as u8)
        }
        _ => None,
    };
    let (loaded, from_memory) = match Flow::read(at).copied() {
        Some(access) if access.len <= 32 => flow.load(at, access.addr, access.len),
        _ => (DEFINED, OriginId::NONE),
    };
    let (is_loaded, origin) = (loaded != DEFINED, from_memory.or(mine));
    let moves = instr.fpu_stack_increment_info();
    let increment = if moves.increment() == 0 { 0 } else { moves.increment() };
    let source = |number: u32| register(number).map(|from_top| regs.x87(from_top)).unwrap_or(false);
    let writes = at.accesses.iter().any(|access| access.writes);
    match instr.mnemonic() {
        Mnemonic::Fnstsw | Mnemonic::Fstsw => {
            let v: Bits = if regs.status { [0x4700, 0, 0, 0] } else { DEFINED };
            flow.write(regs, at, 0, &v, mine);
            return true;
        }
        Mnemonic::Fxch => {
            let other = register(1).or(register(0)).unwrap_or(1);
            let (first, second) = (regs.x87(0), regs.x87(other));
            regs.set_x87(0, second, origin);
            regs.set_x87(other, first, origin);
        }
        Mnemonic::Fld | Mnemonic::Fild | Mnemonic::Fbld => {
            let value =
                if Flow::read(at).is_some() { is_loaded } else { source(if instr.op_count() > 1 { 1 } else { 0 }) };
            regs.top = regs.top.wrapping_sub(1) & 7;
            regs.set_x87(0, value, origin);
            return true;
        }
        _ if writes => {
            let v = if regs.x87(0) && moves_value(&name) { [!0; 4] } else { DEFINED };
            flow.store(at, &v, mine);
        }
        Mnemonic::Fst | Mnemonic::Fstp => {
            let value = regs.x87(0);
            regs.set_x87(register(0).unwrap_or(0), value, origin);
        }
        _ if name.contains("com") || name.contains("tst") || name.contains("xam") => {
            let other = register(1).or(register(0)).unwrap_or(1);
            let any = regs.x87(0)
                || is_loaded
                || (!name.contains("tst") && !name.contains("xam") && Flow::read(at).is_none() && regs.x87(other));
            if name.contains("comi") {
                regs.set_flags(ALL, if any { ALL } else { 0 }, None, origin);
            } else {
                regs.set_status(any, origin);
            }
        }
        _ if increment < 0 => {
            // A constant, or a second result.
            let value = instr.mnemonic() == Mnemonic::Fsincos && regs.x87(0);
            regs.top = (regs.top as i32 + increment) as u8 & 7;
            regs.set_x87(0, value, origin);
            return true;
        }
        _ => {
            let to = register(0).unwrap_or(0);
            let other = register(1).unwrap_or(if increment > 0 { 1 } else { to });
            let any = regs.x87(to) || regs.x87(other) || regs.x87(0) || is_loaded;
            let to = if increment > 0 && register(0).is_none() { 1 } else { to };
            if instr.op_count() > 0 || increment != 0 || regs.x87(0) {
                regs.set_x87(to, any, origin);
            }
        }
    }
    for _ in 0..increment.max(0) {
        regs.set_x87(0, false, OriginId::NONE);
        regs.top = (regs.top + 1) & 7;
    }
    true
}

/// Whether what is stored is a number, and not what the unit is to do.
fn moves_value(name: &str) -> bool {
    ["Fst", "Fist", "Fbst"].iter().any(|start| name.starts_with(start))
}
