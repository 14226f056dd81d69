//! The frozen sample of each version of the format is still read as what it was made from.

mod common;

use bugnet_format::FormatError;
use bugnet_format::check::{Invariant, Severity, check};
use bugnet_format::folder::Recording;
use bugnet_format::record::Record;
use bugnet_format::types::{Pid, ProcessId};
use std::path::Path;

#[test]
fn frozen_v3_reads_as_it_was_made() {
    let recording = Recording::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v3")).unwrap();
    let made = common::sample();
    let pid = ProcessId::from(Pid(made.meta.pid.unwrap()));
    assert_eq!(recording.meta, made.meta);
    assert_eq!(recording.modules(pid).unwrap(), made.modules);
    assert_eq!(recording.processes().unwrap(), [pid]);

    let code = recording.code(pid).unwrap();
    assert_eq!(code.broken, None);
    assert_eq!(code.pages.iter().map(|p| p.addr).collect::<Vec<_>>(), made.code);
    for (i, page) in code.pages.iter().enumerate() {
        assert_eq!(*page.bytes, common::page(i + 1));
    }

    let threads = recording.threads().unwrap();
    assert_eq!(threads.len(), made.threads.len());
    for (read, made) in threads.iter().zip(&made.threads) {
        assert_eq!((read.pid, read.tid), (pid, made.tid));
        assert_eq!(read.intervals.len(), made.intervals.len());
        for (number, made_interval) in read.intervals.iter().zip(&made.intervals) {
            let interval = read.interval(*number).unwrap();
            assert_eq!(interval.header, made_interval.header);
            assert!(!interval.damaged && interval.broken.is_none());
            let mut expected: Vec<Record<'_>> = made_interval.frames.concat();
            if let Some((_, tail)) = made.tail.as_ref().filter(|(header, _)| header.interval == *number) {
                expected.extend(tail.iter().cloned());
            }
            assert_eq!(interval.complete, matches!(expected.last(), Some(Record::End { .. })));
            let records: Vec<_> = interval.records().map(|placed| placed.unwrap().record).collect();
            assert_eq!(records, expected);
        }
    }
}

#[test]
fn frozen_v3_keeps_all_rules() {
    let recording = Recording::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v3")).unwrap();
    let report = check(&recording).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    let cut: Vec<_> = report.of(Severity::CutOff).map(|f| f.invariant).collect();
    assert_eq!(cut, [Invariant::EndPresent], "the second thread has no end");
    assert_eq!(report.intervals, 3);
}

#[test]
fn those_of_other_versions_are_refused() {
    for version in [1, 2] {
        let folder = format!("tests/data/v{version}");
        let opened = Recording::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
        let expected =
            |error: &FormatError| matches!(error, FormatError::Version { found, expected: 3, .. } if *found == version);
        assert!(opened.as_ref().is_err_and(expected), "{opened:?}");
    }
}
