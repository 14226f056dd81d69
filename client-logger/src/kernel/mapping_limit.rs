//! The kernel allows a process so many mappings (`vm.max_map_count`), and DynamoRIO ends the program where it gets none. So the
//! program meets the limit earlier, and some are left.

use crate::base::descriptors::read_text;
use crate::base::maps;
use crate::kernel::results::error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mappings that are left for the recorder.
const LEFT: u64 = 1000;
/// What the kernel allows by default.
const DEFAULT: u64 = 65530;
/// The most mappings that a call of the program's makes of one, and what the recorder makes meanwhile.
const MADE: u64 = 4;

/// How many mappings there were when they were last counted, and the calls since then that may have made more.
static COUNTED: AtomicU64 = AtomicU64::new(LEFT);
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The most mappings that the program may have, with the recorder's.
fn most() -> u64 {
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| {
        let text = read_text("/proc/sys/vm/max_map_count").unwrap_or_default();
        text.trim().parse().unwrap_or(DEFAULT).saturating_sub(LEFT)
    })
}

/// The error of a system call that would make more mappings than are left for the program.
pub fn meets(number: i64) -> Option<i64> {
    let (makes, refused) = match number {
        libc::SYS_mmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => (true, true),
        // These free memory, too.
        libc::SYS_munmap | libc::SYS_mremap | libc::SYS_madvise => (true, false),
        _ => (false, false),
    };
    if !makes {
        return None;
    }
    let calls = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    if !refused || COUNTED.load(Ordering::Relaxed) + MADE * calls < most() {
        return None;
    }
    // Counting takes time, and is done the more often, the fewer are left.
    let count = maps::count();
    COUNTED.store(count, Ordering::Relaxed);
    CALLS.store(0, Ordering::Relaxed);
    (count >= most()).then_some(error(libc::ENOMEM))
}
