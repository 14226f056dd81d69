//! The speed of analyses: of tools that look at all that was executed, and of slices, on recordings of 1 and 10 billion instructions.

use crate::machine::Machine;
use crate::measure::{Cost, log_size, timed};
use crate::table::{Style, count, lines, size};
use crate::travel::{Workload, one_and_ten};
use crate::way::tools;
use anyhow::{Context, Result, bail, ensure};
use bugnet_events::code::Blocks;
use bugnet_events::stream::{Analysis, run};
use bugnet_format::frame::Interval;
use bugnet_format::record::Record;
use bugnet_format::regs::RSP;
use bugnet_replay::log::{IntervalId, Log, Selection};
use bugnet_replay::tools::Tools;
use bugnet_replay::trace::Chunk;
use bugnet_tests::bugnet::{Workshop, binary};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a command or a tool took. Medians, each number on its own.
#[derive(Clone, Copy, Debug, Serialize)]
struct Taken {
    wall: f64,
    cpu: f64,
    memory: u64,
}

/// What a slice took, and what it went through.
#[derive(Clone, Copy, Debug, Serialize)]
struct Slice {
    taken: Taken,
    /// Instructions through which the search went.
    walked: u64,
    /// How many of these are in the slice.
    executed: u64,
}

/// What was measured on a recording.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    instructions: u64,
    /// A tool that counts what was executed; processor time of one job.
    counting: f64,
    /// One that looks at each access.
    accesses: f64,
    /// `bugnet stats`, with two jobs.
    stats: Taken,
    /// The value of a byte that nothing writes: through all, with nothing in the slice.
    nothing: Slice,
    /// One of the last bytes of the output.
    output: Slice,
    /// The number of the last system call, which is set just before.
    last: Slice,
}

/// Measures all workloads, and writes table and figures to a folder; how many could not be measured.
pub fn run_all(folder: &Path, only: &[String], is_quick: bool, runs: usize) -> Result<usize> {
    fs::create_dir_all(folder)?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for (is_small, runs) in [(true, runs), (false, 1)].into_iter().take(if is_quick { 1 } else { 2 }) {
        for workload in one_and_ten() {
            let name = workload.name();
            if !only.is_empty() && !only.iter().any(|part| name.contains(part.as_str())) {
                continue;
            }
            eprintln!("{name}, {} billion instructions ...", if is_small { 1 } else { 10 });
            match measure(&workload, is_small, runs) {
                Ok(row) => rows.push(row),
                Err(e) => {
                    failed += 1;
                    eprintln!("{name}: NOT MEASURED: {e:#}");
                }
            }
            fs::write(folder.join("analyses.md"), table(&rows))?;
            let figures = serde_json::json!({ "machine": Machine::here(), "workloads": rows });
            fs::write(folder.join("analyses.json"), serde_json::to_vec_pretty(&figures)?)?;
        }
    }
    ensure!(!rows.is_empty(), "nothing was measured");
    print!("{}", table(&rows));
    Ok(failed)
}

fn measure(workload: &Workload, is_small: bool, runs: usize) -> Result<Row> {
    let workshop = Workshop::new(&format!("analyses-{}", workload.name()))?;
    let row = measure_in(&workshop.path, workload, is_small, runs);
    workshop.done()?;
    row
}

fn measure_in(folder: &Path, workload: &Workload, is_small: bool, runs: usize) -> Result<Row> {
    let (dir, path) = (folder.join("run"), folder.join("log"));
    fs::create_dir(&dir)?;
    let job = workload.job(&dir, is_small)?;
    let (_, outcome) = timed(job.recorded(&path, &[])?, folder)?;
    ensure!(outcome.is_success(), "recorded, it ended with {}", outcome.status);
    let output = fs::metadata(folder.join("stdout"))?.len();
    fs::remove_dir_all(&dir)?;
    let (log, tools) = (Log::open(&path)?, tools()?);
    let pid = log.last_of_first_process()?.context("the log has no process")?;
    let thread = log.threads().find(|thread| thread.pid == pid).context("the log has no thread")?;
    let all = log.intervals(thread)?.to_vec();
    let (first, last) = (all[0], all[all.len() - 1]);
    let interval = log.interval(IntervalId { thread, interval: first })?;
    let stack = interval.records().flatten().find_map(|placed| match placed.record {
        Record::Checkpoint { regs, .. } => Some(regs.gpr[RSP]),
        _ => None,
    });
    let stack = stack.context("no checkpoint")?;
    let (end, _) = log.interval(IntervalId { thread, interval: last })?.end().context("the recording has no end")?;
    let end = format!("{}/{last}/{end}", thread.tid);
    let byte = output.checked_sub(6).context("the program prints nothing")?.to_string();
    let byte_of_stack = format!("{stack:#x}:1");
    let slice = |args: &[&str]| sliced(&[&["slice", "--json"], args].concat(), &path, folder, runs);
    Ok(Row {
        name: workload.name(),
        instructions: log_size(&path)?.instructions,
        counting: looked_at(&tools, &log, runs, &mut Counting::default())?,
        accesses: looked_at(&tools, &log, runs, &mut Accesses::default())?,
        stats: repeated(&["stats"], &path, folder, runs)?,
        nothing: slice(&["--at", &end, "--mem", &byte_of_stack])?,
        output: slice(&["--output", &byte])?,
        last: slice(&["--at", &end, "--reg", "rax"])?,
    })
}

fn sliced(args: &[&str], log: &Path, folder: &Path, runs: usize) -> Result<Slice> {
    let taken = repeated(args, log, folder, runs)?;
    let report: Value = serde_json::from_slice(&fs::read(folder.join("stdout"))?)?;
    let number = |name: &str| report["counts"][name].as_u64().with_context(|| format!("no {name} in the report"));
    Ok(Slice { taken, walked: number("walked")?, executed: number("executed")? })
}

fn repeated(args: &[&str], log: &Path, folder: &Path, runs: usize) -> Result<Taken> {
    let mut costs = Vec::new();
    for _ in 0..runs {
        let mut command = Command::new(binary()?);
        command.args(args).arg(log).stdin(Stdio::null());
        let (cost, outcome) = timed(command, folder)?;
        if !outcome.is_success() {
            let said = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
            bail!("`bugnet {}`: {}\n{said}", args.join(" "), outcome.status);
        }
        costs.push(cost);
    }
    let of = |f: fn(&Cost) -> f64| median(costs.iter().map(f).collect());
    Ok(Taken { wall: of(|c| c.wall), cpu: of(|c| c.cpu), memory: of(|c| c.memory as f64) as u64 })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Processor time of this process and of its children, which are those that replay.
fn used() -> Result<f64> {
    let mut sum = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        sum += (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6;
    }
    Ok(sum)
}

/// Seconds of processor time that a tool takes for the whole log, its replay included.
fn looked_at<A: Analysis + Told>(tools: &Tools, log: &Log, runs: usize, analysis: &mut A) -> Result<f64> {
    let intervals = Selection::default().intervals_of(log)?;
    let mut all = Vec::new();
    for _ in 0..runs {
        let before = used()?;
        run(tools, log, &intervals, NonZeroUsize::MIN, analysis, |_| {})?;
        all.push(used()? - before);
    }
    ensure!(analysis.told() > 0, "nothing was executed");
    Ok(median(all))
}

/// Something that has found a number.
trait Told {
    fn told(&self) -> u64;
}

/// Counts instructions, by blocks.
#[derive(Default)]
struct Counting(u64);

impl Told for Counting {
    fn told(&self) -> u64 {
        self.0
    }
}

impl Analysis for Counting {
    type Part = u64;

    fn begin(&self, _id: IntervalId, _interval: &Interval) -> u64 {
        0
    }

    fn chunk(&self, part: &mut u64, chunk: &Chunk<'_>, blocks: &Blocks) {
        *part += chunk.runs.iter().map(|run| blocks.get(run.block).instructions.len() as u64).sum::<u64>();
    }

    fn join(&mut self, _id: IntervalId, part: u64) {
        self.0 += part;
    }
}

/// Looks at the address of each access, and counts the bytes.
#[derive(Default)]
struct Accesses(u64);

impl Told for Accesses {
    fn told(&self) -> u64 {
        self.0
    }
}

impl Analysis for Accesses {
    type Part = (u64, u64);

    fn begin(&self, _id: IntervalId, _interval: &Interval) -> (u64, u64) {
        (0, 0)
    }

    fn chunk(&self, (bytes, mixed): &mut (u64, u64), chunk: &Chunk<'_>, blocks: &Blocks) {
        for run in chunk.runs {
            for (addr, len) in blocks.accessed(chunk, *run) {
                *bytes += u64::from(len);
                *mixed ^= addr;
            }
        }
        for odd in &chunk.odd {
            *bytes += odd.len;
            *mixed ^= odd.addr;
        }
    }

    fn join(&mut self, _id: IntervalId, (bytes, mixed): (u64, u64)) {
        self.0 += bytes | (mixed & 1);
    }
}

fn rate(instructions: u64, seconds: f64) -> String {
    if seconds > 0.0 { format!("{}/s", count((instructions as f64 / seconds) as u64)) } else { "-".to_owned() }
}

fn table(rows: &[Row]) -> String {
    let line = |name: &str, goal: &str, cell: &dyn Fn(&Row) -> String| -> Vec<String> {
        [name.to_owned(), goal.to_owned()].into_iter().chain(rows.iter().map(cell)).collect()
    };
    let slice = |name: &str, of: fn(&Row) -> &Slice| {
        [
            line(name, "", &|row| format!("{:.1} s", of(row).taken.wall)),
            line("  instructions gone through", "", &|row| count(of(row).walked)),
            line("  by wall time", "100 M/s", &|row| rate(of(row).walked, of(row).taken.wall)),
            line("  executions in the slice", "", &|row| count(of(row).executed)),
            line("  memory", "2 GB", &|row| size(of(row).taken.memory as f64)),
        ]
    };
    let mut all = vec![
        line("", "goal", &|row| row.name.to_owned()),
        line("instructions", "", &|row| count(row.instructions)),
        line("a tool that counts, a core", "1.0 G/s", &|row| rate(row.instructions, row.counting)),
        line("one that looks at each access, a core", "300 M/s", &|row| rate(row.instructions, row.accesses)),
        line("`bugnet stats`, two jobs", "", &|row| rate(row.instructions, row.stats.wall)),
    ];
    all.extend(slice("slice of a byte that nothing writes", |row| &row.nothing));
    all.extend(slice("slice of one of the last bytes of the output", |row| &row.output));
    all.extend(slice("slice that ends within the last interval", |row| &row.last));
    format!(
        "Analyses of recordings of some 1 and 10 billion instructions, replay included. A core: by processor time of one job; slices: by wall time \
         on all cores, largest process. Medians.\n\n{}",
        lines(&all, Style::Markdown)
    )
}
