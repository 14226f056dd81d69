//! Robust futexes: words that the kernel changes when the thread that holds them ends, and the list in which the thread has
//! them.

use super::system::number;
use crate::memory::Memory;
use bugnet_format::types::Tid;

/// Bytes of a futex.
pub const FUTEX_BYTES: u64 = 4;
/// As far as the kernel follows a list.
const LONGEST: usize = 2048;
/// The bits of a futex that hold the owner's thread id.
const OWNER: u64 = 0x3fff_ffff;
/// A bit of a link in the list, which is no part of the address.
const INHERITS_PRIORITY: u64 = 1;

/// The futexes in the list with this head that the thread holds. The head is a link to the first entry, the distance from an
/// entry to its futex, and a link to an entry that is about to be added or taken away. The last entry links to the head.
pub fn held(memory: &Memory, head: u64, thread: Tid) -> Vec<u64> {
    if head == 0 {
        return Vec::new();
    }
    let link = |at: u64| number(memory, at) & !INHERITS_PRIORITY;
    let (distance, pending) = (number(memory, head.wrapping_add(8)), link(head.wrapping_add(16)));
    let entries = std::iter::successors(Some(link(head)), |entry| Some(link(*entry)));
    let entries = entries.take_while(|entry| *entry != head && *entry != 0).take(LONGEST);
    let futexes = entries.chain((pending != 0).then_some(pending)).map(|entry| entry.wrapping_add(distance));
    futexes.filter(|futex| number(memory, *futex) & OWNER == u64::from(thread.0)).collect()
}
