//! Measures recording and replay: runs each workload natively, under `bugnet record`, and through `bugnet replay` in
//! turn, compares status and output, and prints medians of the ratios to native, log sizes and peak memory.

mod analysing;
mod chaos;
mod checking;
mod growth;
mod machine;
mod measure;
mod paper;
mod spec;
mod table;
mod travel;
mod way;
mod why;
mod workloads;

use anyhow::{Result, ensure};
use clap::Parser;
use growth::Growth;
use machine::Machine;
use measure::{Plan, Row, measure};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use table::{Kind, Style};
use way::Way;
use workloads::{Inputs, workloads};

/// Measures recording and replay
///
/// Every workload is run natively, under plain DynamoRIO, under `bugnet record` and through `bugnet replay` with one job
/// and with two, in turn. Ratios are to native, of medians; CPU is user and system time. SPEC CPU is measured too where
/// SPEC_DIR points at an installation with run folders set up. The bugnet measured is target/release/bugnet, or $BUGNET.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    spec-harness --quick                         small inputs, one run each\n  \
    spec-harness --only gzip --only bzip2        workloads with one of these in their name\n  \
    spec-harness --group single --markdown       a table\n  \
    spec-harness --group long --group parallel --threads 2\n  \
    \x20                                            a build, java, node and cc1; two threads, also merged\n  \
    spec-harness --light --group single --group start --group calls\n    \
    \x20                                            light recording\n  \
    spec-harness --peers                         bugnet beside valgrind, qemu-user and gdb\n  \
    spec-harness --time-travel --quick           how fast one moves through recordings\n  \
    spec-harness --paper figures                 the paper's measurements of bugs\n  \
    spec-harness --chaos figures --quick         runs until programs that rarely fail do\n  \
    spec-harness --analyses figures --quick      how fast analyses are\n  \
    spec-harness --checks figures --quick        what is said of programs without known errors\n  \
    spec-harness --why figures --only memory/    how well `bugnet why` finds faults\n\n\
    Exit status: 0 if every workload was measured, 1 if one could not be")]
struct Cli {
    /// A look in three minutes: small inputs, one run of each unless --runs says otherwise, and the groups programs and
    /// long only if they are asked for. In so short runs the start weighs heavily
    #[arg(long)]
    quick: bool,
    /// Runs of each kind [default: 3]
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Only workloads whose names contain this; with --time-travel, that are named so
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only this list: single, programs, start, calls, long, parallel, sharing or spec
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Numbers of threads that programs with threads are measured with [default: 1,2,4; with --quick 2]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    threads: Vec<u32>,
    /// Interval to record with, as for `bugnet record`
    #[arg(long, value_name = "N")]
    interval: Option<String>,
    /// Instead, measure the group single, with small inputs of its own, beside valgrind, qemu-user and gdb's `record
    /// full`; these are run once
    #[arg(long)]
    peers: bool,
    /// Instead, measure light recording beside full recording: captured, expanded, recorded
    #[arg(long, conflicts_with = "peers")]
    light: bool,
    /// Instead, measure how cost grows with instructions, threads and memory; figures and plots go to this folder
    #[arg(long, value_name = "FOLDER")]
    growth: Option<PathBuf>,
    /// With --growth: with what it grows [default: all of them]
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', requires = "growth")]
    growth_of: Vec<Growth>,
    /// Instead, measure time travel: in recordings of some 10 billion instructions (--quick: 0.3 billion, gzip-long: what 300 MB
    /// take), how long one waits for the debugger, to go somewhere, to step both ways, for the last write of a byte, and what the
    /// index and merged replay cost; and gdb's `record full` beside it (record-full)
    #[arg(long, conflicts_with_all = ["growth", "peers", "group", "threads", "interval", "native_only"])]
    time_travel: bool,
    /// Instead, measure what the paper does of bugs, on small programs with known ones: how far the failure is from the cause, the slices'
    /// parts of that, log and memory; table, figures and plots go to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["growth", "peers", "group", "threads", "interval", "native_only", "time_travel"])]
    paper: Option<PathBuf>,
    /// Instead, measure how many runs programs that rarely fail take until they do: natively, recorded, and recorded with --chaos; --runs says how
    /// often that is tried [default: 5], --limit when it is given up. Table and figures go to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["growth", "peers", "group", "threads", "interval", "native_only", "time_travel", "paper"])]
    chaos: Option<PathBuf>,
    /// Instead, measure how well `bugnet why` finds the fault of programs with a known one: the rank of the faulty line, from the recording alone
    /// and with right runs, beside what valgrind and gdb print. With --quick, without optimised builds. Table and figures go to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["growth", "peers", "group", "threads", "interval", "native_only", "time_travel", "paper", "chaos"])]
    why: Option<PathBuf>,
    /// Instead, measure analyses on recordings of 1 and 10 billion instructions (--quick: 1): what tools that count and look at each access take,
    /// and slices that go back to the start, or end within the last interval. Table and figures go to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["growth", "peers", "group", "threads", "interval", "native_only", "time_travel", "paper", "chaos", "why"])]
    analyses: Option<PathBuf>,
    /// Instead, look for memory errors, races and deadlocks in the workloads, of which none is known to have any: what is found, and what that takes.
    /// Table and figures go to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["growth", "peers", "interval", "native_only", "time_travel", "paper", "chaos", "why", "analyses"])]
    checks: Option<PathBuf>,
    /// With --chaos: runs after which a try is given up [default: 300; with --quick 50]
    #[arg(long, value_name = "N", requires = "chaos")]
    limit: Option<u64>,
    /// Only run natively, to see how long the workloads take
    #[arg(long)]
    native_only: bool,
    /// Say which workloads there are, and stop
    #[arg(long)]
    list: bool,
    /// Write everything that was measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("spec-harness: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures; true if all went well.
fn run(cli: &Cli) -> Result<bool> {
    let runs = cli.runs.unwrap_or(if cli.quick { 1 } else { 3 });
    ensure!(runs > 0, "--runs must be at least 1");
    if let Some(folder) = &cli.growth {
        return Ok(growth::run(folder, &cli.growth_of, cli.quick, runs)? == 0);
    }
    if let Some(folder) = &cli.paper {
        return Ok(paper::run_all(folder, &cli.only)? == 0);
    }
    if let Some(folder) = &cli.chaos {
        let most = cli.limit.unwrap_or(if cli.quick { 50 } else { 300 });
        let plan = chaos::Plan { tries: cli.runs.unwrap_or(if cli.quick { 1 } else { 5 }), most };
        return Ok(chaos::run_all(folder, &cli.only, plan)? == 0);
    }
    if let Some(folder) = &cli.why {
        let optimisations: &[&'static str] = if cli.quick { &["-O0"] } else { &["-O0", "-O2"] };
        return Ok(why::run_all(folder, &cli.only, optimisations)? == 0);
    }
    if let Some(folder) = &cli.analyses {
        return Ok(analysing::run_all(folder, &cli.only, cli.quick, runs)? == 0);
    }
    if cli.time_travel {
        return time_travel(cli, runs);
    }
    let threads: &[u32] = match (&cli.threads[..], cli.quick) {
        ([], true) => &[2],
        ([], false) => &[1, 2, 4],
        (chosen, _) => chosen,
    };
    ensure!(threads.iter().all(|&threads| threads > 0), "--threads must be at least 1");
    let inputs = match (cli.peers, cli.quick) {
        (true, _) => Inputs::Peers,
        (false, true) => Inputs::Quick,
        (false, false) => Inputs::Full,
    };
    let mut chosen = workloads(inputs, threads)?;
    chosen.retain(|w| cli.only.is_empty() || cli.only.iter().any(|name| w.name.contains(name.as_str())));
    // At that size these are little but their start, or take long all the same.
    let all_groups = cli.checks.is_some() || !cli.quick || !cli.group.is_empty() || !cli.only.is_empty();
    chosen.retain(|w| all_groups || !["programs", "long"].contains(&w.group));
    chosen.retain(|w| cli.group.is_empty() || cli.group.iter().any(|group| w.group == group));
    ensure!(!chosen.is_empty(), "no workload has such a name and group; --list shows all");
    if let Some(folder) = &cli.checks {
        chosen.retain(|w| w.group != "start");
        return Ok(checking::run_all(folder, &chosen)? == 0);
    }
    if cli.list {
        let mut out = std::io::stdout().lock();
        for workload in &chosen {
            writeln!(out, "{:<10} {}", workload.group, workload.name)?;
        }
        return Ok(true);
    }
    let ways = match (cli.native_only, cli.peers) {
        (true, _) => vec![Way::Native],
        (false, false) if cli.light => Way::LIGHT.to_vec(),
        (false, false) => Way::OWN.to_vec(),
        (false, true) => {
            let own = Way::OWN.iter().filter(|way| **way != Way::ReplayTwo);
            own.chain(&Way::PEERS).copied().collect()
        }
    };
    let plan = Plan { runs, interval: cli.interval.clone(), ways };
    let mut rows: Vec<Row> = Vec::new();
    let mut failed = 0;
    for (number, workload) in chosen.iter().enumerate() {
        eprintln!("[{}/{}] {} ...", number + 1, chosen.len(), workload.name);
        match measure(workload, &plan) {
            Ok(row) => {
                if cli.native_only {
                    let native = row.costs[&Way::Native];
                    println!("{:<24} {:7.2} s {:9} kB", row.name, native.cpu, native.memory / 1024);
                }
                rows.push(row);
            }
            Err(e) => {
                failed += 1;
                eprintln!("{}: NOT MEASURED: {e:#}", workload.name);
            }
        }
    }
    if let Some(path) = &cli.json {
        std::fs::write(
            path,
            serde_json::to_vec_pretty(&serde_json::json!({ "machine": Machine::here(), "rows": rows }))?,
        )?;
    }
    if !cli.native_only {
        let kind = match (cli.peers, cli.light) {
            (true, _) => Kind::Peers,
            (_, true) => Kind::Light,
            _ => Kind::Own,
        };
        if !cli.markdown {
            println!("\n{}", table::caption(kind));
        }
        print!("{}", table::table(&rows, kind, if cli.markdown { Style::Markdown } else { Style::Text }));
    }
    if failed > 0 {
        eprintln!("{failed} of {} workloads could not be measured", chosen.len());
    }
    Ok(failed == 0)
}

/// Measures time travel; true if all went well.
fn time_travel(cli: &Cli, runs: usize) -> Result<bool> {
    let (chosen, with_peers) = travel::chosen(&cli.only, cli.quick)?;
    let mut out = std::io::stdout().lock();
    if cli.list {
        let names = chosen.iter().map(travel::Workload::name).chain(with_peers.then_some(travel::peer::NAME));
        for name in names {
            writeln!(out, "{name}")?;
        }
        return Ok(true);
    }
    let plan = travel::Plan { is_quick: cli.quick, runs };
    let (mut columns, mut peers, mut failed) = (Vec::new(), None, 0);
    for workload in &chosen {
        eprintln!("{} ...", workload.name());
        match travel::measure(workload, plan) {
            Ok(column) => columns.push(column),
            Err(e) => {
                failed += 1;
                eprintln!("{}: NOT MEASURED: {e:#}", workload.name());
            }
        }
    }
    if with_peers {
        eprintln!("{} ...", travel::peer::NAME);
        match travel::peer::measure(cli.quick) {
            Ok(measured) => peers = Some(measured),
            Err(e) => {
                failed += 1;
                eprintln!("{}: NOT MEASURED: {e:#}", travel::peer::NAME);
            }
        }
    }
    if let Some(path) = &cli.json {
        let figures = serde_json::json!({
            "machine": Machine::here(), "quick": cli.quick, "runs": runs, "positions": plan.positions(), "workloads": columns,
            "peers": peers,
        });
        std::fs::write(path, serde_json::to_vec_pretty(&figures)?)?;
    }
    let style = if cli.markdown { Style::Markdown } else { Style::Text };
    if !columns.is_empty() {
        if !cli.markdown {
            writeln!(out, "\n{}", travel::table::caption(plan.positions()))?;
        }
        write!(out, "{}", travel::table::table(&columns, style))?;
    }
    if let Some(peers) = &peers {
        write!(out, "\n{}", travel::table::peers(peers, style))?;
    }
    failed += columns.iter().map(|column| column.failed).sum::<usize>();
    if failed > 0 {
        eprintln!("{failed} workloads or figures could not be measured");
    }
    Ok(failed == 0)
}
