//! The ways in which a workload is run.

use anyhow::{Context, Result};
use bugnet_tests::bugnet::binary;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds after which a peer is given up.
pub const PATIENCE: u32 = 300;

/// A way to run a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Alone.
    Native,
    /// Under DynamoRIO without a client.
    DynamoRio,
    /// Under `bugnet record`.
    Record,
    /// The log through `bugnet replay -j 1`.
    Replay,
    /// The log through `bugnet replay -j 2`.
    ReplayTwo,
    /// Under Valgrind without a tool (`nulgrind`).
    Valgrind,
    /// Under Valgrind's memory checker.
    Memcheck,
    /// Under Valgrind's Lackey, which counts instructions, loads and stores.
    Lackey,
    /// In user-mode QEMU.
    Qemu,
    /// Under gdb's `record full`, which keeps the last 200,000 instructions.
    GdbRecord,
}

impl Way {
    /// What bugnet is measured with.
    pub const OWN: [Self; 5] = [Self::Native, Self::DynamoRio, Self::Record, Self::Replay, Self::ReplayTwo];
    /// What it is compared with.
    pub const PEERS: [Self; 5] = [Self::Valgrind, Self::Memcheck, Self::Lackey, Self::Qemu, Self::GdbRecord];

    /// The command that runs `command` this way.
    pub fn wrap(self, command: Vec<String>) -> Vec<String> {
        let before: &[&str] = match self {
            Self::Native | Self::Record | Self::Replay | Self::ReplayTwo => return command,
            Self::DynamoRio => return under_dynamorio(command),
            Self::Valgrind => &["valgrind", "-q", "--tool=none"],
            Self::Memcheck => &["valgrind", "-q", "--log-file=/dev/null"],
            Self::Lackey => &["valgrind", "-q", "--tool=lackey", "--log-file=/dev/null"],
            Self::Qemu => &["qemu-x86_64", "-cpu", "max"],
            // From `main` on, without the instructions and system calls that gdb does not know.
            Self::GdbRecord => &[
                "gdb",
                "-q",
                "-batch",
                "-return-child-result",
                "-ex=set startup-with-shell off",
                "-ex=set environment LD_BIND_NOW=1",
                "-ex=set environment GLIBC_TUNABLES=glibc.pthread.rseq=0:\
                 glibc.cpu.hwcaps=-AVX2,-AVX,-AVX_Fast_Unaligned_Load,-XSAVEC,-XSAVE,-ERMS,-BMI2,-RTM",
                "-ex=set record full stop-at-limit off",
                "-ex=start",
                "-ex=record full",
                "-ex=continue",
                "--args",
            ],
        };
        let limit = ["timeout".to_owned(), PATIENCE.to_string()];
        limit.into_iter().chain(before.iter().map(|&arg| arg.to_owned())).chain(command).collect()
    }

    /// The command that replays `log` this way.
    ///
    /// # Errors
    /// bugnet is not built.
    pub fn replay(self, log: &Path) -> Result<Command> {
        let mut command = Command::new(binary()?);
        command.args(["replay", "-j", if self == Self::ReplayTwo { "2" } else { "1" }]).arg(log).stdin(Stdio::null());
        Ok(command)
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

/// `libdynamorio.so` of the measured bugnet.
fn library() -> Result<PathBuf> {
    let program = binary()?;
    let tools =
        bugnet_replay::tools::Tools::locate_for(&program, std::env::var_os(bugnet_replay::tools::LIB_VARIABLE))?;
    tools.path(bugnet_replay::tools::Tool::DynamoRio).context("DynamoRIO")
}
