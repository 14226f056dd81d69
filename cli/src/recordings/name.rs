//! Names of recordings: the time (UTC, to the millisecond), then the program. They sort in the order of time, whatever was recorded.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

/// Where names have digits (`0`) and where other characters.
const PATTERN: &[u8] = b"00000000-000000.000-";
/// Most bytes of a program's name in that of a recording: a file system takes 255 for all.
const MOST: usize = 200;

/// The name of a recording that begins at this time.
pub fn name(program: &OsStr, time: SystemTime) -> OsString {
    let time = humantime::format_rfc3339_millis(time).to_string();
    let mut digits = time.bytes().filter(u8::is_ascii_digit);
    let filled = PATTERN.iter().map(|byte| if *byte == b'0' { digits.next().unwrap_or(b'0') } else { *byte });
    let mut name: Vec<u8> = filled.collect();
    let program = program.as_bytes();
    let cut = (0..=program.len().min(MOST)).rfind(|at| program.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80));
    name.extend_from_slice(&program[..cut.unwrap_or(0)]);
    OsStr::from_bytes(&name).to_owned()
}

/// Whether bugnet gives such names.
pub fn is_name(name: &OsStr) -> bool {
    let fits = |(byte, pattern): (&u8, &u8)| if *pattern == b'0' { byte.is_ascii_digit() } else { byte == pattern };
    name.len() > PATTERN.len() && name.as_bytes().iter().zip(PATTERN).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn names_sort_by_time() {
        let at = |millis: u64| UNIX_EPOCH + Duration::from_millis(1_800_000_000_000 + millis);
        let names = [("zsh", 0), ("ls", 9), ("ls", 10), ("awk", 99_000), ("ls", 86_400_000 * 400u64)];
        let names = names.map(|(program, millis)| name(OsStr::new(program), at(millis)));
        assert_eq!(names[0], "20270115-080000.000-zsh");
        assert!(names.is_sorted(), "{names:?}");
        assert!(names.iter().all(|name| is_name(name)));
    }

    #[test]
    fn any_program_has_a_name() {
        let long = "ß".repeat(150);
        let name = name(OsStr::new(&long), SystemTime::now());
        assert!(is_name(&name) && name.len() < 255 && name.to_str().unwrap().ends_with('ß'));
        for other in ["ls-0", "latest", "", "20270115-080000.000-", "2027-0115-080000.000-x", ".elf"] {
            assert!(!is_name(OsStr::new(other)), "{other}");
        }
    }
}
