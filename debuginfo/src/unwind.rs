//! One step up the stack by DWARF call frame information (`.eh_frame`, `.debug_frame`).

use crate::image::Image;
use crate::memory::Memory;
use crate::registers::{GENERAL, Held, Home, RBP, RIP, RSP, Registers};
use crate::section::Reader;
use gimli::{
    BaseAddresses, CfaRule, Encoding, EvaluationResult, RegisterRule, UnitOffset, UnwindContext, UnwindExpression,
    UnwindSection, Value,
};

/// Most operations of one DWARF expression; what a log brings must not loop for ever.
const MAX_OPERATIONS: u32 = 10_000;

/// What the tables say of the frame outside.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its registers; without RIP if this frame is the outermost.
    pub registers: Registers,
    /// The kernel pushed this frame to run a signal handler.
    pub signal_frame: bool,
}

/// Registers that a function leaves as they are unless its tables say otherwise: RBX, RBP, R12 to R15.
const KEPT: [usize; 6] = [3, RBP, 12, 13, 14, 15];

impl Image {
    /// The frame outside one that is at `address` (in the file's own terms; `bias` above it in the process). `None` without tables
    /// for it, or if they cannot be followed.
    pub fn unwind(&self, address: u64, bias: u64, registers: &Registers, memory: &mut dyn Memory) -> Option<Step> {
        if let Some((section, bases)) = self.eh_frame()
            && let Some(step) = step(section, bases, address, bias, registers, memory)
        {
            return Some(step);
        }
        let (section, bases) = self.debug_frame()?;
        step(section, bases, address, bias, registers, memory)
    }
}

/// Applies the row of `section` that covers `address`.
fn step<S: UnwindSection<Reader>>(
    section: &S,
    bases: &BaseAddresses,
    address: u64,
    bias: u64,
    registers: &Registers,
    memory: &mut dyn Memory,
) -> Option<Step> {
    let fde = section.fde_for_address(bases, address, S::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(section, bases, &mut context, address).ok()?;
    let mut frame = Inner { section, encoding: fde.cie().encoding(), bias, registers, memory };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            registers.get(usize::from(register.0)).map(|base| base.wrapping_add_signed(*offset))
        }
        CfaRule::Expression(expression) => frame.evaluate(*expression, None),
    }?;
    let mut outer = [None; GENERAL];
    KEPT.into_iter().for_each(|number| outer[number] = registers.held(number));
    outer[RSP] = Some(Held::computed(cfa));
    for (register, rule) in row.registers() {
        if let Some(slot) = outer.get_mut(usize::from(register.0)) {
            *slot = frame.apply(rule, usize::from(register.0), cfa);
        }
    }
    // The column of the return address need not be RIP's own.
    let column = usize::from(fde.cie().return_address_register().0);
    outer[RIP] = outer.get(column).copied().flatten();
    let registers = Registers { general: outer, vectors: None };
    Some(Step { registers, signal_frame: fde.is_signal_trampoline() })
}

struct Inner<'a, S> {
    section: &'a S,
    encoding: Encoding,
    bias: u64,
    registers: &'a Registers,
    memory: &'a mut dyn Memory,
}

impl<S: UnwindSection<Reader>> Inner<'_, S> {
    fn apply(&mut self, rule: &RegisterRule<usize>, number: usize, cfa: u64) -> Option<Held> {
        match rule {
            RegisterRule::Undefined | RegisterRule::Architectural => None,
            RegisterRule::SameValue => self.registers.held(number),
            RegisterRule::Offset(offset) => self.stored(cfa.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(Held::computed(cfa.wrapping_add_signed(*offset))),
            RegisterRule::Register(other) => self.registers.held(usize::from(other.0)),
            RegisterRule::Expression(expression) => {
                let address = self.evaluate(*expression, Some(cfa))?;
                self.stored(address)
            }
            RegisterRule::ValExpression(expression) => self.evaluate(*expression, Some(cfa)).map(Held::computed),
            RegisterRule::Constant(value) => Some(Held::computed(*value)),
        }
    }

    fn stored(&mut self, address: u64) -> Option<Held> {
        self.memory.unsigned(address, 8).map(|value| Held { value, home: Some(Home::Memory(address)) })
    }

    /// The value of an expression; `None` if something that it needs is not known.
    fn evaluate(&mut self, expression: UnwindExpression<usize>, cfa: Option<u64>) -> Option<u64> {
        let expression = expression.get(self.section).ok()?;
        let mut evaluation = expression.evaluation(self.encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut state = evaluation.evaluate();
        loop {
            state = match state {
                Ok(EvaluationResult::Complete) => break,
                Ok(EvaluationResult::RequiresRegister { register, base_type: UnitOffset(0) }) => {
                    evaluation.resume_with_register(Value::Generic(self.registers.get(usize::from(register.0))?))
                }
                Ok(EvaluationResult::RequiresMemory { address, size, space: None, base_type: UnitOffset(0) }) => {
                    evaluation.resume_with_memory(Value::Generic(self.memory.unsigned(address, size.into())?))
                }
                Ok(EvaluationResult::RequiresRelocatedAddress(address)) => {
                    evaluation.resume_with_relocated_address(address.wrapping_add(self.bias))
                }
                _ => return None,
            };
        }
        // The value on the stack's top is what an unwinding expression means, though it looks like a location.
        match evaluation.as_result() {
            [gimli::Piece { location: gimli::Location::Address { address }, .. }] => Some(*address),
            _ => None,
        }
    }
}
