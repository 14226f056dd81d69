//! A log whose dependencies were taken away no longer says in which order the threads came: a merged replay must notice,
//! and say which accesses contradict its order. What the threads wrote is in the order in which it came to the kernel.

use anyhow::{Context, Result, ensure};
use bugnet_format::folder::{Recording, interval_file};
use bugnet_format::frame::{HEADER_SIZE, encode_frame, read_frames};
use bugnet_format::record::{DependencyKind, Record, Records};
use bugnet_format::types::{IntervalNo, Position, ProcessId};
use bugnet_tests::bugnet::{Job, Workshop, bugnet, must_pass, printed, run, same_bytes};
use bugnet_tests::small::build_named;
use bugnet_tests::threaded::programs;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Rewrites an interval's file: its dependencies, but for births, are on the start of the other thread, so that they order
/// nothing. Returns how many there were.
fn forget_order(file: &Path) -> Result<usize> {
    let bytes = fs::read(file)?;
    let stream = read_frames(&bytes, HEADER_SIZE).stream;
    let (mut forged, mut count, mut records) = (Vec::new(), 0, Records::new(&stream));
    while let Some(placed) = records.next() {
        let placed = placed.map_err(|e| anyhow::anyhow!("{}: {}", file.display(), e.reason))?;
        match placed.record {
            Record::Dependency { delta, kind, block, other, implied, .. } if kind != DependencyKind::Birth => {
                let (other_interval, other_position) = (IntervalNo(0), Position(0));
                let record = Record::Dependency { delta, kind, block, other, other_interval, other_position, implied };
                record.encode(&mut forged);
                count += 1;
            }
            _ => forged.extend_from_slice(&stream[placed.offset..records.offset()]),
        }
    }
    let mut out = bytes[..HEADER_SIZE].to_vec();
    encode_frame(0, &forged, 1, &mut out)?;
    fs::write(file, out)?;
    Ok(count)
}

#[test]
fn an_order_that_is_not_the_recorded_one_is_a_conflict() -> Result<()> {
    let workshop = Workshop::new("order-conflict")?;
    let programs = programs()?;
    let program = programs.iter().find(|program| program.name == "barriers").context("no such program")?;
    let binary = program.build("O1", &workshop.path)?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, [&binary.to_string_lossy(), "20"]);
    let recorded = run(&mut job.recorded(&log, &[])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    must_pass(&["replay", "--merged"], &log)?;
    let mut count = 0;
    for thread in Recording::open(&log)?.threads()? {
        count += forget_order(&thread.folder.join(interval_file(IntervalNo(0))))?;
    }
    ensure!(count > 20, "only {count} dependencies in {}", log.display());
    must_pass(&["check"], &log)?;
    // Each thread alone needs no order.
    must_pass(&["replay"], &log)?;
    let merged = bugnet(["replay", "--merged"].map(Path::new).into_iter().chain([&*log]))?;
    let text = String::from_utf8_lossy(&merged.stdout);
    ensure!(merged.status.code() == Some(1), "{}\n{}", merged.status, printed(&merged));
    for part in ["conflict at 0x", "read ", "but memory held ", "last written by thread ", "run at ", "barriers.c:"] {
        ensure!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    workshop.done()
}

/// Builds a program with threads.
fn built(name: &str, folder: &Path) -> Result<String> {
    let programs = programs()?;
    let program = programs.iter().find(|program| program.name == name).context("no such program")?;
    Ok(program.build("O1", folder)?.to_string_lossy().into_owned())
}

#[test]
fn all_processes_are_shown_and_the_worst_counts() -> Result<()> {
    let workshop = Workshop::new("order-processes")?;
    let binary = built("barriers", &workshop.path)?;
    let log = workshop.path.join("log");
    let script = format!("{binary} 20; /bin/true; {binary} 20");
    let recorded = run(&mut Job::new(&workshop.path, ["/bin/sh", "-c", &script]).recorded(&log, &[])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let threads = Recording::open(&log)?.threads()?;
    let processes: BTreeSet<String> = threads.iter().map(|thread| thread.pid.to_string()).collect();
    ensure!(processes.len() > 3, "{processes:?}");
    let named = |text: &str| processes.iter().filter(|pid| text.contains(&format!("process {pid} ("))).count();
    for args in [&["order"][..], &["dump", "--order"], &["info", "--threads"], &["replay", "--merged"]] {
        let text = String::from_utf8(must_pass(args, &log)?.stdout)?;
        ensure!(named(&text) == processes.len(), "{args:?}: {text}");
    }
    let text = String::from_utf8(must_pass(&["replay", "--merged", "-p", "true"], &log)?.stdout)?;
    ensure!(text.matches("0 conflicts").count() == 1, "{text}");
    // The order of one of them is lost.
    let several = |pid: &ProcessId| threads.iter().filter(|thread| thread.pid == *pid).count() > 1;
    let first = threads.iter().map(|thread| thread.pid).find(several).context("no process has threads")?;
    for thread in threads.iter().filter(|thread| thread.pid == first) {
        forget_order(&thread.folder.join(interval_file(IntervalNo(0))))?;
    }
    let merged = bugnet(["replay", "--merged"].map(Path::new).into_iter().chain([&*log]))?;
    let text = String::from_utf8_lossy(&merged.stdout);
    ensure!(merged.status.code() == Some(1), "{}\n{}", merged.status, printed(&merged));
    ensure!(named(&text) == processes.len() && text.contains("conflict at 0x"), "{text}");
    workshop.done()
}

/// How many threads write in a test, and how many lines each.
const WRITERS: [&str; 2] = ["6", "300"];

#[test]
fn output_is_in_the_order_in_which_threads_wrote() -> Result<()> {
    let workshop = Workshop::new("order-writers")?;
    let program = build_named("writers.c", &["-pthread"], &workshop.path)?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, [&program.to_string_lossy(), WRITERS[0], WRITERS[1]]);
    // With intervals that end meanwhile.
    let recorded = run(&mut job.recorded(&log, &["--interval", "200k"])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let replayed = must_pass(&["replay", "--output"], &log)?;
    same_bytes("replayed standard output", &recorded.stdout, &replayed.stdout)?;
    same_bytes("replayed standard error", &recorded.stderr, &replayed.stderr)?;
    must_pass(&["replay", "--merged"], &log)?;
    workshop.done()
}

#[test]
fn system_calls_are_in_the_order_in_which_threads_made_them() -> Result<()> {
    let workshop = Workshop::new("order-calls")?;
    let program = build_named("writers.c", &["-pthread"], &workshop.path)?;
    let log = workshop.path.join("log");
    // To one file, so that there is one order.
    let script = format!("exec {} {} 60 2>&1", program.display(), WRITERS[0]);
    let recorded = run(&mut Job::new(&workshop.path, ["/bin/sh", "-c", &script]).recorded(&log, &[])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let listed = must_pass(&["syscalls", "-p", "program", "--only", "write,writev"], &log)?;
    let listed = String::from_utf8(listed.stdout)?;
    // What `writev` wrote comes in two parts.
    let listed: Vec<String> = listed.lines().map(|line| line.replace("\", iov_len=7}, {iov_base=\"", "")).collect();
    let wrote = String::from_utf8(recorded.stdout)?;
    ensure!(wrote.lines().count() == listed.len(), "{} calls, which wrote\n{wrote}", listed.len());
    for (wrote, listed) in wrote.lines().zip(&listed) {
        let (thread, line) = wrote.split_once(" line ").with_context(|| wrote.to_owned())?;
        ensure!(
            listed.contains(thread) && listed.contains(&format!("line {line}\\n")),
            "{wrote}, but listed\n{listed}"
        );
    }
    workshop.done()
}

#[test]
fn output_through_what_is_opened_again_is_there() -> Result<()> {
    let workshop = Workshop::new("order-opened")?;
    let log = workshop.path.join("log");
    let script = "echo one > /dev/stdout; echo two > /dev/stderr; echo three > /proc/self/fd/1; echo four > /dev/fd/2; \
                  echo none > /dev/null; echo five";
    let recorded = run(&mut Job::new(&workshop.path, ["/bin/sh", "-c", script]).recorded(&log, &[])?)?;
    same_bytes("standard output", b"one\nthree\nfive\n", &recorded.stdout)?;
    let replayed = must_pass(&["replay", "--output"], &log)?;
    same_bytes("replayed standard output", &recorded.stdout, &replayed.stdout)?;
    same_bytes("replayed standard error", b"two\nfour\n", &replayed.stderr)?;
    workshop.done()
}
