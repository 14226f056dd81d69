//! A program that rarely fails does so under `bugnet record --until-fail --chaos`, and its recording is exact.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{ENVIRONMENT, Workshop, binary, must_pass, printed, run};
use bugnet_tests::rare::Rare;
use std::process::{Command, Stdio};

/// Records a program until it fails by a signal; how, is said by more options.
fn is_found(test: &str, program: &str, signal: &str, options: &[&str]) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let program = Rare::named(program)?.build(&workshop.path)?;
    let out = workshop.path.join("out");
    let mut record = Command::new(binary()?);
    let fails = format!("signal:{signal}");
    record.args(["record", "--until-fail", "--chaos", "--fail-if", &fails]).args(options).arg("-o").arg(&out);
    let output = run(record.arg("--").arg(program).env_clear().envs(ENVIRONMENT).stdin(Stdio::null()))?;
    let text = printed(&output);
    ensure!(text.contains("has failed, after") && text.contains(&format!("killed by SIG{signal}")), "{text}");
    let seed = text.split_once("--chaos=").context("no seed")?.1.split(')').next().unwrap_or_default();
    let failing = out.join("failing");
    let info = must_pass(&["info"], &failing)?;
    let says_so = String::from_utf8_lossy(&info.stdout).contains(&format!("--chaos={seed})"));
    ensure!(says_so, "{}", printed(&info));
    must_pass(&["check"], &failing)?;
    must_pass(&["replay"], &failing)?;
    must_pass(&["replay", "--merged"], &failing)?;
    workshop.done()
}

/// A wakeup that is lost: of 200 runs without bugnet, one failed.
#[test]
fn a_lost_wakeup_is_found() -> Result<()> {
    is_found("until-fail-chaos", "lost_wakeup", "ALRM", &["--runs", "200"])
}

/// An update that is lost, which none of 60 runs without bugnet showed: natively run, in turns of random length.
#[test]
fn a_lost_update_is_found_lightly() -> Result<()> {
    is_found("until-fail-light", "lost_update", "ABRT", &["--light", "--runs", "2000"])
}
