//! What other tools say of the same run: at which of the lines that they print, in order, the fault is.

use super::case::Case;
use anyhow::{Context, Result};
use bugnet_tests::bugnet::run;
use bugnet_tests::faulty::Fails;
use serde::Serialize;
use std::process::Command;

/// Seconds after which a tool is interrupted.
const PATIENCE: &str = "60";

/// Another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// valgrind's memcheck.
    Memcheck,
    /// valgrind's helgrind.
    Helgrind,
    /// gdb's backtrace where the program dies.
    Gdb,
}

impl Peer {
    /// Those that have something to say of a program.
    pub fn of(case: &Case) -> Vec<Self> {
        let mut all = Vec::new();
        if case.fails != Fails::Hang || case.class == "parallel" {
            all.push(if case.class == "parallel" { Self::Helgrind } else { Self::Memcheck });
        }
        if matches!(case.fails, Fails::Signal(_)) && case.class != "parallel" {
            all.push(Self::Gdb);
        }
        all
    }

    fn command(self) -> &'static [&'static str] {
        match self {
            Self::Memcheck => &["valgrind", "-q", "--fullpath-after=", "--leak-check=no"],
            Self::Helgrind => &["valgrind", "-q", "--fullpath-after=", "--tool=helgrind"],
            Self::Gdb => &["gdb", "-q", "-nx", "-batch", "-ex", "run", "-ex", "bt", "--args"],
        }
    }

    /// The rank of the fault among the lines of the program's own that are printed, from 1; none if it is not among them.
    pub fn rank(self, case: &Case) -> Result<Option<usize>> {
        let native = case.run.native()?;
        let mut command = Command::new("/usr/bin/timeout");
        command.args(["-s", "INT", "-k", "10", PATIENCE]).args(self.command());
        command.arg(native.get_program()).args(native.get_args());
        command.env_clear().envs(bugnet_tests::bugnet::ENVIRONMENT).current_dir(&case.run.dir);
        if let Some(input) = &case.run.stdin {
            command.stdin(std::fs::File::open(case.run.dir.join(input)).context("its input")?);
        } else {
            command.stdin(std::process::Stdio::null());
        }
        let output = run(&mut command)?;
        let text = String::from_utf8_lossy(if self == Self::Gdb { &output.stdout } else { &output.stderr });
        let own = case.file.rsplit('/').next().unwrap_or_default();
        let mut seen: Vec<(&str, u64)> = Vec::new();
        for line in text.lines() {
            let Some((file, number)) = place(line) else { continue };
            let is_systems = file.starts_with("./") || file.starts_with("../") || file.starts_with("/usr/");
            if !is_systems && (case.class == "real" || file.ends_with(own)) && !seen.contains(&(file, number)) {
                seen.push((file, number));
            }
        }
        // gdb may print a path as the compiler got it.
        let is_it = |(file, line): &(&str, u64)| {
            file.rsplit('/').next() == Some(own) && case.lines.iter().any(|fault| u64::from(*fault) == *line)
        };
        Ok(seen.iter().position(is_it).map(|at| at + 1))
    }
}

/// The file and line that a line of output is about: `... (FILE:LINE)` of valgrind, `... at FILE:LINE` of gdb.
fn place(line: &str) -> Option<(&str, u64)> {
    let text = match line.rsplit_once(" at ") {
        Some((frame, text)) if frame.starts_with('#') => text,
        _ => line.rsplit_once('(')?.1.strip_suffix(')')?,
    };
    let (file, number) = text.rsplit_once(':')?;
    Some((file, number.parse().ok()?))
}
