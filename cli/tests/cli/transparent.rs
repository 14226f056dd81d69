//! A recorded program runs, and bugnet ends, as the program does alone. Needs the logger: build the workspace first.

use crate::common::{Place, send, start, stderr, stdout};
use bugnet_replay::tools::{Tool, Tools};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const BUGNET: &str = env!("CARGO_BIN_EXE_bugnet");

/// Runs a shell command line in which `$RECORD` stands before the program: once empty, once as bugnet. Both must end
/// alike with the same output; it is returned.
#[track_caller]
fn alike(place: &Place, line: &str, input: &str) -> Output {
    let run = |record: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(place.path("")).env("BUGNET_DIR", place.logs()).env_remove("BUGNET_LIB");
        let mut child = shell
            .env("RECORD", record)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Not every program reads it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    };
    let alone = run("");
    let recorded = run(&format!("{BUGNET} record --quiet --"));
    assert_eq!(stderr(&recorded), stderr(&alone));
    assert_eq!(stdout(&recorded), stdout(&alone));
    assert_eq!(recorded.status, alone.status);
    assert!(place.logs().join("latest/recording.json").is_file(), "nothing was recorded");
    recorded
}

#[test]
fn streams_status_arguments_and_folder() {
    let place = Place::new();
    let script = r#"$| = 1; print while <STDIN>; print STDERR "error\n"; print readlink "/proc/self/cwd";
        print map "<$_>", @ARGV; exit 7"#;
    let line = format!("exec $RECORD perl -e '{script}' zero '' 'a  b' -x");
    let output = alike(&place, &line, "input\n");
    assert_eq!(output.status.code(), Some(7));
    assert!(stdout(&output).starts_with("input\n/") && stdout(&output).ends_with("<zero><><a  b><-x>"));
    assert_eq!(stderr(&output), "error\n");
}

#[test]
fn environment() {
    let place = Place::new();
    let output = alike(&place, "exec env -i Z=1 A=2 LOGNAME= BUGNET_DIR=\"$BUGNET_DIR\" $RECORD env", "");
    assert!(stdout(&output).starts_with("Z=1\nA=2\nLOGNAME=\nBUGNET_DIR=/"));
}

#[test]
fn death_by_signal() {
    let place = Place::new();
    for signal in [1, 2, 6, 9, 11, 13, 15, 40] {
        // Not a shell: shells have handlers.
        let line = format!("exec $RECORD perl -e '$| = 1; print \"before\\n\"; kill {signal}, $$; sleep 1 while 1'");
        let output = alike(&place, &line, "");
        assert_eq!(output.status.signal(), Some(signal));
        assert_eq!(stdout(&output), "before\n");
        let json = fs::read(place.logs().join("latest/recording.json")).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["ending"]["signal"], signal);
    }
}

#[test]
fn bugnet_leaves_no_core_of_its_own() {
    let place = Place::new();
    let mut command = place.bugnet();
    let output = command.args(["record", "sh", "-c", "ulimit -c 0; kill -SEGV $$"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(11));
    assert!(!output.status.core_dumped());
}

#[test]
fn signals_ignored_by_whoever_started_it_stay_ignored() {
    let place = Place::new();
    let show = r#"exec $RECORD perl -e 'print map { "$_=" . ($SIG{$_} // "") . " " } qw(PIPE HUP CHLD INT)'"#;
    assert_eq!(
        stdout(&alike(&place, &format!("trap '' PIPE HUP INT; {show}"), "")),
        "PIPE=IGNORE HUP=IGNORE CHLD= INT=IGNORE "
    );
    alike(&place, show, "");
}

#[test]
fn descriptors() {
    let place = Place::new();
    for closed in ["<&-", ">&-", "2>&-", "<&- 2>&-", "3</dev/null 7</dev/null"] {
        // What is open, written to a file, since standard output may be closed.
        let line = format!(
            "$RECORD perl -e 'open F, \">>\", \"open\"; for (0..20) {{ print F \"$_ \" if -e \"/proc/self/fd/$_\" }}; print F \"\\n\"' {closed}; exit $?"
        );
        alike(&place, &line, "");
    }
    let lists = fs::read_to_string(place.path("open")).unwrap();
    let lists: Vec<_> = lists.lines().collect();
    assert_eq!(lists.len(), 10);
    for pair in lists.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

#[test]
fn scripts_and_path() {
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    let script = |name: &str, text: &str| place.executable(name, text.as_bytes());
    script("bin/show", "#!/usr/bin/perl -w\nprint join('|', $0, @ARGV, $^W), \"\\n\";\n");
    assert_eq!(stdout(&alike(&place, "PATH=\"$PWD/bin:$PATH\" $RECORD show a 'b c'", "")).matches('|').count(), 3);
    assert_eq!(stdout(&alike(&place, "$RECORD bin/show a", "")), "bin/show|a|1\n");
    script("chain", "#! ./bin/echo-all  one argument \n");
    script("bin/echo-all", "#!/bin/echo -e\n");
    let output = alike(&place, "$RECORD ./chain end", "");
    assert_eq!(stdout(&output), "./bin/echo-all one argument ./chain end\n");
}

#[test]
fn without_new_privileges() {
    let place = Place::new();
    let line = "exec setpriv --no-new-privs $RECORD grep NoNewPrivs /proc/self/status";
    assert_eq!(stdout(&alike(&place, line, "")), "NoNewPrivs:\t1\n");
}

#[test]
fn one_line_at_the_end() {
    let place = Place::new();
    let output = place.run(&["record", "-o", "log", "true"]);
    assert_eq!(output.status.code(), Some(0));
    let message = stderr(&output);
    assert_eq!(message.lines().count(), 1, "{message}");
    for words in ["instructions in 1 interval", "exit status 0", place.path("log").to_str().unwrap()] {
        assert!(message.contains(words), "no {words:?} in {message}");
    }
    // It is the latest one, though it lies elsewhere.
    assert_eq!(fs::read_link(place.logs().join("latest")).unwrap(), place.path("log"));
    let json: Value = serde_json::from_slice(&fs::read(place.path("log/recording.json")).unwrap()).unwrap();
    assert_eq!(json["ending"], serde_json::json!({ "how": "exited", "status": 0 }));
    assert_eq!(json["args"], serde_json::json!(["true"]));
    assert!(place.path(&format!("log/p{}", json["pid"])).is_dir());
}

#[test]
fn copies_of_elf_files() {
    let place = Place::new();
    for (args, copies) in
        [(&["record", "-o", "with", "true"][..], true), (&["record", "--no-pack", "-o", "without", "true"], false)]
    {
        assert_eq!(place.run(args).status.code(), Some(0));
        let folder = place.path(args[args.len() - 2]).join("elf");
        let count = fs::read_dir(folder).map_or(0, Iterator::count);
        assert_eq!(count > 0, copies, "{count}");
    }
}

#[test]
fn odd_log_paths() {
    let place = Place::new();
    for name in ["with space", "semi;colon", "quote'\"`s", "per%20cent", "schön"] {
        let output = place.run(&["record", "-o", name, "true"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(place.run(&["check", name]).status.code(), Some(0), "{name}");
    }
}

#[test]
fn a_program_that_runs_unrecorded_is_told() {
    let place = Place::new();
    let dynamorio = Tools::locate_for(Path::new(BUGNET), None).unwrap().path(Tool::DynamoRio).unwrap();
    fs::create_dir(place.path("lib")).unwrap();
    fs::copy(dynamorio, place.path("lib/libdynamorio.so")).unwrap();
    fs::write(place.path("lib/libbugnet_logger.so"), "no library").unwrap();
    let output = place.bugnet().env("BUGNET_LIB", place.path("lib")).args(["record", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("nothing was recorded"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(place.logs()).unwrap().count(), 0);
}

#[test]
fn signals_sent_to_bugnet_reach_the_program() {
    let place = Place::new();
    for signal in ["TERM", "HUP", "INT", "QUIT", "USR1", "USR2"] {
        let script = format!("trap 'echo got; exit 9' {signal}; echo ready; while :; do sleep 0.02; done");
        let (mut child, mut out) = start(&place, &script);
        send(&child, signal);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "got\n", "{signal}");
        assert_eq!(child.wait().unwrap().code(), Some(9), "{signal}");
    }
}

/// Records a shell script on a terminal of its own, and types `keys` once it has printed `ready`.
fn on_a_terminal(place: &Place, script: &str, keys: &[u8]) -> (Option<i32>, String) {
    // `script` starts the command with a shell, which might else stay, and end by the keys itself.
    let command = format!("exec {BUGNET} record --quiet sh -c '{script}'");
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("BUGNET_DIR", place.logs())
        .env_remove("BUGNET_LIB")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    let mut screen = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("ready") {
        assert_ne!(screen.read_line(&mut text).unwrap(), 0, "{text}");
    }
    keyboard.write_all(keys).unwrap();
    screen.read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), text.replace('\r', ""))
}

#[test]
fn a_terminal_is_one_for_the_program_too() {
    let place = Place::new();
    let (status, text) =
        on_a_terminal(&place, "echo ready; tty -s && read line && echo \"<$line>\"; exit 4", b"typed\n");
    assert_eq!(status, Some(4), "{text}");
    assert!(text.contains("<typed>"), "{text}");
}

#[test]
fn interrupt_keys_reach_the_program_once() {
    let place = Place::new();
    for (signal, key) in [("INT", b"\x03"), ("QUIT", b"\x1c")] {
        let script = format!(
            "n=0; trap \"n=\\$((n+1))\" {signal}; echo ready; while [ $n = 0 ]; do sleep 0.02; done; sleep 0.1; echo got $n; exit 5"
        );
        let (status, text) = on_a_terminal(&place, &script, key);
        assert_eq!(status, Some(5), "{text}");
        assert!(text.contains("got 1\n"), "{text}");
    }
}

#[test]
fn replay_verifies_and_prints_what_the_program_wrote() {
    let place = Place::new();
    let script = "$| = 1; print qq(out\\n); print STDERR qq(err\\n); print qq(end)";
    let recorded = place.run(&["record", "--quiet", "--interval", "1M", "perl", "-e", script]);
    let replayed = place.run(&["replay", "-j", "2"]);
    assert_eq!(replayed.status.code(), Some(0), "{}", stdout(&replayed));
    let output = |args: &[&str]| {
        let output = place.run(&[&["replay"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    assert_eq!((stdout(&recorded), stderr(&recorded)), ("out\nend".into(), "err\n".into()));
    assert_eq!(output(&["--output"]), ("out\nend".into(), "err\n".into()));
    assert_eq!(output(&["--output=stdout"]), ("out\nend".into(), String::new()));
    assert_eq!(output(&["--output=stderr"]), (String::new(), "err\n".into()));
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{parent}"))
    };
    pids.filter(is_child).collect()
}

#[test]
fn a_killed_replay_leaves_nothing_running() {
    let place = Place::new();
    place.run(&["record", "--quiet", "perl", "-e", "$n++ while $n < 3_000_000"]);
    let mut replay = place.bugnet().args(["replay", "-j", "1"]).stdout(Stdio::null()).spawn().unwrap();
    let started = loop {
        let started = children(replay.id());
        if !started.is_empty() {
            break started;
        }
        assert!(replay.try_wait().unwrap().is_none(), "it ended before a process was seen");
        sleep(Duration::from_millis(1));
    };
    replay.kill().unwrap();
    replay.wait().unwrap();
    let running = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    };
    for _ in 0..1000 {
        if !started.iter().any(running) {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("{started:?} still run");
}
