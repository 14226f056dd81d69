//! `spec-harness --time-travel`: what it is asked for it measures, and nothing else.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Workshop, binary, printed, run};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn harness(args: &[&str]) -> Result<Output> {
    let program = binary()?.with_file_name("spec-harness");
    run(Command::new(program).arg("--time-travel").args(args).stdin(Stdio::null()))
}

#[test]
fn workloads_are_chosen_by_their_names() -> Result<()> {
    let list = |args: &[&str]| -> Result<String> {
        let output = harness(args)?;
        ensure!(output.status.success(), "{args:?}: {}", printed(&output));
        Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let all = list(&["--list"])?;
    ensure!(all == "gzip python3 sqlite3 pigz-4 gzip-long record-full", "{all}");
    let quick = list(&["--quick", "--list"])?;
    ensure!(quick == "gzip python3 sqlite3 pigz-4 record-full", "{quick}");
    let two = list(&["--only", "gzip", "--only", "record-full", "--list"])?;
    ensure!(two == "gzip record-full", "{two}");
    for wrong in [&["--only", "zip"][..], &["--peers"], &["--interval", "1M"]] {
        let output = harness(wrong)?;
        ensure!(!output.status.success(), "{wrong:?}: {}", printed(&output));
    }
    Ok(())
}

#[test]
#[ignore = "takes minutes: make soak"]
fn each_figure_is_measured() -> Result<()> {
    let workshop = Workshop::new("harness-time-travel")?;
    let file = workshop.path.join("figures.json");
    let json = file.to_string_lossy();
    let output = harness(&["--quick", "--only", "gzip", "--markdown", "--json", &json])?;
    ensure!(output.status.success(), "{}", printed(&output));
    let figures: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let column = &figures["workloads"][0];
    let missing: Vec<&String> = column["missing"].as_object().context("no object")?.keys().collect();
    ensure!(missing == ["merged"], "missing: {missing:?}");
    let measured = column["figures"].as_object().context("no figures")?;
    ensure!(measured.len() == 11 && measured.values().all(|figure| figure.as_f64() > Some(0.0)), "{measured:?}");
    let table = String::from_utf8_lossy(&output.stdout);
    ensure!(table.starts_with("| question") && table.contains("| seek anywhere, median"), "{table}");
    workshop.done()
}
