//! Programs that run alike natively and recorded, whatever the surroundings.

use crate::bugnet::{INCOMPLETE, Workshop, binary, bugnet, must_pass, printed, run, same_bytes};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Starts two programs, prints what it finds, and ends with a status of its own.
pub const PROGRAM: &str = "umask; ulimit -f; ulimit -v; ulimit -d; ulimit -n; ulimit -s; /bin/true; echo $?; \
    /bin/ls -d /; echo $?; (exit 7); echo $?; exit 3";

/// Whether the tests are run by root.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A command that leads into a mount namespace.
#[must_use]
pub fn namespace() -> &'static str {
    if is_root() { "unshare --mount" } else { "unshare --user --map-root-user --mount" }
}

/// A folder in which things are recorded.
#[derive(Debug)]
pub struct Place {
    /// The folder.
    pub folder: PathBuf,
    /// The `bugnet` that records.
    pub bugnet: PathBuf,
    /// The log.
    pub log: PathBuf,
}

impl Place {
    /// In a workshop.
    ///
    /// # Errors
    /// bugnet is not built.
    pub fn new(workshop: &Workshop) -> Result<Self> {
        Ok(Self { folder: workshop.path.clone(), bugnet: binary()?, log: workshop.path.join("log") })
    }

    /// Runs a shell line in which `$RECORD` stands before a program: once empty, once as bugnet, quietly. Both must end alike, and
    /// print the same to standard output. Returns the second run; its log is there.
    ///
    /// # Errors
    /// They differ.
    pub fn alike(&self, line: &str) -> Result<Output> {
        let run = |record: &str| {
            let mut shell = Command::new("timeout");
            shell.args(["300", "bash", "-c", line]).current_dir(&self.folder).env("RECORD", record);
            run(shell.env("PROGRAM", PROGRAM).stdin(Stdio::null()))
        };
        let native = run("")?;
        let _ = fs::remove_dir_all(&self.log);
        let _ = fs::remove_file(&self.log);
        let record = format!("{} record --quiet -o {} --", self.bugnet.display(), self.log.display());
        let recorded = run(&record)?;
        let about = || format!("{line}\n--- recorded\n{}", printed(&recorded));
        ensure!(native.status == recorded.status, "{} natively, {} with {}", native.status, recorded.status, about());
        same_bytes("standard output", &native.stdout, &recorded.stdout).with_context(about)?;
        Ok(recorded)
    }

    /// What a command of bugnet says of the log.
    ///
    /// # Errors
    /// It fails.
    pub fn bugnet(&self, command: &str) -> Result<String> {
        let output = must_pass(&[command], &self.log)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs `bugnet COMMAND` on the log, which is sound as far as it goes; the exit status says whether it says that something is
    /// missing.
    ///
    /// # Errors
    /// It is not, or it does not.
    pub fn sound(&self, command: &str) -> Result<()> {
        let output = bugnet([command.as_ref(), self.log.as_os_str()])?;
        let missing = String::from_utf8_lossy(&output.stdout).lines().any(|line| line.starts_with("missing: "));
        let expected = if missing { INCOMPLETE } else { 0 };
        ensure!(
            output.status.code() == Some(expected),
            "`bugnet {command}` ended with {}\n{}",
            output.status,
            printed(&output)
        );
        Ok(())
    }

    /// All of the last recording is in its log, and replays.
    ///
    /// # Errors
    /// It is not.
    pub fn is_whole(&self, recorded: &Output) -> Result<()> {
        ensure!(!String::from_utf8_lossy(&recorded.stderr).contains("bugnet:"), "{}", printed(recorded));
        let check = self.bugnet("check")?;
        ensure!(check.contains("whole"), "{check}");
        let ps = self.bugnet("ps")?;
        ensure!(!ps.contains("not recorded"), "{ps}");
        self.bugnet("replay").map(drop)
    }

    /// A program was not recorded, which a message says, and the log, with this reason.
    ///
    /// # Errors
    /// They do not.
    pub fn is_unrecorded(&self, recorded: &Output, why: &str) -> Result<()> {
        let text = String::from_utf8_lossy(&recorded.stderr);
        let said = text.lines().any(|line| line.contains("is not recorded: ") && line.contains(why));
        ensure!(said, "it is not said that it is because of {why}\n{text}");
        self.sound("check")?;
        let ps = self.bugnet("ps")?;
        let noted = ps.lines().any(|line| line.contains("not recorded: ") && line.contains(why));
        ensure!(noted, "{ps}");
        Ok(())
    }
}
