//! The registers of the replayed thread.

use crate::instruction::Registers;
use crate::light;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::context::{self, Part, View};
use bugnet_dr::fpu;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_format::record::{RegisterUpdates, register_number};
use bugnet_format::regs::{ALIGNMENT_CHECK, COMPARED_FLAGS, FPU_UNKNOWN, R11, RAX, RCX, RegisterFile};

/// Flags that are always set in user mode: interrupts enabled, and the reserved one.
const FIXED_FLAGS: u64 = 0x202;

/// The registers, read from DynamoRIO as far as needed, and handed back by a redirection.
///
/// x87 state and MXCSR are not in here: they live in the processor while the client runs.
pub struct Machine {
    context: Box<context::Machine>,
    /// Address of the next instruction.
    pub pc: u64,
    /// Base of FS as the program sees it.
    pub fs_base: u64,
    /// Base of GS as the program sees it.
    pub gs_base: u64,
    complete: bool,
}

impl Machine {
    /// Registers of no meaning.
    pub fn new() -> Self {
        Self { context: context::Machine::empty(), pc: 0, fs_base: 0, gs_base: 0, complete: true }
    }

    /// Takes the general purpose registers and flags from DynamoRIO, in a clean call at `pc`.
    pub fn fetch(&mut self, pc: u64) {
        self.context.fetch(Part::Whole);
        self.pc = pc;
        self.complete = false;
        self.set_alignment_check(light::hidden_flags());
    }

    /// Takes the vector registers, too, if they were not taken yet. They are unchanged since [`Self::fetch`].
    pub fn complete(&mut self) {
        if !self.complete {
            self.context.fetch(Part::Vectors);
            self.complete = true;
        }
    }

    /// Takes all registers from a signal's context.
    pub fn copy(&mut self, context: &View) {
        self.context.copy(context);
        self.pc = context.pc();
        self.complete = true;
    }

    /// Value of a general purpose register, by the processor's numbering.
    pub fn get(&self, number: usize) -> u64 {
        self.context.gpr(number)
    }

    /// Sets a general purpose register, by the processor's numbering.
    pub fn set(&mut self, number: usize, value: u64) {
        self.complete();
        *self.context.gpr_mut(number) = value;
    }

    /// As [`Self::set`], where the register has this value already, though DynamoRIO does not know.
    pub fn correct(&mut self, number: usize, value: u64) {
        *self.context.gpr_mut(number) = value;
    }

    /// Sets the flags that count; the alignment check remains what it is.
    pub fn set_flags(&mut self, flags: u64) {
        self.complete();
        let other = FIXED_FLAGS | self.alignment_check();
        self.context.set_flags(flags & COMPARED_FLAGS | other);
    }

    /// [`ALIGNMENT_CHECK`] if it is on.
    fn alignment_check(&self) -> u64 {
        self.flags() & ALIGNMENT_CHECK
    }

    /// Turns the alignment check on or off.
    fn set_alignment_check(&mut self, flag: u64) {
        if flag != self.alignment_check() {
            let other = self.flags() & !ALIGNMENT_CHECK;
            self.context.set_flags(other | flag);
            self.complete();
        }
    }

    /// Sets the address of the next instruction.
    pub fn jump(&mut self, pc: u64) {
        self.complete();
        self.pc = pc;
    }

    /// The registers are as `syscall` leaves them, whose result this is, at the address of the next instruction; and what
    /// else the call has changed.
    pub fn return_from_call(&mut self, result: i64, next: u64, updates: &RegisterUpdates) {
        let flags = self.flags();
        self.set(RAX, result.cast_unsigned());
        self.set(RCX, next);
        self.set(R11, flags);
        self.jump(next);
        self.update(updates);
    }

    /// Applies the changes of a record.
    pub fn update(&mut self, updates: &RegisterUpdates) {
        for &(number, value) in &updates.values {
            match number {
                0..16 => self.set(number.into(), value),
                register_number::RIP => self.jump(value),
                register_number::RFLAGS => self.set_flags(value),
                register_number::FS_BASE => self.fs_base = value,
                register_number::GS_BASE => self.gs_base = value,
                _ => {}
            }
        }
    }

    /// Sets every register, those of x87 and MXCSR in the processor itself.
    pub fn load(&mut self, regs: &RegisterFile) {
        self.complete = true;
        for (number, value) in regs.gpr.iter().enumerate() {
            self.set(number, *value);
        }
        self.set_flags(regs.rflags);
        self.set_alignment_check(regs.rflags & ALIGNMENT_CHECK);
        self.jump(regs.rip);
        self.fs_base = regs.fs_base;
        self.gs_base = regs.gs_base;
        self.context.set_vectors(&regs.ymm);
        if regs.rflags_known & FPU_UNKNOWN == 0 {
            fpu::restore(regs);
        }
    }

    /// Every register.
    pub fn registers(&mut self) -> RegisterFile {
        self.complete();
        let mut regs = RegisterFile {
            rip: self.pc,
            rflags: self.flags() & (COMPARED_FLAGS | ALIGNMENT_CHECK) | FIXED_FLAGS,
            fs_base: self.fs_base,
            gs_base: self.gs_base,
            ..RegisterFile::default()
        };
        for number in 0..16 {
            regs.gpr[number] = self.get(number);
            regs.ymm[number] = self.vector(number);
        }
        fpu::save(&mut regs);
        regs
    }

    /// Continues execution with these registers, at [`Self::pc`] or a split copy's tag; does not return, and runs no
    /// destructors.
    pub fn redirect(&mut self, to: u64) -> ! {
        self.complete();
        self.context.set_pc(to);
        // SAFETY: within a clean call, which is left for good.
        unsafe { self.context.redirect() };
        crate::state::die("DynamoRIO did not redirect execution")
    }
}

impl Registers for Machine {
    fn flags(&self) -> u64 {
        self.context.flags()
    }
}

impl RegisterValues for Machine {
    fn gpr(&self, reg: Gpr) -> u64 {
        self.get(reg.0.into())
    }

    /// Needs [`Machine::complete`].
    fn vector(&self, number: usize) -> [u8; 32] {
        self.context.vector(number)
    }

    fn segment_base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => self.fs_base,
            Segment::Gs => self.gs_base,
        }
    }
}
