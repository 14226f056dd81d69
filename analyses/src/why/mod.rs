//! Why a run failed: what shows that it did, the values from which that follows, what was illegal or unusual on the way, and the source lines at
//! which one would look first.
//!
//! | what one wants | where |
//! |---|---|
//! | what shows that the run failed | `symptom` |
//! | which loop a program was in that was ended | `hang` |
//! | since when it was in it | `settled` |
//! | which condition led to an end that came too early | `early` |
//! | what the program itself reported | `reported` |
//! | which byte of the output is wrong, and which lines of it are right | `wrong` |
//! | how far each source line is from the failing value | `near` |
//! | memory errors and races, by line | `illegal` |
//! | which call took memory away that was accessed then | `taken` |
//! | from where a memory error comes: its address, the block's size, what it lacks | `access` |
//! | what was added to the pointer, where an access is beyond a block | `offset` |
//! | which checks have let a value pass that was just their bound | `boundary` |
//! | which thread told others of what was not finished | `published` |
//! | what another thread changed between two steps of a function | `between` |
//! | what tells the run apart from right ones, by line | `spectra` |
//! | what comes of small changes of the code, when they are tried | `tries`, which ones `variants`, and what they mean `meant` |
//! | for how long they are tried | `budget` |
//! | what is done one after the other, and for how long each may take | `stages` |
//! | what comes of a jump that goes the other way, once | `turns` |
//! | what comes of variables that are set back | `set_back`, and when they are used `uses` |
//! | which instructions were executed, in a slice or not | `ran` |
//! | which lines come first, and why | `rank` |
//!
//! Lines are ranked by what is known of them; that a line is the faulty one is nowhere said. What is illegal whatever the value comes first.
//! Then come lines by their distance from the failing value: those that computed something before those that copied it, those of the thin slice
//! before those of the full one (Sridharan, Fink and Bodík, *Thin Slicing*), and those that did not make right output, too, before those that did
//! (dices: Lyle and Weiser; Agrawal et al., *Fault Localization using Execution Slices and Dataflow Tests*). With right runs of the
//! program, the lines' suspiciousness counts as well (Abreu et al., *An Evaluation of Similarity Coefficients for Software Fault
//! Localization*).

mod access;
mod between;
mod boundary;
mod budget;
mod display;
mod early;
mod hang;
mod html;
mod illegal;
mod left_out;
mod meant;
mod near;
mod offset;
mod published;
mod ran;
mod rank;
mod report;
mod reported;
mod runs_over;
mod set_back;
mod settled;
mod spectra;
mod stages;
mod symptom;
mod taken;
mod tries;
mod turns;
mod uses;
mod variants;
mod wrong;

pub use display::Shown;
pub use html::html;
pub use report::{Illegal, Report, Step, Suspect};
pub use spectra::Spectrum;
pub use symptom::Symptom;
pub use wrong::Told;

use crate::slice::{
    Asked, Criterion, Detail, Ended, Options as Slicing, Question, Slice, ask, first_fault, report as report_slice,
    slice,
};
use bugnet_events::atoms::Atoms;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use indicatif::HumanCount;
use near::{Line, Near};
use rank::{Clues, Table};
use stages::{Stages, left_out};
use std::num::NonZeroUsize;
use wrong::Output;

/// Lines of the thin slice of which the values are looked up.
const CHAIN: usize = 40;

/// Executions of instructions that are taken into a slice. What lies further back is far from the failure, and takes minutes.
const EXECUTIONS: u64 = 2_000_000;

/// What to go by.
pub struct Options<'a> {
    /// What the user says of the output.
    pub told: Option<Told>,
    /// Logs of right runs of the same program.
    pub good: &'a [Log],
    /// Look for races, if there are several threads.
    pub races: bool,
    /// Try small changes of the program, to see whether its output is right then.
    pub tries: bool,
    /// Look at everything, however long that takes.
    pub thorough: bool,
    /// Lines that are shown.
    pub top: usize,
    /// Intervals that are replayed at the same time.
    pub jobs: NonZeroUsize,
}

/// What of a report is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The symptom, and from what it follows.
    Chain,
    /// What was illegal.
    Illegal,
    /// All the rest.
    Lines,
}

/// Finds out why the process that a cursor is on failed. `known` is told of each part of the report as soon as it is made.
///
/// # Errors
/// The logs cannot be read, replayed or traced; good ones are of another program; the output does not hold what it is told to hold.
pub fn why(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    options: &Options<'_>,
    known: &mut dyn FnMut(&Report, Part) -> std::io::Result<()>,
) -> Result<Report> {
    let pid = cursor.pid();
    let mut symbols = Symbolizer::new(log, pid)?;
    let stages = Stages::new(cursor, options.thorough);
    stages.begin("what shows that it failed", cursor)?;
    let (symptom, output) = symptom::find((tools, log), cursor, options)?;
    let mut report = Report::new(pid, symptom);
    let mut table = Table::default();
    let mut settled = None;
    let mut told = |report: &Report, part| known(report, part).map_err(ReplayError::Sink);
    stages.run("what the failing value follows from", cursor, &mut report, |cursor, report| {
        chain((tools, log), cursor, &mut symbols, (options, stages, &output), (report, &mut table, &mut settled))
    })?;
    let is_open = matches!(report.symptom, Symptom::None { .. });
    if !is_open {
        told(&report, Part::Chain)?;
    }
    let looked = stages.run("memory errors and races", cursor, &mut report, |cursor, report| {
        illegal::find((tools, log), cursor, &mut symbols, (options, stages, settled), (report, &mut table))?;
        if matches!(report.symptom, Symptom::Crash { .. }) || report.fault.is_some() {
            stages.begin("who took memory away", cursor)?;
            taken::find(log, cursor, &mut symbols, (report, &mut table))?;
        }
        Ok(())
    })?;
    report.is_cut |= looked.is_none();
    if let (Symptom::None { is_compared }, false) = (&report.symptom, report.illegal.is_empty()) {
        report.symptom = Symptom::Silent { is_compared: *is_compared };
    }
    table.is_shared = illegal::shares_memory(log, pid)?;
    if is_open {
        told(&report, Part::Chain)?;
    }
    if options.good.is_empty() {
        told(&report, Part::Illegal)?;
    } else {
        let last = settled.map(|place| place.interval);
        stages.run("what tells it apart from right runs", cursor, &mut report, |_, report| {
            spectra::find((tools, log), pid, (options, last), (report, &mut table))
        })?;
        told(&report, Part::Illegal)?;
    }
    table.shows = report.symptom.shows();
    if let Some(output) = output.filter(|_| options.tries && !table.is_empty()) {
        let what = "small changes of the code";
        stages.run(what, cursor, &mut report, |cursor, report| {
            match tries::find((tools, log), cursor, &mut symbols, (&output, report.place), options, &mut table) {
                Ok(count) => report.tried = Some(count),
                Err(over @ ReplayError::Over(_)) => return Err(over),
                Err(error) => report.notes.push(format!("No change of the program was tried: {error}.")),
            }
            if let Some(over) = tools.work.over() {
                report.notes.push(left_out(what, &over));
                tools.work.resume();
            }
            Ok(())
        })?;
    }
    tools.work.end();
    report.suspects = table.ranked(&mut symbols, options.top);
    told(&report, Part::Lines)?;
    Ok(report)
}

/// What the symptom follows from: the failing value, and the lines that have to do with it.
fn chain(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (options, stages, output): (&Options<'_>, Stages, &Option<Output>),
    (report, table, settled): (&mut Report, &mut Table, &mut Option<Place>),
) -> Result<()> {
    let pid = cursor.pid();
    cursor.seek(Seek::End)?;
    if matches!(report.symptom, Symptom::Crash { .. } | Symptom::Exit { .. }) {
        report.fault = first_fault((tools, log), cursor, symbols)?.map(|fault| report::Fault::of(&fault));
    }
    if has_failed(&report.symptom) {
        report.said = reported::said(tools, log, pid)?;
    }
    cursor.seek(Seek::End)?;
    let question = question((tools, log), cursor, symbols, (report, settled), options)?;
    let asked = match (&report.symptom, question) {
        (Symptom::Short { .. }, _) => early::find((tools, log), cursor, symbols),
        (_, question) => question.map(|question| ask((tools, log), cursor, symbols, &question)).transpose(),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(over @ ReplayError::Over(_)) => return Err(over),
        Err(error) => {
            report.notes.push(format!("It is not known which value is wrong: {error}."));
            None
        }
    };
    if let Some(asked) = &asked {
        report.asked = Some(asked.what.clone());
        report.place = Some(asked.criterion.place);
        slices((tools, log), cursor, symbols, (asked, stages), (report, table))?;
        if let Some(output) = output {
            stages.begin("what right output follows from", cursor)?;
            right((tools, log), cursor, symbols, output, table)?;
        }
    }
    Ok(())
}

/// Whether it failed in a way that it may have told of.
fn has_failed(symptom: &Symptom) -> bool {
    matches!(symptom, Symptom::Crash { .. } | Symptom::Exit { .. } | Symptom::Hang { .. } | Symptom::Ended { .. })
}

/// Which value is asked about, at the moment where it then leaves the cursor; none if nothing shows that the run failed, or nobody knows what a
/// hang is about. The symptom gets to know what was found out meanwhile; a place is found if one need not look at what comes behind it.
fn question(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (report, settled): (&mut Report, &mut Option<Place>),
    options: &Options<'_>,
) -> Result<Option<Question>> {
    Ok(match &mut report.symptom {
        Symptom::Crash { .. } => Some(Question::Failure),
        Symptom::Exit { status, because } => {
            if *status == reported::PANICKED && reported::seek_panic(log, cursor, symbols)? {
                *because = Some("a panic");
                return Ok(Some(Question::Reported("a panic")));
            }
            match &report.fault {
                Some(_) => Some(Question::Failure),
                None => Some(Question::Exit),
            }
        }
        Symptom::Output { byte, .. } => Some(Question::Output(*byte)),
        Symptom::Hang { doing, .. } => {
            let found = hang::find((tools, log), cursor, options.jobs)?;
            *doing = found.as_ref().map(|found| {
                let since = HumanCount(found.since);
                format!("it was in {} without leaving it for {since} instructions or more: an endless loop?", found.at)
            });
            *settled = found.as_ref().and_then(|found| found.settled);
            if let Some(place) = settled {
                let later = HumanCount(cursor.end() - cursor.time());
                report.notes.push(format!(
                    "What is said of the run is of what it did up to {place}, where it executed the same code as at the end, {later} \
                     instructions later."
                ));
            }
            found.map(|found| Question::Loop(found.frame))
        }
        Symptom::Short { .. } | Symptom::Ended { .. } | Symptom::Silent { .. } | Symptom::None { .. } => None,
    })
}

fn cut(tools: &Tools, log: &Log, cursor: &Cursor<'_>, asked: &Asked, is_full: bool) -> Result<Slice> {
    let options =
        Slicing { addresses: is_full, control: is_full, keep: 0, most: Some(EXECUTIONS), ..Slicing::default() };
    slice(tools, log, cursor.pid(), &asked.criterion, &options)
}

/// The full slice of why what is at a place was executed.
fn executed((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>, place: Place) -> Result<Slice> {
    cursor.seek(Seek::Place(place))?;
    let here = Some(cursor.regs().rip);
    let criterion = Criterion { place, atoms: Atoms::NONE, memory: Vec::new(), call: None, here };
    cut(tools, log, cursor, &Asked { criterion, what: String::new() }, true)
}

/// The thin and the full slice of the failing value: the chain of values, and how near each line is.
fn slices(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    (asked, stages): (&Asked, Stages),
    (report, table): (&mut Report, &mut Table),
) -> Result<()> {
    let thin = cut(tools, log, cursor, asked, false)?;
    let add = |table: &mut Table, line: Line, near: Near, of: fn(&mut Clues) -> &mut Option<Near>| {
        *of(table.clues(line)) = Some(near);
    };
    near::lines(&thin.graph, symbols, &mut |line, near| {
        add(table, line, near, |clues| &mut clues.thin);
    });
    if table.is_empty() && near::lacks_lines(&thin.graph, symbols) {
        report.notes.push(reported::no_lines(log, cursor.pid())?);
        return Ok(());
    }
    let is_cut = matches!(thin.ended, Ended::Enough | Ended::Over(_));
    let detail = Detail { is_full: false, is_forward: false, values: CHAIN, folds: true };
    let shown = report_slice(log, cursor, symbols, asked, &thin, detail)?;
    drop(thin);
    report.chain(shown);
    if is_cut {
        // What was wanted where it ended came from further back, and not from outside.
        report.outside.clear();
    }
    stages.begin("which lines decide about the failing value", cursor)?;
    let full = cut(tools, log, cursor, asked, true)?;
    if is_cut || matches!(full.ended, Ended::Enough | Ended::Over(_)) {
        let why = match full.ended {
            Ended::Over(over) => over.to_string(),
            _ => format!("{EXECUTIONS} executions of instructions there have to do with it"),
        };
        report.notes.push(format!(
            "Lines that the value follows from were looked for in the last {} instructions ({why}). What lies further back is not known.",
            HumanCount(full.walked)
        ));
    }
    near::lines(&full.graph, symbols, &mut |line, near| {
        add(table, line, near, |clues| &mut clues.full);
    });
    near::code(&full.graph, symbols, &mut |line, ip| {
        table.clues(line).code.insert(ip);
    });
    boundary::find(cursor, symbols, &full.graph, table)?;
    runs_over::find(&full.graph, symbols, table);
    Ok(())
}

/// Notes the lines that have made right output: those of its thin slice, and those of its full one.
fn right(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    output: &Output,
    table: &mut Table,
) -> Result<()> {
    // What is further away from right output than from the wrong value may do something else for it.
    let is_as_near = |own: &Option<Near>, near: &Near| own.as_ref().is_some_and(|own| near.steps <= own.steps);
    for asked in output.right((tools, log), cursor, symbols)? {
        table.right += 1;
        let thin = cut(tools, log, cursor, &asked, false)?;
        near::lines(&thin.graph, symbols, &mut |line, near| {
            let clues = table.clues(line);
            clues.makes_right += u32::from(is_as_near(&clues.thin, &near));
        });
        drop(thin);
        let full = cut(tools, log, cursor, &asked, true)?;
        near::lines(&full.graph, symbols, &mut |line, near| {
            let clues = table.clues(line);
            clues.decides_right += u32::from(is_as_near(&clues.full, &near));
        });
    }
    Ok(())
}
