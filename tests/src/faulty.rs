//! Programs with a fault, in `programs/faulty/{memory,parallel,output}/`, by which `bugnet why` is measured: what their first lines say, and how they are
//! built and run.
//!
//! They were written by somebody who had not seen how lines are ranked. The faulty line ends with `/* BUG */`; where accesses of several threads make
//! the fault together, each of them does. The comment lines that a program begins with say what is wrong, and:
//!
//! | line | meaning |
//! |---|---|
//! | `fails: ...` | `output`, which is wrong, `exit N`, a signal, `hang`, or `silent` if output and status are right nevertheless |
//! | `run: ...` | the arguments with which it fails |
//! | `good: ...` | arguments with which it is right; several such lines |
//! | `repair: ...` | what makes the program right in place of the first faulty line, or of the one that ends with `/* REPAIR */` |
//! | `flags: ...` | further arguments for the compiler |
//!
//! A file of the same name with the ending `.in` is its standard input.

use crate::bugnet::{Job, printed, run, source_tree};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders.
pub const CLASSES: [&str; 3] = ["memory", "parallel", "output"];

/// How a program fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fails {
    /// Its output is wrong.
    Output,
    /// It exits with this status.
    Exit(i32),
    /// A signal of this name kills it.
    Signal(String),
    /// It does not end.
    Hang,
    /// Nothing shows it.
    Silent,
}

impl Fails {
    /// Reads it.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(match text.split_once(' ').unwrap_or((text, "")) {
            ("output", "") => Self::Output,
            ("hang", "") => Self::Hang,
            ("silent", "") => Self::Silent,
            ("exit", status) => Self::Exit(status.parse().with_context(|| format!("{status} is no status"))?),
            (signal, "") if signal.starts_with("SIG") => Self::Signal(signal.to_owned()),
            _ => bail!("{text} is no way to fail"),
        })
    }
}

/// A program with a fault.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file.
    pub source: PathBuf,
    /// The folder: one of [`CLASSES`].
    pub class: &'static str,
    /// What is wrong.
    pub description: String,
    /// How it fails.
    pub fails: Fails,
    /// The arguments with which it does.
    pub run: Vec<String>,
    /// Arguments with which it is right.
    pub good: Vec<Vec<String>>,
    /// The faulty lines, from 1.
    pub lines: BTreeSet<u32>,
    /// Lines that it has.
    pub length: usize,
    flags: Vec<String>,
    repaired: String,
}

impl Program {
    /// All of them, by class and name.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for class in CLASSES {
            let folder = source_tree().join("tests/programs/faulty").join(class);
            let files = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
            let mut paths = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "c" || extension == "cpp"));
            paths.sort();
            for path in paths {
                all.push(Self::read(&path, class).with_context(|| path.display().to_string())?);
            }
        }
        Ok(all)
    }

    fn read(path: &Path, class: &'static str) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let comments = || text.lines().map_while(|line| line.strip_prefix("//")).map(str::trim);
        let all = |key: &str| -> Vec<&str> {
            comments().filter_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim)).collect()
        };
        let said = |key: &str| all(key).first().copied();
        let marked = |mark: &str| -> BTreeSet<u32> {
            let lines = text.lines().zip(1_u32..);
            lines.filter(|(line, _)| line.ends_with(mark)).map(|(_, number)| number).collect()
        };
        let words = |text: &str| shlex::split(text).with_context(|| format!("{text} are no words"));
        let lines = marked("/* BUG */");
        let first = lines.first().context("no line is the faulty one")?;
        let repaired = marked("/* REPAIR */").first().copied().unwrap_or(*first);
        let repair = said("repair").context("what is right?")?;
        let with_repair =
            text.lines().zip(1_u32..).map(|(line, number)| if number == repaired { repair } else { line });
        Ok(Self {
            source: path.to_owned(),
            class,
            description: comments().next().unwrap_or_default().to_owned(),
            fails: Fails::parse(said("fails").context("how does it fail?")?)?,
            run: words(said("run").unwrap_or_default())?,
            good: all("good").into_iter().map(words).collect::<Result<_>>()?,
            length: text.lines().count(),
            flags: words(said("flags").unwrap_or_default())?,
            repaired: with_repair.collect::<Vec<_>>().join("\n") + "\n",
            lines,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Builds the program as it is, and as it should be, in a folder.
    ///
    /// # Errors
    /// The compiler is missing or complains.
    pub fn build(&self, optimisation: &str, folder: &Path) -> Result<[PathBuf; 2]> {
        let repaired = folder.join("repaired").with_extension(self.source.extension().unwrap_or_default());
        fs::write(&repaired, &self.repaired)?;
        let program = |kind: &str| -> Result<PathBuf> {
            let folder = folder.join(kind);
            fs::create_dir_all(&folder)?;
            Ok(folder.join(self.name()))
        };
        Ok([
            self.compile(optimisation, &self.source, program("wrong")?)?,
            self.compile(optimisation, &repaired, program("right")?)?,
        ])
    }

    fn compile(&self, optimisation: &str, source: &Path, program: PathBuf) -> Result<PathBuf> {
        let is_c = source.extension().is_some_and(|extension| extension == "c");
        // What is wrong is what a compiler might warn about.
        let mut compiler = Command::new(if is_c { "gcc" } else { "g++" });
        compiler.args([optimisation, "-g", "-w", "-o"]).arg(&program).arg(source).args(&self.flags);
        let output = run(&mut compiler)?;
        ensure!(output.status.success(), "{}", printed(&output));
        Ok(program)
    }

    /// A run of a build with some arguments, in a folder.
    #[must_use]
    pub fn job(&self, program: &Path, args: &[String], folder: &Path) -> Job {
        let words = std::iter::once(program.to_string_lossy().into_owned()).chain(args.iter().cloned());
        let input = self.source.with_extension("in");
        let stdin = input.is_file().then(|| input.to_string_lossy().into_owned());
        Job { stdin, ..Job::new(folder, words) }
    }
}
