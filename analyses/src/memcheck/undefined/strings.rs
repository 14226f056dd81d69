//! V bits through string instructions.

use super::bits::DEFINED;
use super::origins::OriginId;
use super::regs::{ALL, Regs, low};
use super::{At, Flow, Use};
use iced_x86::{Mnemonic, Register};

/// What a string instruction does to V bits.
pub fn propagate(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) {
    let instr = at.instr;
    if instr.has_rep_prefix() || instr.has_repne_prefix() {
        flow.check_register(regs, at, Register::RCX, Use::Branch);
    }
    let (read, written) = (Flow::read(at).copied(), at.accesses.iter().rfind(|access| access.writes).copied());
    if read.is_some()
        && !matches!(instr.mnemonic(), Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq)
    {
        flow.check_register(regs, at, Register::RSI, Use::Address);
    }
    if written.is_some()
        || !matches!(instr.mnemonic(), Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq)
    {
        flow.check_register(regs, at, Register::RDI, Use::Address);
    }
    match (instr.mnemonic(), read, written) {
        (Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq, Some(read), Some(written)) => {
            flow.loaded_from(at, read.addr, read.len);
            flow.memory.copy(read.addr, written.addr, written.len.min(read.len));
        }
        (Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq, _, Some(written)) => {
            let bytes = instr.memory_size().size();
            let v = regs.gpr[0] & low(bytes);
            if v == 0 {
                flow.memory.define(written.addr, written.len);
            } else {
                let step = bytes.max(1);
                for at in (written.addr..written.addr.saturating_add(written.len)).step_by(step) {
                    flow.memory.store(at, step as u64, &[v, 0, 0, 0], regs.origins[0]);
                }
            }
        }
        (Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq, Some(read), _) => {
            let bytes = instr.memory_size().size() as u64;
            let (v, origin) = flow.load(at, read.addr.wrapping_add(read.len.saturating_sub(bytes)), bytes);
            let register = match bytes {
                1 => Register::AL,
                2 => Register::AX,
                4 => Register::EAX,
                _ => Register::RAX,
            };
            regs.set(register, &v, origin, false);
        }
        _ => compare(flow, regs, at),
    }
}

/// `cmps` and `scas`: how far they go is a decision.
fn compare(flow: &mut Flow<'_>, regs: &mut Regs, at: &At<'_>) {
    let repeats = at.instr.has_rep_prefix() || at.instr.has_repne_prefix();
    let mut origin = OriginId::NONE;
    let mut is_undefined = false;
    for access in at.accesses.iter().filter(|access| access.reads) {
        if flow.memory.first_undefined(access.addr, access.len).is_some() {
            (is_undefined, origin) = (true, flow.loaded_from(at, access.addr, access.len));
        }
    }
    let scans = matches!(at.instr.mnemonic(), Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq);
    if scans && regs.get(Register::AL).0 != DEFINED {
        (is_undefined, origin) = (true, regs.origins[0]);
    }
    if is_undefined && repeats {
        flow.used(at, Use::Branch, origin);
        is_undefined = false;
    }
    regs.set_flags(ALL, if is_undefined { ALL } else { 0 }, None, origin);
}
