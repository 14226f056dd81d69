//! `bugnet record --light`: the program runs natively, and a program in its own process keeps what comes to it from outside. The log is made of that
//! afterwards ([`crate::expand`]).

use super::error::RecordError;
use super::launch::{self, Execution};
use super::location::LogFolder;
use super::ring::Keeping;
use super::run::{Outcome, Recorded, Recorder};
use super::{leftover, machine, summary, system};
use crate::expand::{self, Totals};
use crate::failure::complain;
use crate::recordings::{CAPTURED_FILES, CAPTURED_PLACES, make_default};
use bugnet_format::folder::Ending;
use bugnet_format::light::{LIGHT_FILES, LIGHT_FOLDER, layout};
use bugnet_format::types::ProcessId;
use bugnet_launch::{Program, sanitizer};
use bugnet_replay::tools::{Tool, Tools};
use indicatif::HumanBytes;
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What may be done with the folders of a light log: all, by their owner.
const PRIVATE: u32 = 0o700;
const ALL: u32 = 0o777;

/// The program that is executed in the place of one that is recorded lightly; none where that is not possible here: a sentence says why.
pub fn tool(program: &Program) -> Result<Option<PathBuf>, RecordError> {
    let capture = Tools::locate()?.path(Tool::Capture)?;
    let is_long = program.elf.as_os_str().len() > 4000 || capture.as_os_str().len() > 1000;
    let sanitizer = sanitizer(&program.elf);
    let wants = sanitizer.map(|name| format!("{name} wants memory to lie where this would not put it"));
    let obstacle = if is_long { Some("a path is too long") } else { wants.as_deref().or(machine::lacks_for_light()) };
    if let Some(why) = obstacle {
        complain(&format_args!("light recording is not possible here, so all is recorded: {why}"));
    }
    Ok(Some(capture).filter(|_| obstacle.is_none()))
}

/// Makes the folder of what light logs share: a link to the one that all have, if that is the user's own, or can be made; or one for this log alone.
fn share(shared: &Path, all: Option<&Path>) -> io::Result<()> {
    let folders = |shared: &Path| {
        let make = |folder: &Path| match DirBuilder::new().mode(PRIVATE).create(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        };
        make(shared)
            .and_then(|()| [CAPTURED_FILES, CAPTURED_PLACES].iter().try_for_each(|name| make(&shared.join(name))))
    };
    let is_own =
        |all: &Path| all.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw());
    let can_be =
        |all: &&Path| all.parent().is_some_and(|default| make_default(default).is_ok()) && folders(all).is_ok();
    match all.filter(can_be).filter(|all| is_own(all)) {
        Some(all) => symlink(all, shared),
        None => folders(shared),
    }
}

/// Runs a program natively and keeps what comes to it from outside.
pub fn run(
    recorder: &Recorder<'_>,
    mut folder: LogFolder,
    capture: &Path,
    chaos: Option<u64>,
) -> Result<Outcome, RecordError> {
    let args = recorder.args;
    let mut meta = recorder.describe(chaos);
    meta.write(folder.path())?;
    let light = folder.path().join(LIGHT_FOLDER);
    for folder in [light.clone(), light.join(LIGHT_FILES)] {
        DirBuilder::new().mode(PRIVATE).create(&folder).map_err(system("make the folder of the light log"))?;
        if geteuid().is_root() {
            // For programs that become other users, and have the folder open. Nobody else comes there, since the log's folder is the user's alone.
            fs::set_permissions(&folder, Permissions::from_mode(ALL))
                .map_err(system("open the folder of the light log"))?;
        }
    }
    let shared = light.join(layout::SHARED);
    share(&shared, folder.shared_captured().as_deref()).map_err(system("make the folder of what light logs share"))?;
    let keeping = Keeping::start(folder.path(), args.keep).map_err(system("make the clock of epochs"))?;
    let execution = Execution::captured(&recorder.program, capture, folder.path(), args.cpu, chaos)?;
    let child = launch::launch(&execution, &recorder.inherited, &recorder.streams()?)?;
    folder.keep(true);
    let linked = if args.until_fail { Ok(()) } else { folder.link_latest() };
    meta.pid = Some(child.as_raw().cast_unsigned());
    meta.machine = machine::describe(args.cpu);
    let _ = meta.write(folder.path());
    let waited = recorder.wait(child)?;
    meta.ending = waited.ending.clone();
    if waited.timed_out {
        leftover::end(folder.path());
    }
    drop(keeping);
    let finished = meta.write(folder.path());
    recorder.let_signals_in()?;
    for error in [linked.err(), finished.err().map(RecordError::from)].into_iter().flatten() {
        complain(&error);
    }
    if let Some(captured) = &recorder.captured {
        captured.print();
    }
    // Processes that go on find out again what they need of it. What it links to stays.
    let _ = std::fs::remove_dir_all(&shared);
    let totals = expand::shrink(folder.path()).map_err(system("put the light log in order"))?;
    if totals.processes == 0 {
        folder.keep(false);
        let ending = summary::describe_ending(&meta.ending);
        return Err(RecordError::NothingRecorded { logger: capture.to_owned(), ending });
    }
    tell_cut(&totals.cut);
    Ok(Outcome::Recorded(Recorded { folder, waited, captured: Some(totals) }))
}

/// Says what was captured.
pub fn print(log: &Path, ending: &Ending, totals: &Totals) {
    let (processes, bytes) = (totals.processes, HumanBytes(totals.bytes));
    let (s, ended) = (if processes == 1 { "" } else { "es" }, summary::describe_ending(ending));
    complain(&format_args!("captured {processes} process{s}, {bytes}, {ended}: {}", log.display()));
}

/// Says what to do next with a log of a program that did not end well.
pub fn print_next(log: &Path, ending: &Ending) {
    if !matches!(ending, Ending::Exited { status: 0 }) {
        complain(&format_args!("next: bugnet why {}  (the log is made of what was captured first)", log.display()));
    }
}

/// Says of which processes the log ends before they did: what was said in that moment may have gone by (a screen that was drawn over, output that nobody read).
fn tell_cut(cut: &[(ProcessId, String)]) {
    const MOST: usize = 3;
    for (number, (process, why)) in cut.iter().take(MOST).enumerate() {
        let hint = if number == 0 { " (bugnet info says more)" } else { "" };
        complain(&format_args!("the log of process {process} ends before it did: {why}{hint}"));
    }
    if let Some(others) = cut.len().checked_sub(MOST).filter(|others| *others > 0) {
        complain(&format_args!("so do the logs of {others} others, which bugnet ps lists"));
    }
}
