//! The folder of a log is its owner's alone. Needs the logger: build the workspace first.

use crate::common::{Place, assert_fails, stderr, stdout};
use nix::unistd::{Uid, chown, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Asserts that a file or folder, and all in it, is for its owner who can use it; returns how many there are.
fn assert_private(path: &Path) -> usize {
    let mode = fs::symlink_metadata(path).unwrap().mode() & 0o7777;
    if !path.is_dir() {
        assert_eq!(mode, 0o600, "{}: {mode:o}", path.display());
        return 1;
    }
    assert_eq!(mode, 0o700, "{}: {mode:o}", path.display());
    1 + fs::read_dir(path).unwrap().map(|entry| assert_private(&entry.unwrap().path())).sum::<usize>()
}

#[test]
fn private_whatever_the_mask() {
    for mask in ["0000", "0022", "0777"] {
        let place = Place::new();
        // The second program lists the log while it grows, all files of which are then there.
        let script = "umask; /bin/true; exec find log -mindepth 1 -printf '%y %m %P\\n'";
        let line = format!("umask {mask}; exec \"$BUGNET\" record --quiet --interval 20k -o log -- sh -c \"{script}\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(place.path("")).env("BUGNET", env!("CARGO_BIN_EXE_bugnet"));
        let output = shell.env_remove("BUGNET_LIB").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
        let printed = stdout(&output);
        let mut lines = printed.lines();
        assert_eq!(lines.next(), Some(mask));
        let (mut tails, mut handover) = (0, 0);
        for line in lines {
            let fits = line.starts_with("d 700 ") || line.starts_with("f 600 ");
            assert!(fits, "with mask {mask}: {line}");
            tails += usize::from(line.ends_with("/tail"));
            handover += usize::from(line.ends_with(" .handover"));
        }
        assert!(tails > 0 && handover == 1, "{printed}");
        assert!(assert_private(&place.path("log")) > 10);
        assert_eq!(place.run(&["check", "log"]).status.code(), Some(0));
    }
}

#[test]
fn the_default_folder_is_private() {
    let place = Place::new();
    assert_eq!(place.run(&["record", "true"]).status.code(), Some(0));
    let log = place.logs().join("latest").canonicalize().unwrap();
    assert!(assert_private(&log) > 5);
    assert!(assert_private(&place.logs().join(".elf")) > 1);
    assert_eq!(fs::metadata(place.logs()).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn an_empty_folder_becomes_private() {
    let place = Place::new();
    let folder = place.path("log");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    // Where nothing is recorded, it is as it was.
    assert_fails(&place.run(&["record", "-o", "log", "--", "/"]), 126, &["directory"]);
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o777);
    assert_eq!(place.run(&["record", "-o", "log", "true"]).status.code(), Some(0));
    assert_private(&folder);
}

#[test]
fn no_link_is_followed() {
    let place = Place::new();
    fs::create_dir(place.path("real")).unwrap();
    symlink("real", place.path("link")).unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    for link in ["link", "link/", "./link/.", "dangling"] {
        let output = place.run(&["record", "-o", link, "echo", "printed"]);
        assert_fails(&output, 125, &["symbolic link", "-o", link.trim_end_matches(['/', '.'])]);
    }
    assert_eq!(fs::read_dir(place.path("real")).unwrap().count(), 0);
    assert!(!place.path("nowhere").exists());
}

#[test]
fn no_folder_of_another_user_is_taken() {
    let place = Place::new();
    // Only root can give a folder away; others find some of root's.
    let folder = if geteuid().is_root() {
        let folder = place.path("given");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        chown(&folder, Some(Uid::from_raw(65534)), None).unwrap();
        folder
    } else {
        ["/mnt", "/srv", "/media"].iter().map(|path| Path::new(path).to_owned()).find(|path| path.is_dir()).unwrap()
    };
    let path = folder.to_str().unwrap();
    assert_fails(&place.run(&["record", "-o", path, "echo", "printed"]), 125, &["another user", "-o", path]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
