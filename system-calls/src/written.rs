//! Which memory of the process the kernel may write for a call: what the table says, for its arguments and its result.

use crate::{Kernel, SystemCall};

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

/// The buffers that the kernel may write for a call; none where that is not known. A call that has failed may have written, too, but for those of which
/// the field `writes_last` says that they have not.
#[must_use]
pub fn written(call: &SystemCall, args: &[u64; 6], result: i64, memory: &impl Memory) -> Option<Vec<Buffer>> {
    let writes = call.writes?;
    if result < 0 && result != -i64::from(libc::EFAULT) && call.writes_last {
        return Some(Vec::new());
    }
    Some(writes.iter().flat_map(|(arg, size)| buffers(args, result, *arg, *size, memory)).collect())
}

fn buffers(args: &[u64; 6], result: i64, arg: usize, size: Kernel, memory: &impl Memory) -> Vec<Buffer> {
    let at = args[arg];
    match size {
        Kernel::Bytes(bytes) => vec![(at, bytes)],
        Kernel::Result(times) => vec![(at, u64::try_from(result).unwrap_or(0).saturating_mul(times))],
        Kernel::ResultBehind(offset) => vec![(at.wrapping_add(offset), u64::try_from(result).unwrap_or(0))],
        Kernel::Arg(arg, times) => vec![(at, args[arg].saturating_mul(times))],
        Kernel::Descriptors(arg) => vec![(at, args[arg].div_ceil(64).saturating_mul(8))],
        // What is not known there, as what another process has written, may be anything.
        Kernel::Counted(arg, most) => match memory.word(args[arg]) & u64::from(u32::MAX) {
            0 => vec![(at, most)],
            count => vec![(at, count.min(most))],
        },
        Kernel::Each { count, size, .. } if args[count] > MOST_ELEMENTS => {
            vec![(at, args[count].saturating_mul(size))]
        }
        Kernel::Each { count, size, offset, len } => {
            let element = |i: u64| (at.wrapping_add(i * size + offset), len);
            (0..args[count]).map(element).collect()
        }
        Kernel::Command(arg, known) => {
            known.iter().filter(|(known, _)| *known == args[arg]).map(|(_, bytes)| (at, *bytes)).collect()
        }
        Kernel::Vector(count) => vector(at, args[count], memory),
        Kernel::Message => message(at, memory),
        Kernel::Messages(count) => {
            let each = (0..args[count].min(MOST_BUFFERS)).map(|number| at.wrapping_add(number * MESSAGE));
            let of =
                |at: u64| message(at, memory).into_iter().chain([(at.wrapping_add(LENGTH), 4)]).collect::<Vec<_>>();
            each.flat_map(of).collect()
        }
    }
}

/// The buffers of a vector of `count`.
#[must_use]
pub fn vector(at: u64, count: u64, memory: &impl Memory) -> Vec<Buffer> {
    let element = |number: u64| at.wrapping_add(number * BUFFER);
    let buffer = |at: u64| (memory.word(at), memory.word(at.wrapping_add(8)));
    (0..count.min(MOST_BUFFERS)).map(|number| buffer(element(number))).collect()
}

/// The buffers of a message header, and what is written in itself: two lengths, and flags. How long the buffer for an address is, the kernel may have said
/// itself, behind an earlier message.
#[must_use]
pub fn message(at: u64, memory: &impl Memory) -> Vec<Buffer> {
    let field = |offset: u64| memory.word(at.wrapping_add(offset));
    let mut all = vector(field(16), field(24), memory);
    let lengths = [(at.wrapping_add(8), 4), (at.wrapping_add(40), 12)];
    all.extend([(field(0), LONGEST_ADDRESS), (field(32), field(40))].into_iter().chain(lengths));
    all
}

/// Where a call finds the lengths of buffers ([`Kernel::Counted`]), each with the longest such buffer.
pub fn counted(call: &SystemCall, args: &[u64; 6]) -> impl Iterator<Item = (u64, Buffer)> {
    call.writes.unwrap_or_default().iter().filter_map(|(arg, size)| match size {
        Kernel::Counted(count, most) => Some((args[*count], (args[*arg], *most))),
        _ => None,
    })
}
