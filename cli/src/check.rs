//! `bugnet check`: whether a log keeps the rules of its format.

use crate::args::CheckArgs;
use crate::failure::{EXIT_INCOMPLETE, EXIT_WRONG, Failure};
use crate::find_log::{find_light, find_log, some};
use crate::processes::selected;
use crate::terminal::output;
use bugnet_format::check::{Report, Severity, check as check_recording, check_light, check_processes};
use bugnet_format::complete::Gaps;
use bugnet_format::folder::Recording;
use bugnet_format::light::LIGHT_FOLDER;
use bugnet_replay::log::Log;
use indicatif::HumanCount;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// What `--json` prints.
#[derive(Serialize)]
struct Json<'a> {
    /// Whether no finding is an error.
    sound: bool,
    /// Whether nothing is missing that was recorded.
    complete: bool,
    #[serde(flatten)]
    report: &'a Report,
}

/// Checks a log and prints what it finds.
pub fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let (path, report) = match find_light(&args.log, some(&args.process))? {
        Some(light) => (light.path().to_owned(), light.check(&args.process)?),
        None => {
            let recording = Recording::open_source(find_log(&args.log)?)?;
            let processes = selected(&Log::open_source(recording.source.clone())?, &args.process)?;
            let mut report = match &processes {
                Some(processes) => check_processes(&recording, processes)?,
                None => check_recording(&recording)?,
            };
            if recording.path.join(LIGHT_FOLDER).is_dir() {
                let is_selected = |id| processes.as_ref().is_none_or(|some| some.contains(&id));
                check_light(&recording.path, &mut report, is_selected)?;
            }
            (recording.path, report)
        }
    };
    let (sound, complete) = (report.is_sound(), report.is_complete());
    let mut out = output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &Json { sound, complete, report: &report })
            .map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        for finding in &report.findings {
            writeln!(out, "{finding}")?;
        }
        if report.unlisted > 0 {
            writeln!(out, "and {} more of the same rules", HumanCount(report.unlisted))?;
        }
        write!(out, "{}", Gaps(&report.gaps))?;
        writeln!(out, "{}: {}", path.display(), verdict(&report))?;
    }
    out.flush()?;
    Ok(match (sound, complete) {
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::from(EXIT_INCOMPLETE),
        (false, _) => ExitCode::from(EXIT_WRONG),
    })
}

fn verdict(report: &Report) -> String {
    let errors = report.of(Severity::Error).count();
    let state = match (errors, report.of(Severity::CutOff).count()) {
        (0, _) if !report.is_complete() => "not complete, sound as far as it goes".to_owned(),
        (0, 0) => "whole".to_owned(),
        (0, _) => "cut off, sound up to there".to_owned(),
        (1, _) => "damaged, 1 rule is broken".to_owned(),
        (errors, _) => format!("damaged, rules are broken in {errors} places"),
    };
    let captured = format!("{} captured records", HumanCount(report.captured));
    let made = format!(
        "{} intervals, {} records, {} instructions",
        HumanCount(report.intervals),
        HumanCount(report.records),
        HumanCount(report.instructions)
    );
    match (report.captured, report.intervals) {
        (0, _) => format!("{state}; {made}"),
        (_, 0) => format!("{state}; {captured}, of which the log is not made yet"),
        _ => format!("{state}; {captured}, {made}"),
    }
}
