//! Programs with threads, looked at where everything is compared, and where a comparison was done once, and what it found is
//! applied since: there is the same to see everywhere, and the same is met. Every seventh program is tried; with `--include-ignored`, all are, at more moments, too.

use anyhow::{Context, Result, ensure};
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::cursor::{Conditions, Cursor, Direction, Origin, Piece, Seek, Thread, WatchedRange};
use bugnet_replay::index::Index;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Job, Workshop, binary, printed, run, verify_and_index};
use bugnet_tests::sample::one_of;
use bugnet_tests::threaded::{Threaded, programs};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeMap;

/// How much is tried.
#[derive(Clone, Copy)]
struct Effort {
    /// Moments at which all is looked at.
    looks: usize,
    /// Searches for accesses to memory, from some of these.
    searches: usize,
}

const SMALL: Effort = Effort { looks: 4, searches: 2 };
const FULL: Effort = Effort { looks: 10, searches: 4 };
/// Pages that are compared at a moment, of more.
const PAGES: usize = 24;
const PAGE: u64 = 4096;

/// What a cursor says of threads.
fn threads(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let described = |Thread { place, over, regs }| format!("{place} {over} {regs:?}");
    Ok(cursor.threads()?.into_iter().map(described).collect())
}

/// The parts of a page that the present epoch knows.
fn present(cursor: &mut Cursor<'_>, page: u64) -> Result<Vec<Piece>> {
    let mut pieces = cursor.read_with_origin(Addr(page), PAGE)?;
    pieces.retain(|piece| piece.origin == Origin::Present);
    Ok(pieces)
}

/// What is looked at.
struct Look {
    random: fastrand::Rng,
    /// Whether a mark may have spoilt that of other memory, which is not known any more then: one knows more bytes than the other, but
    /// none that the other knows to be something else.
    may_doubt: bool,
}

/// The bytes of the parts, by address.
fn bytes(pieces: &[Piece]) -> BTreeMap<u64, u8> {
    pieces.iter().flat_map(|piece| (piece.addr..).zip(piece.bytes.iter().copied())).collect()
}

/// Whether there is the same to see in both.
fn look_alike(one: &mut Cursor<'_>, other: &mut Cursor<'_>, look: &mut Look) -> Result<()> {
    ensure!(one.time() == other.time(), "at {} and {}", one.time(), other.time());
    let (threads, others) = (threads(one)?, threads(other)?);
    ensure!(threads == others, "{threads:#?}\nand {others:#?}");
    let mut pages = one.known_pages()?;
    let also = other.known_pages()?;
    if look.may_doubt {
        pages.retain(|page| also.contains(page));
    } else {
        ensure!(pages == also, "{pages:x?}\nand {also:x?}");
    }
    look.random.shuffle(&mut pages);
    for page in pages.into_iter().take(PAGES) {
        let (piece, also) = (present(one, page)?, present(other, page)?);
        let place = one.place();
        let is_same = if look.may_doubt {
            let (bytes, also) = (bytes(&piece), bytes(&also));
            bytes.iter().all(|(at, byte)| also.get(at).is_none_or(|also| also == byte))
        } else {
            piece == also
        };
        ensure!(is_same, "{place}: page {page:#x} holds {piece:x?}\nand {also:x?}");
    }
    Ok(())
}

fn look_at(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    Effort { looks, searches }: Effort,
    may_doubt: bool,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(1789);
    let mut look = Look { random: random.fork(), may_doubt };
    let mut comparing = Cursor::open(tools, log, pid)?;
    comparing.compare_always();
    // One that finds out by itself, as it comes along.
    let mut learning = Cursor::open(tools, log, pid)?;
    learning.never_compare_again();
    let mut indexed = Cursor::open(tools, log, pid)?;
    indexed.use_index(Index::find(log, pid)?.context("no index")?)?;
    let end = comparing.end();
    let mut times: Vec<u64> = (0..looks).map(|_| random.u64(0..=end)).chain([end]).collect();
    times.sort_unstable();
    // Forwards, and then in no order.
    let order: Vec<u64> = times.iter().copied().chain((0..looks / 2).map(|_| times[random.usize(0..looks)])).collect();
    for time in order {
        for cursor in [&mut comparing, &mut learning, &mut indexed] {
            cursor.seek(Seek::Time(time))?;
        }
        let several = comparing.threads()?.len() > 1;
        ensure!(comparing.is_comparing() == several && !indexed.is_comparing(), "patches are used, or are not");
        for (cursor, name) in [(&mut learning, "learning"), (&mut indexed, "indexed")] {
            look_alike(&mut comparing, cursor, &mut look).with_context(|| format!("{name}, at {time} of {end}"))?;
        }
    }
    // With one that does not fit, everything is compared again.
    indexed.seek(Seek::Time(times[0]))?;
    indexed.spoil_patches()?;
    for cursor in [&mut comparing, &mut indexed] {
        cursor.seek(Seek::Time(times[0]))?;
    }
    ensure!(comparing.is_comparing() == indexed.is_comparing(), "a patch that does not fit is used");
    look_alike(&mut comparing, &mut indexed, &mut look).context("with a patch that does not fit")?;
    for number in 0..searches {
        let time = times[random.usize(0..times.len())];
        comparing.seek(Seek::Time(time))?;
        let pages = comparing.known_pages()?;
        let Some(page) = random.choice(pages) else { continue };
        let addr = page + random.u64(0..PAGE / 8) * 8;
        let (reads, writes) = (random.bool(), true);
        let range = WatchedRange { addr, len: 64, reads, writes, changes: !reads && random.bool() };
        let conditions = Conditions { ranges: vec![range], ..Conditions::default() };
        let direction = if number % 2 == 0 { Direction::Forward } else { Direction::Backward };
        let mut all = Vec::new();
        for cursor in [&mut comparing, &mut learning] {
            cursor.seek(Seek::Time(time))?;
            all.push((cursor.run(direction, &conditions)?, cursor.time(), threads(cursor)?));
        }
        ensure!(all[0] == all[1], "{direction:?} from {time} to {range:x?}: {all:#?}");
        look_alike(&mut comparing, &mut learning, &mut look).with_context(|| format!("behind {range:x?}"))?;
    }
    Ok(())
}

fn try_program(program: &Threaded, name: &str, effort: Effort) -> Result<()> {
    let workshop = Workshop::new(&format!("patches-{name}"))?;
    let built = program.build("O1", &workshop.path)?;
    let job = Job::new(&workshop.path, [&[built.to_string_lossy().into_owned()], &program.test[..]].concat());
    let path = workshop.path.join("log");
    let recorded = run(&mut job.recorded(&path, &["--interval", "200k", "--check-every", "10k"])?)?;
    ensure!(recorded.status.code() == Some(program.status), "{}", printed(&recorded));
    verify_and_index(&path)?;
    let (tools, log) = (Tools::locate_for(&binary()?, None)?, Log::open(&path)?);
    for (pid, _) in log.processes()? {
        // Where memory is so far apart that marks cannot tell it.
        look_at(&tools, &log, pid, effort, program.name.starts_with("far_memory"))?;
    }
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for (effort, suffix, ignored) in [(SMALL, "", false), (FULL, "-full", true)] {
        trials.extend(programs()?.into_iter().map(|program| {
            let name = format!("{}{suffix}", program.name);
            let title = name.clone();
            let body = move || try_program(&program, &name, effort).map_err(|error| Failed::from(format!("{error:?}")));
            Trial::test(title, body).with_ignored_flag(ignored)
        }));
    }
    Ok(one_of(7, trials))
}
