//! What is known of system calls, made from the table that all of bugnet has (`build.rs`).

use crate::kernel::{self, Kernel};

/// Where the bytes are that a call writes to its first argument, a descriptor.
#[derive(Clone, Copy)]
pub enum Sent {
    /// At the address in one argument, as many as another one says.
    Bytes(usize, usize),
    /// In a vector of buffers at the address in one argument, of which another one says how many there are.
    Vector(usize, usize),
    /// In those of a message header at the address in an argument.
    Message(usize),
}

impl Sent {
    /// Whether the bytes are behind this argument.
    pub fn is_behind(self, argument: usize) -> bool {
        matches!(self, Self::Bytes(at, _) | Self::Vector(at, _) | Self::Message(at) if at == argument)
    }
}

/// What is kept of what an argument points at when the call is made.
#[derive(Clone, Copy)]
pub enum Taken {
    /// A text that ends with a zero byte.
    Text,
    /// So many bytes.
    Bytes(u64),
    /// The value of an argument, times this, and no more than the last.
    Arg(usize, u64, u64),
    /// A vector of buffers, as many as this argument says, and whether the starts of the buffers, too.
    Vector(usize, bool),
}

impl Taken {
    /// Bytes of a buffer that are kept.
    pub const SHOWN: u64 = 32;
}

/// What is known of a call.
pub struct Call {
    /// What the kernel may write; none where that is not known.
    pub writes: Option<&'static [(usize, Kernel)]>,
    /// Whether it writes nothing where it fails, but with `EFAULT`.
    pub writes_last: bool,
    /// Whether it waits in a way that a signal can interrupt.
    pub waits: bool,
    pub sends: Option<Sent>,
    pub takes: &'static [(usize, Taken)],
}

/// By their numbers.
static TABLE: &[Option<Call>] = &include!(concat!(env!("OUT_DIR"), "/table.rs"));
static IOCTLS: &[(u64, u64)] = include!(concat!(env!("OUT_DIR"), "/ioctls.rs"));

/// The call with this number.
pub fn of(number: u64) -> Option<&'static Call> {
    TABLE.get(number as usize)?.as_ref()
}

/// The last number of which anything is known.
pub fn last() -> u64 {
    TABLE.len() as u64 - 1
}

/// How many bytes an ioctl writes; none where that is not known.
pub fn ioctl(command: u64) -> Option<u64> {
    kernel::ioctl(IOCTLS, command)
}
