//! `bugnet record`: finds the program, starts it under DynamoRIO with the logger, and waits for it.

mod copying;
mod error;
mod inherited;
mod launch;
mod limits;
mod location;
mod low_layout;
mod machine;
mod native;
mod packing;
mod room;
mod stopping;
mod summary;
mod wait;

pub use error::{EXIT_FAILED, RecordError};
pub use location::LogFolder;
pub use machine::CpuLevel;
pub use summary::{describe_ending, signal_name};
pub use wait::die_by;

use crate::args::RecordArgs;
use crate::failure::complain;
use crate::recordings::lock::{self, Lock};
use crate::recordings::{Limit, default_folder};
use bugnet_format::folder::{Ending, Machine, Meta, Recording};
use bugnet_launch::Program;
use bugnet_replay::symbols::pack_elf_below;
use bugnet_replay::tools::{Tool, Tools};
use copying::Copying;
use inherited::Inherited;
use launch::{Execution, LoggerOptions};
use native::{Unrecorded, is_log};
use packing::Packing;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Records a program. Its exit status is the result; where a signal killed it, this process dies by the same.
pub fn record(args: &RecordArgs) -> Result<ExitCode, RecordError> {
    let limit = Limit::wanted(|name| std::env::var_os(name))?;
    let program = Program::find(&args.command, std::env::var_os("PATH").as_deref())?;
    let inherited = Inherited::replace(&wait::taken_signals()).map_err(system("block signals"))?;
    let mut meta = describe(args, &program);
    let mut folder = match make_folder(args, &program) {
        Err(error) if error.lacks_room() => {
            let unrecorded = Unrecorded { program: &program, why: error.to_string() };
            return run_natively(args, unrecorded, None, meta, &inherited);
        }
        folder => folder?,
    };
    let recording = match prepare(args, &program, folder.path(), &meta, &inherited)? {
        Ok(recording) => recording,
        Err(why) => return run_natively(args, Unrecorded { program: &program, why }, Some(folder), meta, &inherited),
    };
    let child = match launch::launch(&recording.execution, &inherited) {
        Err(RecordError::NoProcess { source }) => {
            let why = format!("there can be no other process (ulimit -u): {source}");
            return run_natively(args, Unrecorded { program: &program, why }, Some(folder), meta, &inherited);
        }
        child => child?,
    };
    let packing = recording.packing;
    packing.start();
    // From here on the program runs: whatever fails now, its log stays.
    folder.keep(true);
    let linked = folder.link_latest();
    meta.pid = Some(child.as_raw().cast_unsigned());
    // What the system takes its time to tell, while the program starts.
    meta.machine = machine::describe(args.cpu);
    // Written anew at the end; without room for that, it is tried all the same.
    let _ = meta.write(folder.path());
    let _ = room::take(folder.path());
    let shared = folder.shared_elf();
    let copying = (!args.no_pack).then(|| Copying::start(folder.path(), shared.clone()));
    meta.ending = wait::wait(child).map_err(system("wait for the program"))?;
    let logger_came = packing.logger_came();
    drop((packing, recording.writing));

    if !logger_came && !summary::anything_recorded(folder.path()) {
        folder.keep(false);
        return Err(RecordError::NothingRecorded {
            logger: recording.logger,
            ending: summary::describe_ending(&meta.ending),
        });
    }
    if !is_log(folder.path()) {
        let path = folder.path().display();
        complain(&format_args!("there is no log any more: somebody has taken away {path} while the program ran"));
        inherited.restore_mask().map_err(system("restore the signal mask"))?;
        return end_like(&meta.ending);
    }
    // Without the list, it is not noticed if a part of the log gets lost.
    meta.contents = Recording::open(folder.path()).and_then(|recording| recording.contents()).ok();
    let finished = meta.write(folder.path());
    // The rest may be interrupted: the log is complete.
    inherited.restore_mask().map_err(system("restore the signal mask"))?;
    for error in [linked.err(), finished.err().map(RecordError::from)].into_iter().flatten() {
        complain(&error);
    }
    drop(copying);
    if !args.no_pack
        && let Err(error) = pack(folder.path(), shared.as_deref(), args.quiet)
    {
        complain(&format_args!("the log has no copies of ELF files, symbols need the originals: {error}"));
    }
    if !args.quiet {
        summary::print(folder.path(), &meta.ending);
    }
    if let (Some(limit), Some(default)) = (limit, folder.default_folder()) {
        make_room(limit, default, folder.path(), args.quiet);
    }
    end_like(&meta.ending)
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

/// What it takes to record a program.
struct Prepared {
    packing: Packing,
    writing: Lock,
    execution: Execution,
    logger: PathBuf,
}

/// Makes it, with the beginning of a log in this folder; or says in a sentence why there is no room for that.
fn prepare(
    args: &RecordArgs,
    program: &Program,
    log: &Path,
    meta: &Meta,
    inherited: &Inherited,
) -> Result<Result<Prepared, String>, RecordError> {
    if let Some(why) = bugnet_launch::obstacle() {
        return Ok(Err(why));
    }
    let tools = Tools::locate()?;
    let (dynamorio, logger) = (tools.path(Tool::DynamoRio)?, tools.path(Tool::Logger)?);
    if let Err(error) = meta.write(log) {
        return Ok(Err(error.to_string()));
    }
    let packing = match Packing::prepare(log) {
        Ok(packing) => packing,
        Err(error) => return Ok(Err(format!("a log in {} cannot be written: {error}", log.display()))),
    };
    let options = LoggerOptions {
        log,
        interval: args.interval,
        keep: args.keep,
        check_every: args.check_every,
        cpu: args.cpu.name(),
        snapshot: snapshot(args),
        follow: !args.no_follow,
        stack_limit: low_layout::wanted(&program.elf),
    };
    let execution = Execution::recorded(program, &dynamorio, &logger, &options, inherited.limits())?;
    Ok(Ok(Prepared { packing, writing: lock::writing(log), execution, logger }))
}

/// When memory is kept at the end of a process, as the logger calls it, and how many bytes at most.
fn snapshot(args: &RecordArgs) -> (&'static str, u64) {
    /// Most bytes where a signal kills a process.
    const OF_CRASH: u64 = 64 << 20;
    match (args.snapshot, args.no_snapshot) {
        (Some(limit), _) => ("all", limit),
        (None, true) => ("none", 0),
        (None, false) => ("crashes", OF_CRASH),
    }
}

/// Runs a program without recording it. The folder has room for a log that says so, if there is one.
fn run_natively(
    args: &RecordArgs,
    unrecorded: Unrecorded,
    mut folder: Option<LogFolder>,
    mut meta: Meta,
    inherited: &Inherited,
) -> Result<ExitCode, RecordError> {
    unrecorded.announce();
    meta.machine = machine::describe(args.cpu);
    let execution = Execution::native(unrecorded.program, &args.command)?;
    let mut note = |pid: u32, ending| {
        (meta.pid, meta.ending) = (Some(pid), ending);
        if let Some(folder) = &mut folder {
            unrecorded.note(folder.path(), &meta);
            folder.keep(is_log(folder.path()));
        }
    };
    let child = match launch::launch(&execution, inherited) {
        Err(RecordError::NoProcess { .. }) => {
            note(std::process::id(), Ending::Unknown);
            return Err(unrecorded.become_it(&execution, inherited));
        }
        child => child?,
    };
    let ending = wait::wait(child).map_err(system("wait for the program"))?;
    note(child.as_raw().cast_unsigned(), ending.clone());
    inherited.restore_mask().map_err(system("restore the signal mask"))?;
    if let Some(folder) = folder.filter(|folder| is_log(folder.path()))
        && let Err(error) = folder.link_latest()
    {
        complain(&error);
    }
    end_like(&ending)
}

/// The folder for the log: the one that the user named, or one named by the time where logs lie.
fn make_folder(args: &RecordArgs, program: &Program) -> Result<LogFolder, RecordError> {
    let default = default_folder(|name| std::env::var_os(name));
    match &args.output {
        Some(path) => LogFolder::named(path, default),
        None => {
            let parent = default.ok_or(RecordError::NoPlace)?;
            LogFolder::dated(&parent, program.file.file_name().unwrap_or(program.file.as_os_str()), SystemTime::now())
        }
    }
}

/// `recording.json` as it is before the program runs, without the machine.
fn describe(args: &RecordArgs, program: &Program) -> Meta {
    let lossy = |text: &OsString| text.to_string_lossy().into_owned();
    let path = |path: &Path| path.to_string_lossy().into_owned();
    Meta {
        format_version: bugnet_format::FORMAT_VERSION,
        bugnet_version: env!("CARGO_PKG_VERSION").to_owned(),
        program: path(&std::path::absolute(&program.file).unwrap_or_else(|_| program.file.clone())),
        args: args.command.iter().map(lossy).collect(),
        cwd: std::env::current_dir().map(|cwd| path(&cwd)).unwrap_or_default(),
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        machine: Machine::default(),
        interval: args.interval,
        keep: args.keep,
        check_every: args.check_every,
        cpu_level: args.cpu.name().to_owned(),
        pid: None,
        ending: Ending::Unknown,
        follow: !args.no_follow,
        contents: None,
    }
}

/// Puts copies of the ELF files that the program had mapped into its log, where they are not there yet.
fn pack(log: &Path, shared: Option<&Path>, quiet: bool) -> bugnet_replay::Result<()> {
    let modules: Vec<_> = copying::modules(log)?.into_iter().map(|(_, module)| module).collect();
    let packed = pack_elf_below(Path::new("/"), log, shared, &modules)?;
    for skipped in packed.skipped.iter().filter(|_| !quiet) {
        complain(&format_args!("no copy of {} in the log, symbols need the original: {}", skipped.path, skipped.why));
    }
    Ok(())
}

/// Ends as the program did.
fn end_like(ending: &Ending) -> Result<ExitCode, RecordError> {
    match ending {
        // An exit status has 8 bits.
        Ending::Exited { status } => Ok(ExitCode::from(*status as u8)),
        Ending::Killed { signal } => {
            // If the signal does not kill, the status that shells give stands for it.
            let _ = wait::die_by(*signal);
            Ok(ExitCode::from(128u8.wrapping_add(*signal as u8)))
        }
        Ending::Unknown => Ok(ExitCode::from(EXIT_FAILED)),
    }
}
