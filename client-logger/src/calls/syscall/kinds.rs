//! Of which kind a system call is, by its number and arguments: what it makes, maps or writes out.

use crate::base::memory::read_word;
use crate::kernel::arguments::clone_flags;
use crate::kernel::program_break;
use bugnet_system_calls::{Sent, SystemCall};

/// What is known of a system call.
pub(super) fn known(number: i64) -> Option<&'static SystemCall> {
    u64::try_from(number).ok().and_then(bugnet_system_calls::of)
}

/// Memory that a system call writes out: address and length of each piece.
#[derive(Default)]
pub(super) struct Output {
    /// The structures that lead to the buffers.
    pub structures: Vec<(u64, u64)>,
    /// The buffers, in order.
    pub buffers: Vec<(u64, u64)>,
}

impl Output {
    /// What the call of this number and arguments writes out.
    pub fn of(number: i64, args: &[u64; 6]) -> Self {
        let mut output = Self::default();
        match known(number).and_then(|call| call.sends) {
            Some(Sent::Bytes(address, len)) => output.buffers.push((args[address], args[len])),
            Some(Sent::Vector(address, count)) => output.vector(args[address], args[count]),
            Some(Sent::Message(address)) => {
                let header = args[address];
                output.structures.push((header, 56));
                if let (Some(base), Some(count)) = (read_word(header + 16), read_word(header + 24)) {
                    output.vector(base, count);
                }
            }
            None => {}
        }
        output
    }

    /// Adds a vector of so many buffers.
    fn vector(&mut self, address: u64, count: u64) {
        let count = count.min(1024);
        self.structures.push((address, count * 16));
        for i in 0..count {
            if let (Some(base), Some(len)) = (read_word(address + 16 * i), read_word(address + 16 * i + 8)) {
                self.buffers.push((base, len));
            }
        }
    }
}

/// The stack pointer with which a new thread begins, if it is not its parent's.
pub(super) fn child_stack(number: i64, args: &[u64; 6]) -> Option<u64> {
    /// Offsets of `stack` and `stack_size` in `struct clone_args`.
    const STACK: u64 = 40;
    const STACK_SIZE: u64 = 48;
    let stack = match number {
        libc::SYS_clone3 => read_word(args[0] + STACK)? + read_word(args[0] + STACK_SIZE)?,
        _ => args[1],
    };
    (stack != 0).then_some(stack)
}

/// Whether a system call makes a thread, or a process that has the same memory.
pub(super) fn shares_memory(number: i64, args: &[u64; 6]) -> bool {
    number == libc::SYS_vfork || clone_flags(number, args).is_some_and(|flags| flags & libc::CLONE_VM as u64 != 0)
}

/// Whether a system call makes a thread.
pub(super) fn creates_thread(number: i64, args: &[u64; 6]) -> bool {
    clone_flags(number, args).is_some_and(|flags| flags & libc::CLONE_THREAD as u64 != 0)
}

/// Whether a system call makes a process that has the same memory while its parent waits.
pub(super) fn borrows(number: i64, args: &[u64; 6]) -> bool {
    const BORROWS: u64 = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    number == libc::SYS_vfork || clone_flags(number, args).is_some_and(|flags| flags & BORROWS == BORROWS)
}

/// Whether a system call makes a process with memory of its own.
pub(super) fn forks(number: i64, args: &[u64; 6]) -> bool {
    number == libc::SYS_fork || clone_flags(number, args).is_some_and(|flags| flags & libc::CLONE_VM as u64 == 0)
}

/// Memory that a system call has made accessible.
pub(super) fn mapped(number: i64, args: &[u64; 6], result: i64) -> Option<(u64, u64)> {
    let result = u64::try_from(result).ok()?;
    match number {
        libc::SYS_mmap if args[2] as i32 != libc::PROT_NONE => Some((result, args[1])),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect if args[2] as i32 != libc::PROT_NONE => Some((args[0], args[1])),
        libc::SYS_mremap => Some((result, args[2])),
        libc::SYS_brk => Some(program_break::heap()).map(|heap| (heap.start, heap.end - heap.start)),
        libc::SYS_shmat => Some((result, 1)),
        _ => None,
    }
}
