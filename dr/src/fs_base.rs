//! The FS base, which DynamoRIO leaves to the libraries of its clients: it takes the program's from a slot of its own. While the
//! program's code runs in the code cache, it is free for the client.

use std::sync::OnceLock;

/// Whether programs, and not only the kernel, may set segment bases here. To be asked first before a process gives up opening files.
pub fn can_be_set() -> bool {
    const AT_HWCAP2: u64 = 26;
    const FSGSBASE: u64 = 2;
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        vector.chunks_exact(16).any(|entry| word(&entry[..8]) == AT_HWCAP2 && word(&entry[8..]) & FSGSBASE != 0)
    })
}

/// The FS base. Only where [`can_be_set`] is true.
#[must_use]
#[inline]
pub fn get() -> u64 {
    let base;
    // SAFETY: reads a register, by the caller's promise one that can be read.
    unsafe { std::arch::asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// Sets the FS base.
///
/// # Safety
/// [`can_be_set`] is true. Where a client's code goes on, the base has to be the client's own.
#[inline]
pub unsafe fn set(base: u64) {
    // SAFETY: the caller's promise; not `nomem`, since thread-local variables are memory that it moves.
    unsafe { std::arch::asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) };
}
