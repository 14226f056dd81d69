//! The registers of the replayed thread.

use crate::instruction::Registers;
use crate::light;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::{fpu, sys};
use bugnet_format::record::{RegisterUpdates, register_number};
use bugnet_format::regs::{ALIGNMENT_CHECK, COMPARED_FLAGS, FPU_UNKNOWN, R11, RAX, RCX, RegisterFile};
use std::mem::offset_of;

/// Flags that are always set in user mode: interrupts enabled, and the reserved one.
const FIXED_FLAGS: u64 = 0x202;

/// DynamoRIO's register context; holds vector registers that want alignment.
#[repr(C, align(64))]
struct Aligned(sys::dr_mcontext_t);

/// The registers, read from DynamoRIO as far as needed, and handed back by a redirection.
///
/// x87 state and MXCSR are not in here: they live in the processor while the client runs.
pub struct Machine {
    context: Box<Aligned>,
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
        // SAFETY: integers and byte arrays throughout, for which zeros are valid.
        let mut context: Box<Aligned> = unsafe { Box::new_zeroed().assume_init() };
        context.0.size = size_of::<sys::dr_mcontext_t>();
        context.0.flags = sys::dr_mcontext_flags_t::DR_MC_ALL;
        Self { context, pc: 0, fs_base: 0, gs_base: 0, complete: true }
    }

    fn fetch_flags(&mut self, flags: sys::dr_mcontext_flags_t) {
        self.context.0.flags = flags;
        // SAFETY: only called within clean calls; size and flags are set.
        unsafe { sys::dr_get_mcontext(sys::dr_get_current_drcontext(), &raw mut self.context.0) };
        self.context.0.flags = sys::dr_mcontext_flags_t::DR_MC_ALL;
    }

    /// Takes the general purpose registers and flags from DynamoRIO, in a clean call at `pc`.
    pub fn fetch(&mut self, pc: u64) {
        let quick = sys::dr_mcontext_flags_t::DR_MC_INTEGER.0 | sys::dr_mcontext_flags_t::DR_MC_CONTROL.0;
        self.fetch_flags(sys::dr_mcontext_flags_t(quick));
        self.pc = pc;
        self.complete = false;
        self.set_alignment_check(light::hidden_flags());
    }

    /// Takes the vector registers, too, if they were not taken yet. They are unchanged since [`Self::fetch`].
    pub fn complete(&mut self) {
        if !self.complete {
            let vectors = sys::dr_mcontext_flags_t::DR_MC_MULTIMEDIA;
            self.fetch_flags(vectors);
            self.complete = true;
        }
    }

    /// Takes all registers from a signal's context.
    pub fn copy(&mut self, context: &sys::dr_mcontext_t) {
        self.context.0 = *context;
        self.context.0.size = size_of::<sys::dr_mcontext_t>();
        self.context.0.flags = sys::dr_mcontext_flags_t::DR_MC_ALL;
        // SAFETY: both members of the union are the same integer.
        self.pc = unsafe { self.context.0.__bindgen_anon_10.pc } as u64;
        self.complete = true;
    }

    /// Index of a general purpose register in DynamoRIO's order, which is RDI RSI RBP RSP RBX RDX RCX RAX R8 to R15.
    fn slot(&self, number: usize) -> *const u64 {
        let index = if number < 8 { 7 - number } else { number };
        let first = (&raw const self.context.0).cast::<u8>();
        // SAFETY: the 16 registers stand in a row from the first on, as integers of 8 bytes.
        unsafe { first.add(offset_of!(sys::dr_mcontext_t, __bindgen_anon_1)).cast::<u64>().add(index & 15) }
    }

    /// Value of a general purpose register, by the processor's numbering.
    pub fn get(&self, number: usize) -> u64 {
        // SAFETY: see `slot`.
        unsafe { self.slot(number).read() }
    }

    /// Sets a general purpose register, by the processor's numbering.
    pub fn set(&mut self, number: usize, value: u64) {
        self.complete();
        // SAFETY: see `slot`; the context is ours to write.
        unsafe { self.slot(number).cast_mut().write(value) };
    }

    /// As [`Self::set`], where the register has this value already, though DynamoRIO does not know.
    pub fn correct(&mut self, number: usize, value: u64) {
        // SAFETY: see `slot`; the context is ours to write.
        unsafe { self.slot(number).cast_mut().write(value) };
    }

    /// Sets the flags that count; the alignment check remains what it is.
    pub fn set_flags(&mut self, flags: u64) {
        self.complete();
        let other = FIXED_FLAGS | self.alignment_check();
        self.context.0.__bindgen_anon_9.xflags = (flags & COMPARED_FLAGS | other) as sys::reg_t;
    }

    /// [`ALIGNMENT_CHECK`] if it is on.
    fn alignment_check(&self) -> u64 {
        self.flags() & ALIGNMENT_CHECK
    }

    /// Turns the alignment check on or off.
    fn set_alignment_check(&mut self, flag: u64) {
        if flag != self.alignment_check() {
            let other = self.flags() & !ALIGNMENT_CHECK;
            self.context.0.__bindgen_anon_9.xflags = (other | flag) as sys::reg_t;
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
        // SAFETY: all members of the union are vector registers as plain bytes.
        let vectors = unsafe { &mut self.context.0.__bindgen_anon_11.simd };
        for (slot, value) in vectors.iter_mut().zip(&regs.ymm) {
            let mut wide = [0; 64];
            wide[..32].copy_from_slice(value);
            slot.u8_ = wide;
        }
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
        self.context.0.__bindgen_anon_10.pc = to as sys::app_pc;
        // SAFETY: within a clean call; size and flags are set.
        unsafe { sys::dr_redirect_execution(&raw mut self.context.0) };
        crate::state::die("DynamoRIO did not redirect execution")
    }
}

impl Registers for Machine {
    fn flags(&self) -> u64 {
        // SAFETY: all members of the union are the same integer.
        unsafe { self.context.0.__bindgen_anon_9.xflags }
    }
}

impl RegisterValues for Machine {
    fn gpr(&self, reg: Gpr) -> u64 {
        self.get(reg.0.into())
    }

    /// Needs [`Machine::complete`].
    fn vector(&self, number: usize) -> [u8; 32] {
        let mut low = [0; 32];
        // SAFETY: all members of the union are plain bytes.
        low.copy_from_slice(unsafe { &self.context.0.__bindgen_anon_11.simd[number].u8_[..32] });
        low
    }

    fn segment_base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => self.fs_base,
            Segment::Gs => self.gs_base,
        }
    }
}
