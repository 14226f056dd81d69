//! One interval in one replay process: run to a position, look at registers and memory.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log};
use crate::memory::{Memory, Snapshots};
use crate::package::Package;
use crate::process::Process;
use crate::tools::Tools;
use crate::window::Used;
use bugnet_format::control::{Hits, MAX_READ, MAX_WATCH, Request, Response, Target};
use bugnet_format::frame::Interval;
use bugnet_format::package;
use bugnet_format::record::{EndReason, OutputStream, Placed, Record};
use bugnet_format::regs::RegisterFile;
use bugnet_format::trace::Written;
use bugnet_format::types::{Addr, CodeSeq, Position};

pub use bugnet_format::control::{Counts, LastWriter, Ran, Stop};

/// Takes what the program writes to one of its two output streams, a system call at a time.
pub type OutputSink<'a> = dyn FnMut(OutputStream, &[u8]) + 'a;

/// A replay process at a position of one interval.
#[derive(Debug)]
pub struct Session {
    id: IntervalId,
    process: Process,
    /// Where in the address space the process lies.
    window: u64,
    /// What this interval uses of the address space, and those before it that came from the same caller.
    used: Used,
    position: Position,
    /// Instructions of the thread before the interval.
    before: u64,
    regs: RegisterFile,
    counts: Counts,
    /// What the last run has written down, if anything was.
    written: Option<Written>,
    stop: Option<Stop>,
    /// The newest code picture of the interval.
    code: CodeSeq,
    end: Option<(Position, EndReason)>,
    snapshots: Snapshots,
}

impl Session {
    /// Starts a replay process for an interval; it is then at position 0.
    ///
    /// # Errors
    /// The interval cannot be read, or the process cannot be started or set up.
    pub fn open(tools: &Tools, log: &Log, id: IntervalId) -> Result<Self> {
        Self::start(tools, log, id, &log.interval(id)?)
    }

    /// As [`Self::open`], for an interval that was read already.
    ///
    /// # Errors
    /// The process cannot be started or set up.
    pub fn start(tools: &Tools, log: &Log, id: IntervalId, interval: &Interval) -> Result<Self> {
        let used = Used::of(interval, log.code(id.thread.pid)?.as_ref());
        let mut session = Self::start_in(tools, log, id, interval, used.window(), used)?;
        session.know(Snapshots::of(interval));
        Ok(session)
    }

    fn start_in(
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        interval: &Interval,
        window: u64,
        used: Used,
    ) -> Result<Self> {
        let code = log.code(id.thread.pid)?;
        let head = package::encode_head(id.thread.tid, interval, &code, CodeSeq(0));
        let [records, end] = interval.replayed();
        let process = Process::start(tools, id, Package::of(&[&head, records, end])?, window)?;
        Ok(Self::at_start(process, id, interval, window, used))
    }

    /// As [`Self::start`], with the replay process that another session leaves behind, if it will do: it has the code
    /// already, in the code cache, too. Of the end's memory, the session knows what replay does.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_behind(
        before: Option<Self>,
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        interval: &Interval,
    ) -> Result<Self> {
        let used = Used::of(interval, log.code(id.thread.pid)?.as_ref());
        let Some(before) = before else { return Self::start_in(tools, log, id, interval, used.window(), used) };
        // A window that nothing pointed into for long is one that the next intervals leave free, too.
        let all = used.and(&before.used);
        if before.leaves_process_for(id, interval) && used.leaves(before.window) {
            let Self { mut process, code: known, window, .. } = before;
            let head = package::encode_head(id.thread.tid, interval, &*log.code(id.thread.pid)?, known);
            let [records, end] = interval.replayed();
            // Whatever the interval before has done to the process, this one is not to suffer.
            if process.next(id, &[&head, records, end]).is_ok() {
                return Ok(Self::at_start(process, id, interval, window, all));
            }
        }
        match all.free() {
            Some(window) => Self::start_in(tools, log, id, interval, window, all),
            None => Self::start_in(tools, log, id, interval, used.window(), used),
        }
    }

    fn leaves_process_for(&self, id: IntervalId, interval: &Interval) -> bool {
        let good = matches!(self.stop, Some(Stop::End | Stop::Reached));
        let near = self.id.thread.pid == id.thread.pid && self.code <= interval.header.code_seq;
        good && near && self.process.is_fresh()
    }

    fn at_start(process: Process, id: IntervalId, interval: &Interval, window: u64, used: Used) -> Self {
        let regs = match interval.records().next() {
            Some(Ok(Placed { record: Record::Checkpoint { regs, .. }, .. })) => *regs,
            _ => RegisterFile::default(),
        };
        let end = interval.end();
        let (counts, snapshots, code) = (Counts::default(), Snapshots::default(), interval.last_code_seq());
        let before = interval.header.instructions_before;
        Self {
            id,
            process,
            window,
            used,
            position: Position(0),
            before,
            regs,
            counts,
            written: None,
            stop: None,
            code,
            end,
            snapshots,
        }
    }

    /// The replay process.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Which of all replay processes it is.
    pub(crate) fn number(&self) -> u64 {
        self.process.number()
    }

    /// A copy that is where this one is, and knows nothing of memory at the end.
    pub(crate) fn fork(&mut self) -> Result<Self> {
        let (process, used, regs) = (self.process.fork()?, self.used.clone(), self.regs.clone());
        let (stop, end, snapshots) = (self.stop.clone(), self.end.clone(), Snapshots::default());
        let Self { id, window, position, before, counts, written, code, .. } = *self;
        Ok(Self { id, process, window, used, position, before, regs, counts, written, stop, code, end, snapshots })
    }

    /// Which interval this is.
    #[must_use]
    pub fn id(&self) -> IntervalId {
        self.id
    }

    /// Instructions executed since the interval's start.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Every register at [`Self::position`].
    #[must_use]
    pub fn regs(&self) -> &RegisterFile {
        &self.regs
    }

    /// What the replay process has counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How much the last run has written down, where something is ([`crate::trace`]).
    pub(crate) fn written(&self) -> Option<Written> {
        self.written
    }

    /// Position and reason of the interval's end, as recorded; `None` if the recording was cut off in it.
    #[must_use]
    pub fn recorded_end(&self) -> Option<(Position, &EndReason)> {
        self.end.as_ref().map(|(position, reason)| (*position, reason))
    }

    /// Executes up to `position`: the instruction with that number is the next one. Ends earlier where the interval
    /// does, where the log was cut off, and at a divergence.
    ///
    /// # Errors
    /// `position` was passed already, or the replay process is lost.
    pub fn run_to(&mut self, position: Position) -> Result<Stop> {
        self.run(position.0, None)
    }

    /// Executes up to the interval's end.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn run_to_end(&mut self) -> Result<Stop> {
        self.run(u64::MAX, None)
    }

    /// As [`Self::run_to`], and hands `sink` what the program writes to its standard output and error on the way.
    ///
    /// # Errors
    /// As [`Self::run_to`].
    pub fn run_to_with_output(&mut self, position: Position, sink: &mut OutputSink<'_>) -> Result<Stop> {
        self.run(position.0, Some(sink))
    }

    /// Watches `len` bytes of code from `addr` on: with which bytes the instruction there is run, and what wrote them.
    /// Only at the interval's start; the replay becomes slow.
    ///
    /// # Errors
    /// Too many bytes, instructions were executed already, or the replay process is lost.
    pub fn watch(&mut self, addr: Addr, len: u64) -> Result<()> {
        if len == 0 || len > MAX_WATCH {
            return Err(ReplayError::OutOfRange(format!("{len} bytes cannot be watched: 1 to {MAX_WATCH} can")));
        }
        self.process.send(&Request::Watch { addr: addr.0, len })?;
        match self.process.receive()? {
            Response::Watching => Ok(()),
            other => Err(self.process.unexpected(&other)),
        }
    }

    /// Keeps track of which bytes of memory are known, so that [`Memory::read_known`] tells zeros that the program has seen from
    /// bytes that it never looked at. Only at the interval's start; the replay becomes slow.
    ///
    /// # Errors
    /// Instructions were executed already, or the replay process is lost.
    pub fn track(&mut self) -> Result<()> {
        self.process.track()
    }

    /// As [`Self::run_to`], and hands `sink` each run of the watched instruction with bytes other than at the last one.
    ///
    /// # Errors
    /// As [`Self::run_to`].
    pub fn run_watching(&mut self, position: Position, sink: &mut dyn FnMut(Ran)) -> Result<Stop> {
        self.run_with(position.0, None, sink)
    }

    /// What wrote each watched byte last.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn writers(&mut self) -> Result<Vec<LastWriter>> {
        self.process.send(&Request::Writers)?;
        match self.process.receive()? {
            Response::Writers(writers) => Ok(writers.into_iter().map(|writer| self.writer(writer)).collect()),
            other => Err(self.process.unexpected(&other)),
        }
    }

    fn run(&mut self, position: u64, sink: Option<&mut OutputSink<'_>>) -> Result<Stop> {
        self.run_with(position, sink, &mut |_| {})
    }

    fn run_with(
        &mut self,
        position: u64,
        mut sink: Option<&mut OutputSink<'_>>,
        ran: &mut dyn FnMut(Ran),
    ) -> Result<Stop> {
        // Behind an end or a divergence there is nothing; before the present position only another session goes.
        if let Some(stop) = self.stop.as_ref().filter(|stop| **stop != Stop::Reached)
            && position >= self.position.0
        {
            return Ok(stop.clone());
        }
        if position < self.position.0 {
            let now = self.position;
            return Err(ReplayError::OutOfRange(format!("{}: at {now}, cannot run back to {position}", self.id)));
        }
        let target = match position {
            u64::MAX => Target::End,
            position => Target::Place { thread: 0, at: position.saturating_add(self.before) },
        };
        self.process.send(&Request::RunTo { target, hits: Hits::Ignore, output: sink.is_some() })?;
        loop {
            match self.process.receive()? {
                Response::Output { stream, bytes } => {
                    if let Some(sink) = &mut sink {
                        sink(stream, &bytes);
                    }
                }
                Response::Ran(run) => ran(self.ran(run)),
                Response::Stopped { stop, at, regs, counts, written, .. } => {
                    self.position = self.position_of(at);
                    self.regs = *regs;
                    (self.counts, self.written) = (counts, written);
                    self.stop = Some(stop.clone());
                    return Ok(stop);
                }
                other => return Err(self.process.unexpected(&other)),
            }
        }
    }

    /// A thread's instruction count as a position in this interval.
    fn position_of(&self, at: u64) -> Position {
        Position(at.saturating_sub(self.before))
    }

    fn writer(&self, writer: LastWriter) -> LastWriter {
        match writer {
            LastWriter::Store { position, pc, seq } => {
                LastWriter::Store { position: self.position_of(position).0, pc, seq }
            }
            other => other,
        }
    }

    fn ran(&self, run: Ran) -> Ran {
        let writers = run.writers.into_iter().map(|writer| self.writer(writer)).collect();
        Ran { position: self.position_of(run.position).0, writers, ..run }
    }

    /// What the log holds of memory at the end of the interval's process, where the interval's end is that.
    pub(crate) fn know(&mut self, snapshots: Snapshots) {
        self.snapshots = snapshots;
    }

    /// The error for a divergence at [`Self::position`].
    #[must_use]
    pub fn diverged(&self, what: String) -> ReplayError {
        ReplayError::Diverged { interval: self.id, position: self.position, what }
    }

    /// Process id of the replay process, for tests that kill it.
    #[cfg(test)]
    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }
}

impl Memory for Session {
    /// The program's memory as it is now. At the interval's end, what the log's snapshot holds comes first: it is
    /// the whole truth there, while replay knows of a page only what the interval's instructions touched.
    fn read_memory(&mut self, addr: Addr, len: u64) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        while (out.len() as u64) < len {
            let left = len - out.len() as u64;
            let Some(at) = addr.0.checked_add(out.len() as u64) else { break };
            let mut ask = left.min(MAX_READ);
            if self.stop == Some(Stop::End) {
                let known = self.snapshots.at(at, ask);
                if !known.is_empty() {
                    out.extend_from_slice(&known);
                    continue;
                }
                ask = ask.min(self.snapshots.next_after(at).map_or(u64::MAX, |next| next - at));
            }
            self.process.send(&Request::ReadMemory { addr: at, len: ask })?;
            match self.process.receive()? {
                Response::Memory(bytes) if bytes.len() as u64 <= ask => {
                    out.extend_from_slice(&bytes);
                    if (bytes.len() as u64) < ask {
                        break;
                    }
                }
                other => return Err(self.process.unexpected(&other)),
            }
        }
        Ok(out)
    }

    /// Where nothing keeps track of what is known (see [`Session::track`]), a byte that is not zero is: memory begins as zero.
    fn read_known(&mut self, addr: Addr, len: u64) -> Result<Vec<Option<u8>>> {
        let mut out = Vec::new();
        while (out.len() as u64) < len {
            let left = len - out.len() as u64;
            let Some(at) = addr.0.checked_add(out.len() as u64) else { break };
            let mut ask = left.min(MAX_READ);
            if self.stop == Some(Stop::End) {
                let known = self.snapshots.at(at, ask);
                if !known.is_empty() {
                    out.extend(known.iter().copied().map(Some));
                    continue;
                }
                ask = ask.min(self.snapshots.next_after(at).map_or(u64::MAX, |next| next - at));
            }
            out.extend(self.process.read_known(at, ask)?);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LogBuilder, fake_tools, id, say};

    fn log() -> LogBuilder {
        let regs = RegisterFile { rip: 0x1000, ..RegisterFile::default() };
        let snapshot = Record::Snapshot { addr: Addr(0x2004), bytes: b"snap" };
        let end = Record::End { delta: 7, reason: EndReason::Full, regs: Box::new(regs.clone()) };
        LogBuilder::new().interval(&regs, &[snapshot, end])
    }

    fn open(script: &str) -> Result<Session> {
        let folder = tempfile::tempdir().unwrap();
        Session::open(&fake_tools(folder.path(), script), &log().open(), id(0))
    }

    fn error(script: &str) -> String {
        open(script).unwrap_err().to_string()
    }

    fn stopped(stop: Stop, position: u64) -> Response {
        let regs = Box::new(RegisterFile { rip: 0x1234, ..RegisterFile::default() });
        let counts = Counts::default();
        Response::Stopped { stop, thread: 0, at: position, time: position, hit: None, regs, counts, written: None }
    }

    /// Reads a request of `RunTo { Target::End, .. }`: 4 bytes of length, three tags and a bool.
    const TAKE_RUN: &str = "head -c 8 <&4 >/dev/null";
    /// Reads a request of `ReadMemory` at a 2-byte address with a 1-byte length.
    const TAKE_READ: &str = "head -c 8 <&4 >/dev/null";

    #[test]
    fn a_process_that_ends_is_reported_with_what_it_said() {
        let said = error("echo no room at 0x1000 >&2; exit 3");
        assert_eq!(said, "thread 41 interval 0: the replay process ended with status 3; it said:\nno room at 0x1000");
        assert_eq!(error("kill -KILL $$"), "thread 41 interval 0: the replay process was killed by SIGKILL");
        let hung_up = error("exec 4>&-; exec sleep 100");
        assert!(hung_up.contains("hung up"), "{hung_up}");
    }

    #[test]
    fn a_process_that_babbles_is_reported() {
        let babble = error("printf 'babble babble' >&4; exec sleep 100");
        assert!(babble.contains("does not speak this bugnet's language"), "{babble}");
        let early = error(&say(&Response::Memory(vec![1])));
        assert!(early.contains("Memory out of turn"), "{early}");
        let failed = error(&say(&Response::Failed("0x10000 is taken".into())));
        assert_eq!(failed, "thread 41 interval 0: cannot be replayed here: 0x10000 is taken");
    }

    #[test]
    fn what_a_process_says_is_bounded() {
        let long = error("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1");
        assert!(long.len() < 2 * 4096, "{}", long.len());
    }

    #[test]
    fn it_gets_the_package_and_nothing_else() {
        let script = "[ $# = 3 ] && [ \"$(head -c 8 <&3)\" = BUGNETPK ] || exit 9
            env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= && exit 8
            echo x 2>/dev/null >&3 && exit 7
            for fd in /proc/$$/fd/*; do [ -e $fd ] && printf '%s ' ${fd##*/} >&2; done; exit 5";
        let said = error(script);
        assert!(said.contains("status 5"), "{said}");
        // The shell itself holds the script open as descriptor 10 or 255.
        assert!(said.ends_with("0 1 10 2 3 4") || said.ends_with("0 1 2 255 3 4"), "{said}");
    }

    #[test]
    fn runs_collects_output_and_reads_memory() {
        let output = Response::Output { stream: OutputStream::Stderr, bytes: b"oh".to_vec() };
        let script = [
            say(&Response::Ready),
            TAKE_RUN.into(),
            say(&output),
            say(&stopped(Stop::End, 7)),
            TAKE_READ.into(),
            say(&Response::Memory(b"1234".to_vec())),
            TAKE_READ.into(),
            say(&Response::Memory(b"5".to_vec())),
            "exec sleep 100".into(),
        ];
        let mut session = open(&script.join("\n")).unwrap();
        assert_eq!(session.regs().rip, 0x1000);
        let mut seen = Vec::new();
        let mut sink = |stream, bytes: &[u8]| seen.push((stream, bytes.to_vec()));
        let stop = session.run_to_with_output(Position(u64::MAX), &mut sink).unwrap();
        assert_eq!((stop, session.position(), session.regs().rip), (Stop::End, Position(7), 0x1234));
        assert_eq!(seen, [(OutputStream::Stderr, b"oh".to_vec())]);
        // Up to the snapshot from the process, then the snapshot, then from the process until it knows no more.
        assert_eq!(session.read_memory(Addr(0x2000), 16).unwrap(), b"1234snap5");
        assert_eq!(session.run_to_end().unwrap(), Stop::End);
        assert!(session.run_to(Position(3)).unwrap_err().to_string().contains("cannot run back to 3"));
    }

    #[test]
    fn a_process_killed_in_the_middle_is_reported() {
        // `sleep` outlives the shell and holds the socket open.
        let mut session = open(&format!("{}\nsleep 3", say(&Response::Ready))).unwrap();
        let pid = nix::unistd::Pid::from_raw(session.process_id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSEGV).unwrap();
        let lost = session.run_to_end().unwrap_err();
        assert!(matches!(lost, ReplayError::ProcessLost { .. }), "{lost}");
        assert!(lost.to_string().contains("killed by SIGSEGV"), "{lost}");
    }
}
