//! The small programs of `programs/*/`, each aimed at one thing that programs do: run natively, recorded at the default
//! interval or at a short one (with `--include-ignored`, at both), and replayed. Outputs and exit states must be the same, and replay must verify exactly.
//! A program that reaches a limit says in its first lines which message names it.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{INCOMPLETE, Job, Workshop, binary, printed, same_behaviour, same_bytes, take_messages};
use bugnet_tests::kernel_word;
use bugnet_tests::sample::one_of;
use bugnet_tests::small::{FOLDERS, Header, SKIP, build, run_limited, sources};
use libtest_mimic::{Failed, Trial};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);
const INTERVALS: [(&str, &[&str]); 2] =
    [("default", &["--check-every", "1M"]), ("short", &["--interval", "20k", "--check-every", "50"])];

struct Case {
    source: PathBuf,
    name: String,
    header: Header,
}

impl Case {
    fn run(&self, (interval, options): (&str, &[&str])) -> Result<()> {
        let workshop = Workshop::new(&format!("small-{}-{interval}", self.name.replace('/', "-")))?;
        let program = build(&self.source, &self.header, &workshop.path)?;
        let job = |name: &str| Ok::<_, anyhow::Error>(Job::new(&workshop.folder(name)?, [program.to_string_lossy()]));
        let native = run_limited(&mut job("native")?.native()?, &workshop.path, "native-run", LIMIT)?;
        if native.status.code() == Some(SKIP) {
            let text = String::from_utf8_lossy(&native.stdout);
            eprintln!("{}: left out: {}", self.name, text.lines().last().unwrap_or("no reason given"));
            return workshop.done();
        }
        let fatal = match native.status.signal() {
            Some(_) => kernel_word::natively(job("traced")?.native()?)?,
            None => None,
        };
        let log = workshop.path.join("log");
        let mut all: Vec<&str> = options.to_vec();
        all.extend(self.header.record.iter().map(String::as_str));
        let mut command = job("recorded")?.recorded(&log, &all)?;
        let recorded = run_limited(&mut command, &workshop.path, "recording", LIMIT)?;
        let early = printed(&recorded).contains("bugnet: recording ends here");
        self.behaves(&native, recorded).context("recorded")?;
        self.replays(&workshop.path, &log, &native, early)?;
        // Of SIGKILL, no log can know, nor of what comes after the end of recording.
        if fatal.is_some_and(|(signal, _)| signal != libc::SIGKILL) && !early {
            let recorded = kernel_word::in_log(&log)?;
            ensure!(recorded == fatal, "the kernel says signal and si_code {fatal:?}, the log {recorded:?}");
        }
        workshop.done()
    }

    /// The program behaves when recorded as it does natively, but for the warning that the case expects.
    fn behaves(&self, native: &Output, mut recorded: Output) -> Result<()> {
        if let Some(message) = &self.header.message {
            let warnings = take_messages(&mut recorded);
            ensure!(warnings.lines().any(|line| line.contains(message)), "no warning says: {message}\n{warnings}");
        }
        same_behaviour(native, &recorded)
    }

    /// The log is whole, or, where recording ended `early`, says that it is not; it replays exactly, gives the same output,
    /// and says what it must.
    fn replays(&self, folder: &Path, log: &Path, native: &Output, early: bool) -> Result<()> {
        let run = |args: &[&str]| {
            let mut command = Command::new(binary()?);
            let output = run_limited(command.args(args).arg(log), folder, args[0], LIMIT)?;
            let status = if early && args[0] != "info" { INCOMPLETE } else { 0 };
            ensure!(
                output.status.code() == Some(status),
                "`bugnet {}` ended with {}\n{}",
                args.join(" "),
                output.status,
                printed(&output)
            );
            Ok(output)
        };
        let check = run(&["check"])?;
        let killed = native.status.signal() == Some(9);
        ensure!(killed || !printed(&check).contains("cut off"), "the log is cut off: {}", printed(&check));
        let replayed = run(&["replay"])?;
        let said = printed(&replayed);
        ensure!(said.contains("where recording ends: ") == early, "why recording ended early: {said}");
        let replayed = run(&["replay", "--output"])?;
        if self.header.message.is_none() {
            same_bytes("replayed standard error", &native.stderr, &replayed.stderr)?;
            same_bytes("replayed standard output", &native.stdout, &replayed.stdout)?;
        }
        if !self.header.info.is_empty() {
            let info = run(&["info"])?;
            let text = String::from_utf8_lossy(&info.stdout);
            for line in &self.header.info {
                ensure!(text.contains(line), "`bugnet info` does not say: {line}\n{text}");
            }
        }
        Ok(())
    }
}

fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for folder in FOLDERS {
        for (name, source) in sources(folder)? {
            let header = Header::of(&source)?;
            cases.push(Case { source, name, header });
        }
    }
    Ok(cases)
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let (mut two, mut one) = (Vec::new(), Vec::new());
    for case in cases()? {
        let case = Arc::new(case);
        let trial = |interval: (&'static str, &'static [&'static str])| {
            let case = case.clone();
            let name = format!("{}-{}", case.name, interval.0);
            Trial::test(name, move || case.run(interval).map_err(|e| Failed::from(format!("{e:?}"))))
        };
        if case.header.one_interval {
            one.push(trial(INTERVALS[0]));
        } else {
            two.extend(INTERVALS.map(trial));
        }
    }
    Ok(one_of(INTERVALS.len(), two).into_iter().chain(one).collect())
}
