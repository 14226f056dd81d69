//! Which memory of the process the kernel may write for a call, by the kinds that the table has, for its arguments and its result.
//!
//! Nothing here needs a standard library: the program that captures without one includes this file.

/// How many bytes behind a pointer argument the kernel may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// So many.
    Bytes(u64),
    /// The call's result, times this.
    Result(u64),
    /// The call's result, so many bytes behind the pointer.
    ResultBehind(u64),
    /// The value of an argument, times this.
    Arg(usize, u64),
    /// A bit for each descriptor below the value of an argument, in words of 8 bytes.
    Descriptors(usize),
    /// As many as the number of 4 bytes says that is at the address in an argument before the call, and no more than this. The call itself may make the
    /// number smaller, never larger.
    Counted(usize, u64),
    /// In an array with as many elements as the argument `count` says, `len` bytes of each, of which the first is `offset` behind the element's.
    Each {
        /// The argument that says how many there are.
        count: usize,
        /// Bytes of an element.
        size: u64,
        /// Where in an element the kernel writes.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// As many as are listed for the command in an argument; none where it is not.
    Command(usize, &'static [(u64, u64)]),
    /// The pointer is to a vector of buffers, whose length is in this argument.
    Vector(usize),
    /// The pointer is to a message header.
    Message,
    /// The pointer is to message headers with a length behind each, as many as this argument says.
    Messages(usize),
}

/// Bytes of the longest address of a socket (`sockaddr_storage`).
const LONGEST_ADDRESS: u64 = 128;
/// Most elements of an array that are told apart from what lies between them.
const MOST_ELEMENTS: u64 = 1 << 16;
/// Most buffers of a vector, and messages in a row, that the kernel takes.
const MOST_BUFFERS: u64 = 1024;
/// Bytes of an element of a vector, and of a message with its length (`struct iovec`, `struct mmsghdr`).
const BUFFER: u64 = 16;
const MESSAGE: u64 = 64;
/// Where a message's length is in that.
const LENGTH: u64 = 56;

/// Memory: its first byte, and how many.
pub type Buffer = (u64, u64);

/// Memory as it is when the call is over, or as much of it as is known.
pub trait Memory {
    /// The 8 bytes at an address as a number; 0 where there is no memory.
    fn word(&self, at: u64) -> u64;
}

impl<F: Fn(u64) -> u64> Memory for F {
    fn word(&self, at: u64) -> u64 {
        self(at)
    }
}

/// Visits the buffers that the kernel may write behind an argument for a call with these arguments and this result.
pub fn visit(
    args: &[u64; 6],
    result: i64,
    arg: usize,
    size: Kernel,
    memory: &impl Memory,
    see: &mut impl FnMut(Buffer),
) {
    let at = args[arg];
    match size {
        Kernel::Bytes(bytes) => see((at, bytes)),
        Kernel::Result(times) => see((at, u64::try_from(result).unwrap_or(0).saturating_mul(times))),
        Kernel::ResultBehind(offset) => see((at.wrapping_add(offset), u64::try_from(result).unwrap_or(0))),
        Kernel::Arg(arg, times) => see((at, args[arg].saturating_mul(times))),
        Kernel::Descriptors(arg) => see((at, args[arg].div_ceil(64).saturating_mul(8))),
        // What is not known there, as what another process has written, may be anything.
        Kernel::Counted(arg, most) => match memory.word(args[arg]) & u64::from(u32::MAX) {
            0 => see((at, most)),
            count => see((at, count.min(most))),
        },
        Kernel::Each { count, size, .. } if args[count] > MOST_ELEMENTS => see((at, args[count].saturating_mul(size))),
        Kernel::Each { count, size, offset, len } => {
            (0..args[count]).for_each(|i| see((at.wrapping_add(i * size + offset), len)));
        }
        Kernel::Command(arg, known) => {
            known.iter().filter(|(known, _)| *known == args[arg]).for_each(|(_, bytes)| see((at, *bytes)));
        }
        Kernel::Vector(count) => vector(at, args[count], memory, see),
        Kernel::Message => message(at, memory, see),
        Kernel::Messages(count) => {
            for at in (0..args[count].min(MOST_BUFFERS)).map(|number| at.wrapping_add(number * MESSAGE)) {
                message(at, memory, see);
                see((at.wrapping_add(LENGTH), 4));
            }
        }
    }
}

/// How many bytes the kernel may write for a command of `ioctl`, of which these are known; none where that is not known. Direction and size stand in the upper half of
/// commands made since those of terminals.
pub fn ioctl(known: &[(u64, u64)], command: u64) -> Option<u64> {
    const OF_TERMINALS: core::ops::Range<u64> = 0x5401..0x5480;
    let command = command & 0xffff_ffff;
    if let Some((_, bytes)) = known.iter().find(|(known, _)| *known == command) {
        return Some(*bytes);
    }
    match command >> 30 {
        0 if OF_TERMINALS.contains(&command) => Some(0),
        0 => None,
        1 => Some(0),
        _ => Some(command >> 16 & 0x3fff),
    }
}

/// Visits the buffers of a vector of `count`.
pub fn vector(at: u64, count: u64, memory: &impl Memory, see: &mut impl FnMut(Buffer)) {
    for element in (0..count.min(MOST_BUFFERS)).map(|number| at.wrapping_add(number * BUFFER)) {
        see((memory.word(element), memory.word(element.wrapping_add(8))));
    }
}

/// Visits the buffers of a message header, and what is written in itself: two lengths, and flags. How long the buffer for an address is, the kernel may
/// have said itself, behind an earlier message.
pub fn message(at: u64, memory: &impl Memory, see: &mut impl FnMut(Buffer)) {
    let field = |offset: u64| memory.word(at.wrapping_add(offset));
    vector(field(16), field(24), memory, see);
    let lengths = [(at.wrapping_add(8), 4), (at.wrapping_add(40), 12)];
    [(field(0), LONGEST_ADDRESS), (field(32), field(40))].into_iter().chain(lengths).for_each(see);
}
