//! What records do to a thread in a merged replay.

use super::{Merged, Trouble, robust};
use bugnet_dr::fpu;
use bugnet_format::record::{EndReason, LoadValue, Placed, Record, SignalStep};
use bugnet_format::regs::{RSP, RegisterFile};
use bugnet_format::types::CodeSeq;

/// Longest frame that the kernel pushes for a signal handler; what lies between it and the stack pointer is not written.
const SIGNAL_FRAME: u64 = 16 << 10;

/// The system call by which a thread says where its list of robust futexes is.
const SET_ROBUST_LIST: u64 = 273;

impl Merged {
    /// Applies a record that is due for the running thread.
    pub(super) fn apply(&mut self, index: usize, placed: &Placed<'static>) -> Result<(), Trouble> {
        match &placed.record {
            Record::Load { ordinal, offset, value, .. } => self.load(index, *ordinal, *offset, value)?,
            Record::Memory { addr, bytes, .. } => self.threads[index].picture.write(addr.0, bytes),
            Record::Code { seq, .. } => self.take_code(index, *seq)?,
            Record::Registers { updates, .. } => {
                self.note_stores()?;
                self.machine.update(updates);
            }
            Record::Signal { step, regs, .. } => {
                if *step == SignalStep::Delivery {
                    let (old, new) = (self.machine.get(RSP), regs.gpr[RSP]);
                    // From a handler on a stack of its own, there is no telling how long its frame is.
                    let len = old.checked_sub(new).filter(|len| *len <= SIGNAL_FRAME).unwrap_or(SIGNAL_FRAME);
                    self.origins.system(new, len);
                }
                self.machine.load(regs);
                self.count(index, u64::from(*step == SignalStep::Return));
            }
            Record::Syscall { number, result, args, updates, .. } => {
                let pc = self.machine.pc;
                let next = pc.wrapping_add(self.instruction(pc)?.len());
                match self.threads[index].call.take() {
                    // Others may have stored there meanwhile.
                    Some(changed) => changed.into_iter().for_each(|(start, len)| self.origins.system(start, len)),
                    None => drop(self.system.changed(&self.memory, &mut self.origins, *number, args, *result)),
                }
                if (*number, *result) == (SET_ROBUST_LIST, 0) {
                    self.threads[index].robust = args[0];
                }
                self.machine.return_from_call(*result, next, updates);
                self.count(index, 1);
            }
            Record::Special { updates, .. } => {
                let pc = self.machine.pc;
                let instruction = self.instruction(pc)?;
                self.note_stores()?;
                fpu::apply(instruction.fpu_effect());
                self.machine.jump(pc.wrapping_add(instruction.len()));
                self.machine.update(updates);
                self.count(index, 1);
            }
            Record::Check { rflags_known, hash, .. } => {
                self.result.counts.checks += 1;
                if self.machine.registers().hash(*rflags_known) != *hash {
                    return Err("the registers differ from the recorded ones (hash of a check)".to_owned().into());
                }
            }
            Record::End { regs, .. } => return self.interval_ends(index, regs),
            Record::Checkpoint { .. } => return Err("a second checkpoint in an interval".to_owned().into()),
            _ => {}
        }
        Ok(self.threads[index].read()?)
    }

    /// The code picture `seq` comes into force for a thread.
    pub(super) fn take_code(&mut self, index: usize, seq: CodeSeq) -> Result<(), Trouble> {
        self.threads[index].picture.change_code(seq);
        self.change_code(seq)?;
        self.fit_cache(self.threads[index].picture.seq());
        Ok(())
    }

    /// The thread waits for others. If it is about to make a system call, it may well be in there: others may see what the
    /// call does before it has returned. The same goes for the thread's end.
    pub(super) fn begin_call(&mut self, index: usize) {
        let thread = &mut self.threads[index];
        if thread.next_at() != Some(thread.at) {
            return;
        }
        match &thread.next {
            Some(Placed { record: Record::Syscall { number, args, result, .. }, .. }) if thread.call.is_none() => {
                thread.call = Some(self.system.changed(&self.memory, &mut self.origins, *number, args, *result));
            }
            Some(Placed { record: Record::End { reason: EndReason::Exit { .. }, .. }, .. }) => {
                self.release_futexes(index)
            }
            _ => {}
        }
    }

    /// At a thread's end, the kernel writes into the robust futexes that it holds.
    fn release_futexes(&mut self, index: usize) {
        let thread = &mut self.threads[index];
        for futex in robust::held(&self.memory, std::mem::take(&mut thread.robust), thread.tid) {
            self.origins.system(futex, robust::FUTEX_BYTES);
        }
    }

    /// What the next instruction, which replay does not execute, has stored stands in the records that follow, as far as the
    /// thread cannot know it.
    fn note_stores(&mut self) -> Result<(), Trouble> {
        let instruction = self.instruction(self.machine.pc)?;
        self.machine.complete();
        if let Some((address, len)) = instruction.stores_by_records(&self.machine) {
            self.origins.system(address, len);
        }
        Ok(())
    }

    /// The running thread has executed `more` instructions that replay does not execute.
    fn count(&mut self, index: usize, more: u64) {
        self.move_to(self.threads[index].at + more);
    }

    fn load(&mut self, index: usize, ordinal: u8, offset: u64, value: &LoadValue<'_>) -> Result<(), Trouble> {
        let pc = self.machine.pc;
        let len = value.len() as u64;
        let instruction = self.instruction(pc)?;
        self.machine.complete();
        let addr = instruction.read_address(ordinal, offset, len, &self.machine).ok_or_else(|| {
            format!("the instruction at {pc:#x} has no memory read {ordinal} of {len} bytes at {offset}")
        })?;
        let bytes = value.to_vec();
        self.result.counts.loads += 1;
        self.memory.ensure_readable(addr, len)?;
        self.result.counts.explained += u64::from(self.memory.read(addr, len) == bytes);
        self.threads[index].picture.write(addr, &bytes);
        Ok(())
    }

    /// Compares the registers at an interval's end, and goes over to the next.
    fn interval_ends(&mut self, index: usize, expected: &RegisterFile) -> Result<(), Trouble> {
        self.same(expected, "the interval ends with other registers than recorded")?;
        let Some(beginning) = self.threads[index].begin()? else {
            self.release_futexes(index);
            self.threads[index].finish();
            return Ok(());
        };
        self.change_code(beginning.interval.code_seq)?;
        self.fit_cache(beginning.interval.code_seq);
        // Behind an `execve` that failed, registers are as the call left them.
        if self.machine.pc == beginning.regs.rip {
            self.same(&beginning.regs, "the next interval begins with other registers")
        } else {
            self.machine.load(&beginning.regs);
            Ok(())
        }
    }

    fn same(&mut self, expected: &RegisterFile, what: &str) -> Result<(), Trouble> {
        self.result.counts.checks += 1;
        if expected.differences(&self.machine.registers()).is_empty() {
            return Ok(());
        }
        Err(Trouble::Failure(what.to_owned(), Some(Box::new(expected.clone()))))
    }
}
