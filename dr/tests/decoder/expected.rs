//! What is to be done with an instruction, and where the two decoders may disagree.

use crate::Check;
use crate::iced;
use bugnet_dr::access::Action;
use iced_x86::{Code, CpuidFeature, EncodingKind, Instruction, InstructionInfo, MemorySize, Mnemonic, Register};

/// [`Action`] without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Execute,
    Repeat,
    Syscall,
    Special,
    Result,
    OpaqueStore,
    Emulate,
    Unsupported,
}

impl Outcome {
    pub fn of(action: &Action) -> Self {
        match action {
            Action::Execute { .. } => Self::Execute,
            Action::Repeat(_) => Self::Repeat,
            Action::Syscall => Self::Syscall,
            Action::Special(_) => Self::Special,
            Action::Result(_) => Self::Result,
            Action::OpaqueStore { .. } => Self::OpaqueStore,
            Action::Emulate(_) => Self::Emulate,
            Action::Unsupported(_) => Self::Unsupported,
        }
    }
}

/// What is to be done with an instruction.
pub fn outcome(instr: &Instruction, info: &InstructionInfo) -> Outcome {
    use Mnemonic::*;
    if unsupported(instr, info) {
        return Outcome::Unsupported;
    }
    if emulated(instr, info) {
        return Outcome::Emulate;
    }
    match instr.mnemonic() {
        Syscall => Outcome::Syscall,
        Sysenter => Outcome::Unsupported,
        Cpuid | Rdtsc | Rdtscp | Rdpid | Rdrand | Rdseed | Xgetbv | Rdfsbase | Rdgsbase | Wrfsbase | Wrgsbase => {
            Outcome::Special
        }
        Rdpmc | Lar | Lsl | Verr | Verw => Outcome::Result,
        Sldt | Str | Smsw if instr.op0_register() != Register::None => Outcome::Result,
        Sldt | Str | Smsw | Sgdt | Sidt => Outcome::OpaqueStore,
        Fxsave | Fxsave64 | Xsave | Xsave64 | Xsaveopt | Xsaveopt64 | Xsavec | Xsavec64 | Fnsave | Fnstenv => {
            Outcome::OpaqueStore
        }
        _ if iced::repeats(instr) => Outcome::Repeat,
        _ => Outcome::Execute,
    }
}

fn emulated(instr: &Instruction, info: &InstructionInfo) -> bool {
    let short_address = info.used_memory().iter().any(|memory| memory.address_size() == iced_x86::CodeSize::Code32);
    let segmented = info.used_memory().iter().any(|memory| matches!(memory.segment(), Register::FS | Register::GS));
    let compares = iced::compares(instr);
    let selector = |n| Some(instr.op_register(n)).filter(|register| register.is_segment_register());
    let (to, from) = (selector(0), (instr.op_count() > 1).then(|| selector(1)).flatten());
    match instr.mnemonic() {
        Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq | Mnemonic::Retf => return true,
        Mnemonic::Push | Mnemonic::Pop => return to.is_some(),
        Mnemonic::Mov => return to.is_some() || from.is_some_and(|from| !matches!(from, Register::CS | Register::SS)),
        Mnemonic::Lss | Mnemonic::Lfs | Mnemonic::Lgs => return true,
        _ if instr.is_call_far_indirect() || instr.is_jmp_far_indirect() => return true,
        _ => {}
    }
    instr.is_string_instruction()
        && (segmented || iced::repeats(instr) && short_address || instr.has_repne_prefix() && !compares)
}

fn unsupported(instr: &Instruction, info: &InstructionInfo) -> bool {
    use Mnemonic::*;
    let short_address = info.used_memory().iter().any(|memory| memory.address_size() == iced_x86::CodeSize::Code32);
    let mut registers = info.used_registers().iter();
    match instr.mnemonic() {
        Wrfsbase | Wrgsbase => false,
        Xbegin | Enclu | Rdpkru | Wrpkru => true,
        Xlatb => short_address,
        // At an address that depends on what selects the state components.
        Xsave | Xsave64 | Xsaveopt | Xsaveopt64 | Xsavec | Xsavec64 => [instr.memory_base(), instr.memory_index()]
            .iter()
            .any(|register| matches!(register.full_register(), Register::RAX | Register::RDX)),
        _ => {
            (instr.is_call_far_indirect() || instr.is_jmp_far_indirect())
                && matches!(instr.memory_size(), MemorySize::SegPtr64)
                || matches!(instr.mnemonic(), Lss | Lfs | Lgs) && instr.op0_register().is_gpr64()
                || matches!(instr.code(), Code::Enterw_imm16_imm8 | Code::Movsxd_r16_rm16)
                || instr.encoding() == EncodingKind::EVEX
                || registers.any(|used| used.register().is_k())
                || instr.is_vsib() && short_address
        }
    }
}

/// Addresses of a form that no program has a use for, which may be refused: relative to both RIP and FS or GS, constants
/// that need 64 bits with FS or GS, and negative constants that a prefix cuts to 32 bits.
pub fn has_odd_address(instr: &Instruction) -> bool {
    let segmented = matches!(instr.memory_segment(), Register::FS | Register::GS);
    let constant = instr.memory_base() == Register::None && instr.memory_index() == Register::None;
    let address = instr.memory_displacement64();
    let long = i32::try_from(address.cast_signed()).is_err();
    let cut = u32::try_from(address).is_ok();
    instr.is_ip_rel_memory_operand() && segmented || constant && long && (segmented || cut)
}

/// Instructions that no program executes while it is recorded.
pub fn out_of_reach(code: Code) -> bool {
    code.cpuid_features().iter().any(|feature| OUT_OF_REACH.iter().any(|(features, _)| features.contains(feature)))
}

const OUT_OF_REACH: &[(&[CpuidFeature], &str)] = &[
    (
        &[
            CpuidFeature::AESKLE,
            CpuidFeature::AMX_BF16,
            CpuidFeature::AMX_COMPLEX,
            CpuidFeature::AMX_FP16,
            CpuidFeature::AMX_INT8,
            CpuidFeature::AMX_TILE,
            CpuidFeature::CET_SS,
            CpuidFeature::HRESET,
            CpuidFeature::KL,
            CpuidFeature::UINTR,
            CpuidFeature::WAITPKG,
            CpuidFeature::WIDE_KL,
        ],
        "CPUID does not show them to a recorded program",
    ),
    (
        &[
            CpuidFeature::AVX_IFMA,
            CpuidFeature::AVX_NE_CONVERT,
            CpuidFeature::AVX_VNNI_INT16,
            CpuidFeature::AVX_VNNI_INT8,
            CpuidFeature::CLZERO,
            CpuidFeature::CMPCCXADD,
            CpuidFeature::PADLOCK_ACE,
            CpuidFeature::PADLOCK_GMI,
            CpuidFeature::PADLOCK_PHE,
            CpuidFeature::PADLOCK_PMM,
            CpuidFeature::PADLOCK_RNG,
            CpuidFeature::PADLOCK_UNDOC,
            CpuidFeature::PREFETCHWT1,
            CpuidFeature::RAO_INT,
            CpuidFeature::RDPRU,
            CpuidFeature::SHA512,
            CpuidFeature::SM3,
            CpuidFeature::SM4,
        ],
        "DynamoRIO does not know them: they end in SIGILL",
    ),
    (&[CpuidFeature::VMX], "only virtual machine monitors can use them"),
];

/// Checks that these instructions need not pass, and why.
pub const EXCEPTIONS: &[(&[Check], &[Mnemonic], &str)] = &[
    (
        &[Check::Known],
        &[
            Mnemonic::Fndisi,
            Mnemonic::Fneni,
            Mnemonic::Fnsetpm,
            Mnemonic::Prefetch,
            Mnemonic::Prefetchw,
            Mnemonic::Reservednop,
            Mnemonic::Ud0,
        ],
        "no program contains them, and in DynamoRIO they end in SIGILL",
    ),
    (&[Check::Length], &[Mnemonic::Xbegin], "unsupported anyway"),
    (&[Check::Reads], &[Mnemonic::Clflush, Mnemonic::Clflushopt, Mnemonic::Clwb], "what is read goes nowhere"),
    (&[Check::Reads], &[Mnemonic::Unpcklpd, Mnemonic::Unpcklps], "only the low half of the aligned 16 bytes is used"),
    (
        &[Check::Reads],
        &[
            Mnemonic::Maskmovdqu,
            Mnemonic::Maskmovq,
            Mnemonic::Vmaskmovdqu,
            Mnemonic::Vmaskmovpd,
            Mnemonic::Vmaskmovps,
            Mnemonic::Vpmaskmovd,
            Mnemonic::Vpmaskmovq,
        ],
        "masked stores count as if they read what they leave alone",
    ),
    (
        &[Check::Reads, Check::Writes],
        &[
            Mnemonic::Xrstor,
            Mnemonic::Xrstor64,
            Mnemonic::Xsave,
            Mnemonic::Xsave64,
            Mnemonic::Xsavec,
            Mnemonic::Xsavec64,
            Mnemonic::Xsaveopt,
            Mnemonic::Xsaveopt64,
        ],
        "the size depends on registers: the largest one is taken, as far as memory is mapped",
    ),
    (&[Check::GprsNamed], &[Mnemonic::Mwaitx], "nothing is inserted where no memory is touched"),
    (
        &[Check::FlagsOverwritten],
        &[Mnemonic::And, Mnemonic::Or, Mnemonic::Xor, Mnemonic::Test],
        "AF is undefined but zero on every processor",
    ),
    (&[Check::FlagsOnlyRead], &[Mnemonic::Int, Mnemonic::Int1, Mnemonic::Int3], "a signal handler sees them"),
];
