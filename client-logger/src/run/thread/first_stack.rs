//! The stack with which a program begins: what the kernel has put there, as arguments and environment, and the zeros below it. No load tells of
//! what the program does not look at, so all of it is recorded.

use super::Thread;
use crate::base::maps;
use crate::run::parts::readable::for_readable;
use bugnet_format::picture::check_load;
use bugnet_format::record::Record;
use bugnet_format::types::Addr;

/// Bytes below the stack pointer that are recorded: what the kernel gives a stack to begin with.
const BELOW: u64 = 128 << 10;
/// Most bytes from the stack pointer on that are: an `execve` can bring megabytes.
const MOST: u64 = 256 << 10;
/// Bytes of a record.
const PIECE: u64 = 4096;

/// Takes away what DynamoRIO has left below this stack pointer, with which a program is about to begin on the stack that the kernel has made: natively,
/// there are zeros.
pub fn clear_below(rsp: u64) {
    let stack = maps::all().into_iter().find(|region| region.stack && region.range.contains(&rsp));
    let Some(region) = stack else { return };
    let page = rsp & !(Addr::PAGE - 1);
    let start = region.range.start.min(page);
    // SAFETY: nobody has anything below the stack pointer of a program that has not begun, and DynamoRIO is on a stack of its own.
    unsafe {
        libc::madvise(start as *mut libc::c_void, (page - start) as usize, libc::MADV_DONTNEED);
        std::ptr::write_bytes(page as *mut u8, 0, (rsp - page) as usize);
    }
}

impl Thread {
    /// Records it, where the thread's recording has just begun with this stack pointer.
    pub(in crate::run) fn record_first_stack(&mut self, rsp: u64) {
        let Some(region) = maps::region_of(rsp) else { return };
        let start = rsp.saturating_sub(BELOW).max(region.range.start);
        let end = region.range.end.min(rsp.saturating_add(MOST));
        let mut shadow = self.picture.shadow;
        let mut buffer = std::mem::take(&mut self.loads.buffer);
        for at in (start..end).step_by(PIECE as usize) {
            for_readable(&mut buffer, at, PIECE.min(end - at), |offset, bytes| {
                let addr = Addr(at + offset);
                check_load(&mut shadow, addr, bytes, |_, _| {});
                self.record(0, |delta| Record::Memory { delta, addr, bytes });
            });
        }
        self.loads.buffer = buffer;
    }
}
