//! Instructions whose results come from the processor: RDTSC, RDTSCP, CPUID. The kernel raises a signal for each; its handler answers, and the log has what it said.

use crate::cpuid;
use crate::layout::{CPUID, RDTSC, RDTSCP, SPECIAL};
use crate::log::Record;
use crate::signals::Context;
use crate::sys;
use crate::trap;
use core::arch::x86_64::{__cpuid_count, __rdtscp, _rdtsc};

const RAX: usize = 13;
const RBX: usize = 11;
const RCX: usize = 14;
const RDX: usize = 12;

/// Bits of CPUID that the program does not see: `(leaf, register 0 to 3 for EAX to EDX, bits)`. Those of full recording (`client-logger/src/run/special.rs`),
/// at the level x86-64-v3; and RDRAND, RDSEED and RDPID, which nothing traps.
const HIDDEN: [(u32, u32, usize, u32); 12] = [
    (1, 0, 2, 1 << 3 | 1 << 30 | 1 << 1 | 1 << 25),
    (7, 0, 1, 1 << 0 | 1 << 2 | 1 << 4 | 1 << 11 | 1 << 18),
    (7, 0, 1, 1 << 16 | 1 << 17 | 1 << 21 | 1 << 26 | 1 << 27 | 1 << 28 | 1 << 30 | 1 << 31),
    (7, 0, 1, 1 << 19 | 1 << 23 | 1 << 24 | 1 << 29),
    (7, 0, 2, 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 11 | 1 << 12 | 1 << 14 | 1 << 22 | 1 << 23),
    (7, 0, 2, 1 << 8 | 1 << 9 | 1 << 10 | 1 << 27 | 1 << 28 | 1 << 29),
    (7, 0, 3, 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 11 | 1 << 13 | 1 << 16 | 1 << 20),
    (7, 0, 3, 1 << 22 | 1 << 23 | 1 << 24 | 1 << 25),
    (7, 1, 0, 1 << 5 | 1 << 21 | 1 << 22 | 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 23 | 1 << 4),
    (7, 1, 3, 1 << 4 | 1 << 5 | 1 << 8 | 1 << 10 | 1 << 19 | 1 << 21),
    (0x8000_0001, 0, 2, 1 << 11 | 1 << 15 | 1 << 16 | 1 << 21 | 1 << 6),
    (0x8000_0008, 0, 1, 1 << 0 | 1 << 4 | 1 << 8),
];

/// State components that the processor has: XGETBV, which nothing traps, says so.
pub fn components() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a register that processors with CPUID faulting have.
    unsafe { core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(low) | u64::from(high) << 32
}

fn answers(leaf: u32, subleaf: u32) -> [u32; 4] {
    let raw = __cpuid_count(leaf, subleaf);
    let mut out = [raw.eax, raw.ebx, raw.ecx, raw.edx];
    for (l, s, register, bits) in HIDDEN {
        if l == leaf && (s == subleaf || leaf != 7) {
            out[register] &= !bits;
        }
    }
    /// Bytes of legacy region, header, and AVX.
    const AREA: u32 = 576 + 256;
    match (leaf, subleaf) {
        (0xd, 0) => [out[0] & 7, AREA, AREA, 0],
        (0xd, 1) => [out[0] & 7, AREA, 0, 0],
        // The size of one that is hidden stays: XSAVEC saves it, too, and glibc makes room by these sizes.
        (0xd, component) if component > 2 => [out[0], 0, 0, 0],
        (0x1d | 0x1e, _) => [0; 4],
        _ => out,
    }
}

/// Whether we ourselves may execute it.
fn allow(kind: u16, allowed: bool) {
    match kind {
        CPUID if !cpuid::traps() => true,
        CPUID => trap::allow_cpuid(allowed),
        _ => trap::allow_tsc(allowed),
    };
}

/// Answers the instruction at which the thread is, if it is one of them.
pub fn answer(context: &mut Context) -> bool {
    let rip = context.rip();
    let Some([a, b]) = sys::read::<2>(rip) else { return false };
    let kind = match [a, b] {
        [0x0f, 0x31] => RDTSC,
        [0x0f, 0xa2] => CPUID,
        cpuid::HIDDEN if cpuid::is_hidden(rip) => CPUID,
        [0x0f, 0x01] if sys::read::<3>(rip) == Some([0x0f, 0x01, 0xf9]) => RDTSCP,
        _ => return false,
    };
    allow(kind, true);
    let values = match kind {
        CPUID => answers(context.register(RAX) as u32, context.register(RCX) as u32).map(u64::from),
        RDTSC => {
            // SAFETY: in every processor.
            let now = unsafe { _rdtsc() };
            [now & 0xffff_ffff, 0, context.register(RCX), now >> 32]
        }
        _ => {
            let mut processor = 0;
            // SAFETY: the program has executed it.
            let now = unsafe { __rdtscp(&raw mut processor) };
            [now & 0xffff_ffff, 0, processor.into(), now >> 32]
        }
    };
    allow(kind, false);
    for (register, value) in [RAX, RBX, RCX, RDX].into_iter().zip(values) {
        if kind == CPUID || register == RAX || register == RDX || register == RCX && kind == RDTSCP {
            context.set_register(register, value);
        }
    }
    if let Some(mut record) = Record::begin(SPECIAL, kind, 40) {
        record.word(rip);
        values.into_iter().for_each(|value| record.word(value));
        record.end();
    }
    context.set_rip(rip + if kind == RDTSCP { 3 } else { 2 });
    true
}
