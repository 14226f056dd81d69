//! Just-in-time compilers with threads of their own, node running a script that gets optimised, and java, and others of that size:
//! numpy, and cargo with the compiler. They are large and slow: `make soak`.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{
    Job, Workshop, must_pass, printed, run, same_bytes, source_tree, take_messages, verify_log,
};
use std::path::Path;
use std::process::Command;

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
    let limits = take_messages(&mut recorded);
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

/// How often each is recorded where what goes wrong may do so now and then only.
const OFTEN: usize = 20;

/// Records a program so often in a folder; it prints the same each time. Each log replays thread by thread, and merged.
fn records_often(workshop: Workshop, command: &[&str], between: fn(&Path) -> Result<()>) -> Result<()> {
    let job = Job::new(&workshop.path, command.iter().copied());
    let native = run(&mut job.native()?)?;
    ensure!(native.status.success(), "{}", printed(&native));
    for number in 0..OFTEN {
        between(&workshop.path)?;
        let log = workshop.path.join(format!("log-{number}"));
        let mut recorded = run(&mut job.recorded(&log, &[])?)?;
        let limits = take_messages(&mut recorded);
        ensure!(limits.is_empty(), "{limits}");
        ensure!(native.status == recorded.status, "{} natively\n{}", native.status, printed(&recorded));
        same_bytes("standard output", &native.stdout, &recorded.stdout)?;
        for args in [&["check"][..], &["replay"], &["replay", "--merged"]] {
            must_pass(args, &log).with_context(|| format!("recording {number}"))?;
        }
        std::fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

fn as_it_is(_folder: &Path) -> Result<()> {
    Ok(())
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn java_often() -> Result<()> {
    let workshop = Workshop::new("jits-java-often")?;
    let source = source_tree().join("tests/programs/Compiled.java");
    let compiled = run(Command::new("/usr/bin/javac").arg("-d").arg(&workshop.path).arg(source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    records_often(workshop, &["/usr/bin/java", "-cp", ".", "Compiled", "500"], as_it_is)
}

/// With the collector that a machine with two processors gets, of which each thread executes code that others have made and changed.
#[test]
#[ignore = "takes many minutes: make soak"]
fn java_collecting_often() -> Result<()> {
    let workshop = Workshop::new("jits-java-collecting-often")?;
    let source = source_tree().join("tests/programs/Compiled.java");
    let compiled = run(Command::new("/usr/bin/javac").arg("-d").arg(&workshop.path).arg(source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    records_often(workshop, &["/usr/bin/java", "-XX:+UseG1GC", "-cp", ".", "Compiled", "5"], as_it_is)
}

/// The compiler of Java, which throws away more code than most programs have.
#[test]
#[ignore = "takes many minutes: make soak"]
fn javac_often() -> Result<()> {
    let workshop = Workshop::new("jits-javac-often")?;
    let source = source_tree().join("tests/programs/Compiled.java");
    std::fs::copy(source, workshop.path.join("Compiled.java"))?;
    records_often(workshop, &["/usr/bin/javac", "-J-XX:+UseG1GC", "Compiled.java"], as_it_is)
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn node_often() -> Result<()> {
    let script = source_tree().join("tests/programs/optimised.js");
    records_often(Workshop::new("jits-node-often")?, &["/usr/bin/node", &script.to_string_lossy()], as_it_is)
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn numpy_often() -> Result<()> {
    let script = "import numpy as np; r = np.random.default_rng(1); a = r.random((100, 100)); \
                  print(round(float(np.trace(np.linalg.inv(a) @ a)), 6), np.fft.fft(r.random(1024)).shape)";
    records_often(Workshop::new("jits-numpy-often")?, &["/usr/bin/python3", "-c", script], as_it_is)
}

#[test]
#[ignore = "takes many minutes: make soak"]
fn cargo_build_often() -> Result<()> {
    let workshop = Workshop::new("jits-cargo-often")?;
    let [path, home] = ["PATH", "HOME"].map(|name| format!("{name}={}", std::env::var(name).unwrap_or_default()));
    let package = "[package]\nname = \"hashes\"\nedition = \"2021\"\n[workspace]\n";
    std::fs::write(workshop.path.join("Cargo.toml"), package)?;
    std::fs::create_dir(workshop.path.join("src"))?;
    let source = "fn main() { println!(\"{:?}\", (0..9).map(|i| i * i).collect::<std::collections::HashSet<_>>()) }";
    std::fs::write(workshop.path.join("src/main.rs"), source)?;
    let command = ["/usr/bin/env", &path, &home, "CARGO_TARGET_DIR=built", "cargo", "build", "--quiet", "--offline"];
    records_often(workshop, &command, |folder| Ok(std::fs::remove_dir_all(folder.join("built"))?))
}
