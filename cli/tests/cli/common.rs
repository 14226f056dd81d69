//! What the command line's tests share.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use tempfile::TempDir;

/// Those that replay, and print texts of the log beside what they found.
pub const ANALYSES: [&[&str]; 8] = [
    &["at", "end"],
    &["hits", "0x401000"],
    &["syscalls"],
    &["stats"],
    &["memcheck"],
    &["races"],
    &["deadlocks"],
    &["why"],
];

/// A temporary folder to work in, with a folder for logs in it.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// The default folder for logs.
    pub fn logs(&self) -> PathBuf {
        self.path("logs")
    }

    /// Makes an executable file.
    pub fn executable(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// bugnet in this place.
    pub fn bugnet(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bugnet"));
        command.current_dir(self.folder.path()).env("BUGNET_DIR", self.logs()).env_remove("BUGNET_LIB");
        command
    }

    /// Runs bugnet with these arguments.
    pub fn run(&self, args: &[&str]) -> Output {
        self.bugnet().args(args).output().unwrap()
    }
}

/// A small recording that the format crate keeps.
pub fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lib-format/tests/data/v3")
}

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) {
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

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts that bugnet failed with this exit status and a message that holds each of `words`.
#[track_caller]
pub fn assert_fails(output: &Output, status: i32, words: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{message}");
    assert!(message.starts_with("bugnet: ") || message.starts_with("error: "), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in {message}");
    }
    assert_eq!(stdout(output), "");
}

/// Starts recording a shell script, and waits until it has printed `ready`.
pub fn start(place: &Place, script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = place.bugnet();
    let mut child = command
        .args(["record", "--quiet", "sh", "-c", script])
        // Not the group of the test, whose signals would reach the program, too.
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, out)
}

pub fn send(child: &Child, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}
