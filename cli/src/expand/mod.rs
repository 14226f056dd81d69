//! `bugnet expand`: makes the log of a program that ran natively, of what was kept of it. Each command that needs the log does so first.
//!
//! Each program that was executed is expanded by itself, with all that it forked: a process of its own, in which DynamoRIO and the logger execute
//! the program's instructions again and the light log answers its calls. As many run at the same time as there are processors.

mod asked;
mod tries;

pub use asked::{Asked, From, has, is_made};

use crate::args::ExpandArgs;
use crate::failure::{EXIT_WRONG, Failure, complain};
use crate::find_log::{find_log, find_log_asked};
use crate::light::{self, Light};
use crate::processes::selected;
use crate::terminal::progress;
use asked::{Made, begins, is_root, made, missing, origin, root, shorten, together};
use bugnet_format::folder::{META_FILE, Module, Recording, process_folder};
use bugnet_format::light::layout::{GROUP_MEMORY, PAGES, SNAPSHOT, TURNS, TURNS_BROKEN, TURNS_SIZE};
use bugnet_format::light::{How, LIGHT_FILES, LIGHT_FOLDER, Parts, is_compressed, part_header, size_of_memory};
use bugnet_format::record::{EndReason, Record};
use bugnet_format::source::Source;
use bugnet_format::types::ProcessId;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::symbols::{Kept, pack_kept_elf};
use bugnet_replay::tools::{Tool, Tools};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Mutex;
use tries::{Choices, Learned};

/// Says of which programs the log of a light one has been made, a line for each.
pub const EXPANDED: &str = "expanded";
/// The folder in which it is made until it is whole.
const UNFINISHED: &str = "unfinished";

/// What was captured.
pub struct Totals {
    /// Processes.
    pub processes: usize,
    /// Bytes of their logs and of the files that they mapped.
    pub bytes: u64,
    /// Those of which the log ends before they did, and why, in the order in which they began.
    pub cut: Vec<(ProcessId, String)>,
}

/// Puts light logs in order whose processes are over: cuts off what they do not use.
pub fn shrink(log: &Path) -> io::Result<Totals> {
    let mut totals = Totals { processes: 0, bytes: 0, cut: Vec::new() };
    for parts in Parts::all(log)? {
        totals.processes += 1;
        let Some(last) = parts.paths.last() else { continue };
        let header = part_header(last)?;
        // A process that goes on has the file mapped; the kernel would end it where it writes behind the end.
        let goes_on = !header.went_on && Path::new("/proc").join(header.process.pid.0.to_string()).exists();
        if !goes_on && !is_compressed(last) {
            OpenOptions::new().write(true).open(last)?.set_len(header.used as u64)?;
        }
        if header.went_on {
            totals.cut.push((header.process, light::why_cut(&parts)?));
        }
        totals.bytes += parts.size()?;
    }
    totals.bytes += light::size_of_files(log)? + size_of_memory(log)?;
    Ok(totals)
}

/// Makes the log of a light one, as far as it is needed and not made yet.
///
/// # Errors
/// The folder is not writable, the tools are missing, or nothing could be expanded.
pub fn ensure(log: &Path, asked: Asked<'_>) -> Result<(), Failure> {
    let light = log.join(LIGHT_FOLDER);
    if !light.is_dir() {
        return Ok(());
    }
    // Nobody else makes it meanwhile.
    let folder = File::open(&light).map_err(system(&light))?;
    folder.lock().map_err(system(&light))?;
    let mut all = Parts::all(log).map_err(system(log))?;
    let made = made(log).map_err(system(&light))?;
    let chosen = match asked {
        Asked::All => None,
        Asked::Some(_) | Asked::One(_) | Asked::End(..) => asked.of(&Light::read(log)?),
    };
    shorten(log, &mut all, chosen.as_deref(), asked).map_err(system(&light))?;
    let roots = missing(log, &all, &made, chosen);
    if roots.is_empty() {
        return Ok(());
    }
    let (roots, empty): (Vec<&Parts>, Vec<&Parts>) = roots.into_iter().partition(|one| light::begins(one));
    for one in &empty {
        complain(&format_args!(
            "process {}: nothing of it was captured: it ended before its program began",
            one.header.process
        ));
    }
    // Of those that have ended, nothing is kept.
    for one in all.iter().filter(|one| one.is_left_out && one.group.is_some() && matches!(asked, Asked::All)) {
        complain(&format_args!(
            "process {}: it did nothing in what is kept of the processes that share its memory, so no log of it is made",
            one.header.process
        ));
    }
    let is_at_hand = |id: ProcessId| {
        [&roots, &empty].into_iter().flatten().any(|one| one.header.process == id)
            || made.iter().any(|made| made.process == id)
    };
    let is_rest = all.iter().all(|one| one.is_left_out || !is_root(log, one) || is_at_hand(one.header.process));
    let expanded = if roots.is_empty() { Vec::new() } else { expand(log, &all, &roots, is_rest)? };
    let new = empty.iter().map(|one| one.header.process).chain(expanded);
    let new: Vec<Made> = new.map(|process| Made { process, from: begins(log, &all, process) }).collect();
    let is_old = |old: &&Made| new.iter().all(|new| new.process != old.process);
    let text: String = made.iter().filter(is_old).chain(&new).map(|made| format!("{made}\n")).collect();
    fs::write(light.join(EXPANDED), text).map_err(system(&light))
}

fn system(path: &Path) -> impl FnOnce(io::Error) -> Failure + '_ {
    move |source| Failure::from(bugnet_format::FormatError::io(path)(source))
}

/// Where the programs are that expand.
struct Expander {
    dynamorio: PathBuf,
    logger: PathBuf,
    capture: PathBuf,
    interval: u64,
}

/// A program that is expanded, with others or alone.
struct Member {
    process: ProcessId,
    /// Its light log, as one file.
    light: PathBuf,
    /// The number of the turn with which it begins, if that is with an epoch.
    turn: Option<u32>,
}

/// A new folder for memory that those share that begin with an epoch, and, if they are several, the file with their turns.
fn share(members: &[Member]) -> io::Result<Option<File>> {
    let [first, others @ ..] = members else { return Ok(None) };
    let name = |member: &Member| {
        let mut name = member.light.as_os_str().to_owned();
        name.push(GROUP_MEMORY);
        PathBuf::from(name)
    };
    let folder = name(first);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder)?;
    if others.is_empty() {
        return Ok(None);
    }
    for other in others {
        let link = name(other);
        let _ = fs::remove_file(&link);
        symlink(folder.file_name().unwrap_or_default(), link)?;
    }
    let turns = File::create_new(folder.join(TURNS))?;
    turns.set_len(TURNS_SIZE as u64)?;
    let goes_on = members.iter().filter_map(|member| member.turn).min().unwrap_or_default();
    turns.write_all_at(&goes_on.to_le_bytes(), 0)?;
    Ok(Some(turns))
}

/// What came of a program's expansion.
struct Expanded {
    /// The folder of its log.
    folder: PathBuf,
    /// What is to be said of it: lines.
    said: Vec<String>,
}

fn line_about(process: ProcessId, line: &str) -> String {
    if line.starts_with("process ") { line.to_owned() } else { format!("process {process}: {line}") }
}

impl Expander {
    /// Expands programs that begin together, with all that they forked, into a folder. Returns lines for people, each with the process that it is about.
    fn once(&self, members: &[Member], folder: &Path) -> Result<Vec<String>, Failure> {
        let turns = share(members).map_err(system(folder))?;
        let outputs: Vec<Result<Output, Failure>> = std::thread::scope(|scope| {
            let turns = turns.as_ref();
            let running: Vec<_> =
                members.iter().map(|member| scope.spawn(move || self.run(member, folder, turns))).collect();
            running.into_iter().filter_map(|one| one.join().ok()).collect()
        });
        let mut said = Vec::new();
        for (member, output) in members.iter().zip(outputs) {
            let output = output?;
            let lines = String::from_utf8_lossy(&output.stderr);
            said.extend(lines.lines().map(|line| line_about(member.process, line.trim_start_matches("bugnet: "))));
        }
        Ok(said)
    }

    /// Expands one of them.
    fn run(&self, member: &Member, folder: &Path, turns: Option<&File>) -> Result<Output, Failure> {
        let light = &member.light;
        let options = format!(
            "-log {} -interval {} -keep 0 -check-every 0 -cpu host -snapshot crashes -snapshot-limit {} -follow 1 -expand {}",
            crate::record::percent_encode(folder),
            self.interval,
            64 << 20,
            crate::record::percent_encode(light)
        );
        let options = crate::record::dynamorio_options_for(&self.logger, &options)?;
        let mut command = Command::new(&self.dynamorio);
        command.arg0("bugnet-capture").arg("--expand").arg(light);
        command.env_clear().env("DYNAMORIO_EXE_PATH", &self.capture).env("DYNAMORIO_RUNUNDER", "1");
        command.env("DYNAMORIO_OPTIONS", options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = command.output();
        if let Some(turns) = turns
            && !folder.join(process_folder(member.process)).exists()
        {
            // It has not begun: others do not wait for it.
            let _ = turns.write_all_at(&[1], TURNS_BROKEN as u64);
        }
        output.map_err(system(&self.dynamorio))
    }

    /// Expands it again where it does not fit, as long as another choice of moments may fit.
    fn expand(&self, log: &Path, members: &[Member], folder: PathBuf) -> Result<Expanded, Failure> {
        let mut choices = Choices::default();
        let mut is_last = false;
        let mut tries = 0;
        loop {
            tries += 1;
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).map_err(system(&folder))?;
            fs::copy(log.join(META_FILE), folder.join(META_FILE)).map_err(system(log))?;
            choices.tell(&folder).map_err(system(&folder))?;
            let mut said = self.once(members, &folder)?;
            let (fits, may_fit) = match choices.learn(&folder).map_err(system(&folder))? {
                Learned::Nothing => (true, false),
                Learned::Tried { again } => (false, again),
            };
            if fits && choices.count() > 0 {
                let line = format!(
                    "{} of the moments at which signals came looked like others: which it was, what came later says ({tries} expansions)",
                    choices.count()
                );
                said.extend(members.first().map(|member| line_about(member.process, &line)));
            }
            if fits || !may_fit && tries == 1 || is_last {
                return Ok(Expanded { folder, said });
            }
            if !may_fit {
                // None fits: the log is that in which nothing was tried.
                (choices, is_last) = (Choices::default(), true);
            }
        }
    }
}

/// Makes the log of these programs, of all that there are; `is_rest`: after that, all are made. Returns those of which it is made.
fn expand(log: &Path, all: &[Parts], roots: &[&Parts], is_rest: bool) -> Result<Vec<ProcessId>, Failure> {
    let tools = Tools::locate()?;
    let [dynamorio, logger, capture] =
        [tools.path(Tool::DynamoRio)?, tools.path(Tool::Logger)?, tools.path(Tool::Capture)?];
    let expander = Expander { dynamorio, logger, capture, interval: Recording::open(log)?.meta.interval };
    let unfinished = log.join(LIGHT_FOLDER).join(UNFINISHED);
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir(&unfinished).map_err(system(&unfinished))?;
    fs::copy(log.join(META_FILE), unfinished.join(META_FILE)).map_err(system(log))?;
    let is_made = |one: &&Parts| roots.iter().any(|own| own.header.process == root(log, all, one.header.process));
    let chosen: Vec<&Parts> = all.iter().filter(is_made).collect();
    let joined = join(log, &unfinished, all, &chosen).map_err(system(&unfinished))?;
    let count = chosen.len();
    let (of, s) = (all.len(), if all.len() == 1 { "" } else { "es" });
    let (what, hint) = match is_rest {
        true => ("its log", ""),
        false => ("the log of what is asked", "; bugnet expand makes all"),
    };
    let number = if count == of { of.to_string() } else { format!("{count} of {of}") };
    let since = match roots {
        [one] => one.beginning(log).ok().flatten().filter(|begun| Some(begun.part) != kept_from(log, one)),
        _ => None,
    };
    let (what, hint) = match since {
        Some(begun) => (
            format!("the log of its end, from {} on,", crate::info::time(begun.began / 1_000_000_000)),
            "; bugnet expand makes all that was kept",
        ),
        None => (what.to_owned(), hint),
    };
    complain(&format_args!("the program ran natively: {what} is made now ({number} process{s}{hint})"));
    let bar = progress("expanding, in processes");
    let mut sets: Vec<Vec<&Parts>> = Vec::new();
    for root in roots {
        let group = together(log, root);
        match sets.iter_mut().find(|set| group.is_some() && together(log, set[0]) == group) {
            Some(set) => set.push(root),
            None => sets.push(vec![root]),
        }
    }
    bar.set_length(roots.len() as u64);
    let next = Mutex::new(sets.iter());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(set) = next.lock().ok().and_then(|mut next| next.next()) else { return };
                    let processes: Vec<ProcessId> = set.iter().map(|root| root.header.process).collect();
                    let folder = unfinished.join(format!("of-{}", processes[0]));
                    let member = |root: &&Parts| Member {
                        process: root.header.process,
                        light: joined.join(file_name(root.header.process)),
                        // What cannot be read is told where it is expanded.
                        turn: root.first_turn(log).ok().flatten(),
                    };
                    let members: Vec<Member> = set.iter().map(member).collect();
                    let expanded = expander.expand(log, &members, folder);
                    bar.inc(set.len() as u64);
                    if let Ok(mut done) = done.lock() {
                        done.push((processes, expanded));
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut made = Vec::new();
    for (processes, expanded) in done.into_inner().unwrap_or_default() {
        let said = match expanded {
            Ok(Expanded { folder, said }) => {
                take(&folder, &unfinished)?;
                made.extend(processes);
                said
            }
            Err(error) => processes.iter().map(|process| line_about(*process, &error.to_string())).collect(),
        };
        for line in said {
            complain(&line.replace(&*joined.to_string_lossy(), &log.join(LIGHT_FOLDER).to_string_lossy()));
        }
    }
    let mut kept = Kept::new();
    for one in chosen {
        // What is wrong with it was said.
        let _ = light::kept_files(log, one, &mut kept);
    }
    finish(log, &unfinished, &kept)?;
    Ok(made)
}

/// From which part on there is all of a log of which this is the end; none where that is where the process began.
fn kept_from(log: &Path, end: &Parts) -> Option<u64> {
    let all = Parts::all(log).ok()?;
    Some(begins(log, &all, end.header.process)).filter(|from| *from > 0)
}

/// The name of a light log that is one file.
fn file_name(ProcessId { pid, program }: ProcessId) -> String {
    format!("p{pid}.{program}")
}

/// Makes a folder of these light logs, each as one file, beside the files that were mapped.
fn join(log: &Path, unfinished: &Path, all: &[Parts], chosen: &[&Parts]) -> io::Result<PathBuf> {
    let joined = unfinished.join("joined");
    let (files, other) = (log.join(LIGHT_FOLDER).join(LIGHT_FILES), joined.join(LIGHT_FILES));
    fs::create_dir_all(&other)?;
    for entry in fs::read_dir(files)? {
        let entry = entry?;
        link(&entry.path(), &other.join(entry.file_name()))?;
    }
    for one in chosen {
        let process = one.header.process;
        if let Err(error) = join_one(log, all, one, &joined.join(file_name(process))) {
            complain(&format_args!("process {process}: its light log cannot be read: {error}"));
        }
    }
    Ok(joined)
}

/// Gives a file a second name, or copies it.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
}

/// Makes one file of a light log; beside it, if it begins at an epoch, the memory there.
fn join_one(log: &Path, all: &[Parts], one: &Parts, to: &Path) -> io::Result<()> {
    let start = origin(all, one.header.process, |one| one.header.how != How::Forked);
    let start = all.iter().find(|other| other.header.process == start).unwrap_or(one);
    one.join(log, start, to)?;
    if let Some(beginning) = one.beginning(log)? {
        for (from, behind) in beginning.memory.iter().zip([SNAPSHOT, PAGES]) {
            let mut name = to.as_os_str().to_owned();
            name.push(behind);
            link(from, Path::new(&name))?;
        }
    }
    Ok(())
}

/// Moves the processes of a log into another one.
fn take(from: &Path, to: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(from).map_err(system(from))? {
        let entry = entry.map_err(system(from))?;
        if entry.file_name().as_encoded_bytes().starts_with(b"p") {
            let to = to.join(entry.file_name());
            let _ = fs::remove_dir_all(&to);
            fs::rename(entry.path(), &to).map_err(system(&to))?;
        }
    }
    Ok(())
}

/// The log that was made takes its place beside the light one.
fn finish(log: &Path, unfinished: &Path, kept: &Kept) -> Result<(), Failure> {
    if Recording::open(unfinished)?.threads()?.is_empty() {
        let why = io::Error::other("nothing of it could be executed again");
        return Err(Failure::system("make the log of the light one")(why));
    }
    take(unfinished, log)?;
    let recording = Recording::open(log)?;
    let modules: Vec<Module> =
        recording.processes()?.into_iter().filter_map(|process| recording.modules(process).ok()).flatten().collect();
    // Symbols come from the files as they were mapped.
    if let Err(error) = pack_kept_elf(kept, log, &modules) {
        complain(&format_args!("the log has no copies of ELF files, and so no symbols: {error}"));
    }
    let mut meta = recording.meta.clone();
    meta.contents = Some(recording.contents()?);
    meta.write(log)?;
    let _ = fs::remove_dir_all(unfinished);
    Ok(())
}

/// What a log says, among others, where a light log is not what its program does.
const DOES_NOT_FIT: &str = "does not fit";

/// `bugnet expand`; the exit status says whether all that was captured fits.
pub fn run(args: &ExpandArgs) -> Result<ExitCode, Failure> {
    // Finding a log expands it.
    let source: Source = match &args.process.process {
        Some(name) => find_log_asked(&args.log, Asked::Some(name))?,
        None => find_log(&args.log)?,
    };
    let log = Log::open_source(source)?;
    if !log.path().join(LIGHT_FOLDER).is_dir() {
        complain(&format_args!("{} was recorded as a whole: there is nothing to expand", log.path().display()));
        return Ok(ExitCode::SUCCESS);
    }
    let selected = selected(&log, &args.process)?;
    let is_selected = |thread: &ThreadId| selected.as_ref().is_none_or(|some| some.contains(&thread.pid));
    let mut status = ExitCode::SUCCESS;
    for thread in log.threads().filter(is_selected) {
        let Some(&interval) = log.intervals(thread)?.last() else { continue };
        let last = log.interval(IntervalId { thread, interval })?;
        if let Some(Record::End { reason: EndReason::Unsupported { why }, .. }) =
            last.records().flatten().map(|placed| placed.record).last()
            && why.contains(DOES_NOT_FIT)
        {
            status = ExitCode::from(EXIT_WRONG);
        }
    }
    Ok(status)
}
