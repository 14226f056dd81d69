//! Logs that somebody made to do harm to who reads them.

use crate::by_hand::{self, CODE, PID};
use crate::common::{ANALYSES, Place, sample, stderr, stdout};
use bugnet_format::record::{EndReason, Record};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

const READERS: [&[&str]; 8] = [
    &["check"],
    &["info"],
    &["info", "--threads"],
    &["dump"],
    &["ps"],
    &["order"],
    &["replay", "--output"],
    &["replay"],
];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// All files and folders below a folder.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(inside(&path));
        }
        all.push(path);
    }
    all
}

/// Waits for a command's end; one that hangs is killed, and fails the test.
#[track_caller]
fn wait(mut child: Child) -> ExitStatus {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
fn run(place: &Place, args: &[&str]) -> Output {
    let mut command = place.bugnet();
    let (out, err) = (place.path("stdout"), place.path("stderr"));
    command.args(args).stdin(Stdio::null());
    command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let status = wait(command.spawn().unwrap());
    Output { status, stdout: fs::read(out).unwrap(), stderr: fs::read(err).unwrap() }
}

#[test]
fn no_link_pipe_or_device_is_followed() {
    let place = Place::new();
    let good = place.path("good");
    copy(&sample(), &good);
    fs::create_dir_all(good.join("elf")).unwrap();
    let log = place.path("log");
    for path in inside(&good) {
        let inner = path.strip_prefix(&good).unwrap();
        let is_folder = path.is_dir();
        for kind in ["link to what it should be", "link to a device", "pipe", "socket"] {
            copy(&good, &log);
            let changed = log.join(inner);
            if is_folder {
                fs::remove_dir_all(&changed).unwrap()
            } else {
                fs::remove_file(&changed).unwrap()
            }
            match kind {
                "link to what it should be" => symlink(&path, &changed).unwrap(),
                "link to a device" => symlink("/dev/zero", &changed).unwrap(),
                "pipe" => mkfifo(&changed, Mode::S_IRWXU).unwrap(),
                _ => drop(std::os::unix::net::UnixListener::bind(&changed).unwrap()),
            }
            for reader in READERS {
                let output = run(&place, &[reader, &["log"]].concat());
                let text = stdout(&output) + &stderr(&output);
                assert!(output.status.code().is_some_and(|code| code <= 5), "{reader:?} {}\n{text}", inner.display());
                // Copies of ELF files are for names alone.
                if reader == ["check"] && !inner.starts_with("elf") {
                    // A process's description is the subject of a rule.
                    let status = if inner.ends_with("process.json") { 1 } else { 3 };
                    assert_eq!(output.status.code(), Some(status), "{} is a {kind}\n{text}", inner.display());
                    assert!(text.contains(&*inner.to_string_lossy()), "{text}");
                }
            }
            fs::remove_dir_all(&log).unwrap();
        }
    }
}

/// Escape sequences, in the ways in which they can be written; other directions; long words; characters of many bytes.
fn bad_texts() -> Vec<String> {
    vec![
        "\x1b]0;title\x07\x1b[31m".into(),
        "\u{9b}2J\u{90}".into(),
        "\r\x08\x7f\n1 of 1 intervals exact".into(),
        "\u{202e}txt.exe\u{2066}".into(),
        "漢字".repeat(40_000),
        "x".repeat(100_000),
        "é".repeat(31) + "\x1b[m",
    ]
}

#[track_caller]
fn is_harmless(output: &Output, about: &str) {
    let text = stdout(output) + &stderr(output);
    assert!(output.status.code().is_some_and(|code| code <= 5), "{about}: {}\n{:.2000}", output.status, text);
    assert!(!text.contains("panicked"), "{about}: {text:.2000}");
    let steers =
        |c: char| c.is_control() && !"\n\t".contains(c) || ('\u{2028}'..='\u{202e}').contains(&c) || c == '\u{2066}';
    assert!(!text.contains(steers), "{about}: {:?}", text.chars().find(|c| steers(*c)));
}

#[test]
fn texts_do_not_steer_the_terminal() {
    for bad in bad_texts() {
        let place = Place::new();
        let log = place.path("log");
        let (mut meta, mut info) = (by_hand::meta(), by_hand::info());
        meta.program.clone_from(&bad);
        meta.args = vec![bad.clone()];
        meta.cwd.clone_from(&bad);
        meta.machine.cpu.clone_from(&bad);
        meta.machine.features = vec![bad.clone()];
        meta.cpu_level.clone_from(&bad);
        info.program.clone_from(&bad);
        info.args = vec![bad.clone()];
        let short: String = bad.chars().take(10_000).collect();
        let reason = EndReason::Unsupported { why: short.clone() };
        let end = Record::End { delta: 3, reason, regs: Box::new(by_hand::registers(CODE + 3)) };
        let records = vec![Record::Note { text: &short }, Record::SyscallData { arg: 1, bytes: short.as_bytes() }, end];
        by_hand::write(&log, &meta, &info, &[0x90; 64], &[(PID, records)]);
        // One that says why it is not recorded.
        let mut other = by_hand::info();
        other.unrecorded = Some(bad.clone());
        other.origin = bugnet_format::process::Origin::Spawn { from: bugnet_format::types::Pid(PID).into() };
        fs::create_dir(log.join("p5000")).unwrap();
        other.write(&log.join("p5000")).unwrap();
        for reader in READERS.into_iter().chain(ANALYSES) {
            is_harmless(&run(&place, &[reader, &["log"]].concat()), reader[0]);
        }
        for reader in [&["info", "-p", "5000"][..], &["info", "-p", "4711"], &["replay", "-p", "5000"]] {
            is_harmless(&run(&place, &[reader, &["log"]].concat()), reader[0]);
        }
        for reader in ["check", "info", "dump", "ps", "order", "replay"] {
            is_harmless(&run(&place, &[reader, "--json", "log"]), reader);
        }
        // Reasons of findings, and paths.
        fs::write(log.join("p5000/process.json"), format!("{{\"{}\"", bad.replace('\n', " "))).unwrap();
        fs::create_dir(log.join("p5000/t\x1b[31m")).unwrap();
        for reader in READERS {
            is_harmless(&run(&place, &[reader, &["log"]].concat()), reader[0]);
        }
        let named = "\x1b[31mlog";
        fs::rename(&log, place.path(named)).unwrap();
        is_harmless(&run(&place, &["check", named]), "check");
        is_harmless(&run(&place, &["check", "\x1b[31mnowhere"]), "check");
    }
}

/// A replay process is made of a stranger's log: its last words are no better than that.
#[test]
fn last_words_do_not_steer_the_terminal() {
    let place = Place::new();
    by_hand::write(
        &place.path("log"),
        &by_hand::meta(),
        &by_hand::info(),
        &[0x90; 64],
        &[(PID, vec![by_hand::end(3, CODE + 3)])],
    );
    let lib = place.path("lib");
    fs::create_dir(&lib).unwrap();
    for tool in ["replay-host", "libdynamorio.so", "libbugnet_replayer.so", "libbugnet_logger.so"] {
        place.executable(&format!("lib/{tool}"), b"#!/bin/sh\nprintf 'a\\033[31m\\233b\\n' >&2; exit 3\n");
    }
    for args in [&["replay", "log"][..], &["replay", "--json", "log"], &["replay", "--merged", "log"]] {
        let output = place.bugnet().env("BUGNET_LIB", &lib).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{args:?}: {output:?}");
        is_harmless(&output, "replay");
        let text = stdout(&output) + &stderr(&output);
        assert!(text.contains("ended with status 3") && text.contains("[31m"), "{text}");
    }
}

/// `jmp` to itself, for some thousand years.
fn endless(place: &Place) {
    let full =
        Record::End { delta: 1 << 60, reason: EndReason::Exit { status: 0 }, regs: Box::new(by_hand::registers(CODE)) };
    by_hand::write(&place.path("log"), &by_hand::meta(), &by_hand::info(), &[0xeb, 0xfe], &[(PID, vec![full])]);
}

#[test]
fn a_replay_that_does_not_end_is_ended() {
    let place = Place::new();
    endless(&place);
    for reader in [&["replay"][..], &["replay", "--merged"], &["code", "--at", "0x401000"]] {
        let output = run(&place, &[reader, &["--timeout", "1", "log"]].concat());
        let text = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{reader:?}: {text}");
        assert!(text.contains("thread 4711 interval 0: the replay took longer than 1 s"), "{reader:?}: {text}");
    }
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let children = tasks.flatten().map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    children.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()).collect()
}

fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn interrupting_ends_all_replay_processes() {
    let place = Place::new();
    endless(&place);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut command = place.bugnet();
        let bugnet = command.args(["replay", "log"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let replaying = loop {
            let found = children(bugnet.id());
            // The replay process has become what replays.
            if let [found] = found[..]
                && fs::read_to_string(format!("/proc/{found}/comm")).is_ok_and(|name| name.starts_with("replay-host"))
            {
                break found;
            }
            assert!(Instant::now() < end, "no replay process");
            std::thread::sleep(Duration::from_millis(5));
        };
        kill(Pid::from_raw(bugnet.id().cast_signed()), signal).unwrap();
        assert_eq!(wait(bugnet).signal(), Some(signal as i32));
        while is_running(replaying) {
            assert!(Instant::now() < end, "the replay process goes on after {signal}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
