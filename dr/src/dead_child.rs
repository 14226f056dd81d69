//! A child of `vfork` that was killed, of which DynamoRIO still has the record of a thread that lives.
//!
//! DynamoRIO keeps such a child as a thread of its parent's, and marks the record once the child is about to execute a program: it then
//! leaves it alone, and removes it some time later. One that SIGKILL kills before is never marked, and whenever the parent forks, DynamoRIO
//! tries to stop it, for almost a minute, or for ever where nobody has waited for the child. No function of DynamoRIO's sets the mark, so it is
//! set here, in a record that is looked for and recognised by all that is known of it.

use crate::sys;
use std::ffi::c_void;
use std::mem::offset_of;

/// DynamoRIO's `thread_record_t`, up to what is needed (`core/globals.h`).
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    id: i32,
    pid: i32,
    /// Whether it executes another program.
    execve: u8,
    num: u32,
    controlled: u8,
    context: *mut c_void,
}

/// Words of a context among which a pointer to its record is looked for: behind what the code cache needs of it.
const SEARCHED: usize = 512;
/// Words that are read at once.
const PIECE: usize = 64;
/// Nothing is mapped below this.
const LOWEST: u64 = 1 << 16;

/// Marks the record of a child that has died as one that executes another program. `false` if there is none that says that it lives.
///
/// # Safety
/// The context is one of DynamoRIO's that it has not freed, of a thread that does not run and never will.
#[must_use]
pub unsafe fn mark(context: *mut c_void, pid: u32) -> bool {
    let pieces = (0..SEARCHED).step_by(PIECE).map_while(|from| read::<[u64; PIECE]>(context as u64 + 8 * from as u64));
    let id = i32::try_from(pid).unwrap_or(0);
    let is_its = |record: &Record| (record.id, record.pid, record.context) == (id, id, context);
    let pointers = pieces.flatten().filter(|word| word % 8 == 0 && *word > LOWEST);
    let mut records = pointers.filter_map(|at| read::<Record>(at).filter(is_its).map(|record| (at, record)));
    let Some((at, Record { execve: 0, controlled: 1, .. })) = records.next() else { return false };
    let mark = (at + offset_of!(Record, execve) as u64) as *mut u8;
    // SAFETY: the record of a context that is there, of a thread that does not change it, by the caller's promise.
    unsafe { mark.write_volatile(1) };
    true
}

/// What is at an address, of a type that any bytes make; none if it cannot be read.
fn read<T: Copy>(address: u64) -> Option<T> {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: DynamoRIO's safe read catches faults at the source; the target is ours.
    let read = unsafe {
        sys::dr_safe_read(address as *const _, size_of::<T>(), value.as_mut_ptr().cast(), std::ptr::null_mut())
    };
    // SAFETY: it was filled, and numbers and pointers may be any bytes.
    (read != 0).then(|| unsafe { value.assume_init() })
}
