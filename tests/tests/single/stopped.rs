//! Work that is over before its end tells what is known by then: where somebody interrupts it after so many instructions, and where Ctrl-C comes to a command.

use anyhow::{Context, Error, Result, ensure};
use bugnet_analyses::races;
use bugnet_analyses::runs::both::{Both, Which};
use bugnet_analyses::slice::{Detail, Ended, Options, Outside, Question, Report, ask, report, slice};
use bugnet_analyses::stats::{self, Stats};
use bugnet_analyses::{diff, races::Shown};
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::{Log, Selection};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::work::{Over, Watch, Work};
use bugnet_tests::bugnet::{Job, Workshop, binary, printed, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Two threads write to the same variable, and then one of them goes on for long; an argument decides which way.
const PROGRAM: &str = r#"#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int first;
static volatile unsigned long sum;

static void *other(void *arg)
{
    first = 2; /* RACE */
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    first = 1; /* RACE */
    pthread_join(thread, NULL);
    if (argc > 2) /* PARTS */
        sum = 7;
    for (int i = 0; i < 300000; i++)
        sum += i;
    return atoi(argv[1]);
}
"#;

/// Interrupts the work after so many instructions of all that is done.
#[derive(Debug)]
struct Interrupts {
    work: Work,
    after: u64,
    before: AtomicU64,
    last: AtomicU64,
}

impl Watch for Interrupts {
    fn begins(&self, _: &str, _: u64) {
        self.before.fetch_add(self.last.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    fn did(&self, done: u64) {
        self.last.store(done, Ordering::Relaxed);
        if self.before.load(Ordering::Relaxed) + done >= self.after {
            self.work.interrupt();
        }
    }

    fn ends(&self) {}
}

fn tools_until(after: u64) -> Result<Tools> {
    let tools = Tools::locate_for(&binary()?, None)?;
    let (before, last) = (AtomicU64::new(0), AtomicU64::new(0));
    tools.work.watch_by(Interrupts { work: tools.work.clone(), after, before, last });
    Ok(tools)
}

/// Recordings of the program with these arguments each.
fn recorded<const N: usize>(workshop: &Workshop, arguments: [&[&str]; N]) -> Result<[PathBuf; N]> {
    let (source, program) = (workshop.path.join("program.c"), workshop.path.join("program"));
    std::fs::write(&source, PROGRAM)?;
    let built = run(Command::new("gcc").args(["-g", "-O0", "-pthread", "-o"]).arg(&program).arg(&source))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let program = program.to_string_lossy();
    let mut logs = Vec::new();
    for (number, arguments) in arguments.iter().enumerate() {
        let log = workshop.path.join(format!("log{number}"));
        let command = std::iter::once(&*program).chain(arguments.iter().copied());
        run(&mut Job::new(&workshop.path, command).recorded(&log, &["--interval", "100k"])?)?;
        logs.push(log);
    }
    logs.try_into().ok().context("as many logs as arguments")
}

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// How many instructions all threads executed.
fn instructions(log: &Path) -> Result<u64> {
    let log = Log::open(log)?;
    let tools = Tools::locate_for(&binary()?, None)?;
    Ok(Cursor::open(&tools, &log, log.threads().next().context("no thread")?.pid)?.end())
}

#[test]
fn races_that_are_known() -> Result<()> {
    let workshop = Workshop::new("stopped-races")?;
    let [log] = recorded(&workshop, [&["0"]])?;
    let all = instructions(&log)?;
    let log = Log::open(&log)?;
    let pid = log.threads().next().context("no thread")?.pid;
    let look = |tools: &Tools| -> Result<races::Report> {
        let mut cursor = Cursor::open(tools, &log, pid)?;
        let options = races::Options { top: 10, jobs: ONE, follow: true, segments: false };
        Ok(races::races((tools, &log), &mut cursor, options, |_, _| {})?)
    };
    let whole = look(&Tools::locate_for(&binary()?, None)?)?;
    ensure!(whole.over.is_none() && !whole.races.is_empty(), "{}", Shown(&whole));
    // In the first look, nothing is known.
    let early = look(&tools_until(all / 2)?)?;
    ensure!(early.over == Some(Over::Interrupted) && early.races.is_empty(), "{}", Shown(&early));
    let said = Shown(&early).to_string();
    ensure!(said.contains("interrupted") && said.contains("whether there are races is not known"), "{said}");
    // Behind it, one goes through all from the start, where the race is.
    let late = look(&tools_until(all + all / 2)?)?;
    ensure!(late.over == Some(Over::Interrupted) && late.looked.instructions < all, "{}", Shown(&late));
    ensure!(late.races.len() == whole.races.len(), "{}\n{}", Shown(&late), Shown(&whole));
    let said = Shown(&late).to_string();
    ensure!(said.contains("in the first ") && said.contains("was not looked at"), "{said}");
    workshop.done()
}

#[test]
fn what_is_known_of_two_runs() -> Result<()> {
    let workshop = Workshop::new("stopped-diff")?;
    let logs = recorded(&workshop, [&["0"], &["0", "more"]])?;
    let all = instructions(&logs[0])? + instructions(&logs[1])?;
    let [good, bad] = [Log::open(&logs[0])?, Log::open(&logs[1])?];
    let pid = bad.threads().next().context("no thread")?.pid;
    let which = Which { logs: [&good, &bad], bad: pid, own: &[], any_build: false, until: None };
    let compared = |after: u64| -> Result<diff::Diff> {
        let tools = tools_until(after)?;
        let mut both = Both::replay_some(&tools, which, ONE)?;
        Ok(diff::diff(&mut both, 10)?)
    };
    let report = |diff: &diff::Diff| diff::Report { diff, top: 10 }.to_string();
    let before = PROGRAM.lines().position(|line| line.contains("PARTS")).context("no such line")?;
    let line = u32::try_from(before)? + 1;
    let parts = |diff: &diff::Diff| {
        let first = diff.threads.iter().find_map(|pair| pair.first());
        first.is_some_and(|first| first.spot.line == Some(line))
    };
    let whole = compared(u64::MAX)?;
    ensure!(whole.cut.is_none() && parts(&whole), "{}", report(&whole));
    // Half of both is known, and nothing is taken for the end of a run that is none.
    let half = compared(all / 2)?;
    let cut = half.cut.context("it was not interrupted")?;
    ensure!(cut.over == Over::Interrupted && (0..2).all(|side| cut.intervals[side] < cut.of[side]), "{cut:?}");
    let said = report(&half);
    ensure!(parts(&half), "{said}");
    for wrong in
        ["part for good", "ends: exit status", "Functions that only", "Lines that only", "from its start to its end"]
    {
        ensure!(!said.contains(wrong), "it says {wrong:?}:\n{said}");
    }
    ensure!(said.contains("interrupted") && said.contains("intervals of GOOD were looked at"), "{said}");
    // Behind the replay of both, what is left is to compare stores.
    let late = compared(all + 1)?;
    let values = late.threads.iter().any(|pair| pair.values_over == Some(Over::Interrupted));
    ensure!(late.cut.is_none() && values && parts(&late), "{}", report(&late));
    workshop.done()
}

#[test]
fn what_a_value_follows_from() -> Result<()> {
    let workshop = Workshop::new("stopped-slice")?;
    let [log] = recorded(&workshop, [&["0"]])?;
    let all = instructions(&log)?;
    let log = Log::open(&log)?;
    let pid = log.threads().next().context("no thread")?.pid;
    let tools = Tools::locate_for(&binary()?, None)?;
    let mut cursor = Cursor::open(&tools, &log, pid)?;
    let mut symbols = Symbolizer::new(&log, pid)?;
    cursor.seek(Seek::End)?;
    let sum = Question::Memory("sum".parse().map_err(Error::msg)?);
    let asked = ask((&tools, &log), &mut cursor, &mut symbols, &sum)?;
    let mut followed = |until: u64| -> Result<(Ended, Report)> {
        let found = slice(&tools_until(until)?, &log, pid, &asked.criterion, &Options::default())?;
        let detail = Detail { is_full: false, is_forward: false, values: 10, folds: true };
        Ok((found.ended, report(&log, &mut cursor, &mut symbols, &asked, &found, detail)?))
    };
    let is_before = |report: &Report| report.outside.iter().any(|one| one.what.contains("as it was loaded"));
    let (ended, whole) = followed(u64::MAX)?;
    ensure!(matches!(ended, Ended::Found | Ended::Start) && is_before(&whole), "{ended:?} {whole:#?}");
    // Of what was still wanted, nobody knows where it comes from.
    let (ended, half) = followed(all / 2)?;
    ensure!(ended == Ended::Over(Over::Interrupted) && !half.lines.is_empty(), "{ended:?} {half:#?}");
    let unfollowed = |one: &Outside| one.what.contains("was not followed any further");
    ensure!(half.outside.iter().any(unfollowed) && !is_before(&half), "{half:#?}");
    ensure!(half.outside.iter().all(|one| !one.what.contains("that nothing")), "{half:#?}");
    workshop.done()
}

#[test]
fn what_is_counted() -> Result<()> {
    let workshop = Workshop::new("stopped-stats")?;
    let [log] = recorded(&workshop, [&["0"]])?;
    let all = instructions(&log)?;
    let log = Log::open(&log)?;
    let counted =
        |tools: &Tools| stats::stats(tools, &log, &Selection::default(), ONE, |_, _| {}).map_err(anyhow::Error::from);
    let report = |stats: &Stats| stats::Report { stats, each: true, top: 10 }.to_string();
    let whole = counted(&Tools::locate_for(&binary()?, None)?)?;
    ensure!(whole.cut.is_none() && whole.total.instructions == all, "{}", report(&whole));
    // As many as were counted are what is told, and are what they are in the whole.
    let half = counted(&tools_until(all / 2)?)?;
    let cut = half.cut.context("it was not interrupted")?;
    ensure!(cut.over == Over::Interrupted && cut.of == whole.intervals.len(), "{cut:?}");
    ensure!(0 < cut.intervals && cut.intervals < cut.of && half.intervals.len() == cut.intervals, "{cut:?}");
    for (row, same) in half.intervals.iter().zip(&whole.intervals) {
        ensure!(row.id == same.id && row.counts == same.counts, "{row:?}\n{same:?}");
    }
    let said = report(&half);
    ensure!(said.contains(&format!("interrupted: {} of {} intervals were counted", cut.intervals, cut.of)), "{said}");
    // Of nothing, there is nothing to tell.
    let tools = tools_until(u64::MAX)?;
    tools.work.interrupt();
    let nothing = counted(&tools).err().context("it has counted")?;
    ensure!(nothing.to_string() == "interrupted", "{nothing:#}");
    workshop.done()
}

/// Ctrl-C ends no command that can tell what it knows, and one that knows nothing with a sentence.
#[test]
fn ctrl_c() -> Result<()> {
    let workshop = Workshop::new("stopped-ctrl-c")?;
    let [good, bad] = recorded(&workshop, [&["0"], &["0", "more"]])?.map(|log| log.display().to_string());
    let commands: [&[&str]; 5] = [
        &["races", "--follow", &good],
        &["diff", &good, &bad],
        &["slice", "--var", "sum", &good],
        &["stats", &good],
        &["memcheck", &good],
    ];
    for command in commands {
        let mut child = Command::new(binary()?).args(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pid = child.id();
        // Once it catches SIGINT, which is early, it has to heed it.
        let catches = || -> Result<bool> {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(caught.context("no signals")?.trim(), 16)?;
            Ok(caught >> (Signal::SIGINT as u32 - 1) & 1 == 1)
        };
        while !catches()? && child.try_wait()?.is_none() {
            std::thread::yield_now();
        }
        // It may be done by then.
        let _ = kill(Pid::from_raw(pid.try_into()?), Signal::SIGINT);
        let output = child.wait_with_output()?;
        let said = printed(&output);
        let is_told = output.status.success() && !output.stdout.is_empty();
        // So early that it had found nothing, that is all there is to say.
        let is_said = output.status.code() == Some(130) && said.contains("interrupted, before anything was known");
        ensure!(is_told || is_said, "{command:?}: {}\n{said}", output.status);
    }
    workshop.done()
}
