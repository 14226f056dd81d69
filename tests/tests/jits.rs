//! Just-in-time compilers with threads of their own: node running a script that gets optimised, and java. They are large
//! and slow: `make soak`.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass, printed, run, same_bytes, source_tree, verify_log};
use std::path::Path;
use std::process::{Command, Output};

/// Runs a program natively and recorded, and replays it. With `whole`, the log must reach the program's end.
fn records(name: &str, program: &str, arguments: &[&str], whole: bool) -> Result<()> {
    ensure!(Path::new(program).exists(), "{program} is not installed");
    let workshop = Workshop::new(&format!("jits-{name}"))?;
    let command = std::iter::once(program).chain(arguments.iter().copied());
    let job = Job::new(&workshop.path, command);
    let native = run(&mut job.native()?)?;
    let log = workshop.path.join("log");
    let mut recorded = run(&mut job.recorded(&log, &[])?)?;
    // A limit that was met has been named.
    let limits = without_limits(&mut recorded);
    ensure!(!whole || limits.is_empty(), "{limits}");
    ensure!(native.status == recorded.status, "{} natively\n{}", native.status, printed(&recorded));
    same_bytes("standard output", &native.stdout, &recorded.stdout)?;
    same_bytes("standard error", &native.stderr, &recorded.stderr)?;
    if limits.is_empty() {
        verify_log(&log, &native).context(name.to_owned())?;
    } else {
        must_pass(&["check"], &log)?;
        must_pass(&["replay"], &log)?;
    }
    workshop.done()
}

/// Takes what bugnet has said off the standard error.
fn without_limits(output: &mut Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (said, rest): (Vec<_>, Vec<_>) = text.split_inclusive('\n').partition(|line| line.starts_with("bugnet: "));
    output.stderr = rest.concat().into_bytes();
    said.concat()
}

#[test]
#[ignore = "takes minutes: make soak"]
fn node_running_a_script_that_gets_optimised() -> Result<()> {
    let script = source_tree().join("tests/programs/optimised.js");
    records("node", "/usr/bin/node", &[&script.to_string_lossy()], true)
}

#[test]
#[ignore = "takes minutes: make soak"]
fn java_interpreting() -> Result<()> {
    records("java-int", "/usr/bin/java", &["-Xint", "-version"], false)
}

#[test]
#[ignore = "takes minutes: make soak"]
fn java_compiling() -> Result<()> {
    records("java-jit", "/usr/bin/java", &["-version"], false)
}

/// With the collector that has most threads, which it is not by default on small machines.
#[test]
#[ignore = "takes minutes: make soak"]
fn java_collecting_with_many_threads() -> Result<()> {
    records("java-g1", "/usr/bin/java", &["-XX:+UseG1GC", "-version"], true)
}

#[test]
#[ignore = "takes minutes: make soak"]
fn java_compiling_what_gets_hot_and_compiling_it_anew() -> Result<()> {
    let classes = Workshop::new("jits-java-classes")?;
    let source = source_tree().join("tests/programs/Compiled.java");
    let compiled = run(Command::new("/usr/bin/javac").arg("-d").arg(&classes.path).arg(source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    records("java-hot", "/usr/bin/java", &["-cp", &classes.path.to_string_lossy(), "Compiled", "2000"], true)?;
    classes.done()
}
