//! The commands that read logs, on the format crate's sample log and on bad ones. None of it needs DynamoRIO.

use crate::common::{Place, assert_fails, copy, sample, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// A place with a copy of the sample in `log`, which is the latest.
fn place_with_log() -> Place {
    let place = Place::new();
    copy(&sample(), &place.logs().join("sample-0"));
    std::os::unix::fs::symlink("sample-0", place.logs().join("latest")).unwrap();
    std::os::unix::fs::symlink(place.logs().join("sample-0"), place.path("log")).unwrap();
    place
}

#[test]
fn info() {
    let place = place_with_log();
    let output = place.run(&["info"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for words in
        ["/usr/bin/sample", "sample -x", "2027-01-15T08:00:00Z", "killed by SIGSEGV", "alive where its log ends"]
    {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    let json: Value = serde_json::from_str(&stdout(&place.run(&["info", "--json", "log"]))).unwrap();
    assert_eq!(json["recording"]["ending"]["signal"], 11);
    let threads = json["threads"].as_array().unwrap();
    let sum: u64 = threads.iter().map(|t| t["instructions"].as_u64().unwrap()).sum();
    assert_eq!(json["instructions"], sum);
    assert_eq!(threads[0]["intervals"].as_array().unwrap().len(), 2);
    let files = fs::metadata(place.path("log/p4242/t4242/00000000.bni")).unwrap().len();
    assert_eq!(threads[0]["intervals"][0]["size"], files);
}

#[test]
fn dump() {
    let place = place_with_log();
    let text = stdout(&place.run(&["dump"]));
    let lines: Vec<Value> = stdout(&place.run(&["dump", "--json", "sample-0"]))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // A heading for each of the three intervals, and else the same records.
    assert_eq!(text.lines().count(), lines.len() + 3);
    assert_eq!(lines[0]["record"]["kind"], "checkpoint");
    assert!(lines.iter().any(|line| line["record"]["kind"] == "load"));

    let one: Vec<Value> = stdout(&place.run(&["dump", "--json", "--thread", "4242", "--interval", "1"]))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(one.iter().all(|line| line["tid"] == 4242 && line["interval"] == 1));
    let expected: Vec<_> = lines.into_iter().filter(|line| line["tid"] == 4242 && line["interval"] == 1).collect();
    assert_eq!(one, expected);
    assert_fails(&place.run(&["dump", "--thread", "1"]), 2, &["4242"]);
    assert_fails(&place.run(&["dump", "--interval", "9"]), 2, &["intervals 0 to 1"]);
}

#[test]
fn check() {
    let place = place_with_log();
    let output = place.run(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("cut off, sound up to there"), "{}", stdout(&output));

    let file = place.path("log/p4242/t4242/00000000.bni");
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, bytes).unwrap();
    let output = place.run(&["check", "log"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("error: frame-checksum"), "{}", stdout(&output));
    let json: Value = serde_json::from_str(&stdout(&place.run(&["check", "--json", "log"]))).unwrap();
    assert_eq!(json["sound"], false);
    assert!(json["findings"].as_array().unwrap().iter().any(|f| f["invariant"] == "frame-checksum"));
}

#[test]
fn bad_logs() {
    let place = place_with_log();
    fs::create_dir(place.path("folder")).unwrap();
    for command in ["replay", "info", "dump", "check"] {
        assert_fails(&place.run(&[command, "nowhere"]), 3, &["no log at nowhere"]);
        assert_fails(&place.run(&[command, "folder"]), 3, &["folder", "not a bugnet log"]);
    }
    let meta = place.path("log/recording.json");
    let json = fs::read_to_string(&meta).unwrap();
    let version = format!("\"format_version\": {}", bugnet_format::FORMAT_VERSION);
    fs::write(&meta, json.replace(&version, "\"format_version\": 99")).unwrap();
    for command in ["replay", "info", "dump", "check"] {
        assert_fails(&place.run(&[command]), 3, &["version 99"]);
    }
    fs::write(&meta, &json[..json.len() / 2]).unwrap();
    for command in ["replay", "info", "dump", "check"] {
        assert_fails(&place.run(&[command]), 3, &["recording.json"]);
    }
    let empty = Place::new();
    assert_fails(&empty.run(&["replay"]), 3, &["no log given", "bugnet record"]);
}

#[test]
fn replay_without_tools() {
    let place = place_with_log();
    fs::create_dir(place.path("lib")).unwrap();
    let output = place.bugnet().env("BUGNET_LIB", place.path("lib")).arg("replay").output().unwrap();
    assert_fails(&output, 4, &["replay-host is missing"]);
}

#[test]
fn wrong_use() {
    let place = place_with_log();
    assert_fails(&place.run(&["replay", "--intervals", "5..2"]), 2, &["--intervals"]);
    assert_fails(&place.run(&["replay", "--thread", "77"]), 2, &["4242"]);
    assert_fails(&place.run(&["replay", "-j", "0"]), 2, &["--jobs"]);
    assert_fails(&place.run(&["replay", "--output=screen"]), 2, &["stdout", "stderr"]);
    assert_fails(&place.run(&["explain"]), 2, &["explain"]);
}

#[test]
fn help_shows_examples_and_exit_status() {
    let place = Place::new();
    for command in ["replay", "info", "dump", "check"] {
        let output = place.run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        for word in ["Examples:", "Exit status:", "[LOG]"] {
            assert!(stdout(&output).contains(word), "{command} {word}");
        }
    }
    assert!(stdout(&place.run(&["--help"])).contains("Examples:"));
}

#[test]
fn a_broken_pipe_is_quiet() {
    let place = place_with_log();
    // More than a pipe holds, so that bugnet has to notice that nobody reads.
    let mut child = {
        let mut shell = std::process::Command::new("sh");
        let bugnet = env!("CARGO_BIN_EXE_bugnet");
        shell.args(["-c", &format!("while :; do {bugnet} dump --json log || exit $?; done")]);
        shell.current_dir(place.path("")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("checkpoint"));
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 13), "{:?}", output.status.signal());
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_full_disk_is_told() {
    let place = place_with_log();
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    for args in [&["dump"][..], &["dump", "--json"], &["info"], &["info", "--json"], &["check"]] {
        let output = place.bugnet().args(args).stdout(full()).output().unwrap();
        assert_fails(&output, 4, &["cannot write the result", "No space left"]);
    }
    // A message that cannot be printed is no reason to panic.
    let output = place.bugnet().args(["info", "nowhere"]).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}
