//! What is said of instructions is so: each form is executed with random registers and memory. What changes is said to be written; what
//! is written is the same whatever everything else holds that it is not said to follow from.

mod native;

use bugnet_events::atoms::Atoms;
use bugnet_events::effects::{Control, Decoding, Effects, Flow, How};
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, EncodingKind, Formatter, Instruction, InstructionInfoFactory,
    IntelFormatter, MemorySize, Mnemonic, OpAccess, OpCodeOperandKind as Kind, OpKind, Register,
};
use native::{MEMORY, Native, State};
use std::collections::BTreeMap;

/// How often each form is tried, with other operands each time.
const TRIES: usize = 16;

fn number(first: Register, number: u32) -> Register {
    Register::values().nth(first as usize + number as usize).unwrap()
}

/// An instruction of this form with random operands; `None`: it is none that is tried.
fn make(code: Code, memory: u64, random: &mut fastrand::Rng) -> Option<Instruction> {
    let info = code.op_code();
    let mut instr = Instruction::new();
    instr.set_code(code);
    let any = |random: &mut fastrand::Rng, first| number(first, random.u32(0..16));
    let byte = |random: &mut fastrand::Rng| match random.u32(0..8) {
        // AH to BH fit few instructions.
        0 => number(Register::AH, random.u32(0..4)),
        _ => [Register::AL, Register::CL, Register::DL, Register::BL, Register::R9L][random.usize(0..5)],
    };
    let mut gathers = None;
    for operand in 0..info.op_count() {
        let kind = info.op_kind(operand);
        let mem = random.bool();
        let register = match kind {
            Kind::r8_or_mem if !mem => Some(byte(random)),
            Kind::r16_or_mem if !mem => Some(any(random, Register::AX)),
            Kind::r32_or_mem if !mem => Some(any(random, Register::EAX)),
            Kind::r64_or_mem if !mem => Some(any(random, Register::RAX)),
            Kind::mm_or_mem if !mem => Some(number(Register::MM0, random.u32(0..8))),
            Kind::xmm_or_mem if !mem => Some(any(random, Register::XMM0)),
            Kind::ymm_or_mem if !mem => Some(any(random, Register::YMM0)),
            Kind::r8_or_mem
            | Kind::r16_or_mem
            | Kind::r32_or_mem
            | Kind::r64_or_mem
            | Kind::mm_or_mem
            | Kind::xmm_or_mem
            | Kind::ymm_or_mem
            | Kind::mem => None,
            Kind::mem_vsib32x | Kind::mem_vsib64x => {
                gathers = Some(Register::XMM0);
                None
            }
            Kind::mem_vsib32y | Kind::mem_vsib64y => {
                gathers = Some(Register::YMM0);
                None
            }
            Kind::r8_reg | Kind::r8_opcode => Some(byte(random)),
            Kind::r16_reg | Kind::r16_rm | Kind::r16_opcode => Some(any(random, Register::AX)),
            Kind::r32_reg | Kind::r32_rm | Kind::r32_opcode | Kind::r32_vvvv => Some(any(random, Register::EAX)),
            Kind::r64_reg | Kind::r64_rm | Kind::r64_opcode | Kind::r64_vvvv => Some(any(random, Register::RAX)),
            Kind::mm_reg | Kind::mm_rm => Some(number(Register::MM0, random.u32(0..8))),
            Kind::xmm_reg | Kind::xmm_rm | Kind::xmm_vvvv | Kind::xmm_is4 => Some(any(random, Register::XMM0)),
            Kind::ymm_reg | Kind::ymm_rm | Kind::ymm_vvvv | Kind::ymm_is4 => Some(any(random, Register::YMM0)),
            Kind::al => Some(Register::AL),
            Kind::cl => Some(Register::CL),
            Kind::ax => Some(Register::AX),
            Kind::dx => Some(Register::DX),
            Kind::eax => Some(Register::EAX),
            Kind::rax => Some(Register::RAX),
            Kind::st0 => Some(Register::ST0),
            Kind::sti_opcode => Some(number(Register::ST0, random.u32(0..8))),
            Kind::imm8 => {
                instr.set_op_kind(operand, OpKind::Immediate8);
                instr.set_immediate8(random.u8(..));
                continue;
            }
            Kind::imm4_m2z => return None,
            Kind::imm8_const_1 => {
                instr.set_op_kind(operand, OpKind::Immediate8);
                instr.set_immediate8(1);
                continue;
            }
            Kind::imm8sex16 => {
                instr.set_op_kind(operand, OpKind::Immediate8to16);
                instr.set_immediate8to16(random.i8(..).into());
                continue;
            }
            Kind::imm8sex32 => {
                instr.set_op_kind(operand, OpKind::Immediate8to32);
                instr.set_immediate8to32(random.i8(..).into());
                continue;
            }
            Kind::imm8sex64 => {
                instr.set_op_kind(operand, OpKind::Immediate8to64);
                instr.set_immediate8to64(random.i8(..).into());
                continue;
            }
            Kind::imm16 => {
                instr.set_op_kind(operand, OpKind::Immediate16);
                instr.set_immediate16(random.u16(..));
                continue;
            }
            Kind::imm32 => {
                instr.set_op_kind(operand, OpKind::Immediate32);
                instr.set_immediate32(random.u32(..));
                continue;
            }
            Kind::imm32sex64 => {
                instr.set_op_kind(operand, OpKind::Immediate32to64);
                instr.set_immediate32to64(random.i32(..).into());
                continue;
            }
            Kind::imm64 => {
                instr.set_op_kind(operand, OpKind::Immediate64);
                instr.set_immediate64(random.u64(..));
                continue;
            }
            Kind::seg_rSI => {
                instr.set_op_kind(operand, OpKind::MemorySegRSI);
                continue;
            }
            Kind::es_rDI => {
                instr.set_op_kind(operand, OpKind::MemoryESRDI);
                continue;
            }
            Kind::seg_rDI => {
                instr.set_op_kind(operand, OpKind::MemorySegRDI);
                continue;
            }
            Kind::seg_rBX_al => {
                instr.set_op_kind(operand, OpKind::Memory);
                instr.set_memory_base(Register::RBX);
                instr.set_memory_index(Register::AL);
                instr.set_memory_index_scale(1);
                continue;
            }
            Kind::mem_offs => {
                instr.set_op_kind(operand, OpKind::Memory);
                instr.set_memory_displacement64(memory + MEMORY as u64 / 2);
                instr.set_memory_displ_size(8);
                continue;
            }
            _ => return None,
        };
        match register {
            Some(register) => {
                instr.set_op_kind(operand, OpKind::Register);
                instr.set_op_register(operand, register);
            }
            None => {
                instr.set_op_kind(operand, OpKind::Memory);
                instr.set_memory_base(any(random, Register::RAX));
                if let Some(first) = gathers {
                    instr.set_memory_index(any(random, first));
                    instr.set_memory_index_scale(1);
                } else if random.bool() {
                    let index = any(random, Register::RAX);
                    if index != Register::RSP && index != instr.memory_base() {
                        instr.set_memory_index(index);
                        instr.set_memory_index_scale(1 << random.u32(0..4));
                    }
                }
            }
        }
    }
    if instr.is_string_instruction() && random.bool() {
        if matches!(format!("{:?}", instr.mnemonic()).get(..4), Some("Cmps" | "Scas")) && random.bool() {
            instr.set_has_repne_prefix(true);
        } else {
            instr.set_has_rep_prefix(true);
        }
    }
    Some(instr)
}

/// Whether a form is one that programs execute, and replay, too.
fn is_tried(code: Code) -> bool {
    let info = code.op_code();
    let name = format!("{:?}", code.mnemonic()).to_lowercase();
    // The recorder writes down what these did.
    const RECORDED: [&str; 28] = [
        "rdtsc", "rdtscp", "rdpid", "cpuid", "rdrand", "rdseed", "xgetbv", "rdfsbase", "rdgsbase", "wrfsbase",
        "wrgsbase", "sgdt", "sidt", "sldt", "str", "smsw", "lsl", "lar", "verr", "verw", "rdpmc", "rdpru", "fnsave",
        "fnstenv", "fsave", "fstenv", "monitor", "mwait",
    ];
    const OTHERS: [&str; 18] = [
        "xbegin",
        "xend",
        "xabort",
        "xtest",
        "enqcmd",
        "umonitor",
        "umwait",
        "tpause",
        "clui",
        "stui",
        "testui",
        "senduipi",
        "uiret",
        "serialize",
        "ptwrite",
        "incsspd",
        "incsspq",
        "movdir64b",
    ];
    info.is_available_in_mode(64)
        && info.is_instruction()
        && matches!(info.encoding(), EncodingKind::Legacy | EncodingKind::VEX)
        && !info.is_privileged()
        && !info.must_be_cpl0()
        && !info.is_input_output()
        && !info.is_reserved_nop()
        && !info.fwait()
        && !name.contains("save")
        && !name.contains("rstor")
        && !RECORDED.contains(&name.as_str())
        && !OTHERS.contains(&name.as_str())
        && !name.starts_with("int")
        && !name.starts_with("sys")
        && !matches!(code.mnemonic(), Mnemonic::Popf | Mnemonic::Popfq | Mnemonic::Enter)
}

/// Parts of memory that an instruction writes, by its registers.
fn ranges(
    instr: &Instruction,
    state: &State,
    want: impl Fn(OpAccess) -> bool,
    memory: u64,
) -> Option<Vec<(usize, usize)>> {
    let mut factory = InstructionInfoFactory::new();
    let mut all = Vec::new();
    for used in factory.info(instr).used_memory() {
        if !want(used.access()) {
            continue;
        }
        let size = match used.memory_size() {
            MemorySize::Unknown => return None,
            size => size.size(),
        };
        let address = used.virtual_address(0, |register, _, _| match register {
            Register::FS | Register::GS => None,
            _ if register.is_segment_register() => Some(0),
            _ if register.is_gpr() => Some(state.gpr[register.number()]),
            _ => None,
        })?;
        let at = address.wrapping_sub(memory) as usize;
        if at > MEMORY || at + size > MEMORY {
            return None;
        }
        all.push((at, size));
    }
    Some(all)
}

/// Makes addresses those of the memory.
fn aim(instr: &Instruction, effects: &Effects, state: &mut State, native: &Native, random: &mut fastrand::Rng) {
    let middle = native.memory + MEMORY as u64 / 2 + random.u64(0..16) * 16;
    let repeats = instr.is_string_instruction();
    for register in 0..16 {
        if !effects.address.meets(Atoms::gpr(register)) {
            continue;
        }
        let name = number(Register::RAX, register as u32);
        let is_index = instr.memory_index() == name && instr.memory_base() != name && has_memory(instr);
        state.gpr[register] = match register {
            1 if repeats => random.u64(0..6),
            _ if is_index => random.u64(0..8),
            _ => middle,
        };
    }
    if matches!(instr.mnemonic(), Mnemonic::Bt | Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts)
        && has_memory(instr)
        && instr.op1_kind() == OpKind::Register
        && !effects.address.meets(Atoms::gpr(instr.op1_register().number()))
    {
        // It counts bits from the operand on.
        state.gpr[instr.op1_register().number()] = random.u64(0..1024);
    }
    if has_memory(instr) && instr.memory_index().is_vector_register() {
        let index = &mut state.ymm[instr.memory_index().number()];
        index.fill(0);
        index.iter_mut().step_by(4).for_each(|low| *low = random.u8(..));
        if instr.vsib() == Some(true) {
            index.iter_mut().skip(4).step_by(8).for_each(|low| *low = 0);
        }
    }
}

fn has_memory(instr: &Instruction) -> bool {
    (0..instr.op_count()).any(|operand| instr.op_kind(operand) == OpKind::Memory)
}

fn is_straight(code: Code) -> bool {
    Instruction::with(code).flow_control() == iced_x86::FlowControl::Next
}

struct Checker {
    native: Native,
    random: fastrand::Rng,
    problems: BTreeMap<String, String>,
}

impl Checker {
    fn problem(&mut self, instr: &Instruction, what: String) {
        let mut text = String::new();
        IntelFormatter::new().format(instr, &mut text);
        self.problems.entry(format!("{:?}", instr.code())).or_insert(format!("{text}: {what}"));
    }

    /// Whether the instruction could be executed.
    fn check(&mut self, instr: &Instruction, code: &[u8], effects: &Effects) -> Result<(), i32> {
        let mut before = State::random(&mut self.random);
        aim(instr, effects, &mut before, &self.native, &mut self.random);
        let mut after = before.clone();
        self.native.run(code, &mut after)?;
        let (was, is) = (before.values(), after.values());
        for atom in (!effects.writes()).each() {
            if was.get(&atom) != is.get(&atom) {
                self.problem(instr, format!("{atom} changes, but is not written"));
            }
        }
        let to_memory = effects.flows.iter().any(|flow| flow.to_memory);
        if !to_memory && before.memory != after.memory {
            self.problem(instr, "memory changes, but is not written".into());
        }
        for flow in &effects.flows {
            self.check_flow(instr, code, effects, flow, &before, &after);
        }
        Ok(())
    }

    /// What is written is the same whatever the rest is.
    fn check_flow(
        &mut self,
        instr: &Instruction,
        code: &[u8],
        effects: &Effects,
        flow: &Flow,
        before: &State,
        after: &State,
    ) {
        let mut other = State::random(&mut self.random);
        // A gather's memory is at many places.
        let keeps = flow.from | effects.address | if flow.certain { Atoms::NONE } else { flow.to };
        other.take(keeps, before);
        // Uncertain flows of x87 leave parts of it as they are, and so do those to memory.
        if flow.from_memory || !flow.certain && flow.to_memory {
            other.memory = before.memory;
        }
        let start = other.clone();
        if let Err(signal) = self.native.run(code, &mut other) {
            return self.problem(instr, format!("for {flow:?}: signal {signal} with other registers"));
        }
        let (is, would_be) = (after.values(), other.values());
        for atom in flow.to.each() {
            if is.get(&atom) != would_be.get(&atom) {
                return self.problem(instr, format!("{atom} does not follow from {}", flow.from));
            }
        }
        let writes = |access| {
            matches!(access, OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite)
        };
        let Some(written) = ranges(instr, before, writes, self.native.memory) else { return };
        if flow.to_memory {
            for (at, size) in &written {
                if after.memory[*at..at + size] != other.memory[*at..at + size] {
                    return self.problem(instr, format!("memory does not follow from {}", flow.from));
                }
            }
        }
        if flow.how == How::Renamed {
            let (from, to) = (start.values(), would_be);
            let is_same = |(name, before): (Atoms, Atoms)| to.get(&name) == from.get(&before);
            if flow.to.count() != flow.from.count() || !flow.to.each().zip(flow.from.each()).all(is_same) {
                self.problem(instr, format!("{} is not what {} was", flow.to, flow.from));
            }
        }
        if flow.how == How::Copied {
            let reads = |access| matches!(access, OpAccess::Read | OpAccess::ReadWrite);
            let Some(read) = ranges(instr, before, reads, self.native.memory) else { return };
            let bytes = |state: &State, atoms: Atoms| {
                let values = state.values();
                atoms.each().filter_map(|atom| values.get(&atom)).map(|value| *value as u8).collect::<Vec<u8>>()
            };
            let of = |state: &State, ranges: &[(usize, usize)]| {
                ranges.iter().flat_map(|(at, size)| state.memory[*at..at + size].to_vec()).collect::<Vec<u8>>()
            };
            let from = if flow.from_memory { of(&start, &read) } else { bytes(&start, flow.from) };
            let to = if flow.to_memory { of(&other, &written) } else { bytes(&other, flow.to) };
            let same = from.iter().zip(&to).all(|(a, b)| a == b);
            if !same || from.len() < to.len() && to[from.len()..].iter().any(|byte| *byte != 0) {
                self.problem(instr, format!("{to:x?} is no copy of {from:x?}"));
            }
        }
    }
}

#[test]
fn instructions_write_what_is_said_from_what_is_said() {
    let random = fastrand::Rng::with_seed(3);
    let mut checker = Checker { native: Native::new(), random, problems: BTreeMap::new() };
    let mut decoding = Decoding::default();
    let (mut forms, mut unsupported, mut not_made) = (0, 0, Vec::new());
    for form in Code::values().filter(|code| is_tried(*code)) {
        let (mut ran, mut made) = (0, false);
        for _ in 0..TRIES {
            let Some(instr) = make(form, checker.native.memory, &mut checker.random) else { continue };
            let mut encoder = Encoder::new(64);
            if encoder.encode(&instr, checker.native.pc()).is_err() {
                continue;
            }
            let code = encoder.take_buffer();
            let instr = Decoder::with_ip(64, &code, checker.native.pc(), DecoderOptions::NONE).decode();
            if instr.code() != form {
                continue;
            }
            made = true;
            let effects = decoding.effects(&instr);
            let counts_bits = matches!(instr.mnemonic(), Mnemonic::Bt | Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts);
            let counts_from_itself = counts_bits
                && has_memory(&instr)
                && effects.address.meets(Atoms::register(instr.op1_register()).unwrap_or_default());
            if effects.control != Control::Next || counts_from_itself {
                continue;
            }
            match checker.check(&instr, &code, &effects) {
                Ok(()) => ran += 1,
                Err(libc::SIGILL) => break,
                // Divisions and the like.
                Err(_) => {}
            }
        }
        match (made, ran) {
            (false, _) => not_made.push(form),
            (true, 0) => unsupported += 1,
            _ => forms += 1,
        }
    }
    not_made.retain(|form| is_straight(*form));
    println!("{forms} forms, {unsupported} not executed here, {} not made: {not_made:?}", not_made.len());
    let problems: Vec<_> = checker.problems.values().map(String::as_str).collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(forms > 600, "only {forms} forms were tried");
}
