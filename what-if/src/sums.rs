//! A difference in place of a sum: what was loaded first, less what was loaded then. Compilers add the first to the second (`add eax, edx`), so that `sub` in
//! its place would make the opposite; or they take `lea` for both, and no other instruction of its length subtracts. So what subtracts is put elsewhere,
//! with the instructions beside it, as many as have to make room for a jump to there.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionBlock,
    MemoryOperand, Mnemonic, OpKind, Register,
};

/// Bytes of a jump, and of all that is put elsewhere.
const JUMP: usize = 5;
pub(crate) const SLOT: u64 = 64;
/// Bytes from the instruction on that are looked at.
pub(crate) const AHEAD: usize = 32;

/// Which bytes are others then and where, if there is such an instruction at an address, and these bytes begin there or with instructions before it; what is
/// put elsewhere goes to a slot, and comes first. A run that jumps to one of those that make room does something else, of which nothing good comes.
pub(crate) fn difference(bytes: &[u8], from: u64, addr: u64, slot: u64) -> Option<[(u64, Vec<u8>); 2]> {
    let mut decoder = Decoder::with_ip(64, bytes, from, DecoderOptions::NONE);
    let (mut moved, mut is_found) = (Vec::new(), false);
    while decoder.ip() <= addr || decoder.position() < JUMP {
        let next = decoder.decode();
        if next.is_invalid() || next.flow_control() != FlowControl::Next {
            return None;
        }
        if next.ip() == addr {
            moved.extend(negated(&next).or_else(|| subtraction(&next))?);
            is_found = true;
        } else {
            moved.push(next);
        }
    }
    if !is_found {
        return None;
    }
    let len = decoder.position();
    moved.push(Instruction::with_branch(Code::Jmp_rel32_64, from + len as u64).ok()?);
    let elsewhere = encoded(&moved, slot).filter(|code| code.len() as u64 <= SLOT)?;
    let mut here = encoded(&[Instruction::with_branch(Code::Jmp_rel32_64, slot).ok()?], from)?;
    here.resize(len, 0x90);
    Some([(slot, elsewhere), (from, here)])
}

/// What adds to the opposite of a register.
fn negated(add: &Instruction) -> Option<Vec<Instruction>> {
    let to = add.op0_register();
    let is_one = add.mnemonic() == Mnemonic::Add && add.op0_kind() == OpKind::Register && to != Register::RSP;
    let is_number = matches!(add.op1_kind(), OpKind::Register | OpKind::Memory);
    let is_of_it = |other: Register| other.full_register() == to.full_register();
    let neg = match to.size() {
        4 => Code::Neg_rm32,
        8 => Code::Neg_rm64,
        _ => return None,
    };
    if !is_one || !is_number || [add.op1_register(), add.memory_base(), add.memory_index()].into_iter().any(is_of_it) {
        return None;
    }
    Some(vec![Instruction::with1(neg, to).ok()?, *add])
}

/// What changes no flags either, and makes the base less the index: `b + !i + 1`, or where the base itself gets it, `!(!b + i)`.
fn subtraction(lea: &Instruction) -> Option<Vec<Instruction>> {
    let (to, base, index) = (lea.op0_register(), lea.memory_base(), lea.memory_index());
    let is_sum = lea.mnemonic() == Mnemonic::Lea
        && base.is_gpr64()
        && index.is_gpr64()
        && ![Register::RBP, Register::RSP, index].contains(&base)
        && (lea.memory_index_scale(), lea.memory_displacement64()) == (1, 0);
    let (copy, not) = match to.size() {
        4 => (Code::Mov_r32_rm32, Code::Not_rm32),
        8 => (Code::Mov_r64_rm64, Code::Not_rm64),
        _ => return None,
    };
    if !is_sum {
        return None;
    }
    let sized = |register: Register| if to.size() == 4 { register.full_register32() } else { register };
    let not = Instruction::with1(not, to).ok()?;
    let sum = |index: Register, more: i64| {
        Instruction::with2(lea.code(), to, MemoryOperand::with_base_index_scale_displ_size(base, index, 1, more, 1))
            .ok()
    };
    if to.full_register() == base {
        return Some(vec![not, sum(index, 0)?, not]);
    }
    let copied = Instruction::with2(copy, to, sized(index)).ok()?;
    Some(vec![copied, not, sum(to.full_register(), 1)?])
}

fn encoded(instructions: &[Instruction], at: u64) -> Option<Vec<u8>> {
    let block = InstructionBlock::new(instructions, at);
    Some(BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?.code_buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Formatter, IntelFormatter};

    fn text(bytes: &[u8], at: u64) -> Vec<String> {
        let mut formatter = IntelFormatter::new();
        let decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
        let one = |instruction: Instruction| {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            text
        };
        decoder.into_iter().map(one).collect()
    }

    #[test]
    fn of_two_registers() {
        // lea ecx,[rdx+rax]; mov rax,[rbp-16]
        let bytes = [0x8d, 0x0c, 0x02, 0x48, 0x8b, 0x45, 0xf0, 0xc3];
        let changes = difference(&bytes, 0x1000, 0x1000, 0x9000).expect("it is a sum");
        assert_eq!((changes[0].0, changes[1].0), (0x9000, 0x1000));
        assert_eq!(
            text(&changes[0].1, 0x9000),
            ["mov ecx,eax", "not ecx", "lea ecx,[rdx+rcx+1]", "mov rax,[rbp-10h]", "jmp 0000000000001007h"]
        );
        assert_eq!(text(&changes[1].1, 0x1000), ["jmp 0000000000009000h", "nop", "nop"]);
    }

    #[test]
    fn in_place() {
        // lea rdx,[rdx+rax]; add edx,[rip+16]
        let bytes = [0x48, 0x8d, 0x14, 0x02, 0x03, 0x15, 0x10, 0, 0, 0, 0xc3];
        let changes = difference(&bytes, 0x1000, 0x1000, 0x9000).expect("it is a sum");
        assert_eq!(
            text(&changes[0].1, 0x9000),
            ["not rdx", "lea rdx,[rdx+rax]", "not rdx", "add edx,[101Ah]", "jmp 000000000000100Ah"]
        );
    }

    #[test]
    fn by_add() {
        // add eax,edx; mov [rbp-4],eax
        let changes = difference(&[0x01, 0xd0, 0x89, 0x45, 0xfc, 0xc3], 0x1000, 0x1000, 0x9000).expect("it is a sum");
        assert_eq!(text(&changes[0].1, 0x9000), ["neg eax", "add eax,edx", "mov [rbp-4],eax", "jmp 0000000000001005h"]);
    }

    /// At the end of a function, what lies before makes room.
    #[test]
    fn at_an_end() {
        // mov eax,[rax]; add eax,edx; pop rbp; ret
        let bytes = [0x8b, 0x00, 0x01, 0xd0, 0x5d, 0xc3];
        assert_eq!(difference(&bytes[2..], 0x1002, 0x1002, 0x9000), None);
        let changes = difference(&bytes, 0x1000, 0x1002, 0x9000).expect("it is a sum");
        assert_eq!(
            text(&changes[0].1, 0x9000),
            ["mov eax,[rax]", "neg eax", "add eax,edx", "pop rbp", "jmp 0000000000001005h"]
        );
        assert_eq!((changes[1].0, text(&changes[1].1, 0x1000)), (0x1000, vec!["jmp 0000000000009000h".to_owned()]));
    }

    #[test]
    fn what_is_none() {
        // With a scale, with a constant, of a frame, of one register; before a call; twice the same, of itself, and to memory.
        let others: [&[u8]; 9] = [
            &[0x48, 0x8d, 0x04, 0x00, 0x90, 0x90],
            &[0x01, 0xc0, 0x90, 0x90, 0x90],
            &[0x03, 0x40, 0x04, 0x90, 0x90],
            &[0x01, 0x45, 0xfc, 0x90, 0x90],
            &[0x8d, 0x0c, 0x42, 0x90, 0x90, 0x90],
            &[0x8d, 0x4c, 0x02, 0x01, 0x90, 0x90],
            &[0x48, 0x8d, 0x44, 0x05, 0x00, 0x90],
            &[0x48, 0x8d, 0x02, 0x90, 0x90, 0x90],
            &[0x8d, 0x0c, 0x02, 0xe8, 0, 0, 0, 0],
        ];
        for bytes in others {
            assert_eq!(difference(bytes, 0x1000, 0x1000, 0x9000), None, "{:?}", text(bytes, 0x1000));
        }
    }
}
