//! What was found out about a run that failed.

use super::Symptom;
use super::spectra::Spectrum;
use crate::slice;
use bugnet_format::types::ProcessId;
use bugnet_replay::backtrace::Frame;
use bugnet_replay::crash::is_system;
use bugnet_replay::cursor::Place;
use serde::Serialize;

/// All that is told.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The process.
    pub pid: ProcessId,
    /// What shows that the run failed.
    pub symptom: Symptom,
    /// The fault for which a handler began that then ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The last lines that it wrote to standard error; of a panic, those that tell of it.
    pub said: Vec<String>,
    /// The value that is wrong, in words; none if it is not known which.
    pub asked: Option<String>,
    /// Where it has that value.
    pub place: Option<Place>,
    /// The program's own lines from which the value follows, the last one first.
    pub chain: Vec<Step>,
    /// Where values come from that nothing in the chain has made.
    pub outside: Vec<String>,
    /// What was illegal: the first memory errors, races, and deadlocks.
    pub illegal: Vec<Illegal>,
    /// What differs first from a right run.
    pub differs: Vec<String>,
    /// The lines at which one would look first.
    pub suspects: Vec<Suspect>,
    /// How many changes of the program were tried, if any could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<u32>,
    /// What could not be followed, as sentences: what was illegal there is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfollowed: Vec<String>,
    /// Whether what was illegal was not looked for to the end.
    pub is_cut: bool,
    /// Whether races were looked for.
    pub looked_for_races: bool,
    /// What is not known.
    pub notes: Vec<String>,
}

/// A fault that a handler took.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    /// Its number.
    #[serde(skip)]
    pub(super) number: i32,
    /// Its name.
    pub signal: String,
    /// Where it came, and the handler began.
    pub place: Place,
    /// Where in the program.
    pub at: Option<String>,
}

impl Fault {
    /// In words.
    pub(super) fn of(fault: &slice::Fault) -> Self {
        let is_own = |frame: &&Frame| frame.place.module.as_ref().is_some_and(|module| !is_system(&module.path));
        let own = fault.frames.iter().find(is_own).or(fault.frames.first());
        let at = own.and_then(|frame| frame.place.brief());
        Self { number: fault.number, signal: fault.signal.clone(), place: fault.place, at }
    }
}

/// A line from which the value follows.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Where it was executed last for it.
    pub place: Place,
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// Its text.
    pub text: Option<String>,
    /// Variables that it names, before, as `NAME = VALUE`.
    pub with: Vec<String>,
    /// What it computed then.
    pub values: Vec<String>,
    /// How often it was executed for it.
    pub times: u64,
}

/// Something illegal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Illegal {
    /// What.
    pub what: String,
    /// Where in the recording.
    pub place: Place,
    /// Where in the program.
    pub at: String,
}

impl Illegal {
    /// Something illegal at a place.
    #[must_use]
    pub fn new(what: String, place: Place, at: String) -> Self {
        Self { what, place, at }
    }
}

/// A line at which one would look.
#[derive(Clone, Debug, Serialize)]
pub struct Suspect {
    /// The source file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function.
    pub function: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// Where to look at it.
    pub place: Place,
    /// What it counts for, against the others of the same report.
    pub score: f64,
    /// In which right runs it was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spectrum: Option<Spectrum>,
    /// Why it stands there, in sentences without their subject, which is the line.
    pub why: Vec<String>,
}

impl Report {
    /// One in which nothing is known but the symptom.
    pub(super) fn new(pid: ProcessId, symptom: Symptom) -> Self {
        Self {
            pid,
            symptom,
            fault: None,
            said: Vec::new(),
            asked: None,
            place: None,
            chain: Vec::new(),
            outside: Vec::new(),
            illegal: Vec::new(),
            differs: Vec::new(),
            suspects: Vec::new(),
            tried: None,
            unfollowed: Vec::new(),
            is_cut: false,
            looked_for_races: false,
            notes: Vec::new(),
        }
    }

    /// Takes the chain from a thin slice.
    pub(super) fn chain(&mut self, found: slice::Report) {
        let values =
            |all: Vec<slice::Value>| all.into_iter().map(|one| format!("{} = {}", one.name, one.value)).collect();
        for line in found.lines.into_iter().filter(|line| !line.is_system) {
            let (Some(file), Some(number)) = (line.file, line.line) else { continue };
            self.chain.push(Step {
                place: line.place,
                function: line.function,
                file,
                line: number,
                text: line.text,
                with: values(line.with),
                values: values(line.values),
                times: line.times,
            });
        }
        self.outside = found.outside.into_iter().map(|one| one.what).collect();
        self.notes.extend(found.notes);
    }
}
