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
/// The bit that the kernel sets where the owner has ended.
const OWNER_DIED: u64 = 0x4000_0000;
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
    futexes.filter(|futex| number(memory, *futex) & OWNER == u64::from(thread.id())).collect()
}

/// The words at `at` that a thread has found given up by the kernel, whereas memory still has their owner: each with this one. Whoever
/// waits in the kernel may come back before the owner's end, as nothing orders the two.
pub fn given_up(at: u64, recorded: &[u8], memory: &[u8]) -> impl Iterator<Item = (u64, Tid)> {
    const BYTES: usize = FUTEX_BYTES as usize;
    let start = (at.next_multiple_of(FUTEX_BYTES) - at) as usize;
    let words = |bytes: &[u8]| -> Vec<u64> {
        let whole = bytes.get(start..).unwrap_or_default().chunks_exact(BYTES);
        whole.map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))).collect()
    };
    let pairs = words(recorded).into_iter().zip(words(memory)).zip((at + start as u64..).step_by(BYTES));
    let given_up = |((recorded, memory), _): &((u64, u64), u64)| recorded & OWNER_DIED != 0 && memory & OWNER_DIED == 0;
    pairs.filter(given_up).map(|((_, memory), address)| (address, Tid((memory & OWNER) as u32)))
}
