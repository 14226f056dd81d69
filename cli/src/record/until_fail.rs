//! `--until-fail`: runs a program again and again, each run recorded, until one fails.

use super::condition::Verdict;
use super::error::{EXIT_NONE_FAILED, RecordError};
use super::location::LogFolder;
use super::progress::Progress;
use super::run::{Outcome, Recorded, Recorder};
use super::wait::take_interruption;
use super::{End, leftover, make_room};
use crate::failure::complain;
use crate::next::quoted;
use crate::recordings::{Limit, SHARED_ELF, default_folder};
use bugnet_format::folder::Ending;
use nix::sys::signal::Signal;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where the recordings go.
enum Place {
    /// Into a folder that the user has named.
    Named(LogFolder),
    /// To where recordings go.
    Default(PathBuf),
}

impl Place {
    fn find(recorder: &Recorder<'_>) -> Result<Self, RecordError> {
        let default = default_folder(|name| std::env::var_os(name));
        match &recorder.args.output {
            Some(path) => LogFolder::named(path, default).map(Self::Named),
            None => default.map(Self::Default).ok_or(RecordError::NoPlace),
        }
    }

    /// A folder for the next run.
    fn folder(&self, recorder: &Recorder<'_>, run: u64) -> Result<LogFolder, RecordError> {
        match self {
            Self::Default(parent) => LogFolder::dated(parent, recorder.program_name(), SystemTime::now()),
            Self::Named(all) => {
                let default = default_folder(|name| std::env::var_os(name));
                let folder = LogFolder::named(&all.path().join(format!("run-{run}")), default)?;
                Ok(folder.sharing(all.path().join(SHARED_ELF)))
            }
        }
    }
}

/// Why there are no more runs.
enum Stop {
    /// The last one has failed; how, in words.
    Failed(Recorded, String),
    /// There were as many as there were to be.
    NoneFailed,
    /// Somebody wants it to end; with the run that was going on, if there was one.
    Interrupted(Signal, Option<Recorded>),
    /// It could not be recorded.
    NotRecorded(Ending),
}

/// Runs that have been, and those of whose recordings are kept.
struct Runs<'a> {
    recorder: &'a Recorder<'a>,
    place: Place,
    /// The seed of the first run.
    seed: Option<u64>,
    /// How many there were.
    count: u64,
    /// The last ones that did not fail, the latest first.
    passing: VecDeque<LogFolder>,
    progress: Progress,
}

/// Runs and records a program until it fails. `seed`: that of the first run's chaos.
pub fn until_fail(recorder: &Recorder<'_>, seed: Option<u64>, limit: Option<Limit>) -> Result<End, RecordError> {
    let (place, progress) = (Place::find(recorder)?, Progress::new(recorder.args.quiet));
    let mut runs = Runs { recorder, place, seed, count: 0, passing: VecDeque::new(), progress };
    let stop = runs.run();
    runs.name_passing();
    let finished = stop.map(|stop| runs.finish(stop));
    runs.tidy(finished.as_ref().ok().and_then(|(kept, _)| kept.as_ref()), limit);
    finished.map(|(_, end)| end)
}

impl Runs<'_> {
    /// Runs it as often as it takes.
    fn run(&mut self) -> Result<Stop, RecordError> {
        let most = self.recorder.args.runs;
        while most.is_none_or(|most| self.count < most) {
            if let Some(signal) = take_interruption() {
                return Ok(Stop::Interrupted(signal, None));
            }
            self.count += 1;
            let number = self.count;
            let run = match self.recorder.run(|| self.place.folder(self.recorder, number), self.seed())? {
                Outcome::Recorded(run) => run,
                Outcome::NotRecorded(waited) => return Ok(Stop::NotRecorded(waited.ending)),
            };
            if let Place::Named(all) = &mut self.place {
                all.keep(true);
            }
            if let Some(signal) = run.waited.interrupted {
                return Ok(Stop::Interrupted(signal, Some(run)));
            }
            match self.recorder.verdict(&run, number)? {
                Some(Verdict::Failed(how)) => return Ok(Stop::Failed(run, how)),
                Some(Verdict::Neither) => remove(run.folder),
                Some(Verdict::Passed) | None => self.passing.push_front(run.folder),
            }
            while self.passing.len() as u64 > self.recorder.args.passing {
                self.passing.pop_back().into_iter().for_each(remove);
            }
            self.progress.ran(number, most);
        }
        Ok(Stop::NoneFailed)
    }

    /// The seed of the present run.
    fn seed(&self) -> Option<u64> {
        self.seed.map(|first| first.wrapping_add(self.count - 1))
    }

    /// Gives the recordings that did not fail their names in a folder of the user's.
    fn name_passing(&mut self) {
        if let Place::Named(_) = self.place {
            for (at, folder) in self.passing.iter_mut().enumerate() {
                rename(folder, &format!("passing-{}", at + 1));
            }
        }
    }

    /// Says what has come of it. The recording that matters most, and how this process is to end, are the result.
    fn finish(&mut self, stop: Stop) -> (Option<LogFolder>, End) {
        let (count, taken) = (self.count, self.progress.taken());
        let runs = if count == 1 { "run".to_owned() } else { format!("{count} runs") };
        match stop {
            Stop::Failed(mut run, how) => {
                let end = End::of_failure(&run);
                if let Place::Named(_) = self.place {
                    rename(&mut run.folder, "failing");
                }
                self.say(&format!("run {count} has failed, after {taken}: {how}{}", self.chaos()));
                if !self.recorder.args.quiet {
                    run.print();
                    self.advise(run.folder.path());
                }
                (Some(run.folder), end)
            }
            Stop::NoneFailed => {
                self.say(&format!("none of {runs} has failed, in {taken}{}", self.kept()));
                (self.passing.pop_front(), End::Status(EXIT_NONE_FAILED))
            }
            Stop::Interrupted(signal, None) => {
                self.say(&format!(
                    "ended by {signal} after {runs}, of which none has failed, in {taken}{}",
                    self.kept()
                ));
                (self.passing.pop_front(), End::Like(Ending::Killed { signal: signal as i32 }))
            }
            Stop::Interrupted(signal, Some(mut run)) => {
                if let Place::Named(_) = self.place {
                    rename(&mut run.folder, "interrupted");
                }
                self.say(&format!(
                    "ended by {signal} in run {count}, after {taken}; none before has failed{}",
                    self.kept()
                ));
                if !self.recorder.args.quiet {
                    run.print();
                }
                (Some(run.folder), End::Like(Ending::Killed { signal: signal as i32 }))
            }
            Stop::NotRecorded(ending) => (self.passing.pop_front(), End::Like(ending)),
        }
    }

    /// Lets `latest` lead to the recording that matters most, and keeps to the limit of the default folder.
    fn tidy(&self, kept: Option<&LogFolder>, limit: Option<Limit>) {
        if let Place::Named(all) = &self.place {
            // The recordings have names of their own for what is in there.
            let _ = std::fs::remove_dir_all(all.path().join(SHARED_ELF));
        }
        let Some(kept) = kept else { return };
        if let Err(error) = kept.link_latest() {
            complain(&error);
        }
        if let (Some(limit), Some(default)) = (limit, kept.default_folder()) {
            make_room(limit, default, kept.path(), self.recorder.args.quiet);
        }
    }

    /// With which seed the last run was perturbed, in words.
    fn chaos(&self) -> String {
        self.seed().map_or_else(String::new, |seed| format!(" (--chaos={seed})"))
    }

    /// Which recordings are kept, in words.
    fn kept(&self) -> String {
        let paths: Vec<_> = self.passing.iter().map(|folder| folder.path().display().to_string()).collect();
        if paths.is_empty() { String::new() } else { format!("; kept: {}", paths.join(", ")) }
    }

    /// What to do next with a recording of a run that has failed.
    fn advise(&self, failing: &Path) {
        let word = |path: &Path| quoted(&path.display().to_string());
        let good: String = self.passing.iter().map(|folder| format!(" --good {}", word(folder.path()))).collect();
        self.say(&format!("why it has failed: bugnet why {}{good}", word(failing)));
    }

    fn say(&self, message: &str) {
        if !self.recorder.args.quiet {
            complain(&message);
        }
    }
}

/// Gives a recording another name, unless processes still write it under the old one.
fn rename(folder: &mut LogFolder, name: &str) {
    let path = folder.path().to_owned();
    if !leftover::of(&path).is_empty() {
        let path = path.display();
        return complain(&format_args!(
            "{path} keeps its name, as processes that the run has started still write there"
        ));
    }
    if let Err(error) = folder.rename(name) {
        complain(&format_args!("cannot rename {} to {name}: {error}", path.display()));
    }
}

/// Removes a recording, unless processes still write it.
fn remove(mut folder: LogFolder) {
    if leftover::of(folder.path()).is_empty() {
        folder.keep(false);
    } else {
        let path = folder.path().display();
        complain(&format_args!("{path} is kept, as processes that the run has started still write there"));
    }
}
