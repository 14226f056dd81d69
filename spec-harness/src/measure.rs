//! Running a command and measuring it; running a workload natively, recorded, replayed and by peers in turn.

use crate::way::{Pace, Way};
use crate::workloads::Workload;
use anyhow::{Context, Result, bail, ensure};
use bugnet_tests::bugnet::{Job, Workshop, must_pass};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use wait4::Wait4;

/// What one run of a command cost, its children included.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// User and system time, in seconds.
    pub cpu: f64,
    /// Elapsed time, in seconds.
    pub wall: f64,
    /// Largest resident set of one process, in bytes.
    pub memory: u64,
}

/// What was found out about a log.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LogSize {
    /// Instructions recorded.
    pub instructions: u64,
    /// Bytes of the records before compression.
    pub raw: u64,
    /// Bytes of interval files and code stores, as they are on disk.
    pub compressed: u64,
    /// Bytes of the whole log, copies of ELF files included.
    pub total: u64,
    /// Dependencies among threads that are in the log.
    pub dependencies: u64,
    /// Dependencies among threads that were found, those included that follow from others.
    pub before_reduction: u64,
}

/// A workload, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload.
    pub name: String,
    /// Its list.
    pub group: &'static str,
    /// How often each way was run.
    pub runs: usize,
    /// Medians of each way that was tried and worked.
    pub costs: BTreeMap<Way, Cost>,
    /// Why a peer could not run it.
    pub failed: BTreeMap<Way, String>,
    /// How far gdb came in its time, if it was tried and can record what it met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gdb: Option<Pace>,
    /// The log of the last run.
    pub log: LogSize,
    /// Bytes of the light log of the last run, without copies of mapped files; 0 if there was none.
    pub light: u64,
}

impl Row {
    /// What one way cost relative to another, by `f`; `None` if one of them was not measured or cost nothing.
    pub fn ratio(&self, way: Way, to: Way, f: impl Fn(&Cost) -> f64) -> Option<f64> {
        let [a, b] = [way, to].map(|way| self.costs.get(&way).map(&f).filter(|cost| *cost > 0.0));
        Some(a? / b?)
    }

    /// How many times as long as natively gdb would record, at the pace that it had.
    pub fn gdb_ratio(&self) -> Option<f64> {
        let (pace, native) = (self.gdb?, self.costs.get(&Way::Native)?);
        Some(self.log.instructions as f64 / pace.instructions as f64 * pace.cpu / native.cpu)
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runs of each kind.
    pub runs: usize,
    /// Value of `bugnet record --interval`, if not the default.
    pub interval: Option<String>,
    /// The ways to run each workload, in this order; [`Way::Native`] is the first, and replay comes after recording.
    pub ways: Vec<Way>,
}

/// What a run left behind that must be the same natively and recorded.
#[derive(PartialEq, Eq)]
pub struct Outcome {
    /// How it ended, in words.
    pub status: String,
    output: u64,
}

impl Outcome {
    /// Whether it ended with 0.
    pub fn is_success(&self) -> bool {
        self.status == "exit status: 0"
    }
}

/// Runs a workload in all ways of the plan in turn, `plan.runs` times, and takes the medians.
///
/// # Errors
/// The workload cannot be prepared, behaves otherwise when recorded, or does not replay.
pub fn measure(workload: &Workload, plan: &Plan) -> Result<Row> {
    let workshop = Workshop::new(&format!("bench-{}", workload.name.replace('/', "-")))?;
    let log = workshop.path.join("log");
    let mut costs: BTreeMap<Way, Vec<Cost>> = BTreeMap::new();
    let mut failed = BTreeMap::new();
    let mut size = LogSize::default();
    let mut gdb = None;
    let mut light = 0;
    for round in 0..plan.runs {
        let mut expected = None;
        for way in &plan.ways {
            // What others take is told well enough by one run.
            if Way::PEERS.contains(way) && round > 0 {
                continue;
            }
            if *way == Way::Merged && !workload.has_threads {
                continue;
            }
            let dir = workshop.folder("run")?;
            let mut job = (workload.job)(&dir)?;
            let command = match way {
                Way::Record => recorded(&job, &log, workload, plan, false)?,
                Way::Capture => recorded(&job, &log, workload, plan, true)?,
                Way::Expand | Way::Replay | Way::ReplayTwo | Way::Merged => way.replay(&log)?,
                _ => {
                    job.command = way.wrap(job.command, &workshop.path)?;
                    job.native()?
                }
            };
            let (cost, outcome) = timed(command, &workshop.path)?;
            fs::remove_dir_all(&dir)?;
            let expected = expected.get_or_insert(Outcome { status: outcome.status.clone(), output: outcome.output });
            match way {
                Way::Record | Way::Capture => {
                    ensure!(outcome == *expected, "status or output differ from native ({})", outcome.status)
                }
                Way::Expand | Way::Replay | Way::ReplayTwo | Way::Merged if !outcome.is_success() => {
                    let said = fs::read_to_string(workshop.path.join("stderr")).unwrap_or_default();
                    bail!("{way:?}: {}\n{said}", outcome.status);
                }
                Way::Expand => {
                    light = light_size(&log)?;
                    fs::remove_dir_all(&log)?;
                }
                Way::Native | Way::Replay | Way::ReplayTwo | Way::Merged => {}
                Way::GdbRecord => {
                    let printed = fs::read(workshop.path.join("stdout"))?;
                    let complaints = fs::read(workshop.path.join("stderr"))?;
                    let printed = [complaints, printed].concat();
                    gdb = Pace::of_gdb(&String::from_utf8_lossy(&printed), cost.cpu);
                    if gdb.is_none() {
                        failed.insert(*way, "cannot record it".to_owned());
                    }
                    continue;
                }
                _ if outcome.status != expected.status => {
                    failed.insert(*way, outcome.status);
                    continue;
                }
                // Peers may print more than the program.
                _ => {}
            }
            costs.entry(*way).or_default().push(cost);
        }
        if plan.ways.contains(&Way::Record) {
            size = log_size(&log)?;
            fs::remove_dir_all(&log)?;
        }
    }
    workshop.done()?;
    let costs = costs.into_iter().map(|(way, costs)| (way, median(costs))).collect();
    Ok(Row {
        name: workload.name.clone(),
        group: workload.group,
        runs: plan.runs,
        costs,
        failed,
        gdb,
        log: size,
        light,
    })
}

/// Bytes of light logs.
fn light_size(log: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(log.join("light"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

fn recorded(job: &Job, log: &Path, workload: &Workload, plan: &Plan, is_light: bool) -> Result<Command> {
    let mut options = workload.options.to_vec();
    options.extend(is_light.then_some("--light"));
    if let Some(interval) = &plan.interval {
        options.extend(["--interval", interval]);
    }
    let mut command = job.recorded(log, &options)?;
    // As a user's, recordings share copies of files.
    command.env("BUGNET_DIR", log.parent().unwrap_or(log).join("shared"));
    Ok(command)
}

/// Runs a command with its output in the files `stdout` and `stderr` of `folder`.
///
/// # Errors
/// It cannot be started.
pub fn timed(mut command: Command, folder: &Path) -> Result<(Cost, Outcome)> {
    let [out, err] = ["stdout", "stderr"].map(|name| folder.join(name));
    command.stdout(File::create(&out)?).stderr(File::create(&err)?);
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting {}", command.get_program().display()))?;
    let used = child.wait4().context("waiting for a command")?;
    let wall = start.elapsed().as_secs_f64();
    let cpu = (used.rusage.utime + used.rusage.stime).as_secs_f64();
    let outcome = Outcome { status: used.status.to_string(), output: digest(&out)? };
    Ok((Cost { cpu, wall, memory: used.rusage.maxrss }, outcome))
}

fn digest(path: &Path) -> Result<u64> {
    use std::hash::{DefaultHasher, Hasher};
    let mut file = File::open(path)?;
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hasher.finish());
        }
        hasher.write(&buffer[..n]);
    }
}

/// The median of each number on its own.
fn median(costs: Vec<Cost>) -> Cost {
    let of = |f: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(f).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => 0.0,
            n if n % 2 == 1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        }
    };
    Cost { cpu: of(|c| c.cpu), wall: of(|c| c.wall), memory: of(|c| c.memory as f64) as u64 }
}

/// What `bugnet info` says of a log.
///
/// # Errors
/// It says something else.
pub fn log_size(log: &Path) -> Result<LogSize> {
    let info: serde_json::Value = serde_json::from_slice(&must_pass(&["info", "--json"], log)?.stdout)?;
    let number = |value: &serde_json::Value, what: &str| {
        value.as_u64().with_context(|| format!("`bugnet info --json` does not tell {what}"))
    };
    let sizes = &info["sizes"];
    let threads: serde_json::Value = serde_json::from_slice(&must_pass(&["info", "--threads", "--json"], log)?.stdout)?;
    let sum = |what: &str| -> Result<u64> {
        threads.as_array().into_iter().flatten().map(|thread| number(&thread[what], what)).sum()
    };
    Ok(LogSize {
        instructions: number(&info["instructions"], "instructions")?,
        raw: number(&sizes["records"], "sizes.records")?,
        compressed: number(&sizes["intervals"], "sizes.intervals")? + number(&sizes["code"], "sizes.code")?,
        total: number(&sizes["total"], "sizes.total")?,
        dependencies: sum("dependencies")?,
        before_reduction: sum("before_reduction")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        let cost = |cpu| Cost { cpu, wall: 10.0 - cpu, memory: 7 };
        let three = median(vec![cost(3.0), cost(1.0), cost(2.0)]);
        assert_eq!((three.cpu, three.wall, three.memory), (2.0, 8.0, 7));
        assert_eq!(median(vec![cost(1.0), cost(2.0)]).cpu, 1.5);
        assert_eq!(median(Vec::new()).cpu, 0.0);
    }
}
