//! The limits of memory that the program is to have, `RLIMIT_AS` and `RLIMIT_DATA`.
//!
//! Beside the program's memory there is the recorder's, which is larger. Where the program has a limit, what is the program's is
//! added up before it grows, and calls that would exceed the limit fail as they would natively.

use crate::base::maps::{self, Region};
use crate::base::own_memory;
use crate::kernel::joined;
use crate::kernel::program_break::{self, Step};
use crate::kernel::results::error;
use crate::picture::shadow;
use bugnet_format::types::Addr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes by which the program's memory can grow for sure, as long as the limits stay.
static FREE: AtomicU64 = AtomicU64::new(0);

/// A limit has changed.
pub fn forget() {
    FREE.store(0, Ordering::Relaxed);
}

/// By what a system call makes the program's memory grow.
struct Growth {
    /// Bytes.
    len: u64,
    /// Whether they are data: private, and can be written to.
    data: bool,
    /// Where what is there already does not count, if it is replaced.
    replaces: Range<u64>,
}

fn pages(len: u64) -> u64 {
    len.saturating_add(Addr::PAGE - 1) & !(Addr::PAGE - 1)
}

fn growth(number: i64, args: &[u64; 6]) -> Option<Growth> {
    let new = |len, data| Growth { len: pages(len), data, replaces: 0..0 };
    match number {
        libc::SYS_mmap => {
            let (protection, flags) = (args[2] as i32, args[3] as i32);
            let replaces = flags & libc::MAP_FIXED != 0;
            let replaces = if replaces { args[0]..args[0].saturating_add(pages(args[1])) } else { 0..0 };
            let data = protection & libc::PROT_WRITE != 0 && flags & libc::MAP_SHARED == 0;
            Some(Growth { replaces, ..new(args[1], data) })
        }
        libc::SYS_mremap => {
            let more = pages(args[2]).saturating_sub(pages(args[1]));
            let data = maps::region_of(args[0]).is_some_and(|region| region.protection & libc::PROT_WRITE != 0);
            (more > 0).then(|| new(more, data))
        }
        libc::SYS_brk => match program_break::before(args[0]) {
            Step::Map(range) => Some(new(range.end - range.start, true)),
            _ => None,
        },
        _ => None,
    }
}

/// What else the program has nothing of: the kernel may have joined it with memory of the program's.
pub fn others() -> Vec<Range<u64>> {
    [&[program_break::spare()], &own_memory::all()[..]].concat()
}

/// Bytes of what the program has, without a range that is to be replaced: all, and data.
fn used(replaced: &Range<u64>) -> [u64; 2] {
    // Nor does what is replaced count.
    let others = [&others()[..], std::slice::from_ref(replaced)].concat();
    let mut used = [0; 2];
    // What lies beyond, as the vsyscall page, the kernel does not count.
    let is_counted = |region: &&Region| region.range.end >> 47 == 0 && !shadow::is_ours(region.range.start);
    for region in maps::all().iter().filter(is_counted) {
        let len: u64 = joined::the_programs(&region.range, &others).iter().map(|part| part.end - part.start).sum();
        used[0] += len;
        let data = region.protection & libc::PROT_WRITE != 0 && !region.shared && !region.stack;
        used[1] += if data { len } else { 0 };
    }
    used
}

/// The error of a system call that meets one of the limits.
pub fn meets(address_space: u64, data: u64, number: i64, args: &[u64; 6]) -> Option<i64> {
    if address_space == libc::RLIM_INFINITY && data == libc::RLIM_INFINITY {
        return None;
    }
    let growth = growth(number, args)?;
    let take = |free: u64| free.checked_sub(growth.len);
    if FREE.try_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        return None;
    }
    let [all, of_data] = used(&growth.replaces);
    let free = address_space.saturating_sub(all);
    let free_data = data.saturating_sub(of_data);
    if growth.len <= free && (growth.len <= free_data || !growth.data) {
        FREE.store(free.min(free_data).saturating_sub(growth.len), Ordering::Relaxed);
        return None;
    }
    Some(if number == libc::SYS_brk { program_break::now().cast_signed() } else { error(libc::ENOMEM) })
}
