//! String instructions: how far they go may follow from what they find.

use super::{Flow, Flows};
use crate::atoms::Atoms;
use iced_x86::{Instruction, Mnemonic, Register, RflagsBits};

/// Whether a string instruction goes over more than one element.
pub fn repeats(instr: &Instruction) -> bool {
    instr.has_rep_prefix() || instr.has_repne_prefix()
}

/// Adds what a string instruction does but for flags; from what its addresses follow. `None`: it is none.
pub fn flows(instr: &Instruction, flows: &mut Flows) -> Option<Atoms> {
    if !instr.is_string_instruction() {
        return None;
    }
    let (rsi, rdi, rcx) = (Atoms::gpr(6), Atoms::gpr(7), Atoms::gpr(1));
    let (element, repeats) = (instr.memory_size().size(), repeats(instr));
    let rax = accumulator(element);
    let direction = Atoms::flags(RflagsBits::DF);
    let (pointers, data, compares) = match instr.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => {
            let move_it = Flow::new(Atoms::NONE, Atoms::NONE).out_of_memory(true).into_memory(true);
            (rsi | rdi, Some(move_it.copied()), false)
        }
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => {
            let store = Flow::new(Atoms::NONE, rax).into_memory(true);
            (rdi, Some(if repeats { store } else { store.copied() }), false)
        }
        Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => {
            let load = Flow::new(if element == 4 { Atoms::gpr(0) } else { rax }, Atoms::NONE).out_of_memory(true);
            (rsi, Some(if repeats { load.uncertain() } else { load.copied() }), false)
        }
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq => (rsi | rdi, None, true),
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => (rdi, None, true),
        _ => return None,
    };
    let count = if repeats { rcx } else { Atoms::NONE };
    let is_scan = compares && !pointers.meets(rsi);
    // How far it goes follows from what it finds.
    let found = compares && repeats;
    let decides = if found && is_scan { rax } else { Atoms::NONE };
    flows.extend(data);
    for pointer in [rsi, rdi].into_iter().filter(|pointer| pointers.meets(*pointer)) {
        flows.push(Flow::new(pointer, pointer | direction | count | decides).out_of_memory(found));
    }
    flows.push(Flow::new(count, count | decides).out_of_memory(found));
    Some(pointers | direction | count)
}

/// The lowest bytes of RAX.
fn accumulator(bytes: usize) -> Atoms {
    let register = match bytes {
        1 => Register::AL,
        2 => Register::AX,
        4 => Register::EAX,
        _ => Register::RAX,
    };
    Atoms::register(register).unwrap_or_default()
}
