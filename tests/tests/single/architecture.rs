//! The dependency rules of ARCHITECTURE.md's crate table, checked against what cargo says.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{binary, run, source_tree};
use bugnet_tests::moved::dynamorio;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The workspace's crates and what each may depend on within the workspace, as ARCHITECTURE.md says.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("bugnet-format", &[]),
    ("bugnet-dr", &["bugnet-format"]),
    ("bugnet-capture", &["bugnet-system-calls"]),
    ("bugnet-launch", &[]),
    ("bugnet-handover", &["bugnet-format"]),
    ("bugnet-logger", &["bugnet-format", "bugnet-dr", "bugnet-handover", "bugnet-launch", "bugnet-system-calls"]),
    ("bugnet-heap", &["bugnet-format"]),
    ("bugnet-replayer", &["bugnet-format", "bugnet-dr", "bugnet-heap", "bugnet-system-calls"]),
    ("bugnet-replay-host", &[]),
    ("bugnet-debuginfo", &[]),
    ("bugnet-system-calls", &[]),
    ("bugnet-replay", &["bugnet-debuginfo", "bugnet-format", "bugnet-system-calls"]),
    (
        "bugnet-analyses",
        &["bugnet-events", "bugnet-format", "bugnet-heap", "bugnet-replay", "bugnet-system-calls", "bugnet-what-if"],
    ),
    ("bugnet-events", &["bugnet-format", "bugnet-replay"]),
    ("bugnet-what-if", &["bugnet-debuginfo", "bugnet-events", "bugnet-format", "bugnet-replay"]),
    ("bugnet-debugger", &["bugnet-analyses", "bugnet-format", "bugnet-replay"]),
    (
        "bugnet",
        &["bugnet-analyses", "bugnet-debugger", "bugnet-format", "bugnet-handover", "bugnet-launch", "bugnet-replay"],
    ),
    (
        "bugnet-tests",
        &[
            "bugnet-analyses",
            "bugnet-events",
            "bugnet-format",
            "bugnet-replay",
            "bugnet-system-calls",
            "bugnet-what-if",
        ],
    ),
    ("spec-harness", &["bugnet-events", "bugnet-format", "bugnet-replay", "bugnet-tests"]),
];

/// Crates of other people that reach DynamoRIO, and the only crates of ours that may depend on them.
const REACHES_DYNAMORIO: &str = "dynamorio-sys";
const MAY_REACH_DYNAMORIO: &[&str] = &["bugnet-dr"];

/// Direct dependencies of every workspace crate, build and test dependencies included.
fn dependencies() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(source_tree());
    let output = run(&mut command)?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let list = |value: &Value| value.as_array().cloned().context("cargo metadata has another form than expected");
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut all = BTreeMap::new();
    for package in list(&metadata["packages"])? {
        all.insert(name(&package), list(&package["dependencies"])?.iter().map(name).collect());
    }
    Ok(all)
}

#[test]
fn crates_depend_on_what_they_may() -> Result<()> {
    let dependencies = dependencies()?;
    let ours: BTreeSet<&String> = dependencies.keys().collect();
    let listed: BTreeSet<&str> = MAY_DEPEND_ON.iter().map(|(name, _)| *name).collect();
    let unlisted: Vec<_> = ours.iter().filter(|name| !listed.contains(name.as_str())).collect();
    ensure!(unlisted.is_empty(), "{unlisted:?}: say here and in ARCHITECTURE.md what they may depend on");
    for (name, allowed) in MAY_DEPEND_ON {
        let used = dependencies.get(*name).with_context(|| format!("there is no crate {name}"))?;
        let wrong: Vec<_> = used.iter().filter(|d| ours.contains(d) && !allowed.contains(&d.as_str())).collect();
        ensure!(wrong.is_empty(), "{name} must not depend on {wrong:?}");
    }
    Ok(())
}

#[test]
fn only_the_wrappers_reach_dynamorio() -> Result<()> {
    for (name, used) in dependencies()? {
        let reaches = used.contains(REACHES_DYNAMORIO);
        ensure!(
            !reaches || MAY_REACH_DYNAMORIO.contains(&name.as_str()),
            "{name} depends on {REACHES_DYNAMORIO}; only {MAY_REACH_DYNAMORIO:?} may"
        );
    }
    Ok(())
}

/// The clients reach DynamoRIO by the wrappers, and not past them.
#[test]
fn the_wrappers_hand_nothing_raw_on() -> Result<()> {
    let lib = std::fs::read_to_string(source_tree().join("dr/src/lib.rs"))?;
    ensure!(
        lib.contains("\nuse dynamorio_sys as sys;"),
        "dr/src/lib.rs names DynamoRIO otherwise than this test expects"
    );
    ensure!(!lib.contains("pub use dynamorio_sys"), "dr must keep DynamoRIO's functions to itself");
    Ok(())
}

/// DynamoRIO is built from its sources with our patches: of each, the patched source is left where it was compiled.
#[test]
fn dynamorio_is_patched() -> Result<()> {
    let bugnet = binary()?;
    let library = dynamorio(bugnet.parent().context("bugnet lies in a folder")?)?;
    let compiled = library.ancestors().nth(3).context("lib64/release")?.join("core");
    let mut patches = 0;
    for entry in std::fs::read_dir(source_tree().join("dr/patches"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        patches += 1;
        let name = path.file_stem().context("a patch has a name")?.to_string_lossy();
        let source = compiled.join(format!("patched-{name}.c"));
        let advice = "was not compiled: cargo clean --release -p dynamorio-sys";
        let source = std::fs::read_to_string(&source).with_context(|| format!("{} {advice}", source.display()))?;
        let patch = std::fs::read_to_string(&path)?;
        let lines: Vec<&str> = patch.lines().filter(|line| !line.starts_with("+++")).collect();
        let added = lines.split(|line| !line.starts_with('+')).filter(|added| !added.is_empty());
        let added: Vec<String> =
            added.map(|added| added.iter().map(|line| format!("{}\n", &line[1..])).collect()).collect();
        ensure!(!added.is_empty(), "{} adds nothing", path.display());
        ensure!(added.iter().all(|added| source.contains(added)), "{} {advice}", path.display());
    }
    ensure!(patches > 0, "no patch was looked at");
    Ok(())
}

#[test]
fn the_format_has_no_unsafe_code() -> Result<()> {
    let lib = std::fs::read_to_string(source_tree().join("lib-format/src/lib.rs"))?;
    ensure!(lib.lines().any(|line| line == "#![forbid(unsafe_code)]"), "lib-format must forbid unsafe code");
    Ok(())
}

#[test]
fn architecture_page_lists_every_crate() -> Result<()> {
    let page = std::fs::read_to_string(source_tree().join("ARCHITECTURE.md"))?;
    let manifest = std::fs::read_to_string(source_tree().join("Cargo.toml"))?;
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).context("members")?.0;
    for folder in members.split(',').map(|m| m.trim().trim_matches('"')).filter(|m| !m.is_empty()) {
        ensure!(page.contains(&format!("| `{folder}` |")), "ARCHITECTURE.md does not list the crate in {folder}/");
    }
    Ok(())
}
