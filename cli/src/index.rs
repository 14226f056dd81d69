//! Indexes of logs: made where a question needs one.

use crate::failure::{Failure, complain};
use crate::terminal::progress;
use bugnet_format::types::ProcessId;
use bugnet_replay::cursor::{Cursor, Indexed};
use bugnet_replay::index::Index;
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use bugnet_replay::verify::Verified;
use indicatif::HumanCount;
use std::num::NonZeroUsize;

/// Of more than so many, a line says that an index is made: it takes a second.
const LONG: u64 = 1_000_000_000;
/// Most instructions of a process with one thread whose index is made without being asked for: some 20 seconds of a processor.
const MOST: u64 = 50_000_000_000;

/// Gives the cursor the index of its process, if there is one; else one is made as soon as memory is asked for that it takes one to know.
pub fn use_where_needed<'a>(tools: &'a Tools, log: &'a Log, cursor: &mut Cursor<'a>) -> Result<(), Failure> {
    if let Some(index) = Index::find(log, cursor.pid())? {
        cursor.use_index(index)?;
        return Ok(());
    }
    cursor.make_index_by(move |Indexed { pid, instructions: end, has_threads }| {
        // What threads read is compared on the way.
        if end > if has_threads { MOST / 10 } else { MOST } {
            complain(&format!(
                "not all is known of what memory was: that takes a replay of {} instructions, which `bugnet replay {}` makes once",
                HumanCount(end),
                log.path().display()
            ));
            return None;
        }
        let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        if end > LONG {
            complain(&format!("replaying {} instructions, once, to know what memory was", HumanCount(end)));
        }
        let made = make(tools, log, pid, jobs, &mut Verified::default());
        made.inspect_err(|why| complain(&format!("not all is known of what memory was: {why}"))).ok()
    });
    Ok(())
}

/// Gives the cursor an index, which is made if there is none, and more than one epoch.
pub fn make_if_needed(tools: &Tools, log: &Log, cursor: &mut Cursor<'_>) -> Result<(), Failure> {
    if !cursor.has_index() && cursor.epochs() > 1 {
        let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        cursor.use_index(make(tools, log, cursor.pid(), jobs, &mut Verified::default())?)?;
    }
    Ok(())
}

/// Makes the index of a process, unless there is one; adds which intervals are exact as far as that has shown it.
pub fn make_if_missing(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    jobs: NonZeroUsize,
    verified: &mut Verified,
) -> Result<(), Failure> {
    if Index::find(log, pid)?.is_none() {
        make(tools, log, pid, jobs, verified)?;
    }
    Ok(())
}

/// Makes the index of a process.
fn make(
    tools: &Tools,
    log: &Log,
    pid: ProcessId,
    jobs: NonZeroUsize,
    verified: &mut Verified,
) -> Result<Index, Failure> {
    // Drawn on a terminal only.
    let bar = progress("epochs indexed");
    // It is there for all questions to come.
    let _unlimited = tools.work.without_limit();
    let made = Index::make_verifying(tools, log, pid, jobs, verified, |progress| {
        bar.set_length(progress.of_epochs as u64);
        bar.set_position(progress.epochs as u64);
    });
    bar.finish_and_clear();
    Ok(made?)
}
