//! What counts as a failure of a run: `--fail-if`.

use super::judge::{Judge, Judged};
use super::summary::describe_ending;
use bugnet_format::folder::Ending;
use bugnet_format::signal;
use nix::sys::signal::Signal;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// One kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// An exit status; none for any but 0.
    Status(Option<i32>),
    /// Death by a signal; none for any.
    Signal(Option<i32>),
    /// The run takes longer.
    Timeout(Duration),
    /// A command of the user's says so.
    Command(String),
}

/// Longest time that a run may be given, in seconds: a hundred years.
const LONGEST: f64 = 3_153_600_000.0;

impl Condition {
    /// Parses `--fail-if`.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected status:N, status:nonzero, signal:NAME, signal:any, timeout:SECONDS or cmd:COMMAND";
        let (kind, what) = text.split_once(':').ok_or(expected)?;
        match (kind, what) {
            ("status", "nonzero") => Ok(Self::Status(None)),
            ("status", number) => {
                let status =
                    number.parse::<u8>().map_err(|_| "an exit status is a number from 0 to 255, or nonzero")?;
                Ok(Self::Status(Some(status.into())))
            }
            ("signal", "any") => Ok(Self::Signal(None)),
            ("signal", name) => signal(name).map(|signal| Self::Signal(Some(signal))),
            ("timeout", seconds) => {
                let seconds = seconds.parse().ok().filter(|seconds| (0.001..=LONGEST).contains(seconds));
                let seconds = seconds.ok_or("a timeout is a number of seconds, such as 60 or 0.5")?;
                Ok(Self::Timeout(Duration::from_secs_f64(seconds)))
            }
            ("cmd", "") => Err("cmd: is followed by a command for sh".into()),
            ("cmd", command) => Ok(Self::Command(command.to_owned())),
            _ => Err(expected.into()),
        }
    }
}

/// The number of a signal, given as `SEGV`, `SIGSEGV` or `11`.
fn signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    let number = text.parse().ok().filter(|number| (1..=64).contains(number));
    number
        .or_else(|| Signal::from_str(&name).ok().map(|signal| signal as i32))
        .ok_or_else(|| format!("there is no signal {text}; expected a name, such as SEGV, a number, or any"))
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ended<'a> {
    /// Of its first process.
    pub ending: &'a Ending,
    /// Whether it was ended because it took too long.
    pub timed_out: bool,
    /// Its recording.
    pub log: &'a Path,
    /// Its number, from 1 on.
    pub number: u64,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It failed; how, in words.
    Failed(String),
    /// It did not.
    Passed,
    /// A command said that it can say neither.
    Neither,
}

/// All that counts as a failure.
#[derive(Debug)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// Those that the user has named, and what goes without saying.
    pub fn new(named: &[Condition]) -> Self {
        let mut all = named.to_vec();
        if named.iter().all(|condition| matches!(condition, Condition::Timeout(_))) {
            all.extend([Condition::Status(None), Condition::Signal(None)]);
        }
        // Commands take longest.
        all.sort_by_key(|condition| matches!(condition, Condition::Command(_)));
        Self(all)
    }

    /// How long a run may take.
    pub fn timeout(&self) -> Option<Duration> {
        let times = self.0.iter().filter_map(|condition| match condition {
            Condition::Timeout(time) => Some(*time),
            _ => None,
        });
        times.min()
    }

    /// Whether a command looks at what the program prints.
    pub fn look_at_output(&self) -> bool {
        self.0.iter().any(|condition| matches!(condition, Condition::Command(_)))
    }

    /// Whether a run has failed; commands are asked by `judge`.
    ///
    /// # Errors
    /// A sentence: a command could not say.
    pub fn verdict(&self, run: &Ended<'_>, judge: &Judge<'_>) -> Result<Verdict, String> {
        if run.timed_out {
            let seconds = self.timeout().unwrap_or_default().as_secs_f64();
            return Ok(Verdict::Failed(format!("it took longer than {seconds} s, and was ended")));
        }
        let mut verdict = Verdict::Passed;
        for condition in &self.0 {
            match condition {
                Condition::Command(command) => match judge.ask(command, run)? {
                    Judged::Failed(status) => {
                        let ending = describe_ending(run.ending);
                        return Ok(Verdict::Failed(format!("{ending}; status {status} of {command}")));
                    }
                    Judged::Passed => {}
                    Judged::Neither => verdict = Verdict::Neither,
                },
                condition if condition.is_met(run.ending) => return Ok(Verdict::Failed(describe_ending(run.ending))),
                _ => {}
            }
        }
        Ok(verdict)
    }
}

impl Condition {
    fn is_met(&self, ending: &Ending) -> bool {
        match (self, ending) {
            (Self::Status(wanted), Ending::Exited { status }) => {
                wanted.map_or(*status != 0, |wanted| wanted == *status)
            }
            (Self::Signal(wanted), Ending::Killed { signal }) => wanted.is_none_or(|wanted| wanted == *signal),
            _ => false,
        }
    }
}

/// What a command finds of an ending: its status as a shell has it, and the name of a signal.
pub fn status_and_signal(ending: &Ending) -> (i32, String) {
    match ending {
        Ending::Exited { status } => (*status, String::new()),
        Ending::Killed { signal } => (128 + signal, signal::name(*signal)),
        Ending::Unknown => (128, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Condition {
        Condition::parse(text).unwrap()
    }

    #[test]
    fn conditions_as_people_write_them() {
        assert_eq!(parse("status:3"), Condition::Status(Some(3)));
        assert_eq!(parse("status:nonzero"), Condition::Status(None));
        for text in ["signal:SEGV", "signal:SIGSEGV", "signal:segv", "signal:11"] {
            assert_eq!(parse(text), Condition::Signal(Some(11)), "{text}");
        }
        assert_eq!(parse("signal:any"), Condition::Signal(None));
        assert_eq!(parse("signal:40"), Condition::Signal(Some(40)));
        assert_eq!(parse("timeout:0.5"), Condition::Timeout(Duration::from_millis(500)));
        assert_eq!(parse("cmd:grep -q a:b out"), Condition::Command("grep -q a:b out".into()));
        for wrong in [
            "",
            "status",
            "status:256",
            "status:-1",
            "status:",
            "signal:",
            "signal:0",
            "signal:NONE",
            "signal:65",
            "timeout:",
            "timeout:0",
            "timeout:-1",
            "timeout:nan",
            "timeout:1e99",
            "cmd:",
            "crash:",
            "Status:1",
        ] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
    }

    fn verdict(conditions: &[&str], ending: &Ending, timed_out: bool) -> Verdict {
        let conditions: Vec<_> = conditions.iter().map(|text| parse(text)).collect();
        let run = Ended { ending, timed_out, log: Path::new("/"), number: 1 };
        Conditions::new(&conditions).verdict(&run, &Judge::default()).unwrap()
    }

    #[test]
    fn what_fails() {
        let [well, three] = [0, 3].map(|status| Ending::Exited { status });
        let killed = Ending::Killed { signal: 6 };
        let fails = |conditions: &[&str], ending| verdict(conditions, ending, false) != Verdict::Passed;
        assert!(!fails(&[], &well) && fails(&[], &three) && fails(&[], &killed));
        assert!(!fails(&["timeout:5"], &well) && fails(&["timeout:5"], &three) && fails(&["timeout:5"], &killed));
        assert!(fails(&["status:0"], &well) && !fails(&["status:0"], &three) && !fails(&["status:0"], &killed));
        assert!(fails(&["status:3", "signal:SEGV"], &three) && !fails(&["status:3", "signal:SEGV"], &killed));
        assert!(fails(&["signal:any"], &killed) && !fails(&["signal:any"], &three));
        assert!(
            matches!(verdict(&["timeout:5"], &well, true), Verdict::Failed(why) if why.contains("longer than 5 s"))
        );
    }

    #[test]
    fn the_shortest_time_counts() {
        let conditions = Conditions::new(&["timeout:5", "status:1", "timeout:2"].map(parse));
        assert_eq!(conditions.timeout(), Some(Duration::from_secs(2)));
        assert!(!conditions.look_at_output() && Conditions::new(&[parse("cmd:true")]).look_at_output());
    }
}
