//! `si_code` of faults that the kernel has not seen, since DynamoRIO has found them before the instruction was executed.

/// A fault without an address.
pub const SI_KERNEL: i32 = 128;
/// Nothing is mapped there.
pub const SEGV_MAPERR: i32 = 1;
/// It is mapped, and may not be accessed so.
pub const SEGV_ACCERR: i32 = 2;
const SI_USER: i32 = 0;
const ILL_ILLOPN: i32 = 2;

/// That of such a signal: what DynamoRIO cannot decode is no instruction (Linux, `arch/x86/kernel/traps.c`).
pub fn without_kernel(signal: i32) -> i32 {
    match signal {
        libc::SIGSEGV => SI_KERNEL,
        libc::SIGILL => ILL_ILLOPN,
        libc::SIGTRAP => SI_KERNEL,
        _ => SI_USER,
    }
}
