//! `bugnet ls` and `bugnet rm`: what is there is shown as it is, and what goes is what was named. Some need the logger: build the
//! workspace first.

use crate::common::{Place, assert_fails, copy, sample, send, start, stderr, stdout};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const WAITS: &str = "echo ready; read line <fifo; echo over";

/// A place with these recordings in the default folder, the sample each, a day apart; the last is the latest.
fn place_with(names: &[&str]) -> Place {
    let place = Place::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for (days, name) in names.iter().rev().enumerate() {
        let log = place.logs().join(name);
        copy(&sample(), &log);
        let meta = fs::read_to_string(log.join("recording.json")).unwrap();
        let mut meta: Value = serde_json::from_str(&meta).unwrap();
        meta["started"] = (now - 86_400 * days as u64 - 60).into();
        fs::write(log.join("recording.json"), meta.to_string()).unwrap();
    }
    symlink(names.last().unwrap(), place.logs().join("latest")).unwrap();
    place
}

fn listed(place: &Place) -> Vec<Value> {
    let output = place.run(&["ls", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    json["recordings"].as_array().unwrap().clone()
}

/// The names that are there, without those that are hidden, sorted.
fn names(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.logs()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn latest(place: &Place) -> PathBuf {
    fs::read_link(place.logs().join("latest")).unwrap()
}

#[track_caller]
fn assert_done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

#[test]
fn the_newest_comes_first() {
    let place = place_with(&["c", "a", "b"]);
    let all = listed(&place);
    assert_eq!(all.iter().map(|entry| &entry["name"]).collect::<Vec<_>>(), ["b", "a", "c"]);
    assert_eq!(all.iter().map(|entry| entry["latest"] == true).collect::<Vec<_>>(), [true, false, false]);
    assert!(all.iter().all(|entry| entry["state"] == "ended" && entry["ending"]["signal"] == 11), "{all:?}");
    assert!(all.iter().all(|entry| entry["size"].as_u64() > Some(4096)), "{all:?}");
    let text = assert_done(&place.run(&["ls"]));
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[1].starts_with("* b     killed by SIGSEGV"), "{text}");
    assert!(lines[2].starts_with("  a  ") && lines[2].contains(" 1 d  sample -x"), "{text}");
    let narrow = place.bugnet().env("COLUMNS", "50").arg("ls").output().unwrap();
    assert!(stdout(&narrow).lines().nth(1).unwrap().ends_with('…'), "{}", stdout(&narrow));
    let empty = Place::new();
    assert!(assert_done(&empty.run(&["ls"])).contains("bugnet record"), "a hint");
    assert_eq!(listed(&empty), Vec::<Value>::new());
}

#[test]
fn nothing_is_hidden() {
    let place = place_with(&["whole", "garbage", "other-version", "cut"]);
    let meta = |name: &str| place.logs().join(name).join("recording.json");
    fs::write(meta("garbage"), "{").unwrap();
    let json = fs::read_to_string(meta("other-version")).unwrap();
    let version = format!("\"format_version\":{}", bugnet_format::FORMAT_VERSION);
    fs::write(meta("other-version"), json.replace(&version, "\"format_version\":99")).unwrap();
    let json = fs::read_to_string(meta("cut")).unwrap();
    let mut json: Value = serde_json::from_str(&json).unwrap();
    json["ending"] = serde_json::json!({"how": "unknown"});
    fs::write(meta("cut"), json.to_string()).unwrap();
    // Killed before anything was in it.
    let begun = place.logs().join("20260101-000000.000-begun");
    fs::create_dir(&begun).unwrap();
    let long_ago = File::open(&begun).unwrap().set_modified(std::time::UNIX_EPOCH);
    assert!(long_ago.is_ok());
    // These are no recordings.
    fs::create_dir(place.logs().join("folder")).unwrap();
    fs::write(place.logs().join("file"), "text").unwrap();
    let all = listed(&place);
    let state = |name: &str| all.iter().find(|entry| entry["name"] == name).map(|entry| &entry["state"]);
    assert_eq!(state("whole").unwrap(), "ended");
    assert_eq!(state("garbage").unwrap(), "damaged");
    assert_eq!(state("other-version").unwrap(), "damaged");
    assert_eq!(state("cut").unwrap(), "cut-off");
    assert_eq!(state("20260101-000000.000-begun").unwrap(), "damaged");
    assert_eq!(all.len(), 5, "{all:?}");
    let text = assert_done(&place.run(&["ls"]));
    for words in ["damaged", "version 99", "cut off", "recording.json"] {
        assert!(text.contains(words), "no {words} in {text}");
    }
}

#[test]
fn what_is_named_goes() {
    let place = place_with(&["a", "b", "c", "d"]);
    copy(&sample(), &place.path("elsewhere"));
    let output = place.run(&["rm", "--dry-run", "a", "./elsewhere"]);
    assert!(assert_done(&output).contains("would remove"), "{}", stdout(&output));
    assert_eq!(names(&place), ["a", "b", "c", "d", "latest"]);
    let output = place.run(&["rm", "a", "./elsewhere", "a"]);
    assert_eq!(assert_done(&output).matches("removed ").count(), 2, "{}", stdout(&output));
    assert!(!place.path("elsewhere").exists());
    assert_eq!((names(&place), latest(&place)), (["b", "c", "d", "latest"].map(String::from).to_vec(), "d".into()));
    assert_done(&place.run(&["rm", "latest"]));
    assert_eq!(latest(&place), Path::new("c"));
    assert_eq!(place.run(&["info"]).status.code(), Some(0));
    assert_done(&place.run(&["rm", "--all"]));
    assert_eq!(names(&place), Vec::<String>::new());
    assert_fails(&place.run(&["info"]), 3, &["no log given", "bugnet record"]);
}

#[test]
fn the_old_go() {
    let place = place_with(&["a", "b", "c", "d", "e"]);
    assert_done(&place.run(&["rm", "--older-than", "80h"]));
    assert_eq!(names(&place), ["b", "c", "d", "e", "latest"]);
    assert_done(&place.run(&["rm", "--older-than", "1d", "--keep-last", "3"]));
    assert_eq!(names(&place), ["c", "d", "e", "latest"]);
    assert_done(&place.run(&["rm", "--keep-last", "1"]));
    assert_eq!(names(&place), ["e", "latest"]);
    for wrong in [&["rm"][..], &["rm", "-n"], &["rm", "--all", "e"], &["rm", "--older-than", "soon"]] {
        assert_fails(&place.run(wrong), 2, &["error: "]);
    }
    assert_eq!(names(&place), ["e", "latest"]);
}

#[test]
fn what_is_no_recording_stays() {
    let place = place_with(&["a"]);
    let home = place.path("home");
    fs::create_dir_all(home.join("p1")).unwrap();
    fs::write(home.join("letter"), "dear").unwrap();
    fs::write(place.path("file"), "text").unwrap();
    symlink(place.logs().join("a"), place.path("link")).unwrap();
    symlink("/", place.logs().join("root")).unwrap();
    for (name, words) in [
        ("home", "no recording"),
        ("file", "no recording"),
        ("..", "no recording"),
        ("/", "no recording"),
        ("link", "symbolic link"),
        ("link/", "symbolic link"),
        ("root", "symbolic link"),
        ("nowhere", "there is no recording at nowhere"),
    ] {
        assert_fails(&place.run(&["rm", name]), 3, &[words]);
    }
    // One that holds something else is refused as a whole.
    fs::write(place.logs().join("a/notes.txt"), "mine").unwrap();
    assert_fails(&place.run(&["rm", "a"]), 3, &["notes.txt"]);
    assert!(place.logs().join("a/recording.json").exists() && home.join("letter").exists());
    // What can go goes all the same.
    copy(&sample(), &place.logs().join("b"));
    let output = place.run(&["rm", "a", "b"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(names(&place), ["a", "latest", "root"]);
    // A link in a recording goes, and not what it leads to.
    copy(&sample(), &place.logs().join("b"));
    symlink(&home, place.logs().join("b/p4242/link")).unwrap();
    assert_done(&place.run(&["rm", "b"]));
    assert!(home.join("letter").exists());
}

#[test]
fn what_is_being_recorded_stays() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path("fifo")).status().unwrap().success());
    let (mut child, mut out) = start(&place, WAITS);
    let all = listed(&place);
    assert_eq!((all.len(), &all[0]["state"]), (1, &"recording".into()), "{all:?}");
    let name = all[0]["name"].as_str().unwrap().to_owned();
    assert!(assert_done(&place.run(&["ls"])).contains("being recorded"));
    assert_fails(&place.run(&["rm", &name]), 4, &["still being recorded"]);
    assert_fails(&place.run(&["rm", "--all"]), 4, &["still being recorded"]);

    // The program outlives bugnet, and writes on.
    send(&child, "KILL");
    child.wait().unwrap();
    assert_eq!(listed(&place)[0]["state"], "recording");
    assert_fails(&place.run(&["rm", &name]), 4, &["still being recorded"]);
    fs::write(place.path("fifo"), "go\n").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "over\n");
    while listed(&place)[0]["state"] == "recording" {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(listed(&place)[0]["state"], "cut-off");
    assert_done(&place.run(&["check", &name]));
    assert_done(&place.run(&["rm", &name]));
    assert_eq!(names(&place), Vec::<String>::new());
}

#[test]
fn what_is_being_read_stays() {
    let place = place_with(&["a"]);
    // A reader that waits for somebody to read what it prints.
    let full = vec![b' '; 1 << 20];
    let (reader, writer) = std::io::pipe().unwrap();
    let fill = writer.try_clone().unwrap();
    let filler = std::thread::spawn(move || drop(std::io::Write::write_all(&mut &fill, &full)));
    std::thread::sleep(Duration::from_millis(100));
    let mut dump = place.bugnet().args(["dump", "a"]).stdout(writer).spawn().unwrap();
    while place.run(&["rm", "-n", "a"]).status.code() == Some(0) {
        assert!(dump.try_wait().unwrap().is_none(), "it cannot have ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_fails(&place.run(&["rm", "a"]), 4, &["in use"]);
    let mut printed = Vec::new();
    let mut reader = reader;
    reader.read_to_end(&mut printed).unwrap();
    filler.join().unwrap();
    assert!(dump.wait().unwrap().success());
    assert_done(&place.run(&["rm", "a"]));
}
