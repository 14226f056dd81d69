//! The registers of a thread, in DynamoRIO's machine contexts.

use crate::sys;
use bugnet_format::regs::RegisterFile;
use std::ffi::c_void;
use std::mem::offset_of;

/// A machine context.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Machine(sys::dr_mcontext_t);

/// Where the first general purpose register is.
const FIRST_GPR: usize = offset_of!(sys::dr_mcontext_t, __bindgen_anon_1);
const _: () = assert!(offset_of!(sys::dr_mcontext_t, r15) == FIRST_GPR + 15 * 8);

/// Parts of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// General purpose registers, the stack pointer, flags and the program counter.
    Whole,
    /// Vector registers.
    Vectors,
}

impl Machine {
    /// An empty one, which asks for everything.
    #[must_use]
    pub fn empty() -> Box<Self> {
        // SAFETY: numbers and a pointer that may be null; zero is a value of all of them.
        let mut machine: Box<Self> = unsafe { Box::new_zeroed().assume_init() };
        machine.ask_for_all();
        machine
    }

    fn ask_for_all(&mut self) {
        self.0.size = size_of::<sys::dr_mcontext_t>();
        self.0.flags = sys::dr_mcontext_flags_t::DR_MC_ALL;
    }

    /// The current one, in an event that has one, or in a clean call; `None` elsewhere.
    #[must_use]
    pub fn current() -> Option<Box<Self>> {
        let mut machine = Self::empty();
        machine.fetch_all().then_some(machine)
    }

    fn fetch_all(&mut self) -> bool {
        // SAFETY: a context of ours, marked with its size and with what is wanted.
        unsafe { sys::dr_get_mcontext(sys::dr_get_current_drcontext(), &raw mut self.0) != 0 }
    }

    /// Takes a part from the current one.
    pub fn fetch(&mut self, part: Part) {
        self.0.flags = match part {
            Part::Whole => {
                let both = sys::dr_mcontext_flags_t::DR_MC_INTEGER.0 | sys::dr_mcontext_flags_t::DR_MC_CONTROL.0;
                sys::dr_mcontext_flags_t(both)
            }
            Part::Vectors => sys::dr_mcontext_flags_t::DR_MC_MULTIMEDIA,
        };
        self.fetch_all();
        self.0.flags = sys::dr_mcontext_flags_t::DR_MC_ALL;
    }

    /// Takes everything from another one.
    pub fn copy(&mut self, other: &View) {
        self.0 = other.0;
        self.ask_for_all();
    }

    /// # Safety
    /// Null or a context of DynamoRIO's that is there as long as the reference, and that nobody changes meanwhile. DynamoRIO aligns those of
    /// its events less than ours are: none of the fields that are read here wants more.
    pub(crate) unsafe fn of<'a>(raw: *const sys::dr_mcontext_t) -> Option<&'a View> {
        // SAFETY: the caller's promise.
        unsafe { raw.cast::<View>().as_ref() }
    }

    /// # Safety
    /// As for [`Self::of`], and nobody else refers to it.
    pub(crate) unsafe fn of_mut<'a>(raw: *mut sys::dr_mcontext_t) -> Option<&'a mut View> {
        // SAFETY: the caller's promise.
        unsafe { raw.cast::<View>().as_mut() }
    }

    pub(crate) fn raw(&mut self) -> *mut sys::dr_mcontext_t {
        &raw mut self.0
    }

    /// The program goes on with these registers, in an event of a system call; whether DynamoRIO has taken them.
    ///
    /// # Safety
    /// `context` is the event's.
    pub unsafe fn set_current(&mut self, context: *mut c_void) -> bool {
        // SAFETY: the caller's promise, and a context of ours with size and flags.
        unsafe { sys::dr_set_mcontext(context, &raw mut self.0) != 0 }
    }

    /// Goes on with these registers. Returns only if that is not possible, and runs no destructors of callers.
    ///
    /// # Safety
    /// In a callout or a clean call, which is left for good.
    pub unsafe fn redirect(&mut self) {
        // SAFETY: the caller's promise; size and flags are set.
        unsafe { sys::dr_redirect_execution(&raw mut self.0) };
    }
}

impl std::ops::Deref for Machine {
    type Target = View;

    fn deref(&self) -> &View {
        // SAFETY: the same structure.
        unsafe { &*(&raw const self.0).cast() }
    }
}

impl std::ops::DerefMut for Machine {
    fn deref_mut(&mut self) -> &mut View {
        // SAFETY: the same structure.
        unsafe { &mut *(&raw mut self.0).cast() }
    }
}

/// The registers in a machine context, one of ours or of an event's.
#[repr(transparent)]
pub struct View(sys::dr_mcontext_t);

impl View {
    /// Index of a general purpose register in DynamoRIO's order, which is RDI RSI RBP RSP RBX RDX RCX RAX R8 to R15.
    fn place(number: usize) -> usize {
        (if number < 8 { 7 - number } else { number }) & 15
    }

    /// A general purpose register, by the processor's numbering.
    #[must_use]
    pub fn gpr(&self, number: usize) -> u64 {
        let first = (&raw const self.0).cast::<u8>();
        // SAFETY: the 16 registers stand in a row from the first on, as integers of 8 bytes.
        unsafe { first.add(FIRST_GPR).cast::<u64>().add(Self::place(number)).read() }
    }

    /// The same, to be changed.
    pub fn gpr_mut(&mut self, number: usize) -> &mut u64 {
        let first = (&raw mut self.0).cast::<u8>();
        // SAFETY: as in `gpr`, and the context is borrowed as long as the register.
        unsafe { &mut *first.add(FIRST_GPR).cast::<u64>().add(Self::place(number)) }
    }

    /// The address of the next instruction.
    #[must_use]
    pub fn pc(&self) -> u64 {
        // SAFETY: the union is one pointer under several names.
        unsafe { self.0.__bindgen_anon_10.pc as u64 }
    }

    /// Sets it.
    pub fn set_pc(&mut self, pc: u64) {
        self.0.__bindgen_anon_10.pc = pc as sys::app_pc;
    }

    /// RFLAGS
    #[must_use]
    pub fn flags(&self) -> u64 {
        // SAFETY: both members of the union are one integer.
        unsafe { self.0.__bindgen_anon_9.xflags }
    }

    /// Sets them.
    pub fn set_flags(&mut self, flags: u64) {
        self.0.__bindgen_anon_9.xflags = flags as sys::reg_t;
    }

    /// A vector register of 32 bytes.
    #[must_use]
    pub fn vector(&self, number: usize) -> [u8; 32] {
        let mut low = [0; 32];
        // SAFETY: all members of the union are plain bytes.
        low.copy_from_slice(unsafe { &self.0.__bindgen_anon_11.simd[number].u8_[..32] });
        low
    }

    /// Sets all of them; what is above their 32 bytes becomes zero.
    pub fn set_vectors(&mut self, values: &[[u8; 32]; 16]) {
        // SAFETY: all members of the union are vector registers as plain bytes.
        let vectors = unsafe { &mut self.0.__bindgen_anon_11.simd };
        for (slot, value) in vectors.iter_mut().zip(values) {
            let mut wide = [0; 64];
            wide[..32].copy_from_slice(value);
            slot.u8_ = wide;
        }
    }

    /// General purpose and vector registers, RIP and RFLAGS; the rest as at a program's start.
    #[must_use]
    pub fn register_file(&self) -> RegisterFile {
        let (gpr, ymm) = (std::array::from_fn(|n| self.gpr(n)), std::array::from_fn(|n| self.vector(n)));
        RegisterFile { gpr, rip: self.pc(), rflags: self.flags(), ymm, ..RegisterFile::default() }
    }
}

/// Within a clean call: goes on at `pc` with the registers as they are, and does not return to the caller, whose
/// destructors do not run. `None` if this is no clean call.
pub fn go_on_at(pc: u64) -> Option<std::convert::Infallible> {
    let mut machine = Machine::current()?;
    machine.set_pc(pc);
    // SAFETY: in a clean call, as there is a context.
    unsafe { machine.redirect() };
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_where_dynamorio_has_them() {
        let mut machine = Machine::empty();
        for number in 0..16 {
            *machine.gpr_mut(number) = 100 + number as u64;
        }
        let m = &machine.0;
        // SAFETY: each union is one machine word under several names.
        let found = unsafe {
            [
                m.__bindgen_anon_8.rax,
                m.__bindgen_anon_7.rcx,
                m.__bindgen_anon_6.rdx,
                m.__bindgen_anon_5.rbx,
                m.__bindgen_anon_4.rsp,
                m.__bindgen_anon_3.rbp,
                m.__bindgen_anon_2.rsi,
                m.__bindgen_anon_1.rdi,
                m.r8,
                m.r9,
                m.r10,
                m.r11,
                m.r12,
                m.r13,
                m.r14,
                m.r15,
            ]
        };
        assert_eq!(found, std::array::from_fn(|number| 100 + number as u64));
        assert_eq!(machine.register_file().gpr, found);
    }
}
