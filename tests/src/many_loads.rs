//! A program whose log is large for its run time: many frames of full size.

use crate::bugnet::{Job, printed, run};
use crate::inputs;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Builds it in `dir`, and lets it read so many times a quarter of a megabyte in each of its threads; the first forks so many
/// children on the way.
///
/// # Errors
/// There is no compiler, or it complains.
pub fn job(dir: &Path, rounds: u32, threads: u32, children: u32) -> Result<Job> {
    let (source, program) = (dir.join("many_loads.c"), dir.join("many_loads"));
    fs::write(&source, include_str!("../programs/many_loads.c"))?;
    let output = run(Command::new("gcc").args(["-O1", "-pthread"]).arg(&source).arg("-o").arg(&program))?;
    ensure!(output.status.success(), "{}", printed(&output));
    let text = dir.join("text");
    inputs::text(&text, 512 << 10)?;
    let [rounds, threads, children] = [rounds, threads, children].map(|n| n.to_string());
    let path = |path: &Path| path.to_string_lossy().into_owned();
    Ok(Job::new(dir, [path(&program), path(&text), rounds, threads, children]))
}
