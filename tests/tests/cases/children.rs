//! Programs that start others: a folder of small programs, each run natively, recorded as a whole and replayed.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, run, same_behaviour, same_bytes, same_files};
use bugnet_tests::small::{build_parent, sources};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Seconds after which a program that hangs fails its test.
const PATIENCE: &str = "300";

/// The lines of all processes together, which a log does not order between processes.
fn sorted(output: &[u8]) -> Vec<u8> {
    let mut lines: Vec<_> = output.split_inclusive(|b| *b == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// How many instructions the last line that tells has.
fn instructions(said: &[u8]) -> Option<u64> {
    let said = String::from_utf8_lossy(said);
    let (before, _) = said.rsplit_once(" instructions")?;
    before.rsplit(' ').next()?.replace(',', "").parse().ok()
}

fn run_case(source: &Path, name: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("children-{name}"))?;
    let command = build_parent(source, &workshop.path)?;
    let timed = |folder: &Path, command: &[String]| Job::new(folder, command.iter().cloned());
    let here = workshop.folder("native")?;
    let patient = [&["/usr/bin/timeout".to_owned(), PATIENCE.to_owned()][..], &command].concat();
    let native = run(&mut timed(&here, &patient).native()?)?;
    let log = workshop.path.join("log");
    let there = workshop.folder("recorded")?;
    let recorded = timed(&there, &command).recorded(&log, &["--interval", "1M"])?;
    let mut patiently = Command::new("/usr/bin/timeout");
    patiently.arg(PATIENCE).arg(recorded.get_program()).args(recorded.get_args()).current_dir(&there);
    patiently.env_clear().envs(bugnet_tests::bugnet::ENVIRONMENT).stdin(std::process::Stdio::null());
    let recorded = run(&mut patiently)?;
    same_behaviour(&native, &recorded).context("recording")?;
    same_files(&here, &there)?;
    let info: Value = serde_json::from_slice(&must_pass(&["info", "--json"], &log)?.stdout)?;
    let counts = [&["check"], &["replay"]].map(|command| Ok(instructions(&must_pass(command, &log)?.stdout)));
    let counts = counts.into_iter().collect::<Result<Vec<_>>>()?;
    let recorded = info["instructions"].as_u64();
    ensure!(recorded.is_some() && counts.iter().all(|count| *count == recorded), "{recorded:?}, but {counts:?}");
    must_pass(&["replay", "--merged"], &log)?;
    let replayed = must_pass(&["replay", "--output"], &log)?;
    same_bytes("replayed standard output", &sorted(&native.stdout), &sorted(&replayed.stdout))?;
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for (name, path) in sources("children")? {
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        let run = {
            let name = name.clone();
            move || run_case(&path, &name).map_err(|e| Failed::from(format!("{e:?}")))
        };
        trials.push(Trial::test(name, run));
    }
    Ok(trials)
}
