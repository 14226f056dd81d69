//! The rules for files, and for how the intervals of a thread follow each other.

use super::epochs::Epochs;
use super::records::{Stream, check_stream};
use super::{Invariant, Report, Severity};
use crate::code::{CODE_HEADER_SIZE, CODE_MAGIC, decode_pages, encode_header};
use crate::complete::{Mentions, gaps};
use crate::error::{FormatError, Result};
use crate::files::{MAX_BINARY_FILE, MAX_JSON_FILE, read_if_there};
use crate::folder::{
    CODE_FILE, Ending, MODULES_FILE, PROCESS_FILE, Recording, TAIL_FILES, ThreadFiles, module_lines, process_folder,
};
use crate::frame::{
    FrameFault, Frames, HEADER_SIZE, INTERVAL_MAGIC, IntervalHeader, TAIL_HEADER_SIZE, TAIL_MAGIC, Tail, TailHeader,
    add_tails, check_magic, read_frames,
};
use crate::process::Origin;
use crate::record::{EndReason, Records};
use crate::signal;
use crate::source::Source;
use crate::types::{CodeSeq, IntervalNo, ProcessId};
use hashbrown::{HashMap, HashSet};
use std::path::Path;

/// Checks the processes that are `wanted`, and of the others what those need.
pub(super) fn check_recording(
    recording: &Recording,
    report: &mut Report,
    wanted: impl Fn(ProcessId) -> bool,
) -> Result<()> {
    let threads = recording.thread_folders()?;
    let processes = recording.processes()?;
    let last_of_first = recording.last_of_first_process().unwrap_or_default();
    let mut ends = Vec::new();
    let mut mentions = Mentions::default();
    let mut code_pages = HashMap::new();
    let of_wanted = report;
    let mut of_others = Report::default();
    for pid in by_birth(recording, &processes) {
        let is_wanted = wanted(pid);
        let report = if is_wanted { &mut *of_wanted } else { &mut of_others };
        let folder = recording.path.join(process_folder(pid));
        check_modules(&recording.source, &folder, report)?;
        let mut threads = threads.iter().filter(|t| t.pid == pid).peekable();
        let begun = threads.peek().is_some();
        let inherited = check_process(recording, pid, begun, &code_pages, report)?;
        if !begun {
            // Killed before its first thread began, or not recorded: there need not be a code store.
            code_pages.insert(pid, inherited);
            continue;
        }
        let known = check_code(&recording.source, &folder, inherited, recording.meta.keep == 0, report)?;
        code_pages.insert(pid, known);
        if !is_wanted {
            continue;
        }
        let mut process = Process {
            recording,
            exited: last_of_first == Some(pid) && exited(recording),
            known,
            sequences: HashSet::new(),
            mentions: &mut mentions,
            epochs: Epochs::default(),
        };
        for thread in threads {
            ends.push((pid, process.check_thread(thread, report)?));
        }
        process.epochs.check(report);
    }
    of_wanted.gaps = gaps(recording, &mentions, &wanted)?;
    if last_of_first.is_none_or(wanted) {
        ends.retain(|(pid, _)| last_of_first == Some(*pid));
        check_ending(recording, &ends, of_wanted);
    }
    Ok(())
}

/// Whether the first process is known to have exited by itself.
fn exited(recording: &Recording) -> bool {
    matches!(recording.meta.ending, Ending::Exited { .. })
}

/// Every process behind the one that it came from.
fn by_birth(recording: &Recording, processes: &[ProcessId]) -> Vec<ProcessId> {
    let parent = |id: &ProcessId| Some((*id, recording.process(*id).ok()??.origin.from()?));
    let parents: HashMap<ProcessId, ProcessId> = processes.iter().filter_map(parent).collect();
    // No line of ancestors is longer than this, but for one that is a circle.
    let generation =
        |id: &ProcessId| std::iter::successors(Some(id), |id| parents.get(*id)).take(processes.len() + 1).count();
    let mut ordered = processes.to_vec();
    ordered.sort_by_cached_key(generation);
    ordered
}

/// Checks a process's description; returns how many code pages it has from the process that it was forked from.
fn check_process(
    recording: &Recording,
    pid: ProcessId,
    begun: bool,
    code_pages: &HashMap<ProcessId, CodeSeq>,
    report: &mut Report,
) -> Result<CodeSeq> {
    let path = recording.path.join(process_folder(pid)).join(PROCESS_FILE);
    let info = match recording.process(pid) {
        Ok(info) => info,
        Err(FormatError::NotALog { found, .. }) => {
            report.error(Invariant::ProcessFile, &path, 0, found);
            return Ok(CodeSeq(0));
        }
        Err(other) => return Err(other),
    };
    let Some(info) = info else {
        if begun {
            report.error(Invariant::ProcessFile, &path, 0, "it is missing");
        }
        return Ok(CodeSeq(0));
    };
    let Some(from) = info.origin.from() else { return Ok(CodeSeq(0)) };
    let Some(known) = code_pages.get(&from) else {
        if !recording.meta.drops_processes() {
            report.error(Invariant::ProcessFile, &path, 0, format!("process {from}, from which it came, is not there"));
        }
        return Ok(CodeSeq(0));
    };
    let Origin::Fork { code_pages: inherited, .. } = info.origin else { return Ok(CodeSeq(0)) };
    if inherited > known.0 {
        let detail = format!("it has {inherited} pages of process {from}, which has {known}");
        report.error(Invariant::CodeKnown, &path, 0, detail);
    }
    Ok(CodeSeq(inherited.min(known.0)))
}

fn check_modules(log: &Source, folder: &Path, report: &mut Report) -> Result<()> {
    let path = folder.join(MODULES_FILE);
    let Some(file) = read_if_there(log, &path, MAX_JSON_FILE)? else { return Ok(()) };
    for (at, why) in module_lines(&file).filter_map(std::result::Result::err) {
        report.error(Invariant::ModuleLine, &path, at, why);
    }
    if let Some(last) = file.split_inclusive(|b| *b == b'\n').next_back().filter(|line| !line.ends_with(b"\n")) {
        report.cut_off(Invariant::ModuleLine, &path, (file.len() - last.len()) as u64, "the last line has no end");
    }
    Ok(())
}

/// Checks magic and version; `false` where there is no going on.
fn check_start(file: &[u8], magic: &[u8; 8], path: &Path, what: &'static str, report: &mut Report) -> bool {
    match check_magic(file, magic, path, what) {
        Ok(()) => true,
        Err(FormatError::Version { found, .. }) => {
            report.error(Invariant::HeaderVersion, path, 8, format!("version {found}"));
            false
        }
        Err(_) => {
            report.error(Invariant::HeaderMagic, path, 0, format!("not a bugnet {what}"));
            false
        }
    }
}

fn check_reserved(bytes: &[u8], at: usize, path: &Path, report: &mut Report) {
    if bytes.iter().any(|b| *b != 0) {
        report.error(Invariant::HeaderReserved, path, at as u64, format!("{bytes:02x?}"));
    }
}

/// Reports what is wrong with the frames of a file; a cut is none in a file that may have been written last.
fn check_frames(frames: &Frames, may_be_cut: bool, path: &Path, report: &mut Report) {
    let (Some(fault), Some((at, why))) = (frames.fault, &frames.broken) else { return };
    let invariant = match fault {
        FrameFault::CutOff if may_be_cut => return report.cut_off(Invariant::FrameWhole, path, *at, why),
        FrameFault::CutOff => Invariant::FrameWhole,
        FrameFault::NotAFrame => Invariant::FrameMagic,
        FrameFault::TooLarge => Invariant::FrameSize,
        FrameFault::Checksum => Invariant::FrameChecksum,
        FrameFault::Sequence => Invariant::FrameSequence,
        FrameFault::Contents => Invariant::FrameContents,
    };
    report.error(invariant, path, *at, why);
}

/// Checks a process's code store behind the pages that it inherits, which has all others if it is `whole`; returns the
/// number of its last usable page.
fn check_code(log: &Source, folder: &Path, inherited: CodeSeq, whole: bool, report: &mut Report) -> Result<CodeSeq> {
    let path = folder.join(CODE_FILE);
    let Some(file) = read_if_there(log, &path, MAX_BINARY_FILE)? else {
        report.error(Invariant::HeaderWhole, &path, 0, "there is no code store");
        return Ok(inherited);
    };
    if encode_header().starts_with(&file) && file.len() < CODE_HEADER_SIZE {
        report.cut_off(Invariant::HeaderWhole, &path, file.len() as u64, "ends within its header");
        return Ok(inherited);
    }
    if !check_start(&file, &CODE_MAGIC, &path, "code store", report) {
        return Ok(inherited);
    }
    check_reserved(&file[12..file.len().min(CODE_HEADER_SIZE)], 12, &path, report);
    let frames = read_frames(&file, CODE_HEADER_SIZE);
    check_frames(&frames, true, &path, report);
    let (pages, fault) = decode_pages(&frames.stream, inherited);
    if let Some((at, why)) = fault {
        report.error(Invariant::CodePage, &path, at, why);
    }
    let last = pages.last().map_or(inherited, |page| page.seq);
    if whole && last.0 - inherited.0 != pages.len() as u64 {
        report.error(Invariant::CodePage, &path, 0, format!("{} pages, the last is {last}", pages.len()));
    }
    Ok(last)
}

/// What the rules about a thread need to know of its process.
struct Process<'a> {
    recording: &'a Recording,
    /// Whether this is the first process's last program, and the process is known to have exited by itself.
    exited: bool,
    /// Last page of its code store.
    known: CodeSeq,
    /// Checkpoint numbers so far.
    sequences: HashSet<u64>,
    /// What the records of all processes so far say of other parts of the log.
    mentions: &'a mut Mentions,
    /// In which epochs its threads do what.
    epochs: Epochs,
}

impl Process<'_> {
    /// Checks a thread; returns how it ended, if an `END` says so.
    fn check_thread(&mut self, thread: &ThreadFiles, report: &mut Report) -> Result<Option<EndReason>> {
        if let Some(missing) = thread.missing_interval() {
            report.error(Invariant::IntervalGap, &thread.folder, 0, format!("interval {missing} is missing"));
        }
        match thread.intervals.first() {
            Some(first) if first.0 != 0 && self.recording.meta.keep == 0 => {
                report.error(Invariant::FirstInterval, &thread.folder, 0, format!("it is number {first}"));
            }
            _ => {}
        }
        let tail_paths = TAIL_FILES.map(|name| thread.folder.join(name));
        let mut tail_files = Vec::new();
        for path in &tail_paths {
            tail_files.extend(read_if_there(&thread.log, path, MAX_BINARY_FILE)?.map(|file| (path, file)));
        }
        let mut tails = Vec::new();
        let mut misplaced = Vec::new();
        for (path, file) in &tail_files {
            let tail = check_tail(file, path, report);
            tails.extend(tail);
            misplaced.extend(tail.filter(|tail| !tail_without_file(tail, thread)).map(|tail| (*path, tail.header)));
        }
        let mut before: Option<(IntervalHeader, Stream)> = None;
        let mut reason = None;
        for interval in &thread.intervals {
            let last = Some(interval) == thread.intervals.last();
            let (path, file) = thread.read_file(*interval)?;
            let Some(header) = self.check_header(&file, &path, thread, *interval, last, report) else {
                before = None;
                continue;
            };
            let mut frames = read_frames(&file, HEADER_SIZE);
            let mut bytes = std::mem::take(&mut frames.stream);
            let next = add_tails(&tails, *interval, frames.count, &mut bytes);
            // A tail has what the file lacks.
            let covered = next > frames.count;
            check_frames(&frames, last || covered, &path, report);
            let damaged = frames.fault.is_some_and(|fault| fault != FrameFault::CutOff);
            // With damaged frames, there is no telling how many there were.
            misplaced.retain(|(_, tail)| tail.interval != *interval || tail.frame > next && !damaged);
            if last && bytes.is_empty() && !damaged {
                // Killed between the file's header and the first record. The thread's log ends one interval before.
                report.cut_off(Invariant::CheckpointFirst, &path, HEADER_SIZE as u64, "no record yet");
            }
            let place = (thread.pid, thread.tid, *interval);
            let mut stream = check_stream(&bytes, place, header.code_seq, self.known, &path, report);
            self.mentions.add(std::mem::take(&mut stream.mentions));
            report.intervals += u64::from(!bytes.is_empty());
            report.instructions += stream.position.0;
            // An interval with damage has its finding already.
            let readable = stream.whole && !damaged && (last || covered || frames.fault.is_none());
            if readable || stream.end.is_some() {
                self.check_end(&stream, last, bytes.len(), &path, report);
            }
            if let Some((before_header, before)) = &before {
                check_continuity(before_header, before, &header, &stream, &path, report);
            }
            if !bytes.is_empty() {
                let end = stream.end.as_ref().map(|(reason, _)| reason.clone());
                self.mentions.end(thread.pid, thread.tid, *interval, stream.position, end);
                self.mentions.begin(thread.pid, &header);
                let behind = std::mem::take(&mut stream.behind);
                self.epochs.add(thread.tid, *interval, header.epoch, stream.position, behind, &path);
            }
            reason = stream.end.as_ref().map(|(reason, _)| reason.clone());
            before = Some((header, stream));
        }
        for (path, TailHeader { interval, frame }) in misplaced {
            report.error(Invariant::TailPlace, path, 12, format!("for frame {frame} of interval {interval}"));
        }
        Ok(reason)
    }

    fn check_header(
        &mut self,
        file: &[u8],
        path: &Path,
        thread: &ThreadFiles,
        interval: IntervalNo,
        last: bool,
        report: &mut Report,
    ) -> Option<IntervalHeader> {
        if file.len() < HEADER_SIZE && INTERVAL_MAGIC.starts_with(&file[..file.len().min(INTERVAL_MAGIC.len())]) {
            let severity = if last { Severity::CutOff } else { Severity::Error };
            let detail = "ends within its header".to_owned();
            report.add(Invariant::HeaderWhole, severity, path, file.len() as u64, detail);
            return None;
        }
        if !check_start(file, &INTERVAL_MAGIC, path, "interval file", report) {
            return None;
        }
        let header = match IntervalHeader::decode(file, path) {
            Ok(header) => header,
            Err(e) => {
                report.error(Invariant::HeaderChecksum, path, HEADER_SIZE as u64 - 4, e.to_string());
                return None;
            }
        };
        check_reserved(&file[12..16], 12, path, report);
        check_reserved(&file[72..76], 72, path, report);
        if (header.pid, header.tid, header.interval) != (thread.pid.pid, thread.tid, interval) {
            let IntervalHeader { pid, tid, interval, .. } = header;
            let detail = format!("it names interval {interval} of thread {tid} of process {pid}");
            report.error(Invariant::HeaderIdentity, path, 16, detail);
        }
        if header.code_seq > self.known {
            let detail = format!("begins with {}, the store ends with {}", header.code_seq, self.known);
            report.error(Invariant::CodeKnown, path, 40, detail);
        }
        let first = header.interval == IntervalNo(0);
        if header.epoch_before > header.epoch || first && header.epoch_before != header.epoch {
            let detail = format!("epoch {} behind epoch {}", header.epoch, header.epoch_before);
            report.error(Invariant::EpochAscending, path, 56, detail);
        }
        if !self.sequences.insert(header.sequence) {
            report.error(Invariant::CheckpointSequence, path, 32, format!("{} is there twice", header.sequence));
        }
        Some(header)
    }

    /// Whether there must be an `END`, and of which kind.
    fn check_end(&self, stream: &Stream, last: bool, len: usize, path: &Path, report: &mut Report) {
        let at = len as u64;
        match &stream.end {
            Some((EndReason::Full, _)) if last => {
                report.cut_off(Invariant::EndReason, path, at, "the next interval is not there");
            }
            Some((EndReason::Full | EndReason::Exec, _)) => {}
            Some((reason, _)) if !last => {
                report.error(Invariant::EndReason, path, at, format!("another interval follows {reason:?}"));
            }
            Some(_) => {}
            None if !last => report.error(Invariant::EndPresent, path, at, "no END, but another interval follows"),
            None if self.exited => report.error(Invariant::EndPresent, path, at, "no END, but the program exited"),
            None => report.cut_off(Invariant::EndPresent, path, at, "recording stopped here"),
        }
    }
}

/// Checks one of a thread's tails by itself; `None` if it is not in use.
fn check_tail<'a>(file: &'a [u8], path: &Path, report: &mut Report) -> Option<Tail<'a>> {
    if file.len() < TAIL_HEADER_SIZE || file[..TAIL_HEADER_SIZE].iter().all(|b| *b == 0) {
        report.cut_off(Invariant::HeaderWhole, path, file.len() as u64, "it has no header yet");
        return None;
    }
    if !check_start(file, &TAIL_MAGIC, path, "tail", report) {
        return None;
    }
    check_reserved(&file[24..TAIL_HEADER_SIZE], 24, path, report);
    let tail = Tail::read(file, path).ok()?;
    let end = tail.records.len();
    let mut reader = Records::resume(&file[TAIL_HEADER_SIZE..], end, crate::types::Position(0));
    if let Some(Err(e)) = reader.next() {
        report.error(Invariant::TailRecord, path, (TAIL_HEADER_SIZE + end) as u64, e.reason);
    }
    Some(tail)
}

/// Whether the tail belongs to an interval that was deleted since, or begins one whose file is not there yet.
fn tail_without_file(tail: &Tail<'_>, thread: &ThreadFiles) -> bool {
    let TailHeader { interval, frame } = tail.header;
    let begins = |after: &IntervalNo| frame == 0 && interval.0.checked_sub(1) == Some(after.0);
    thread.intervals.first().is_none_or(|first| interval < *first) || thread.intervals.last().is_some_and(begins)
}

/// The rules about an interval and the one before it.
fn check_continuity(
    before_header: &IntervalHeader,
    before: &Stream,
    header: &IntervalHeader,
    stream: &Stream,
    path: &Path,
    report: &mut Report,
) {
    if header.interval.0 != before_header.interval.0.wrapping_add(1) {
        return; // a gap, which has its finding already
    }
    if let Some((reason, end)) = &before.end {
        // An exec that failed is executed between the two intervals.
        let exec = *reason == EndReason::Exec;
        report.instructions += u64::from(exec);
        let changes = |register: &str| exec && ["rip", "rax", "rcx", "r11"].contains(&register);
        let differences = stream.begin.as_ref().map(|begin| end.differences(begin)).unwrap_or_default();
        for d in differences.iter().filter(|d| !changes(&d.register)) {
            let detail = format!("{} ended as {} and begins as {}", d.register, d.expected, d.got);
            report.error(Invariant::IntervalContinuity, path, 0, detail);
        }
        let expected = before_header.instructions_before.saturating_add(before.position.0).saturating_add(exec.into());
        if header.instructions_before != expected {
            let detail = format!("begins at instruction {}, not {expected}", header.instructions_before);
            report.error(Invariant::InstructionCount, path, 48, detail);
        }
    }
    if header.epoch_before != before_header.epoch {
        let detail = format!("it names epoch {}, that is {}", header.epoch_before, before_header.epoch);
        report.error(Invariant::EpochAscending, path, 64, detail);
    }
    if header.code_seq < before.code_seq {
        let detail = format!("begins with {} where {} was in force", header.code_seq, before.code_seq);
        report.error(Invariant::CodeAscending, path, 40, detail);
    }
    if header.sequence <= before_header.sequence {
        let detail = format!("{} follows {}", header.sequence, before_header.sequence);
        report.error(Invariant::CheckpointSequence, path, 32, detail);
    }
}

/// The signal that no process sees come.
const SIGKILL: i32 = 9;

/// Compares `recording.json` with the ends of the threads of the first process's last program.
fn check_ending(recording: &Recording, ends: &[(ProcessId, Option<EndReason>)], report: &mut Report) {
    let first: Vec<_> = ends.iter().map(|(_, end)| end).collect();
    let says = |wanted: &dyn Fn(&EndReason) -> bool| first.iter().any(|end| end.as_ref().is_some_and(wanted));
    let own = |end: &EndReason| matches!(end, EndReason::Exit { .. } | EndReason::Signal { .. });
    if !says(&own) {
        return; // cut off, or exact replay ended before the program did
    }
    let (agrees, what) = match recording.meta.ending {
        Ending::Unknown => return,
        Ending::Exited { status } => {
            let same = |end: &EndReason| matches!(end, EndReason::Exit { status: s } if s & 0xff == status);
            (says(&same), format!("exit status {status}"))
        }
        Ending::Killed { signal } => {
            let same = |end: &EndReason| matches!(end, EndReason::Signal { signo, .. } if i64::from(*signo) == i64::from(signal));
            // SIGKILL may come when the program has asked to exit and is not gone yet.
            let anywhere = signal == SIGKILL || first.iter().any(|end| end.is_none());
            (says(&same) || anywhere, signal::name(signal))
        }
    };
    if !agrees {
        let detail = format!("recording.json says {what}, the last records do not");
        report.error(Invariant::EndingAgrees, &recording.path.join(crate::folder::META_FILE), 0, detail);
    }
}
