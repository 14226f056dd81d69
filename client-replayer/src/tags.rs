//! Addresses that serve as names of split copies: DynamoRIO knows each block by an address at which there is code.

use bugnet_dr::space::{self, Protection};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many there are, a byte each. They cost nothing until they are used.
const COUNT: u64 = 1 << 28;
/// Bytes that are filled at a time.
const PIECE: u64 = 1 << 16;
/// `ret`: a block of one instruction, which the block event replaces.
const CODE: u8 = 0xc3;

static START: AtomicU64 = AtomicU64::new(0);

/// Whether the address is a tag.
pub fn is_one(address: u64) -> bool {
    let start = START.load(Ordering::Relaxed);
    start != 0 && (start..start + COUNT).contains(&address)
}

/// Hands out tags.
#[derive(Debug, Default)]
pub struct Tags {
    start: u64,
    next: u64,
    /// End of those that are code.
    end: u64,
}

impl Tags {
    /// A new tag; `None` if there is no memory for more.
    ///
    /// In a clean call or an event of the replayed thread.
    pub fn take(&mut self) -> Option<u64> {
        if self.start == 0 {
            // Wherever there is room, which is in the window.
            let start = space::allocate(COUNT as usize, Protection::READ | Protection::WRITE)?.as_ptr() as u64;
            START.store(start, Ordering::Relaxed);
            *self = Self { start, next: start, end: start };
        }
        if self.next == self.end {
            let prot = Protection::READ | Protection::EXEC;
            if self.end == self.start + COUNT {
                return None;
            }
            // SAFETY: the piece lies in the memory allocated above, and nobody has used it yet. It is written once,
            // before it is code.
            let done = unsafe {
                std::ptr::write_bytes(self.end as *mut u8, CODE, PIECE as usize);
                space::protect(self.end, PIECE as usize, prot)
            };
            if !done {
                return None;
            }
            self.end += PIECE;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}
