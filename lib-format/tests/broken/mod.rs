//! A sound log, and what it takes to break it and to look at it then.
#![allow(dead_code, reason = "each test uses a part")]

pub mod light;

use super::common::{self, Log};
use bugnet_format::check::{Invariant, Report, Severity, check};
use bugnet_format::folder::Recording;
use bugnet_format::record::Record;
use std::collections::BTreeSet;
use std::path::Path;

pub const FIRST: &str = "p4242/t4242/00000000.bni";
pub const SECOND: &str = "p4242/t4242/00000001.bni";
pub const TAIL: &str = "p4242/t4242/tail";
pub const CODE: &str = "p4242/code.bnc";
pub const MODULES: &str = "p4242/modules.jsonl";

/// The sample's first thread alone: two whole intervals.
pub fn sound() -> Log {
    let mut log = common::sample();
    log.threads.truncate(1);
    log
}

pub fn records(log: &mut Log, interval: usize, frame: usize) -> &mut Vec<Record<'static>> {
    &mut log.threads[0].intervals[interval].frames[frame]
}

pub fn change(folder: &Path, file: &str, how: impl FnOnce(&mut Vec<u8>)) {
    let path = folder.join(file);
    let mut bytes = std::fs::read(&path).unwrap();
    how(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

pub fn cut(folder: &Path, file: &str, len: usize) {
    change(folder, file, |bytes| bytes.truncate(len));
}

pub fn checked(folder: &Path) -> Report {
    check(&Recording::open(folder).unwrap()).unwrap()
}

pub fn invariants(report: &Report, severity: Severity) -> BTreeSet<Invariant> {
    report.of(severity).map(|f| f.invariant).collect()
}
