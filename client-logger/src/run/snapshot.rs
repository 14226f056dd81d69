//! Memory of the process as it is at its end: the records just before the `END` of the thread that ends it.
//!
//! Stacks come first, that of this thread first of all, then what the program can write to, small parts before large ones: where the
//! limit is met, as many parts as possible are whole. What the log does not need is left out: pages of files that nobody has changed, and
//! all but the place of memory that holds zeros.
//!
//! Meanwhile the other threads are where they access no memory ([`Thread::hold_others`]), so what is read is what their logs lead to.
//! Only the kernel may still write there, for calls that they have made, and whoever shares memory with the process.

mod keeper;
mod pagemap;
mod parts;

use crate::base::maps;
use crate::base::options;
use crate::base::options::Ends;
use crate::kernel::joined;
use crate::log::handover;
use crate::run::thread::Thread;
use bugnet_format::record::Record;
use bugnet_format::types::Addr;
use keeper::Keeper;
use pagemap::Pagemap;
pub use pagemap::follow;
use parts::Part;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By a signal.
    Killed,
    /// By itself.
    Exited,
}

/// Bytes below the stack pointer that may be in use: the red zone, and what is about to be pushed.
const BELOW: u64 = 256;
/// Most bytes of the stack of the thread that ends the process that come first of all.
const OWN_STACK: u64 = 1 << 20;
/// The same for each other thread.
const OTHER_STACK: u64 = 256 << 10;

/// Whether a thread keeps the process's memory.
static KEPT: AtomicBool = AtomicBool::new(false);

/// A process begins, or a forked child goes on: none does.
pub fn begin() {
    KEPT.store(false, Ordering::SeqCst);
}

/// The calling thread ends the process: whether it is the one that keeps its memory, which is the first.
fn takes_snapshot() -> bool {
    !KEPT.swap(true, Ordering::SeqCst)
}

/// The thread, which is recorded, ends the process at this position, with this stack pointer: keeps memory, if that is wanted.
pub fn keep(thread: &mut Thread, position: u64, stack: u64, how: How) {
    let wanted = match options::get().snapshot {
        Ends::None => false,
        Ends::Crashes => how == How::Killed,
        Ends::All => true,
    };
    if !wanted || !takes_snapshot() {
        return;
    }
    if !thread.hold_others(position) {
        let text = "a thread could not be stopped: memory may have changed while it was kept";
        thread.record(position, |_| Record::Note { text });
    }
    let others = thread.other_stacks();
    let mut keeper = Keeper::new(thread, position, options::get().snapshot_limit);
    if handover::is_restricted() {
        // Nothing but the stack can be found without a system call.
        let region = maps::region_of(stack).map(|region| Part::unknown(region.range));
        let part = region.into_iter().filter_map(|part| part.stack(stack, OWN_STACK));
        part.for_each(|part| part.keep(&mut Pagemap::none(), &mut keeper));
    } else {
        let mut pagemap = Pagemap::open();
        let mut kept: Vec<Range<u64>> = Vec::new();
        for part in ordered(stack, &others, parts::all()) {
            for left in joined::without(&part.range, &kept) {
                Part { range: left, ..part }.keep(&mut pagemap, &mut keeper);
            }
            kept.push(part.range);
            kept.sort_by_key(|range| range.start);
        }
    }
    if let Err(why) = keeper.finish() {
        crate::base::warn(&format!("the log lacks some of the memory at the end: {why}"));
    }
}

/// The parts in the order in which they are to be kept, stacks once more before all others.
fn ordered(stack: u64, others: &[u64], mut parts: Vec<Part>) -> Vec<Part> {
    let of = |pointer: u64, most| parts.iter().find_map(|part| part.stack(pointer, most));
    let mut first: Vec<Part> = of(stack, OWN_STACK).into_iter().collect();
    first.extend(others.iter().filter_map(|pointer| of(*pointer, OTHER_STACK)));
    parts.sort_by_key(|part| (part.rank, part.range.end - part.range.start));
    first.extend(parts);
    first
}

impl Part {
    /// The piece of the part, by pages, that is a stack with this pointer, at most so many bytes of it.
    fn stack(&self, pointer: u64, most: u64) -> Option<Self> {
        let start = (pointer.saturating_sub(BELOW) & !(Addr::PAGE - 1)).max(self.range.start);
        let end = self.range.end.min(start + most);
        self.range.contains(&pointer).then_some(Self { range: start..end, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parts::Rank;

    fn part(range: Range<u64>, rank: Rank) -> Part {
        Part { rank, ..Part::unknown(range) }
    }

    #[test]
    fn stacks_come_first_and_small_parts_before_large_ones() {
        let parts = vec![
            part(0x10_0000..0x40_0000, Rank::Writable),
            part(0x50_0000..0x51_0000, Rank::Readable),
            part(0x60_0000..0x60_4000, Rank::Writable),
            part(0x70_0000..0x70_2000, Rank::Writable),
        ];
        let order = ordered(0x60_1080, &[0x10_2300, 0x99_0000], parts);
        let ranges: Vec<_> = order.into_iter().map(|part| part.range).collect();
        assert_eq!(
            ranges,
            [
                0x60_0000..0x60_4000,
                0x10_2000..0x14_2000,
                0x70_0000..0x70_2000,
                0x60_0000..0x60_4000,
                0x10_0000..0x40_0000,
                0x50_0000..0x51_0000
            ]
        );
    }
}
