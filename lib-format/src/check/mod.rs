//! The checker: whether a log keeps the rules of the format, one named [`Invariant`] a rule.
//!
//! It reads everything, goes on behind what is wrong as far as that can be read, and tells damage from what a kill
//! leaves behind legitimately. It does not execute: that the values are right, only a replay can tell.

mod epochs;
mod files;
mod light;
mod records;

pub use light::check_light;

use crate::complete::Gap;
use crate::error::Result;
use crate::folder::Recording;
use crate::types::ProcessId;
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

macro_rules! invariants {
    ($($variant:ident $name:literal $rule:literal),* $(,)?) => {
        /// The rules of the format that [`check`] checks (FORMAT.md, "Invariants").
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant {
            $(#[doc = $rule] $variant,)*
        }

        impl Invariant {
            /// All of them, in the order in which FORMAT.md lists them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The rule, in a sentence without its full stop.
            #[must_use]
            pub fn rule(self) -> &'static str {
                match self {
                    $(Self::$variant => $rule,)*
                }
            }
        }
    };
}

invariants! {
    IntervalGap "interval-gap" "the intervals of a thread are numbered without gaps",
    FirstInterval "first-interval" "the first interval is number 0 unless only the last intervals are kept",
    ProcessFile "process-file" "each process says how it began, and the process that it came from is there",
    ModuleLine "module-line" "each line of modules.jsonl is a module",
    HeaderWhole "header-whole" "a binary file has its whole header",
    HeaderMagic "header-magic" "a binary file begins with the magic of its kind",
    HeaderVersion "header-version" "a binary file has the format version of the log",
    HeaderChecksum "header-checksum" "the checksum of an interval's header fits",
    HeaderReserved "header-reserved" "bytes that have no meaning are zero",
    HeaderIdentity "header-identity" "an interval's header names the process, thread and interval of its path",
    FrameWhole "frame-whole" "a file does not end within a frame",
    FrameMagic "frame-magic" "behind a frame comes another or the end",
    FrameSize "frame-size" "no frame and no stream is longer than the format allows",
    FrameChecksum "frame-checksum" "the checksum of a frame fits",
    FrameSequence "frame-sequence" "frames are numbered from 0 without gaps",
    FrameContents "frame-contents" "a frame decompresses to the length in its header",
    TailPlace "tail-place" "a tail is for a frame that its interval's file has, or for the next, also behind the other tail's, or begins the next interval",
    TailRecord "tail-record" "the records of a tail in use can be read",
    RecordForm "record-form" "each record has a known tag and fields in their ranges",
    CheckpointFirst "checkpoint-first" "a CHECKPOINT comes first in an interval, and only there",
    EndPresent "end-present" "an interval ends with an END",
    EndLast "end-last" "nothing follows an END",
    EndReason "end-reason" "an END of reason full is followed by another interval, one of reason exec may be, and no other is",
    LoadOrdinal "load-ordinal" "the LOADs of an instruction ascend by ordinal and offset and do not overlap",
    OpaqueLast "opaque-last" "a SYSCALL or SPECIAL is the last record at its position",
    SyscallData "syscall-data" "a SYSCALL_DATA names one of six arguments; a SYSCALL, SIGNAL or END follows, with no more than MEMORY between",
    EndingPlace "ending-place" "SNAPSHOT, ZEROS, OMITTED and REACH come just before the END",
    AddressRange "address-range" "memory lies in the user half of the address space",
    RegistersKnown "registers-known" "all registers but arithmetic flags are known where an interval begins or goes over into the next",
    CodePage "code-page" "code pages are numbered from 1, or behind those of the process that was forked, without gaps unless only the last intervals are kept, and lie at a page's address",
    CodeAscending "code-ascending" "the code picture only grows, within an interval and from one to the next",
    CodeKnown "code-known" "the code store has every page that an interval names",
    IntervalContinuity "interval-continuity" "an interval begins with the registers with which the one before ended, but for what a failed exec changes",
    InstructionCount "instruction-count" "an interval begins at the instruction at which the one before ended, or behind a failed exec",
    CheckpointSequence "checkpoint-sequence" "checkpoint numbers ascend in a thread and differ in a process",
    EpochAscending "epoch-ascending" "epochs do not descend in a thread, and each interval names that of the one before",
    EpochOrder "epoch-order" "nothing of an epoch is ordered behind what another thread did in a later one",
    LightPart "light-part" "each part of a light log is whole, and has a header that names its process and number",
    LightRecord "light-record" "each record of a light log has a known kind and fields in their ranges",
    LightOrder "light-order" "a light log, unless a fork's, begins with PROGRAM, MAPs and START; EPOCH stands before its THREADs; FILE stands before the call that maps it, MOMENT before SIGNAL, TURN or END, and nothing behind END",
    LightOrigin "light-origin" "the process that a light log's came from is there, and where it was forked, the call that made it",
    LightMemory "light-memory" "the list of the memory with which a light log begins at an epoch is whole, and its pages are in the file of pages",
    LightFile "light-file" "each file that a light log names is there, as long as its key says",
    EndingAgrees "ending-agrees" "recording.json and the threads' last records say the same about the ending; SIGKILL may come behind them",
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Invariant {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

/// What a [`Finding`] means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The log is damaged, was altered, or its writer has a defect.
    Error,
    /// As a recording looks that was killed, or still goes on: what was recorded up to there can be used.
    CutOff,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which rule.
    pub invariant: Invariant,
    /// What it means.
    pub severity: Severity,
    /// The file or folder.
    pub file: PathBuf,
    /// Where: byte offset in the file for headers, frames and lines, in the stream for records and code pages.
    pub offset: u64,
    /// What stands there, for people.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::CutOff => "cut off",
        };
        let Self { invariant, file, offset, detail, .. } = self;
        write!(f, "{severity}: {invariant}: {} at {offset}: {detail}", file.display())
    }
}

/// What [`check`] found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// All findings, in the order of the files. At most [`Self::MOST`] of one rule in one file.
    pub findings: Vec<Finding>,
    /// Findings that are not listed, since there are so many.
    pub unlisted: u64,
    /// Intervals with at least one record.
    pub intervals: u64,
    /// Records.
    pub records: u64,
    /// Instructions, over all threads and intervals, as far as records tell.
    pub instructions: u64,
    /// Records of light logs.
    pub captured: u64,
    /// What the log lacks.
    pub gaps: Vec<Gap>,
}

impl Report {
    /// How many findings of one rule are listed for one file.
    pub const MOST: usize = 20;

    /// The findings of a severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |f| f.severity == severity)
    }

    /// Whether the log can be used: no finding is an error.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.of(Severity::Error).next().is_none()
    }

    /// Whether the log holds all that was recorded, but for what is expected.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.gaps.iter().all(|gap| gap.expected)
    }

    fn add(&mut self, invariant: Invariant, severity: Severity, file: &Path, offset: u64, detail: String) {
        let same = |f: &&Finding| f.invariant == invariant && f.file == file;
        if self.findings.iter().rev().filter(same).count() < Self::MOST {
            self.findings.push(Finding { invariant, severity, file: file.to_owned(), offset, detail });
        } else {
            self.unlisted += 1;
        }
    }

    fn error(&mut self, invariant: Invariant, file: &Path, offset: u64, detail: impl Into<String>) {
        self.add(invariant, Severity::Error, file, offset, detail.into());
    }

    fn cut_off(&mut self, invariant: Invariant, file: &Path, offset: u64, detail: impl Into<String>) {
        self.add(invariant, Severity::CutOff, file, offset, detail.into());
    }
}

/// Checks a whole recording: every process, thread and interval, the code stores and lists of modules.
///
/// # Errors
/// The operating system's; what is wrong with the log itself is in the report.
pub fn check(recording: &Recording) -> Result<Report> {
    let mut report = Report::default();
    files::check_recording(recording, &mut report, |_| true)?;
    Ok(report)
}

/// As [`check`], for some processes of the recording.
///
/// # Errors
/// As for [`check`].
pub fn check_processes(recording: &Recording, processes: &[ProcessId]) -> Result<Report> {
    let mut report = Report::default();
    files::check_recording(recording, &mut report, |id| processes.contains(&id))?;
    Ok(report)
}
