//! Where a byte of the program's output was written, and from which memory.

use bugnet_format::record::{OutputStream, Record};
use bugnet_format::types::Addr;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log};
use bugnet_replay::memory::Memory;
use bugnet_replay::{ReplayError, Result};

/// Calls of several threads of which the order is found out.
const MAX_CALLS: usize = 2000;

/// A system call that wrote output.
struct Write {
    place: Place,
    number: i64,
    args: [u64; 6],
    bytes: u64,
}

/// Goes to the call that wrote the byte with this number, from 0, of what the process wrote to its standard output and error; the byte's
/// address.
///
/// # Errors
/// There is no such byte, it was never in the process's memory, or the log cannot be read or replayed.
pub fn written(log: &Log, cursor: &mut Cursor<'_>, byte: u64) -> Result<u64> {
    let mut writes = Vec::new();
    let mut threads = 0;
    for thread in log.threads().filter(|thread| thread.pid == cursor.pid()) {
        let before = writes.len();
        for &interval in log.intervals(thread)? {
            for placed in log.interval(IntervalId { thread, interval })?.records().flatten() {
                let Record::Syscall { number, result, args, stream, .. } = placed.record else { continue };
                if stream == OutputStream::None || result <= 0 {
                    continue;
                }
                let place = Place { tid: thread.tid, interval, position: placed.position };
                let (number, bytes) = (number.cast_signed(), result.cast_unsigned());
                writes.push(Write { place, number, args, bytes });
            }
        }
        threads += usize::from(writes.len() > before);
    }
    if threads > 1 {
        sort(cursor, &mut writes)?;
    }
    let mut left = byte;
    for write in &writes {
        if left < write.bytes {
            cursor.seek(Seek::Place(write.place))?;
            return in_memory(cursor, write, left);
        }
        left -= write.bytes;
    }
    let all: u64 = writes.iter().map(|write| write.bytes).sum();
    Err(ReplayError::OutOfRange(format!(
        "the process wrote {all} bytes to its standard output and error: there is no byte {byte}"
    )))
}

fn sort(cursor: &mut Cursor<'_>, writes: &mut [Write]) -> Result<()> {
    if writes.len() > MAX_CALLS {
        return Err(ReplayError::OutOfRange(format!(
            "several threads wrote output, by {} calls: name the memory instead, at one of them (bugnet syscalls lists them)",
            writes.len()
        )));
    }
    let mut times = Vec::new();
    for write in writes.iter() {
        cursor.seek(Seek::Place(write.place))?;
        times.push((write.place, cursor.time()));
    }
    let time = |place: Place| times.iter().find(|(other, _)| *other == place).map(|(_, time)| *time);
    writes.sort_by_key(|write| time(write.place));
    Ok(())
}

fn in_memory(cursor: &mut Cursor<'_>, write: &Write, byte: u64) -> Result<u64> {
    match write.number {
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_sendto => Ok(write.args[1] + byte),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            let mut left = byte;
            for number in 0..write.args[2].min(1024) {
                let vector = cursor.read_memory(Addr(write.args[1] + 16 * number), 16)?;
                let words: Vec<u64> =
                    vector.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?))).collect();
                let [base, len] = words[..] else { break };
                if left < len {
                    return Ok(base + left);
                }
                left -= len;
            }
            Err(ReplayError::OutOfRange(format!(
                "it is not known from which memory byte {byte} of the call at {} came",
                write.place
            )))
        }
        _ => Err(ReplayError::OutOfRange(format!(
            "the call at {} wrote what was not in the process's memory, as sendfile and splice do",
            write.place
        ))),
    }
}
