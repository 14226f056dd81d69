//! Which memory a system call may have changed: its buffers for results, and what it maps and unmaps.
//!
//! Contents do not matter here: what the calling thread found in that memory is in its log. This says only where bytes
//! may come from that no thread has stored.

use super::origin::Origins;
pub use super::requests::Buffer;
use super::requests::{self, Rings};
use crate::memory::Memory;
use bugnet_format::types::Addr;
use bugnet_system_calls::written;
use std::ops::Range;

const IOCTL: u64 = 16;
const IO_SETUP: u64 = 206;
const USERFAULTFD: u64 = 323;
const RSEQ: u64 = 334;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;

/// The terminal's commands of `ioctl`, and some of its kind: they write what the table says.
const OF_TERMINALS: Range<u64> = 0x5400..0x5500;
/// The same, by their number in what says more.
const IS_OF_TERMINALS: u64 = 0x54;

/// Whether all is known of which memory a system call may change. After another one, any may be another.
pub fn is_understood(memory: &Memory, number_of_call: u64, args: &[u64; 6], result: i64) -> bool {
    // A child that shares memory, and is no thread, may have written there.
    let shares = |flags: u64| flags & (CLONE_VM | CLONE_THREAD) == CLONE_VM;
    match number_of_call {
        // There is none where the call has failed; where it returns as in the child, the log goes on with what that does (light logs).
        VFORK | CLONE | CLONE3 if result <= 0 => true,
        IOCTL => is_known_ioctl(args[1]),
        CLONE => !shares(args[0]),
        CLONE3 => Some(number(memory, args[0])).filter(|flags| *flags != 0).is_some_and(|flags| !shares(flags)),
        number => bugnet_system_calls::of(number).is_some_and(|call| call.writes.is_some()),
    }
}

/// Whether it is known what the kernel writes for a command of `ioctl`.
fn is_known_ioctl(command: u64) -> bool {
    let is_written = bugnet_system_calls::IOCTLS.iter().any(|(known, _)| *known == command);
    // What only takes something says so.
    let takes = command >> 30 == 1 && command >> 8 & 0xff == IS_OF_TERMINALS;
    is_written || takes || OF_TERMINALS.contains(&command)
}

/// Whether a system call lends all memory to a child, a process of its own, until it returns.
pub fn lends_memory(memory: &Memory, number_of_call: u64, args: &[u64; 6], result: i64) -> bool {
    let lends = |flags: u64| flags & (CLONE_VM | CLONE_THREAD | CLONE_VFORK) == CLONE_VM | CLONE_VFORK;
    result > 0
        && match number_of_call {
            VFORK => true,
            CLONE => lends(args[0]),
            CLONE3 => lends(number(memory, args[0])),
            _ => false,
        }
}

/// Whether memory may be written from here on by something that no record tells of when it does: the kernel, at its own times, or a
/// process that shares all memory.
pub fn makes_unsteady(memory: &Memory, number_of_call: u64, args: &[u64; 6], result: i64) -> bool {
    let shares = |flags: u64| flags & (CLONE_VM | CLONE_THREAD | CLONE_VFORK) == CLONE_VM;
    result >= 0
        && match number_of_call {
            IO_SETUP | IO_URING_SETUP | USERFAULTFD => true,
            CLONE => shares(args[0]),
            CLONE3 => shares(number(memory, args[0])),
            _ => false,
        }
}

const MMAP: u64 = 9;
const MUNMAP: u64 = 11;
const BRK: u64 = 12;
const MREMAP: u64 = 25;
const SHMAT: u64 = 30;
const MADVISE: u64 = 28;
const CLONE: u64 = 56;
const VFORK: u64 = 58;
const SET_TID_ADDRESS: u64 = 218;
const CLONE3: u64 = 435;
const IO_SUBMIT: u64 = 209;
const IO_URING_SETUP: u64 = 425;
const IO_URING_ENTER: u64 = 426;

const MAP_SHARED: u64 = 1;
const MAP_ANONYMOUS: u64 = 0x20;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

/// The number at an address; 0 where there is no memory.
pub fn number(memory: &Memory, at: u64) -> u64 {
    memory.read(at, 8).try_into().map_or(0, u64::from_le_bytes)
}

impl written::Memory for Memory {
    fn word(&self, at: u64) -> u64 {
        number(self, at)
    }
}

/// Where a call finds the lengths of buffers, each with the longest such buffer.
pub fn counted(number_of_call: u64, args: &[u64; 6]) -> Vec<(u64, Buffer)> {
    bugnet_system_calls::of(number_of_call).map_or_else(Vec::new, |call| written::counted(call, args).collect())
}

/// Memory that a call has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Zeros.
    Zeros,
    /// What a file has, which is nobody else's to change there.
    File,
}

/// What memory a call has made, if it is the process's own.
pub fn made(number: u64, args: &[u64; 6], result: i64, heap: Option<u64>) -> Option<(Buffer, Made)> {
    let result = u64::try_from(result).ok()?;
    match (number, heap) {
        (MMAP, _) if args[3] & MAP_SHARED != 0 => None,
        (MMAP, _) => {
            let made = if args[3] & MAP_ANONYMOUS != 0 { Made::Zeros } else { Made::File };
            Some(((result, pages(args[1])), made))
        }
        // All of a page came with its first byte.
        (BRK, Some(old)) if pages(old) < pages(result) => Some(((pages(old), pages(result) - pages(old)), Made::Zeros)),
        _ => None,
    }
}

/// What has to be known of earlier calls.
#[derive(Default)]
pub struct System {
    /// The end of the heap, which `brk` moves, as the first call of it left it, and the last; none before the first one.
    pub heap: Option<(u64, u64)>,
    rings: Rings,
}

impl System {
    /// Takes note of what a system call may have changed. Returns these ranges of memory.
    pub fn changed(
        &mut self,
        memory: &Memory,
        origins: &mut Origins,
        number_of_call: u64,
        args: &[u64; 6],
        result: i64,
    ) -> Vec<Buffer> {
        let call = bugnet_system_calls::of(number_of_call);
        let mut changed = call.and_then(|call| written::written(call, args, result, memory)).unwrap_or_default();
        if let Ok(result) = u64::try_from(result) {
            self.succeeded(memory, origins, number_of_call, args, result, &mut changed);
        }
        for &(start, len) in &changed {
            origins.system(start, len);
        }
        changed
    }

    fn succeeded(
        &mut self,
        memory: &Memory,
        origins: &mut Origins,
        number_of_call: u64,
        args: &[u64; 6],
        result: u64,
        changed: &mut Vec<Buffer>,
    ) {
        match number_of_call {
            MMAP => {
                let len = pages(args[1]);
                changed.push((result, len));
                if args[3] & MAP_SHARED != 0 {
                    origins.share(range(result, len));
                    self.rings.mapped(args[4], args[5], result);
                } else {
                    origins.unshare(&range(result, len));
                }
            }
            SHMAT => origins.share(range(result, 1 << 40)),
            // For good: nothing tells when that process is gone.
            CLONE | CLONE3 if makes_unsteady(memory, number_of_call, args, 0) => origins.share_all(),
            MUNMAP | MADVISE => changed.push((args[0], pages(args[1]))),
            MREMAP => changed.extend([(args[0], pages(args[1])), (result, pages(args[2]))]),
            BRK => {
                let (first, old) = self.heap.unwrap_or((result, result));
                self.heap = Some((first, result));
                changed.push((old.min(result), old.abs_diff(result)));
            }
            CLONE => threads(origins, args[0], args[2], args[3]),
            CLONE3 => {
                let field = |offset: u64| number(memory, args[0].wrapping_add(offset));
                threads(origins, field(0), field(24), field(16));
            }
            SET_TID_ADDRESS => origins.kernel_word(args[0]),
            // The kernel says there on which processor the thread runs.
            RSEQ => origins.share(range(args[0], args[1])),
            IO_SUBMIT => changed.extend(requests::submitted(args[2], result, memory)),
            IO_URING_SETUP => self.rings.set_up(result, args[0], args[1], memory),
            IO_URING_ENTER => changed.extend(self.rings.taken(args[0], args[3], result, memory)),
            _ => {}
        }
    }
}

/// Bytes of all pages of a mapping of so many bytes.
fn pages(len: u64) -> u64 {
    len.saturating_add(Addr::PAGE - 1) & !(Addr::PAGE - 1)
}

fn range(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len)
}

/// The words in which the kernel puts a new thread's id, and clears it at its end.
fn threads(origins: &mut Origins, flags: u64, parent: u64, child: u64) {
    if flags & CLONE_PARENT_SETTID != 0 {
        origins.kernel_word(parent);
    }
    if flags & (CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID) != 0 {
        origins.kernel_word(child);
    }
}
