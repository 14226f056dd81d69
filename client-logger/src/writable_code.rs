//! Memory that the program may both write to and execute.
//!
//! DynamoRIO alone would make such pages read-only, which the program can notice, or compare a block's code byte by byte each
//! time (`-sandbox_writable`), which takes as long as hundreds of instructions. Here, blocks in such memory begin with a check
//! of their own ([`crate::instrument`]), and DynamoRIO takes the memory for such that cannot be written to. Where that is
//! not known in time (a program's own segments, its stack), it compares, too.

use crate::maps;
use crate::process;
use bugnet_dr::sys;
use bugnet_format::types::Addr;

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
    if number == libc::SYS_mmap || !process::get().threaded() {
        return true;
    }
    let range = start..start.saturating_add(len);
    let accessible = |region: &maps::Region| {
        let overlaps = region.range.start < range.end && range.start < region.range.end;
        overlaps && region.protection != 0
    };
    !maps::all().iter().any(accessible)
}

/// A system call has made memory writable and executable: tells DynamoRIO that it is executable only, and gives it back the
/// protection that the program wants.
pub fn after(number: i64, args: &[u64; 6], result: u64) {
    let Some((start, len, protection)) = asked_for(number, args) else { return };
    let start = if number == libc::SYS_mmap { result } else { start };
    if len == 0 {
        return;
    }
    let len = len.next_multiple_of(Addr::PAGE) as usize;
    let without_writing = sys::DR_MEMPROT_READ | sys::DR_MEMPROT_EXEC;
    // If DynamoRIO cannot be told, it compares, which is slow and nothing else.
    // SAFETY: memory of the program's, which gets its protection back before the program goes on.
    let restored = unsafe {
        sys::dr_memory_protect(start as *mut _, len, without_writing);
        libc::mprotect(start as *mut _, len, protection)
    };
    if restored != 0 {
        let why = std::io::Error::last_os_error();
        crate::die(&format!("the program's code at {start:#x} cannot be made writable again: {why}"));
    }
}
