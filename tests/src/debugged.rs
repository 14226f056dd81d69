//! Programs that the tests of debuggers record.

use crate::bugnet::{Job, Workshop, printed, run, source_tree};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The source of one.
#[must_use]
pub fn source(name: &str) -> PathBuf {
    source_tree().join(format!("tests/programs/debug/{name}.c"))
}

/// Its line that holds a text, from 1.
///
/// # Errors
/// There is none.
pub fn line_with(name: &str, text: &str) -> Result<usize> {
    let lines = fs::read_to_string(source(name))?;
    let line = lines.lines().position(|line| line.contains(text)).with_context(|| format!("no {text} in {lines}"))?;
    Ok(line + 1)
}

/// Records one and takes it away; the log is moved elsewhere.
///
/// # Errors
/// It cannot be built or recorded.
pub fn recorded(workshop: &Workshop, name: &str, options: &[&str]) -> Result<PathBuf> {
    let (program, log) = (workshop.path.join("program"), workshop.path.join("log"));
    let compiled = run(Command::new("gcc")
        .args(["-g", "-O0", "-fno-stack-protector", "-pthread", "-o"])
        .arg(&program)
        .arg(source(name)))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    run(&mut Job::new(&workshop.path, [&*program.to_string_lossy()]).recorded(&log, options)?)?;
    fs::remove_file(&program)?;
    let moved = workshop.path.join("elsewhere");
    fs::rename(log, &moved)?;
    Ok(moved)
}
