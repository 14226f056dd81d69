//! Watched memory is looked for in stretches that are run without a watch first. What is found is what is found where each access is
//! watched: in the programs of these tests, stretches are divided into tiny pieces, so that everything comes to pass.

use anyhow::{Context, Result, ensure};
use bugnet_format::types::Addr;
use bugnet_replay::cursor::{Conditions, Cursor, Direction, Event, LastWrite, Place, Seek, Stopped, WatchedRange};
use bugnet_replay::index::Index;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Job, Workshop, binary, printed, run, source_tree};
use bugnet_tests::sample::some_of;
use bugnet_tests::threaded::programs;
use std::num::NonZeroUsize;
use std::path::Path;

const PAGE: u64 = 4096;
/// Places from which searches begin.
const PLACES: usize = 8;
/// Searches from each.
const SEARCHES: usize = 6;
/// Programs with threads.
const THREADED: [&str; 4] = ["asynchronous_reads", "condition_variables", "false_sharing", "signals_to_threads"];

/// What the searches met.
#[derive(Debug, Default)]
struct Met {
    accesses: usize,
    outside: usize,
    others: usize,
    nothing: usize,
    written: usize,
}

/// What a search says, and where the cursor is then.
#[derive(Debug, PartialEq)]
struct Found {
    stopped: Vec<Stopped>,
    write: Option<LastWrite>,
    time: u64,
    place: Place,
}

/// What is looked for.
#[derive(Debug)]
enum Question {
    /// What holds next, and again.
    Run(Direction, Conditions),
    /// The same, but no further than to a thread's next instruction.
    Step(Direction, Conditions),
    /// What wrote these bytes last.
    LastWrite(u64, u64),
}

impl Question {
    fn random(cursor: &mut Cursor<'_>, random: &mut fastrand::Rng) -> Result<Self> {
        // Where something happens, mostly.
        let addr = match random.u32(0..4) {
            0 => cursor.regs().gpr[random.usize(0..16)],
            1 => cursor.regs().gpr[4].wrapping_add(random.u64(0..256)),
            _ => random.choice(cursor.known_pages()?).map_or(0, |page| page + random.u64(0..PAGE)),
        };
        let len = [1, 2, 8, 64, 300][random.usize(0..5)];
        if random.u32(0..3) == 0 {
            return Ok(Self::LastWrite(addr, len));
        }
        let (reads, changes) = (random.bool(), random.bool());
        let writes = !reads || random.bool();
        let range = WatchedRange { addr, len, reads, writes, changes: changes && writes };
        let mut conditions = Conditions { ranges: vec![range], ..Conditions::default() };
        match random.u32(0..6) {
            0 => conditions.addresses.push(cursor.regs().rip),
            1 => conditions.all_calls = true,
            2 => conditions.signals = true,
            3 => conditions.threads = true,
            4 => conditions.ranges.push(WatchedRange { addr: addr ^ 0x40, ..range }),
            _ => {}
        }
        let direction = if random.bool() { Direction::Forward } else { Direction::Backward };
        Ok(if random.u32(0..5) == 0 { Self::Step(direction, conditions) } else { Self::Run(direction, conditions) })
    }

    fn ask(&self, cursor: &mut Cursor<'_>) -> Result<Found> {
        let (mut stopped, mut write) = (Vec::new(), None);
        let tid = cursor.place().tid;
        match self {
            // On from what was found: what holds there is over.
            Self::Run(direction, conditions) => {
                for _ in 0..3 {
                    stopped.push(cursor.run(*direction, conditions)?);
                }
            }
            Self::Step(direction, conditions) => stopped.push(cursor.step_thread(tid, *direction, conditions)?),
            Self::LastWrite(addr, len) => {
                write = Some(cursor.last_write(Addr(*addr), *len)?);
                if write == Some(LastWrite::Unknown) {
                    // That is nowhere.
                    cursor.seek(Seek::Start)?;
                }
            }
        }
        Ok(Found { stopped, write, time: cursor.time(), place: cursor.place() })
    }
}

impl Met {
    fn count(&mut self, found: &Found) {
        for stopped in &found.stopped {
            match stopped {
                Stopped::Condition(Event::Access { .. }) => self.accesses += 1,
                Stopped::Condition(Event::Outside { .. }) => self.outside += 1,
                Stopped::Condition(_) => self.others += 1,
                _ => self.nothing += 1,
            }
        }
        match found.write {
            Some(LastWrite::Instruction { .. }) => self.written += 1,
            Some(LastWrite::Outside { .. }) => self.outside += 1,
            _ => {}
        }
    }
}

fn compare(job: &Job, options: &[&str], log: &Path, status: i32) -> Result<Met> {
    let recorded = run(&mut job.recorded(log, options)?)?;
    ensure!(recorded.status.code() == Some(status), "{}", printed(&recorded));
    let (tools, log) = (Tools::locate_for(&binary()?, None)?, Log::open(log)?);
    let pid = log.processes()?.last().context("no process")?.0;
    Index::make(&tools, &log, pid, NonZeroUsize::MIN, |_| {})?;
    let open = || -> Result<Cursor<'_>> {
        let mut cursor = Cursor::open(&tools, &log, pid)?;
        cursor.use_index(Index::find(&log, pid)?.context("no index")?)?;
        Ok(cursor)
    };
    let (mut watching, mut scouting) = (open()?, open()?);
    watching.never_scout();
    scouting.scout_finely();
    let mut random = fastrand::Rng::with_seed(1848);
    let mut met = Met::default();
    for _ in 0..PLACES {
        let time = random.u64(0..=watching.end());
        for _ in 0..SEARCHES {
            watching.seek(Seek::Time(time))?;
            let question = Question::random(&mut watching, &mut random)?;
            let expected = question.ask(&mut watching).with_context(|| format!("{question:x?} from {time}"))?;
            scouting.seek(Seek::Time(time))?;
            let found = question.ask(&mut scouting).with_context(|| format!("{question:x?} from {time}, scouting"))?;
            ensure!(expected == found, "{question:x?} from {time}: {expected:#x?}\nand scouting: {found:#x?}");
            met.count(&found);
        }
    }
    Ok(met)
}

#[test]
fn programs_that_people_use() -> Result<()> {
    let workshop = Workshop::new("scouting-real")?;
    std::fs::write(workshop.path.join("sums.bc"), "for (i = 0; i < 200; i++) { s += i ^ 3 / 7; s }\n")?;
    let source = source_tree().join("Cargo.lock");
    let source = source.to_string_lossy();
    let mut all = Vec::new();
    let programs = [("bc", &["/usr/bin/bc", "sums.bc"][..]), ("gzip", &["gzip", "-c", &*source])];
    for (name, command) in some_of(programs.len(), programs) {
        let met = compare(
            &Job::new(&workshop.path, command.iter().copied()),
            &["--interval", "200k"],
            &workshop.path.join(name),
            0,
        )?;
        ensure!(met.accesses > 5 && met.written > 2 && met.others > 0 && met.nothing > 0, "{name}: {met:?}");
        all.push(met);
    }
    // What system calls bring.
    ensure!(all.iter().any(|met| met.outside > 0), "{all:?}");
    workshop.done()
}

#[test]
fn programs_with_threads() -> Result<()> {
    let threaded = programs()?.into_iter().filter(|program| THREADED.contains(&program.name.as_str()));
    for program in some_of(THREADED.len(), threaded) {
        let workshop = Workshop::new(&format!("scouting-{}", program.name))?;
        let built = program.build("O1", &workshop.path)?;
        let job = Job::new(&workshop.path, [&[built.to_string_lossy().into_owned()], &program.test[..]].concat());
        let log = workshop.path.join("log");
        let met = compare(&job, &["--interval", "200k", "--check-every", "10k"], &log, program.status)
            .with_context(|| program.name.clone())?;
        ensure!(met.accesses > 3, "{}: {met:?}", program.name);
        workshop.done()?;
    }
    Ok(())
}
