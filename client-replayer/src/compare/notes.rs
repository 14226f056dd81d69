//! What the engine tells the comparison, if there is one: of records, stores, and changes of threads.

use super::{AccessError, Compare, robust, system};
use crate::engine::{Engine, Trouble, divergence};
use crate::instruction::Instruction;
use crate::light;
use crate::memory::{Memory, MemoryError};
use crate::site::AccessId;
use bugnet_format::record::{EndReason, Record, SignalStep};
use bugnet_format::regs::{RSP, RegisterFile};
use bugnet_format::types::CodeSeq;

/// Longest frame that the kernel pushes for a signal handler; what lies between it and the stack pointer is not written.
const SIGNAL_FRAME: u64 = 16 << 10;
/// The system call by which a thread says where its list of robust futexes is.
const SET_ROBUST_LIST: u64 = 273;

impl Engine {
    /// The instruction before this event is over.
    pub fn note_stored(&mut self) {
        if let Some(compare) = &mut self.compare {
            compare.stored(&self.code, self.running);
        }
    }

    /// All instructions before this position are over.
    pub fn note_stored_before(&mut self, position: u64) {
        if let Some(compare) = &mut self.compare {
            compare.stored_before(&self.code, self.running, position);
        }
    }

    /// Called before an instruction that accesses memory, with the registers saved.
    pub fn note_access(&mut self, id: AccessId) -> Result<(), (u64, Trouble)> {
        let ahead = self.sites.access(id).ahead;
        let at = self.position_ahead(ahead);
        let Some(compare) = &mut self.compare else { return Ok(()) };
        compare.stored(&self.code, self.running);
        let site = self.sites.access(id);
        let place = (self.running, at);
        if let Some(plain) = &site.plain
            && compare.plain(&mut self.memory, &self.code, plain, light::saved(), place)
        {
            return Ok(());
        }
        let instruction = (&site.instruction, &site.bytes[..]);
        let compared = compare.access(&mut self.memory, &self.code, instruction, light::saved(), place);
        compared.map_err(|error| match error {
            AccessError::Senseless => {
                let what = format!("the instruction at {:#x} goes over more memory than there can be", site.pc);
                (at, divergence(what))
            }
            AccessError::Memory(error) => (at, error.into()),
        })
    }

    /// What was noted of an instruction's accesses is void: it is going to be executed from its start again.
    pub(crate) fn again_at(&mut self, id: AccessId) -> (u64, Trouble) {
        let at = self.position_ahead(self.sites.access(id).ahead);
        self.note_stored_before(at);
        (at, Trouble::Rearm)
    }

    /// A `LOAD` record comes, with a value for this memory.
    pub(crate) fn note_load(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Trouble> {
        let Some(compare) = &mut self.compare else { return Ok(()) };
        compare.load(&mut self.memory, &self.code, (self.running, self.position), addr, bytes)?;
        Ok(())
    }

    /// What the next instruction, which replay does not execute, has stored stands in the records that follow, as far as the
    /// thread cannot know it.
    pub(crate) fn note_recorded_stores(&mut self) -> Result<(), Trouble> {
        if self.compare.is_none() && self.memory.touched.is_none() {
            return Ok(());
        }
        let pc = self.machine.pc;
        self.machine.complete();
        let Some(instruction) = Instruction::decode(pc, &self.code) else { return Ok(()) };
        let Some((addr, len)) = instruction.stores_by_records(&self.machine) else { return Ok(()) };
        if let Some(compare) = &mut self.compare {
            compare.origins.system(addr, len);
        }
        if let Some(mut touched) = self.memory.touched.take() {
            touched.stored_by_records(&self.memory, addr, len);
            self.memory.touched = Some(touched);
        }
        Ok(())
    }

    /// A signal's handler begins, or ends.
    pub(crate) fn note_signal(&mut self, step: SignalStep, regs: &RegisterFile) {
        if step != SignalStep::Delivery {
            return;
        }
        let (old, new) = (self.machine.get(RSP), regs.gpr[RSP]);
        // From a handler on a stack of its own, there is no telling how long its frame is.
        let len = old.checked_sub(new).filter(|len| *len <= SIGNAL_FRAME).unwrap_or(SIGNAL_FRAME);
        if let Some(compare) = &mut self.compare {
            compare.origins.system(new, len);
        }
        if let Some(mut touched) = self.memory.touched.take() {
            touched.handler_begins(&self.memory, new, len);
            self.memory.touched = Some(touched);
        }
    }

    /// A system call has returned.
    pub(crate) fn note_call(&mut self, number: u64, args: &[u64; 6], result: i64) {
        if let Some(compare) = &mut self.compare {
            compare.call_over(&self.memory, self.running, number, args, result);
        }
        if let Some(mut touched) = self.memory.touched.take() {
            touched.called(&self.memory, self.running, number, args, result);
            self.memory.touched = Some(touched);
        }
    }

    /// The running thread waits for others. If it is about to make a system call, it may well be in there: others may see what
    /// the call does before it has returned. The same goes for the thread's end.
    pub(crate) fn note_waiting(&mut self) {
        let context = &self.contexts[self.running];
        if context.next_at != self.position {
            return;
        }
        if let Some(Record::Syscall { number, args, result, .. }) = context.next.as_ref().map(|placed| &placed.record)
            && let Some(mut touched) = self.memory.touched.take()
        {
            touched.call_begins(&self.memory, self.running, *number, args, *result);
            self.memory.touched = Some(touched);
        }
        let Some(compare) = &mut self.compare else { return };
        match context.next.as_ref().map(|placed| &placed.record) {
            Some(Record::Syscall { number, args, result, .. }) => {
                compare.call_begins(&self.memory, self.running, *number, args, *result);
            }
            Some(Record::End { reason: EndReason::Exit { .. }, .. }) => {
                compare.release_futexes(&self.memory, self.running);
            }
            // An epoch has begun meanwhile, and the interval ends before the call.
            Some(Record::End { reason: EndReason::Full, .. }) => {
                if let Some(Record::Syscall { number, args, result, .. }) = context.call_of_next_interval() {
                    compare.call_begins(&self.memory, self.running, number, &args, result);
                }
            }
            _ => {}
        }
    }

    /// The code picture `seq` comes into force for the running thread.
    pub(crate) fn note_code(&mut self, seq: CodeSeq) {
        if let Some(compare) = &mut self.compare {
            compare.pictures.change_code(&self.code, self.running, seq);
        }
    }

    /// The running thread has begun another interval.
    pub(crate) fn note_interval(&mut self) -> Result<(), Trouble> {
        let seq = self.contexts[self.running].code_seq;
        let Some(compare) = &mut self.compare else { return Ok(()) };
        Ok(compare.pictures.reset(self.running, seq).map_err(refused)?)
    }

    /// The running thread is at its end: what it knows of memory is not needed any more.
    pub(crate) fn note_end(&mut self) -> Result<(), Trouble> {
        let Some(compare) = &mut self.compare else { return Ok(()) };
        compare.release_futexes(&self.memory, self.running);
        Ok(compare.pictures.end(self.running).map_err(refused)?)
    }
}

fn refused(at: u64) -> MemoryError {
    MemoryError::System(at, rustix::io::Errno::INVAL)
}

impl Compare {
    fn call_begins(&mut self, memory: &Memory, thread: usize, number: u64, args: &[u64; 6], result: i64) {
        if self.threads[thread].call.is_none() {
            if system::lends_memory(memory, number, args, result) {
                self.origins.child_begins();
            }
            let changed = self.system.changed(memory, &mut self.origins, number, args, result);
            self.threads[thread].call = Some(changed);
        }
    }

    fn call_over(&mut self, memory: &Memory, thread: usize, number: u64, args: &[u64; 6], result: i64) {
        if system::lends_memory(memory, number, args, result) {
            self.origins.child_ends(self.threads[thread].call.is_some());
        }
        match self.threads[thread].call.take() {
            // Others may have stored there meanwhile.
            Some(changed) => changed.into_iter().for_each(|(start, len)| self.origins.system(start, len)),
            None => drop(self.system.changed(memory, &mut self.origins, number, args, result)),
        }
        if (number, result) == (SET_ROBUST_LIST, 0) {
            self.threads[thread].robust = args[0];
        }
    }

    /// At a thread's end, the kernel writes into the robust futexes that it holds.
    fn release_futexes(&mut self, memory: &Memory, thread: usize) {
        let thread = &mut self.threads[thread];
        for futex in robust::held(memory, std::mem::take(&mut thread.robust), thread.tid) {
            self.origins.system(futex, robust::FUTEX_BYTES);
        }
    }
}
