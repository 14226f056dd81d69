//! What the recording processor could do and this one cannot.

use bugnet_format::folder::Meta;

/// Names (as in /proc/cpuinfo) of features that bring instructions which replay executes. Others in a log make no
/// difference to replay: they say how fast something is, or their instructions are not executed but injected.
const INSTRUCTION_SETS: [&str; 38] = [
    "pni",
    "ssse3",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "popcnt",
    "movbe",
    "aes",
    "pclmulqdq",
    "avx",
    "f16c",
    "fma",
    "avx2",
    "bmi1",
    "bmi2",
    "abm",
    "adx",
    "sha_ni",
    "gfni",
    "vaes",
    "vpclmulqdq",
    "cx16",
    "lahf_lm",
    "avx_vnni",
    "avx_ifma",
    "sha512",
    "sm3",
    "sm4",
    "avx512f",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512vl",
    "avx512ifma",
    "avx512vbmi",
    "avx512_vbmi2",
    "avx512_vnni",
    "avx512_bitalg",
];

/// Features that the recorded program could see, that bring instructions, and that this machine's processor lacks.
/// Empty if this machine does not tell what it has.
#[must_use]
pub fn missing_features(meta: &Meta) -> Vec<String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    missing_from(&meta.machine.features, &cpuinfo)
}

fn missing_from(recorded: &[String], cpuinfo: &str) -> Vec<String> {
    let Some((_, flags)) = cpuinfo.lines().filter_map(|line| line.split_once(':')).find(|(k, _)| k.trim() == "flags")
    else {
        return Vec::new();
    };
    let here: Vec<&str> = flags.split_ascii_whitespace().collect();
    let lacks = |name: &&String| INSTRUCTION_SETS.contains(&name.as_str()) && !here.contains(&name.as_str());
    recorded.iter().filter(lacks).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instruction_sets_count() {
        let recorded = ["avx2", "erms", "sha_ni", "rdrand", "pni"].map(String::from);
        let cpuinfo = "processor\t: 0\nflags\t\t: fpu pni avx\nbugs\t: none\n";
        assert_eq!(missing_from(&recorded, cpuinfo), ["avx2", "sha_ni"]);
        assert_eq!(missing_from(&recorded, "no flags here"), [] as [&str; 0]);
    }
}
