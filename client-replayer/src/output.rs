//! What a system call wrote, read from replayed memory.

use crate::memory::Memory;

/// Most bytes that one message carries; well below [`bugnet_format::control::MAX_MESSAGE`].
pub const MAX_PIECE: usize = 1 << 20;
/// Most elements of a vector that the kernel takes.
const MAX_VECTOR: u64 = 1024;

/// Where a system call finds what it writes.
enum Source {
    /// Second argument: a buffer.
    Buffer,
    /// Second and third argument: a vector of buffers and its length.
    Vector,
    /// Second argument: a message header.
    Message,
}

/// System calls that write from the program's memory, by number.
const WRITES: [(u64, Source); 8] = [
    (1, Source::Buffer),   // write
    (18, Source::Buffer),  // pwrite64
    (44, Source::Buffer),  // sendto
    (20, Source::Vector),  // writev
    (296, Source::Vector), // pwritev
    (328, Source::Vector), // pwritev2
    (278, Source::Vector), // vmsplice
    (46, Source::Message), // sendmsg
];

fn number(memory: &Memory, at: u64) -> Option<u64> {
    Some(u64::from_le_bytes(memory.read(at, 8).try_into().ok()?))
}

/// The buffers that the call was given, in order, each as address and length.
fn buffers(memory: &Memory, source: &Source, args: &[u64; 6], result: u64) -> Option<Vec<(u64, u64)>> {
    let (vector, count) = match source {
        Source::Buffer => return Some(vec![(args[1], result)]),
        Source::Vector => (args[1], args[2]),
        Source::Message => (number(memory, args[1].checked_add(16)?)?, number(memory, args[1].checked_add(24)?)?),
    };
    (0..count.min(MAX_VECTOR))
        .map(|i| {
            let at = vector.checked_add(i * 16)?;
            Some((number(memory, at)?, number(memory, at.checked_add(8)?)?))
        })
        .collect()
}

/// Hands what the call wrote to `piece`, in order, at most [`MAX_PIECE`] bytes at a time.
///
/// # Errors
/// `piece`'s, or a sentence why what was written cannot be told.
pub fn written(
    memory: &Memory,
    call: u64,
    args: &[u64; 6],
    result: i64,
    mut piece: impl FnMut(Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    let Ok(mut left) = u64::try_from(result) else { return Ok(()) };
    let Some((_, source)) = WRITES.iter().find(|(n, _)| *n == call) else {
        return Err(format!("system call {call} wrote output that is not in the program's memory"));
    };
    let buffers = buffers(memory, source, args, left).ok_or("the buffers of an output call are not in memory")?;
    for (mut at, len) in buffers {
        let mut len = len.min(left);
        left -= len;
        while len > 0 {
            let bytes = memory.read(at, len.min(MAX_PIECE as u64));
            if bytes.is_empty() {
                return Err(format!("output at {at:#x} is not in memory"));
            }
            at = at.wrapping_add(bytes.len() as u64);
            len -= bytes.len() as u64;
            piece(bytes)?;
        }
    }
    match left {
        0 => Ok(()),
        left => Err(format!("the buffers of an output call hold {left} bytes less than it wrote")),
    }
}
