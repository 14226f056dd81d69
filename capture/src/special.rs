//! Instructions whose results come from the processor: RDTSC, RDTSCP, CPUID. The kernel raises a signal for each; its handler answers, and the log has what it said.

use crate::cpuid;
use crate::hidden::{ABOVE_V2, ABOVE_V3, HIDDEN};
use crate::layout::{CPUID, RDTSC, RDTSCP, SPECIAL};
use crate::log::Record;
use crate::signals::Context;
use crate::state;
use crate::sys;
use crate::trap;
use core::arch::x86_64::{__cpuid_count, __rdtscp, _rdtsc};

const RAX: usize = 13;
const RBX: usize = 11;
const RCX: usize = 14;
const RDX: usize = 12;

/// Bits of CPUID of what nothing traps, as full recording does: RDRAND, RDSEED, RDPID. `(leaf, subleaf, register 0 to 3 for EAX to EDX, bits)`
const UNTRAPPED: [(u32, u32, usize, u32); 3] = [(1, 0, 2, 1 << 30), (7, 0, 1, 1 << 18), (7, 0, 2, 1 << 22)];
/// Levels of what the program sees: all that can be recorded, x86-64-v3 (which is the default), x86-64-v2.
const HOST: u32 = 0;
const V2: u32 = 2;

/// State components that the processor has: XGETBV, which nothing traps, says so.
pub fn components() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a register that processors with CPUID faulting have.
    unsafe { core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(low) | u64::from(high) << 32
}

/// Asks the processor.
fn ask(leaf: u32, subleaf: u32) -> [u32; 4] {
    let traps = cpuid::traps();
    if traps {
        trap::allow_cpuid(true);
    }
    let raw = __cpuid_count(leaf, subleaf);
    if traps {
        trap::allow_cpuid(false);
    }
    [raw.eax, raw.ebx, raw.ecx, raw.edx]
}

fn answers(leaf: u32, subleaf: u32) -> [u32; 4] {
    let mut out = state::get().answers.of(leaf, subleaf, ask);
    let level = state::get().cpu;
    let above_v3 = ABOVE_V3.iter().filter(|_| level != HOST);
    let above_v2 = ABOVE_V2.iter().filter(|_| level == V2);
    let always = HIDDEN.iter().map(|(l, s, register, bits, _)| (*l, *s, *register, *bits));
    for (l, s, register, bits) in always.chain(UNTRAPPED.iter().chain(above_v3).chain(above_v2).copied()) {
        if l == leaf && (s == subleaf || leaf != 7) {
            out[register] &= !bits;
        }
    }
    // State components (x87, SSE, and AVX), and the bytes of their area: legacy region, header, and AVX.
    let (components, area) = if level == V2 { (3u32, 576) } else { (7, 576 + 256) };
    match (leaf, subleaf) {
        (0xd, 0) => [out[0] & components, area, area, 0],
        (0xd, 1) => [out[0] & 7, area, 0, 0],
        // The size of one that is hidden stays: XSAVEC saves it, too, and glibc makes room by these sizes.
        (0xd, component) if component >= 32 || components >> component & 1 == 0 => [out[0], 0, 0, 0],
        (0x1d | 0x1e, _) => [0; 4],
        _ => out,
    }
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
    let values = match kind {
        CPUID => answers(context.register(RAX) as u32, context.register(RCX) as u32).map(u64::from),
        RDTSC => {
            trap::allow_tsc(true);
            // SAFETY: in every processor.
            let now = unsafe { _rdtsc() };
            trap::allow_tsc(false);
            [now & 0xffff_ffff, 0, context.register(RCX), now >> 32]
        }
        _ => {
            let mut processor = 0;
            trap::allow_tsc(true);
            // SAFETY: the program has executed it.
            let now = unsafe { __rdtscp(&raw mut processor) };
            trap::allow_tsc(false);
            [now & 0xffff_ffff, 0, processor.into(), now >> 32]
        }
    };
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
