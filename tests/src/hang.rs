//! A test that hangs says where: nextest ends it without a word, so shortly before, all that it has started is described and ended.

use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// So long a command takes at most. (nextest ends a test after 16 minutes: `.config/nextest.toml`.)
const LONGEST: Duration = Duration::from_secs(840);

/// As long as this is there, what is started is watched.
pub struct Watch(#[expect(dead_code, reason = "when it is dropped, the watcher ends")] Sender<()>);

impl Watch {
    /// Watches what this process starts from now on.
    #[must_use]
    pub fn begin() -> Self {
        let (held, watcher) = channel();
        std::thread::spawn(move || {
            if watcher.recv_timeout(LONGEST) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                for pid in descendants(std::process::id()) {
                    eprintln!("this hangs: {}", describe(pid));
                    // SAFETY: a signal for a process that this one has started.
                    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
                }
            }
        });
        Self(held)
    }
}

/// What a process has started, and what that has, the last ones first.
fn descendants(of: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Behind the name, which may have anything in it: state, parent.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = vec![of];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    found.split_off(1).into_iter().rev().collect()
}

/// What a process is, and where its threads are.
fn describe(pid: u32) -> String {
    let read = |path: &str| fs::read_to_string(format!("/proc/{pid}/{path}")).unwrap_or_default();
    let mut text = format!("process {pid}, {}\n", read("cmdline").replace('\0', " "));
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let tid = task.file_name().to_string_lossy().into_owned();
        let of = |what: &str| read(&format!("task/{tid}/{what}")).trim().to_owned();
        let stat = of("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |i: usize| fields.get(i).copied().unwrap_or("?");
        let (state, user, system) = (field(0), field(11), field(12));
        let (call, place) = (of("syscall"), of("wchan"));
        text += &format!("  thread {tid}: {state}, {user} and {system} ticks, call {call}, in {place}\n");
    }
    text
}
