//! Known faults in published versions of libraries, in `real/NAME/`: a program with no arguments that runs into the fault, and `case.toml`, which says
//! what is wrong where. The libraries come from crates.io when they are built.

use super::case::Case;
use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, printed, run, source_tree};
use bugnet_tests::faulty::Fails;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `case.toml` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    /// The crate and its version.
    name: String,
    /// What is wrong in it.
    what: String,
    /// Where that was published.
    reference: String,
    /// As [`Fails::parse`] has it.
    fails: String,
    /// What it should print, if its output is wrong.
    expected: Option<String>,
    /// How the path of the file with the fault ends.
    file: String,
    /// Its lines that the mend changes, from 1.
    lines: Vec<u32>,
    /// What the mend did.
    #[expect(dead_code, reason = "people read it")]
    why: String,
    /// Arguments with which it is right.
    #[serde(default)]
    good: Vec<Vec<String>>,
}

/// The folders of all.
pub fn all() -> Result<Vec<PathBuf>> {
    let folder = source_tree().join("spec-harness/real");
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.join("case.toml").is_file() {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// Builds one of them; logs go to another folder.
pub fn case(path: &Path, folder: &Path) -> Result<Case> {
    let said: Said = toml::from_str(&fs::read_to_string(path.join("case.toml"))?)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let target = source_tree().join("target/real").join(&name);
    // Its own configuration says how C is compiled, and is looked for from where cargo is started.
    let mut cargo = Command::new("cargo");
    cargo.current_dir(path).args(["build", "--release", "--locked", "--target-dir"]).arg(&target);
    let output = run(&mut cargo)?;
    ensure!(output.status.success(), "{}", printed(&output));
    let program = fs::read_dir(target.join("release"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.is_file() && path.extension().is_none() && !path.ends_with(".cargo-lock"))
        .context("cargo has built no program")?;
    let job = |args: &[String]| {
        let words = std::iter::once(program.to_string_lossy().into_owned()).chain(args.iter().cloned());
        Job::new(folder, words)
    };
    let expected = said.expected.map(|text| -> Result<PathBuf> {
        let path = folder.join("expected");
        fs::write(&path, text)?;
        Ok(path)
    });
    Ok(Case {
        name,
        class: "real",
        what: format!("{}: {} ({})", said.name, said.what, said.reference),
        optimisation: "-O1",
        length: None,
        fails: Fails::parse(&said.fails)?,
        run: job(&[]),
        good: said.good.iter().map(|args| job(args)).collect(),
        expected: expected.transpose()?,
        file: said.file,
        lines: said.lines.into_iter().collect(),
    })
}
