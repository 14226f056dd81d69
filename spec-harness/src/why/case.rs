//! A program that fails, and where its fault is.

use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, binary, printed, run};
use bugnet_tests::faulty::{Fails, Program};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Right runs of which the logs are given.
const GOOD: usize = 3;
/// Runs after which a program with threads should have failed, and seconds after which it hangs.
const RUNS: &str = "300";
const PATIENCE: &str = "5";

/// A program that fails.
pub struct Case {
    pub name: String,
    /// `memory`, `parallel`, `output` or `real`.
    pub class: &'static str,
    pub what: String,
    pub optimisation: &'static str,
    pub length: Option<usize>,
    pub fails: Fails,
    /// The run that fails.
    pub run: Job,
    /// Runs that do not.
    pub good: Vec<Job>,
    /// What standard output should be.
    pub expected: Option<PathBuf>,
    /// How the path of the file with the fault ends, and its lines, from 1.
    pub file: String,
    pub lines: BTreeSet<u32>,
}

impl Case {
    /// A program of the tests, built in a folder.
    pub fn of_tests(program: &Program, optimisation: &'static str, folder: &Path) -> Result<Self> {
        let [wrong, right] = program.build(optimisation, folder)?;
        let expected = if program.fails == Fails::Output {
            let output = run(&mut program.job(&right, &program.run, folder).native()?)?;
            ensure!(output.status.success(), "repaired, it is still wrong\n{}", printed(&output));
            let path = folder.join("expected");
            std::fs::write(&path, &output.stdout)?;
            Some(path)
        } else {
            None
        };
        Ok(Self {
            name: program.name(),
            class: program.class,
            what: program.description.clone(),
            optimisation,
            length: Some(program.length),
            fails: program.fails.clone(),
            run: program.job(&wrong, &program.run, folder),
            good: program.good.iter().take(GOOD).map(|args| program.job(&wrong, args, folder)).collect(),
            expected,
            file: program.source.to_string_lossy().into_owned(),
            lines: program.lines.clone(),
        })
    }

    /// Records the run that fails, and right ones.
    pub fn record(&self, folder: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
        if self.class == "parallel" || self.fails == Fails::Hang {
            return self.record_until_it_fails(folder);
        }
        let log = folder.join("log");
        let output = run(&mut self.run.recorded(&log, &[])?)?;
        ensure!(self.has_failed(&output)?, "it does not fail: {}\n{}", output.status, printed(&output));
        Ok((log, self.record_good(folder)?))
    }

    fn record_good(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let record = |(number, job): (usize, &Job)| {
            let log = folder.join(format!("good-{number}"));
            let output = run(&mut job.recorded(&log, &[])?)?;
            ensure!(output.status.success(), "a right run fails: {:?}\n{}", job.command, printed(&output));
            Ok(log)
        };
        self.good.iter().enumerate().map(record).collect()
    }

    /// The right runs are those before the one that failed, and where that was the first one, those with arguments that are right.
    fn record_until_it_fails(&self, folder: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
        let timeout = format!("timeout:{PATIENCE}");
        let compare = self.expected.as_ref().map(|path| format!("cmd:cmp -s \"$BUGNET_STDOUT\" '{}'", path.display()));
        let mut options = vec!["--until-fail", "--chaos", "--runs", RUNS, "--no-pack"];
        match (&self.fails, &compare) {
            (Fails::Hang, _) => options.extend(["--fail-if", &timeout]),
            (_, Some(compare)) => options.extend(["--fail-if", compare]),
            _ => {}
        }
        let out = folder.join("runs");
        let output = run(&mut self.run.recorded(&out, &options)?)?;
        let log = out.join("failing");
        ensure!(log.is_dir(), "it does not fail: {}\n{}", output.status, printed(&output));
        let passing: Vec<PathBuf> =
            (1..=GOOD).map(|number| out.join(format!("passing-{number}"))).filter(|log| log.is_dir()).collect();
        let good = if passing.is_empty() { self.record_good(folder)? } else { passing };
        Ok((log, good))
    }

    fn has_failed(&self, output: &Output) -> Result<bool> {
        Ok(match &self.fails {
            Fails::Output => {
                let expected = self.expected.as_ref().context("it is not known what is right")?;
                output.stdout != std::fs::read(expected)?
            }
            Fails::Exit(status) => output.status.code() == Some(*status),
            Fails::Signal(name) => {
                let signal: nix::sys::signal::Signal = name.parse().with_context(|| format!("{name} is no signal"))?;
                output.status.signal() == Some(signal as i32)
            }
            Fails::Silent => output.status.success(),
            Fails::Hang => bail!("a hang is not seen by its end"),
        })
    }

    /// `bugnet why`, for all lines.
    pub fn why(&self, log: &Path, good: &[PathBuf]) -> Result<Command> {
        let mut command = Command::new(binary()?);
        command.args(["why", "--json", "--top", "100000"]);
        if let (Fails::Output, Some(expected)) = (&self.fails, &self.expected) {
            command.arg("--expect").arg(expected);
        }
        for good in good {
            command.arg("--good").arg(good);
        }
        command.arg(log);
        Ok(command)
    }

    /// Whether a line is a faulty one.
    pub fn is_fault(&self, file: &str, line: u64) -> bool {
        file.ends_with(&self.file) && self.lines.iter().any(|fault| u64::from(*fault) == line)
    }
}
