//! What an instruction reads and writes, and which of what it writes follows from which of what it reads.
//!
//! `iced-x86` knows the operands. It does not tell that RSP behind a `push` follows from RSP alone, and not from what is pushed; nor which
//! reads are for addresses only. A test executes instructions of each form with random registers: what changes is what is said to be
//! written, and it stays the same whatever the rest of the registers hold (`tests/effects.rs`).

mod flags;
mod strings;
mod units;
mod x87;

use crate::atoms::Atoms;
use flags::Flags;
use iced_x86::{Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use smallvec::SmallVec;

/// How values that are written follow from those that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Byte by byte: the first from the first. Bytes for which there are none to be copied are constant.
    Copied,
    /// All from all.
    Computed,
    /// As copied, but nothing is done: what holds the value only has another name.
    Renamed,
}

/// A part of what an instruction writes, and what it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// What is written of the registers.
    pub to: Atoms,
    /// Whether all of the memory is written to which the instruction writes.
    pub to_memory: bool,
    /// What it follows from.
    pub from: Atoms,
    /// Whether it follows from all of the memory that the instruction reads.
    pub from_memory: bool,
    /// In which way.
    pub how: How,
    /// Whether all of it is written, whatever happens. What is not may stay as it is.
    pub certain: bool,
}

impl Flow {
    fn new(to: Atoms, from: Atoms) -> Self {
        Self { to, to_memory: false, from, from_memory: false, how: How::Computed, certain: true }
    }

    fn into_memory(self, to_memory: bool) -> Self {
        Self { to_memory, ..self }
    }

    fn out_of_memory(self, from_memory: bool) -> Self {
        Self { from_memory, ..self }
    }

    fn copied(self) -> Self {
        Self { how: How::Copied, ..self }
    }

    fn renamed(self) -> Self {
        Self { how: How::Renamed, ..self }
    }

    fn uncertain(self) -> Self {
        Self { certain: false, ..self }
    }

    fn is_empty(&self) -> bool {
        self.to.is_empty() && !self.to_memory
    }
}

/// Where a thread goes on behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// At the next one.
    Next,
    /// Somewhere, always.
    Jump,
    /// There, or at the next one: a decision.
    Branch,
    /// In a function.
    Call,
    /// Where a function was called.
    Return,
    /// In the kernel, or in a handler.
    System,
}

impl Control {
    /// Behind this instruction.
    #[must_use]
    pub fn of(instr: &Instruction) -> Self {
        match instr.flow_control() {
            FlowControl::Next => Self::Next,
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Self::Jump,
            FlowControl::ConditionalBranch => Self::Branch,
            FlowControl::Call if instr.mnemonic() == Mnemonic::Syscall => Self::System,
            FlowControl::Call | FlowControl::IndirectCall => Self::Call,
            FlowControl::Return => Self::Return,
            _ => Self::System,
        }
    }
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects {
    /// What it writes.
    pub flows: Flows,
    /// From what the addresses of its memory follow.
    pub address: Atoms,
    /// Where the thread goes on.
    pub control: Control,
    /// From what it follows where that is, if from any registers or flags.
    pub decides: Atoms,
    /// Whether it follows from the memory that is read.
    pub memory_decides: bool,
}

impl Effects {
    /// What is written of the registers, or may be.
    #[must_use]
    pub fn writes(&self) -> Atoms {
        self.flows.iter().map(|flow| flow.to).collect()
    }

    /// What is read of the registers, for whatever purpose.
    #[must_use]
    pub fn reads(&self) -> Atoms {
        self.flows.iter().map(|flow| flow.from).collect::<Atoms>() | self.address | self.decides
    }
}

/// Finds out what instructions do.
pub struct Decoding {
    factory: InstructionInfoFactory,
}

type Flows = SmallVec<[Flow; 2]>;

/// What an instruction does to memory.
struct Memory {
    reads: bool,
    writes: bool,
    /// Whether some of it may stay as it is.
    may: bool,
}

/// Registers that an instruction names, or has without naming them.
struct Used {
    /// What is read, without what is only for addresses.
    reads: Atoms,
    writes: Atoms,
    /// What may be written.
    may: Atoms,
    address: Atoms,
}

impl Default for Decoding {
    fn default() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }
}

impl Decoding {
    /// What an instruction does.
    pub fn effects(&mut self, instr: &Instruction) -> Effects {
        let (control, mut used, memory) = (Control::of(instr), self.used(instr), self.memory(instr));
        let (flags, mut flows) = (Flags::of(instr), Flows::new());
        if moves_stack(instr) {
            let from = if instr.mnemonic() == Mnemonic::Leave { Atoms::gpr(5) } else { Atoms::RSP };
            // What is popped into the register itself is there in the end.
            flows.push(Flow::new(Atoms::RSP, from).out_of_memory(used.writes.meets(Atoms::RSP)));
            used.writes = used.writes - Atoms::RSP;
            used.address |= from;
        }
        let (mut decides, mut memory_decides) = (Atoms::NONE, false);
        let mut from = used.reads | flags.reads;
        if let Some(reads) = x87::flows(instr, flags.reads, &memory, &mut flows) {
            from = reads;
        } else if let Some(pointers) = strings::flows(instr, &mut flows) {
            used.address |= pointers;
        } else if matches!(control, Control::Next | Control::System) {
            exchanges(instr, &mut used, &mut flows, memory.reads);
            let exchanged = !flows.is_empty() && instr.mnemonic() == Mnemonic::Xchg;
            let flow = Flow::new(used.writes, from).out_of_memory(memory.reads);
            let flow = if copies(instr) { flow.copied() } else { flow };
            flows.push(flow.into_memory(memory.writes && !memory.may && !exchanged));
            flows.push(Flow { to: used.may, ..flow }.into_memory(memory.may).uncertain());
        } else {
            // The address behind a call, which is a constant, is pushed; `loop` counts.
            flows.push(Flow::new(Atoms::NONE, Atoms::NONE).into_memory(control == Control::Call));
            flows.push(Flow::new(used.writes, used.writes));
            (decides, memory_decides) = (from, memory.reads);
        }
        flags.flow(&mut flows, from, memory.reads);
        flows.retain(|flow| !flow.is_empty());
        Effects { flows, address: used.address, control, decides, memory_decides }
    }

    fn memory(&mut self, instr: &Instruction) -> Memory {
        let mut memory = Memory { reads: false, writes: false, may: is_masked(instr) };
        for used in self.factory.info(instr).used_memory() {
            memory.reads |= reads(used.access());
            memory.writes |= writes(used.access());
            // Of string instructions, it is known which bytes they access, however often they repeat.
            memory.may |= may_write_only(used.access()) && !instr.is_string_instruction();
        }
        memory.may &= memory.writes;
        memory
    }

    fn used(&mut self, instr: &Instruction) -> Used {
        let mut used = Used { reads: Atoms::NONE, writes: Atoms::NONE, may: Atoms::NONE, address: Atoms::NONE };
        // Each use of an address is listed once among the others.
        let mut addresses: SmallVec<[Register; 3]> = SmallVec::new();
        if (0..instr.op_count()).any(|number| instr.op_kind(number) == OpKind::Memory) {
            addresses.extend([instr.memory_base(), instr.memory_index()]);
        }
        addresses.retain(|register| !matches!(register, Register::None | Register::RIP | Register::EIP));
        used.address = addresses.iter().filter_map(|register| Atoms::register(*register)).collect();
        match instr.memory_segment() {
            segment @ (Register::FS | Register::GS) if has_memory(instr) => {
                used.address |= Atoms::register(segment).unwrap_or_default();
            }
            _ => {}
        }
        let is_lea = instr.mnemonic() == Mnemonic::Lea;
        let mut skips_stack = moves_stack(instr);
        for register in self.factory.info(instr).used_registers() {
            let (name, access) = (register.register(), register.access());
            if matches!(name, Register::FS | Register::GS) {
                continue;
            }
            let Some(atoms) = Atoms::register(name) else { continue };
            let whole_stack = matches!(access, OpAccess::ReadWrite | OpAccess::Write) && name == Register::RSP;
            if skips_stack && whole_stack {
                skips_stack = false;
                continue;
            }
            if access == OpAccess::Read
                && !is_lea
                && let Some(at) = addresses.iter().position(|address| *address == name)
            {
                addresses.remove(at);
                continue;
            }
            if reads(access) {
                used.reads |= atoms;
            }
            match access {
                _ if may_write_only(access) => used.may |= atoms,
                _ if writes(access) && Atoms::X87_VALUES.has(atoms) => used.may |= atoms,
                _ if writes(access) => used.writes |= atoms,
                _ => {}
            }
        }
        if is_lea {
            used.address = Atoms::NONE;
        }
        match instr.mnemonic() {
            Mnemonic::Leave => used.reads = Atoms::NONE,
            // Without a shadow stack, these do nothing.
            Mnemonic::Rdsspd | Mnemonic::Rdsspq => (used.may, used.writes) = (used.writes, Atoms::NONE),
            // Only the lowest bytes are looked at.
            Mnemonic::Movd | Mnemonic::Vmovd | Mnemonic::Movq | Mnemonic::Vmovq
                if !used.reads.meets(Atoms::X87_VALUES) =>
            {
                let bytes = if matches!(instr.mnemonic(), Mnemonic::Movd | Mnemonic::Vmovd) { 4 } else { 8 };
                used.reads = used.reads.each().take(bytes).collect();
            }
            _ => {}
        }
        units::add(instr, &mut used);
        used
    }
}

/// Whether RSP goes up or down by a constant.
fn moves_stack(instr: &Instruction) -> bool {
    instr.is_stack_instruction() && instr.mnemonic() != Mnemonic::Enter
}

fn has_memory(instr: &Instruction) -> bool {
    (0..instr.op_count()).any(|number| {
        !matches!(
            instr.op_kind(number),
            OpKind::Register | OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        ) && instr.memory_size() != iced_x86::MemorySize::Unknown
    })
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn may_write_only(access: OpAccess) -> bool {
    matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite)
}

/// Instructions that write two things, each of which follows from the other one.
fn exchanges(instr: &Instruction, used: &mut Used, flows: &mut Flows, reads_memory: bool) {
    let register = |number| match instr.op_kind(number) {
        OpKind::Register => Atoms::register(instr.op_register(number)),
        _ => None,
    };
    let target = |number| widened(instr, number);
    match (instr.mnemonic(), register(0), register(1)) {
        (Mnemonic::Xchg, Some(first), Some(second)) => {
            flows.push(Flow::new(target(0), second).copied());
            flows.push(Flow::new(target(1), first).copied());
        }
        (Mnemonic::Xchg, None, Some(second)) => {
            flows.push(Flow::new(Atoms::NONE, second).into_memory(true).copied());
            flows.push(Flow::new(target(1), Atoms::NONE).out_of_memory(reads_memory).copied());
        }
        (Mnemonic::Xchg, Some(first), None) => {
            flows.push(Flow::new(Atoms::NONE, first).into_memory(true).copied());
            flows.push(Flow::new(target(0), Atoms::NONE).out_of_memory(reads_memory).copied());
        }
        _ => return,
    }
    used.writes = Atoms::NONE;
}

/// A register operand that is written, with what is zeroed beside it.
fn widened(instr: &Instruction, number: u32) -> Atoms {
    let register = instr.op_register(number);
    let whole = if register.is_gpr32() { register.full_register() } else { register };
    Atoms::register(whole).unwrap_or_default()
}

/// Whether a mask says which bytes of memory are written.
fn is_masked(instr: &Instruction) -> bool {
    matches!(
        instr.mnemonic(),
        Mnemonic::Vmaskmovps
            | Mnemonic::Vmaskmovpd
            | Mnemonic::Vpmaskmovd
            | Mnemonic::Vpmaskmovq
            | Mnemonic::Maskmovdqu
            | Mnemonic::Vmaskmovdqu
            | Mnemonic::Maskmovq
    )
}

/// Whether bytes are only copied, to the lowest ones of what is written.
fn copies(instr: &Instruction) -> bool {
    let is_constant = |number| !matches!(instr.op_kind(number), OpKind::Register | OpKind::Memory);
    if (0..instr.op_count()).any(is_constant) {
        return false;
    }
    match instr.mnemonic() {
        Mnemonic::Mov => {
            let is_plain = |number| instr.op_kind(number) != OpKind::Register || instr.op_register(number).is_gpr();
            is_plain(0) && is_plain(1)
        }
        Mnemonic::Movzx
        | Mnemonic::Push
        | Mnemonic::Pop
        | Mnemonic::Leave
        | Mnemonic::Movaps
        | Mnemonic::Movapd
        | Mnemonic::Movups
        | Mnemonic::Movupd
        | Mnemonic::Movdqa
        | Mnemonic::Movdqu
        | Mnemonic::Lddqu
        | Mnemonic::Movntdq
        | Mnemonic::Movntps
        | Mnemonic::Movntpd
        | Mnemonic::Movnti
        | Mnemonic::Movntdqa
        | Mnemonic::Vmovaps
        | Mnemonic::Vmovapd
        | Mnemonic::Vmovups
        | Mnemonic::Vmovupd
        | Mnemonic::Vmovdqa
        | Mnemonic::Vmovdqu
        | Mnemonic::Vlddqu => true,
        // With a register of the unit, which is one, nothing is told apart.
        Mnemonic::Movd | Mnemonic::Movq | Mnemonic::Vmovd | Mnemonic::Vmovq => {
            !(0..2).any(|number| instr.op_kind(number) == OpKind::Register && instr.op_register(number).is_mm())
                && !matches!(instr.code(), Code::INVALID)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn said(code: &[u8]) -> String {
        let effects = Decoding::default().effects(&Decoder::new(64, code, DecoderOptions::NONE).decode());
        let side = |atoms: Atoms, memory: bool| {
            let parts = [(!atoms.is_empty()).then(|| atoms.to_string()), memory.then(|| "memory".into())];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        let flow = |flow: &Flow| {
            let arrow = match (flow.how, flow.certain) {
                (How::Copied, _) => "=",
                (How::Renamed, _) => "is",
                (_, true) => "<-",
                (_, false) => "<?",
            };
            format!("{} {arrow} {}", side(flow.to, flow.to_memory), side(flow.from, flow.from_memory)).trim().to_owned()
        };
        let mut all: Vec<String> = effects.flows.iter().map(flow).collect();
        let decides = side(effects.decides, effects.memory_decides);
        all.extend((!decides.is_empty()).then(|| format!("goes by {decides}")));
        all.extend((!effects.address.is_empty()).then(|| format!("at {}", effects.address)));
        all.join("; ")
    }

    #[test]
    fn what_follows_from_what() {
        // push rax; pop rcx; leave; call rdx; ret
        assert_eq!(said(&[0x50]), "RSP <- RSP; memory = RAX; at RSP");
        assert_eq!(said(&[0x59]), "RSP <- RSP; RCX = memory; at RSP");
        assert_eq!(said(&[0xc9]), "RSP <- RBP; RBP = memory; at RBP");
        assert_eq!(said(&[0xff, 0xd2]), "RSP <- RSP; memory <-; goes by RDX; at RSP");
        assert_eq!(said(&[0xc3]), "RSP <- RSP; goes by memory; at RSP");
        // xor eax, eax; pxor xmm1, xmm1: of nothing.
        assert_eq!(said(&[0x31, 0xc0]), "RAX <-; CF PF ZF SF OF <-; AF <?");
        assert_eq!(said(&[0x66, 0x0f, 0xef, 0xc9]), "XMM1 <-");
        // mov al, [rbx+rcx]; movzx edx, ah; lea rsi, [rdi+8]; xchg rax, rbx
        assert_eq!(said(&[0x8a, 0x04, 0x0b]), "AL = memory; at RCX RBX");
        assert_eq!(said(&[0x0f, 0xb6, 0xd4]), "RDX = RAX[1..2]");
        assert_eq!(said(&[0x48, 0x8d, 0x77, 8]), "RSI <- RDI");
        assert_eq!(said(&[0x48, 0x93]), "RBX = RAX; RAX = RBX");
        // cmovz eax, ecx; setc dl; jz; shl rax, cl
        assert_eq!(said(&[0x0f, 0x44, 0xc1]), "RAX <- EAX ECX ZF");
        assert_eq!(said(&[0x0f, 0x92, 0xc2]), "DL <- CF");
        assert_eq!(said(&[0x74, 0]), "goes by ZF");
        assert_eq!(said(&[0x48, 0xd3, 0xe0]), "RAX <- RAX CL; CF PF AF ZF SF OF <? RAX CL");
        // rep movsb; repne scasb
        assert_eq!(
            said(&[0xf3, 0xa4]),
            "memory = memory; RSI <- RCX RSI DF; RDI <- RCX RDI DF; RCX <- RCX; at RCX RSI RDI DF"
        );
        assert_eq!(
            said(&[0xf2, 0xae]),
            "RDI <- AL RCX RDI DF memory; RCX <- AL RCX memory; CF PF AF ZF SF OF <? AL RCX RDI DF memory; at RCX RDI DF"
        );
        // mov rax, fs:[0x28]; movsd xmm0, [rsi] writes all of the register, addsd its lower half
        assert_eq!(said(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]), "RAX = memory; at FS base");
        assert_eq!(said(&[0x66, 0x0f, 0x6f, 0x06]), "XMM0 = memory; at RSI");
    }
}
