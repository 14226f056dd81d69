//! Real programs with threads: recorded, they behave as natively; each thread replays alone with zero divergences, and all
//! of them together in one order that explains every load. With `--include-ignored`, ten runs of each, and all at full size.

use anyhow::{Context, Result};
use bugnet_tests::bugnet::{Workshop, must_pass, run, same_behaviour, same_files, verify_log};
use bugnet_tests::parallel::{PARALLEL, PARALLEL_LONG};
use bugnet_tests::programs::{Program, Scale};
use bugnet_tests::small::run_limited;
use libtest_mimic::{Failed, Trial};
use std::time::Duration;

const OPTIONS: [&str; 4] = ["--interval", "10M", "--check-every", "10k"];

/// How much is done.
#[derive(Clone, Copy)]
struct Effort {
    scale: Scale,
    threads: u32,
    runs: u32,
    /// Whether all threads are replayed together, which takes long.
    merged: bool,
    /// How long a recording may take: one that hangs fails.
    patience: Duration,
}

const SMALL: Effort =
    Effort { scale: Scale::Small, threads: 3, runs: 1, merged: true, patience: Duration::from_secs(300) };
const TEN: Effort = Effort { threads: 4, runs: 10, ..SMALL };
const FULL: Effort =
    Effort { scale: Scale::Full, threads: 2, runs: 1, merged: false, patience: Duration::from_secs(7200) };

fn run_program(program: &Program, effort: Effort, test: &str) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let job = program.job_with_threads(&workshop.folder("native")?, effort.scale, effort.threads)?;
    let native = run(&mut job.native()?)?;
    for number in 0..effort.runs {
        let folder = workshop.folder(&format!("recorded-{number}"))?;
        let recorded = program.job_with_threads(&folder, effort.scale, effort.threads)?;
        let log = workshop.path.join(format!("log-{number}"));
        let output = run_limited(&mut recorded.recorded(&log, &OPTIONS)?, &workshop.path, "recorded", effort.patience)?;
        same_behaviour(&native, &output).context("recorded instead of natively run")?;
        same_files(&job.dir, &recorded.dir)?;
        verify_log(&log, &native)?;
        if effort.merged {
            must_pass(&["replay", "--merged"], &log)?;
        }
        std::fs::remove_dir_all(&log)?;
    }
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for (programs, long) in [(PARALLEL, false), (PARALLEL_LONG, true)] {
        for program in programs {
            for (effort, suffix, ignored) in [(SMALL, "", long), (TEN, "-ten", true), (FULL, "-full", true)] {
                let name = format!("{}{suffix}", program.name);
                let test = format!("parallel-{name}");
                let body = move || run_program(program, effort, &test).map_err(|e| Failed::from(format!("{e:?}")));
                trials.push(Trial::test(name, body).with_ignored_flag(ignored));
            }
        }
    }
    Ok(trials)
}
