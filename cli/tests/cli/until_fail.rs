//! `bugnet record --until-fail`, `--keep-on fail` and `--fail-if`: what counts as a failure, what is kept, and what each run is given. Needs the logger:
//! build the workspace first.

use crate::common::{Place, assert_fails, stderr, stdout};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A shell script that counts its runs in the file `n`.
const COUNT: &str = "read n <n; n=$((n+1)); echo $n >n; ";

/// `bugnet record` of a script that counts its runs.
fn counting(place: &Place, options: &[&str], script: &str) -> Command {
    fs::write(place.path("n"), "0\n").unwrap();
    let mut command = place.bugnet();
    command.arg("record").args(options).args(["--no-pack", "--", "sh", "-c", &format!("{COUNT}{script}")]);
    command.stdin(Stdio::null());
    command
}

fn runs(place: &Place) -> u64 {
    fs::read_to_string(place.path("n")).unwrap().trim().parse().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn replayed(place: &Place, log: &str) -> String {
    let output = place.run(&["replay", "--output", log]);
    assert!(output.status.success(), "{log}: {}", stderr(&output));
    stdout(&output)
}

fn ending(place: &Place, log: &str) -> Value {
    let output = place.run(&["info", "--json", log]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["recording"]["ending"].clone()
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

#[test]
fn the_run_that_fails_is_kept_and_some_before_it() {
    let place = Place::new();
    let output =
        run(counting(&place, &["--until-fail", "--passing", "2", "-o", "out"], "echo run $n; test $n != 4 || exit 9"));
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    assert_eq!(stdout(&output), "run 1\nrun 2\nrun 3\nrun 4\n");
    assert_eq!(names(&place.path("out")), ["failing", "passing-1", "passing-2"]);
    for (log, printed) in [("failing", "run 4\n"), ("passing-1", "run 3\n"), ("passing-2", "run 2\n")] {
        assert_eq!(replayed(&place, &format!("out/{log}")), printed);
    }
    let out = place.path("out");
    let out = out.display();
    let paste = format!("bugnet why {out}/failing --good {out}/passing-1 --good {out}/passing-2\n");
    let message = stderr(&output);
    assert!(
        message.contains("run 4 has failed") && message.contains("exit status 9") && message.contains(&paste),
        "{message}"
    );
    // The latest recording is the one that is wanted.
    assert_eq!(fs::read_link(place.logs().join("latest")).unwrap(), place.path("out/failing"));
}

#[test]
fn no_run_fails() {
    let place = Place::new();
    let output = run(counting(&place, &["--until-fail", "--runs", "5"], "true"));
    assert_eq!(output.status.code(), Some(123), "{}", stderr(&output));
    assert!(stderr(&output).contains("none of 5 runs has failed"), "{}", stderr(&output));
    assert_eq!(runs(&place), 5);
    let kept = names(&place.logs()).into_iter().filter(|name| name.contains("-sh")).count();
    assert_eq!(kept, 3);
}

#[test]
fn death_by_a_signal_is_passed_on() {
    let place = Place::new();
    let output = run(counting(&place, &["-q", "--until-fail", "-o", "out"], "test $n != 2 || kill -ABRT $$"));
    assert_eq!(output.status.signal(), Some(6));
    assert_eq!(stderr(&output), "");
    assert_eq!(ending(&place, "out/failing")["signal"], 6);
}

#[test]
fn each_run_gets_the_same_input() {
    let place = Place::new();
    fs::write(place.path("input"), "first\nsecond\n").unwrap();
    let script = "read line; echo $line; test $n != 3";
    let from_file = run({
        let mut command = counting(&place, &["-q", "--until-fail", "-o", "file"], script);
        command.stdin(File::open(place.path("input")).unwrap());
        command
    });
    assert_eq!(stdout(&from_file), "first\nfirst\nfirst\n", "{}", stderr(&from_file));
    let mut piped = counting(&place, &["--until-fail", "-o", "pipe"], script);
    let mut child = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"first\nsecond\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "first\nfirst\nfirst\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("reading standard input to its end"), "{}", stderr(&output));
    assert_eq!(replayed(&place, "pipe/failing"), "first\n");
}

#[test]
fn only_what_is_named_is_a_failure() {
    let place = Place::new();
    let options = ["-q", "--until-fail", "--fail-if", "status:3", "--fail-if", "signal:USR1", "-o", "out"];
    let output = run(counting(&place, &options, "test $n != 1 || kill -TERM $$; test $n != 2 || exit 1; exit 3"));
    assert_eq!((output.status.code(), runs(&place)), (Some(3), 3));
    assert_eq!(ending(&place, "out/passing-1")["status"], 1);
    assert_eq!(ending(&place, "out/passing-2")["signal"], 15);
    // Where that is success, bugnet says so all the same.
    let output = run(counting(&place, &["-q", "--until-fail", "--fail-if", "status:0", "-o", "zero"], "exit $((3-n))"));
    assert_eq!((output.status.code(), runs(&place)), (Some(1), 3));
}

#[test]
fn a_command_judges() {
    let place = Place::new();
    let judge = "cmd:test -d $BUGNET_LOG || exit 99; test $BUGNET_STATUS = 0 || exit 98; test $BUGNET_RUN != 2 || exit 125; \
                 ! grep -q wrong $BUGNET_STDOUT && grep -q note $BUGNET_STDERR";
    let script = "echo note >&2; test $n != 4 || echo wrong";
    let output = run(counting(&place, &["-q", "--until-fail", "--fail-if", judge, "-o", "out"], script));
    assert_eq!((output.status.code(), runs(&place)), (Some(1), 4), "{}", stderr(&output));
    assert_eq!((stdout(&output), stderr(&output)), ("wrong\n".into(), "note\n".repeat(4)));
    // Nothing is kept of the second run.
    assert_eq!(names(&place.path("out")), ["failing", "passing-1", "passing-2"]);
    assert_eq!(replayed(&place, "out/failing"), "wrong\n");

    let output = run(counting(&place, &["-q", "--until-fail", "--fail-if", "cmd:exit 127", "-o", "none"], "true"));
    assert_fails(&output, 125, &["exit 127", "could not say", "run-1"]);
    assert!(place.path("none/run-1/recording.json").exists());
}

#[test]
fn what_takes_too_long_is_ended() {
    let place = Place::new();
    // What it waits for would never come, and neither the shell nor its child is left behind.
    let script = "test $n != 2 || { mkfifo fifo; echo $$ >pid; read line <fifo; }";
    let output = run(counting(&place, &["--until-fail", "--fail-if", "timeout:3", "-o", "out"], script));
    assert_eq!((output.status.code(), runs(&place)), (Some(124), 2), "{}", stderr(&output));
    assert!(stderr(&output).contains("longer than 3 s"), "{}", stderr(&output));
    assert_eq!(ending(&place, "out/failing")["signal"], 15);
    let pid = fs::read_to_string(place.path("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
    // Another failure is one, too.
    let output = run(counting(&place, &["-q", "--until-fail", "--fail-if", "timeout:30", "-o", "other"], "exit 5"));
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn a_recording_is_kept_on_failure_only() {
    let place = Place::new();
    let output = run(counting(&place, &["--keep-on", "fail"], "exit 0"));
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("is removed"), "{}", stderr(&output));
    assert!(names(&place.logs()).iter().all(|name| name.starts_with('.')), "{:?}", names(&place.logs()));
    let output = run(counting(&place, &["--keep-on", "fail", "-o", "kept"], "exit 4"));
    assert_eq!(output.status.code(), Some(4));
    assert!(place.path("kept/recording.json").exists());
    let output = run(counting(&place, &["--keep-on", "fail", "--fail-if", "status:5", "-o", "gone"], "exit 4"));
    assert_eq!(output.status.code(), Some(4));
    assert!(!place.path("gone").exists());
}

#[test]
fn interrupted_between_and_in_runs() {
    let place = Place::new();
    let mut command = counting(&place, &["--until-fail", "-o", "out"], "echo $n; test $n != 3 || exec sleep 1000");
    let mut child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "3\n" {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0);
    }
    // As the terminal does it: the program gets it, too.
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended by SIGINT in run 3"), "{}", stderr(&output));
    assert_eq!(names(&place.path("out")), ["interrupted", "passing-1", "passing-2"]);
    assert_eq!(replayed(&place, "out/interrupted"), "3\n");
}

#[test]
fn wrong_use() {
    let place = Place::new();
    let record = |options: &[&str]| place.run(&[&["record"], options, &["true"]].concat());
    assert_fails(&record(&["--fail-if", "status:1"]), 125, &["--until-fail", "--keep-on fail"]);
    assert_fails(&record(&["--runs", "3"]), 125, &["--until-fail"]);
    assert_fails(&record(&["--until-fail", "--runs", "0"]), 125, &["at least 1"]);
    assert_fails(&record(&["--until-fail", "--fail-if", "crash"]), 125, &["status:N", "cmd:COMMAND"]);
    assert_fails(&record(&["--until-fail", "--keep-on", "fail"]), 125, &["cannot be used with"]);
    assert_fails(&record(&["--chaos=x"]), 125, &["a seed is a number"]);
    fs::write(place.path("here"), "").unwrap();
    assert_fails(&record(&["--until-fail", "-o", "."]), 125, &["is not an empty folder"]);
}
