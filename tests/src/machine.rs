//! A gdb that is spoken to as an IDE does (GDB/MI).

use crate::bugnet::binary;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// `bugnet debug`, and what its gdb has said.
#[derive(Debug)]
pub struct Machine {
    bugnet: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// All of it.
    pub said: String,
}

impl Machine {
    /// On a log, with options of `bugnet debug`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(gdb: &Path, log: &Path, options: &[&str]) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command.arg("debug").args(options).arg("--gdb").arg(gdb).arg(log).args(["--", "-nx", "-i=mi"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bugnet = command.process_group(0).spawn()?;
        let input = bugnet.stdin.take().context("no stdin")?;
        let output = BufReader::new(bugnet.stdout.take().context("no stdout")?);
        Ok(Self { bugnet, input, output, said: String::new() })
    }

    /// Says a line to gdb.
    ///
    /// # Errors
    /// gdb has gone.
    pub fn ask(&mut self, command: &str) -> Result<()> {
        Ok(writeln!(self.input, "{command}")?)
    }

    /// Reads on to the line that holds this.
    ///
    /// # Errors
    /// gdb ends without it.
    pub fn until(&mut self, wanted: &str) -> Result<String> {
        loop {
            let mut line = Vec::new();
            ensure!(self.output.read_until(b'\n', &mut line)? > 0, "gdb ended without {wanted}:\n{}", self.said);
            // A new gdb's own decorations may be cut into pieces.
            let line = String::from_utf8_lossy(&line).into_owned();
            self.said += &line;
            if line.contains(wanted) {
                return Ok(line);
            }
        }
    }

    /// As a terminal does with Ctrl-C, which it sends to all processes of the group.
    ///
    /// # Errors
    /// They have gone.
    pub fn interrupt(&self) -> Result<()> {
        Ok(killpg(Pid::from_raw(self.bugnet.id().try_into()?), Signal::SIGINT)?)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// It does not end well.
    pub fn end(mut self) -> Result<()> {
        self.ask("-gdb-exit")?;
        ensure!(self.bugnet.wait()?.success(), "{}", self.said);
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It fails only if it is gone already.
        let _ = self.bugnet.kill();
    }
}
