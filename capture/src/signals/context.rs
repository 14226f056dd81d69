//! The state of the program in a frame that the kernel has made.

use super::OPEN;
use crate::sys;
use crate::thread;

/// The state of the program in a frame of the kernel's (`struct ucontext`).
pub struct Context(pub(super) *mut u64);

/// Words in it.
pub(super) const STACK: usize = 2;
pub(super) const GENERAL: usize = 5;
pub(super) const FLAGS: usize = GENERAL + 17;
pub(super) const FP_STATE: usize = GENERAL + 23;
pub(super) const MASK: usize = 37;
/// Bytes of it, and of what is in front of it and behind it in a frame.
pub(super) const CONTEXT: usize = 304;
pub(super) const INFO: usize = 128;
pub(super) const FRAME: u64 = 8 + (CONTEXT + INFO) as u64;
/// Registers in the order in which they stand there.
pub(super) const RDI: usize = 8;
pub(super) const RSI: usize = 9;
pub(super) const RDX: usize = 12;
pub(super) const RAX: usize = 13;
pub(super) const RSP: usize = 15;
pub(super) const RIP: usize = 16;

/// In the state of x87 and vector registers: MXCSR; what is in use; the size of all, and the mark behind it.
pub(super) const MXCSR: u64 = 24;
pub(super) const SOFTWARE: u64 = 464;
pub(super) const IN_USE: u64 = 512;
pub(super) const MARK: u32 = 0x4650_5853;

impl Context {
    /// The state in a frame at an address.
    pub fn at(frame: u64) -> Self {
        Self(frame as *mut u64)
    }

    /// Copies it, with the state of x87 and vector registers, to where memory ends at an address; where the copy is.
    pub fn copy(&self, end: u64) -> Option<u64> {
        let bytes = self.fp_bytes();
        let fp = (end - bytes) & !63;
        let at = (fp - CONTEXT as u64) & !15;
        // SAFETY: this program's own memory.
        let copied = unsafe {
            sys::copy(fp as *mut u8, self.get(FP_STATE), bytes as usize) == bytes as usize
                && sys::copy(at as *mut u8, self.0 as u64, CONTEXT) == CONTEXT
        };
        Self::at(at).set(FP_STATE, fp);
        copied.then_some(at)
    }

    /// A stack for handlers, which becomes the kernel's.
    pub fn set_stack(&mut self, start: u64, size: u64) {
        self.set(STACK, start);
        self.set(STACK + 1, 0);
        self.set(STACK + 2, size);
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.0 as u64
    }

    /// Where the state of x87 and vector registers is, and how many bytes it has.
    pub fn vectors(&self) -> (u64, u64) {
        (self.get(FP_STATE), self.fp_bytes())
    }

    /// A word.
    pub fn get(&self, at: usize) -> u64 {
        // SAFETY: in the structure.
        unsafe { self.0.add(at).read() }
    }

    pub fn set(&mut self, at: usize, value: u64) {
        // SAFETY: as above.
        unsafe { self.0.add(at).write(value) };
    }

    pub fn register(&self, number: usize) -> u64 {
        self.get(GENERAL + number)
    }

    pub fn set_register(&mut self, number: usize, value: u64) {
        self.set(GENERAL + number, value);
    }

    pub fn rax(&self) -> u64 {
        self.register(RAX)
    }

    pub fn set_rax(&mut self, value: u64) {
        self.set_register(RAX, value);
    }

    pub fn rip(&self) -> u64 {
        self.register(RIP)
    }

    pub fn set_rip(&mut self, value: u64) {
        self.set_register(RIP, value);
    }

    pub fn flags(&self) -> u64 {
        self.get(FLAGS)
    }

    pub fn set_flags(&mut self, flags: u64) {
        self.set(FLAGS, flags);
    }

    pub fn rsp(&self) -> u64 {
        self.register(RSP)
    }

    pub fn set_rsp(&mut self, value: u64) {
        self.set_register(RSP, value);
    }

    /// A call's arguments.
    pub fn arguments(&self) -> [u64; 6] {
        [RDI, RSI, RDX, 2, 0, 1].map(|number| self.register(number))
    }

    /// What the kernel blocks when it returns to the program.
    pub fn set_mask(&mut self, mask: u64) {
        self.set(MASK, mask & !OPEN);
    }

    /// The program's own stack for handlers becomes the kernel's.
    pub fn leave_stack(&mut self) {
        let alt = thread::get().signals.alt;
        self.set(STACK, alt.start);
        self.set(STACK + 1, u64::from(alt.flags));
        self.set(STACK + 2, alt.size);
    }

    /// Bytes of the state of x87 and vector registers.
    pub(super) fn fp_bytes(&self) -> u64 {
        let at = self.get(FP_STATE);
        let mark = sys::read::<8>(at + SOFTWARE).unwrap_or_default();
        let [mark, size] = [0, 4].map(|i| u32::from_le_bytes(core::array::from_fn(|n| mark[i + n])));
        if mark == MARK { size.into() } else { 512 }
    }
}
