//! The recording machine: its kernel, its processor, and what of the processor the program is shown.

use clap::ValueEnum;
use nix::sys::utsname::uname;

/// What the program is shown of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CpuLevel {
    /// Up to SSE4.2
    #[value(name = "x86-64-v2")]
    V2,
    /// Up to AVX2, BMI2 and FMA: replays on most machines
    #[value(name = "x86-64-v3")]
    V3,
    /// As host, as long as AVX-512 cannot be recorded
    #[value(name = "x86-64-v4")]
    V4,
    /// All that can be recorded exactly: AES, SHA ..., but no AVX-512, AMX or transactional memory
    Host,
}

/// Features that a level adds to the one before, by the names of /proc/cpuinfo.
const V2: [&str; 7] = ["cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"];
const V3: [&str; 10] = ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave", "xgetbv1"];
/// Features that every x86-64 processor has, or that no level hides.
const BASE: [&str; 22] = [
    "fpu",
    "vme",
    "tsc",
    "msr",
    "pae",
    "cx8",
    "apic",
    "sep",
    "pge",
    "cmov",
    "clflush",
    "mmx",
    "fxsr",
    "sse",
    "sse2",
    "syscall",
    "nx",
    "lm",
    "constant_tsc",
    "nopl",
    "rdtscp",
    "hypervisor",
];
/// Beginnings of the names of features that cannot be recorded exactly, or not yet.
const NEVER: [&str; 5] = ["avx512", "avx10", "amx", "rtm", "hle"];

impl CpuLevel {
    /// Its name on the command line and for the logger.
    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "x86-64-v2",
            Self::V3 => "x86-64-v3",
            Self::V4 => "x86-64-v4",
            Self::Host => "host",
        }
    }

    /// Whether the program is shown this feature, named as in /proc/cpuinfo.
    pub fn shows(self, feature: &str) -> bool {
        let listed = |lists: &[&[&str]]| lists.iter().any(|list| list.contains(&feature));
        let possible = !NEVER.iter().any(|never| feature.starts_with(never));
        possible
            && match self {
                Self::V2 => listed(&[&BASE, &V2]),
                Self::V3 => listed(&[&BASE, &V2, &V3]),
                Self::V4 | Self::Host => true,
            }
    }
}

/// Describes this machine, as far as it tells.
pub fn describe(level: CpuLevel) -> bugnet_format::folder::Machine {
    let kernel = uname()
        .map(|uts| format!("{} {}", uts.sysname().to_string_lossy(), uts.release().to_string_lossy()))
        .unwrap_or_default();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name).map_or("", |(_, v)| v)
    };
    bugnet_format::folder::Machine {
        kernel,
        cpu: field("model name").to_owned(),
        features: field("flags").split_ascii_whitespace().filter(|f| level.shows(f)).map(str::to_owned).collect(),
    }
}

/// What light recording needs and the system lacks, in a sentence; none where it has all.
pub fn lacks_for_light() -> Option<&'static str> {
    const DISPATCH: libc::c_int = 59;
    // SAFETY: turns off what is not on.
    let dispatch = unsafe { libc::prctl(DISPATCH, 0, 0, 0, 0) };
    (dispatch != 0).then_some("this kernel has no syscall user dispatch (Linux 5.11 has)")
}

/// Whether the processor raises a signal for CPUID where that is asked for.
pub fn traps_cpuid() -> bool {
    const ARCH_GET_CPUID: libc::c_long = 0x1011;
    const ARCH_SET_CPUID: libc::c_long = 0x1012;
    // SAFETY: asks for, and sets, what is so already.
    unsafe {
        libc::syscall(libc::SYS_arch_prctl, ARCH_SET_CPUID, libc::syscall(libc::SYS_arch_prctl, ARCH_GET_CPUID, 0)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for level in CpuLevel::value_variants() {
            assert_eq!(level.to_possible_value().unwrap().get_name(), level.name());
        }
    }

    #[test]
    fn levels_show_what_they_say() {
        use CpuLevel::{Host, V2, V3, V4};
        let shown = |feature: &str| CpuLevel::value_variants().iter().filter(|l| l.shows(feature)).copied().collect();
        let check = |feature: &str, expected: &[CpuLevel]| {
            let shown: Vec<CpuLevel> = shown(feature);
            assert_eq!(shown, expected, "{feature}");
        };
        check("sse2", &[V2, V3, V4, Host]);
        check("sse4_2", &[V2, V3, V4, Host]);
        check("avx2", &[V3, V4, Host]);
        check("sha_ni", &[V4, Host]);
        check("avx512f", &[]);
        check("amx_tile", &[]);
        check("rtm", &[]);
    }
}
