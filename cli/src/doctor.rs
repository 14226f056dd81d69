//! `bugnet doctor`: what of this machine the commands can use, and what to do where they cannot.
//!
//! What can be tried is tried: a program is recorded and replayed. The rest is what the system says of itself.

use crate::args::DoctorArgs;
use crate::failure::{EXIT_IMPOSSIBLE, Failure};
use crate::record::{CpuLevel, describe_machine, lacks_for_light, traps_cpuid};
use crate::recordings::default_folder;
use crate::temporary::{Kind, Temporary};
use crate::terminal::output;
use bugnet_replay::tools::{Tool, Tools};
use indicatif::HumanBytes;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use serde::Serialize;
use std::fmt::{Display, Formatter};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

/// The program that is recorded.
const PROGRAM: &str = "/bin/true";
/// The oldest gdb that `debug` works with.
const GDB: u32 = 13;
/// Descriptors, and bytes of a file, below which programs run without being recorded; and free bytes of which a line says that they are few.
const DESCRIPTORS: u64 = 16;
const FILE_SIZE: u64 = 2 << 20;
const FEW_BYTES: u64 = 1 << 30;

/// Whether something works here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// It does.
    Yes,
    /// It does, but there is something to know.
    Partly,
    /// It does not.
    No,
}

/// What a command, or several, need.
#[derive(Debug, Serialize)]
struct Finding {
    /// Which ones.
    commands: &'static str,
    state: State,
    /// What was found.
    what: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<String>,
}

impl Finding {
    fn yes(commands: &'static str, what: impl Into<String>) -> Self {
        Self { commands, state: State::Yes, what: what.into(), then: None }
    }

    fn other(commands: &'static str, state: State, what: impl Into<String>, then: impl Into<String>) -> Self {
        Self { commands, state, what: what.into(), then: Some(then.into()) }
    }

    fn no(commands: &'static str, what: impl Into<String>, then: impl Into<String>) -> Self {
        Self::other(commands, State::No, what, then)
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let state = match self.state {
            State::Yes => "yes",
            State::Partly => "note",
            State::No => "no",
        };
        write!(f, "{:<14}{state:<6}{}", self.commands, self.what)?;
        self.then.iter().try_for_each(|then| write!(f, "\n{:20}{then}", ""))
    }
}

/// Looks, and tells.
pub fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let tools = Tools::locate()?;
    let mut findings = vec![parts(&tools)];
    if findings[0].state == State::Yes {
        findings.extend(recording()?);
    }
    findings.extend([processor(), light(), place(), marks()]);
    findings.extend(limits());
    findings.extend([gdb(&args.gdb), tracing()]);
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &findings).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        findings.iter().try_for_each(|finding| writeln!(out, "{finding}"))?;
    }
    out.flush()?;
    let fails = findings.iter().any(|finding| finding.state == State::No);
    Ok(if fails { ExitCode::from(EXIT_IMPOSSIBLE) } else { ExitCode::SUCCESS })
}

/// What `record --light` needs.
fn light() -> Finding {
    const COMMANDS: &str = "light record";
    match lacks_for_light() {
        None if traps_cpuid() => Finding::yes(COMMANDS, "syscall user dispatch, and CPUID can be trapped"),
        None => Finding::yes(
            COMMANDS,
            "syscall user dispatch; CPUID cannot be trapped here, and is hidden in the code of files (not in what a program generates)",
        ),
        Some(why) => {
            Finding::other(COMMANDS, State::Partly, why, "programs are recorded as without --light, and a line says so")
        }
    }
}

/// Whether all files of bugnet's own are there.
fn parts(tools: &Tools) -> Finding {
    match Tool::ALL.into_iter().find_map(|tool| tools.path(tool).err()) {
        None => Finding::yes("all", concat!("bugnet ", env!("CARGO_PKG_VERSION"), " is complete")),
        Some(missing) => Finding::no("all", missing.to_string(), "unpack or build all of bugnet, or set BUGNET_LIB"),
    }
}

/// Records a program and replays it.
fn recording() -> Result<Vec<Finding>, Failure> {
    let folder = Temporary::new(Kind::Doctor)?;
    let log = folder.path().join("log");
    let this = std::env::current_exe().map_err(Failure::system("find bugnet's own executable"))?;
    let run = |args: &[&str]| {
        let args = args.iter().map(Path::new).chain([&*log]);
        Command::new(&this).args(args).stdin(Stdio::null()).output().map_err(Failure::system("start bugnet"))
    };
    let kernel = describe_machine(CpuLevel::Host).kernel;
    let recorded = Command::new(&this)
        .args(["record", "-o"])
        .args([&*log, Path::new("--"), Path::new(PROGRAM)])
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::system("start bugnet"))?;
    // It may run without being recorded, which is said.
    if !recorded.status.success() || !run(&["check"])?.status.success() {
        let then = "the message says what the recorder lacks; a container may forbid it";
        return Ok(vec![Finding::no("record", format!("{PROGRAM} is not recorded: {}", said(&recorded)), then)]);
    }
    let replayed = run(&["replay"])?;
    let replay = if replayed.status.success() {
        Finding::yes("replay, ...", format!("that recording of {PROGRAM} replays exactly"))
    } else {
        let then = "tell us, with the recording: this should not be";
        Finding::no("replay, ...", format!("a recording of {PROGRAM} does not replay: {}", said(&replayed)), then)
    };
    Ok(vec![Finding::yes("record", format!("{PROGRAM} was recorded, on {kernel}{}", container())), replay])
}

/// The last line that a command has said.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().last().map_or_else(|| output.status.to_string(), str::to_owned)
}

/// In what this runs, as far as that can be seen.
fn container() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_filtered = status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]));
    if is_filtered { ", below a seccomp filter, as containers have one".to_owned() } else { String::new() }
}

/// What programs are not shown of the processor.
fn processor() -> Finding {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let all: Vec<&str> = flags.split_whitespace().collect();
    let cpu = describe_machine(CpuLevel::Host).cpu;
    let hidden: Vec<&str> =
        [("avx512f", "AVX-512"), ("amx_tile", "AMX"), ("rtm", "transactional memory"), ("pku", "protection keys")]
            .into_iter()
            .filter_map(|(flag, name)| all.contains(&flag).then_some(name))
            .collect();
    match &hidden[..] {
        [] => Finding::yes("record", format!("{cpu}: nothing of it has to be hidden with --cpu host")),
        hidden => Finding::yes("record", format!("{cpu}: programs are not shown {}", hidden.join(", "))),
    }
}

/// Whether there is room for logs.
fn place() -> Finding {
    let Some(folder) = default_folder(|name| std::env::var_os(name)) else {
        return Finding::no("record", "there is no place for logs", "set BUGNET_DIR or HOME, or give -o each time");
    };
    // It is made when it is needed.
    let there = folder.ancestors().find(|folder| folder.exists()).map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
    let then = "set BUGNET_DIR to a folder that you can write to, or give -o each time";
    if nix::unistd::access(&there, nix::unistd::AccessFlags::W_OK).is_err() {
        return Finding::no("record", format!("{} cannot be written to", there.display()), then);
    }
    let free = rustix::fs::statvfs(&there).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    let what = format!("logs go to {}, where {} are free", folder.display(), HumanBytes(free));
    match free {
        FEW_BYTES.. => Finding::yes("record", what),
        _ => Finding::other(
            "record",
            State::Partly,
            what,
            "recording ends where the disk is full; --keep N keeps the last intervals only",
        ),
    }
}

/// Limits with which programs are not recorded.
fn limits() -> Vec<Finding> {
    let mut all = Vec::new();
    let is_root = nix::unistd::geteuid().is_root();
    for (resource, name, option, least) in [
        (Resource::RLIMIT_FSIZE, "size of files", "-f", FILE_SIZE),
        (Resource::RLIMIT_NOFILE, "number of descriptors", "-Hn", DESCRIPTORS),
        (Resource::RLIMIT_AS, "address space", "-Hv", RLIM_INFINITY),
        (Resource::RLIMIT_DATA, "data", "-Hd", RLIM_INFINITY),
    ] {
        let Ok((_, hard)) = getrlimit(resource) else { continue };
        let may_raise = is_root && matches!(resource, Resource::RLIMIT_AS | Resource::RLIMIT_DATA);
        if hard < least && !may_raise {
            let what = format!(
                "the limit of the {name} ({hard}) leaves the recorder no room: programs run without being recorded"
            );
            all.push(Finding::no("record", what, format!("raise it (ulimit {option})")));
        }
    }
    all
}

/// Whether replay processes mark what they access by themselves.
fn marks() -> Finding {
    if std::arch::is_x86_feature_detected!("bmi2") && has_fsgsbase() {
        Finding::yes("debug, races", "memory is followed at full speed (FSGSBASE and BMI2 are there)")
    } else {
        let what = "memory is followed at a tenth of the speed: the kernel keeps FS to itself (before Linux 5.9), or the processor has no BMI2";
        Finding::other(
            "debug, races",
            State::Partly,
            what,
            "look at recordings on a newer machine; it need not be the one that recorded",
        )
    }
}

/// Whether programs may set the base of FS by an instruction (AT_HWCAP2, bit 1).
fn has_fsgsbase() -> bool {
    // SAFETY: a look at the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & 2 != 0 }
}

/// Whether there is a gdb that will do.
fn gdb(gdb: &Path) -> Finding {
    let name = gdb.display();
    let then = format!("install gdb {GDB} or newer (apt-get install gdb), or name one with --gdb");
    let asked =
        Command::new(gdb).args(["-nx", "-batch", "-ex", "python print(gdb.VERSION)"]).stdin(Stdio::null()).output();
    let Ok(asked) = asked else { return Finding::no("debug", format!("there is no {name}"), then) };
    let said = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    match major(&said) {
        Some(GDB..) => Finding::yes("debug", format!("{name} {said}, with Python")),
        Some(_) => Finding::no("debug", format!("{name} {said} is too old"), then),
        None => Finding::no("debug", format!("{name} has no Python"), then),
    }
}

/// The first number of a version, such as 13 of `Debian 13.1-3`.
fn major(version: &str) -> Option<u32> {
    let from = version.find(|c: char| c.is_ascii_digit())?;
    let digits: String = version[from..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Whether changes of a program can be tried.
fn tracing() -> Finding {
    // 3: nobody traces anybody (Yama).
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "3" {
        let then =
            "bugnet why then tries no changes of the code; sysctl kernel.yama.ptrace_scope=1 allows it after a restart";
        return Finding::other("why --expect", State::Partly, "this kernel lets no process trace another one", then);
    }
    Finding::yes("why --expect", "processes may be traced by those that started them, as far as the kernel says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(major("Debian 13.1-3"), Some(13));
        assert_eq!(major("16.3"), Some(16));
        assert_eq!(major("GNU gdb (GDB) 9.2.90"), Some(9));
        assert_eq!(major("Python scripting is not supported"), None);
    }
}
