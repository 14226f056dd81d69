//! Instructions whose results are logged: executed here, in place of the program's own, and masked where needed.

use crate::base::options::CpuLevel;
use crate::emitted::callout::Saved;
use crate::run::hidden::{ABOVE_V2, ABOVE_V3, HIDDEN};
use bugnet_dr::ir::Gpr;
use bugnet_format::record::SpecialKind;
use std::arch::x86_64::{__cpuid_count, __rdtscp, _rdrand64_step, _rdseed64_step, _rdtsc, _xgetbv};

/// State components that XGETBV and CPUID leaf 13 may show: x87, SSE, AVX.
const COMPONENTS: u32 = 7;

fn components(level: CpuLevel) -> u32 {
    if level == CpuLevel::V2 { 3 } else { COMPONENTS }
}

/// Takes the state components that the program is not shown out of those that EDX:EAX select.
pub fn hide_components(saved: &mut Saved, level: CpuLevel) {
    saved.gpr[usize::from(Gpr::RAX.0)] &= u64::from(components(level));
    saved.gpr[usize::from(Gpr::RDX.0)] = 0;
}

fn cpuid(leaf: u32, subleaf: u32, level: CpuLevel) -> [u32; 4] {
    let raw = __cpuid_count(leaf, subleaf);
    let mut out = [raw.eax, raw.ebx, raw.ecx, raw.edx];
    let mut hide = |l: u32, s: u32, reg: usize, bits: u32| {
        // Leaf 1 and the extended ones have no subleaves.
        if l == leaf && (s == subleaf || leaf != 7) {
            out[reg] &= !bits;
        }
    };
    for (l, s, reg, bits, _) in HIDDEN {
        hide(l, s, reg, bits);
    }
    if level != CpuLevel::Host {
        ABOVE_V3.iter().for_each(|(l, s, reg, bits)| hide(*l, *s, *reg, *bits));
    }
    if level == CpuLevel::V2 {
        ABOVE_V2.iter().for_each(|(l, s, reg, bits)| hide(*l, *s, *reg, *bits));
    }
    match (leaf, subleaf) {
        (0xd, 0) => {
            out[0] &= components(level);
            out[3] = 0;
            // Size of the area for what is left: legacy region, header, and AVX where it is shown.
            let size = if out[0] & 4 != 0 { 576 + 256 } else { 576 };
            out[1] = size;
            out[2] = size;
        }
        (0xd, 1) => {
            // XSAVEC and XSAVEOPT stay; XSAVES and XFD are the kernel's.
            out[0] &= 0b0111;
            out[1] = if components(level) & 4 != 0 { 576 + 256 } else { 576 };
            out[2] = 0;
            out[3] = 0;
        }
        // The size of one that is hidden stays: a helper (`calls/helper.rs`) runs natively, where XSAVEC saves it, too, and glibc makes room by these sizes.
        (0xd, component) if component >= 32 || components(level) >> component & 1 == 0 => out[1..].fill(0),
        // Tile information of AMX.
        (0x1d | 0x1e, _) => out = [0; 4],
        _ => {}
    }
    out
}

/// Whether the instruction defines arithmetic flags.
pub fn writes_flags(kind: SpecialKind) -> bool {
    matches!(kind, SpecialKind::Rdrand | SpecialKind::Rdseed)
}

/// Writes the low `bytes` (1, 2, 4 or 8) of a register, as the processor does.
pub fn set(saved: &mut Saved, reg: Gpr, bytes: u32, value: u64) {
    let slot = &mut saved.gpr[usize::from(reg.0)];
    *slot = match bytes {
        1 => *slot & !0xff | value & 0xff,
        2 => *slot & !0xffff | value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    };
}

/// Executes the instruction on the saved registers; `reg` is the destination of those that name one, and its size.
pub fn emulate(kind: SpecialKind, reg: Option<(Gpr, u32)>, saved: &mut Saved, level: CpuLevel) {
    let (reg, bytes) = reg.unwrap_or((Gpr::RAX, 8));
    let (rax, rcx, rdx, rbx) = (Gpr(0), Gpr(1), Gpr(2), Gpr(3));
    match kind {
        SpecialKind::Rdtsc => {
            // SAFETY: RDTSC is in every x86-64 processor.
            let tsc = unsafe { _rdtsc() };
            set(saved, rax, 4, tsc);
            set(saved, rdx, 4, tsc >> 32);
        }
        SpecialKind::Rdtscp => {
            let mut aux = 0;
            // SAFETY: the program executes it on this processor.
            let tsc = unsafe { __rdtscp(&raw mut aux) };
            set(saved, rax, 4, tsc);
            set(saved, rdx, 4, tsc >> 32);
            set(saved, rcx, 4, aux.into());
        }
        SpecialKind::Rdpid => {
            let mut aux = 0;
            // SAFETY: RDTSCP is in every processor that has RDPID, and reads the same register.
            unsafe { __rdtscp(&raw mut aux) };
            set(saved, reg, 8, aux.into());
        }
        SpecialKind::Cpuid => {
            let [a, b, c, d] = cpuid(saved.gpr[0] as u32, saved.gpr[1] as u32, level);
            set(saved, rax, 4, a.into());
            set(saved, rbx, 4, b.into());
            set(saved, rcx, 4, c.into());
            set(saved, rdx, 4, d.into());
        }
        SpecialKind::Xgetbv => {
            let value = xgetbv(saved.gpr[1] as u32, level);
            set(saved, rax, 4, value);
            set(saved, rdx, 4, value >> 32);
        }
        SpecialKind::Rdrand | SpecialKind::Rdseed => {
            let mut value = 0;
            let ok = random(kind, &mut value);
            set(saved, reg, bytes, value);
            // OF, SF, ZF, AF and PF are cleared, CF tells of success.
            saved.rflags = saved.rflags & !0x8d5 | u64::from(ok);
        }
        // Not emulated, or by the thread itself.
        SpecialKind::Rdpmc
        | SpecialKind::SystemTable
        | SpecialKind::OpaqueStore
        | SpecialKind::SegmentBase
        | SpecialKind::Emulated => {}
    }
}

fn xgetbv(index: u32, level: CpuLevel) -> u64 {
    // SAFETY: the program executes it on this processor; an index that faults here would fault there.
    #[target_feature(enable = "xsave")]
    fn get(index: u32) -> u64 {
        // SAFETY: as the caller says.
        unsafe { _xgetbv(index) }
    }
    // SAFETY: as above.
    unsafe { get(index) & u64::from(components(level)) }
}

fn random(kind: SpecialKind, value: &mut u64) -> bool {
    #[target_feature(enable = "rdrand")]
    fn rand(value: &mut u64) -> i32 {
        _rdrand64_step(value)
    }
    #[target_feature(enable = "rdseed")]
    fn seed(value: &mut u64) -> i32 {
        _rdseed64_step(value)
    }
    // SAFETY: the program executes the same instruction on this processor.
    unsafe { if kind == SpecialKind::Rdrand { rand(value) != 0 } else { seed(value) != 0 } }
}
