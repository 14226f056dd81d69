//! Real recordings from which something was taken away, and those that lack something with reason.

use crate::common::{Place, stderr, stdout};
use std::fs;
use std::path::{Path, PathBuf};

const SCRIPT: &str = "(exit 1); /bin/echo one; sh -c 'kill -9 $$'; exit 3";

/// Records a shell script into `log`.
fn record(place: &Place, options: &[&str], script: &str) -> PathBuf {
    let output = place.run(&[&["record", "-q", "-o", "log"], options, &["sh", "-c", script]].concat());
    assert!(output.status.code().is_none_or(|code| code < 125), "{}", stderr(&output));
    place.path("log")
}

#[track_caller]
fn says(place: &Place, status: i32, words: &[&str]) {
    for command in ["replay", "replay --merged", "check"] {
        let args: Vec<_> = command.split(' ').chain(["log"]).collect();
        let output = place.run(&args);
        let text = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{command}: {text}");
        for word in words {
            assert!(text.contains(word), "{command} does not say {word}: {text}");
        }
        if status == 0 {
            assert!(!text.contains("missing: ") && !text.contains("not complete"), "{command}: {text}");
        }
    }
    let output = place.run(&["replay", "--output", "log"]);
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
}

/// Folders of processes, with their origins.
fn processes(log: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(log).unwrap() {
        let path = entry.unwrap().path();
        if let Ok(json) = fs::read(path.join("process.json")) {
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            found.push((path, json["origin"]["how"].as_str().unwrap().to_owned()));
        }
    }
    found.sort();
    found
}

/// Takes something away, looks, and puts it back.
#[track_caller]
fn without(place: &Place, gone: &Path, words: &[&str]) {
    let aside = place.path("aside");
    fs::rename(gone, &aside).unwrap();
    says(place, 5, words);
    fs::rename(&aside, gone).unwrap();
}

#[test]
fn processes_and_intervals_that_were_taken_away() {
    let place = Place::new();
    let log = record(&place, &["--interval", "20k"], SCRIPT);
    says(&place, 0, &[]);
    let processes = processes(&log);
    let names = |path: &Path| path.file_name().unwrap().to_str().unwrap()[1..].to_owned();
    let parents = |path: &Path| {
        let from = format!("\"pid\": {},", names(path));
        processes.iter().any(|(other, how)| {
            how == "fork" && fs::read_to_string(other.join("process.json")).unwrap().contains(&from)
        })
    };
    let mut tried = 0;
    for (path, how) in processes.iter().filter(|(path, _)| !parents(path)) {
        // A program that was executed, and a child that executed nothing.
        if how == "exec" || how == "spawn" || how == "fork" {
            without(&place, path, &["missing: ", names(path).split('.').next().unwrap()]);
            tried += 1;
        }
        // The last interval of each, also of those of whose end only the list knows.
        let thread = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
        let last = fs::read_dir(&thread)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "bni"))
            .max()
            .unwrap();
        without(&place, &last, &["missing: interval"]);
        without(&place, &thread, &["missing: thread"]);
    }
    assert!(tried >= 3, "{processes:?}");
    // The first process's end, without the list.
    let meta = log.join("recording.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    json.as_object_mut().unwrap().remove("contents");
    fs::write(&meta, json.to_string()).unwrap();
    let (first, _) = processes.iter().find(|(_, how)| how == "start").unwrap();
    let thread = first.join(first.file_name().unwrap().to_str().unwrap().replace('p', "t"));
    let last = fs::read_dir(&thread).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    without(&place, &last, &["missing: the end of process", "exited with status 3"]);
}

#[test]
fn what_lacks_something_with_reason() {
    // Killed by SIGKILL, with the children of which one goes on; intervals that are not kept; the first process alone; a child
    // that outlives the first process, or that is killed before it does anything.
    for (options, script) in [
        (&[][..], "(exit 1); sleep 0.3 & kill -9 $$"),
        (&["--interval", "20k", "--keep", "2"], SCRIPT),
        (&["--no-follow"], SCRIPT),
        (&["--no-follow"], "(exit 1); exec /bin/echo one"),
        (&[], "sleep 0.3 &"),
        (&[], "sleep 9 & kill -9 $!"),
        (&[], "exec /no/such/program"),
    ] {
        let place = Place::new();
        place.bugnet().args(["record", "-q", "-o", "log"]).args(options).args(["sh", "-c", script]).output().unwrap();
        says(&place, 0, &[]);
        // And when the others have ended.
        std::thread::sleep(std::time::Duration::from_millis(600));
        says(&place, 0, &[]);
    }
}

#[test]
fn why_a_log_was_cut_off_is_said() {
    let place = Place::new();
    record(&place, &[], "kill -9 $$");
    for args in [&["replay", "log"][..], &["replay", "--merged", "log"]] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("SIGKILL killed the program; exact up to there"), "{}", stdout(&output));
    }
}

/// What is good is printed, and what is not is named.
#[test]
fn output_before_and_behind_damage() {
    let place = Place::new();
    let wait = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done";
    let log = record(&place, &["--interval", "20k"], &format!("echo one; {wait}; echo two >&2; {wait}; echo three"));
    let output = place.run(&["replay", "--output", "log"]);
    assert_eq!(
        (output.status.code(), stdout(&output), stderr(&output)),
        (Some(0), "one\nthree\n".into(), "two\n".into())
    );
    let lines = stdout(&place.run(&["dump", "--json", "log"]));
    let intervals: Vec<_> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["record"]["stream"] == "stderr")
        .map(|line| line["interval"].as_u64().unwrap())
        .collect();
    let [two] = intervals[..] else { panic!("{intervals:?}") };
    let (process, _) = &processes(&log)[0];
    let name = process.file_name().unwrap().to_str().unwrap().replace('p', "t");
    let file = process.join(name).join(format!("{two:08}.bni"));
    let whole = fs::read(&file).unwrap();
    // In the header, in the frame's, and in the last of what is compressed.
    for at in [20, 70, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&file, damaged).unwrap();
        let output = place.run(&["replay", "--output", "log"]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(3), "one\nthree\n".into()));
        assert!(stderr(&output).starts_with("bugnet: ") && stderr(&output).contains("damaged"), "{}", stderr(&output));
        assert_eq!(place.run(&["replay", "log"]).status.code(), Some(3));
    }
}

#[test]
fn the_first_process_alone_is_said() {
    let place = Place::new();
    record(&place, &["--no-follow"], "(exit 1); exec /bin/echo one");
    says(&place, 0, &["note: ", "the processes that it forked (1) and the program that it executed last"]);
}
