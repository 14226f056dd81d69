//! What instructions use of the x87 unit, and of MXCSR.

use super::{Used, x87};
use crate::atoms::Atoms;
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Adds what is used of the x87 unit and of MXCSR.
pub fn add(instr: &Instruction, used: &mut Used) {
    let mnemonic = instr.mnemonic();
    match mnemonic {
        Mnemonic::Fninit
        | Mnemonic::Finit
        | Mnemonic::Fnsave
        | Mnemonic::Fsave
        | Mnemonic::Fnstenv
        | Mnemonic::Fstenv => {
            used.reads |= Atoms::X87 | Atoms::X87_CONTROL;
            used.may |= Atoms::X87 | Atoms::X87_CONTROL;
        }
        Mnemonic::Frstor | Mnemonic::Fldenv => used.may |= Atoms::X87 | Atoms::X87_CONTROL,
        Mnemonic::Ldmxcsr | Mnemonic::Vldmxcsr => used.writes |= Atoms::MXCSR_CONTROL | Atoms::MXCSR_FLAGS,
        Mnemonic::Stmxcsr | Mnemonic::Vstmxcsr => used.reads |= Atoms::MXCSR_CONTROL | Atoms::MXCSR_FLAGS,
        // All are empty then; some processors set the top, too, and the registers have other names then.
        Mnemonic::Emms => moves_top(used),
        _ if format!("{mnemonic:?}").contains("rstor") || format!("{mnemonic:?}").contains("save") => {
            let all = (0..16)
                .fold(Atoms::X87 | Atoms::X87_CONTROL | Atoms::MXCSR_CONTROL | Atoms::MXCSR_FLAGS, |all, number| {
                    all | Atoms::vector(number)
                });
            let selects = Atoms::gpr(0) | Atoms::gpr(2);
            let is_restored = format!("{mnemonic:?}").contains("rstor");
            if is_restored {
                used.may |= all;
                used.reads |= selects;
            } else {
                used.reads |= all | selects;
            }
        }
        // The others are told one by one.
        _ if x87::is_of_unit(instr) => {
            used.reads |= Atoms::X87 | Atoms::X87_CONTROL;
            used.may |= Atoms::X87;
        }
        _ if used.reads.meets(Atoms::X87_VALUES) || used.may.meets(Atoms::X87_VALUES) => {
            // MMX: the first sets the top of the stack, and the registers have other names then.
            moves_top(used);
            if computes(instr) {
                used.reads |= Atoms::MXCSR_CONTROL;
                used.may |= Atoms::MXCSR_FLAGS;
            }
        }
        _ if computes(instr) => {
            used.reads |= Atoms::MXCSR_CONTROL;
            used.may |= Atoms::MXCSR_FLAGS;
        }
        _ => {}
    }
}

/// The top of the x87 stack becomes one of which nobody knows how far it is from where it was.
fn moves_top(used: &mut Used) {
    used.reads |= Atoms::X87_VALUES | Atoms::X87_STACK;
    used.may |= Atoms::X87_VALUES | Atoms::X87_STACK;
}

/// Whether it computes with floating-point numbers of SSE or AVX.
fn computes(instr: &Instruction) -> bool {
    let is_vector =
        |number: u32| instr.op_kind(number) == OpKind::Register && instr.op_register(number).is_vector_register();
    let name = format!("{:?}", instr.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    if !name.starts_with("cvt") && !(0..instr.op_count()).any(is_vector) {
        return false;
    }
    let moves = [
        "mov",
        "shuf",
        "unpck",
        "and",
        "or",
        "xor",
        "blend",
        "broadcast",
        "perm",
        "insert",
        "extract",
        "test",
        "maskmov",
        "gather",
    ];
    let ends = ["ps", "pd", "ss", "sd"].iter().any(|end| name.ends_with(end));
    name.starts_with("cvt")
        || ends && !moves.iter().any(|start| name.starts_with(start))
        || name.starts_with("comis")
        || name.starts_with("ucomis")
}
