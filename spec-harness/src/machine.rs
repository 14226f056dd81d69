//! The machine on which it was measured.

use serde::Serialize;
use std::fs;
use std::process::Command;

/// What a reader of figures wants to know.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processor, as the kernel names it.
    pub processor: String,
    /// Logical processors that can be used.
    pub cores: usize,
    /// Memory, in bytes.
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub system: String,
    /// Commit of the source tree.
    pub commit: String,
    /// Day, as `YYYY-MM-DD`, UTC.
    pub date: String,
}

impl Machine {
    /// This machine, now.
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let said = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).output();
            output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
        };
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name", ':'),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory: value(&read("/proc/meminfo"), "MemTotal", ':').replace("kB", "").trim().parse().unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: value(&read("/etc/os-release"), "PRETTY_NAME", '=').trim_matches('"').to_owned(),
            commit: said("git", &["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short", "HEAD"]),
            date: said("date", &["-u", "+%F"]),
        }
    }
}

/// The value of the first line that begins with `key`.
fn value(text: &str, key: &str, separator: char) -> String {
    let line = text.lines().find(|line| line.starts_with(key));
    line.and_then(|line| line.split_once(separator)).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(value("a: 1\nmodel name\t: X 5\n", "model name", ':'), "X 5");
        assert_eq!(value("", "model name", ':'), "");
    }
}
