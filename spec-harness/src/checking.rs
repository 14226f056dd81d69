//! What `bugnet memcheck`, `races` and `deadlocks` say of programs that people use, of which none is known to be wrong: whatever is found may be a false
//! alarm. And what they take, against the native run.

use crate::machine::Machine;
use crate::measure::{Cost, log_size, timed};
use crate::table::{Style, count, factor, geometric_mean, lines};
use crate::way::Way;
use crate::workloads::Workload;
use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Workshop, binary};
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The shortest native run against which it means anything how long something takes, in seconds of processor time.
const SHORTEST: f64 = 0.05;

/// How `bugnet memcheck` ends that has found something.
const FOUND: &str = "exit status: 6";

/// What one command has said, and taken.
#[derive(Debug, Serialize)]
struct Said {
    /// How much of each kind it has found, by the names in its report.
    found: Vec<(&'static str, usize)>,
    /// Seconds of processor time, of the clock, and bytes of memory.
    cpu: f64,
    wall: f64,
    memory: u64,
}

/// What was measured of a program.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    group: &'static str,
    instructions: u64,
    /// Processor time of the native run, in seconds.
    native: f64,
    /// And under valgrind's memory checker, where it does not take too long, or stumbles.
    valgrind: Option<f64>,
    memcheck: Said,
    /// Of programs with threads alone.
    races: Option<Said>,
    deadlocks: Said,
}

/// Checks all workloads, and writes table and figures to a folder; how many could not be.
///
/// # Errors
/// Nothing can be written there, or nothing could be measured.
pub fn run_all(folder: &Path, chosen: &[Workload]) -> Result<usize> {
    fs::create_dir_all(folder)?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for (number, workload) in chosen.iter().enumerate() {
        eprintln!("[{}/{}] {} ...", number + 1, chosen.len(), workload.name);
        match measure(workload) {
            Ok(row) => rows.push(row),
            Err(e) => {
                failed += 1;
                eprintln!("{}: NOT MEASURED: {e:#}", workload.name);
            }
        }
        fs::write(folder.join("checks.md"), table(&rows))?;
        let figures = serde_json::json!({ "machine": Machine::here(), "programs": rows });
        fs::write(folder.join("checks.json"), serde_json::to_vec_pretty(&figures)?)?;
    }
    ensure!(!rows.is_empty(), "nothing was measured");
    print!("{}", table(&rows));
    Ok(failed)
}

fn measure(workload: &Workload) -> Result<Row> {
    let workshop = Workshop::new(&format!("checks-{}", workload.name.replace('/', "-")))?;
    let log = workshop.path.join("log");
    let (mut native, mut status) = (Cost::default(), String::new());
    for is_recorded in [false, true] {
        let dir = workshop.folder("run")?;
        let job = (workload.job)(&dir)?;
        let command = if is_recorded { job.recorded(&log, workload.options)? } else { job.native()? };
        let (cost, outcome) = timed(command, &workshop.path)?;
        if !is_recorded {
            (native, status) = (cost, outcome.status);
        } else {
            ensure!(outcome.status == status, "recorded, it ended with {}, not with {status}", outcome.status);
        }
        fs::remove_dir_all(&dir)?;
    }
    let valgrind = if native.cpu < SHORTEST { None } else { under_valgrind(workload, &workshop)? };
    let has_threads = ["parallel", "sharing"].contains(&workload.group);
    let asked = |args: &[&str], kinds: &[&'static str]| asked(args, kinds, &log, &workshop.path);
    let row = Row {
        name: workload.name.clone(),
        group: workload.group,
        instructions: log_size(&log)?.instructions,
        native: native.cpu,
        valgrind,
        memcheck: asked(&["memcheck", "--no-leaks"], &["errors"])?,
        races: has_threads.then(|| asked(&["races"], &["races", "violations"])).transpose()?,
        deadlocks: asked(&["deadlocks"], &["deadlocks", "cycles"])?,
    };
    workshop.done()?;
    Ok(row)
}

fn under_valgrind(workload: &Workload, workshop: &Workshop) -> Result<Option<f64>> {
    let dir = workshop.folder("run")?;
    let mut job = (workload.job)(&dir)?;
    job.command = Way::Memcheck.wrap(job.command, &workshop.path)?;
    let (cost, outcome) = timed(job.native()?, &workshop.path)?;
    fs::remove_dir_all(&dir)?;
    Ok(outcome.is_success().then_some(cost.cpu))
}

/// Asks of a log; that something was found is no failure.
fn asked(args: &[&str], kinds: &[&'static str], log: &Path, folder: &Path) -> Result<Said> {
    let mut command = Command::new(binary()?);
    command.args(args).arg("--json").arg(log).stdin(Stdio::null());
    let (cost, outcome) = timed(command, folder)?;
    if !outcome.is_success() && outcome.status != FOUND {
        let said = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        bail!("`bugnet {}`: {}\n{said}", args.join(" "), outcome.status);
    }
    let report: Value = serde_json::from_slice(&fs::read(folder.join("stdout"))?)?;
    let mut found = Vec::new();
    for kind in kinds {
        let all = report[*kind].as_array().with_context(|| format!("no {kind} in the report"))?;
        found.push((*kind, all.len()));
    }
    Ok(Said { found, cpu: cost.cpu, wall: cost.wall, memory: cost.memory })
}

fn table(rows: &[Row]) -> String {
    let ratio = |row: &Row, said: &Said| {
        let is_long = row.native >= SHORTEST;
        if is_long { factor(Some(said.cpu / row.native)) } else { "-".to_owned() }
    };
    let found =
        |said: Option<&Said>, number: usize| said.map_or(String::new(), |said| said.found[number].1.to_string());
    let head = [
        "program",
        "instructions",
        "native s",
        "memory errors",
        "x",
        "valgrind's x",
        "races",
        "violations",
        "x",
        "deadlocks",
        "cycles",
        "x",
    ];
    let mut all = vec![head.map(ToOwned::to_owned).to_vec()];
    for row in rows {
        all.push(vec![
            row.name.clone(),
            count(row.instructions),
            format!("{:.2}", row.native),
            found(Some(&row.memcheck), 0),
            ratio(row, &row.memcheck),
            row.valgrind.map_or(String::new(), |cpu| factor(Some(cpu / row.native))),
            found(row.races.as_ref(), 0),
            found(row.races.as_ref(), 1),
            row.races.as_ref().map_or(String::new(), |races| ratio(row, races)),
            found(Some(&row.deadlocks), 0),
            found(Some(&row.deadlocks), 1),
            ratio(row, &row.deadlocks),
        ]);
    }
    let sum = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).sum::<usize>().to_string();
    let mean = |of: &dyn Fn(&Row) -> Option<f64>| {
        let ratios: Vec<f64> = rows.iter().filter(|row| row.native >= SHORTEST).filter_map(of).collect();
        factor((!ratios.is_empty()).then(|| geometric_mean(&ratios)))
    };
    all.push(vec![
        "all".to_owned(),
        count(rows.iter().map(|row| row.instructions).sum()),
        String::new(),
        sum(&|row| row.memcheck.found[0].1),
        mean(&|row| Some(row.memcheck.cpu / row.native)),
        mean(&|row| Some(row.valgrind? / row.native)),
        sum(&|row| row.races.as_ref().map_or(0, |said| said.found[0].1)),
        sum(&|row| row.races.as_ref().map_or(0, |said| said.found[1].1)),
        mean(&|row| Some(row.races.as_ref()?.cpu / row.native)),
        sum(&|row| row.deadlocks.found[0].1),
        sum(&|row| row.deadlocks.found[1].1),
        mean(&|row| Some(row.deadlocks.cpu / row.native)),
    ]);
    format!(
        "What is found in programs that are not known to be wrong, and what that takes: processor time of all processes of the command against that of the \
         native run, where that is at least {SHORTEST} s; the last line has sums and geometric means.\n\n{}",
        lines(&all, Style::Markdown)
    )
}
