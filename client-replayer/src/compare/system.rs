//! Which memory a system call may have changed: its buffers for results, and what it maps and unmaps.
//!
//! Contents do not matter here: what the calling thread found in that memory is in its log. This says only where bytes
//! may come from that no thread has stored.

use super::origin::Origins;
pub use super::requests::Buffer;
use super::requests::{self, Rings};
use crate::memory::Memory;
use bugnet_format::types::Addr;
use std::ops::Range;

/// How many bytes behind a pointer argument the kernel may write.
enum Size {
    /// So many.
    Bytes(u64),
    /// The call's result, times this.
    Result(u64),
    /// The value of an argument, times this.
    Arg(usize, u64),
    /// The pointer is to a vector of buffers, whose length is in this argument.
    Vector(usize),
    /// The pointer is to a message header.
    Message,
}

use Size::{Arg, Bytes, Message, Result, Vector};

/// A time, a file's state, and the longest of the kernel's other fixed structures.
const TIMESPEC: Size = Bytes(16);
const STAT: Size = Bytes(256);
const LARGE: Size = Bytes(512);

/// System calls by number, with the arguments behind which they write.
const WRITES: &[(u64, &[(usize, Size)])] = &[
    (0, &[(1, Result(1))]),                                                     // read
    (4, &[(1, STAT)]),                                                          // stat
    (5, &[(1, STAT)]),                                                          // fstat
    (6, &[(1, STAT)]),                                                          // lstat
    (7, &[(0, Arg(1, 8))]),                                                     // poll
    (13, &[(2, Bytes(32))]),                                                    // rt_sigaction
    (14, &[(2, Arg(3, 1))]),                                                    // rt_sigprocmask
    (16, &[(2, LARGE)]),                                                        // ioctl
    (17, &[(1, Result(1))]),                                                    // pread64
    (19, &[(1, Vector(2))]),                                                    // readv
    (22, &[(0, Bytes(8))]),                                                     // pipe
    (23, &[(1, Bytes(128)), (2, Bytes(128)), (3, Bytes(128)), (4, TIMESPEC)]),  // select
    (27, &[(2, Arg(1, 1))]),                                                    // mincore
    (35, &[(1, TIMESPEC)]),                                                     // nanosleep
    (36, &[(1, Bytes(32))]),                                                    // getitimer
    (38, &[(2, Bytes(32))]),                                                    // setitimer
    (40, &[(2, Bytes(8))]),                                                     // sendfile
    (43, &[(1, Bytes(128)), (2, Bytes(4))]),                                    // accept
    (45, &[(1, Result(1)), (4, Bytes(128)), (5, Bytes(4))]),                    // recvfrom
    (47, &[(1, Message)]),                                                      // recvmsg
    (51, &[(1, Bytes(128)), (2, Bytes(4))]),                                    // getsockname
    (52, &[(1, Bytes(128)), (2, Bytes(4))]),                                    // getpeername
    (53, &[(3, Bytes(8))]),                                                     // socketpair
    (55, &[(3, LARGE), (4, Bytes(4))]),                                         // getsockopt
    (61, &[(1, Bytes(4)), (3, Bytes(144))]),                                    // wait4
    (63, &[(0, LARGE)]),                                                        // uname
    (72, &[(2, Bytes(32))]),                                                    // fcntl
    (78, &[(1, Result(1))]),                                                    // getdents
    (79, &[(0, Result(1))]),                                                    // getcwd
    (89, &[(1, Result(1))]),                                                    // readlink
    (96, &[(0, TIMESPEC), (1, Bytes(8))]),                                      // gettimeofday
    (97, &[(1, Bytes(16))]),                                                    // getrlimit
    (98, &[(1, Bytes(144))]),                                                   // getrusage
    (99, &[(0, LARGE)]),                                                        // sysinfo
    (100, &[(0, Bytes(32))]),                                                   // times
    (115, &[(1, Result(4))]),                                                   // getgroups
    (118, &[(0, Bytes(4)), (1, Bytes(4)), (2, Bytes(4))]),                      // getresuid
    (120, &[(0, Bytes(4)), (1, Bytes(4)), (2, Bytes(4))]),                      // getresgid
    (127, &[(0, Arg(1, 1))]),                                                   // rt_sigpending
    (128, &[(1, Bytes(128))]),                                                  // rt_sigtimedwait
    (131, &[(1, Bytes(24))]),                                                   // sigaltstack
    (137, &[(1, LARGE)]),                                                       // statfs
    (138, &[(1, LARGE)]),                                                       // fstatfs
    (157, &[(1, Bytes(16))]),                                                   // prctl
    (158, &[(1, Bytes(8))]),                                                    // arch_prctl
    (186, &[]),                                                                 // gettid
    (191, &[(2, Result(1))]),                                                   // getxattr
    (201, &[(0, Bytes(8))]),                                                    // time
    (202, &[(0, Bytes(4)), (4, Bytes(4))]),                                     // futex
    (204, &[(2, Result(1))]),                                                   // sched_getaffinity
    (206, &[(1, Bytes(8))]),                                                    // io_setup
    (208, &[(3, Result(32)), (4, TIMESPEC)]),                                   // io_getevents
    (210, &[(2, Bytes(32))]),                                                   // io_cancel
    (217, &[(1, Result(1))]),                                                   // getdents64
    (222, &[(2, Bytes(8))]),                                                    // timer_create
    (223, &[(3, Bytes(32))]),                                                   // timer_settime
    (224, &[(1, Bytes(32))]),                                                   // timer_gettime
    (228, &[(1, TIMESPEC)]),                                                    // clock_gettime
    (229, &[(1, TIMESPEC)]),                                                    // clock_getres
    (230, &[(3, TIMESPEC)]),                                                    // clock_nanosleep
    (232, &[(1, Result(12))]),                                                  // epoll_wait
    (243, &[(1, Result(1))]),                                                   // mq_timedreceive
    (247, &[(2, Bytes(128)), (4, Bytes(144))]),                                 // waitid
    (262, &[(2, STAT)]),                                                        // newfstatat
    (267, &[(2, Result(1))]),                                                   // readlinkat
    (270, &[(1, Bytes(128)), (2, Bytes(128)), (3, Bytes(128)), (4, TIMESPEC)]), // pselect6
    (271, &[(0, Arg(1, 8)), (2, TIMESPEC)]),                                    // ppoll
    (275, &[(1, Bytes(8)), (3, Bytes(8))]),                                     // splice
    (276, &[]),                                                                 // tee
    (278, &[(1, Vector(2))]),                                                   // vmsplice
    (281, &[(1, Result(12))]),                                                  // epoll_pwait
    (286, &[(3, Bytes(32))]),                                                   // timerfd_settime
    (287, &[(1, Bytes(32))]),                                                   // timerfd_gettime
    (288, &[(1, Bytes(128)), (2, Bytes(4))]),                                   // accept4
    (293, &[(0, Bytes(8))]),                                                    // pipe2
    (295, &[(1, Vector(2))]),                                                   // preadv
    (302, &[(3, Bytes(16))]),                                                   // prlimit64
    (309, &[(0, Bytes(4)), (1, Bytes(4))]),                                     // getcpu
    (310, &[(1, Vector(2))]),                                                   // process_vm_readv
    (318, &[(0, Result(1))]),                                                   // getrandom
    (326, &[(1, Bytes(8)), (3, Bytes(8))]),                                     // copy_file_range
    (327, &[(1, Vector(2))]),                                                   // preadv2
    (332, &[(4, STAT)]),                                                        // statx
    (333, &[(3, Result(32)), (4, TIMESPEC)]),                                   // io_pgetevents
    (425, &[(1, Bytes(120))]),                                                  // io_uring_setup
    (441, &[(1, Result(12))]),                                                  // epoll_pwait2
];

/// System calls, ascending, that write no memory of the process beside what stands here of them: in the table above, or in what
/// [`System`] does where they succeed.
const UNDERSTOOD: &[u64] = &[
    1, 2, 3, 8, 9, 10, 11, 12, 15, 18, 20, 21, 24, 25, 26, 28, 29, 32, 33, 34, 37, 39, 41, 42, 44, 46, 48, 49, 50, 54,
    56, 57, 59, 60, 62, 64, 65, 68, 69, 73, 74, 75, 76, 77, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 95,
    102, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 116, 117, 119, 121, 122, 123, 124, 129, 130, 132, 133,
    135, 140, 141, 142, 144, 145, 146, 147, 149, 150, 151, 152, 160, 161, 162, 165, 166, 170, 171, 187, 188, 189, 190,
    197, 198, 199, 200, 203, 213, 218, 221, 225, 226, 227, 231, 233, 234, 235, 238, 240, 241, 242, 244, 248, 251, 252,
    253, 254, 255, 257, 258, 259, 260, 261, 263, 264, 265, 266, 268, 269, 272, 273, 277, 280, 282, 283, 284, 285, 289,
    290, 291, 292, 294, 296, 297, 300, 301, 304, 306, 308, 314, 316, 319, 322, 324, 325, 328, 329, 330, 331, 334, 424,
    434, 435, 436, 437, 438, 439, 452,
];

const IOCTL: u64 = 16;
const IO_SETUP: u64 = 206;
const USERFAULTFD: u64 = 323;
const RSEQ: u64 = 334;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;

/// The terminal's commands of `ioctl`, and some of its kind: they write no more than the table says.
const SMALL_IOCTLS: Range<u64> = 0x5400..0x5500;

/// Whether all is known of which memory a system call may change. After another one, any may be another.
pub fn is_understood(memory: &Memory, number_of_call: u64, args: &[u64; 6]) -> bool {
    // A child that shares memory, and is no thread, may have written there.
    let shares = |flags: u64| flags & (CLONE_VM | CLONE_THREAD) == CLONE_VM;
    match number_of_call {
        IOCTL => SMALL_IOCTLS.contains(&args[1]),
        CLONE => !shares(args[0]),
        CLONE3 => Some(number(memory, args[0])).filter(|flags| *flags != 0).is_some_and(|flags| !shares(flags)),
        number => {
            UNDERSTOOD.binary_search(&number).is_ok()
                || WRITES.binary_search_by_key(&number, |(number, _)| *number).is_ok()
        }
    }
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
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

/// The number at an address; 0 where there is no memory.
pub fn number(memory: &Memory, at: u64) -> u64 {
    memory.read(at, 8).try_into().map_or(0, u64::from_le_bytes)
}

/// The buffers of a vector of `count`, each as start and length.
pub fn vector(memory: &Memory, at: u64, count: u64) -> Vec<Buffer> {
    let entry = |i: u64| (number(memory, at.wrapping_add(i * 16)), number(memory, at.wrapping_add(i * 16 + 8)));
    (0..count.min(1024)).map(entry).collect()
}

fn buffers(memory: &Memory, args: &[u64; 6], result: i64, arg: usize, size: &Size) -> Vec<Buffer> {
    let at = args[arg];
    match size {
        Bytes(bytes) => vec![(at, *bytes)],
        Result(times) => vec![(at, u64::try_from(result).unwrap_or(0).saturating_mul(*times))],
        Arg(arg, times) => vec![(at, args[*arg].saturating_mul(*times))],
        Vector(count) => vector(memory, at, args[*count]),
        Message => message(memory, at),
    }
}

/// The buffers of a message header, and itself.
pub fn message(memory: &Memory, at: u64) -> Vec<Buffer> {
    let field = |offset: u64| number(memory, at.wrapping_add(offset));
    let mut all = vector(memory, field(16), field(24));
    all.extend([(at, 56), (field(0), field(8)), (field(32), field(40))]);
    all
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
        let mut changed = Vec::new();
        if let Ok(at) = WRITES.binary_search_by_key(&number_of_call, |(number, _)| *number) {
            // Also where the call failed: some of them write nevertheless.
            for (arg, size) in WRITES[at].1 {
                changed.extend(buffers(memory, args, result, *arg, size));
            }
        }
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
