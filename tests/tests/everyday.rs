//! `everyday.txt`: what people do with a shell, servers and terminals. Behind `make soak`, which installs what it takes.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run, same_bytes, source_tree};
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::{Command, Stdio};

/// Seconds after which a command that hangs is killed, natively and recorded.
const PATIENCE: [&str; 2] = ["60", "300"];

fn run_case(name: &str, command: &str) -> Result<()> {
    let workshop = Workshop::new(&format!("everyday-{name}"))?;
    let job = |folder: &str| Ok::<_, anyhow::Error>(Job::new(&workshop.folder(folder)?, ["/bin/bash", "-c", command]));
    let patiently = |of: Command, seconds: &str| {
        let mut command = Command::new("/usr/bin/timeout");
        command.args(["--foreground", "-s", "KILL", seconds]).arg(of.get_program()).args(of.get_args());
        command.env_clear().envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = of.get_current_dir() {
            command.current_dir(folder);
        }
        command.stdin(Stdio::null());
        command
    };
    let native = run(&mut patiently(job("here")?.native()?, PATIENCE[0]))?;
    let log = workshop.path.join("log");
    let mut recorded = run(&mut patiently(job("there")?.recorded(&log, &[])?, PATIENCE[1]))?;
    let said = String::from_utf8_lossy(&recorded.stderr).into_owned();
    let (ours, programs): (Vec<_>, Vec<_>) = said.split_inclusive('\n').partition(|line| line.starts_with("bugnet: "));
    recorded.stderr = programs.concat().into_bytes();
    ensure!(!ours.iter().any(|line| line.contains("recording ends here")), "{}", ours.concat());
    ensure!(native.status == recorded.status, "{} natively\n{}", native.status, printed(&recorded));
    same_bytes("standard output", &native.stdout, &recorded.stdout)?;
    same_bytes("standard error", &native.stderr, &recorded.stderr)?;
    for args in [&["check"][..], &["replay"], &["replay", "--merged"]] {
        must_pass(args, &log)?;
    }
    workshop.done()
}

fn main() -> Result<()> {
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
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}
