//! The speed of time travel: recordings are made, and questions put to them.
//!
//! All is done as people do it: through `bugnet debug` with a gdb that is spoken to by GDB/MI, and through the commands of `bugnet`.
//! The library is used where nothing is measured: it chooses the bytes whose last writes are looked for.

mod gdb;
mod moment;
pub mod peer;
pub mod questions;
mod session;
pub mod table;
mod workloads;

use crate::measure::{log_size, timed};
use crate::way::tools;
use anyhow::{Context, Result, ensure};
use bugnet_replay::index::Index;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Workshop, binary, must_pass};
use questions::{Column, Question};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use workloads::WORKLOADS;
pub use workloads::{Workload, one_and_ten};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Small inputs.
    pub is_quick: bool,
    /// Runs of whole commands, of which medians are taken.
    pub runs: usize,
}

impl Plan {
    /// Random positions to go to: so many, and once more so many.
    #[must_use]
    pub fn positions(self) -> usize {
        if self.is_quick { 20 } else { 100 }
    }

    /// Bytes whose last writes are looked for.
    fn bytes(self) -> usize {
        if self.is_quick { 20 } else { 50 }
    }

    /// When no further position is tried, for a kind of question that begins now: where each takes seconds, fewer have to do.
    fn deadline(self) -> Instant {
        Instant::now() + Duration::from_secs(if self.is_quick { 30 } else { 300 })
    }
}

/// The workloads of these names, or all; and whether gdb's own recorder is to be measured.
///
/// # Errors
/// There is none of such a name.
pub fn chosen(only: &[String], is_quick: bool) -> Result<(Vec<Workload>, bool)> {
    let all = WORKLOADS.into_iter().filter(|workload| !(is_quick && workload.only_full));
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let chosen: Vec<Workload> = all.filter(|workload| is_chosen(workload.name())).collect();
    let peers = is_chosen(peer::NAME);
    ensure!(!chosen.is_empty() || peers, "no workload has such a name; --time-travel --list shows all");
    Ok((chosen, peers))
}

/// Measures a workload.
///
/// # Errors
/// It cannot be prepared or recorded. What fails after that is missing in the column.
pub fn measure(workload: &Workload, plan: Plan) -> Result<Column> {
    let workshop = Workshop::new(&format!("travel-bench-{}", workload.name()))?;
    let column = measure_in(&workshop.path, workload, plan);
    // Recordings are large: nothing is left, whatever was wrong.
    workshop.done()?;
    column
}

fn measure_in(folder: &Path, workload: &Workload, plan: Plan) -> Result<Column> {
    // What takes that long is done once.
    let plan = if workload.only_full { Plan { runs: 1, ..plan } } else { plan };
    let (run, log) = (folder.join("run"), folder.join("log"));
    fs::create_dir(&run)?;
    let job = workload.job(&run, plan.is_quick)?;
    let start = Instant::now();
    let stage = |name: &str| eprintln!("  {:6.1} s: {name}", start.elapsed().as_secs_f64());
    stage("record");
    let (_, outcome) = timed(job.recorded(&log, &[])?, folder)?;
    ensure!(outcome.is_success(), "recorded, it ended with {}", outcome.status);
    fs::remove_dir_all(&run)?;
    let size = log_size(&log)?;
    let opened = Log::open(&log)?;
    let mut column = Column {
        name: workload.name().to_owned(),
        instructions: size.instructions,
        threads: opened.threads().count(),
        log: size.compressed,
        ..Column::default()
    };
    let tools = tools()?;
    // Without an index first.
    ensure!(index_of(&opened)?.is_none(), "the new log has an index");
    stage("prompts");
    let prompt = session::prompt(&log, plan.runs);
    column.set(Question::Prompt, prompt.median());
    column.keep(Question::Prompt, &prompt);
    stage("replay, with and without an index, and merged");
    verifications(&opened, plan, &mut column);
    if index_of(&opened)?.is_none() {
        must_pass(&["replay", "--index"], &log)?;
    }
    column.index = fs::metadata(index_of(&opened)?.context("no index was made")?)?.len();
    stage("prompts with an index");
    let prompt = session::prompt(&log, plan.runs);
    column.set(Question::PromptWithIndex, prompt.median());
    column.keep(Question::PromptWithIndex, &prompt);
    travel(&tools, &opened, plan, &mut column, stage);
    stage("done");
    Ok(column)
}

/// What takes an index.
fn travel(tools: &Tools, log: &Log, plan: Plan, column: &mut Column, stage: impl Fn(&str)) {
    stage("seeks and steps");
    if let Err(error) = session::moves(log.path(), plan, column) {
        let all =
            [Question::Seek, Question::SeekWorst, Question::Step, Question::StepBack, Question::StepBackAfterSeek];
        all.into_iter().for_each(|question| column.set(question, Err(format!("{error:#}"))));
    }
    stage("last writes");
    if let Err(error) = session::last_writes(tools, log, plan, column) {
        let all = [Question::LastWrite, Question::LastWriteWorst];
        all.into_iter().for_each(|question| column.set(question, Err(format!("{error:#}"))));
    }
    stage("back to a breakpoint");
    session::back_to_breakpoint(log.path(), plan.runs, column);
}

/// CPU time of replay with and without an index, and of all threads together, in turn.
fn verifications(log: &Log, plan: Plan, column: &mut Column) {
    const PLAIN: &[&str] = &["replay", "-j", "1"];
    let is_parallel = column.threads > 1;
    let measure = |args: &[&str]| -> Result<f64> {
        let mut costs = Vec::new();
        for _ in 0..plan.runs {
            for args in [PLAIN, args] {
                costs.push(command(args, log)?);
            }
        }
        let [plain, other] = [0, 1].map(|first| {
            let all: Vec<f64> = costs.iter().skip(first).step_by(2).copied().collect();
            questions::median(&all).unwrap_or_default()
        });
        ensure!(plain > 0.0, "replay took no time");
        Ok(other / plain)
    };
    let why = |error: anyhow::Error| format!("{error:#}");
    let index = measure(&["replay", "-j", "1", "--index"]);
    column.set(Question::IndexPass, index.map(|ratio| ratio - 1.0).map_err(why));
    if is_parallel {
        column.set(Question::Merged, measure(&["replay", "--merged"]).map_err(why));
    } else {
        column.omit(Question::Merged, "it has one thread".to_owned());
    }
}

/// Runs a command on a log that has no index, which must succeed, and returns its CPU time.
fn command(args: &[&str], log: &Log) -> Result<f64> {
    if let Some(index) = index_of(log)? {
        fs::remove_file(&index).with_context(|| format!("removing {}", index.display()))?;
    }
    let mut command = Command::new(binary()?);
    command.args(args).arg(log.path()).stdin(Stdio::null());
    let folder = log.path().parent().context("the log is nowhere")?;
    let (cost, outcome) = timed(command, folder)?;
    if !outcome.is_success() {
        let said = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        anyhow::bail!("`bugnet {}`: {}\n{said}", args.join(" "), outcome.status);
    }
    let made = index_of(log)?.is_some();
    ensure!(made == args.contains(&"--index"), "`bugnet {}`: an index was made: {made}", args.join(" "));
    Ok(cost.cpu)
}

/// The index of a log's program, if there is one.
fn index_of(log: &Log) -> Result<Option<PathBuf>> {
    let pid = log.last_of_first_process()?.context("the log has no process")?;
    Ok(Index::find(log, pid)?.map(|index| index.path().to_owned()))
}
