//! What a log lacks: each part that can be taken away, with each way to know of it.

mod common;

use bugnet_format::check::check;
use bugnet_format::complete::Gap;
use bugnet_format::folder::{Contents, Ending, Recording, process_folder};
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::record::{DependencyKind, EndReason, OutputStream, Record, RegisterUpdates};
use bugnet_format::types::{Addr, IntervalNo, Pid, Position, ProcessId, Tid};
use common::{Log, end, sample};
use std::path::Path;

/// The process of [`sample`].
const PID: u32 = 4242;

/// A sound log that lacks nothing.
fn whole() -> Log {
    let mut log = sample();
    log.threads.truncate(1);
    let names_a_thread = |record: &Record<'_>| matches!(record, Record::Dependency { .. });
    log.threads[0].intervals[1].frames[0].retain(|record| !names_a_thread(record));
    log
}

fn gaps(folder: &Path) -> Vec<Gap> {
    let report = check(&Recording::open(folder).unwrap()).unwrap();
    assert_eq!(report.is_complete(), report.gaps.iter().all(|gap| gap.expected));
    report.gaps
}

/// Writes a log, does something to its folder, and compares what is missing, and what is expected to, with beginnings of
/// sentences.
#[track_caller]
fn lacks(edit: impl FnOnce(&mut Log), after: impl FnOnce(&Path), missing: &[&str], expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut log = whole();
    edit(&mut log);
    log.write(folder.path());
    after(folder.path());
    let gaps = gaps(folder.path());
    let found = |expected: bool| gaps.iter().filter(move |gap| gap.expected == expected).map(|gap| gap.what.as_str());
    for (found, wanted) in [(found(false).collect::<Vec<_>>(), missing), (found(true).collect(), expected)] {
        let fits = |(found, wanted): (&&str, &&str)| found.starts_with(wanted);
        assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(fits), "{found:#?}\nexpected {wanted:#?}");
    }
}

fn records(log: &mut Log, interval: usize) -> &mut Vec<Record<'static>> {
    log.threads[0].intervals[interval].frames.last_mut().unwrap()
}

/// Puts a record before the end of the last interval.
fn before_the_end(log: &mut Log, record: Record<'static>) {
    records(log, 1).insert(1, record);
}

fn ends_with(log: &mut Log, reason: EndReason) {
    let records = records(log, 1);
    records.pop();
    records.push(end(7, reason, 3));
}

fn call(number: u64, flags: u64, result: i64) -> Record<'static> {
    let (stream, updates) = (OutputStream::None, RegisterUpdates::default());
    Record::Syscall { delta: 1, number, result, args: [flags, 0, 0, 0, 0, 0], stream, order: 0, updates }
}

fn dependency(other: u32, interval: u64) -> Record<'static> {
    Record::Dependency {
        delta: 1,
        kind: DependencyKind::Raw,
        block: Addr(0x7000_0040),
        other: Tid(other),
        other_interval: IntervalNo(interval),
        other_position: Position(1),
        implied: 0,
    }
}

/// A process beside that of the log, without threads.
fn process(folder: &Path, id: ProcessId, origin: Origin, unrecorded: Option<&str>) {
    let folder = folder.join(process_folder(id));
    std::fs::create_dir(&folder).unwrap();
    let info = ProcessInfo { origin, unrecorded: unrecorded.map(ToOwned::to_owned), ..sample().process };
    info.write(&folder).unwrap();
}

fn first() -> ProcessId {
    Pid(PID).into()
}

fn fork() -> Origin {
    Origin::Fork { from: first(), code_pages: 0 }
}

fn nothing(_: &Path) {}

/// Lists what is there in `recording.json`.
fn list(folder: &Path) {
    let mut recording = Recording::open(folder).unwrap();
    recording.meta.contents = Some(recording.contents().unwrap());
    recording.meta.write(folder).unwrap();
}

#[test]
fn a_whole_log_lacks_nothing() {
    lacks(|_| {}, nothing, &[], &[]);
    lacks(|_| {}, list, &[], &[]);
}

#[test]
fn what_is_listed() {
    let child = ProcessId { pid: Pid(5000), program: 1 };
    let listed = |gone: &'static str| {
        move |folder: &Path| {
            process(folder, child, Origin::Spawn { from: first() }, None);
            std::fs::create_dir_all(folder.join("p5000.1/t5001")).unwrap();
            list(folder);
            let gone = folder.join(gone);
            if gone.is_dir() { std::fs::remove_dir_all(gone).unwrap() } else { std::fs::remove_file(gone).unwrap() }
        }
    };
    lacks(|_| {}, listed("p5000.1"), &["process 5000.1, which recording.json lists"], &[]);
    let thread = "thread 5001 of process 5000.1, which recording.json lists";
    lacks(|_| {}, listed("p5000.1/t5001"), &[thread], &[]);
    let last = |log: &mut Log| log.meta.ending = Ending::Unknown;
    let interval = "interval 1 of thread 4242, which recording.json lists";
    lacks(last, listed("p4242/t4242/00000001.bni"), &[interval], &[]);
}

#[test]
fn what_is_listed_may_go_on() {
    let fewer = |log: &mut Log| {
        let threads = [(Tid(PID), 1)].into_iter().collect();
        log.meta.contents = Some(Contents([(PID.to_string(), threads)].into_iter().collect()));
    };
    lacks(fewer, |folder| process(folder, Pid(5000).into(), fork(), None), &[], &[]);
}

#[test]
fn the_first_process() {
    lacks(
        |log| log.meta.pid = Some(PID),
        |folder| std::fs::remove_dir_all(folder.join("p4242")).unwrap(),
        &["process 4242, the first one"],
        &[],
    );
    // Killed before it had a folder.
    let killed = |log: &mut Log| log.meta.ending = Ending::Unknown;
    lacks(
        killed,
        |folder| std::fs::remove_dir_all(folder.join("p4242")).unwrap(),
        &[],
        &["process 4242, the first one"],
    );
}

#[test]
fn what_a_process_is() {
    let nobody = |folder: &Path| std::fs::remove_file(folder.join("p4242/process.json")).unwrap();
    // Nor is it known then that this is the first process, and how it ended.
    lacks(|_| {}, nobody, &["process.json of process 4242"], &[]);
}

#[test]
fn where_a_process_came_from() {
    let orphan = |folder: &Path| process(folder, Pid(5000).into(), Origin::Spawn { from: Pid(4999).into() }, None);
    lacks(|_| {}, orphan, &["process 4999, from which process 5000 came"], &[]);
}

#[test]
fn forked_children() {
    const FORK: u64 = 57;
    const CLONE: u64 = 56;
    let what = "process 5000, which thread 4242 forked at instruction 1 of interval 1";
    lacks(|log| before_the_end(log, call(FORK, 0, 5000)), nothing, &[what], &[]);
    lacks(|log| before_the_end(log, call(CLONE, 0x1200011, 5000)), nothing, &[what], &[]);
    let there = |folder: &Path| process(folder, Pid(5000).into(), fork(), None);
    lacks(|log| before_the_end(log, call(FORK, 0, 5000)), there, &[], &[]);
    // A call that failed; a thread that never ran; a child of vfork that executed nothing.
    for record in [call(FORK, 0, -11), call(CLONE, 0x1_0000, 5000), call(CLONE, 0x4111, 5000)] {
        lacks(|log| before_the_end(log, record), nothing, &[], &[]);
    }
    // In a pid namespace of its own it has another id.
    lacks(
        |log| before_the_end(log, call(FORK, 0, 5000)),
        |folder| process(folder, Pid(1).into(), fork(), None),
        &[],
        &[],
    );
    // Another one's child is not it.
    let other = Origin::Fork { from: Pid(5001).into(), code_pages: 0 };
    let others = |folder: &Path| {
        process(folder, Pid(5001).into(), Origin::Spawn { from: first() }, None);
        process(folder, Pid(5000).into(), other, None);
    };
    lacks(|log| before_the_end(log, call(FORK, 0, 5000)), others, &[what], &[]);
    // Its id was used by one that is there, and again by one that is not.
    let twice = |log: &mut Log| {
        before_the_end(log, call(FORK, 0, 5000));
        before_the_end(log, call(FORK, 0, 5000));
    };
    lacks(twice, there, &["process 5000, which"], &[]);
}

#[test]
fn a_child_may_be_killed_as_it_begins() {
    let cut = |log: &mut Log| {
        log.meta.ending = Ending::Killed { signal: 9 };
        before_the_end(log, call(57, 0, 5000));
        records(log, 1).pop();
    };
    lacks(cut, nothing, &[], &["process 5000, which thread 4242 forked"]);
    // Its folder is there, but not who it is.
    lacks(cut, |folder| std::fs::create_dir(folder.join("p5000")).unwrap(), &[], &[]);
}

/// With the list, what is missing without having been there was never recorded.
#[test]
fn what_was_never_there() {
    let unseen = |log: &mut Log| {
        before_the_end(log, call(57, 0, 5000));
        ends_with(log, EndReason::Exec);
    };
    let expected = ["process 5000, which thread 4242 forked", "the program that thread 4242 executed"];
    lacks(unseen, list, &[], &expected);
    let was_there = |folder: &Path| {
        for id in [ProcessId::from(Pid(5000)), ProcessId { pid: Pid(PID), program: 1 }] {
            std::fs::create_dir(folder.join(process_folder(id))).unwrap();
        }
        list(folder);
        std::fs::remove_dir(folder.join("p5000")).unwrap();
        std::fs::remove_dir(folder.join("p4242.1")).unwrap();
    };
    lacks(unseen, was_there, &expected, &[]);
}

#[test]
fn the_first_process_alone() {
    let alone = |log: &mut Log| {
        log.meta.follow = false;
        before_the_end(log, call(57, 0, 5000));
        ends_with(log, EndReason::Exec);
    };
    let note = "process 4242 was to be recorded alone, without the processes that it forked (1) and the program";
    lacks(alone, nothing, &[], &[note]);
}

#[test]
fn unrecorded_processes_are_named() {
    let unrecorded = |folder: &Path| process(folder, Pid(5000).into(), fork(), Some("it is setuid"));
    lacks(|_| {}, unrecorded, &[], &["process 5000, which was not recorded: it is setuid"]);
}

#[test]
fn executed_programs() {
    let exec = |log: &mut Log| ends_with(log, EndReason::Exec);
    let what = "the program that thread 4242 executed after instruction 97 of interval 1: ";
    lacks(exec, nothing, &[what], &[]);
    let killed = |log: &mut Log| {
        log.meta.ending = Ending::Unknown;
        exec(log);
    };
    lacks(killed, nothing, &[], &[what]);
    let next = ProcessId { pid: Pid(PID), program: 1 };
    let there = |folder: &Path| process(folder, next, Origin::Exec { from: first() }, Some("it is setuid"));
    lacks(exec, there, &[], &["process 4242.1, which was not recorded"]);
}

#[test]
fn threads_that_others_name() {
    let what = "thread 4243 of process 4242, which thread 4242 names at instruction 1 of interval 1";
    lacks(|log| before_the_end(log, dependency(4243, 0)), nothing, &[what], &[]);
    let other = |interval: u64, reason: Option<EndReason>| {
        move |log: &mut Log| {
            let mut thread = sample().threads.remove(1);
            thread.tail = None;
            thread.intervals[0].frames[0].extend(reason.map(|reason| end(1, reason, 4)));
            log.threads.push(thread);
            before_the_end(log, dependency(4243, interval));
        }
    };
    let (ended, interval) = (Some(EndReason::Terminated), "of thread 4243 of process 4242, which thread 4242 names");
    lacks(other(0, ended.clone()), nothing, &[], &[]);
    lacks(other(1, ended), nothing, &[&format!("interval 1 {interval}")], &[]);
    // It was cut off, and that has its finding.
    lacks(other(1, None), nothing, &[], &[]);
    // The one that executes another program goes on for a moment behind its last interval.
    let next = ProcessId { pid: Pid(PID), program: 1 };
    let there = |folder: &Path| process(folder, next, Origin::Exec { from: first() }, Some("it is setuid"));
    let not_recorded = ["process 4242.1, which was not recorded"];
    lacks(other(1, Some(EndReason::Exec)), there, &[], &not_recorded);
    lacks(other(2, Some(EndReason::Exec)), there, &[&format!("interval 2 {interval}")], &not_recorded);
}

#[test]
fn the_end_of_the_first_process() {
    let what = "the end of process 4242, which was killed by SIGSEGV: its log ends before, thread 4242 at instruction";
    // Between two intervals, and in one.
    lacks(|log| drop(log.threads[0].intervals.pop()), nothing, &[what], &[]);
    lacks(|log| drop(records(log, 1).pop()), nothing, &[what], &[]);
    let exited = |log: &mut Log| {
        log.meta.ending = Ending::Exited { status: 3 };
        log.threads[0].intervals.pop();
    };
    lacks(exited, nothing, &["the end of process 4242, which exited with status 3: its log ends before"], &[]);
    // SIGKILL lets nobody say anything, and without who waited for it nothing is known.
    for ending in [Ending::Killed { signal: 9 }, Ending::Unknown] {
        let killed = |log: &mut Log| {
            log.meta.ending = ending;
            records(log, 1).pop();
        };
        lacks(killed, nothing, &[], &[]);
    }
    lacks(
        |_| {},
        |folder| std::fs::remove_dir_all(folder.join("p4242/t4242")).unwrap(),
        &["the end of process 4242, which was killed by SIGSEGV: the log of it has none"],
        &[],
    );
    // There was no thread when it had ended, so none is gone.
    let never_began = |folder: &Path| {
        std::fs::remove_dir_all(folder.join("p4242/t4242")).unwrap();
        list(folder);
    };
    let killed = ["process 4242, which was killed by SIGSEGV before its first instruction"];
    lacks(|_| {}, never_began, &[], &killed);
}

#[test]
fn where_recording_ended_early() {
    for reason in [EndReason::Unsupported { why: "because".into() }, EndReason::LogStopped { why: "because".into() }] {
        let what = "what thread 4242 did after instruction 97 of interval 1, where recording ends: because";
        lacks(|log| ends_with(log, reason), nothing, &[what], &[]);
    }
}

#[test]
fn kept_intervals() {
    let keep = |log: &mut Log| {
        log.meta.keep = 2;
        log.threads[0].intervals.remove(0);
    };
    lacks(keep, nothing, &["interval 0 of thread 4242, of epoch 0; the last 2 epochs, up to 1, were kept"], &[]);
    let all = |log: &mut Log| drop(log.threads[0].intervals.remove(0));
    lacks(all, nothing, &["interval 0 of thread 4242, of which all were kept"], &[]);
    let less = |log: &mut Log| {
        log.meta.keep = 1;
        log.threads[0].intervals.remove(0);
    };
    lacks(less, nothing, &[], &[]);
}

#[test]
fn of_selected_processes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = whole();
    before_the_end(&mut log, call(57, 0, 5000));
    log.write(folder.path());
    process(folder.path(), Pid(6000).into(), Origin::Spawn { from: first() }, None);
    let recording = Recording::open(folder.path()).unwrap();
    let gaps = |pid: u32| bugnet_format::check::check_processes(&recording, &[Pid(pid).into()]).unwrap().gaps.len();
    assert_eq!((gaps(PID), gaps(6000)), (1, 0));
}
