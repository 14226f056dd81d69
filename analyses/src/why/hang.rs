//! What a thread was busy with that somebody had to end: the loop that did not end.
//!
//! From the end, one goes back through what the thread executed. A function that it is in at the end, and of which the call is met on that way, was
//! called within the loop; the innermost function of which the call is not met has the loop, or is called by it. Calls and returns are matched
//! by where the return address lies.

use super::settled;
use bugnet_events::effects::Control;
use bugnet_events::stretch::Ran;
use bugnet_events::walk::{Visit, walk_back};
use bugnet_replay::Result;
use bugnet_replay::backtrace::Frame;
use bugnet_replay::crash::{is_system, moment};
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::tools::Tools;
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};

/// Instructions of the thread that are looked at, if there are as many, and of all threads for each of these.
const BACK: u64 = 20_000_000;
const ALL: u64 = 4;
/// Instructions of the process from which on one that was busy is said to have been in a loop.
const BUSY: u64 = 1_000_000;

/// The loop in which the thread was that executed last.
pub struct Loop {
    /// The number of its function's frame in the backtrace at the end, from 0, the innermost.
    pub frame: usize,
    /// The function, and where it was.
    pub at: String,
    /// The function's file and name.
    function: Option<[String; 2]>,
    /// Instructions of the thread for which it had not been left, at least.
    pub since: u64,
    /// Where the thread was in it long before the end, if it did nothing else there than at the end.
    pub settled: Option<Place>,
}

/// Finds the loop in which the process's last thread was at the end; none if the thread waited there, or no function of the program's own has it.
/// If it did the same long before, the cursor is there then, and else at the end.
///
/// # Errors
/// The log cannot be read, replayed or traced.
pub fn find((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>, jobs: NonZeroUsize) -> Result<Option<Loop>> {
    cursor.seek(Seek::End)?;
    let last = moment(log, cursor)?;
    let waits = last.instructions.first().is_some_and(|next| next.text == "syscall");
    if waits || cursor.end() < BUSY {
        return Ok(None);
    }
    let most = BACK.min(cursor.end() / 2);
    let at_the_end = find_here((tools, log), cursor, most)?.filter(|found| found.since >= BUSY / 2);
    let Some(at_the_end) = at_the_end else { return Ok(None) };
    for (time, behind) in settled::find(tools, log, cursor.pid(), jobs)? {
        cursor.seek(Seek::Time(time))?;
        let place = cursor.place();
        let before = find_here((tools, log), cursor, behind.min(BACK))?;
        if let Some(before) = before.filter(|before| before.function == at_the_end.function) {
            return Ok(Some(Loop { settled: Some(place), frame: before.frame, ..at_the_end }));
        }
    }
    cursor.seek(Seek::End)?;
    Ok(Some(at_the_end))
}

/// Finds the loop in which the thread is that a cursor is on, by at most so many instructions.
fn find_here((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>, most: u64) -> Result<Option<Loop>> {
    let place = cursor.place();
    let last = moment(log, cursor)?;
    let (mut way, mut walked) = (Way::default(), 0);
    walk_back(tools, log, cursor.pid(), place, &mut |visit| {
        if let Visit::Ran { place: at, ran, instructions } = visit {
            walked += instructions.len() as u64;
            if at.tid == place.tid {
                way.ran(ran, instructions);
            }
        }
        let is_enough = way.walked >= most || walked >= ALL * most;
        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let is_own = |frame: &Frame| frame.place.module.as_ref().is_some_and(|module| !is_system(&module.path));
    // What a library's function does in a loop, its caller in the program wanted.
    let found = last.backtrace.iter().enumerate().skip(way.entered).find(|(_, frame)| is_own(frame));
    Ok(found.map(|(frame, of)| Loop {
        frame,
        at: of.place.brief().unwrap_or_else(|| format!("{:#x}", of.pc)),
        function: of
            .place
            .module
            .as_ref()
            .zip(of.place.symbol.as_ref())
            .map(|(module, symbol)| [&module.path, &symbol.name].map(String::clone)),
        since: way.walked,
        settled: None,
    }))
}

/// What is known of a thread on the way back.
#[derive(Default)]
struct Way {
    /// Where the return addresses lie of functions that have returned, and of which the call is not met yet.
    returned: Vec<u64>,
    /// Functions of those at the end of which the call is met.
    entered: usize,
    /// Instructions.
    walked: u64,
}

impl Way {
    fn ran(&mut self, ran: &Ran<'_>, instructions: Range<usize>) {
        self.walked += instructions.len() as u64;
        for number in instructions.rev() {
            let control = ran.block.instructions[number].control;
            let slot = |is_it: fn(bool, bool) -> bool| {
                ran.accesses(number).find(|access| is_it(access.reads, access.writes)).map(|access| access.addr)
            };
            match control {
                Control::Return => self.returned.extend(slot(|reads, _| reads)),
                Control::Call => self.called(slot(|_, writes| writes)),
                _ => {}
            }
        }
    }

    fn called(&mut self, slot: Option<u64>) {
        let Some(slot) = slot else { return };
        match self.returned.iter().rposition(|known| *known == slot) {
            // Those further in have not ended by a return.
            Some(at) => self.returned.truncate(at),
            None => self.entered += 1,
        }
    }
}
