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
    /// The version of the crate in which that is mended.
    mended: Option<Mended>,
}

/// A crate, and the version of it that has the mend.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mended {
    package: String,
    version: String,
}

/// A program with a fault, and the same with the mended library.
pub struct Pair {
    pub name: String,
    pub what: String,
    pub fails: Fails,
    /// The first faulty line.
    pub line: u32,
    /// As it is, and as it should be.
    pub programs: [PathBuf; 2],
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

fn said(path: &Path) -> Result<Said> {
    Ok(toml::from_str(&fs::read_to_string(path.join("case.toml"))?)?)
}

/// Builds what is in a folder, for a target folder.
fn build(path: &Path, target: &Path, is_locked: bool) -> Result<PathBuf> {
    // Its own configuration says how C is compiled, and is looked for from where cargo is started.
    let mut cargo = Command::new("cargo");
    cargo.current_dir(path).args(["build", "--release"]).args(is_locked.then_some("--locked"));
    let output = run(cargo.arg("--target-dir").arg(target))?;
    ensure!(output.status.success(), "{}", printed(&output));
    fs::read_dir(target.join("release"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.is_file() && path.extension().is_none() && !path.ends_with(".cargo-lock"))
        .context("cargo has built no program")
}

/// Builds one of them as it is and with the mended library; none where no version of that is published.
pub fn pair(path: &Path) -> Result<Option<Pair>> {
    let said = said(path)?;
    let Some(Mended { package, version }) = said.mended else { return Ok(None) };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let targets = source_tree().join("target/real");
    let copy = targets.join(format!("{name}-mended"));
    for entry in [".cargo", "src", "build.rs", "main.c", "Cargo.toml"] {
        let (from, to) = (path.join(entry), copy.join(entry));
        if from.is_dir() {
            fs::create_dir_all(&to)?;
            for file in fs::read_dir(&from)? {
                let file = file?;
                fs::copy(file.path(), to.join(file.file_name()))?;
            }
        } else if from.is_file() {
            fs::copy(&from, &to)?;
        }
    }
    let mut manifest: toml::Table = toml::from_str(&fs::read_to_string(copy.join("Cargo.toml"))?)?;
    let mut replaced = 0;
    for table in ["dependencies", "build-dependencies"] {
        let found = manifest.get_mut(table).and_then(|table| table.get_mut(&package));
        let version = toml::Value::String(format!("={version}"));
        match found {
            Some(toml::Value::Table(wanted)) => drop(wanted.insert("version".to_owned(), version)),
            Some(wanted) => *wanted = version,
            None => continue,
        }
        replaced += 1;
    }
    ensure!(replaced == 1, "{} does not depend on {package}", path.display());
    fs::write(copy.join("Cargo.toml"), toml::to_string(&manifest)?)?;
    let programs = [build(path, &targets.join(&name), true)?, build(&copy, &copy.join("target"), false)?];
    Ok(Some(Pair {
        what: format!("{} ({})", said.what, said.reference),
        fails: Fails::parse(&said.fails)?,
        line: *said.lines.first().context("which line?")?,
        name,
        programs,
    }))
}

/// Builds one of them; logs go to another folder.
pub fn case(path: &Path, folder: &Path) -> Result<Case> {
    let said = said(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = build(path, &source_tree().join("target/real").join(&name), true)?;
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
