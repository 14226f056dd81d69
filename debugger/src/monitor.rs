//! The `monitor` commands: what gdb has no command for. They say where something is, and come back to where they were asked; only `seek`
//! moves.

use crate::debuggee::Debuggee;
use crate::slice::Wanted;
use bugnet_format::types::{Addr, Tid};
use bugnet_replay::code_history::{Query, code_history};
use bugnet_replay::cursor::{Conditions, Direction, Event, LastWrite, Seek, Stopped, WatchedRange};
use bugnet_replay::location::{Choice, Location, go};
use bugnet_replay::log::Selection;
use bugnet_replay::output::output_before;
use bugnet_replay::written::{Subject, last_write};
use bugnet_replay::{ReplayError, signal, syscall};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd};
use std::num::NonZeroUsize;

const HELP: &str = "\
monitor when                      where this is
monitor seek POSITION             goes to THREAD/INTERVAL/INSTRUCTION, @TIME, start, end, or where FILE:LINE or FUNCTION ran last
monitor last-write ADDR[:N]|EXPR  what wrote these bytes or this variable last, before here
monitor next-write ADDR[:N]       what writes these bytes next
monitor first-read ADDR[:N]       what reads these bytes first, from here on
monitor slice [--full] [EXPR|$REG|ADDR[:N]]
                                  what has made it what it is; without it, what the next instruction takes, or why the process failed
monitor events [N]                the next system calls and signals, 10 or N of them
monitor threads                   where each thread is
monitor mappings                  what is mapped here
monitor code-versions ADDR        how the code at an address has changed, and what wrote it
monitor output [all]              the end of what the process has written to its standard output and error; with all, up to the log's end";

/// Bytes of output that are shown.
const OUTPUT: usize = 64 << 10;
/// Events that are listed where nobody says how many.
const EVENTS: usize = 10;
/// Bytes of code that make a version.
const VERSION: u64 = 16;

/// What a command answers; an error of the first kind is the user's.
type Answer = Result<Result<String, String>, ReplayError>;

impl MonitorCmd for Debuggee<'_> {
    fn handle_monitor_cmd(&mut self, command: &[u8], _: ConsoleOutput<'_>) -> Result<(), ReplayError> {
        let command = String::from_utf8_lossy(command);
        let (verb, rest) = command.trim().split_once(char::is_whitespace).unwrap_or((command.trim(), ""));
        let answer = match self.answer(verb, rest.trim()) {
            // What cannot be is no reason to end.
            Err(ReplayError::OutOfRange(why)) => Ok(Err(why)),
            answer => answer,
        };
        let (Ok(text) | Err(text)) = answer?;
        self.asked.answer(format!("{}\n", text.trim_end()));
        Ok(())
    }
}

impl Debuggee<'_> {
    fn answer(&mut self, verb: &str, rest: &str) -> Answer {
        match (verb, rest) {
            ("when", "") => self.when().map(Ok),
            ("seek", to) => match to.parse() {
                Ok(to) => self.go_to(&to).map(Ok),
                Err(why) => Ok(Err(why)),
            },
            ("threads", "") => {
                let line =
                    |thread: &bugnet_replay::cursor::Thread| format!("{}  {:#x}\n", thread.place, thread.regs.rip);
                Ok(Ok(self.threads()?.iter().map(line).collect()))
            }
            ("last-write", subject) => match subject.parse::<Subject>() {
                Ok(subject) => self.and_back(|this| this.last_write(&subject)).map(Ok),
                Err(why) => Ok(Err(why)),
            },
            ("slice", what) => match Wanted::parse(what) {
                Ok(wanted) => self.and_back(|this| this.slice(&wanted)).map(Ok),
                Err(why) => Ok(Err(why)),
            },
            ("next-write", range) => self.next_access(range, false),
            ("first-read", range) => self.next_access(range, true),
            ("events", "") => self.and_back(|this| this.events(EVENTS)).map(Ok),
            ("events", number) => match number.parse() {
                Ok(number) => self.and_back(|this| this.events(number)).map(Ok),
                Err(_) => Ok(Err(format!("{number} is no number of events"))),
            },
            ("code-versions", addr) => match addr.parse::<Subject>() {
                Ok(Subject::Bytes { addr, .. }) => self.code_versions(addr).map(Ok),
                _ => Ok(Err("monitor code-versions takes an address, as 0x401136".into())),
            },
            ("mappings", "") => Ok(match self.mappings() {
                Ok(mappings) => Ok(format!("{mappings}{}", mappings.note().unwrap_or_default())),
                Err(why) => Err(why.to_string()),
            }),
            ("output", "") => {
                let reached = self.cursor.reached()?;
                self.output(|tid| reached.get(&tid).copied().unwrap_or(0)).map(Ok)
            }
            ("output", "all") => self.output(|_| u64::MAX).map(Ok),
            _ => Ok(Ok(HELP.into())),
        }
    }

    /// Where the thread in focus is, and the time.
    fn here(&mut self) -> Result<String, ReplayError> {
        // The thread in focus is the first one.
        let place = self.threads()?.first().map(|thread| thread.place);
        let place = place.unwrap_or_else(|| self.cursor.place());
        Ok(format!("{place} (time @{} of {})", self.cursor.time(), self.cursor.end()))
    }

    fn when(&mut self) -> Result<String, ReplayError> {
        let here = self.here()?;
        Ok(match self.cursor.death()? {
            Some((dead, signo)) if self.cursor.time() == self.cursor.end() => {
                format!("{here}, where {} killed thread {dead}", signal::name(signo.cast_signed()))
            }
            _ => here,
        })
    }

    fn go_to(&mut self, to: &Location) -> Result<String, ReplayError> {
        if let Location::Position(seek) = to {
            self.cursor.check(*seek)?;
            self.seek(*seek)?;
            return self.when();
        }
        let before = self.cursor.time();
        let arrival = self.until_asked(|this| go(&mut this.cursor, &mut this.symbols, to, Choice::default()));
        let arrival = match arrival {
            Ok(arrival) => arrival,
            Err(error) => {
                self.back_to(before)?;
                return Err(error);
            }
        };
        let here = Seek::Time(self.cursor.time());
        self.seek(here)?;
        let notes: String = arrival.notes.iter().map(|note| format!("{note}\n")).collect();
        Ok(format!("{}\n{notes}", self.when()?))
    }

    /// Does something that moves, until somebody asks for its end, and comes back.
    fn and_back<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, ReplayError>) -> Result<T, ReplayError> {
        let (time, focus, later) = (self.cursor.time(), self.focus, self.later);
        let signal = self.siginfo();
        let done = self.until_asked(work);
        self.back_to(time)?;
        (self.focus, self.later) = (focus, later);
        self.set_siginfo(signal);
        done
    }

    /// The function and line of the instruction that comes next.
    fn code_here(&mut self) -> String {
        let rip = self.cursor.regs().rip;
        let brief = self.symbols.lookup(Addr(rip)).brief();
        brief.map_or_else(|| format!("{rip:#x}"), |brief| format!("{rip:#x} in {brief}"))
    }

    fn last_write(&mut self, subject: &Subject) -> Result<String, ReplayError> {
        let written = last_write(self.log, &mut self.cursor, &mut self.symbols, subject)?;
        let code = self.code_here();
        let text = written.to_string();
        // The place, the code there, and what has changed.
        Ok(match text.split_once('\n') {
            Some((place, rest)) if !matches!(written.write, LastWrite::Unknown | LastWrite::Interrupted) => {
                format!("{place}  {code}\n{rest}")
            }
            _ => text,
        })
    }

    /// The next access to some bytes.
    fn next_access(&mut self, range: &str, reads: bool) -> Answer {
        match range.parse::<Subject>() {
            Ok(Subject::Bytes { addr, len }) => self
                .and_back(|this| {
                    let range = WatchedRange { addr: addr.0, len, reads, writes: !reads, changes: false };
                    let conditions = Conditions { ranges: vec![range], ..Conditions::default() };
                    Ok(match this.cursor.run(Direction::Forward, &conditions)? {
                        Stopped::Condition(Event::Outside { .. }) => {
                            format!("{}  a system call or another process, noticed here", this.cursor.place())
                        }
                        Stopped::Condition(_) => {
                            // The run stops behind the instruction.
                            let tid = this.cursor.place().tid;
                            this.cursor.step_thread(tid, Direction::Backward, &Conditions::default())?;
                            format!("{}  {}", this.cursor.place(), this.code_here())
                        }
                        _ => "none up to the end of the recording".into(),
                    })
                })
                .map(Ok),
            Ok(Subject::Expression(_)) => {
                Ok(Err("an address is needed, and a number of bytes, as 0x7fff1234:8".into()))
            }
            Err(why) => Ok(Err(why)),
        }
    }

    fn events(&mut self, most: usize) -> Result<String, ReplayError> {
        let conditions = Conditions { all_calls: true, signals: true, ..Conditions::default() };
        let mut out = String::new();
        for _ in 0..most {
            let what = match self.cursor.run(Direction::Forward, &conditions)? {
                Stopped::Condition(Event::Call(number)) => syscall::name(number),
                Stopped::Condition(Event::Signal(number)) => signal::name(number as i32),
                Stopped::Condition(_) => continue,
                Stopped::End => "the end of the recording".into(),
                _ => break,
            };
            out += &format!("{}  {what}\n", self.cursor.place());
            if self.cursor.time() == self.cursor.end() {
                break;
            }
        }
        Ok(out)
    }

    fn code_versions(&mut self, at: Addr) -> Result<String, ReplayError> {
        let query = Query { at, len: VERSION, pid: Some(self.pid()), tid: None::<Tid> };
        let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Ok(code_history(self.tools, self.log, query, jobs)?.to_string())
    }

    /// The end of what was written until the threads had executed so many instructions.
    fn output(&mut self, executed: impl Fn(Tid) -> u64) -> Result<String, ReplayError> {
        let process = Selection { processes: Some(vec![self.pid()]), ..Selection::default() };
        let pieces = output_before(self.tools, self.log, &process, OUTPUT, |thread| executed(thread.tid))?;
        Ok(pieces.iter().map(|piece| String::from_utf8_lossy(&piece.bytes)).collect())
    }
}
