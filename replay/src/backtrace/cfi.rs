//! One step up the stack by DWARF call frame information.

use super::{RBP, RIP, RSP, Registers, read_u64};
use crate::error::Result;
use crate::memory::Memory;
use crate::symbols::Reader;
use bugnet_format::types::Addr;
use gimli::{
    BaseAddresses, CfaRule, Encoding, EvaluationResult, RegisterRule, UnitOffset, UnwindContext, UnwindExpression,
    UnwindSection, Value,
};

/// Most operations of one DWARF expression; what a log brings must not loop for ever.
const MAX_OPERATIONS: u32 = 10_000;

/// What the tables say of the frame outside.
pub(super) struct Step {
    /// Its registers; without RIP if this frame is the outermost.
    pub regs: Registers,
    /// The kernel pushed this frame to run a signal handler.
    pub signal_frame: bool,
}

/// Registers that a function leaves as they are unless its tables say otherwise: RBX, RBP, R12 to R15.
const KEPT: [usize; 6] = [3, RBP, 12, 13, 14, 15];

/// Applies the row of `section` that covers `address` (in the file's own terms; `bias` above it in the process).
/// `None` if there is none, or if it cannot be followed.
pub(super) fn step<S: UnwindSection<Reader>>(
    section: &S,
    bases: &BaseAddresses,
    address: u64,
    bias: u64,
    regs: &Registers,
    memory: &mut dyn Memory,
) -> Result<Option<Step>> {
    let Ok(fde) = section.fde_for_address(bases, address, S::cie_from_offset) else { return Ok(None) };
    let mut context = UnwindContext::new();
    let Ok(row) = fde.unwind_info_for_address(section, bases, &mut context, address) else { return Ok(None) };
    let mut frame = Frame { section, encoding: fde.cie().encoding(), bias, regs, memory };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            regs.get(usize::from(register.0)).map(|base| base.wrapping_add_signed(*offset))
        }
        CfaRule::Expression(expression) => frame.evaluate(*expression, None)?,
    };
    let Some(cfa) = cfa else { return Ok(None) };
    let mut outer = [None; 17];
    KEPT.into_iter().for_each(|number| outer[number] = regs.get(number));
    outer[RSP] = Some(cfa);
    for (register, rule) in row.registers() {
        if let Some(slot) = outer.get_mut(usize::from(register.0)) {
            *slot = frame.apply(rule, usize::from(register.0), cfa)?;
        }
    }
    // The column of the return address need not be RIP's own.
    let column = usize::from(fde.cie().return_address_register().0);
    outer[RIP] = outer.get(column).copied().flatten();
    Ok(Some(Step { regs: Registers(outer), signal_frame: fde.is_signal_trampoline() }))
}

struct Frame<'a, S> {
    section: &'a S,
    encoding: Encoding,
    bias: u64,
    regs: &'a Registers,
    memory: &'a mut dyn Memory,
}

impl<S: UnwindSection<Reader>> Frame<'_, S> {
    fn apply(&mut self, rule: &RegisterRule<usize>, number: usize, cfa: u64) -> Result<Option<u64>> {
        Ok(match rule {
            RegisterRule::Undefined | RegisterRule::Architectural => None,
            RegisterRule::SameValue => self.regs.get(number),
            RegisterRule::Offset(offset) => read_u64(self.memory, cfa.wrapping_add_signed(*offset))?,
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => self.regs.get(usize::from(other.0)),
            RegisterRule::Expression(expression) => match self.evaluate(*expression, Some(cfa))? {
                Some(address) => read_u64(self.memory, address)?,
                None => None,
            },
            RegisterRule::ValExpression(expression) => self.evaluate(*expression, Some(cfa))?,
            RegisterRule::Constant(value) => Some(*value),
        })
    }

    /// The value of an expression; `None` if something that it needs is not known.
    fn evaluate(&mut self, expression: UnwindExpression<usize>, cfa: Option<u64>) -> Result<Option<u64>> {
        let Ok(expression) = expression.get(self.section) else { return Ok(None) };
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
                    let Some(value) = self.regs.get(usize::from(register.0)) else { return Ok(None) };
                    evaluation.resume_with_register(Value::Generic(value))
                }
                Ok(EvaluationResult::RequiresMemory { address, size, space: None, base_type: UnitOffset(0) }) => {
                    let bytes = self.memory.read_memory(Addr(address), size.into())?;
                    if size > 8 || bytes.len() != usize::from(size) {
                        return Ok(None);
                    }
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(&bytes);
                    evaluation.resume_with_memory(Value::Generic(u64::from_le_bytes(word)))
                }
                Ok(EvaluationResult::RequiresRelocatedAddress(address)) => {
                    evaluation.resume_with_relocated_address(address.wrapping_add(self.bias))
                }
                _ => return Ok(None),
            };
        }
        // The value on the stack's top is what an unwinding expression means, though it looks like a location.
        Ok(match evaluation.as_result() {
            [gimli::Piece { location: gimli::Location::Address { address }, .. }] => Some(*address),
            _ => None,
        })
    }
}
