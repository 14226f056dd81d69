//! Instructions that read and change memory in one go, where another process may write to it, too.
//!
//! What such an instruction has read cannot be known from outside. So it is executed on a copy of what memory holds, and
//! memory then gets the result if it still holds that: a compare and exchange. If it does not, all begins anew.

use crate::base::lock::Mutex;
use bugnet_format::regs::ARITHMETIC_FLAGS;
use hashbrown::HashMap;
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, IcedError, Instruction, InstructionInfoFactory, MemoryOperand, Register,
};
use std::arch::asm;
use std::mem::offset_of;

/// Bytes of the largest operand.
pub const MOST: usize = 16;

/// Room for routines, in bytes, that is taken at once.
const ROOM: usize = 64 << 10;

/// An operand, aligned as an instruction may want it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(align(16))]
pub struct Operand(pub [u8; MOST]);

/// General purpose registers and RFLAGS.
#[repr(C)]
struct Registers {
    gpr: [u64; 16],
    rflags: u64,
}

/// Machine code that executes one instruction of the program's on registers and an operand in memory of ours.
#[derive(Clone, Copy)]
pub struct Routine(unsafe extern "C" fn(*mut Registers, *mut Operand));

impl Routine {
    /// Executes the instruction. Registers but RSP, which it does not use, and the arithmetic flags may change.
    pub fn run(self, gpr: &mut [u64; 16], rflags: &mut u64, operand: &mut Operand) {
        let mut registers = Registers { gpr: *gpr, rflags: *rflags & ARITHMETIC_FLAGS | 0x202 };
        // SAFETY: `assemble` has made a function of this type, which accesses what these two point to only.
        unsafe { (self.0)(&raw mut registers, operand) };
        *gpr = registers.gpr;
        *rflags = *rflags & !ARITHMETIC_FLAGS | registers.rflags & ARITHMETIC_FLAGS;
    }
}

/// Code that is there for good: for each form of an instruction once.
#[derive(Default)]
struct Routines {
    known: HashMap<Vec<u8>, Option<Routine>>,
    /// Where the next one goes, and up to where.
    free: (usize, usize),
}

static ROUTINES: Mutex<Option<Routines>> = Mutex::new(None);

/// The routine for the instruction with these bytes, whose only memory operand it reads and writes; none if it has no form
/// for another operand.
pub fn routine(bytes: &[u8]) -> Option<Routine> {
    let mut lock = ROUTINES.lock();
    let routines = lock.get_or_insert_default();
    if let Some(known) = routines.known.get(bytes) {
        return *known;
    }
    let routine = assemble(bytes).ok().flatten().and_then(|code| routines.place(&code));
    routines.known.insert(bytes.to_vec(), routine);
    routine
}

impl Routines {
    fn place(&mut self, code: &[u8]) -> Option<Routine> {
        if self.free.1 - self.free.0 < code.len() {
            let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping that replaces nothing.
            let room = unsafe { libc::mmap(std::ptr::null_mut(), ROOM, protection, flags, -1, 0) };
            if room == libc::MAP_FAILED {
                return None;
            }
            self.free = (room as usize, room as usize + ROOM);
        }
        let at = self.free.0;
        // SAFETY: room of ours that nobody else uses, large enough as just seen.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
        self.free.0 += code.len().next_multiple_of(16);
        // SAFETY: `assemble` made a function of this type.
        Some(Routine(unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut Registers, *mut Operand)>(at) }))
    }
}

/// The number of a register in [`Registers`].
fn number(register: Register) -> usize {
    register as usize - Register::RAX as usize
}

/// A register that an instruction does not use, to hold the operand's address. Not RDI, which is the last one loaded.
fn free_register(instruction: &Instruction) -> Option<Register> {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_registers().iter();
    let used: Vec<Register> = used.map(|used| used.register()).collect();
    let uses = |register: Register| used.iter().any(|used| used.full_register() == register);
    if (0..instruction.op_count()).any(|n| instruction.op_register(n).full_register() == Register::RSP) {
        return None;
    }
    // AH to BH cannot be encoded together with R8 to R15.
    let high = used.iter().any(|r| matches!(r, Register::AH | Register::BH | Register::CH | Register::DH));
    let candidates = [Register::R14, Register::R15, Register::R13, Register::RBX, Register::RBP, Register::RSI];
    candidates.into_iter().skip(if high { 3 } else { 0 }).find(|register| !uses(*register))
}

/// A function that executes the instruction: in RDI, it gets a pointer to [`Registers`], in RSI one to the operand.
fn assemble(bytes: &[u8]) -> Result<Option<Vec<u8>>, IcedError> {
    use Register::{R12, R13, R14, R15, RAX, RBP, RBX, RDI, RSI, RSP};
    const SAVED: [Register; 6] = [RBX, RBP, R12, R13, R14, R15];
    let mut instruction = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return Ok(None);
    }
    let Some(operand) = free_register(&instruction) else { return Ok(None) };
    instruction.set_segment_prefix(Register::None);
    instruction.set_memory_base(operand);
    instruction.set_memory_index(Register::None);
    instruction.set_memory_index_scale(1);
    instruction.set_memory_displ_size(0);
    instruction.set_memory_displacement64(0);
    let gprs = || (0..16).map(|n| Register::RAX + n).filter(|register| *register != RSP);
    let field = |base, offset: usize| MemoryOperand::with_base_displ(base, offset as i64);
    let gpr = |base, register| field(base, offset_of!(Registers, gpr) + 8 * number(register));
    let rflags = |base| field(base, offset_of!(Registers, rflags));
    let mut code = Vec::new();
    for register in SAVED.into_iter().chain([RDI]) {
        code.push(Instruction::with1(Code::Push_r64, register)?);
    }
    code.push(Instruction::with1(Code::Push_rm64, rflags(RDI))?);
    code.push(Instruction::with(Code::Popfq));
    code.push(Instruction::with2(Code::Mov_r64_rm64, operand, RSI)?);
    for register in gprs().filter(|register| ![operand, RDI].contains(register)).chain([RDI]) {
        code.push(Instruction::with2(Code::Mov_r64_rm64, register, gpr(RDI, register))?);
    }
    code.push(instruction);
    code.push(Instruction::with(Code::Pushfq));
    code.push(Instruction::with2(Code::Mov_r64_rm64, operand, field(RSP, 8))?);
    for register in gprs().filter(|register| *register != operand) {
        code.push(Instruction::with2(Code::Mov_rm64_r64, gpr(operand, register), register)?);
    }
    code.push(Instruction::with1(Code::Pop_rm64, rflags(operand))?);
    // What was RDI.
    code.push(Instruction::with1(Code::Pop_r64, RAX)?);
    for register in SAVED.into_iter().rev() {
        code.push(Instruction::with1(Code::Pop_r64, register)?);
    }
    code.push(Instruction::with(Code::Retnq));
    let mut encoder = Encoder::try_new(64)?;
    for instruction in &code {
        // None of them depends on its own address.
        encoder.encode(instruction, 0)?;
    }
    Ok(Some(encoder.take_buffer()))
}

/// Puts the first `bytes` of `new` where those of `old` are, in one go with the look whether they are; `false` if not.
///
/// # Safety
/// `address` is that of writable memory: 1, 2, 4, 8 or 16 bytes of it, of which 16 are aligned.
pub unsafe fn compare_exchange(address: u64, bytes: usize, old: &Operand, new: &Operand) -> bool {
    let half = |operand: &Operand, n: usize| u64::from_le_bytes(std::array::from_fn(|i| operand.0[8 * n + i]));
    let (old_low, new_low) = (half(old, 0), half(new, 0));
    let done: u8;
    // SAFETY: the caller's promise. RBX, which the compiler keeps for itself, is put back.
    unsafe {
        match bytes {
            1 => {
                asm!("lock cmpxchg [{m}], {new}", "sete {done}", m = in(reg) address, new = in(reg_byte) new_low as u8,
                done = out(reg_byte) done, inout("rax") old_low => _, options(nostack))
            }
            2 => asm!("lock cmpxchg [{m}], {new:x}", "sete {done}", m = in(reg) address, new = in(reg) new_low,
                done = out(reg_byte) done, inout("rax") old_low => _, options(nostack)),
            4 => asm!("lock cmpxchg [{m}], {new:e}", "sete {done}", m = in(reg) address, new = in(reg) new_low,
                done = out(reg_byte) done, inout("rax") old_low => _, options(nostack)),
            8 => asm!("lock cmpxchg [{m}], {new}", "sete {done}", m = in(reg) address, new = in(reg) new_low,
                done = out(reg_byte) done, inout("rax") old_low => _, options(nostack)),
            _ => {
                let flag: u64;
                asm!("xchg rbx, {low}", "lock cmpxchg16b [rdi]", "mov rbx, {low}", "sete cl", "movzx ecx, cl",
                    low = inout(reg) new_low => _, in("rdi") address, inout("rcx") half(new, 1) => flag,
                    inout("rax") old_low => _, inout("rdx") half(old, 1) => _, options(nostack));
                done = flag as u8;
            }
        }
    }
    done != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_dr::assembled;

    fn operand(value: u64) -> Operand {
        let mut operand = Operand::default();
        operand.0[..8].copy_from_slice(&value.to_le_bytes());
        operand
    }

    #[test]
    fn an_instruction_is_executed_on_registers_and_an_operand() {
        let xadd = routine(&assembled!("lock xadd [rax + 4*rcx + 8], r14")).unwrap();
        let (mut gpr, mut rflags, mut memory) = ([7; 16], 0x8d5, operand(40));
        gpr[14] = 2;
        xadd.run(&mut gpr, &mut rflags, &mut memory);
        assert!(memory == operand(42));
        assert_eq!((gpr[14], gpr[13], gpr[7], rflags & 0x8d5), (40, 7, 7, 0));
        let adc = routine(&assembled!("adc byte ptr [rip + 0x100], ah")).unwrap();
        let (mut gpr, mut rflags, mut memory) = ([0; 16], 1, operand(0xff));
        adc.run(&mut gpr, &mut rflags, &mut memory);
        assert!(memory == operand(0));
        assert_eq!(rflags & 0x8d5, 0x55);
        // That is no instruction; the other one uses a register that is not there.
        assert!(routine(&assembled!("lock", "shl qword ptr [rax], 1")).is_none());
        assert!(routine(&assembled!("add [rax], rsp")).is_none());
    }

    #[test]
    fn memory_changes_if_it_holds_what_was_read() {
        for bytes in [1, 2, 4, 8, 16] {
            let (old, mut new) = (operand(0x1111_2222_3333_4444), Operand([9; MOST]));
            let mut memory = old;
            let address = (&raw mut memory) as u64;
            // SAFETY: memory of the test's own, aligned.
            assert!(unsafe { compare_exchange(address, bytes, &old, &new) });
            new.0[bytes..].copy_from_slice(&old.0[bytes..]);
            assert!(memory == new);
            // SAFETY: as above.
            assert!(!unsafe { compare_exchange(address, bytes, &old, &operand(0)) });
            assert!(memory == new);
        }
    }
}
