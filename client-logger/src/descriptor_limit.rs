//! The limit of descriptors that the program is to have, `RLIMIT_NOFILE`.
//!
//! The recorder has its own descriptors at the top of what the kernel allows, and makes more of them while the program runs:
//! DynamoRIO raises the limit as far as it goes. So the program's limit is kept here: what it asks and sets is answered,
//! and calls that would give it a descriptor beyond its limit fail as they would natively.

use crate::code::{read_memory, write_memory};
use crate::thread::Thread;
use std::sync::atomic::{AtomicU64, Ordering};

/// `RLIMIT_NOFILE` as a program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    soft: u64,
    hard: u64,
}

/// The process's: soft and hard.
static LIMIT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

impl Limit {
    /// That of the process.
    pub fn of_process() -> Self {
        let [soft, hard] = LIMIT.each_ref().map(|limit| limit.load(Ordering::Relaxed));
        Self { soft, hard }
    }

    fn keep(self, thread: &mut Thread) {
        match &mut thread.syscall.own_limit {
            Some(own) => *own = self,
            None => self.set(),
        }
    }

    fn set(self) {
        LIMIT[0].store(self.soft, Ordering::Relaxed);
        LIMIT[1].store(self.hard, Ordering::Relaxed);
    }

    /// That of a thread's process, which for a child of `vfork` is its own.
    pub fn of(thread: &Thread) -> Self {
        thread.syscall.own_limit.unwrap_or_else(Self::of_process)
    }

    /// What [`start`] takes in a program that this process executes.
    pub fn encode(self) -> String {
        format!("{}:{}", self.soft, self.hard)
    }

    fn read(address: u64) -> Option<Self> {
        let mut bytes = [[0; 8]; 2];
        read_memory(address, bytes.as_flattened_mut()).then(|| {
            let [soft, hard] = bytes.map(u64::from_le_bytes);
            Self { soft, hard }
        })
    }

    fn write(self, address: u64) -> bool {
        let bytes = [self.soft, self.hard].map(u64::to_le_bytes);
        write_memory(address, bytes.as_flattened())
    }
}

/// A process begins: with the limit that it would have natively, as whoever started it says.
pub fn start(inherited: &str) {
    let parse = || {
        let (soft, hard) = inherited.split_once(':')?;
        Some(Limit { soft: soft.parse().ok()?, hard: hard.parse().ok()? })
    };
    parse().unwrap_or_else(kernels).set();
}

/// The limit that the kernel knows.
fn kernels() -> Limit {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of ours.
    unsafe { libc::prlimit64(0, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) };
    Limit { soft: limit.rlim_cur, hard: limit.rlim_max }
}

fn set_kernels(limit: Limit) -> bool {
    let limit = libc::rlimit64 { rlim_cur: limit.soft, rlim_max: limit.hard };
    // SAFETY: a structure of ours.
    unsafe { libc::prlimit64(0, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) == 0 }
}

/// A program is about to be executed that is not recorded: the kernel's limit becomes this one.
pub fn hand_over(limit: Limit) {
    let hard = kernels().hard;
    set_kernels(Limit { soft: limit.soft.min(hard), hard });
}

/// It has not been executed.
pub fn take_back() {
    let hard = kernels().hard;
    set_kernels(Limit { soft: hard, hard });
}

/// Whether the process may raise hard limits.
fn may_raise() -> bool {
    const VERSION_3: u32 = 0x2008_0522;
    const SYS_RESOURCE: u32 = 24;
    let (mut header, mut sets) = ([VERSION_3, 0], [[0_u32; 3]; 2]);
    // SAFETY: structures of ours, as large as the version has them.
    let done = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) } == 0;
    done && sets[0][0] & 1 << SYS_RESOURCE != 0
}

const fn error(number: i32) -> i64 {
    -(number as i64)
}

/// The answer to a system call that asks for the limit, sets it, or meets it; none if the kernel is to make the call.
pub fn instead(thread: &mut Thread, number: i64, args: &[u64; 6]) -> Option<i64> {
    let nofile = u64::from(libc::RLIMIT_NOFILE);
    let own = |pid: u64| pid as u32 == 0 || pid as u32 == crate::process::current_pid();
    match number {
        libc::SYS_getrlimit if args[0] & 0xffff_ffff == nofile => Some(change(thread, 0, args[1])),
        libc::SYS_setrlimit if args[0] & 0xffff_ffff == nofile => match args[1] {
            0 => Some(error(libc::EFAULT)),
            new => Some(change(thread, new, 0)),
        },
        libc::SYS_prlimit64 if args[1] & 0xffff_ffff == nofile && own(args[0]) => {
            Some(change(thread, args[2], args[3]))
        }
        _ => meets(Limit::of(thread).soft, number, args),
    }
}

/// `prlimit64` of the own process, with pointers that may be null.
fn change(thread: &mut Thread, new: u64, old: u64) -> i64 {
    let before = Limit::of(thread);
    if new != 0 {
        let Some(new) = Limit::read(new) else { return error(libc::EFAULT) };
        if new.soft > new.hard {
            return error(libc::EINVAL);
        }
        if new.hard > before.hard && !may_raise() {
            return error(libc::EPERM);
        }
        let most = kernels().hard;
        if new.hard > most && !set_kernels(Limit { soft: new.hard, hard: new.hard }) {
            return error(libc::EPERM);
        }
        new.keep(thread);
    }
    if old != 0 && !before.write(old) { error(libc::EFAULT) } else { 0 }
}

/// How many descriptors a system call makes.
fn makes(number: i64, args: &[u64; 6]) -> usize {
    match number {
        libc::SYS_pipe | libc::SYS_pipe2 | libc::SYS_socketpair => 2,
        libc::SYS_signalfd | libc::SYS_signalfd4 => usize::from(args[0] as i32 == -1),
        libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_open_by_handle_at
        | libc::SYS_dup
        | libc::SYS_socket
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_timerfd_create
        | libc::SYS_inotify_init
        | libc::SYS_inotify_init1
        | libc::SYS_fanotify_init
        | libc::SYS_memfd_create
        | libc::SYS_memfd_secret
        | libc::SYS_userfaultfd
        | libc::SYS_perf_event_open
        | libc::SYS_pidfd_open
        | libc::SYS_pidfd_getfd
        | libc::SYS_io_uring_setup
        | libc::SYS_open_tree
        | libc::SYS_fsopen
        | libc::SYS_fsmount
        | libc::SYS_fspick
        | libc::SYS_mq_open => 1,
        _ => 0,
    }
}

/// The error of a system call that meets the limit `soft`.
fn meets(soft: u64, number: i64, args: &[u64; 6]) -> Option<i64> {
    let copies = number == libc::SYS_fcntl && matches!(args[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
    match number {
        libc::SYS_dup2 | libc::SYS_dup3 => {
            let beyond = args[1] & 0xffff_ffff >= soft && !(number == libc::SYS_dup2 && args[0] == args[1]);
            beyond.then_some(error(libc::EBADF))
        }
        libc::SYS_poll | libc::SYS_ppoll => (args[1] & 0xffff_ffff > soft).then_some(error(libc::EINVAL)),
        _ if copies && args[2] >= soft => Some(error(libc::EINVAL)),
        _ if copies => exhausted(soft, 1, args[2]).then_some(error(libc::EMFILE)),
        _ => match makes(number, args) {
            0 => None,
            count => exhausted(soft, count, 0).then_some(error(libc::EMFILE)),
        },
    }
}

/// Whether so many descriptors, from `least` on, would go beyond the limit.
fn exhausted(soft: u64, count: usize, least: u64) -> bool {
    // SAFETY: asks about a number.
    let free = |fd: u64| unsafe { libc::fcntl(fd as i32, libc::F_GETFD) } == -1;
    let Some(lowest) = soft.checked_sub(count as u64) else { return true };
    // The lowest free ones are taken: nearly always, the last ones are free.
    if soft > i32::MAX as u64 || lowest >= least && (lowest..soft).all(free) {
        return false;
    }
    // SAFETY: makes descriptors of no consequence, and closes them.
    unsafe {
        let made: Vec<i32> = (0..count).map(|_| libc::eventfd(0, libc::EFD_CLOEXEC)).collect();
        let copy = libc::fcntl(made[0], libc::F_DUPFD_CLOEXEC, least as i32);
        let next = if made[0] as u64 >= least { made[0] } else { copy };
        let beyond =
            made.iter().any(|fd| *fd < 0) || made[1..].iter().chain([&next]).any(|fd| *fd < 0 || *fd as u64 >= soft);
        made.into_iter().chain([copy]).filter(|fd| *fd >= 0).for_each(|fd| {
            libc::close(fd);
        });
        beyond
    }
}
