//! The exit statuses of the book's table (docs/src/exit-status.md), of each command that reads logs. (`record_errors` and `transparent` have those of
//! `record`, `readers` the death by SIGPIPE.)

use crate::by_hand::{self, CODE, PID};
use crate::common::{ANALYSES, Place, assert_fails, stderr, stdout};
use bugnet_format::record::{DependencyKind, Record};
use bugnet_format::types::{Addr, IntervalNo, Position, Tid};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

/// Commands that read logs, in all their ways, but for [`ANALYSES`].
const READERS: [&[&str]; 13] = [
    &["replay"],
    &["replay", "--output"],
    &["replay", "--merged"],
    &["replay", "--json"],
    &["info"],
    &["info", "--threads"],
    &["dump"],
    &["dump", "--order"],
    &["code", "--at", "0x401000"],
    &["check"],
    &["check", "--json"],
    &["order"],
    &["ps"],
];

#[track_caller]
fn ends_with(output: &Output, status: i32, words: &[&str]) {
    let text = stdout(output) + &stderr(output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

/// `nop`, then `nop` again.
fn nops(log: &Path, records: Vec<Record<'_>>) {
    by_hand::write(log, &by_hand::meta(), &by_hand::info(), &[0x90; 64], &[(PID, records)]);
}

#[test]
fn all_is_well() {
    let place = Place::new();
    nops(&place.path("log"), vec![by_hand::end(3, CODE + 3)]);
    for reader in READERS.into_iter().chain(ANALYSES) {
        ends_with(&place.run(&[reader, &["log"]].concat()), 0, &[]);
    }
}

#[test]
fn another_way_than_recorded() {
    let place = Place::new();
    nops(&place.path("log"), vec![by_hand::end(3, CODE + 4)]);
    ends_with(&place.run(&["replay", "log"]), 1, &["divergence"]);
    ends_with(&place.run(&["replay", "--merged", "log"]), 1, &["divergence"]);
    ends_with(&place.run(&["code", "--at", "0x401000", "log"]), 1, &["diverges"]);
    // There is no output to be had, so nothing was replayed.
    ends_with(&place.run(&["replay", "--output", "log"]), 0, &[]);
}

#[test]
fn a_broken_rule() {
    let place = Place::new();
    nops(&place.path("log"), vec![by_hand::end(3, CODE + 3), by_hand::end(0, CODE + 3)]);
    ends_with(&place.run(&["check", "log"]), 1, &["end-last"]);
}

#[test]
fn threads_that_wait_for_each_other() {
    let place = Place::new();
    let waits = |other: u32| Record::Dependency {
        delta: 1,
        kind: DependencyKind::Raw,
        block: Addr(0x1000),
        other: Tid(other),
        other_interval: IntervalNo(0),
        other_position: Position(2),
        implied: 0,
    };
    let thread = |tid: u32, other: u32| (tid, vec![waits(other), by_hand::end(2, CODE + 3)]);
    let threads = [thread(PID, PID + 1), thread(PID + 1, PID)];
    by_hand::write(&place.path("log"), &by_hand::meta(), &by_hand::info(), &[0x90; 64], &threads);
    for reader in [&["order"][..], &["dump", "--order"], &["replay", "--merged"]] {
        ends_with(&place.run(&[reader, &["log"]].concat()), 1, &["process 4711: "]);
    }
}

#[test]
fn wrong_use() {
    let place = Place::new();
    nops(&place.path("log"), vec![by_hand::end(3, CODE + 3)]);
    for reader in READERS.into_iter().chain(ANALYSES) {
        assert_fails(&place.run(&[reader, &["--no-such-option", "log"]].concat()), 2, &["--no-such-option"]);
        // This one shows all processes.
        if reader != ["ps"] {
            assert_fails(&place.run(&[reader, &["-p", "9", "log"]].concat()), 2, &["no process 9"]);
        }
    }
    assert_fails(&place.run(&["replay", "--thread", "9", "log"]), 2, &["4711"]);
    assert_fails(&place.run(&["replay", "--output", "--intervals", "7", "log"]), 2, &["4711"]);
    assert_fails(&place.run(&["replay", "--timeout", "0", "log"]), 2, &["--timeout"]);
    assert_fails(&place.run(&["dump", "--interval", "9", "log"]), 2, &["4711"]);
}

#[test]
fn no_log_or_a_damaged_one() {
    let place = Place::new();
    let good = |name: &str| {
        nops(&place.path(name), vec![by_hand::end(3, CODE + 3)]);
        place.path(name)
    };
    fs::write(place.path("file"), "no log").unwrap();
    fs::create_dir(place.path("empty")).unwrap();
    let meta = fs::read(good("cut").join("recording.json")).unwrap();
    fs::write(place.path("cut/recording.json"), &meta[..meta.len() / 2]).unwrap();
    fs::write(good("void").join("recording.json"), "").unwrap();
    fs::remove_file(good("folder").join("recording.json")).unwrap();
    fs::create_dir(place.path("folder/recording.json")).unwrap();
    let interval = "p4711/t4711/00000000.bni";
    fs::write(good("no-file").join("p4711/process.json"), "{").unwrap();
    for reader in READERS.into_iter().chain(ANALYSES) {
        let run = |log: &str| place.run(&[reader, &[log]].concat());
        assert_fails(&run("nowhere"), 3, &["no log at nowhere"]);
        assert_fails(&run("nowhere/else"), 3, &["no log at nowhere/else"]);
        assert_fails(&run("file"), 3, &["file is not a bugnet log: it is neither a folder nor"]);
        assert_fails(&run("file/else"), 3, &["file/else"]);
        assert_fails(&run("empty"), 3, &["empty is not a bugnet log", "recording.json"]);
        assert_fails(&run("cut"), 3, &["recording.json"]);
        assert_fails(&run("void"), 3, &["recording.json"]);
        assert_fails(&run("folder"), 3, &["recording.json", "a folder"]);
        assert_fails(&place.run(reader), 3, &["no log given"]);
    }
    for reader in READERS.iter().filter(|reader| reader[0] == "replay") {
        // Bytes that are no interval, and one with damage in its frame.
        fs::write(good("bytes").join(interval), "BUGNET").unwrap();
        let whole = fs::read(good("bit").join(interval)).unwrap();
        let mut bit = whole.clone();
        *bit.last_mut().unwrap() ^= 1;
        fs::write(place.path("bit").join(interval), bit).unwrap();
        ends_with(&place.run(&[reader, &["bit"][..]].concat()), 3, &["damaged"]);
        let mut header = whole;
        header[20] ^= 1;
        fs::write(good("header").join(interval), header).unwrap();
        ends_with(&place.run(&[reader, &["header"][..]].concat()), 3, &["checksum"]);
        for log in ["bytes", "bit", "header"] {
            fs::remove_dir_all(place.path(log)).unwrap();
        }
    }
    for reader in [&["ps"][..], &["info"], &["replay"]] {
        ends_with(&place.run(&[reader, &["no-file"]].concat()), 3, &["process.json"]);
    }
    // The latest one was deleted.
    fs::create_dir_all(place.logs()).unwrap();
    std::os::unix::fs::symlink("gone", place.logs().join("latest")).unwrap();
    assert_fails(&place.run(&["replay"]), 3, &["the latest one", "gone"]);
}

#[test]
fn not_here() {
    let place = Place::new();
    nops(&place.path("log"), vec![by_hand::end(3, CODE + 3)]);
    fs::create_dir(place.path("lib")).unwrap();
    for reader in [&["replay"][..], &["replay", "--output"], &["replay", "--merged"], &["code", "--at", "0x401000"]] {
        let output = place.bugnet().env("BUGNET_LIB", place.path("lib")).args(reader).arg("log").output().unwrap();
        // Nothing to replay where nothing was written.
        if reader.contains(&"--output") {
            ends_with(&output, 0, &[]);
        } else {
            ends_with(&output, 4, &["replay-host is missing"]);
        }
    }
}

/// Whoever may not read a log gets the system's word for it.
#[test]
fn what_the_system_refuses() {
    use std::os::unix::process::CommandExt;
    let place = Place::new();
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&place.path(""), 0o755);
    let bugnet = place.path("bugnet");
    fs::copy(env!("CARGO_BIN_EXE_bugnet"), &bugnet).unwrap();
    for (name, closed) in [("a", ""), ("b", "recording.json"), ("c", "p4711"), ("d", "p4711/process.json")] {
        let log = place.path(name);
        nops(&log, vec![by_hand::end(3, CODE + 3)]);
        mode(&log.join(closed), 0);
        for reader in [&["info"][..], &["check"], &["ps"], &["dump"]] {
            // `dump` needs no description of a process.
            if name == "d" && reader == ["dump"] {
                continue;
            }
            let mut command = std::process::Command::new(&bugnet);
            command.args(reader).arg(&log).current_dir("/");
            if nix::unistd::geteuid().is_root() {
                command.uid(65534).gid(65534);
            }
            // Another test may be starting a process, which has the copy open for writing until it executes something.
            let output = loop {
                match command.output() {
                    Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                    output => break output.unwrap(),
                }
            };
            assert_fails(&output, 4, &["Permission denied"]);
        }
        mode(&log.join(closed), 0o755);
    }
}

#[test]
fn not_complete() {
    let place = Place::new();
    let mut meta = by_hand::meta();
    meta.ending = bugnet_format::folder::Ending::Killed { signal: 15 };
    let full = Record::End {
        delta: 3,
        reason: bugnet_format::record::EndReason::Full,
        regs: Box::new(by_hand::registers(CODE + 3)),
    };
    by_hand::write(&place.path("log"), &meta, &by_hand::info(), &[0x90; 64], &[(PID, vec![full])]);
    let what = "missing: the end of process 4711, which was killed by SIGTERM";
    for reader in READERS.iter().filter(|reader| ["replay", "check"].contains(&reader[0])) {
        let json = reader.contains(&"--json");
        ends_with(
            &place.run(&[reader, &["log"][..]].concat()),
            5,
            &[if json { "the end of process 4711" } else { what }],
        );
    }
    for reader in [&["info"][..], &["dump"], &["ps"], &["order"]] {
        ends_with(&place.run(&[reader, &["log"]].concat()), 0, &[]);
    }
}
