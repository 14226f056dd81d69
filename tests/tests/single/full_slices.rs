//! What a full slice has beside the values: what decided, and not what was merely called.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run, source_tree};
use serde_json::Value;
use std::process::Command;

/// The functions of a slice's lines.
fn functions(report: &Value) -> Vec<String> {
    let lines = report["lines"].as_array().into_iter().flatten();
    lines.filter_map(|line| line["function"].as_str()).map(str::to_owned).collect()
}

#[test]
fn what_was_merely_called_is_in_no_full_slice() -> Result<()> {
    for optimised in ["-O0", "-O1"] {
        let workshop = Workshop::new(&format!("full-slices{optimised}"))?;
        let (program, log) = (workshop.path.join("noise"), workshop.path.join("log"));
        let source = source_tree().join("tests/programs/analyses/noise.c");
        let compiled =
            Command::new("gcc").args(["-g", optimised, "-fno-inline", "-o"]).arg(&program).arg(source).output();
        let compiled = compiled.context("starting gcc")?;
        ensure!(compiled.status.success(), "{}", printed(&compiled));
        run(&mut Job::new(&workshop.path, [&*program.to_string_lossy(), "wrong"]).recorded(&log, &[])?)?;
        let slice = |full: &str| -> Result<Value> {
            let output = must_pass(&["slice", "--json", full], &log)?;
            serde_json::from_slice(&output.stdout).with_context(|| printed(&output))
        };
        let full = functions(&slice("--full")?);
        ensure!(full.iter().any(|name| name == "choose"), "what decided is missing: {full:?}");
        let others = |name: &&String| *name == "noise" || name.starts_with("_dl_") || name.contains("strlen");
        let found: Vec<&String> = full.iter().filter(others).collect();
        ensure!(found.is_empty(), "{optimised}: {found:?} of {} lines have nothing to do with it", full.len());
        ensure!(full.len() < 40, "{optimised}: {full:?}");
        let all = functions(&slice("--full=all")?);
        ensure!(all.len() > full.len() && full.iter().all(|name| all.contains(name)), "{full:?}\n{all:?}");
        workshop.done()?;
    }
    Ok(())
}
