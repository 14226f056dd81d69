//! The states in which a kill may leave a log: none is an error, and what was recorded up to there can be read.

mod broken;
mod common;

use broken::{CODE, FIRST, MODULES, SECOND, TAIL, change, checked, cut, invariants, sound};
use bugnet_format::check::{Invariant, Severity};
use bugnet_format::complete::Gap;
use bugnet_format::folder::{Ending, Recording};
use bugnet_format::frame::{HEADER_SIZE, TailHeader};
use bugnet_format::types::{Addr, IntervalNo};
use common::{Log, encode};
use std::collections::BTreeSet;
use std::path::Path;

/// A state in which a kill leaves the files: its name in FORMAT.md, how to bring it about, what the checker says, and
/// how many intervals and records of the first thread can then be read.
type KilledState = (&'static str, fn(&mut Log), fn(&Path), &'static [Invariant], &'static [usize]);

const KILLED: &[KilledState] = &[
    ("no-process", |_| {}, |log| std::fs::remove_dir_all(log.join("p4242")).unwrap(), &[], &[]),
    (
        "process-new",
        |log| log.threads.clear(),
        |log| {
            std::fs::remove_file(log.join(CODE)).unwrap();
            std::fs::rename(log.join("p4242/process.json"), log.join("p4242/process.json.new")).unwrap();
        },
        &[],
        &[],
    ),
    ("no-thread", |log| log.threads.clear(), |log| std::fs::remove_file(log.join(CODE)).unwrap(), &[], &[]),
    (
        "interval-new",
        |log| {
            let records = log.threads[0].intervals.pop().unwrap().frames[0][..1].to_vec();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records));
        },
        |log| std::fs::write(log.join("p4242/t4242/00000001.new"), b"BUGN").unwrap(),
        &[Invariant::EndReason],
        &[1, 28],
    ),
    ("code-store-header", |log| log.threads.clear(), |log| cut(log, CODE, 7), &[], &[]),
    ("no-interval", |log| log.threads[0].intervals.clear(), |_| {}, &[], &[0]),
    ("interval-header", |_| {}, |log| cut(log, SECOND, 30), &[Invariant::HeaderWhole], &[1, 28]),
    (
        "interval-empty",
        |_| {},
        |log| cut(log, SECOND, HEADER_SIZE),
        &[Invariant::CheckpointFirst, Invariant::EndPresent],
        &[1, 28],
    ),
    (
        "frame-cut",
        |_| {},
        |log| change(log, SECOND, |file| file.truncate(file.len() - 5)),
        &[Invariant::FrameWhole, Invariant::CheckpointFirst, Invariant::EndPresent],
        &[1, 28],
    ),
    (
        "frame-cut-tail-whole",
        |log| {
            let records = log.threads[0].intervals[1].frames[0].clone();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records));
        },
        |log| change(log, SECOND, |file| file.truncate(file.len() - 5)),
        &[Invariant::FrameWhole],
        &[2, 28, 9],
    ),
    (
        "frame-written-tail-old",
        |log| {
            let records = log.threads[0].intervals[1].frames[0].clone();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records));
        },
        |_| {},
        &[],
        &[2, 28, 9],
    ),
    (
        "tail-in-use",
        |log| {
            let records = log.threads[0].intervals[1].frames.pop().unwrap();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..3].to_vec()));
        },
        |_| {},
        &[Invariant::EndPresent],
        &[2, 28, 3],
    ),
    (
        "interval-prepared",
        |log| {
            let records = log.threads[0].intervals[1].frames.pop().unwrap();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..3].to_vec()));
        },
        |log| std::fs::write(log.join("p4242/t4242/00000002.new"), [0; HEADER_SIZE]).unwrap(),
        &[Invariant::EndPresent],
        &[2, 28, 3],
    ),
    (
        "two-tails-in-use",
        |log| {
            let records = log.threads[0].intervals[1].frames.pop().unwrap();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 1 }, records[4..6].to_vec()));
            log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..4].to_vec()));
        },
        |_| {},
        &[Invariant::EndPresent],
        &[2, 28, 6],
    ),
    (
        "frame-cut-two-tails",
        |log| {
            let records = log.threads[0].intervals[1].frames.pop().unwrap();
            log.threads[0].intervals[1].frames.push(records[..4].to_vec());
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..4].to_vec()));
            log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(1), frame: 1 }, records[4..6].to_vec()));
        },
        |log| change(log, SECOND, |file| file.truncate(file.len() - 5)),
        &[Invariant::FrameWhole, Invariant::EndPresent],
        &[2, 28, 6],
    ),
    (
        "frame-written-other-tail",
        |log| {
            let records = log.threads[0].intervals[1].frames.pop().unwrap();
            log.threads[0].intervals[1].frames.push(records[..4].to_vec());
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..4].to_vec()));
            log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(1), frame: 1 }, records[4..6].to_vec()));
        },
        |_| {},
        &[Invariant::EndPresent],
        &[2, 28, 6],
    ),
    (
        "last-frame-in-tail",
        |log| {
            let last = log.threads[0].intervals[0].frames.pop().unwrap();
            let records = log.threads[0].intervals[1].frames.pop().unwrap();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..3].to_vec()));
            log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(0), frame: 1 }, last));
        },
        |_| {},
        &[Invariant::EndPresent],
        &[2, 28, 3],
    ),
    (
        "last-frame-cut",
        |log| {
            let last = log.threads[0].intervals[0].frames.last().unwrap().clone();
            log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(0), frame: 1 }, last));
        },
        |log| change(log, FIRST, |file| file.truncate(file.len() - 5)),
        &[Invariant::FrameWhole],
        &[2, 28, 9],
    ),
    (
        "next-interval-new",
        |log| {
            let last = log.threads[0].intervals[0].frames.pop().unwrap();
            let records = log.threads[0].intervals.pop().unwrap().frames[0][..1].to_vec();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(0), frame: 1 }, last));
            log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records));
        },
        |_| {},
        &[Invariant::EndReason],
        &[1, 28],
    ),
    (
        "other-tail-empty",
        |log| {
            let records = log.threads[0].intervals[1].frames.pop().unwrap();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..4].to_vec()));
            log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(1), frame: 1 }, vec![]));
        },
        |_| {},
        &[Invariant::EndPresent],
        &[2, 28, 4],
    ),
    (
        "tail-record-cut",
        |log| {
            let records = log.threads[0].intervals[1].frames.pop().unwrap();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..2].to_vec()));
        },
        // The bytes of a third record are there, but for its first.
        |log| {
            change(log, TAIL, |file| {
                let records = &common::sample().threads[0].intervals[1].frames[0];
                let (two, three) = (encode(&records[..2]).len(), encode(&records[..3]));
                file[64 + two + 1..64 + three.len()].copy_from_slice(&three[two + 1..]);
            });
        },
        &[Invariant::EndPresent],
        &[2, 28, 2],
    ),
    (
        "tail-header",
        |_| {},
        |log| std::fs::write(log.join(TAIL), [0; 4096]).unwrap(),
        &[Invariant::HeaderWhole],
        &[2, 28, 9],
    ),
    (
        "tail-kept",
        |log| log.threads[0].tail = Some((TailHeader { interval: IntervalNo(0), frame: 0 }, vec![])),
        |_| {},
        &[],
        &[2, 28, 9],
    ),
    ("next-interval-missing", |log| drop(log.threads[0].intervals.pop()), |_| {}, &[Invariant::EndReason], &[1, 28]),
    (
        "tail-of-interval-before",
        |log| {
            log.threads[0].intervals[1].frames.clear();
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(0), frame: 2 }, vec![]));
        },
        |_| {},
        &[Invariant::CheckpointFirst, Invariant::EndPresent],
        &[1, 28],
    ),
    (
        "code-store-new",
        |_| {},
        |log| std::fs::write(log.join(CODE.to_owned() + ".new"), b"BUGNET").unwrap(),
        &[],
        &[2, 28, 9],
    ),
    (
        "modules-new",
        |_| {},
        |log| std::fs::write(log.join(MODULES.to_owned() + ".new"), b"{").unwrap(),
        &[],
        &[2, 28, 9],
    ),
    (
        "code-store-cut",
        |log| log.code.push(Addr(0x5000)),
        |log| change(log, CODE, |file| file.truncate(file.len() - 3)),
        &[Invariant::FrameWhole],
        &[2, 28, 9],
    ),
    (
        "modules-cut",
        |_| {},
        |log| change(log, MODULES, |file| file.extend("{\"base\": \"\u{e9}".bytes().take(11))),
        &[Invariant::ModuleLine],
        &[2, 28, 9],
    ),
    ("meta-new", |_| {}, |log| std::fs::write(log.join("recording.json.new"), "{").unwrap(), &[], &[2, 28, 9]),
];

#[test]
fn what_a_kill_leaves_is_no_error_and_can_be_read() {
    for (name, edit, damage, expected, readable) in KILLED {
        let folder = tempfile::tempdir().unwrap();
        let mut log = sound();
        log.meta.ending = Ending::Unknown;
        edit(&mut log);
        log.write(folder.path());
        damage(folder.path());
        let report = checked(folder.path());
        assert!(report.is_sound(), "{name}: {:#?}", report.findings);
        // The other thread of the sample is not in these logs.
        let missing = |gap: &&Gap| !gap.expected && !gap.what.starts_with("thread 4243 of process 4242");
        assert_eq!(report.gaps.iter().find(missing), None, "{name}");
        assert_eq!(
            invariants(&report, Severity::CutOff),
            expected.iter().copied().collect(),
            "{name}: {:#?}",
            report.findings
        );
        let recording = Recording::open(folder.path()).unwrap();
        for pid in recording.processes().unwrap() {
            recording.modules(pid).unwrap();
        }
        let threads = recording.threads().unwrap();
        let mut read = Vec::new();
        for thread in &threads {
            recording.code(thread.pid).unwrap();
            read.push(thread.intervals.len());
            for interval in &thread.intervals {
                let interval = thread.interval(*interval).unwrap();
                assert!(!interval.damaged, "{name}");
                read.push(interval.records().count());
            }
        }
        assert_eq!(read, *readable, "{name}");
    }
}

#[test]
fn every_killed_state_of_the_format_page_is_tried() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../FORMAT.md")).unwrap();
    let section = page.split("\n## ").find(|s| s.starts_with("What a kill leaves")).expect("the section is there");
    let listed: BTreeSet<_> = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(listed, KILLED.iter().map(|state| state.0).collect());
}
