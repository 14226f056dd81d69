//! What each kind of record does.

use super::{Engine, Trouble, divergence};
use crate::instruction::Instruction;
use crate::output;
use bugnet_dr::{fpu, liveness};
use bugnet_format::control::{self, Response, Stop};
use bugnet_format::record::{LoadValue, OutputStream, Placed, Record, SignalStep};
use bugnet_format::regs::RegisterFile;

impl Engine {
    /// Does what a record of the running thread says, and reads the next one.
    pub(super) fn apply(&mut self, placed: &Placed<'static>) -> Result<(), Trouble> {
        match &placed.record {
            Record::Load { ordinal, offset, value, .. } => {
                let addr = self.load_address(*ordinal, *offset, value.len() as u64)?;
                self.load(addr, value)?;
            }
            Record::Memory { addr, bytes, .. } => self.put(addr.0, bytes)?,
            Record::Code { seq, .. } => self.take_code(*seq)?,
            Record::Registers { updates, .. } => {
                self.note_recorded_stores()?;
                self.machine.update(updates);
            }
            Record::Signal { step, regs, .. } => {
                self.note_signal(*step, regs);
                if *step == SignalStep::Return {
                    self.trace_skipped();
                }
                self.leave_stack();
                self.forget_told();
                self.goes_elsewhere();
                self.machine.load(regs);
                self.unknown_flags = 0;
                self.position += u64::from(*step == SignalStep::Return);
            }
            Record::Syscall { number, result, args, stream, updates, .. } => {
                let pc = self.machine.pc;
                let next = pc.wrapping_add(self.instruction(pc)?.len());
                self.watch_run(pc, self.position);
                self.trace_skipped();
                self.write_output(*stream, *number, args, *result)?;
                self.note_call(*number, args, *result);
                self.keep_call(*number, args, *result);
                self.machine.return_from_call(*result, next, updates);
                self.position += 1;
            }
            Record::Special { updates, .. } => {
                let pc = self.machine.pc;
                let instruction = self.instruction(pc)?;
                let (next, effect) = (pc.wrapping_add(instruction.len()), instruction.fpu_effect());
                self.watch_run(pc, self.position);
                self.trace_skipped();
                self.note_recorded_stores()?;
                self.machine.jump(next);
                self.machine.update(updates);
                fpu::apply(effect);
                self.position += 1;
            }
            Record::Check { rflags_known, hash, .. } => {
                self.context().counts.checks += 1;
                if !self.matches(*rflags_known, *hash) {
                    return Err(divergence("the registers differ from the recorded ones (hash of a check)"));
                }
            }
            Record::End { regs, .. } => return self.interval_ends(regs),
            Record::Checkpoint { .. } => {
                return Err(divergence(format!("record at byte {}: a second checkpoint", placed.offset)));
            }
            Record::Dependency { .. }
            | Record::SyscallData { .. }
            | Record::Snapshot { .. }
            | Record::Zeros { .. }
            | Record::Omitted { .. }
            | Record::Reach { .. }
            | Record::Note { .. } => {}
        }
        self.context().read();
        Ok(())
    }

    /// Compares the registers at an interval's end, and goes over to the thread's next one, if there is one.
    fn interval_ends(&mut self, expected: &RegisterFile) -> Result<(), Trouble> {
        self.same(expected, "the interval ends with other registers than recorded")?;
        let position = self.position;
        let context = self.context();
        context.at = position;
        let Some(next) = context.begin().map_err(divergence)? else {
            self.note_end()?;
            self.context().over = true;
            return Ok(());
        };
        let at = self.context().at;
        self.move_to(at);
        self.note_interval()?;
        self.show_picture(next.code_seq)?;
        self.fit_blocks(next.code_seq);
        // Behind an `execve` that failed, registers are as the call left them.
        if self.machine.pc == next.regs.rip {
            return self.same(&next.regs, "the next interval begins with other registers");
        }
        self.machine.load(&next.regs);
        Ok(())
    }

    fn same(&mut self, expected: &RegisterFile, what: &str) -> Result<(), Trouble> {
        self.context().counts.checks += 1;
        if expected.differences(&self.registers()).is_empty() {
            return Ok(());
        }
        Err(Stop::Divergence { what: what.into(), expected: Some(Box::new(expected.clone())) }.into())
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
        let Self { instructions, code, .. } = self;
        match instructions.entry(pc) {
            hashbrown::hash_map::Entry::Occupied(known) => Ok(known.into_mut()),
            hashbrown::hash_map::Entry::Vacant(place) => match Instruction::decode(pc, code) {
                Some(found) => Ok(place.insert(found)),
                None => Err(divergence(format!("the log has no instruction at {pc:#x}"))),
            },
        }
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

    /// The value of a `LOAD` record. Sizes are constants where they can be: DynamoRIO's `memcpy` is a slow one.
    #[inline]
    pub fn load(&mut self, addr: u64, value: &LoadValue<'_>) -> Result<(), Trouble> {
        self.context().counts.loads += 1;
        match value.len() {
            1 => self.put_load(addr, &value.to_array::<1>()),
            2 => self.put_load(addr, &value.to_array::<2>()),
            4 => self.put_load(addr, &value.to_array::<4>()),
            8 => self.put_load(addr, &value.to_array::<8>()),
            // Vector registers' are many in some programs, and to allocate memory for each takes longer than all else.
            16 => self.put_load(addr, &value.to_array::<16>()),
            32 => self.put_load(addr, &value.to_array::<32>()),
            64 => self.put_load(addr, &value.to_array::<64>()),
            _ => self.put_load(addr, &value.to_vec()),
        }
    }

    #[inline]
    fn put_load(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Trouble> {
        if self.watching.has_ranges() {
            self.meet_bytes(addr, bytes);
        }
        self.memory.glance_at_bytes(addr, bytes);
        if self.compare.is_some() {
            self.note_load(addr, bytes)?;
        }
        self.memory.write(addr, bytes)?;
        Ok(())
    }

    /// A `MEMORY` record: the thread finds these bytes in memory, at once or later.
    #[inline]
    pub fn put(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Trouble> {
        if self.watching.has_ranges() {
            self.meet_bytes(addr, bytes);
        }
        self.memory.glance_at_bytes(addr, bytes);
        if !self.is_merged() {
            self.memory.write(addr, bytes)?;
            return Ok(());
        }
        if let Some(compare) = &mut self.compare {
            compare.put(&self.code, self.running, addr, bytes);
        }
        self.supply(addr, bytes)
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
