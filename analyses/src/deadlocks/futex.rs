//! Locks that are one word on which their waiters wait in `futex`: those of Rust's standard library, and the C library's own. No function of
//! theirs need be called to take one that is free, so who holds it is inferred: who last changed the word from 0, which in all of them means
//! that nobody holds the lock.

use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::backtrace::{Frame, unwind_some};
use bugnet_replay::cursor::{Cursor, LastWrite, Place, Seek, Thread};
use bugnet_replay::log::{Log, ThreadId};
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::at_the_end;

/// The system call, and the operations by which a thread waits as long as the word is what it was.
const FUTEX: u64 = 202;
const WAIT: u64 = 0;
const WAIT_BITSET: u64 = 9;
/// Flags of an operation.
const FLAGS: u64 = 128 | 256;
/// Frames of a thread in which the function is looked for that waits for a lock.
const FRAMES: usize = 8;
/// Writes to the word that are looked at.
const WRITES: usize = 1000;

/// A thread that waits for such a lock.
pub struct Waiting {
    /// Where the word is.
    pub addr: u64,
    /// Where the thread waits.
    pub place: Place,
    /// Its stack there.
    pub frames: Vec<Frame>,
}

/// Whether a function, by its name, is where a thread waits that found a lock taken.
fn waits_for_lock(function: &str) -> bool {
    function.contains("futex::Mutex") && function.ends_with("lock_contended") || function.starts_with("__lll_lock_wait")
}

/// What a thread waits for at the end, where the cursor is, if it is such a lock.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub fn waiting(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    thread: &Thread,
) -> Result<Option<Waiting>> {
    let id = ThreadId { pid: cursor.pid(), tid: thread.place.tid };
    let Some((FUTEX, [addr, operation, ..])) = at_the_end(log, id)? else { return Ok(None) };
    if !matches!(operation & !FLAGS, WAIT | WAIT_BITSET) {
        return Ok(None);
    }
    let code = log.code(cursor.pid())?;
    let frames = unwind_some(&thread.regs, cursor, symbols, &code, FRAMES)?.frames;
    let mut names = frames.iter().flat_map(|frame| {
        let inlined = frame.place.source.iter().filter_map(|source| source.function.as_deref());
        inlined.chain(frame.place.symbol.as_ref().map(|symbol| symbol.name.as_str()))
    });
    let waits = names.any(waits_for_lock);
    Ok(waits.then_some(Waiting { addr, place: thread.place, frames }))
}

/// Where the word was last changed from 0, if that is known; the cursor is there then.
///
/// # Errors
/// The replay process is lost.
pub fn taken(cursor: &mut Cursor<'_>, addr: u64) -> Result<Option<Place>> {
    cursor.seek(Seek::End)?;
    let is_free = |bytes: &[Option<u8>]| bytes.iter().all(|byte| *byte == Some(0));
    let is_known = |bytes: &[Option<u8>]| bytes.iter().all(Option::is_some);
    for _ in 0..WRITES {
        let LastWrite::Instruction { place, before, after, .. } = cursor.last_write(Addr(addr), 4)? else { break };
        if !is_known(&before) || !is_known(&after) || is_free(&after) {
            break;
        }
        if is_free(&before) {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::waits_for_lock;

    #[test]
    fn functions_that_wait_for_locks() {
        let all = [
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
            "__lll_lock_wait_private",
        ];
        assert!(all.into_iter().all(waits_for_lock));
        assert!(
            !["std::sys::sync::rwlock::futex::RwLock::write_contended", "futex_wait"].into_iter().any(waits_for_lock)
        );
    }
}
