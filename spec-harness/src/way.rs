//! The ways in which a workload is run.

use anyhow::{Context, Result};
use bugnet_replay::tools::{LIB_VARIABLE, Tool, Tools};
use bugnet_tests::bugnet::binary;
use bugnet_tests::programs::compile;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds of CPU time after which a peer is given up.
pub const PATIENCE: u32 = 30;

/// Seconds after which gdb is interrupted: it would take days for a whole program, so that its pace is measured.
const GDB_SECONDS: u32 = 8;

/// A way to run a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Alone.
    Native,
    /// Under DynamoRIO without a client.
    DynamoRio,
    /// Under `bugnet record --light`.
    Capture,
    /// The light log through `bugnet expand`.
    Expand,
    /// Under `bugnet record`.
    Record,
    /// The log through `bugnet replay -j 1`.
    Replay,
    /// The log through `bugnet replay -j 2`.
    ReplayTwo,
    /// The log through `bugnet replay --merged`: all threads in one order, each read compared with what memory has then.
    Merged,
    /// Under Valgrind without a tool (`nulgrind`).
    Valgrind,
    /// Under Valgrind's memory checker.
    Memcheck,
    /// Under Valgrind's Lackey, which counts instructions, loads and stores.
    Lackey,
    /// In user-mode QEMU.
    Qemu,
    /// In user-mode QEMU with a plugin that is called at each load and store.
    QemuPlugin,
    /// Under gdb's `record full`, told to keep all instructions, for some seconds.
    GdbRecord,
}

impl Way {
    /// What bugnet is measured with.
    pub const OWN: [Self; 6] =
        [Self::Native, Self::DynamoRio, Self::Record, Self::Replay, Self::ReplayTwo, Self::Merged];
    /// What light recording is measured with.
    pub const LIGHT: [Self; 4] = [Self::Native, Self::Capture, Self::Expand, Self::Record];
    /// What it is compared with.
    pub const PEERS: [Self; 6] =
        [Self::Valgrind, Self::Memcheck, Self::Lackey, Self::Qemu, Self::QemuPlugin, Self::GdbRecord];

    /// The command that runs `command` this way. What it needs besides is put into `folder`.
    ///
    /// # Errors
    /// QEMU's plugin cannot be compiled.
    pub fn wrap(self, command: Vec<String>, folder: &Path) -> Result<Vec<String>> {
        let plugin = folder.join("accesses.so");
        let plugin_option = plugin.display().to_string();
        let before: &[&str] = match self {
            Self::Native
            | Self::Capture
            | Self::Expand
            | Self::Record
            | Self::Replay
            | Self::ReplayTwo
            | Self::Merged => return Ok(command),
            Self::DynamoRio => return Ok(under_dynamorio(command)),
            Self::Valgrind => &["valgrind", "-q", "--tool=none"],
            Self::Memcheck => &["valgrind", "-q", "--log-file=/dev/null"],
            Self::Lackey => &["valgrind", "-q", "--tool=lackey", "--log-file=/dev/null"],
            Self::Qemu => &["qemu-x86_64", "-cpu", "max"],
            Self::QemuPlugin => {
                compile(&["gcc", "-O2", "-shared", "-fPIC"], include_str!("../programs/accesses.c"), &plugin)?;
                &["qemu-x86_64", "-cpu", "max", "-plugin", &plugin_option]
            }
            // From behind the dynamic loader on, without the instructions and system calls that gdb does not know. The
            // signal that ends it after its time interrupts `continue`; the commands behind it still run.
            Self::GdbRecord => &[
                "gdb",
                "-q",
                "-batch",
                "-return-child-result",
                "-ex=set startup-with-shell off",
                "-ex=set environment LD_BIND_NOW=1",
                "-ex=set environment GLIBC_TUNABLES=glibc.pthread.rseq=0:\
                 glibc.cpu.hwcaps=-AVX2,-AVX,-AVX_Fast_Unaligned_Load,-XSAVEC,-XSAVE,-ERMS,-BMI2,-RTM",
                "-ex=set record full insn-number-max unlimited",
                "-ex=set breakpoint pending on",
                "-ex=break __libc_start_main",
                "-ex=run",
                "-ex=record full",
                "-ex=python import time; print('Used', time.process_time(), 'seconds to start')",
                "-ex=continue",
                "-ex=info record",
                "--args",
            ],
        };
        let limit: &[&str] = match self {
            Self::GdbRecord => &["timeout", "-s", "INT", "-k", &PATIENCE.to_string(), &GDB_SECONDS.to_string()],
            // A signal first; the end a little later.
            _ => &["prlimit", &format!("--cpu={PATIENCE}:{}", PATIENCE + 5)],
        };
        Ok(limit.iter().chain(before).map(|&arg| arg.to_owned()).chain(command).collect())
    }

    /// The command that replays or expands `log` this way.
    ///
    /// # Errors
    /// bugnet is not built.
    pub fn replay(self, log: &Path) -> Result<Command> {
        let mut command = Command::new(binary()?);
        let how: &[&str] = match self {
            Self::Merged => &["--merged"],
            Self::ReplayTwo => &["-j", "2"],
            Self::Expand => &[],
            _ => &["-j", "1"],
        };
        let verb = if self == Self::Expand { "expand" } else { "replay" };
        command.arg(verb).args(how).arg(log).stdin(Stdio::null());
        Ok(command)
    }
}

/// How far gdb came, by what it printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pace {
    /// Instructions that were recorded.
    pub instructions: u64,
    /// What that took of CPU time, in seconds.
    pub cpu: f64,
}

impl Pace {
    /// Finds it in what gdb printed in a run that took `cpu` seconds of CPU time; `None` if gdb met an instruction or a
    /// system call that it cannot record, or did not come to recording.
    pub fn of_gdb(printed: &str, cpu: f64) -> Option<Self> {
        let after = |what: &str| printed.rsplit_once(what).map(|(_, rest)| rest);
        let stopped = ["Process record does not support", "Process record: failed"];
        if stopped.iter().any(|message| printed.contains(message)) {
            return None;
        }
        let number = after("Highest recorded instruction number is ")?.split_once('.')?.0;
        let start: f64 = after("Used ")?.split_once(" seconds to start")?.0.parse().ok()?;
        Some(Self { instructions: number.parse().ok()?, cpu: cpu - start })
    }
}

/// The library is a program: it runs what the environment tells.
fn under_dynamorio(command: Vec<String>) -> Vec<String> {
    let absolute = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
        found.filter(|_| !name.contains('/')).unwrap_or_else(|| PathBuf::from(name))
    };
    let library = library().map_or_else(|_| "libdynamorio.so".into(), |path| path.display().to_string());
    let program = command.first().map(|name| absolute(name).display().to_string()).unwrap_or_default();
    let mut out = vec![
        "env".to_owned(),
        // A relative name is looked up where the workload runs.
        format!("DYNAMORIO_EXE_PATH={program}"),
        "DYNAMORIO_RUNUNDER=1".to_owned(),
        "DYNAMORIO_OPTIONS=-disable_rseq".to_owned(),
        library,
    ];
    out.extend(command.into_iter().skip(1));
    out
}

/// What the measured bugnet replays with.
///
/// # Errors
/// bugnet is not built.
pub fn tools() -> Result<Tools> {
    Ok(Tools::locate_for(&binary()?, std::env::var_os(LIB_VARIABLE))?)
}

/// `libdynamorio.so` of the measured bugnet.
fn library() -> Result<PathBuf> {
    tools()?.path(Tool::DynamoRio).context("DynamoRIO")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_of_gdb() {
        let end = "Used 0.5 seconds to start\nActive record target: record-full\nRecord mode:\n\
            Lowest recorded instruction number is 1.\nHighest recorded instruction number is 41284.\n";
        assert_eq!(Pace::of_gdb(&format!("output{end}"), 8.0), Some(Pace { instructions: 41284, cpu: 7.5 }));
        let failed = "Process record does not support instruction 0xc5 at address 0x7ffff7fe4a3b.";
        assert_eq!(Pace::of_gdb(&format!("{failed}{end}"), 8.0), None);
        assert_eq!(Pace::of_gdb("The program is not being run.", 8.0), None);
    }
}
