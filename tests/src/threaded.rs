//! The programs with threads, `programs/threads/*.c`: each is a test, and says in its first comment how it is run.

use crate::bugnet::{printed, run, source_tree};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program with threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threaded {
    /// Its name.
    pub name: String,
    /// Its source.
    pub source: PathBuf,
    /// Further flags for the compiler.
    pub flags: Vec<String>,
    /// Its arguments in every test run.
    pub test: Vec<String>,
    /// Its arguments for long runs.
    pub soak: Option<Vec<String>>,
    /// Its exit status.
    pub status: i32,
}

impl Threaded {
    /// Reads the first comment: lines ` * KEY: VALUE`, of which `test` has to be there.
    ///
    /// # Errors
    /// It is not, or a value makes no sense.
    pub fn parse(source: PathBuf, text: &str) -> Result<Self> {
        let comment = text.split("*/").next().unwrap_or_default();
        let value = |key: &str| {
            comment.lines().find_map(|line| line.strip_prefix(" * ")?.strip_prefix(key)?.strip_prefix(": "))
        };
        let words = |value: &str| value.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        let path = source.display();
        let name =
            source.file_stem().and_then(|name| name.to_str()).with_context(|| format!("name of {path}"))?.to_owned();
        Ok(Self {
            flags: value("flags").map(words).unwrap_or_default(),
            test: value("test").map(words).with_context(|| format!("{path} has no line ` * test: ARGUMENTS`"))?,
            soak: value("soak").map(words),
            status: value("status").map_or(Ok(0), str::parse).with_context(|| format!("status of {path}"))?,
            name,
            source,
        })
    }

    /// Builds it into `folder`, optimised at this level (`O2`, for example).
    ///
    /// # Errors
    /// There is no compiler, or it complains.
    pub fn build(&self, level: &str, folder: &Path) -> Result<PathBuf> {
        let program = folder.join(&self.name);
        let mut compiler = Command::new("gcc");
        compiler.args(["-std=gnu11", "-g", "-pthread", &format!("-{level}")]).arg(&self.source).arg("-o").arg(&program);
        let output = run(compiler.args(&self.flags))?;
        ensure!(output.status.success(), "{}", printed(&output));
        Ok(program)
    }
}

/// All programs with threads, by name.
///
/// # Errors
/// The folder cannot be read, or a program's comment.
pub fn programs() -> Result<Vec<Threaded>> {
    let folder = source_tree().join("tests/programs/threads");
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            let text = std::fs::read_to_string(&path)?;
            programs.push(Threaded::parse(path, &text)?);
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(!programs.is_empty(), "no programs in {}", folder.display());
    Ok(programs)
}
