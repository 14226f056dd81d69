//! One run of a program, recorded.

use super::condition::{Conditions, Ended, Verdict};
use super::copying::{self, Copying};
use super::error::RecordError;
use super::inherited::Inherited;
use super::judge::Judge;
use super::launch::{self, Execution, LoggerOptions};
use super::location::LogFolder;
use super::native::{Unrecorded, is_log};
use super::packing::Packing;
use super::streams::{Captured, Input, Streams};
use super::wait::{self, Waited};
use super::{leftover, light, low_layout, machine, room, summary, system};
use crate::args::RecordArgs;
use crate::expand::Totals;
use crate::failure::complain;
use crate::recordings::lock::{self, Lock};
use bugnet_format::folder::{Ending, Machine, Meta, Recording};
use bugnet_format::signal;
use bugnet_launch::Program;
use bugnet_replay::symbols::pack_elf_below;
use bugnet_replay::tools::{Tool, Tools};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What all runs of a program have in common.
pub struct Recorder<'a> {
    /// The command line.
    pub args: &'a RecordArgs,
    /// The program.
    pub program: Program,
    /// What is executed in its place, if it is recorded lightly.
    pub capture: Option<PathBuf>,
    /// What this process was started with.
    pub inherited: Inherited,
    /// What counts as a failure, if that is asked.
    pub conditions: Option<Conditions>,
    /// Standard input.
    pub input: Input,
    /// Where the program prints, if not to where this process does.
    pub captured: Option<Captured>,
}

/// A run that was recorded.
pub struct Recorded {
    /// Its log.
    pub folder: LogFolder,
    /// What came of the program.
    pub waited: Waited,
    /// What was captured, if it was recorded lightly.
    pub captured: Option<Totals>,
}

impl Recorded {
    /// Says what was recorded.
    pub fn print(&self) {
        match &self.captured {
            Some(totals) => light::print(self.folder.path(), &self.waited.ending, totals),
            None => summary::print(self.folder.path(), &self.waited.ending),
        }
    }

    /// Says what to do next with it.
    pub fn print_next(&self) {
        let print = if self.captured.is_some() { light::print_next } else { summary::print_next };
        print(self.folder.path(), &self.waited.ending);
    }
}

/// What came of a run.
pub enum Outcome {
    /// It was recorded.
    Recorded(Recorded),
    /// It was not, or the log is gone; a message says so.
    NotRecorded(Waited),
}

/// What it takes to record a program.
struct Prepared {
    packing: Packing,
    writing: Lock,
    execution: Execution,
    logger: PathBuf,
}

impl Recorder<'_> {
    /// The program's name.
    pub fn program_name(&self) -> &OsStr {
        self.program.file.file_name().unwrap_or(self.program.file.as_os_str())
    }

    /// Runs and records the program, in a folder that `make` makes. `chaos`: with which seed its threads are perturbed.
    pub fn run(
        &self,
        make: impl FnOnce() -> Result<LogFolder, RecordError>,
        chaos: Option<u64>,
    ) -> Result<Outcome, RecordError> {
        if let Some(capture) = &self.capture {
            return light::run(self, make()?, capture, chaos);
        }
        let mut meta = self.describe(chaos);
        let streams = self.streams()?;
        let mut folder = match make() {
            Err(error) if error.lacks_room() => return self.run_natively(error.to_string(), None, meta, &streams),
            folder => folder?,
        };
        let recording = match self.prepare(folder.path(), &meta)? {
            Ok(recording) => recording,
            Err(why) => return self.run_natively(why, Some(folder), meta, &streams),
        };
        let child = match launch::launch(&recording.execution, &self.inherited, &streams) {
            Err(RecordError::NoProcess { source }) => {
                let why = format!("there can be no other process (ulimit -u): {source}");
                return self.run_natively(why, Some(folder), meta, &streams);
            }
            child => child?,
        };
        let packing = recording.packing;
        packing.start();
        // From here on the program runs: whatever fails now, its log stays.
        folder.keep(true);
        // With many runs, this is for the one that is wanted in the end.
        let linked = if self.args.until_fail { Ok(()) } else { folder.link_latest() };
        meta.pid = Some(child.as_raw().cast_unsigned());
        // What the system takes its time to tell, while the program starts.
        meta.machine = machine::describe(self.args.cpu);
        // Written anew at the end; without room for that, it is tried all the same.
        let _ = meta.write(folder.path());
        let _ = room::take(folder.path());
        let copying = (!self.args.no_pack).then(|| Copying::start(folder.path(), folder.shared_elf()));
        let waited = self.wait(child)?;
        meta.ending = waited.ending.clone();
        if waited.timed_out {
            leftover::end(folder.path());
        }
        let logger_came = packing.logger_came();
        drop((packing, recording.writing));
        if let Some(captured) = &self.captured {
            captured.print();
        }
        if !logger_came && !summary::anything_recorded(folder.path()) {
            folder.keep(false);
            if let Ending::Killed { signal } = meta.ending {
                let signal = signal::name(signal);
                complain(&format_args!(
                    "nothing was recorded: {signal} has ended the program before its first instruction"
                ));
                self.let_signals_in()?;
                return Ok(Outcome::NotRecorded(waited));
            }
            let ending = summary::describe_ending(&meta.ending);
            return Err(RecordError::NothingRecorded { logger: recording.logger, ending });
        }
        if !is_log(folder.path()) {
            let path = folder.path().display();
            complain(&format_args!("there is no log any more: somebody has taken away {path} while the program ran"));
            self.let_signals_in()?;
            return Ok(Outcome::NotRecorded(waited));
        }
        // Without the list, it is not noticed if a part of the log gets lost.
        meta.contents = Recording::open(folder.path()).and_then(|recording| recording.contents()).ok();
        let finished = meta.write(folder.path());
        // The rest may be interrupted: the log is complete.
        self.let_signals_in()?;
        for error in [linked.err(), finished.err().map(RecordError::from)].into_iter().flatten() {
            complain(&error);
        }
        drop(copying);
        self.pack(&folder);
        Ok(Outcome::Recorded(Recorded { folder, waited, captured: None }))
    }

    /// Whether a run has failed, if that is asked.
    pub fn verdict(&self, run: &Recorded, number: u64) -> Result<Option<Verdict>, RecordError> {
        let Some(conditions) = &self.conditions else { return Ok(None) };
        let (ending, log) = (&run.waited.ending, run.folder.path());
        let ended = Ended { ending, timed_out: run.waited.timed_out, log, number };
        let judge = Judge { captured: self.captured.as_ref(), inherited: Some(&self.inherited) };
        conditions.verdict(&ended, &judge).map(Some).map_err(|why| RecordError::Verdict { why, log: log.to_owned() })
    }

    /// Waits for the program.
    pub fn wait(&self, child: nix::unistd::Pid) -> Result<Waited, RecordError> {
        let limit = self.conditions.as_ref().and_then(Conditions::timeout);
        wait::wait(child, limit).map_err(system("wait for the program"))
    }

    /// What may end this process does so from here on; where there are more runs to come, it is asked for between them.
    pub fn let_signals_in(&self) -> Result<(), RecordError> {
        if self.args.until_fail {
            return Ok(());
        }
        self.inherited.restore_mask().map_err(system("restore the signal mask"))
    }

    /// The standard descriptors of the next run.
    pub fn streams(&self) -> Result<Streams, RecordError> {
        let mut streams = [self.input.rewind().map_err(system("rewind standard input"))?, None, None];
        if let Some(captured) = &self.captured {
            let [output, error] = captured.empty().map_err(system("empty the files of the program's output"))?;
            [streams[1], streams[2]] = [Some(output), Some(error)];
        }
        Ok(streams)
    }

    /// Makes what it takes, with the beginning of a log in this folder; or says in a sentence why there is no room for that.
    fn prepare(&self, log: &Path, meta: &Meta) -> Result<Result<Prepared, String>, RecordError> {
        if let Some(why) = bugnet_launch::obstacle() {
            return Ok(Err(why));
        }
        let (args, program) = (self.args, &self.program);
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
            keep: args.keep.intervals(),
            check_every: args.check_every,
            cpu: args.cpu.name(),
            snapshot: snapshot(args),
            follow: !args.no_follow,
            stack_limit: low_layout::wanted(&program.elf),
            chaos: meta.chaos,
        };
        let execution = Execution::recorded(program, &dynamorio, &logger, &options, self.inherited.limits())?;
        Ok(Ok(Prepared { packing, writing: lock::writing(log), execution, logger }))
    }

    /// Runs the program without recording it, for this reason. The folder has room for a log that says so, if there is one.
    fn run_natively(
        &self,
        why: String,
        mut folder: Option<LogFolder>,
        mut meta: Meta,
        streams: &Streams,
    ) -> Result<Outcome, RecordError> {
        let unrecorded = Unrecorded { program: &self.program, why };
        unrecorded.announce();
        meta.machine = machine::describe(self.args.cpu);
        let execution = Execution::native(unrecorded.program, &self.args.command)?;
        let mut note = |pid: u32, ending| {
            (meta.pid, meta.ending) = (Some(pid), ending);
            if let Some(folder) = &mut folder {
                unrecorded.note(folder.path(), &meta);
                folder.keep(is_log(folder.path()));
            }
        };
        let child = match launch::launch(&execution, &self.inherited, streams) {
            Err(RecordError::NoProcess { .. }) => {
                note(std::process::id(), Ending::Unknown);
                return Err(unrecorded.become_it(&execution, &self.inherited));
            }
            child => child?,
        };
        let waited = self.wait(child)?;
        note(child.as_raw().cast_unsigned(), waited.ending.clone());
        if let Some(captured) = &self.captured {
            captured.print();
        }
        self.let_signals_in()?;
        if let Some(folder) = folder.filter(|folder| is_log(folder.path()))
            && let Err(error) = folder.link_latest()
        {
            complain(&error);
        }
        Ok(Outcome::NotRecorded(waited))
    }

    /// `recording.json` as it is before the program runs, without the machine.
    pub fn describe(&self, chaos: Option<u64>) -> Meta {
        let (args, program) = (self.args, &self.program);
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
            keep: if self.capture.is_some() { args.keep.epochs() } else { args.keep.intervals() },
            check_every: args.check_every,
            cpu_level: args.cpu.name().to_owned(),
            pid: None,
            ending: Ending::Unknown,
            follow: !args.no_follow,
            chaos,
            light: self.capture.is_some(),
            contents: None,
        }
    }

    /// Puts copies of the ELF files that the program had mapped into its log, where they are not there yet.
    fn pack(&self, folder: &LogFolder) {
        if self.args.no_pack {
            return;
        }
        let modules = copying::modules(folder.path());
        let modules = modules.map(|all| all.into_iter().map(|(_, module)| module).collect::<Vec<_>>());
        let shared = folder.shared_elf();
        let packed = modules.and_then(|all| pack_elf_below(Path::new("/"), folder.path(), shared.as_deref(), &all));
        match packed {
            Ok(packed) => {
                for skipped in packed.skipped.iter().filter(|_| !self.args.quiet) {
                    let (path, why) = (&skipped.path, &skipped.why);
                    complain(&format_args!("no copy of {path} in the log, symbols need the original: {why}"));
                }
            }
            Err(error) => {
                complain(&format_args!("the log has no copies of ELF files, symbols need the originals: {error}"));
            }
        }
    }
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
