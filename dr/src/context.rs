//! DynamoRIO's machine contexts as register files.

use crate::sys;
use bugnet_format::regs::RegisterFile;

/// An empty machine context that asks for everything.
#[must_use]
pub fn empty() -> Box<sys::dr_mcontext_t> {
    // SAFETY: numbers and a pointer that may be null; zero is a value of all of them.
    let mut context: Box<sys::dr_mcontext_t> = unsafe { Box::new(std::mem::zeroed()) };
    context.size = size_of::<sys::dr_mcontext_t>();
    context.flags = sys::dr_mcontext_flags_t::DR_MC_ALL;
    context
}

/// The current machine context, in an event that has one; `None` in one that has not.
#[must_use]
pub fn current() -> Option<Box<sys::dr_mcontext_t>> {
    let mut context = empty();
    // SAFETY: a context of ours, marked with its size and with what is wanted.
    let got = unsafe { sys::dr_get_mcontext(sys::dr_get_current_drcontext(), &raw mut *context) };
    (got != 0).then_some(context)
}

/// Within a clean call: goes on at `pc` with the registers as they are, and does not return to the caller, whose
/// destructors do not run. `None` if this is no clean call.
pub fn go_on_at(pc: u64) -> Option<std::convert::Infallible> {
    let mut context = *current()?;
    context.__bindgen_anon_10.pc = pc as sys::app_pc;
    // SAFETY: the current context, but for the address.
    unsafe { sys::dr_redirect_execution(&raw mut context) };
    None
}

/// General purpose and vector registers, RIP and RFLAGS; the rest as at a program's start.
#[must_use]
pub fn register_file(m: &sys::dr_mcontext_t) -> RegisterFile {
    // SAFETY: each union is one machine word, or one vector register, under several names.
    unsafe {
        let gpr = [
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
        ];
        let mut ymm = [[0; 32]; 16];
        for (reg, simd) in ymm.iter_mut().zip(&m.__bindgen_anon_11.simd) {
            reg.copy_from_slice(&simd.u8_[..32]);
        }
        let (rip, rflags) = (m.__bindgen_anon_10.pc as u64, m.__bindgen_anon_9.rflags);
        RegisterFile { gpr, rip, rflags, ymm, ..RegisterFile::default() }
    }
}

/// A general purpose register of a context, by the processor's numbering.
pub fn gpr_mut(m: &mut sys::dr_mcontext_t, number: usize) -> &mut u64 {
    // SAFETY: each union is one machine word under several names.
    unsafe {
        match number {
            0 => &mut m.__bindgen_anon_8.rax,
            1 => &mut m.__bindgen_anon_7.rcx,
            2 => &mut m.__bindgen_anon_6.rdx,
            3 => &mut m.__bindgen_anon_5.rbx,
            4 => &mut m.__bindgen_anon_4.rsp,
            5 => &mut m.__bindgen_anon_3.rbp,
            6 => &mut m.__bindgen_anon_2.rsi,
            7 => &mut m.__bindgen_anon_1.rdi,
            8 => &mut m.r8,
            9 => &mut m.r9,
            10 => &mut m.r10,
            11 => &mut m.r11,
            12 => &mut m.r12,
            13 => &mut m.r13,
            14 => &mut m.r14,
            _ => &mut m.r15,
        }
    }
}
