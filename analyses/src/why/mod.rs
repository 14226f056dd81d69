//! Why a run failed: what shows that it did, the values from which that follows, what was illegal or unusual on the way, and the source lines at
//! which one would look first.
//!
//! | what one wants | where |
//! |---|---|
//! | what shows that the run failed | `symptom` |
//! | which byte of the output is wrong, and which lines of it are right | `wrong` |
//! | how far each source line is from the failing value | `near` |
//! | memory errors and races, by line | `illegal` |
//! | what tells the run apart from right ones, by line | `spectra` |
//! | which lines come first, and why | `rank` |
//!
//! Lines are ranked by what is known of them; that a line is the faulty one is nowhere said. What is illegal whatever the value comes first.
//! Then come lines by their distance from the failing value: those that computed something before those that copied it, those of the thin slice
//! before those of the full one (Sridharan, Fink and Bodík, *Thin Slicing*), and those that did not make right output, too, before those that did
//! (dices: Lyle and Weiser; Agrawal et al., *Fault Localization using Execution Slices and Dataflow Tests*). With right runs of the
//! program, the lines' suspiciousness counts as well (Abreu et al., *An Evaluation of Similarity Coefficients for Software Fault
//! Localization*).

mod display;
mod illegal;
mod near;
mod rank;
mod report;
mod spectra;
mod symptom;
mod wrong;

pub use display::Shown;
pub use report::{Illegal, Report, Step, Suspect};
pub use spectra::Spectrum;
pub use symptom::Symptom;
pub use wrong::Told;

use crate::slice::{Asked, Detail, Options as Slicing, Question, Slice, ask, report as report_slice, slice};
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use near::{Line, Near};
use rank::{Clues, Table};
use std::num::NonZeroUsize;
use wrong::Output;

/// Lines of the thin slice of which the values are looked up.
const CHAIN: usize = 40;

/// What to go by.
pub struct Options<'a> {
    /// What the user says of the output.
    pub told: Option<Told>,
    /// Logs of right runs of the same program.
    pub good: &'a [Log],
    /// Look for races, if there are several threads.
    pub races: bool,
    /// Lines that are shown.
    pub top: usize,
    /// Intervals that are replayed at the same time.
    pub jobs: NonZeroUsize,
}

/// Finds out why the process that a cursor is on failed.
///
/// # Errors
/// The logs cannot be read, replayed or traced; good ones are of another program; the output does not hold what it is told to hold.
pub fn why((tools, log): (&Tools, &Log), cursor: &mut Cursor<'_>, options: &Options<'_>) -> Result<Report> {
    let pid = cursor.pid();
    let mut symbols = Symbolizer::new(log, pid)?;
    let (symptom, output) = symptom::find((tools, log), cursor, options)?;
    let mut report = Report::new(pid, symptom);
    let mut table = Table::default();
    cursor.seek(Seek::End)?;
    let asked = match question(&report.symptom) {
        Some(question) => match ask(log, cursor, &mut symbols, &question) {
            Ok(asked) => Some(asked),
            Err(error) => {
                report.notes.push(format!("It is not known which value is wrong: {error}."));
                None
            }
        },
        None => None,
    };
    if let Some(asked) = &asked {
        report.asked = Some(asked.what.clone());
        report.place = Some(asked.criterion.place);
        slices((tools, log), cursor, &mut symbols, asked, (&mut report, &mut table))?;
        if let Some(output) = &output {
            right((tools, log), cursor, &mut symbols, output, &mut table)?;
        }
    }
    illegal::find((tools, log), cursor, &mut symbols, options, (&mut report, &mut table))?;
    spectra::find((tools, log), pid, options, (&mut report, &mut table))?;
    report.suspects = table.ranked(&mut symbols, options.top);
    Ok(report)
}

/// Which value is asked about; none if nothing shows that the run failed, or nobody knows what a hang is about.
fn question(symptom: &Symptom) -> Option<Question> {
    match symptom {
        Symptom::Crash { .. } => Some(Question::Failure),
        Symptom::Exit { .. } => Some(Question::Exit),
        Symptom::Output { byte, .. } => Some(Question::Output(*byte)),
        Symptom::Short { .. } | Symptom::Hang { .. } | Symptom::Ended { .. } | Symptom::None { .. } => None,
    }
}

fn cut(tools: &Tools, log: &Log, cursor: &Cursor<'_>, asked: &Asked, is_full: bool) -> Result<Slice> {
    let options = Slicing { addresses: is_full, control: is_full, keep: 0, ..Slicing::default() };
    slice(tools, log, cursor.pid(), &asked.criterion, &options)
}

/// The thin and the full slice of the failing value: the chain of values, and how near each line is.
fn slices(
    (tools, log): (&Tools, &Log),
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    asked: &Asked,
    (report, table): (&mut Report, &mut Table),
) -> Result<()> {
    let thin = cut(tools, log, cursor, asked, false)?;
    let add = |table: &mut Table, line: Line, near: Near, of: fn(&mut Clues) -> &mut Option<Near>| {
        *of(table.clues(line)) = Some(near);
    };
    near::lines(&thin.graph, symbols, &mut |line, near| add(table, line, near, |clues| &mut clues.thin));
    let detail = Detail { is_full: false, is_forward: false, values: CHAIN };
    let shown = report_slice(log, cursor, symbols, asked, &thin, detail)?;
    drop(thin);
    report.chain(shown);
    let full = cut(tools, log, cursor, asked, true)?;
    near::lines(&full.graph, symbols, &mut |line, near| add(table, line, near, |clues| &mut clues.full));
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
    for asked in output.right(log, cursor, symbols)? {
        let thin = cut(tools, log, cursor, &asked, false)?;
        near::lines(&thin.graph, symbols, &mut |line, _| table.clues(line).makes_right = true);
        drop(thin);
        let full = cut(tools, log, cursor, &asked, true)?;
        near::lines(&full.graph, symbols, &mut |line, _| table.clues(line).decides_right = true);
    }
    Ok(())
}
