//! Memory that the kernel writes after the call that asks for it has returned: io_uring, and native asynchronous I/O.

use super::system::number;
use crate::memory::Memory;
use bugnet_system_calls::written::{message, vector};
use hashbrown::HashMap;

/// Setup flags of a ring: the kernel takes entries without being called; entries of 128 bytes.
const SETUP_SQPOLL: u64 = 1 << 1;
const SETUP_SQE128: u64 = 1 << 10;
/// Flag of `io_uring_enter`: the descriptor is an index of registered ones.
const ENTER_REGISTERED_RING: u64 = 1 << 4;
/// Offset at which a ring's submission entries are mapped.
const OFFSET_SQES: u64 = 0x1000_0000;
/// Most entries that a ring can have.
const MAX_ENTRIES: u64 = 1 << 15;

/// A range of memory: start and length.
pub type Buffer = (u64, u64);

/// An io_uring: where its submission entries are, and how many the kernel has taken.
struct Ring {
    entries: u64,
    entry: u64,
    start: Option<u64>,
    taken: u64,
}

/// The rings of the process, by descriptor.
#[derive(Default)]
pub struct Rings(HashMap<u64, Ring>);

impl Rings {
    /// `io_uring_setup` has made a ring of at least so many entries.
    pub fn set_up(&mut self, descriptor: u64, entries: u64, parameters: u64, memory: &Memory) {
        self.0.remove(&descriptor);
        let flags = number(memory, parameters.wrapping_add(8)) & u64::from(u32::MAX);
        // What the kernel has taken of such a ring cannot be known: what it writes is not explained.
        if flags & SETUP_SQPOLL == 0 {
            let entries = entries.clamp(1, MAX_ENTRIES).next_power_of_two();
            let entry = if flags & SETUP_SQE128 == 0 { 64 } else { 128 };
            self.0.insert(descriptor, Ring { entries, entry, start: None, taken: 0 });
        }
    }

    /// A descriptor was mapped.
    pub fn mapped(&mut self, descriptor: u64, offset: u64, address: u64) {
        if let Some(ring) = self.0.get_mut(&descriptor)
            && offset == OFFSET_SQES
        {
            ring.start = Some(address);
        }
    }

    /// `io_uring_enter` took so many entries: what they ask the kernel to fill.
    ///
    /// Entries are taken in turn. The ring has a table that could say otherwise, which nobody is known to use.
    pub fn taken(&mut self, descriptor: u64, flags: u64, count: u64, memory: &Memory) -> Vec<Buffer> {
        let ring = self.0.get_mut(&descriptor).filter(|_| flags & ENTER_REGISTERED_RING == 0);
        let Some(Ring { entries, entry, start: Some(start), taken }) = ring else { return Vec::new() };
        let first = *taken;
        *taken = first.wrapping_add(count);
        let at = |i: u64| start.wrapping_add((first.wrapping_add(i) % *entries) * *entry);
        (0..count.min(*entries)).flat_map(|i| asked(at(i), memory)).collect()
    }
}

/// What a submission entry asks the kernel to fill.
fn asked(entry: u64, memory: &Memory) -> Vec<Buffer> {
    const READV: u64 = 1;
    const READ_FIXED: u64 = 4;
    const RECVMSG: u64 = 10;
    const ACCEPT: u64 = 13;
    const STATX: u64 = 21;
    const READ: u64 = 22;
    const RECV: u64 = 27;
    const EPOLL_WAIT: u64 = 59;
    const READV_FIXED: u64 = 60;
    let field = |offset: u64| number(memory, entry.wrapping_add(offset));
    let (second, address, len) = (field(8), field(16), field(24) & u64::from(u32::MAX));
    match field(0) & 0xff {
        READV | READV_FIXED => vector(address, len, memory),
        READ_FIXED | READ | RECV => vec![(address, len)],
        RECVMSG => message(address, memory),
        ACCEPT => vec![(address, 128), (second, 4)],
        STATX => vec![(second, 256)],
        EPOLL_WAIT => vec![(address, len * 12)],
        _ => Vec::new(),
    }
}

/// What `io_submit` of so many requests asks the kernel to fill.
pub fn submitted(requests: u64, count: u64, memory: &Memory) -> Vec<Buffer> {
    const PREAD: u64 = 0;
    const PREADV: u64 = 7;
    let asked = |i: u64| {
        let request = number(memory, requests.wrapping_add(8 * i));
        let field = |offset: u64| number(memory, request.wrapping_add(offset));
        match field(16) & 0xffff {
            PREAD => vec![(field(24), field(32))],
            PREADV => vector(field(24), field(32), memory),
            _ => Vec::new(),
        }
    };
    (0..count.min(1 << 16)).flat_map(asked).collect()
}
