//! The access at which a process ends: it was not executed, but where it was to go tells what is wrong.

use super::check::Checker;
use super::found::{By, Error, Kind};
use bugnet_format::regs::RegisterFile;
use bugnet_heap::Relation;
use bugnet_replay::Result;
use bugnet_replay::cursor::Seek;
use bugnet_replay::disassembly::next;
use iced_x86::{InstructionInfoFactory, OpAccess, Register};

impl Checker<'_, '_> {
    /// If the process ends at an instruction that was to access a block which was given back, whose memory is not mapped any more, that is
    /// an error. Where the instruction was executed, or the memory is there, it is known already.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn judge_fault(&mut self) -> Result<()> {
        self.cursor.seek(Seek::End)?;
        let Some(instruction) = next(self.cursor)? else { return Ok(()) };
        let (place, regs) = (self.cursor.place(), self.cursor.regs().clone());
        let mut factory = InstructionInfoFactory::new();
        for used in factory.info(&instruction).used_memory() {
            let Some(addr) = used.virtual_address(0, |register, _, _| Some(value(register, &regs))) else { continue };
            let block = self.heap.holding(addr).is_none().then(|| self.heap.was_in(addr)).flatten();
            let Some(block) = block.filter(|_| self.heap.shadow.is_fine(addr)) else { continue };
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            let kind = if writes { Kind::Write } else { Kind::Read };
            let stack = self.frames.stack(place.tid);
            let mut error = Error::new(kind, By::Instruction, place, instruction.ip(), stack);
            (error.addr, error.len, error.wrong_at) = (addr, used.memory_size().size() as u64, addr);
            error.instruction = Some(instruction);
            error.block = Some((block.clone(), Relation::Inside(addr - block.start)));
            self.errors.add(error, &self.frames);
            break;
        }
        Ok(())
    }
}

fn value(register: Register, regs: &RegisterFile) -> u64 {
    match register {
        Register::FS => regs.fs_base,
        Register::GS => regs.gs_base,
        Register::RIP => regs.rip,
        _ if register.is_gpr64() => regs.gpr[register.number()],
        _ if register.is_gpr32() => regs.gpr[register.number()] & u64::from(u32::MAX),
        _ => 0,
    }
}
