//! Talking with a gdb that is connected, until it goes.

use crate::conditional::{self, Conditional};
use crate::debuggee::Debuggee;
use crate::resume::Reason;
use crate::siginfo::{Interest, LOOKED_AT, SigInfo};
use bugnet_format::types::Tid;
use bugnet_replay::ReplayError;
use bugnet_replay::cursor::Interrupter;
use gdbstub::common::Signal;
use gdbstub::conn::{Connection, ConnectionExt};
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{GdbStubBuilder, GdbStubError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use std::io::{self, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest packet, in bytes: files and memory come in pieces of this size.
const PACKET: usize = 128 << 10;
/// The byte by which gdb interrupts a run.
pub(crate) const INTERRUPT: u8 = 3;
/// How often a run that is to be interrupted is told so: between two pieces of it, it does not listen.
const AGAIN: Duration = Duration::from_millis(20);

/// Why a session with gdb ended before gdb wanted it to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The replay failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The connection broke.
    #[error("the connection with gdb broke: {0}")]
    Connection(io::Error),
    /// gdb said something that is not its protocol.
    #[error("gdb said what cannot be understood: {0}")]
    Protocol(String),
}

/// Where gdb is.
#[derive(Debug)]
pub enum Client {
    /// On this machine.
    Unix(UnixStream),
    /// Anywhere.
    Tcp(TcpStream),
}

impl Client {
    /// Another handle of the connection.
    fn again(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// The next byte, which stays unless it is taken; none at the end. It does not wait.
    pub(crate) fn look(&self, takes: bool) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let flags = if takes { MsgFlags::MSG_DONTWAIT } else { MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK };
        let len = recv(self.as_fd().as_raw_fd(), &mut byte, flags)?;
        Ok((len > 0).then_some(byte[0]))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }

    fn receive(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => Read::read(stream, out),
            Self::Tcp(stream) => Read::read(stream, out),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => Write::write_all(stream, bytes),
            Self::Tcp(stream) => Write::write_all(stream, bytes),
        }
    }
}

/// A connection with what was received and not yet taken, and what is yet to be sent.
struct Buffered {
    client: Client,
    received: Vec<u8>,
    taken: usize,
    unsent: Vec<u8>,
    /// Whether what is taken is within a packet, and not between two.
    in_packet: bool,
    /// Whether gdb asked for an interrupt and nothing ran any more: what runs next is interrupted, as by gdbserver. gdb may have
    /// meant a whole command, of which it makes several runs.
    interrupted: bool,
    /// What is said in place of the next `OK`.
    answer: Arc<Mutex<Option<String>>>,
    /// The first bytes of the packet that was taken last, without those that frame it.
    packet: Vec<u8>,
    /// The signal by which the process is stopped, where it had one when gdb came; until gdb has asked.
    stopped_by: Option<Signal>,
    /// What there is to say of the signal here.
    siginfo: Arc<Mutex<Option<(Tid, SigInfo)>>>,
    interest: Interest,
    conditional: Arc<Mutex<Conditional>>,
}

/// The packet by which a `monitor` command has been done.
const OK: &[u8] = b"$OK#9a";
/// The packet by which gdb asks why the process is stopped.
const WHY: &[u8] = b"?";
/// How the answer begins that stands for all reasons, SIGTRAP.
const TRAPPED: &[u8] = b"$T05";
/// A packet with this text.
pub(crate) fn packet(text: &[u8]) -> Vec<u8> {
    let sum = text.iter().copied().fold(0_u8, u8::wrapping_add);
    [b"$", text, format!("#{sum:02x}").as_bytes()].concat()
}

/// Bytes of a checksum with the sign before it.
const CHECKSUM: usize = 3;

impl Buffered {
    /// Where a `monitor` command has an answer, it takes the place of the packet by which it was done: gdb takes a text so, too, and one
    /// packet comes as a whole or not at all.
    fn put_answer(&mut self) {
        let Some(text) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if let Some(before) = self.unsent.strip_suffix(OK).filter(|_| !text.is_empty()) {
            let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            self.unsent = [before, &packet(digits.as_bytes())].concat();
        }
    }

    /// Where gdb asks for the first time why the process is stopped, and a signal killed it there, that is the reason.
    fn put_signal(&mut self) {
        if self.packet != WHY || self.unsent.len() < TRAPPED.len() + CHECKSUM {
            return;
        }
        let (Some(signal), Some(start)) =
            (self.stopped_by.take(), self.unsent.windows(TRAPPED.len()).position(|bytes| bytes == TRAPPED))
        else {
            return;
        };
        let rest = &self.unsent[start + TRAPPED.len()..self.unsent.len() - CHECKSUM];
        let text = [format!("T{:02x}", signal.0).as_bytes(), rest].concat();
        self.unsent.truncate(start);
        self.unsent.extend(packet(&text));
    }

    /// Receives more, and waits for it.
    fn fill(&mut self) -> io::Result<()> {
        self.received.resize(PACKET, 0);
        self.taken = 0;
        let len = loop {
            match self.client.receive(&mut self.received) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                done => break done,
            }
        };
        self.received.truncate(*len.as_ref().unwrap_or(&0));
        match len? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn next(&self) -> Option<u8> {
        self.received.get(self.taken).copied()
    }

    /// Takes a request for an interrupt: one that came before, or the next byte.
    fn take_interrupt(&mut self) -> bool {
        let is_interrupt = self.next() == Some(INTERRUPT);
        self.taken += usize::from(is_interrupt);
        std::mem::take(&mut self.interrupted) || is_interrupt
    }
}

impl Connection for Buffered {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.unsent.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put_answer();
        self.put_signal();
        if conditional::sets(&self.packet) {
            self.conditional.lock().unwrap_or_else(PoisonError::into_inner).take(&self.packet);
        }
        let siginfo = self.siginfo.lock().unwrap_or_else(PoisonError::into_inner);
        self.interest.put(&self.packet, &mut self.unsent, siginfo.as_ref());
        drop(siginfo);
        let sent = self.client.send(&self.unsent);
        self.unsent.clear();
        sent
    }
}

impl ConnectionExt for Buffered {
    fn read(&mut self) -> io::Result<u8> {
        loop {
            let Some(byte) = self.next() else {
                self.fill()?;
                continue;
            };
            self.taken += 1;
            match byte {
                INTERRUPT if !self.in_packet => {
                    self.interrupted = true;
                    continue;
                }
                b'$' => {
                    self.in_packet = true;
                    self.packet.clear();
                }
                b'#' => self.in_packet = false,
                _ if self.in_packet && (self.packet.len() <= LOOKED_AT || conditional::sets(&self.packet)) => {
                    self.packet.push(byte);
                }
                _ => {}
            }
            return Ok(byte);
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.next())
    }
}

/// Interrupts a run when gdb asks for it, or is gone; whether it did.
fn watch(conn: &mut Buffered, over: &UnixStream, interrupter: &Interrupter) -> bool {
    let mut asked = false;
    loop {
        let mut fds =
            [PollFd::new(over.as_fd(), PollFlags::POLLIN), PollFd::new(conn.client.as_fd(), PollFlags::POLLIN)];
        let waiting = if asked { &mut fds[..1] } else { &mut fds[..] };
        let timeout = if asked { PollTimeout::from(AGAIN.as_millis() as u8) } else { PollTimeout::NONE };
        // What cannot be waited for, by a signal for example, is waited for again.
        let _ = poll(waiting, timeout);
        let happened = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        if happened(&fds[0]) {
            return asked;
        }
        if !asked && happened(&fds[1]) {
            // gdb says nothing else while something runs; a connection that is broken will be noticed when it is next read.
            let ended = conn.fill().is_err();
            asked = conn.take_interrupt() || ended;
        }
        if asked {
            interrupter.interrupt();
        }
    }
}

fn is_interrupt(reason: &Reason) -> bool {
    matches!(reason, Reason::SignalWithThread { signal: Signal::SIGINT, .. })
}

struct Loop<'a>(PhantomData<&'a ()>);

impl<'a> BlockingEventLoop for Loop<'a> {
    type Target = Debuggee<'a>;
    type Connection = Buffered;
    type StopReason = Reason;

    fn wait_for_stop_reason(
        target: &mut Debuggee<'a>,
        conn: &mut Buffered,
    ) -> Result<Event<Reason>, WaitForStopReasonError<ReplayError, io::Error>> {
        // It may have come together with the request to run, or between two runs of one command.
        if conn.take_interrupt() {
            return Ok(Event::TargetStopped(target.not_run()));
        }
        let interrupter = target.interrupter();
        let (running, over) = UnixStream::pair().map_err(WaitForStopReasonError::Connection)?;
        let (reason, asked) = thread::scope(|scope| {
            let watch = scope.spawn(|| watch(conn, &over, &interrupter));
            let reason = target.go();
            drop(running);
            (reason, watch.join().unwrap_or(false))
        });
        let reason = reason.map_err(WaitForStopReasonError::Target)?;
        conn.interest.stopped();
        // What stopped for another reason just then is no answer.
        conn.interrupted = asked && !is_interrupt(&reason);
        Ok(Event::TargetStopped(reason))
    }

    fn on_interrupt(_: &mut Debuggee<'a>) -> Result<Option<Reason>, ReplayError> {
        Ok(Some(Reason::Signal(Signal::SIGINT)))
    }
}

/// Serves a gdb until it detaches or is gone.
///
/// # Errors
/// See [`ServeError`].
pub fn serve<'a>(debuggee: &mut Debuggee<'a>, client: Client) -> Result<(), ServeError> {
    debuggee.asked.client = Some(client.again().map_err(ServeError::Connection)?);
    let conn = Buffered {
        client,
        received: Vec::new(),
        taken: 0,
        unsent: Vec::new(),
        in_packet: false,
        interrupted: false,
        answer: Arc::clone(&debuggee.asked.answer),
        packet: Vec::new(),
        stopped_by: debuggee.stopped_by()?,
        siginfo: Arc::clone(&debuggee.siginfo),
        interest: Interest::default(),
        conditional: Arc::clone(&debuggee.stops.conditional),
    };
    let stub = GdbStubBuilder::new(conn).packet_buffer_size(PACKET).build();
    let stub = stub.map_err(|e| ServeError::Protocol(e.to_string()))?;
    let served = stub.run_blocking::<Loop<'a>>(debuggee);
    // Else the connection would stay open.
    debuggee.asked.client = None;
    match served {
        Ok(_) => Ok(()),
        Err(error) => ended(error),
    }
}

fn ended(error: GdbStubError<ReplayError, io::Error>) -> Result<(), ServeError> {
    if error.is_target_error() {
        return error.into_target_error().map_or(Ok(()), |error| Err(error.into()));
    }
    if error.is_connection_error() {
        return match error.into_connection_error() {
            // A gdb that is killed says nothing.
            Some((e, _))
                if matches!(
                    e.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                ) =>
            {
                Ok(())
            }
            Some((e, _)) => Err(ServeError::Connection(e)),
            None => Ok(()),
        };
    }
    Err(ServeError::Protocol(error.to_string()))
}
