//! What shows that a run failed.

use super::Options;
use super::wrong::{Differs, Output, Told};
use bugnet_replay::Result;
use bugnet_replay::crash::{self, SourceText};
use bugnet_replay::cursor::{Cursor, Place};
use bugnet_replay::log::{Log, ThreadId};
use bugnet_replay::signal;
use bugnet_replay::tools::Tools;
use bugnet_replay::tree::{ProcessEnd, processes};
use serde::Serialize;

/// Signals by which a person, or a program that waits no longer, ends a process.
const ENDED: [i32; 6] = [libc::SIGTERM, libc::SIGINT, libc::SIGKILL, libc::SIGQUIT, libc::SIGHUP, libc::SIGALRM];

/// Functions by which programs end themselves, and what it means that they were called.
const REPORTS: [(&str, &str); 9] = [
    ("__assert", "an assertion failed"),
    ("__GI___assert", "an assertion failed"),
    ("rust_panic", "a panic"),
    ("std::terminate", "an exception that nobody catches"),
    ("__gnu_cxx::__verbose", "an exception that nobody catches"),
    ("malloc_printerr", "the allocator found its data damaged"),
    ("__stack_chk_fail", "a canary on the stack was overwritten"),
    ("__chk_fail", "a function of libc found a buffer too small"),
    ("__GI___chk_fail", "a function of libc found a buffer too small"),
];

/// `si_code` of a fault where nothing is mapped.
const SEGV_MAPERR: i32 = 1;
/// Addresses below this are those of members of what a null pointer does not point to.
const NULL_POINTER: u64 = 0x1_0000;

/// What shows that a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "symptom")]
pub enum Symptom {
    /// A signal killed the process, for what it did.
    Crash {
        /// What happened and where, in one line.
        what: String,
        /// What the functions that it had called mean, if they end programs: `an assertion failed`.
        because: Option<&'static str>,
        /// Where the program's own code was: `FUNCTION at FILE:LINE`.
        at: Option<String>,
        /// The line's text.
        text: Option<String>,
        /// Whether it used a null pointer: it accessed what lies near address 0.
        is_null: bool,
    },
    /// It exited with a status that is not 0.
    Exit {
        /// The status, 1 to 255.
        status: i32,
        /// What it means, if the program's own library has reported it: `a panic`.
        because: Option<&'static str>,
    },
    /// A byte of its output is wrong.
    Output {
        /// Its number, from 0, among those of standard output and error together.
        byte: u64,
        /// What differs from what, in words.
        what: String,
    },
    /// Its standard output is right, but ends too early, and nothing else shows that it failed.
    Short {
        /// Bytes that there are.
        bytes: u64,
        /// The first line that is missing.
        missing: String,
    },
    /// Somebody ended it, as one ends a program that hangs.
    Hang {
        /// What ended it.
        signal: String,
        /// What the thread did that was executed last, in words, if that is known.
        doing: Option<String>,
    },
    /// Nothing shows it, but it did something illegal.
    Silent {
        /// Whether its output was compared, and is right.
        is_compared: bool,
    },
    /// It is not known how it ended.
    Ended {
        /// What is known of that.
        what: String,
    },
    /// Nothing shows it.
    None {
        /// Whether its output was compared, and is right.
        is_compared: bool,
    },
}

impl Symptom {
    /// Whether the line at which the failure shows may be the one where something is missing: the check for a null pointer.
    pub fn shows(&self) -> bool {
        matches!(self, Self::Crash { is_null: true, .. })
    }
}

/// Finds it. What the user says of the output comes first; then how the process ended; then the output of right runs. Output that is right as far as it
/// goes says nothing of a process that failed: what ended it kept it from writing the rest.
///
/// # Errors
/// A log cannot be read or replayed; the output does not hold what it is told to hold.
pub fn find(
    (tools, log): (&Tools, &Log),
    cursor: &Cursor<'_>,
    options: &Options<'_>,
) -> Result<(Symptom, Option<Output>)> {
    let mut short = None;
    if let Some(told) = &options.told {
        let output = Output::of(tools, log, cursor.pid(), options.jobs)?;
        let symptom = match told {
            Told::Expected(right) => compared(output.differs(right), "what is expected"),
            Told::Wrong(_) | Told::Text(_) => {
                let byte = output.told(told)?;
                Some(Symptom::Output { byte, what: output.shown(byte) })
            }
        };
        if let Some(Symptom::Short { .. }) = symptom {
            short = symptom;
        } else if let Some(symptom) = symptom {
            let judged = match (told, &symptom) {
                (Told::Expected(right), Symptom::Output { byte, .. }) => Some(output.judged(right, *byte)),
                _ => None,
            };
            return Ok((symptom, judged));
        }
    }
    let end = processes(log)?.into_iter().find(|process| process.id == cursor.pid()).map(|process| process.end);
    let is_compared = matches!(options.told, Some(Told::Expected(_)));
    let symptom = match end {
        Some(ProcessEnd::Exited { status: 0 }) => match short {
            Some(short) => short,
            None => return with_good((tools, log), cursor, options, is_compared),
        },
        Some(ProcessEnd::Exited { status }) => Symptom::Exit { status, because: None },
        Some(ProcessEnd::Killed { signal }) if ENDED.contains(&signal) => {
            Symptom::Hang { signal: signal::name(signal), doing: None }
        }
        Some(ProcessEnd::Killed { .. }) => crash(log, cursor.place(), cursor)?,
        Some(ProcessEnd::Incomplete { why } | ProcessEnd::Unrecorded { why }) => Symptom::Ended { what: why },
        Some(ProcessEnd::Executed) => Symptom::Ended { what: "it executed another program".to_owned() },
        Some(ProcessEnd::Unknown) | None => {
            Symptom::Ended { what: "it was still running, or killed from outside".to_owned() }
        }
    };
    Ok((symptom, None))
}

fn compared(differs: Differs, with: &str) -> Option<Symptom> {
    match differs {
        Differs::Not => None,
        Differs::At { byte, is, right } => {
            Some(Symptom::Output { byte, what: format!("standard output has {is:?}, where {with} has {right:?}") })
        }
        Differs::Ends { bytes, missing } => Some(Symptom::Short { bytes, missing }),
    }
}

/// The first right run with the same arguments has the right output.
fn with_good(
    (tools, log): (&Tools, &Log),
    cursor: &Cursor<'_>,
    options: &Options<'_>,
    is_compared: bool,
) -> Result<(Symptom, Option<Output>)> {
    let none = Symptom::None { is_compared };
    for good in options.good {
        if is_compared || good.meta().args.get(1..) != log.meta().args.get(1..) {
            continue;
        }
        let Some(pid) = good.last_of_first_process()? else { continue };
        let right = Output::of(tools, good, pid, options.jobs)?.stdout();
        let output = Output::of(tools, log, cursor.pid(), options.jobs)?;
        let found = compared(output.differs(&right), "a right run with the same arguments");
        let judged = match &found {
            Some(Symptom::Output { byte, .. }) => Some(output.judged(&right, *byte)),
            _ => None,
        };
        return Ok((found.unwrap_or(Symptom::None { is_compared: true }), judged));
    }
    Ok((none, None))
}

/// A signal that is about what the process did.
fn crash(log: &Log, at: Place, cursor: &Cursor<'_>) -> Result<Symptom> {
    let pid = cursor.pid();
    let crashed = crash::crashes(log)?.into_iter().find(|thread| thread.pid == pid);
    let thread = crashed.unwrap_or(ThreadId { pid, tid: at.tid });
    let Some(report) = crash::report(None, log, thread, crash::Limits::default())? else {
        return Ok(Symptom::Ended { what: "a signal killed it, of which nothing more is known".to_owned() });
    };
    let names = report.backtrace.iter().filter_map(|frame| frame.place.symbol.as_ref());
    let names: Vec<&str> = names.map(|symbol| symbol.name.as_str()).collect();
    let is_called = |start: &str| names.iter().any(|name| name.starts_with(start));
    let because = REPORTS.iter().find(|(start, _)| is_called(start)).map(|(_, what)| *what);
    let own = report.own.as_ref().and_then(|own| report.backtrace.get(own.frame));
    let line = |source: &SourceText| source.text.get(source.line.checked_sub(source.first)?).cloned();
    let text = report.source.as_ref().and_then(line).map(|text| text.trim().to_owned());
    let is_null = report.signal.number == libc::SIGSEGV
        && report.signal.code == SEGV_MAPERR
        && report.signal.address.is_some_and(|addr| addr < NULL_POINTER);
    Ok(Symptom::Crash { is_null, what: report.headline, because, at: own.and_then(|frame| frame.place.brief()), text })
}
