//! Real programs from Debian: recorded, they behave as natively, and their logs replay with zero divergences to the
//! same output; every other one, at the default interval or at 1 million instructions. With `--include-ignored`, all at both, and at full size, too.

use anyhow::{Context, Result};
use bugnet_tests::bugnet::{Workshop, run, same_behaviour, same_files, verify_log};
use bugnet_tests::programs::{PROGRAMS, Program, Scale};
use bugnet_tests::sample::one_of;
use libtest_mimic::{Failed, Trial};

const INTERVALS: [(&str, &[&str]); 2] = [("default", &[]), ("1M", &["--interval", "1M"])];
const CHECKS: [&str; 2] = ["--check-every", "10k"];

fn run_program(program: &Program, scale: Scale, interval: (&str, &[&str]), test: &str) -> Result<()> {
    let workshop = Workshop::new(test)?;
    let job = program.job(&workshop.folder("native")?, scale)?;
    let native = run(&mut job.native()?)?;
    let recorded = program.job(&workshop.folder("recorded")?, scale)?;
    let log = workshop.path.join("log");
    let options = [program.options, interval.1, &CHECKS].concat();
    let output = run(&mut recorded.recorded(&log, &options)?)?;
    same_behaviour(&native, &output).context("recorded instead of natively run")?;
    same_files(&job.dir, &recorded.dir)?;
    verify_log(&log, &native)?;
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for (scale, suffix) in [(Scale::Small, ""), (Scale::Full, "-full")] {
        for program in PROGRAMS {
            for interval in INTERVALS {
                let name = format!("{}-{}{suffix}", program.name, interval.0);
                let test = format!("program-{name}");
                let body =
                    move || run_program(program, scale, interval, &test).map_err(|e| Failed::from(format!("{e:?}")));
                trials.push(Trial::test(name, body).with_ignored_flag(scale == Scale::Full));
            }
        }
    }
    Ok(one_of(2 * INTERVALS.len(), trials))
}
