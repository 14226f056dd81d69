//! Linux's system calls on x86-64, as data: numbers and names, what arguments mean and point at, which memory the kernel may write, how calls wait
//! that may be interrupted. The one table of them, for the logger, the replayer and the library.
//!
//! What the table does not say of a call is unknown, and who uses it says so.

pub mod kernel;
pub mod names;
mod table;
pub mod written;

pub use kernel::Kernel;
use names::Names;
pub use table::IOCTLS;

/// How an argument is written.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A file descriptor.
    Fd,
    /// A descriptor of a folder, or the working directory.
    DirFd,
    /// Address of a text that ends with a zero byte.
    Text,
    /// Address of what the call takes.
    In(Shape),
    /// Address of what the call writes.
    Out(Shape),
    /// Address of what the call takes and changes.
    InOut(Shape),
    /// Another address.
    Pointer,
    /// An unsigned number of 64 bits.
    Unsigned,
    /// A signed number of 32 bits.
    Int,
    /// A signed number of 64 bits.
    Signed,
    /// A number best read in hexadecimal.
    Hex,
    /// Permission bits.
    Octal,
    /// A signal's number.
    Signal,
    /// Named bits: the name of zero first.
    Bits(&'static Names),
    /// A number with a name.
    Choice(&'static Names),
    /// A number with a name, and named bits: the mask of the number.
    ChoiceAndBits(&'static Names, &'static Names, i32),
}

/// How a result that is no error is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// As a decimal number.
    Number,
    /// As an address.
    Address,
    /// As permission bits.
    Octal,
}

/// How large something is.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// So many bytes.
    Fixed(u64),
    /// The value of this argument.
    OfArg(usize),
    /// The number of 4 bytes at the address in this argument.
    At(usize),
    /// The call's result.
    Result,
}

/// What an argument points at.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Bytes that may be a text.
    Bytes(Size),
    /// What is not shown.
    Opaque(Size),
    /// `struct stat`.
    Stat,
    /// Seconds and nanoseconds.
    Timespec,
    /// Seconds and microseconds.
    Timeval,
    /// The address of a socket.
    SocketAddress(Size),
    /// A list of buffers, as many as this argument says.
    Iovecs(usize),
    /// What `poll` waits for, as many as this argument says.
    PollFds(usize),
    /// What `epoll_ctl` sets.
    EpollEvent,
    /// What `epoll_wait` finds, as many as the result says.
    EpollEvents,
    /// How a signal is handled.
    Sigaction,
    /// A set of signals.
    Signals,
    /// A number of 4 bytes.
    Word,
    /// So many of them.
    Words(u64),
    /// Limits of a resource.
    Rlimit,
    /// How a child ended.
    WaitStatus,
}

/// How a system call says how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In a way that holds when it is repeated.
    Repeatable,
    /// In milliseconds, in this argument; negative for ever.
    Millis(usize),
    /// By a `struct timespec` that this argument points at; null for ever.
    Timespec(usize),
    /// As the socket says for receiving (`SO_RCVTIMEO`).
    Receive,
    /// As the socket says for sending (`SO_SNDTIMEO`).
    Send,
    /// For ever, with signals blocked meanwhile.
    Suspension,
}

/// Where the bytes are that a call writes to its first argument, a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// At the address in one argument, as many as another one says.
    Bytes(usize, usize),
    /// In a vector of buffers at the address in one argument, of which another one says how many there are.
    Vector(usize, usize),
    /// In those of a message header at the address in an argument.
    Message(usize),
}

/// When a call takes its place among those of other threads that have to do with the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it begins: it gives what others may have taken before it is over.
    Gives,
    /// When it is over: it takes what others may have given after it had begun.
    Takes,
}

/// What is known of a system call.
#[derive(Clone, Copy, Debug)]
pub struct SystemCall {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Its arguments, if they are known.
    pub args: Option<&'static [Arg]>,
    /// Its result.
    pub returns: Returns,
    /// Memory of the process that the kernel may write, by the arguments behind which that is; `None` where it is not known. What calls map and
    /// unmap is not in here, nor what threads and processes do that they make.
    pub writes: Option<&'static [(usize, Kernel)]>,
    /// Whether it writes there as the last thing, and so nothing where it fails, unless with `EFAULT`.
    pub writes_last: bool,
    /// How it waits, if it is one that a signal can interrupt.
    pub waits: Option<Wait>,
    /// The arguments that point at paths.
    pub paths: &'static [usize],
    /// What it writes to a descriptor.
    pub sends: Option<Sent>,
}

impl SystemCall {
    const fn new(number: u32, name: &'static str, args: Option<&'static [Arg]>) -> Self {
        let (returns, writes, writes_last) = (Returns::Number, None, false);
        Self { number, name, args, returns, writes, writes_last, waits: None, paths: &[], sends: None }
    }

    const fn returning(self, returns: Returns) -> Self {
        Self { returns, ..self }
    }

    const fn writes(self, writes: &'static [(usize, Kernel)]) -> Self {
        Self { writes: Some(writes), ..self }
    }

    const fn writes_last(self, writes: &'static [(usize, Kernel)]) -> Self {
        Self { writes: Some(writes), writes_last: true, ..self }
    }

    const fn waits(self, waits: Wait) -> Self {
        Self { waits: Some(waits), ..self }
    }

    const fn paths(self, paths: &'static [usize]) -> Self {
        Self { paths, ..self }
    }

    const fn sends(self, sends: Sent) -> Self {
        Self { sends: Some(sends), ..self }
    }

    /// Its way, if it is a call on descriptors.
    #[must_use]
    pub fn way(&self) -> Option<Way> {
        /// `select` and `pselect6`, of which only memory says the descriptors.
        const SELECTS: [u32; 2] = [23, 270];
        let args = self.args.unwrap_or_default();
        let is_descriptor = |arg: &Arg| matches!(arg, Arg::Fd | Arg::InOut(Shape::PollFds(_)));
        if !args.first().is_some_and(is_descriptor) && !SELECTS.contains(&self.number) {
            return None;
        }
        // What has a second descriptor gives to one of them; and what leaves memory as it is takes nothing.
        let gives = self.sends.is_some() || args.iter().skip(1).any(is_descriptor) || self.writes == Some(&[]);
        Some(if gives { Way::Gives } else { Way::Takes })
    }
}

/// All system calls of which anything is known, ascending by their numbers.
#[must_use]
pub fn all() -> &'static [SystemCall] {
    table::TABLE
}

/// The one with a number, if anything is known of it.
#[must_use]
pub fn of(number: u64) -> Option<&'static SystemCall> {
    let found = table::TABLE.binary_search_by_key(&number, |call| call.number.into());
    found.ok().map(|at| &table::TABLE[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscalls::Sysno;

    #[test]
    fn numbers_ascend_and_have_the_systems_names() {
        assert!(all().is_sorted_by(|a, b| a.number < b.number));
        for call in all() {
            assert_eq!(Sysno::new(call.number as usize).map(|number| number.name()), Some(call.name));
            assert_eq!(of(call.number.into()).map(|found| found.name), Some(call.name));
        }
        assert!(of(1 << 40).is_none());
    }

    #[test]
    fn ways() {
        let of = |way| {
            let some =
                ["read", "write", "close", "poll", "sendfile", "accept", "select", "futex", "mmap", "getpid", "dup2"];
            let known = all().iter().filter(|call| call.way() == way && some.contains(&call.name));
            known.map(|call| call.name).collect::<Vec<_>>()
        };
        assert_eq!(of(Some(Way::Gives)), ["write", "close", "dup2", "sendfile"]);
        assert_eq!(of(Some(Way::Takes)), ["read", "poll", "select", "accept"]);
        assert_eq!(of(None), ["mmap", "getpid", "futex"]);
    }

    /// Where something points into memory, the call has such an argument.
    #[test]
    fn rows_fit_their_arguments() {
        for call in all() {
            let Some(args) = call.args else { continue };
            let is_pointer = |at: usize| {
                args.get(at).is_none_or(|arg| {
                    !matches!(arg, Arg::Fd | Arg::DirFd | Arg::Unsigned | Arg::Signed | Arg::Int | Arg::Octal)
                })
            };
            for (at, _) in call.writes.unwrap_or_default() {
                assert!(is_pointer(*at), "{}: argument {at} is no pointer", call.name);
            }
            for at in call.paths {
                assert!(matches!(args[*at], Arg::Text), "{}: argument {at} is no path", call.name);
            }
            if let Some(Wait::Timespec(at)) = call.waits {
                assert!(is_pointer(at), "{}: argument {at} is no time", call.name);
            }
        }
    }
}
