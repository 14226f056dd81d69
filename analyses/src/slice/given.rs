//! What a slice does not follow unless it is asked to: how the dynamic linker comes to its results, and how functions keep registers for
//! their callers. Both would bring everything in that was ever called, since a restored register is there when its function has come to its end.

use crate::races::place::Modules;
use bugnet_format::types::ProcessId;
use bugnet_replay::Result;
use bugnet_replay::log::Log;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// What is given in a process. What an instruction of the linker's only copies, as the arguments of the function that it looks for, is followed
/// all the same.
pub struct Given(Modules);

impl Given {
    /// In this process.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn new(log: &Log, pid: ProcessId) -> Result<Self> {
        Modules::new(log, pid).map(Self)
    }

    /// Whether it is code of the dynamic linker's.
    pub fn is_linkers(&self, ip: u64) -> bool {
        self.0.is_loader(ip)
    }
}

/// Whether an instruction saves or restores a register that its function has to leave as it was (System V ABI for x86-64, 3.2.1).
pub fn keeps(instruction: &Instruction) -> bool {
    use Register::{R12, R13, R14, R15, RBP, RBX};
    match instruction.mnemonic() {
        Mnemonic::Leave => true,
        Mnemonic::Push | Mnemonic::Pop => {
            let is_register = instruction.op0_kind() == OpKind::Register;
            is_register && matches!(instruction.op0_register(), RBX | RBP | R12 | R13 | R14 | R15)
        }
        _ => false,
    }
}

/// Whether an instruction saves or restores vector registers as one piece, as the dynamic linker does around its work.
pub fn hands_on_state(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Fxrstor, Fxrstor64, Fxsave, Fxsave64, Xrstor, Xrstor64, Xsave, Xsave64, Xsavec, Xsavec64, Xsaveopt, Xsaveopt64,
    };
    matches!(
        instruction.mnemonic(),
        Fxrstor
            | Fxrstor64
            | Fxsave
            | Fxsave64
            | Xrstor
            | Xrstor64
            | Xsave
            | Xsave64
            | Xsavec
            | Xsavec64
            | Xsaveopt
            | Xsaveopt64
    )
}

#[cfg(test)]
mod tests {
    use super::keeps;
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn saves_and_restores() {
        let is_one = |bytes: &[u8]| keeps(&Decoder::new(64, bytes, DecoderOptions::NONE).decode());
        assert!(is_one(&[0x55]) && is_one(&[0x5b]) && is_one(&[0x41, 0x5f]) && is_one(&[0xc9]));
        // push rax; push [rbx]; mov rbx, rsp.
        assert!(!is_one(&[0x50]) && !is_one(&[0xff, 0x33]) && !is_one(&[0x48, 0x89, 0xe3]));
    }
}
