//! The replay process: how it is started, talked to and ended.
//!
//! It is started as `replay-host <libdynamorio.so> <libbugnet_replayer.so>` with an empty environment and two
//! descriptors: a file that holds the package, and a socket. It gets no file of the log or of the program.

use crate::error::{ReplayError, Result};
use crate::log::IntervalId;
use crate::package::Package;
use crate::patches::Merging;
use crate::ranges::joined;
use crate::starter;
use crate::tools::{Tool, Tools};
use crate::work::Work;
use bugnet_format::control::{
    self, ByteState, CONTROL_FD, Conditions, LeftPage, MAX_PAGES, MAX_READ, PACKAGE_FD, Request, Response, Unseen,
    WatchedRange,
};
use bugnet_format::index::KNOWN;
use bugnet_format::types::Addr;
use command_fds::{CommandFdExt, FdMapping};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most bytes that a replay process can say on its standard error; what is more is lost.
const STDERR_SIZE: u64 = 64 << 10;
/// Longest part of that which goes into an error.
const STDERR_SHOWN: usize = 4 << 10;
/// How long one look at the socket lasts before the process is looked at.
const PATIENCE: Duration = Duration::from_secs(1);
/// Intervals that one process replays before it has to make room for another one.
const MAX_INTERVALS: u32 = 1024;
/// After so many looks without a byte and without processor time used, a replay process counts as stuck.
const STUCK_AFTER: u32 = 60;

/// How many were started, copies included.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// A running replay process; killed when dropped.
pub(crate) struct Process {
    interval: IntervalId,
    /// Which of all processes it is that this one has started.
    number: u64,
    /// Intervals that it was given.
    intervals: u32,
    /// None for a copy of another replay process, which ends when its socket is closed.
    child: Option<Child>,
    socket: UnixStream,
    stderr: File,
    /// How long an interval may take.
    limit: Option<Duration>,
    /// For which it replays.
    work: Work,
    /// When it got this one.
    since: Instant,
    /// With several threads, how it knows what each reads.
    pub merging: Merging,
    /// What it is watched for.
    pub conditions: Conditions,
    /// Whether its code calls the client at each access, because memory was watched: as far as one knows from here, to see what is quicker.
    pub observes: bool,
    /// To a copy that was asked for and not yet taken.
    ahead: Option<UnixStream>,
}

impl Process {
    /// Starts a replay process on `package`, in a window of the address space that begins at `window`, and waits until it has
    /// set up.
    pub fn start(tools: &Tools, interval: IntervalId, package: Package, window: u64) -> Result<Self> {
        let (stderr, for_child) = bounded_sink().map_err(ReplayError::system("catch the replay process's errors"))?;
        let (socket, theirs) = UnixStream::pair().map_err(ReplayError::system("connect to the replay process"))?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(ReplayError::system("connect to the replay process"))?;
        let patience = PATIENCE * STUCK_AFTER;
        socket.set_write_timeout(Some(patience)).map_err(ReplayError::system("connect to the replay process"))?;
        let host = tools.path(Tool::ReplayHost)?;
        let mut command = Command::new(&host);
        command
            .arg(format!("window={window:x}"))
            .arg(tools.path(Tool::DynamoRio)?)
            .arg(tools.path(Tool::Replayer)?)
            .env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(for_child);
        let mappings = vec![
            FdMapping { parent_fd: package.into_file(), child_fd: PACKAGE_FD },
            FdMapping { parent_fd: OwnedFd::from(theirs), child_fd: CONTROL_FD },
        ];
        command.fd_mappings(mappings).map_err(|e| ReplayError::System {
            what: "connect to the replay process".into(),
            source: io::Error::other(e),
        })?;
        close_others_on_exec(&mut command);
        let child = starter::start(command).map_err(ReplayError::system(format!("start {}", host.display())))?;
        let (limit, since, work) = (tools.time_limit, Instant::now(), tools.work.clone());
        let (merging, number) = (Merging::Undecided, STARTED.fetch_add(1, Ordering::Relaxed));
        let mut process = Self {
            interval,
            number,
            intervals: 1,
            child: Some(child),
            socket,
            stderr,
            limit,
            work,
            since,
            merging,
            conditions: Conditions::default(),
            observes: false,
            ahead: None,
        };
        match process.receive()? {
            Response::Ready => Ok(process),
            other => Err(process.unexpected(&other)),
        }
    }

    /// Which of all processes it is that this one has started.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// For which it replays.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Whether it can be given another interval: with each that it replays it grows.
    pub fn is_fresh(&self) -> bool {
        self.intervals < MAX_INTERVALS
    }

    /// Whether it is no copy of another one.
    pub fn is_original(&self) -> bool {
        self.child.is_some()
    }

    /// Whether it will do where patches reach far enough, or where they do not.
    pub fn suits(&self, reach: bool) -> bool {
        reach || !matches!(self.merging, Merging::Patched { .. })
    }

    /// Gives it another interval of the same process, whose package lacks the code pages that it has.
    pub fn next(&mut self, interval: IntervalId, package: &[&[u8]]) -> Result<()> {
        self.interval = interval;
        self.intervals += 1;
        (self.since, self.merging) = (Instant::now(), Merging::Undecided);
        self.send(&Request::Next { len: package.iter().map(|part| part.len() as u64).sum() })?;
        for part in package {
            self.socket.write_all(part).map_err(|e| self.lost(&e))?;
        }
        match self.receive()? {
            Response::Ready => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// A copy of the process, which is where this one is.
    pub fn fork(&mut self) -> Result<Self> {
        self.fork_ahead()?;
        let Some(socket) = self.ahead.take() else { return Err(self.makes_no_sense("a copy")) };
        match self.receive()? {
            Response::Forked => {}
            other => return Err(self.unexpected(&other)),
        }
        let stderr = self.stderr.try_clone().map_err(ReplayError::system("connect to a replay process"))?;
        let (interval, limit, since, work) = (self.interval, self.limit, Instant::now(), self.work.clone());
        let Self { merging, intervals, .. } = *self;
        let (conditions, observes, number) =
            (self.conditions.clone(), self.observes, STARTED.fetch_add(1, Ordering::Relaxed));
        let (child, ahead) = (None, None);
        let mut copy = Self {
            interval,
            number,
            intervals,
            child,
            socket,
            stderr,
            limit,
            work,
            since,
            merging,
            conditions,
            observes,
            ahead,
        };
        match copy.receive()? {
            Response::Ready => Ok(copy),
            other => Err(copy.unexpected(&other)),
        }
    }

    /// Lets it make the next copy while nobody waits for that. Up to then, nothing else is asked of it.
    pub fn fork_ahead(&mut self) -> Result<()> {
        if self.ahead.is_some() {
            return Ok(());
        }
        let (socket, theirs) = UnixStream::pair().map_err(ReplayError::system("connect to a replay process"))?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(ReplayError::system("connect to a replay process"))?;
        self.send(&Request::Fork)?;
        self.hand(theirs.as_fd())?;
        self.ahead = Some(socket);
        Ok(())
    }

    /// Hands it a descriptor, for which the request before has asked.
    pub fn hand(&mut self, descriptor: BorrowedFd<'_>) -> Result<()> {
        let descriptors = [descriptor.as_raw_fd()];
        let with = [ControlMessage::ScmRights(&descriptors)];
        sendmsg::<()>(self.socket.as_raw_fd(), &[IoSlice::new(&[0])], &with, MsgFlags::MSG_NOSIGNAL, None)
            .map_err(|e| self.lost(&e.into()))?;
        Ok(())
    }

    /// From here on, it is watched for these.
    pub fn watch_for(&mut self, conditions: &Conditions) -> Result<()> {
        self.conditions.clone_from(conditions);
        self.send(&Request::Conditions(conditions.clone()))?;
        match self.receive()? {
            Response::Ready => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Lets it look out for accesses to these ranges, which costs nothing while it runs; whether there may have been any to those for
    /// which it has up to here. `None` where it would cost as much as a watch.
    pub fn glance(&mut self, ranges: &[WatchedRange]) -> Result<Option<bool>> {
        self.send(&Request::Glance { ranges: ranges.to_vec() })?;
        match self.receive()? {
            Response::Glanced(noticed) => Ok(noticed),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Lets it keep track of which bytes of memory are known; before anything is run.
    pub fn track(&mut self) -> Result<()> {
        self.send(&Request::Track)?;
        match self.receive()? {
            Response::Watching => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// `len` bytes of memory; `None` for each that is not known. Where it does not keep track of that, a byte that is not zero is
    /// known: memory begins as zero. What only the code picture at the start tells is known, too.
    pub fn read_known(&mut self, addr: u64, len: u64) -> Result<Vec<Option<u8>>> {
        let states = self.read_states(addr, len)?;
        let is_known = |state| matches!(state, ByteState::Known | ByteState::Zero | ByteState::Code);
        Ok(states.into_iter().map(|(byte, state)| is_known(state).then_some(byte)).collect())
    }

    /// Asks for pages, and does something with each.
    pub fn each_page(
        &mut self,
        request: impl Fn(u64) -> Request,
        mut take: impl FnMut(LeftPage) -> Result<()>,
    ) -> Result<()> {
        let mut from = Some(0);
        while let Some(start) = from {
            self.send(&request(start))?;
            let (pages, next) = match self.receive()? {
                Response::Left { pages, next } if is_sound(&pages, start, next) => (pages, next),
                other => return Err(self.unexpected(&other)),
            };
            pages.into_iter().try_for_each(&mut take)?;
            from = next;
        }
        Ok(())
    }

    /// From here on, it is kept what memory is here.
    pub fn foresee(&mut self) -> Result<()> {
        self.send(&Request::Foresee)?;
        match self.receive()? {
            Response::Ready => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What happened to memory that nobody saw; the ranges ascend and do not touch.
    pub fn unseen(&mut self) -> Result<Unseen> {
        self.send(&Request::Unseen)?;
        match self.receive()? {
            Response::Unseen(unseen) => Ok(Unseen {
                changed: joined(unseen.changed),
                unsteady: joined(unseen.unsteady),
                zeros: joined(unseen.zeros),
                mapped: joined(unseen.mapped),
                ..unseen
            }),
            other => Err(self.unexpected(&other)),
        }
    }

    /// How often something may have been changed in the package that nobody saw, where it is kept track of memory.
    pub fn changes(&mut self) -> Result<u64> {
        self.send(&Request::ReadKnown { addr: 0, len: 0 })?;
        match self.receive()? {
            Response::Known { changes, .. } => Ok(changes),
            other => Err(self.unexpected(&other)),
        }
    }

    /// `len` bytes of memory, and what is known of each. What is not known is any byte.
    pub fn read_states(&mut self, addr: u64, len: u64) -> Result<Vec<(u8, ByteState)>> {
        let len = len.min(MAX_READ);
        self.send(&Request::ReadKnown { addr, len })?;
        match self.receive()? {
            Response::Known { bytes, states, .. }
                if bytes.len() as u64 <= len && (states.is_empty() || states.len() as u64 == len) =>
            {
                let state = |number: usize| match (bytes.get(number), states.get(number)) {
                    (_, Some(ByteState::Zero)) => (0, ByteState::Zero),
                    (Some(byte), Some(state)) => (*byte, *state),
                    (Some(byte), None) if *byte != 0 => (*byte, ByteState::Known),
                    // Replay has no page for it.
                    (None, Some(state @ (ByteState::Changed | ByteState::Mapped))) => (0, *state),
                    _ => (0, ByteState::Untouched),
                };
                Ok((0..len as usize).map(state).collect())
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// The pages of which something is known, ascending.
    pub fn known_pages(&mut self) -> Result<Vec<u64>> {
        let mut all: Vec<u64> = Vec::new();
        loop {
            let from = all.last().map_or(0, |page| page.saturating_add(Addr::PAGE));
            self.send(&Request::KnownPages { from })?;
            match self.receive()? {
                Response::Pages(pages) if pages.is_empty() => return Ok(all),
                // Else it might never end.
                Response::Pages(pages) if pages.is_sorted() && pages[0] >= from => all.extend(pages),
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    /// Another handle of the socket, by which a run can be interrupted.
    pub fn socket(&self) -> Result<UnixStream> {
        self.socket.try_clone().map_err(ReplayError::system("connect to a replay process"))
    }

    /// Begins another piece of work, of which each has the time limit anew.
    pub fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        self.work.go_on()?;
        control::send(&mut self.socket, request).map_err(|e| self.lost(&e))
    }

    /// Receives the next response; [`Response::Failed`] and [`Response::Refused`] become errors.
    pub fn receive(&mut self) -> Result<Response> {
        match self.receive_any()? {
            Response::Refused(why) => Err(ReplayError::OutOfRange(format!("{}: {why}", self.interval))),
            response => Ok(response),
        }
    }

    /// The same for somebody who goes on where something is refused.
    pub fn receive_any(&mut self) -> Result<Response> {
        let pid = self.child.as_ref().map(Child::id);
        // A limit that no clock reaches is none.
        let until = self.limit.and_then(|limit| self.since.checked_add(limit));
        let mut patient = Patient { socket: &self.socket, pid, until, idle: 0, ticks: None };
        let received = control::receive(&mut patient);
        // What it says on the way is no sign that it will ever be done.
        let is_done = received.as_ref().is_ok_and(|r| !matches!(r, Response::Output { .. } | Response::Ran(_)));
        if let (Some(limit), true) = (self.limit, !is_done && patient.is_overdue()) {
            // It fails only if it is gone already.
            let _ = self.child.as_mut().map(Child::kill);
            return Err(ReplayError::Overdue { interval: self.interval, limit });
        }
        match received {
            Ok(Response::Failed(message)) => Err(ReplayError::ProcessFailed { interval: self.interval, message }),
            Ok(response) => Ok(response),
            Err(e) => Err(self.lost(&e)),
        }
    }

    /// What it replays.
    pub fn interval(&self) -> IntervalId {
        self.interval
    }

    /// The error for a response that does not answer what was asked.
    pub fn unexpected(&mut self, response: &Response) -> ReplayError {
        let kind = match response {
            Response::Pages(_) => "Pages",
            Response::Ready => "Ready",
            Response::Failed(_) => "Failed",
            Response::Stopped { .. } => "Stopped",
            Response::Memory(_) => "Memory",
            Response::Glanced(_) => "Glanced",
            Response::Forked => "Forked",
            Response::Registers { .. } => "Registers",
            Response::Compared(_) => "Compared",
            Response::Patches(_) => "Patches",
            Response::Refused(_) => "Refused",
            Response::Known { .. } => "Known",
            Response::Left { .. } => "Left",
            Response::Unseen(_) => "Unseen",
            Response::Watching => "Watching",
            Response::Traced { .. } => "Traced",
            Response::Ran(_) => "Ran",
            Response::Writers(_) => "Writers",
            Response::Output { .. } => "Output",
            Response::Suspects { .. } => "Suspects",
            Response::Lines { .. } => "Lines",
        };
        self.lost(&io::Error::new(ErrorKind::InvalidData, format!("it said {kind} out of turn")))
    }

    /// The error for something that it said or wrote.
    pub fn makes_no_sense(&mut self, what: &str) -> ReplayError {
        self.lost(&io::Error::new(ErrorKind::InvalidData, format!("it wrote {what} that makes no sense")))
    }

    /// Process id, for tests that kill it.
    #[cfg(test)]
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    fn lost(&mut self, error: &io::Error) -> ReplayError {
        let status = self.wait_briefly();
        let how = match (error.kind(), status) {
            (ErrorKind::TimedOut, _) => format!("is stuck: {error}"),
            (ErrorKind::InvalidData, _) => format!("does not speak this bugnet's language ({error})"),
            (_, Some(status)) => ended(status),
            (_, None) => format!("hung up ({error})"),
        };
        ReplayError::ProcessLost { interval: self.interval, how, stderr: self.stderr() }
    }

    /// The exit status, if the process ends by itself within a moment.
    fn wait_briefly(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        for _ in 0..50 {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    fn stderr(&self) -> String {
        let mut bytes = vec![0; STDERR_SIZE as usize];
        let read = self.stderr.read_at(&mut bytes, 0).unwrap_or(0);
        let end = bytes[..read].iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
        let text = String::from_utf8_lossy(&bytes[end.saturating_sub(STDERR_SHOWN)..end]);
        text.trim_end().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only if it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Process {{ {}, pid {} }}", self.interval, self.child.as_ref().map_or(0, Child::id))
    }
}

/// Keeps descriptors from the replay process that this process inherited from its own parent.
fn close_others_on_exec(command: &mut Command) {
    let close = || {
        let (first, last) = (CONTROL_FD.cast_unsigned() + 1, u32::MAX);
        // Kernels before 5.11 do not know this flag. They keep the descriptors open, which harms nothing but tidiness.
        // SAFETY: a system call on numbers only; with this flag it closes nothing yet, so that the descriptor by
        // which the standard library learns of a failed exec stays open until then.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) };
        Ok(())
    };
    // SAFETY: `close` runs in the child between fork and exec. It makes one system call, allocates nothing, takes no
    // lock and cannot panic.
    unsafe { command.pre_exec(close) };
}

fn ended(status: ExitStatus) -> String {
    match (status.signal().map(Signal::try_from), status.code()) {
        (Some(Ok(signal)), _) => format!("was killed by {signal}"),
        (_, Some(code)) => format!("ended with status {code}"),
        _ => format!("ended: {status}"),
    }
}

/// Memory of a fixed size as a process's standard error: unlike a pipe, it needs no thread that empties it and
/// cannot block the writer; unlike a file, it cannot grow.
fn bounded_sink() -> io::Result<(File, File)> {
    let memory = memfd_create("bugnet-stderr", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    let file = File::from(memory);
    file.set_len(STDERR_SIZE)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK))?;
    Ok((file.try_clone()?, file))
}

/// Reads from the socket for as long as the process at its other end does anything.
struct Patient<'a> {
    socket: &'a UnixStream,
    /// Not known of a copy.
    pid: Option<u32>,
    /// When it has to be done.
    until: Option<Instant>,
    /// Looks since the last sign of life.
    idle: u32,
    /// Processor time used at the last look.
    ticks: Option<u64>,
}

impl Patient<'_> {
    fn is_overdue(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(out) {
                Err(e) if e.kind() == ErrorKind::WouldBlock && self.is_overdue() => return Err(e),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // A copy that is gone has closed its end.
                    let Some(pid) = self.pid else { continue };
                    let (dead, ticks) = processor_time(pid);
                    if dead {
                        return Ok(0);
                    }
                    self.idle = if ticks == self.ticks { self.idle + 1 } else { 0 };
                    self.ticks = ticks;
                    if self.idle >= STUCK_AFTER {
                        let why = format!("no answer and no processor time used for {STUCK_AFTER} s");
                        return Err(io::Error::new(ErrorKind::TimedOut, why));
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                done => {
                    self.idle = 0;
                    return done;
                }
            }
        }
    }
}

/// Whether a child process is dead, and the processor time that it has used, in clock ticks.
///
/// A dead one may have left a process behind that holds its end of the socket, so that no end of file tells.
fn processor_time(pid: u32) -> (bool, Option<u64>) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name in parentheses, which may hold anything: state is field 3, utime 14 and stime 15.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    (fields.first() == Some(&"Z"), ticks(14).zip(ticks(15)).map(|(user, system)| user + system))
}

/// Whether pages are what was asked for.
fn is_sound(pages: &[LeftPage], from: u64, next: Option<u64>) -> bool {
    let whole = |page: &LeftPage| {
        let (known, bytes) = (page.known.len(), page.bytes.len());
        page.addr.is_multiple_of(Addr::PAGE)
            && ((known, bytes) == (0, 0) || (known, bytes) == (KNOWN, Addr::PAGE as usize))
    };
    pages.len() <= MAX_PAGES
        && pages.iter().all(whole)
        && pages.is_sorted_by(|a, b| a.addr < b.addr)
        && pages.first().is_none_or(|first| first.addr >= from)
        && next.is_none_or(|next| pages.last().is_some_and(|last| last.addr < next))
}
