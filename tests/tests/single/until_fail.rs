//! A program that rarely fails does so under `bugnet record --until-fail --chaos`, and its recording is exact.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{ENVIRONMENT, Workshop, binary, must_pass, printed, run};
use bugnet_tests::rare::Rare;
use std::process::{Command, Stdio};

/// A wakeup that is lost: of 200 runs without bugnet, one failed.
#[test]
fn a_lost_wakeup_is_found() -> Result<()> {
    let workshop = Workshop::new("until-fail-chaos")?;
    let program = Rare::named("lost_wakeup")?.build(&workshop.path)?;
    let out = workshop.path.join("out");
    let mut record = Command::new(binary()?);
    record.args(["record", "--until-fail", "--chaos", "--runs", "200", "--fail-if", "signal:ALRM", "-o"]).arg(&out);
    let output = run(record.arg("--").arg(program).env_clear().envs(ENVIRONMENT).stdin(Stdio::null()))?;
    let text = printed(&output);
    ensure!(text.contains("has failed, after") && text.contains("killed by SIGALRM"), "{text}");
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
