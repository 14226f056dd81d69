//! What each kind of record does.

use super::{Replay, Trouble, divergence};
use crate::instruction::Instruction;
use crate::output;
use bugnet_dr::{fpu, liveness};
use bugnet_format::control::{self, Response, Stop};
use bugnet_format::record::{LoadValue, OutputStream, Placed, Record, SignalStep};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::CodeSeq;

impl Replay {
    /// Does what a record says.
    pub(super) fn apply(&mut self, placed: &Placed<'static>) -> Result<(), Trouble> {
        let offset = placed.offset;
        let memory_trouble = |e: crate::memory::MemoryError| match e {
            crate::memory::MemoryError::Range(_) => divergence(format!("record at byte {offset}: {e}")),
            _ => Trouble::Failed(e.to_string()),
        };
        match &placed.record {
            Record::Load { ordinal, offset, value, .. } => {
                let addr = self.load_address(*ordinal, *offset, value.len() as u64)?;
                self.write_value(addr, value).map_err(memory_trouble)?;
                self.counts.loads += 1;
            }
            Record::Memory { addr, bytes, .. } => self.memory.write(addr.0, bytes).map_err(memory_trouble)?,
            Record::Code { seq, .. } => self.change_code(*seq).map_err(memory_trouble)?,
            Record::Registers { updates, .. } => self.machine.update(updates),
            Record::Signal { step, regs, .. } => {
                self.machine.load(regs);
                self.unknown_flags = 0;
                self.position += u64::from(*step == SignalStep::Return);
            }
            Record::Syscall { number, result, args, stream, updates, .. } => {
                let pc = self.machine.pc;
                let next = pc.wrapping_add(self.instruction(pc)?.len());
                self.watch_run(pc, self.position);
                self.write_output(*stream, *number, args, *result)?;
                self.machine.return_from_call(*result, next, updates);
                self.position += 1;
            }
            Record::Special { updates, .. } => {
                let pc = self.machine.pc;
                let instruction = self.instruction(pc)?;
                let (next, effect) = (pc.wrapping_add(instruction.len()), instruction.fpu_effect());
                self.watch_run(pc, self.position);
                self.machine.jump(next);
                self.machine.update(updates);
                fpu::apply(effect);
                self.position += 1;
            }
            Record::Check { rflags_known, hash, .. } => {
                self.counts.checks += 1;
                if !self.matches(*rflags_known, *hash) {
                    return Err(divergence("the registers differ from the recorded ones (hash of a check)"));
                }
            }
            Record::End { regs, .. } => {
                self.counts.checks += 1;
                return Err(self.compare_end(regs).into());
            }
            Record::Checkpoint { .. } => {
                return Err(divergence(format!("record at byte {offset}: a second checkpoint")));
            }
            Record::Dependency { .. }
            | Record::SyscallData { .. }
            | Record::Snapshot { .. }
            | Record::Reach { .. }
            | Record::Note { .. } => {}
        }
        Ok(())
    }

    fn compare_end(&mut self, expected: &RegisterFile) -> Stop {
        if expected.differences(&self.registers()).is_empty() {
            return Stop::End;
        }
        let what = "the interval ends with other registers than recorded".into();
        Stop::Divergence { what, expected: Some(Box::new(expected.clone())) }
    }

    /// Whether the registers have this hash. Of flags that are not known, any will do.
    fn matches(&mut self, rflags_known: u64, hash: u64) -> bool {
        let mut regs = self.machine.registers();
        let open = liveness::rflags_bits(self.unknown_flags) & rflags_known;
        regs.rflags &= !open;
        // All subsets of the bits in `open`, up to none again.
        let mut flags = 0_u64;
        loop {
            regs.rflags = regs.rflags & !open | flags;
            if regs.hash(rflags_known) == hash {
                return true;
            }
            flags = flags.wrapping_sub(open) & open;
            if flags == 0 {
                return false;
            }
        }
    }

    /// The instruction at `pc`, decoded once.
    pub(super) fn instruction(&mut self, pc: u64) -> Result<&Instruction, Trouble> {
        if !self.instructions.contains_key(&pc) {
            let found = Instruction::decode(pc, &self.memory)
                .ok_or_else(|| divergence(format!("the log has no instruction at {pc:#x}")))?;
            self.instructions.insert(pc, found);
        }
        self.instructions.get(&pc).ok_or_else(|| divergence("no instruction"))
    }

    fn load_address(&mut self, ordinal: u8, offset: u64, len: u64) -> Result<u64, Trouble> {
        let pc = self.machine.pc;
        self.instruction(pc)?;
        let Self { instructions, machine, .. } = self;
        machine.complete();
        instructions.get(&pc).and_then(|i| i.read_address(ordinal, offset, len, machine)).ok_or_else(|| {
            divergence(format!(
                "the instruction at {pc:#x} has no memory read {ordinal} of {len} bytes at offset {offset}, for which \
                 the log has a value"
            ))
        })
    }

    /// Puts a record's value into memory. Sizes are constants where they can be: DynamoRIO's `memcpy` is a slow one.
    pub fn write_value(&mut self, addr: u64, value: &LoadValue<'_>) -> Result<(), crate::memory::MemoryError> {
        match value.len() {
            1 => self.memory.write(addr, &value.to_array::<1>()),
            2 => self.memory.write(addr, &value.to_array::<2>()),
            4 => self.memory.write(addr, &value.to_array::<4>()),
            8 => self.memory.write(addr, &value.to_array::<8>()),
            _ => self.memory.write(addr, &value.to_vec()),
        }
    }

    /// Puts the code pages up to `seq` into memory and drops what was translated from their bytes before.
    pub(super) fn change_code(&mut self, seq: CodeSeq) -> Result<(), crate::memory::MemoryError> {
        while let Some(page) = self.pages.get(self.pages_used).filter(|page| page.seq <= seq).copied() {
            self.pages_used += 1;
            let start = page.addr.page().0;
            let known = self.memory.is_code(start, 1);
            self.memory.install_code(&[page])?;
            if known {
                self.drop_blocks(start);
            }
        }
        self.code_seq = seq;
        self.instructions.clear();
        Ok(())
    }

    fn write_output(&mut self, stream: OutputStream, number: u64, args: &[u64; 6], result: i64) -> Result<(), Trouble> {
        if stream == OutputStream::None || !self.output {
            return Ok(());
        }
        let Self { memory, control, .. } = self;
        output::written(memory, number, args, result, |bytes| {
            control::send(control, &Response::Output { stream, bytes }).map_err(|e| e.to_string())
        })
        .map_err(Trouble::Failed)
    }
}
