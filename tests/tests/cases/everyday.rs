//! `everyday.txt`: what people do with a shell, servers and terminals. Behind `make soak`, which installs what it takes.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, same_bytes, source_tree, take_messages};
use bugnet_tests::small::run_limited;
use libtest_mimic::{Failed, Trial};
use std::time::Duration;

/// After so long, a command that hangs is killed.
const LIMIT: Duration = Duration::from_secs(300);

fn run_case(name: &str, command: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("everyday-{name}"))?;
    let job = |folder: &str| Ok::<_, anyhow::Error>(Job::new(&workshop.folder(folder)?, ["/bin/bash", "-c", command]));
    let native = run_limited(&mut job("here")?.native()?, &workshop.path, "native", LIMIT)?;
    let log = workshop.path.join("log");
    let mut recorded = run_limited(&mut job("there")?.recorded(&log, &[])?, &workshop.path, "recording", LIMIT)?;
    let messages = take_messages(&mut recorded);
    ensure!(!messages.contains("recording ends here"), "{messages}");
    ensure!(native.status == recorded.status, "{} natively\n{}", native.status, printed(&recorded));
    same_bytes("standard output", &native.stdout, &recorded.stdout)?;
    same_bytes("standard error", &native.stderr, &recorded.stderr)?;
    for args in [&["check"][..], &["replay"], &["replay", "--merged"]] {
        must_pass(args, &log)?;
    }
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let file = source_tree().join("tests/everyday.txt");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut trials = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, command) = line.split_once(" ; ").with_context(|| format!("no command: {line}"))?;
        let (name, command) = (name.to_owned(), command.to_owned());
        let run = {
            let name = name.clone();
            move || run_case(&name, &command).map_err(|e| Failed::from(format!("{e:?}")))
        };
        trials.push(Trial::test(name, run).with_ignored_flag(true));
    }
    Ok(trials)
}
