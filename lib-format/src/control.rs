//! What the replay library and a replay process say to each other, over a stream socket.
//!
//! Each message is a `u32` length (little-endian) and that many bytes of [postcard]. The replay process inherits
//! [`PACKAGE_FD`] (a [package](crate::package), read-only) and [`CONTROL_FD`] (its end of the socket); it sends
//! [`Response::Ready`] first and then answers each request with exactly one response other than
//! [`Response::Output`], of which any number may come before the answer to a [`Request::RunTo`].

use crate::record::OutputStream;
use crate::regs::RegisterFile;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, Read, Result, Write};

/// Descriptor of the package in the replay process.
pub const PACKAGE_FD: i32 = 3;
/// Descriptor of the control socket in the replay process.
pub const CONTROL_FD: i32 = 4;
/// Most bytes of one message.
pub const MAX_MESSAGE: usize = 16 << 20;
/// Most bytes that one [`Request::ReadMemory`] may ask for.
pub const MAX_READ: u64 = 1 << 20;

/// From the library to the replay process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Execute up to this position (not beyond the interval's end): the instruction with this number is next.
    RunTo {
        /// Instructions since the interval's start; `u64::MAX` for its end.
        position: u64,
        /// Send what the program writes to standard output and error as [`Response::Output`].
        output: bool,
    },
    /// Read the program's memory as it is now.
    ReadMemory {
        /// First byte.
        addr: u64,
        /// Bytes, at most [`MAX_READ`].
        len: u64,
    },
    /// End the replay process.
    Quit,
}

/// Why a replay process stopped executing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The asked-for position.
    Reached,
    /// The interval's end, and its recorded end state fits.
    End,
    /// The log was cut off here; all that it holds was replayed.
    CutOff,
    /// Replay went another way than the recording.
    Divergence {
        /// What differs, for people.
        what: String,
        /// The recorded registers, where a record has them.
        expected: Option<Box<RegisterFile>>,
    },
}

/// What a replay process has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions executed.
    pub instructions: u64,
    /// `LOAD` records injected.
    pub loads: u64,
    /// `CHECK` and `END` records compared.
    pub checks: u64,
}

/// From the replay process to the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// The interval is set up at position 0.
    Ready,
    /// It cannot be set up or go on, and it is not the log's fault: what is wrong, for people.
    Failed(String),
    /// Execution stopped.
    Stopped {
        /// Why.
        stop: Stop,
        /// Where.
        position: u64,
        /// Every register there.
        regs: Box<RegisterFile>,
        /// Counters.
        counts: Counts,
    },
    /// Answer to [`Request::ReadMemory`]: the bytes from the address up to the first that replay has no page for.
    Memory(Vec<u8>),
    /// The program wrote this to standard output or error. A write of more than [`MAX_READ`] bytes comes in pieces.
    Output {
        /// Which of the two.
        stream: OutputStream,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Sends a message.
///
/// # Errors
/// The writer's, or the message is longer than [`MAX_MESSAGE`].
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> Result<()> {
    let body = postcard::to_allocvec(message).map_err(|e| Error::new(ErrorKind::InvalidData, e))?;
    if body.len() > MAX_MESSAGE {
        return Err(Error::new(ErrorKind::InvalidInput, "message too long"));
    }
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    to.write_all(&frame)
}

/// Receives a message.
///
/// # Errors
/// The reader's, or the bytes are no such message.
pub fn receive<T: for<'a> Deserialize<'a>>(from: &mut impl Read) -> Result<T> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_MESSAGE {
        return Err(Error::new(ErrorKind::InvalidData, "message too long"));
    }
    let mut body = vec![0; len];
    from.read_exact(&mut body)?;
    postcard::from_bytes(&body).map_err(|e| Error::new(ErrorKind::InvalidData, e))
}
