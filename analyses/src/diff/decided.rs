//! What decided where a thread went on: the values that a conditional branch's comparison had, or an indirect jump's target.

use crate::runs::both::{BAD, GOOD};
use crate::runs::meaning::same_here;
use crate::runs::retrace::Did;
use crate::runs::scene::{Scene, name_of_memory};
use crate::runs::side::Side;
use bugnet_events::atoms::Atoms;
use bugnet_format::types::{Addr, Tid};
use bugnet_replay::Result;
use bugnet_replay::disassembly::text;
use bugnet_replay::memory::Memory as _;
use iced_x86::{OpKind, Register};
use serde::Serialize;
use std::collections::VecDeque;

/// What was compared, or where an indirect jump got its target from.
#[derive(Clone, Debug, Serialize)]
pub struct Decided {
    /// The instruction that set the flags, or jumped.
    pub instruction: String,
    /// What it read.
    pub operands: Vec<Operand>,
}

/// An operand, with its value in each run.
#[derive(Clone, Debug, Serialize)]
pub struct Operand {
    /// As the instruction has it.
    pub text: String,
    /// What the memory is called there.
    pub variable: Option<String>,
    /// In the right run; none where it is not known.
    pub good: Option<Number>,
    /// In the wrong one.
    pub bad: Option<Number>,
    /// Whether these mean different things; none where one is not known.
    pub differs: Option<bool>,
}

/// A value of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Number {
    /// The value.
    pub value: u64,
    /// How many bytes it has.
    pub bytes: u8,
}

impl Number {
    /// Without what is beyond its bytes.
    #[must_use]
    pub fn cut(self) -> Self {
        Self { value: self.value & (u64::MAX >> (64 - 8 * u32::from(self.bytes.clamp(1, 8)))), ..self }
    }
}

impl std::fmt::Display for Number {
    /// As people read it: small ones as numbers with a sign, others as hexadecimal ones.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SMALL: std::ops::Range<i64> = -(1 << 24)..1 << 31;
        let shift = 64 - 8 * u32::from(self.bytes.clamp(1, 8));
        let signed = (self.value << shift).cast_signed() >> shift;
        if SMALL.contains(&signed) { write!(f, "{signed}") } else { write!(f, "{:#x}", self.value) }
    }
}

/// The instruction that decided where the last one went: of a branch by flags the one that set them last, else the branch itself. `None`
/// where that lies too far back, or nothing was decided.
fn decider(did: &VecDeque<Did>) -> Option<usize> {
    let last = did.back()?;
    let effects = &last.decoded.effects();
    let flags = effects.decides & Atoms::ALL_FLAGS;
    if flags.is_empty() {
        return (!effects.decides.is_empty() || effects.memory_decides).then(|| did.len() - 1);
    }
    did.iter().rposition(|did| did.decoded.effects().writes().meets(flags))
}

/// An operand of an instruction, without its value.
enum Source {
    Register(Register),
    Memory(u64, u64),
    Constant(u64, u8),
}

/// What an instruction reads: its operands without one that is only written.
fn sources(did: &Did) -> Vec<(String, Source)> {
    let instruction = &did.decoded.instruction;
    let text = text(instruction);
    let operands = text.split_once(' ').map_or("", |(_, operands)| operands);
    let mut all = Vec::new();
    for (number, text) in (0..instruction.op_count()).zip(operands.split(", ")) {
        let source = match instruction.op_kind(number) {
            OpKind::Register => Source::Register(instruction.op_register(number)),
            OpKind::Memory => match did.accesses.iter().find(|access| access.reads) {
                Some(access) => Source::Memory(access.addr, access.len),
                None => continue,
            },
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => continue,
            _ => Source::Constant(instruction.immediate(number), 8),
        };
        all.push((text.to_owned(), source));
    }
    // `test eax, eax` reads one register.
    all.dedup_by(|(text, _), (other, _)| text == other);
    // A return reads where it goes to from the stack.
    if all.is_empty() {
        let read = did.accesses.iter().find(|access| access.reads);
        all.extend(read.map(|access| ("the return address".to_owned(), Source::Memory(access.addr, access.len))));
    }
    all
}

fn value(side: &mut Side<'_>, source: &Source) -> Result<Option<Number>> {
    match *source {
        Source::Constant(value, bytes) => Ok(Some(Number { value, bytes })),
        Source::Register(register) => {
            let regs = side.cursor.regs();
            let bytes = register.size().min(8) as u8;
            if !register.is_gpr() {
                let vector = register.is_vector_register().then(|| regs.ymm.get(register.number())).flatten();
                let low =
                    vector.map(|bytes| bytes.iter().take(8).rev().fold(0, |all, byte| all << 8 | u64::from(*byte)));
                return Ok(low.map(|value| Number { value, bytes }));
            }
            let whole = regs.gpr[register.full_register().number()];
            let is_high = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
            let value = if is_high { whole >> 8 } else { whole };
            Ok(Some(Number { value, bytes }.cut()))
        }
        Source::Memory(addr, len) => memory(side, addr, len),
    }
}

/// The lowest bytes of memory, where a run's cursor is.
///
/// # Errors
/// The replay process is lost.
pub fn memory(side: &mut Side<'_>, addr: u64, len: u64) -> Result<Option<Number>> {
    let len = len.min(8);
    let known: Option<Vec<u8>> = side.cursor.read_known(Addr(addr), len)?.into_iter().collect();
    let value = |bytes: Vec<u8>| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    Ok(known.filter(|bytes| !bytes.is_empty()).map(|bytes| Number { value: value(bytes), bytes: len as u8 }))
}

/// What decided, in both runs, where the last of these instructions went.
///
/// # Errors
/// The replay processes are lost.
pub fn decided(sides: &mut [Side<'_>; 2], threads: [Tid; 2], did: &[VecDeque<Did>; 2]) -> Result<Option<Decided>> {
    let (Some(good), Some(bad)) = (decider(&did[GOOD]), decider(&did[BAD])) else { return Ok(None) };
    let did = [&did[GOOD][good], &did[BAD][bad]];
    let sources = did.map(sources);
    // It is the same instruction, or nothing can be said.
    if did[GOOD].decoded.instruction.code() != did[BAD].decoded.instruction.code()
        || sources[GOOD].len() != sources[BAD].len()
    {
        return Ok(None);
    }
    sides[GOOD].go(threads[GOOD], did[GOOD].count)?;
    sides[BAD].go(threads[BAD], did[BAD].count)?;
    let scene = Scene::of(&mut sides[BAD])?;
    let mut operands = Vec::new();
    for ((text, good), (_, bad)) in sources[GOOD].iter().zip(&sources[BAD]) {
        let variable = match bad {
            Source::Memory(addr, _) => name_of_memory(&mut sides[BAD], &scene, *addr),
            _ => None,
        };
        let (good, bad) = (value(&mut sides[GOOD], good)?, value(&mut sides[BAD], bad)?);
        let differs = match good.zip(bad) {
            Some((good, bad)) => Some(!same_here(sides, [good.value, bad.value], good.bytes)?),
            None => None,
        };
        operands.push(Operand { text: text.clone(), variable, good, bad, differs });
    }
    Ok(Some(Decided { instruction: text(&did[BAD].decoded.instruction), operands }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        let text = |value, bytes| Number { value, bytes }.to_string();
        assert_eq!(text(0xffff_fff6, 4), "-10");
        assert_eq!(text(0xff, 1), "-1");
        assert_eq!(text(120, 8), "120");
        assert_eq!(text(20_000_000, 8), "20000000");
        assert_eq!(text(0xef93_a4f1, 4), "0xef93a4f1");
        assert_eq!(text(0x7fff_1234_5678, 8), "0x7fff12345678");
        assert_eq!(text(0x8000_0000, 4), "0x80000000");
    }
}
