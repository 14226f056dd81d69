//! Small assembly programs with exactly known first loads: each file of `asm_cases/` is a test. A case's log must hold
//! the records that its source expects, not one more or less, and replay; with other intervals it must replay, too.

use anyhow::{Context, Result, ensure};
use bugnet_tests::asm::{Case, build, compare, read_log, symbols};
use bugnet_tests::bugnet::{INCOMPLETE, Job, Workshop, must_end_with, run, same_behaviour, source_tree};
use bugnet_tests::trace::trace;
use libtest_mimic::{Failed, Trial};
use std::path::Path;
use std::process::Output;

/// Intervals and check distances that cases must replay with, beside the defaults.
const SMALL: [[&str; 4]; 2] =
    [["--interval", "1000", "--check-every", "1"], ["--interval", "16", "--check-every", "3"]];

/// The program behaves when recorded as it does natively. Where exact replay ends early, there is a warning as well.
fn behaves(case: &Case, native: &Output, mut recorded: Output) -> Result<()> {
    if case.end.is_some() {
        let warning = String::from_utf8_lossy(&recorded.stderr);
        ensure!(
            warning.lines().any(|line| line.starts_with("bugnet:")),
            "no warning that exact replay ends: {warning}"
        );
        recorded.stderr.clone_from(&native.stderr);
    }
    same_behaviour(native, &recorded)
}

fn run_case(source: &Path, name: &str, case: &Case) -> Result<()> {
    let workshop = Workshop::new(&format!("asm-{name}"))?;
    let program = build(source, &workshop.path)?;
    let steps = trace(&program)?;
    let job = Job::new(&workshop.path, [program.to_string_lossy()]);
    let native = run(&mut job.native()?)?;
    ensure!(native.status.success(), "native run: {}", native.status);
    let options: Vec<&str> = case.options.iter().map(String::as_str).collect();
    let log = workshop.path.join("log");
    let status = if case.end.is_some() { INCOMPLETE } else { 0 };
    behaves(case, &native, run(&mut job.recorded(&log, &options)?)?).context("recording")?;
    must_end_with(status, &["check"], &log)?;
    compare(case, &symbols(&program)?, &steps, &read_log(&log)?)?;
    must_end_with(status, &["replay"], &log)?;
    for (number, small) in SMALL.iter().enumerate() {
        let log = workshop.path.join(format!("log-small{number}"));
        let options = [&options, small.as_slice()].concat();
        behaves(case, &native, run(&mut job.recorded(&log, &options)?)?).with_context(|| format!("{small:?}"))?;
        must_end_with(status, &["check"], &log)?;
        must_end_with(status, &["replay"], &log).with_context(|| format!("{small:?}"))?;
    }
    workshop.done()
}

pub fn trials() -> Result<Vec<Trial>> {
    let folder = source_tree().join("tests/asm_cases");
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
    let features: Vec<String> = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("flags")?.split_once(':'))
        .map(|(_, flags)| flags.split_whitespace().map(ToOwned::to_owned).collect())
        .unwrap_or_default();
    let mut trials = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()?.strip_suffix(".s")).map(ToOwned::to_owned) else {
            continue;
        };
        let case = Case::parse(&std::fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
        let missing = case.cpu.iter().find(|feature| !features.contains(feature)).cloned();
        let run = {
            let name = name.clone();
            let missing = missing.clone();
            move || match missing {
                Some(feature) => {
                    // Asked for all the same, as `make soak` does for all that are ignored.
                    eprintln!("this processor has no {feature}");
                    Ok(())
                }
                None => run_case(&path, &name, &case).map_err(|e| Failed::from(format!("{e:?}"))),
            }
        };
        let lacking = missing.as_ref().map_or_else(String::new, |feature| format!(" (no {feature})"));
        trials.push(Trial::test(format!("{name}{lacking}"), run).with_ignored_flag(missing.is_some()));
    }
    trials.sort_by(|a, b| a.name().cmp(b.name()));
    ensure!(!trials.is_empty(), "no cases in {}", folder.display());
    Ok(trials)
}
