//! What instructions of the x87 unit do. Its registers are named from the top of its stack, as instructions name them: where the top moves, each
//! register has another name from there on, and its value stays what it is. So nobody has to know where the top is.
//!
//! Instructions count as completed, also those that raise an exception which is not masked: the next one of the unit raises the signal.

use super::{Flow, Flows, Memory};
use crate::atoms::Atoms;
use iced_x86::{CpuidFeature, Instruction, Mnemonic, OpKind};
use smallvec::{SmallVec, smallvec};

/// Registers of the unit.
const COUNT: i32 = Atoms::X87_REGISTERS as i32;
/// By its name before, the register that becomes the top where a value is pushed.
const PUSHED: i32 = COUNT - 1;

/// Whether it is an instruction of the unit.
pub fn is_of_unit(instr: &Instruction) -> bool {
    let features = [CpuidFeature::FPU, CpuidFeature::FPU287, CpuidFeature::FPU387];
    instr.cpuid_features().iter().any(|feature| features.contains(feature))
}

/// Adds what an instruction of the unit does, but for the processor's flags; what it reads, beside memory. `None`: it is none, or one that changes
/// more than a few registers, or may or may not push.
pub fn flows(instr: &Instruction, flags: Atoms, memory: &Memory, flows: &mut Flows) -> Option<Atoms> {
    if !is_of_unit(instr) {
        return None;
    }
    let status = Atoms::X87_CONDITIONS | Atoms::X87_C1 | Atoms::X87_EXCEPTIONS | Atoms::X87_STACK;
    let loaded = |to, from| Flow::new(to, from).out_of_memory(memory.reads);
    match instr.mnemonic() {
        Mnemonic::Wait | Mnemonic::Fnop => return Some(Atoms::NONE),
        Mnemonic::Fnstcw | Mnemonic::Fstcw => {
            flows.push(Flow::new(Atoms::NONE, Atoms::X87_CONTROL).into_memory(true));
            return Some(Atoms::X87_CONTROL);
        }
        Mnemonic::Fldcw => {
            flows.push(loaded(Atoms::X87_CONTROL, Atoms::NONE));
            // An exception may be no longer masked.
            flows.push(loaded(Atoms::X87_EXCEPTIONS, Atoms::X87_EXCEPTIONS));
            return Some(Atoms::X87_EXCEPTIONS);
        }
        Mnemonic::Fnstsw | Mnemonic::Fstsw => {
            let to = Atoms::register(instr.op0_register()).unwrap_or_default();
            flows.push(Flow::new(to, status).into_memory(memory.writes));
            return Some(status);
        }
        Mnemonic::Fnclex | Mnemonic::Fclex => {
            let undefined = Atoms::X87_CONDITIONS | Atoms::X87_C1;
            flows.push(Flow::new(Atoms::X87_EXCEPTIONS, Atoms::NONE));
            flows.push(Flow::new(undefined, undefined).uncertain());
            return Some(undefined);
        }
        _ => {}
    }
    let Done { results, reads } = Done::by(instr, flags, memory)?;
    let modes = Atoms::X87_CONTROL | Atoms::X87_STACK;
    let up = instr.fpu_stack_increment_info().increment();
    for (register, from) in &results {
        flows.push(loaded(Atoms::x87(renamed(*register, up)), *from | modes));
    }
    flows.push(Flow::new(Atoms::NONE, reads | modes).into_memory(memory.writes));
    let compared = if compares(instr) { Atoms::X87_CONDITIONS | Atoms::X87_C1 } else { Atoms::NONE };
    let noticed = Atoms::X87_CONDITIONS | Atoms::X87_C1 | Atoms::X87_EXCEPTIONS;
    flows.push(loaded(compared, reads | modes));
    flows.push(loaded(noticed - compared, reads | modes).uncertain());
    if up != 0 || !results.is_empty() || instr.mnemonic() == Mnemonic::Ffree {
        flows.push(Flow::new(Atoms::X87_STACK, modes));
    }
    rename(|register| results.iter().all(|(written, _)| *written != register), up, flows);
    Some(reads | modes)
}

/// What becomes of registers, by their names before.
struct Done {
    /// Which are written, each with what it follows from.
    results: SmallVec<[(i32, Atoms); 2]>,
    /// All that is read.
    reads: Atoms,
}

impl Done {
    fn by(instr: &Instruction, flags: Atoms, memory: &Memory) -> Option<Self> {
        use Mnemonic as M;
        let named = |operand| {
            let is_register = operand < instr.op_count() && instr.op_kind(operand) == OpKind::Register;
            let register = is_register.then(|| instr.op_register(operand)).filter(|register| register.is_st());
            register.map(|register| register.number() as i32)
        };
        let operands: Atoms = (0..2).filter_map(named).map(Atoms::x87).collect();
        let (top, second) = (Atoms::x87(0), Atoms::x87(1));
        let results: SmallVec<[(i32, Atoms); 2]> = match instr.mnemonic() {
            M::Fld => smallvec![(PUSHED, operands)],
            M::Fild | M::Fbld | M::Fld1 | M::Fldl2t | M::Fldl2e | M::Fldpi | M::Fldlg2 | M::Fldln2 | M::Fldz => {
                smallvec![(PUSHED, Atoms::NONE)]
            }
            M::Fst | M::Fstp if !memory.writes => smallvec![(named(0)?, top)],
            // It writes nothing where the top is empty.
            M::Fstpnce => smallvec![(named(0)?, top | operands)],
            M::Fst | M::Fstp | M::Fist | M::Fistp | M::Fisttp | M::Fbstp => return Some(Self::nothing(top)),
            M::Fxch => {
                let other = named(1).or(named(0))?;
                smallvec![(0, Atoms::x87(other)), (other, top)]
            }
            M::Fcompp | M::Fucompp => return Some(Self::nothing(top | second)),
            M::Fcomi | M::Fcomip | M::Fucomi | M::Fucomip => return Some(Self::nothing(top | operands)),
            _ if compares(instr) => return Some(Self::nothing(top | operands)),
            M::Ffree | M::Ffreep | M::Fincstp | M::Fdecstp => return Some(Self::nothing(Atoms::NONE)),
            M::Fcmovb | M::Fcmove | M::Fcmovbe | M::Fcmovu | M::Fcmovnb | M::Fcmovne | M::Fcmovnbe | M::Fcmovnu => {
                smallvec![(0, top | operands | flags)]
            }
            M::Fabs | M::Fchs | M::Fsqrt | M::Frndint | M::F2xm1 | M::Fsin | M::Fcos => smallvec![(0, top)],
            M::Fprem | M::Fprem1 | M::Fscale => smallvec![(0, top | second)],
            M::Fpatan | M::Fyl2x | M::Fyl2xp1 => smallvec![(1, top | second)],
            M::Fxtract => smallvec![(0, top), (PUSHED, top)],
            M::Fadd
            | M::Faddp
            | M::Fiadd
            | M::Fmul
            | M::Fmulp
            | M::Fimul
            | M::Fsub
            | M::Fsubp
            | M::Fsubr
            | M::Fsubrp
            | M::Fisub
            | M::Fisubr
            | M::Fdiv
            | M::Fdivp
            | M::Fdivr
            | M::Fdivrp
            | M::Fidiv
            | M::Fidivr => {
                smallvec![(named(0).unwrap_or(0), top | operands)]
            }
            _ => return None,
        };
        let reads = results.iter().map(|(_, from)| *from).collect();
        Some(Self { results, reads })
    }

    fn nothing(reads: Atoms) -> Self {
        Self { results: SmallVec::new(), reads }
    }
}

/// Whether the conditions in the status word are its result.
fn compares(instr: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instr.mnemonic(),
        M::Fcom | M::Fcomp | M::Fcompp | M::Fucom | M::Fucomp | M::Fucompp | M::Ficom | M::Ficomp | M::Ftst | M::Fxam
    )
}

/// The name of a register where the top has gone up.
fn renamed(register: i32, up: i32) -> i32 {
    (register - up).rem_euclid(COUNT)
}

/// Adds the other names of registers that are not written.
fn rename(is_kept: impl Fn(i32) -> bool, up: i32, flows: &mut Flows) {
    if up == 0 {
        return;
    }
    // Those that keep their order.
    for wraps in [false, true] {
        let all = (0..COUNT).filter(|register| is_kept(*register) && (0..COUNT).contains(&(register - up)) != wraps);
        let all: SmallVec<[i32; 8]> = all.collect();
        let to = all.iter().map(|register| Atoms::x87(renamed(*register, up))).collect();
        let from = all.iter().map(|register| Atoms::x87(*register)).collect();
        flows.push(Flow::new(to, from).renamed());
    }
}
