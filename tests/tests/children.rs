//! Programs that start others: a folder of small programs, each run natively, recorded as a whole and replayed.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, run, same_behaviour, same_bytes, same_files, source_tree};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::process::Command;

/// Seconds after which a program that hangs fails its test.
const PATIENCE: &str = "300";

fn build(source: &Path, folder: &Path) -> Result<Vec<String>> {
    if source.extension().is_some_and(|e| e == "sh") {
        return Ok(vec!["/bin/bash".into(), source.display().to_string()]);
    }
    let program = folder.join("program");
    let output = run(Command::new("cc").args(["-O1", "-g", "-pthread", "-w", "-o"]).arg(&program).arg(source))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(vec![program.display().to_string()])
}

/// The lines of all processes together, which a log does not order between processes.
fn sorted(output: &[u8]) -> Vec<u8> {
    let mut lines: Vec<_> = output.split_inclusive(|b| *b == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

fn run_case(source: &Path, name: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("children-{name}"))?;
    let command = build(source, &workshop.path)?;
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
    same_behaviour(&native, &run(&mut patiently)?).context("recording")?;
    same_files(&here, &there)?;
    must_pass(&["check"], &log)?;
    must_pass(&["replay"], &log)?;
    must_pass(&["replay", "--merged"], &log)?;
    must_pass(&["info"], &log)?;
    let replayed = must_pass(&["replay", "--output"], &log)?;
    same_bytes("replayed standard output", &sorted(&native.stdout), &sorted(&replayed.stdout))?;
    workshop.done()
}

fn main() -> Result<()> {
    let folder = source_tree().join("tests/programs/children");
    let mut trials = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let run = {
            let name = name.clone();
            move || run_case(&path, &name).map_err(|e| Failed::from(format!("{e:?}")))
        };
        trials.push(Trial::test(name, run));
    }
    trials.sort_by(|a, b| a.name().cmp(b.name()));
    ensure!(!trials.is_empty(), "no programs in {}", folder.display());
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}
