//! Commands of the user's that say whether a run has failed: `--fail-if cmd:COMMAND`.

use super::condition::{Ended, status_and_signal};
use super::inherited::Inherited;
use super::streams::Captured;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// What a command says, as for `git bisect run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The run has failed; the command's exit status, 1 to 124.
    Failed(i32),
    /// It has not.
    Passed,
    /// Neither.
    Neither,
}

/// What commands find.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judge<'a> {
    /// What the program has printed.
    pub captured: Option<&'a Captured>,
    /// What this process was started with, and commands are, too.
    pub inherited: Option<&'a Inherited>,
}

impl Judge<'_> {
    /// Asks a command about a run.
    ///
    /// # Errors
    /// A sentence: it could not say.
    pub fn ask(&self, command: &str, run: &Ended<'_>) -> Result<Judged, String> {
        let (status, signal) = status_and_signal(run.ending);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(std::io::stderr());
        shell.env("BUGNET_LOG", run.log).env("BUGNET_RUN", run.number.to_string());
        shell.env("BUGNET_STATUS", status.to_string()).env("BUGNET_SIGNAL", signal);
        if let Some(captured) = self.captured {
            let [output, error] = captured.paths();
            shell.env("BUGNET_STDOUT", output).env("BUGNET_STDERR", error);
        }
        if let Some(inherited) = self.inherited.copied() {
            // SAFETY: system calls that set limits, masks and dispositions; nothing is allocated.
            unsafe { shell.pre_exec(move || inherited.restore_but_streams()) };
        }
        let ended =
            shell.status().map_err(|error| format!("cannot run the command {command} with /bin/sh: {error}"))?;
        match ended.code() {
            Some(0) => Ok(Judged::Passed),
            Some(125) => Ok(Judged::Neither),
            Some(status @ 1..125) => Ok(Judged::Failed(status)),
            _ => Err(format!("the command {command} could not say whether the run has failed: {ended}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::folder::Ending;
    use std::path::Path;

    #[test]
    fn what_commands_say() {
        let ask = |command: &str| {
            let run =
                Ended { ending: &Ending::Killed { signal: 11 }, timed_out: false, log: Path::new("/log"), number: 7 };
            Judge::default().ask(command, &run)
        };
        assert_eq!(ask("true"), Ok(Judged::Passed));
        assert_eq!(ask("exit 3"), Ok(Judged::Failed(3)));
        assert_eq!(ask("exit 125"), Ok(Judged::Neither));
        for cannot in ["exit 126", "no-such-command-anywhere", "exit 200", "kill -KILL $$"] {
            assert!(ask(cannot).is_err_and(|why| why.contains(cannot)), "{cannot}");
        }
        let found = "test $BUGNET_LOG,$BUGNET_STATUS,$BUGNET_SIGNAL,$BUGNET_RUN = /log,139,SIGSEGV,7";
        assert_eq!(ask(found), Ok(Judged::Passed));
    }
}
