//! bugnet stops with the program, and goes on or ends with it, whoever was stopped and continued. Needs the logger: build the
//! workspace first.

use crate::common::{Place, send, start};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A program that ends by itself, with status 3, once it has seen the file `go`.
const WAITS: &str = r#"exec perl -e '$| = 1; $SIG{CONT} = sub { print "continued\n" }; print "ready\n";
    select(undef, undef, undef, 0.01) until -e "go"; print "on\n"; exit 3'"#;

/// Waits until the process is in this state: `T` for stopped, for example.
fn wait_for_state(pid: u32, state: char) {
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        if stat.rsplit(") ").next().unwrap().starts_with(state) {
            return;
        }
        sleep(Duration::from_millis(5));
    }
}

/// The program that bugnet waits for: the child that is in its process group.
fn program_of(bugnet: &Child) -> u32 {
    let path = format!("/proc/{0}/task/{0}/children", bugnet.id());
    fs::read_to_string(path).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn signal(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_program_that_stops_itself() {
    let place = Place::new();
    let (mut child, mut out) = start(&place, "echo ready; kill -STOP $$; echo on; kill -STOP $$; exit 3");
    wait_for_state(child.id(), 'T');
    send(&child, "CONT");
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "on\n");
    wait_for_state(child.id(), 'T');
    send(&child, "CONT");
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_program_that_is_stopped_and_continued_alone() {
    let place = Place::new();
    // Again and again: bugnet may be anywhere on its way.
    for stop in ["STOP", "TSTP", "TTIN", "STOP", "STOP"] {
        let _ = fs::remove_file(place.path("go"));
        let (mut child, mut out) = start(&place, WAITS);
        let program = program_of(&child);
        for _ in 0..3 {
            signal(program, stop);
            wait_for_state(program, 'T');
            signal(program, "CONT");
        }
        signal(program, stop);
        wait_for_state(child.id(), 'T');
        signal(program, "CONT");
        fs::write(place.path("go"), "").unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("on\n"), "{stop}: {rest}");
        assert_eq!(child.wait().unwrap().code(), Some(3), "{stop}");
    }
}

#[test]
fn a_program_that_is_killed_while_it_is_stopped() {
    let place = Place::new();
    let (mut child, _out) = start(&place, WAITS);
    let program = program_of(&child);
    signal(program, "STOP");
    wait_for_state(child.id(), 'T');
    signal(program, "KILL");
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn what_is_sent_meanwhile_comes_afterwards() {
    let place = Place::new();
    let (mut child, _out) = start(&place, WAITS);
    let program = program_of(&child);
    signal(program, "STOP");
    wait_for_state(child.id(), 'T');
    send(&child, "TERM");
    signal(program, "CONT");
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn bugnet_leaves_no_watcher_behind() {
    let place = Place::new();
    let (mut child, _out) = start(&place, WAITS);
    let program = program_of(&child);
    signal(program, "STOP");
    wait_for_state(child.id(), 'T');
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    let children: Vec<u32> =
        fs::read_to_string(path).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let watchers: Vec<u32> = children.into_iter().filter(|pid| *pid != program).collect();
    assert_eq!(watchers.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    signal(program, "KILL");
    let ended = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    };
    while !watchers.iter().all(ended) {
        sleep(Duration::from_millis(5));
    }
}

/// An interactive shell on a terminal of its own.
struct Terminal {
    shell: Child,
    keyboard: ChildStdin,
    screen: BufReader<ChildStdout>,
    seen: String,
}

impl Terminal {
    fn new(place: &Place) -> Self {
        let mut shell = Command::new("script")
            .args(["--quiet", "--return", "--command", "bash --norc --noprofile -i", "/dev/null"])
            .current_dir(place.path(""))
            .envs([("BUGNET_DIR", place.logs()), ("BUGNET", env!("CARGO_BIN_EXE_bugnet").into())])
            .envs([("PS1", ""), ("TERM", "dumb"), ("LC_ALL", "C")])
            .env_remove("BUGNET_LIB")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keyboard = shell.stdin.take().unwrap();
        let screen = BufReader::new(shell.stdout.take().unwrap());
        let mut terminal = Self { shell, keyboard, screen, seen: String::new() };
        terminal.types("stty -echo; bind 'set enable-bracketed-paste off'; echo started=$?\n");
        terminal.shows("started=0");
        terminal
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen has shown this, behind what was waited for before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        self.seen.clear();
        while !self.seen.contains(text) {
            let mut byte = [0];
            assert_eq!(self.screen.read(&mut byte).unwrap(), 1, "no {text:?} in {}", self.seen);
            self.seen.push(char::from(byte[0]));
        }
    }
}

#[test]
fn job_control() {
    let place = Place::new();
    let mut terminal = Terminal::new(&place);
    fs::write(place.path("waits"), WAITS).unwrap();
    terminal.types("\"$BUGNET\" record --quiet sh waits\n");
    terminal.shows("ready\r\n");
    for _ in 0..2 {
        terminal.types("\x1a");
        terminal.shows("Stopped");
        terminal.types("fg; echo is=$?\n");
        terminal.shows("continued\r\n");
    }
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.shows("is=148");
    // The whole job by its number, in the background, as a shell does it.
    terminal.types("bg; echo bg=$?\n");
    terminal.shows("bg=0");
    terminal.types("kill -STOP %1; until jobs | grep -q Stopped; do :; done; echo stop''ped\n");
    terminal.shows("stopped");
    terminal.types("kill -CONT %1; touch go; wait %1; echo st''atus=$?\n");
    terminal.shows("status=3");
    terminal.types("exit\n");
    assert_eq!(terminal.shell.wait().unwrap().code(), Some(0));
}

#[test]
fn a_program_in_the_background_that_reads_from_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::new(&place);
    terminal.types("\"$BUGNET\" record --quiet sh -c 'read line; echo \"got $line\"; exit 4' &\n");
    terminal.types("until jobs | grep -q Stopped; do sleep 0.01; done; echo stop''ped\n");
    terminal.shows("stopped");
    terminal.types("fg; echo st''atus=$?\n");
    terminal.types("word\n");
    terminal.shows("got word");
    terminal.shows("status=4");
    terminal.types("exit\n");
    assert_eq!(terminal.shell.wait().unwrap().code(), Some(0));
}
