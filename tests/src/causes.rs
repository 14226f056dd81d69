//! Programs that fail, in `programs/causes`, each of a kind for which `bugnet why` has a way of its own: what their first lines say, and how they are built.
//!
//! The line to look at ends with `/* BUG */`. The comment lines that a program begins with say what is wrong, and:
//!
//! | line | meaning |
//! |---|---|
//! | `run: ...` | the arguments with which it fails; several such lines are as many cases |
//! | `symptom: ...` | what shows that it failed, as the report has it |
//! | `says: ...` | what stands in the report, whatever else; several such lines |
//! | `never: ...` | what does not stand in it |
//! | `among: N` | the line to look at is among the first N |
//! | `expected: ...` | a line of the output as it should be, which is told with `--expect`; several such lines |
//! | `command: ...` | what is recorded, where it is not the program itself with the arguments; `{program}` stands for its path |
//! | `of: fork` | the question is about the process that it forks |
//! | `asks: ...` | another command than `why`, with its arguments, of which only what is said counts |
//! | `compiler: ...` | the compiler with its arguments, where it is not `gcc -O0 -g -pthread` or g++ likewise; the output and the source come behind them |

use crate::bugnet::{Job, bugnet, printed, run, source_tree};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, with the arguments with which it fails.
#[derive(Clone, Debug)]
pub struct Cause {
    /// Its file.
    pub source: PathBuf,
    /// The number of the case, from 0.
    pub number: usize,
    text: String,
}

impl Cause {
    /// All of them.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let folder = source_tree().join("tests/programs/causes");
        let files = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut paths = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        let mut all = Vec::new();
        for source in paths {
            let text = fs::read_to_string(&source)?;
            let one = Self { source, number: 0, text };
            let cases = one.said("run").count().max(1);
            all.extend((0..cases).map(|number| Self { number, ..one.clone() }));
        }
        Ok(all)
    }

    /// What a test of it is called.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.source.file_stem().unwrap_or_default().to_string_lossy();
        if self.number == 0 { name.into_owned() } else { format!("{name}_{}", self.number) }
    }

    fn said<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let comments = self.text.lines().map_while(|line| line.strip_prefix("//")).map(str::trim);
        comments.filter_map(move |line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim))
    }

    fn build(&self, program: &Path) -> Result<()> {
        let is_cpp = self.source.extension().is_some_and(|extension| extension == "cpp");
        let usual = if is_cpp { "g++ -O0 -g -pthread -o" } else { "gcc -O0 -g -pthread -o" };
        let compiler = self.said("compiler").next().unwrap_or(usual);
        let words = shlex::split(compiler).context("the compiler is no words")?;
        let (first, rest) = words.split_first().context("there is no compiler")?;
        let built = run(Command::new(first).args(rest).arg(program).arg(&self.source))?;
        ensure!(built.status.success(), "{}", printed(&built));
        Ok(())
    }

    /// Whether it says what shows that it failed.
    #[must_use]
    pub fn has_symptom(&self) -> bool {
        self.said("symptom").next().is_some()
    }

    /// Builds it, records that it fails, in a folder, and asks why: for a page, or for a report with the symptom.
    ///
    /// # Errors
    /// That is not what the program says that it is.
    pub fn asked(&self, folder: &Path, for_symptom: bool) -> Result<()> {
        let (program, log) = (folder.join("program"), folder.join("log"));
        self.build(&program)?;
        let words = |text: &str| shlex::split(text).with_context(|| format!("{text} are no words"));
        let path = program.to_string_lossy().into_owned();
        let mut command = match self.said("command").next() {
            Some(command) => words(&command.replace("{program}", &path))?,
            None => vec![path],
        };
        command.extend(words(self.said("run").nth(self.number).unwrap_or_default())?);
        run(&mut Job::new(folder, command).recorded(&log, &[])?)?;
        let lines: Vec<&str> = self.said("expected").collect();
        let expected = folder.join("expected").to_string_lossy().into_owned();
        fs::write(&expected, lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        let mut told: Vec<String> = if lines.is_empty() { Vec::new() } else { vec!["--expect".to_owned(), expected] };
        if self.said("of").next() == Some("fork") {
            told.extend(["-p".to_owned(), forked(&log)?]);
        }
        let asks = words(self.said("asks").next().unwrap_or("why"))?;
        let ask = |more: &[&str]| {
            let all: Vec<&str> = asks.iter().chain(&told).map(String::as_str).chain(more.iter().copied()).collect();
            bugnet(all.into_iter().map(OsStr::new).chain([log.as_os_str()]))
        };
        if for_symptom {
            let report: Value = serde_json::from_slice(&ask(&["--json"])?.stdout)?;
            let symptom = report.pointer("/symptom/symptom").and_then(Value::as_str).unwrap_or_default();
            ensure!(self.said("symptom").all(|wanted| wanted == symptom), "it is {symptom}: {report:#}");
            return Ok(());
        }
        let page = String::from_utf8(ask(&[])?.stdout)?;
        for says in self.said("says") {
            ensure!(page.contains(says), "no {says:?} in\n{page}");
        }
        for never in self.said("never") {
            ensure!(!page.contains(never), "{never:?} in\n{page}");
        }
        let Some(among) = self.said("among").next() else { return Ok(()) };
        let bug = self.text.lines().position(|line| line.ends_with("/* BUG */")).context("no line is marked")? + 1;
        let rank = rank(&page, &self.source, bug);
        ensure!(rank.is_some_and(|rank| rank <= among.parse().unwrap_or(0)), "line {bug} has rank {rank:?} in\n{page}");
        Ok(())
    }
}

/// Where a page of `why` has a line among those to look at, from 1.
#[must_use]
pub fn rank(page: &str, source: &Path, line: usize) -> Option<usize> {
    let listed = format!(". {}:{line} in ", source.display());
    page.lines().find_map(|line| line.split_once(&listed)?.0.parse().ok())
}

/// The process that another one has forked.
fn forked(log: &Path) -> Result<String> {
    for folder in fs::read_dir(log)? {
        let path = folder?.path();
        let Ok(text) = fs::read_to_string(path.join("process.json")) else { continue };
        let process: Value = serde_json::from_str(&text)?;
        if process.pointer("/origin/how").is_some_and(|how| how == "fork") {
            let name = path.file_name().context("no name")?.to_string_lossy().into_owned();
            return Ok(name.trim_start_matches('p').to_owned());
        }
    }
    anyhow::bail!("no process was forked")
}
