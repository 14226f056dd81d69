//! The limit of descriptors that the program is to have, `RLIMIT_NOFILE`.
//!
//! The recorder has its own descriptors at the top of what the kernel allows, and makes more of them while the program runs:
//! DynamoRIO raises the limit as far as it goes. Calls that would give the program a descriptor beyond its limit fail as they
//! would natively.

use crate::kernel::results::error;

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

/// Whether a system call takes a descriptor's number or gives one, and does not wait for others before it does.
pub fn concerns_numbers(number: i64, args: &[u64; 6]) -> bool {
    match number {
        libc::SYS_close | libc::SYS_close_range | libc::SYS_dup2 | libc::SYS_dup3 => true,
        libc::SYS_fcntl => matches!(args[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC),
        libc::SYS_accept | libc::SYS_accept4 => false,
        _ => makes(number, args) > 0,
    }
}

/// The error of a system call that meets the limit `soft`.
pub fn meets(soft: u64, number: i64, args: &[u64; 6]) -> Option<i64> {
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
