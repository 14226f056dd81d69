//! A gdb that is spoken to as an IDE does (GDB/MI, over pipes), and how long its answers take.

use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long one answer is waited for.
const PATIENCE: Duration = Duration::from_secs(900);
/// Lines that are kept for a message.
const KEPT: usize = 20;

/// A running gdb, killed when dropped.
pub struct Gdb {
    child: Child,
    input: ChildStdin,
    lines: Receiver<(Instant, String)>,
    token: u64,
    /// It has kept silent: it is not waited for again.
    is_silent: bool,
    /// What it said last.
    said: VecDeque<String>,
}

/// What gdb said to a command.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// What it printed for people.
    pub text: String,
    /// What it complained of.
    pub complaints: String,
    /// The record that ended it: `^done...` or `*stopped...`; nothing of the first prompt.
    pub record: String,
    /// Seconds from the command to that record, or from the start to the first prompt.
    pub seconds: f64,
}

impl Gdb {
    /// Starts it, and waits for its first prompt.
    ///
    /// # Errors
    /// It does not start, or ends before.
    pub fn start(mut command: Command) -> Result<(Self, Answer)> {
        let start = Instant::now();
        command.env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().with_context(|| format!("starting {}", command.get_program().display()))?;
        let (input, output) = (child.stdin.take().context("no stdin")?, child.stdout.take().context("no stdout")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || listen(BufReader::new(output), &sender));
        let mut gdb = Self { child, input, lines, token: 0, is_silent: false, said: VecDeque::new() };
        let answer = gdb.until(start, |line| line.trim_end() == "(gdb)")?;
        Ok((gdb, answer))
    }

    /// Has it execute a command that people type, and waits until that is done.
    ///
    /// # Errors
    /// gdb refuses it, or is gone.
    pub fn console(&mut self, command: &str) -> Result<Answer> {
        self.ask(&format!("-interpreter-exec console \"{}\"", command.replace('\\', "\\\\").replace('"', "\\\"")))
    }

    /// Has it execute a command of GDB/MI, and waits until that is done.
    ///
    /// # Errors
    /// As for [`Self::console`].
    pub fn ask(&mut self, command: &str) -> Result<Answer> {
        let start = self.send(command)?;
        let done = format!("{}^", self.token);
        let answer = self.until(start, |line| line.starts_with(&done))?;
        self.check(command, &answer)?;
        Ok(answer)
    }

    /// Has it execute a command of GDB/MI that lets the program run, and waits until that stops.
    ///
    /// # Errors
    /// As for [`Self::console`].
    pub fn run(&mut self, command: &str) -> Result<Answer> {
        let start = self.send(command)?;
        let refused = format!("{}^error", self.token);
        let answer = self.until(start, |line| line.starts_with("*stopped") || line.starts_with(&refused))?;
        self.check(command, &answer)?;
        Ok(answer)
    }

    /// Ends it.
    ///
    /// # Errors
    /// It ended otherwise than by itself.
    pub fn end(mut self) -> Result<()> {
        self.send("-gdb-exit")?;
        let status = self.child.wait().context("waiting for gdb")?;
        ensure!(status.success(), "gdb ended with {status}");
        Ok(())
    }

    fn send(&mut self, command: &str) -> Result<Instant> {
        self.token += 1;
        let line = format!("{}{command}\n", self.token);
        let now = Instant::now();
        self.input.write_all(line.as_bytes()).with_context(|| format!("asking gdb for {command}"))?;
        Ok(now)
    }

    fn check(&self, command: &str, answer: &Answer) -> Result<()> {
        let Answer { record, complaints, .. } = answer;
        ensure!(!record.contains("^error"), "{command}: {complaints}{}", record.trim_end());
        Ok(())
    }

    /// Reads up to a line.
    fn until(&mut self, start: Instant, is_last: impl Fn(&str) -> bool) -> Result<Answer> {
        let (mut text, mut complaints) = (String::new(), String::new());
        ensure!(!self.is_silent, "gdb has kept silent before");
        loop {
            let (at, line) = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    self.is_silent = true;
                    bail!("gdb says nothing for {} s", PATIENCE.as_secs());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("gdb ended:\n{}", self.said.iter().map(String::as_str).collect::<String>())
                }
            };
            if is_last(&line) {
                return Ok(Answer { text, complaints, record: line, seconds: (at - start).as_secs_f64() });
            }
            let stream = |sign: &str| Some(plain(line.trim_end().strip_prefix(sign)?.strip_suffix('"')?));
            text += &stream("~\"").unwrap_or_default();
            complaints += &stream("&\"").unwrap_or_default();
            self.said.push_back(line);
            if self.said.len() > KEPT {
                self.said.pop_front();
            }
        }
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes lines on with the time at which they came.
fn listen(mut output: impl BufRead, sender: &Sender<(Instant, String)>) {
    let mut bytes = Vec::new();
    while let Ok(1..) = output.read_until(b'\n', &mut bytes) {
        let line = String::from_utf8_lossy(&bytes).into_owned();
        if sender.send((Instant::now(), line)).is_err() {
            return;
        }
        bytes.clear();
    }
}

/// A text of GDB/MI without its escapes.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match (c, if c == '\\' { chars.next() } else { None }) {
            (_, Some('n')) => '\n',
            (_, Some('t')) => '\t',
            (_, Some(escaped)) => escaped,
            (c, None) => c,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lose_their_escapes() {
        assert_eq!(plain(r#"1/0/5 \"a\"\tb\\c\n"#), "1/0/5 \"a\"\tb\\c\n");
    }

    #[test]
    fn answers_are_read_to_their_end() {
        // In gdb's place, something that answers one command.
        let script = r#"say() { printf '%s\n' "$1"; read line; }
            printf '%s\n' '~"before\n"'; say '(gdb) '; printf '%s\n' '~"@5\n"'; say '1^done'; say '2^error,msg="no"'"#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        let (mut gdb, first) = Gdb::start(shell).unwrap();
        assert_eq!(first.text, "before\n");
        let answer = gdb.console("when").unwrap();
        assert_eq!((answer.text.as_str(), answer.record.as_str()), ("@5\n", "1^done\n"));
        assert!(gdb.run("-exec-continue").unwrap_err().to_string().contains("msg=\"no\""));
        gdb.end().unwrap();
    }
}
