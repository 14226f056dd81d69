//! Programs with a fault, in `programs/slices/`: what their first lines say, and how they are built.
//!
//! The line behind which one would look for the fault ends with `/* BUG */`; lines that have nothing to do with what goes wrong, with
//! `/* NOT */`. The comment lines that a program begins with say what the fault is, and:
//!
//! | line | meaning |
//! |---|---|
//! | `fails: ...` | `output`, which is wrong, or the signal by which it ends |
//! | `slice: ...` | `thin` if a thin slice must have the line of the fault, `full` if a full one must |
//! | `O2: ...` | the same for the optimised program; `gone, ...` if the compiler has left nothing of the line that the value follows from |
//! | `repair: ...` | what makes the program right in place of the faulty line, or of the one that ends with `/* REPAIR */` |
//! | `flags: ...` | further arguments for the compiler |

use crate::bugnet::{printed, run, source_tree};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// In which slice a line must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In a thin one.
    Thin,
    /// In a full one.
    Full,
    /// In none.
    Gone,
}

impl Kind {
    fn parse(text: &str) -> Result<Self> {
        match text.split(',').next() {
            Some("thin") => Ok(Self::Thin),
            Some("full") => Ok(Self::Full),
            Some("gone") => Ok(Self::Gone),
            _ => bail!("{text} is no kind of slice"),
        }
    }
}

/// A program with a fault.
#[derive(Clone, Debug)]
pub struct Faulty {
    /// Its file.
    pub source: PathBuf,
    /// The signal that ends it; none if its output is wrong.
    pub signal: Option<String>,
    /// Which slice has the faulty line, without optimisation.
    pub plain: Kind,
    /// And with it.
    pub optimised: Kind,
    /// The faulty line, from 1.
    pub line: u32,
    /// What the fault is.
    pub description: String,
    /// Lines that have nothing to do with it.
    pub others: Vec<u32>,
    flags: Vec<String>,
    repaired: String,
}

impl Faulty {
    /// All of them.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let folder = source_tree().join("tests/programs/slices");
        let files = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut paths = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        paths.iter().map(|path| Self::read(path).with_context(|| path.display().to_string())).collect()
    }

    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let comments = || text.lines().map_while(|line| line.strip_prefix("// "));
        let said = |key: &str| comments().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let marked = |mark: &str| {
            let mark = format!("/* {mark} */");
            let lines = text.lines().zip(1_u32..);
            lines.filter(|(line, _)| line.ends_with(&mark)).map(|(_, number)| number).collect::<Vec<_>>()
        };
        let [line] = *marked("BUG") else { bail!("one line is the faulty one") };
        let repaired = marked("REPAIR").first().copied().unwrap_or(line);
        let plain = Kind::parse(said("slice").context("which slice?")?)?;
        let fails = said("fails").context("how does it fail?")?;
        let repair = said("repair").context("what is right?")?;
        let lines = text.lines().zip(1_u32..);
        let repaired = lines.map(|(line, number)| if number == repaired { repair } else { line });
        Ok(Self {
            source: path.to_owned(),
            signal: (fails != "output").then(|| fails.to_owned()),
            plain,
            optimised: said("O2").map_or(Ok(plain), Kind::parse)?,
            line,
            description: comments().next().unwrap_or_default().to_owned(),
            others: marked("NOT"),
            flags: said("flags").unwrap_or_default().split_whitespace().map(ToOwned::to_owned).collect(),
            repaired: repaired.collect::<Vec<_>>().join("\n") + "\n",
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What one asks `bugnet slice`, for the answer to have the fault: of a program that has failed, and of the repaired one.
    ///
    /// # Errors
    /// It has not failed as it says that it does.
    pub fn question(&self, failed: &Output, right: &Output) -> Result<Vec<String>> {
        if let Some(signal) = &self.signal {
            let expected = match signal.as_str() {
                "SIGABRT" => libc::SIGABRT,
                "SIGFPE" => libc::SIGFPE,
                "SIGSEGV" => libc::SIGSEGV,
                other => bail!("{other} is not known"),
            };
            ensure!(failed.status.signal() == Some(expected), "{}\n{}", failed.status, printed(failed));
            return Ok(Vec::new());
        }
        ensure!(failed.status.success(), "{}\n{}", failed.status, printed(failed));
        let mut pairs = failed.stdout.iter().zip(&right.stdout);
        let first = pairs.position(|(is, should_be)| is != should_be).context("the output is right")?;
        // Bytes are numbered with those of standard error, which both programs that write any have written before.
        Ok(vec!["--output".to_owned(), (failed.stderr.len() + first).to_string()])
    }

    /// Builds the program as it is, and as it should be.
    ///
    /// # Errors
    /// The compiler is missing or complains.
    pub fn build(&self, optimisation: &str, folder: &Path) -> Result<[PathBuf; 2]> {
        let repaired = folder.join("repaired").with_extension(self.source.extension().unwrap_or_default());
        fs::write(&repaired, &self.repaired)?;
        // They are two builds of one program.
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
        compiler.args([optimisation, "-g", "-w"]).args(&self.flags).arg("-o").arg(&program).arg(source);
        let output = run(&mut compiler)?;
        ensure!(output.status.success(), "{}", printed(&output));
        Ok(program)
    }
}
