//! `$BUGNET_MAX_SIZE`, and copies of ELF files that recordings share. Needs the logger: build the workspace first.

use crate::common::{Place, assert_fails, send, start, stderr, stdout};
use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files with these inode numbers and link counts, below a folder.
fn inodes(folder: &Path) -> Vec<(u64, u64)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    files.map(|metadata| (metadata.ino(), metadata.nlink())).collect()
}

fn recordings(place: &Place) -> Vec<PathBuf> {
    let paths = fs::read_dir(place.logs()).unwrap().map(|entry| entry.unwrap().path());
    let is_recording = |path: &PathBuf| path.join("recording.json").exists() && !path.is_symlink();
    let mut paths: Vec<_> = paths.filter(is_recording).collect();
    paths.sort();
    paths
}

fn record(place: &Place, limit: Option<&str>) -> String {
    let mut command = place.bugnet();
    if let Some(limit) = limit {
        command.env("BUGNET_MAX_SIZE", limit);
    }
    let output = command.args(["record", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn copies_are_shared() {
    let place = Place::new();
    // Two at a time, too.
    let mut two: Vec<_> = (0..2).map(|_| place.bugnet().args(["record", "-q", "true"]).spawn().unwrap()).collect();
    assert!(two.iter_mut().all(|child| child.wait().unwrap().success()));
    (0..2).for_each(|_| drop(record(&place, None)));
    let all = recordings(&place);
    assert_eq!(all.len(), 4);
    let copies: Vec<_> = all.iter().flat_map(|log| inodes(&log.join("elf"))).collect();
    let different: HashSet<_> = copies.iter().map(|(inode, _)| inode).collect();
    assert_eq!(different.len(), copies.len() / 4, "{copies:?}");
    // Removing one breaks no other, and the last one takes the copies along.
    fs::remove_dir_all(&all[0]).unwrap();
    assert_eq!(place.run(&["rm", all[1].to_str().unwrap()]).status.code(), Some(0));
    assert_eq!(inodes(&place.logs().join(".elf")).iter().map(|(_, links)| links).max(), Some(&3));
    for log in &all[2..] {
        assert_eq!(place.run(&["check", log.to_str().unwrap()]).status.code(), Some(0));
        assert_eq!(inodes(&log.join("elf")).len(), different.len());
    }
    assert_eq!(place.run(&["rm", "--all"]).status.code(), Some(0));
    assert_eq!(fs::read_dir(place.logs().join(".elf")).unwrap().count(), 0);
    // Elsewhere, a log has its own.
    assert_eq!(place.run(&["record", "-q", "-o", "log", "true"]).status.code(), Some(0));
    assert!(inodes(&place.path("log/elf")).iter().all(|(_, links)| *links == 1));
    assert!(!place.path(".elf").exists());
}

#[test]
fn the_oldest_make_room() {
    let place = Place::new();
    (0..4).for_each(|_| drop(record(&place, None)));
    let before = recordings(&place);
    assert!(!record(&place, Some("1G")).contains("removed"));
    assert_eq!(recordings(&place).len(), 5);
    // What they share does not go with any of them, so that more than one has to.
    let size: u64 = fs::read_dir(place.logs().join(".elf"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512)
        .sum();
    let own = 400 << 10;
    let said = record(&place, Some(&(size + own).to_string()));
    let after = recordings(&place);
    assert!(!after.is_empty() && after.len() < 5, "{said}");
    assert!(said.contains("removed") && said.contains("BUGNET_MAX_SIZE"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(before.iter().all(|log| !after.contains(log)), "the oldest go: {after:?}");
    // What was just made stays, whatever the limit.
    let said = record(&place, Some("1"));
    assert!(said.contains("more than BUGNET_MAX_SIZE allows"), "{said}");
    assert_eq!(recordings(&place).len(), 1);
    assert_eq!(place.run(&["check"]).status.code(), Some(0));
    // Silence is kept where it was asked for.
    let output = place.bugnet().env("BUGNET_MAX_SIZE", "1").args(["record", "-q", "true"]).output().unwrap();
    assert_eq!((stderr(&output).as_str(), recordings(&place).len()), ("", 1));
}

#[test]
fn what_is_in_use_stays() {
    let place = Place::new();
    let (mut child, mut out) = start(&place, "echo ready; while ! [ -e over ]; do sleep 0.02; done");
    let running = recordings(&place);
    record(&place, None);
    record(&place, Some("1"));
    let left = recordings(&place);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&running[0]));
    // Nor does the program's end depend on bugnet.
    send(&child, "KILL");
    child.wait().unwrap();
    record(&place, Some("1"));
    assert!(recordings(&place).contains(&running[0]));
    fs::write(place.path("over"), "").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
}

#[test]
fn a_wrong_limit_is_told() {
    let place = Place::new();
    let output = place.bugnet().env("BUGNET_MAX_SIZE", "lots").args(["record", "echo", "printed"]).output().unwrap();
    assert_fails(&output, 125, &["BUGNET_MAX_SIZE", "lots", "20G"]);
    assert_eq!(stdout(&output), "");
}
