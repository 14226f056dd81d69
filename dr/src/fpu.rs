//! x87 state and MXCSR, which live in the processor during callouts and clean calls.

use crate::access::FpuEffect;
use bugnet_format::regs::RegisterFile;
use std::arch::x86_64::{_fxrstor64, _fxsave64};

/// An FXSAVE image.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Image([u8; 512]);

impl Default for Image {
    fn default() -> Self {
        Self([0; 512])
    }
}

impl Image {
    /// Its bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Copies x87 state and MXCSR into `regs`; vector registers stay.
    pub fn unpack(&self, regs: &mut RegisterFile) {
        let half = |at: usize| u16::from_le_bytes([self.0[at], self.0[at + 1]]);
        regs.fcw = half(0);
        regs.fsw = half(2);
        regs.ftw = self.0[4];
        regs.mxcsr = u32::from(half(24)) | u32::from(half(26)) << 16;
        for (i, st) in regs.st.iter_mut().enumerate() {
            st.copy_from_slice(&self.0[32 + 16 * i..42 + 16 * i]);
        }
    }
}

/// Reads x87 state and MXCSR from the processor into `regs`; vector registers stay.
pub fn save(regs: &mut RegisterFile) {
    let mut image = Image::default();
    // SAFETY: 512 bytes, aligned to 16; FXSAVE is in every x86-64 processor.
    unsafe { _fxsave64(image.0.as_mut_ptr()) };
    image.unpack(regs);
}

/// Loads x87 state and MXCSR from `regs` into the processor; vector registers stay.
pub fn restore(regs: &RegisterFile) {
    let mut image = Image::default();
    // The image's XMM fields are loaded too: take the current ones.
    // SAFETY: 512 bytes, aligned to 16; FXSAVE is in every x86-64 processor.
    unsafe { _fxsave64(image.0.as_mut_ptr()) };
    image.0[..2].copy_from_slice(&regs.fcw.to_le_bytes());
    image.0[2..4].copy_from_slice(&regs.fsw.to_le_bytes());
    image.0[4] = regs.ftw;
    image.0[5..24].fill(0);
    // A reserved bit of MXCSR would fault: keep those that this processor has.
    let mask = u32::from_le_bytes([image.0[28], image.0[29], image.0[30], image.0[31]]);
    let mask = if mask == 0 { 0xffbf } else { mask };
    image.0[24..28].copy_from_slice(&(regs.mxcsr & mask).to_le_bytes());
    for (i, st) in regs.st.iter().enumerate() {
        image.0[32 + 16 * i..42 + 16 * i].copy_from_slice(st);
    }
    // SAFETY: a valid image, aligned to 16, with MXCSR's reserved bits clear.
    unsafe { _fxrstor64(image.0.as_ptr()) };
}

/// The x87 status word in the processor.
#[must_use]
pub fn status() -> u16 {
    let status;
    // SAFETY: reads x87 state only.
    unsafe { std::arch::asm!("fnstsw ax", out("ax") status, options(nomem, nostack, preserves_flags)) };
    status
}

/// Sets those exception flags in the processor that are set in an x87 status word.
pub fn raise_flags(status: u16) {
    /// All of them, and the bits that sum them up.
    const FLAGS: u16 = 0x80ff;
    if status & FLAGS != 0 {
        let mut regs = RegisterFile::default();
        save(&mut regs);
        regs.fsw |= status & FLAGS;
        restore(&regs);
    }
}

/// Initialises the processor's x87 unit, as `fnsave` does behind its store.
pub fn init() {
    // SAFETY: changes x87 state only, in which nothing of the compiler's is kept.
    unsafe { std::arch::asm!("fninit", options(nomem, nostack)) };
}

/// Changes the x87 control word in the processor as an instruction does that is not executed.
pub fn apply(effect: FpuEffect) {
    match effect {
        FpuEffect::None => {}
        FpuEffect::Init => init(),
        FpuEffect::MaskExceptions => {
            let mut regs = RegisterFile::default();
            save(&mut regs);
            regs.fcw |= 0x3f;
            restore(&regs);
        }
    }
}
