//! `bugnet record`: finds the program, starts it under DynamoRIO with the logger, and waits for it.

mod condition;
mod copying;
mod error;
mod inherited;
mod judge;
mod kept;
mod launch;
mod leftover;
mod light;
mod limits;
mod location;
mod low_layout;
mod machine;
mod native;
mod packing;
mod progress;
mod ring;
mod room;
mod run;
mod seed;
mod stopping;
mod streams;
mod summary;
mod until_fail;
mod wait;

pub use condition::Condition;
pub use error::{EXIT_FAILED, RecordError};
pub use kept::Kept;
pub use launch::{dynamorio_options_for, percent_encode};
pub use location::LogFolder;
pub use machine::{CpuLevel, describe as describe_machine, lacks_for_light, traps_cpuid};
pub use seed::Seed;
pub use summary::describe_ending;
pub use wait::die_by;

use crate::args::{KeepOn, RecordArgs};
use crate::failure::complain;
use crate::recordings::{Limit, default_folder};
use bugnet_format::folder::Ending;
use bugnet_launch::Program;
use condition::{Conditions, Verdict};
use error::EXIT_TIMED_OUT;
use inherited::Inherited;
use run::{Outcome, Recorded, Recorder};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;
use streams::{Captured, Input};

/// Records a program, once or until it fails. Its exit status is the result; where a signal killed it, this process dies by the same.
pub fn record(args: &RecordArgs) -> Result<ExitCode, RecordError> {
    let judges = args.until_fail || args.keep_on == KeepOn::Fail;
    if !args.fail_if.is_empty() && !judges {
        return Err(RecordError::Usage(
            "--fail-if needs --until-fail or --keep-on fail, which ask whether a run has failed",
        ));
    }
    let limit = Limit::wanted(|name| std::env::var_os(name))?;
    let program = Program::find(&args.command, std::env::var_os("PATH").as_deref())?;
    let conditions = judges.then(|| Conditions::new(&args.fail_if));
    let input =
        if args.until_fail { Input::take(args.quiet).map_err(system("read standard input"))? } else { Input::Any };
    let captures = conditions.as_ref().is_some_and(Conditions::look_at_output);
    let captured = captures.then(Captured::new).transpose().map_err(system("make files for the program's output"))?;
    let inherited = Inherited::replace(&wait::taken_signals()).map_err(system("block signals"))?;
    let capture = if args.light { light::tool(&program)? } else { None };
    if capture.is_none()
        && let Kept::For(_) = args.keep
    {
        if !args.light {
            return Err(RecordError::Usage("--keep takes a time with --light only; otherwise, a number of intervals"));
        }
        complain(&format_args!("of the program, the last {} intervals are kept", args.keep.intervals()));
    }
    let recorder = Recorder { args, program, capture, inherited, conditions, input, captured };
    let seed = args.chaos.map(Seed::first);
    let end =
        if args.until_fail { until_fail::until_fail(&recorder, seed, limit) } else { once(&recorder, seed, limit) };
    // What is temporary goes before a signal ends this process.
    drop(recorder);
    end.and_then(End::follow)
}

/// How this process is to end.
enum End {
    /// As a program did.
    Like(Ending),
    /// With a status of its own.
    Status(u8),
}

impl End {
    /// That of a run that has failed.
    fn of_failure(run: &Recorded) -> Self {
        match &run.waited.ending {
            _ if run.waited.timed_out => Self::Status(EXIT_TIMED_OUT),
            Ending::Exited { status: 0 } => Self::Status(1),
            ending => Self::Like(ending.clone()),
        }
    }

    fn follow(self) -> Result<ExitCode, RecordError> {
        match self {
            Self::Status(status) => Ok(ExitCode::from(status)),
            // An exit status has 8 bits.
            Self::Like(Ending::Exited { status }) => Ok(ExitCode::from(status as u8)),
            Self::Like(Ending::Killed { signal }) => {
                // If the signal does not kill, the status that shells give stands for it.
                let _ = wait::die_by(signal);
                Ok(ExitCode::from(128u8.wrapping_add(signal as u8)))
            }
            Self::Like(Ending::Unknown) => Ok(ExitCode::from(EXIT_FAILED)),
        }
    }
}

/// Records a program once.
fn once(recorder: &Recorder<'_>, seed: Option<u64>, limit: Option<Limit>) -> Result<End, RecordError> {
    let args = recorder.args;
    let mut run = match recorder.run(|| make_folder(recorder), seed)? {
        Outcome::Recorded(run) => run,
        Outcome::NotRecorded(waited) => return Ok(End::Like(waited.ending)),
    };
    let verdict = recorder.verdict(&run, 1)?;
    if verdict.is_none_or(|verdict| matches!(verdict, Verdict::Failed(_))) {
        if !args.quiet {
            run.print();
            run.print_next();
        }
        if let (Some(limit), Some(default)) = (limit, run.folder.default_folder()) {
            make_room(limit, default, run.folder.path(), args.quiet);
        }
    } else if leftover::of(run.folder.path()).is_empty() {
        run.folder.keep(false);
        if !args.quiet {
            complain(&"the program has not failed, and its recording is removed (--keep-on fail)");
        }
    } else if !args.quiet {
        let path = run.folder.path().display();
        complain(&format_args!("the program has not failed, but processes that it has started go on: {path} is kept"));
    }
    Ok(if run.waited.timed_out { End::Status(EXIT_TIMED_OUT) } else { End::Like(run.waited.ending) })
}

/// The folder for the log: the one that the user named, or one named by the time where logs lie.
fn make_folder(recorder: &Recorder<'_>) -> Result<LogFolder, RecordError> {
    let default = default_folder(|name| std::env::var_os(name));
    match &recorder.args.output {
        Some(path) => LogFolder::named(path, default),
        None => LogFolder::dated(&default.ok_or(RecordError::NoPlace)?, recorder.program_name(), SystemTime::now()),
    }
}

/// Removes old recordings, so that the default folder keeps to its limit, and says so.
fn make_room(limit: Limit, default: &Path, newest: &Path, quiet: bool) {
    match limit.keep(default, newest) {
        Ok(trimmed) if !quiet => trimmed.message().iter().for_each(|message| complain(message)),
        Ok(_) => {}
        Err(error) => complain(&format_args!("cannot make room in {}: {error}", default.display())),
    }
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> RecordError {
    move |source| RecordError::System { what, source }
}
