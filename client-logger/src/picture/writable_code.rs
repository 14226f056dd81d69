//! Memory that the program may both write to and execute.
//!
//! DynamoRIO alone would make such pages read-only, which the program can notice, or compare a block's code byte by byte each
//! time (`-sandbox_writable`), which takes as long as hundreds of instructions. Here, blocks in such memory begin with a check
//! of their own ([`crate::emitted::instrument`]), and DynamoRIO takes the memory for such that cannot be written to. Where that is
//! not known in time (a program's own segments, its stack), it compares, too.
//!
//! Where code has changed, the blocks that were built of it are thrown away, and with them all others of what DynamoRIO
//! takes for one area of code. So it is told of pieces. It would make one area of those that touch, so one byte is left out behind
//! each:
//!
//! ```text
//!     | piece, less its last byte |1| piece, less its last byte |1| ...
//! ```
//!
//! What ends in such a byte is a block of one instruction, which DynamoRIO compares, since it takes the byte for writable.
//!
//! Where it compares, a block of which all but the first byte has been taken away is executed wrongly: DynamoRIO 11.90 has another length
//! in mind where it puts in the address of the bytes to compare with (`emit.c`, which asks for the whole block, against `mangle.c`).

use crate::base::lock::Mutex;
use crate::base::maps;
use crate::base::process;
use bugnet_dr::space::{self, Protection};
use bugnet_format::types::Addr;
use rangemap::RangeSet;
use std::sync::LazyLock;

/// What DynamoRIO was told last to be executable only.
static TOLD: LazyLock<Mutex<RangeSet<u64>>> = LazyLock::new(Mutex::default);

/// Memory is cut into at most twice so many pieces: DynamoRIO goes through a list of all of them.
const PIECES: u64 = 1024;

const ACCESS: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

/// Memory that a system call maps or protects so that it can be written to and executed: start, length and protection. The
/// start is not known before the call that maps it.
fn asked_for(number: i64, args: &[u64; 6]) -> Option<(u64, u64, i32)> {
    let protection = args[2] as i32;
    let both = libc::PROT_WRITE | libc::PROT_EXEC;
    let known = args[2] as i32 & !ACCESS == 0 && protection & both == both;
    let grows = number == libc::SYS_mmap && args[3] as i32 & libc::MAP_GROWSDOWN != 0;
    let maps = matches!(number, libc::SYS_mmap | libc::SYS_mprotect);
    (known && maps && !grows).then_some((args[0], args[1], protection))
}

/// Before a system call: whether [`after`] may be told of it. While it tells DynamoRIO, the memory cannot be written to, which
/// no other thread may notice.
pub fn before(number: i64, args: &[u64; 6]) -> bool {
    let Some((start, len, _)) = asked_for(number, args) else { return false };
    if number == libc::SYS_mmap || !process::threaded() {
        return true;
    }
    let range = start..start.saturating_add(len);
    let accessible = |region: &maps::Region| {
        let overlaps = region.range.start < range.end && range.start < region.range.end;
        overlaps && region.protection != 0
    };
    !maps::all().iter().any(accessible)
}

/// A system call has made memory writable and executable: tells DynamoRIO that its pieces are executable only, and gives it back
/// the protection that the program wants.
pub fn after(number: i64, args: &[u64; 6], result: u64) {
    let Some((start, len, protection)) = asked_for(number, args) else { return };
    let start = if number == libc::SYS_mmap { result } else { start };
    if len == 0 {
        return;
    }
    let len = len.next_multiple_of(Addr::PAGE);
    let size = piece(len);
    for piece in (start..start + len).step_by(size as usize) {
        let last = (piece + size).min(start + len) - 1;
        tell(piece, last - piece, Protection::READ | Protection::EXEC);
        TOLD.lock().insert(piece..last);
        // Of the byte's page, DynamoRIO remembers this for when it finds code there that is in no area. The areas stay.
        tell(last, 1, Protection::ALL);
    }
    // SAFETY: memory of the program's, which gets the protection that it has asked for.
    let restored = unsafe { libc::mprotect(start as *mut _, len as usize, protection) };
    if restored != 0 {
        let why = std::io::Error::last_os_error();
        crate::base::failure::fail(&format!("the program's code at {start:#x} cannot be made writable again: {why}"));
    }
}

/// Whether DynamoRIO takes the memory at an address for such that cannot be written to: false where it may compare.
pub fn is_told(address: u64) -> bool {
    TOLD.lock().contains(&address)
}

/// Tells DynamoRIO what the program may do with memory. If it cannot be told, it compares, which is slow and nothing else.
fn tell(start: u64, len: u64, protection: Protection) {
    // SAFETY: memory of the program's, which gets its own protection back before the program goes on.
    let _ = unsafe { space::protect(start, len as usize, protection) };
}

/// Bytes of a piece of so much memory.
fn piece(len: u64) -> u64 {
    (len / PIECES).next_power_of_two().max(Addr::PAGE)
}
