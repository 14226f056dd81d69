//! Names of the numbers that arguments of system calls are.

use libc::*;

/// Numbers or bits with their names; of bits, the name of zero comes first.
pub type Names = [(i32, &'static str)];

macro_rules! bits {
    ($zero:literal, $($constant:ident),* $(,)?) => {
        &[(0, $zero), $(($constant as i32, stringify!($constant))),*]
    };
}
macro_rules! numbers {
    ($($constant:ident),* $(,)?) => {
        &[$(($constant as i32, stringify!($constant))),*]
    };
}

/// Flags of `open`.
pub const OPEN: &Names = bits!(
    "0",
    O_CREAT,
    O_EXCL,
    O_NOCTTY,
    O_TRUNC,
    O_APPEND,
    O_NONBLOCK,
    O_SYNC,
    O_DSYNC,
    O_DIRECT,
    O_TMPFILE,
    O_DIRECTORY,
    O_NOFOLLOW,
    O_NOATIME,
    O_CLOEXEC,
    O_PATH,
);
/// How a file is opened.
pub const ACCESS_MODE: &Names = numbers!(O_RDONLY, O_WRONLY, O_RDWR, O_ACCMODE);
/// What `access` asks for.
pub const ACCESS: &Names = bits!("F_OK", R_OK, W_OK, X_OK);
/// What may be done with memory.
pub const PROT: &Names = bits!("PROT_NONE", PROT_READ, PROT_WRITE, PROT_EXEC);
/// How memory is mapped.
pub const MAP: &Names = bits!(
    "0",
    MAP_SHARED_VALIDATE,
    MAP_SHARED,
    MAP_PRIVATE,
    MAP_FIXED,
    MAP_ANONYMOUS,
    MAP_GROWSDOWN,
    MAP_DENYWRITE,
    MAP_NORESERVE,
    MAP_POPULATE,
    MAP_STACK,
    MAP_HUGETLB,
    MAP_FIXED_NOREPLACE,
);
/// Flags of calls relative to a folder.
pub const AT: &Names = bits!("0", AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_NO_AUTOMOUNT, AT_EMPTY_PATH);
/// What a child shares.
pub const CLONE: &Names = bits!(
    "0",
    CLONE_VM,
    CLONE_FS,
    CLONE_FILES,
    CLONE_SIGHAND,
    CLONE_PIDFD,
    CLONE_PTRACE,
    CLONE_VFORK,
    CLONE_PARENT,
    CLONE_THREAD,
    CLONE_NEWNS,
    CLONE_SYSVSEM,
    CLONE_SETTLS,
    CLONE_PARENT_SETTID,
    CLONE_CHILD_CLEARTID,
    CLONE_DETACHED,
    CLONE_UNTRACED,
    CLONE_CHILD_SETTID,
    CLONE_NEWCGROUP,
    CLONE_NEWUTS,
    CLONE_NEWIPC,
    CLONE_NEWUSER,
    CLONE_NEWPID,
    CLONE_NEWNET,
    CLONE_IO,
    SIGCHLD,
);
/// Flags of messages.
pub const MESSAGE: &Names = bits!(
    "0",
    MSG_OOB,
    MSG_PEEK,
    MSG_DONTROUTE,
    MSG_CTRUNC,
    MSG_TRUNC,
    MSG_DONTWAIT,
    MSG_EOR,
    MSG_WAITALL,
    MSG_NOSIGNAL,
    MSG_MORE,
    MSG_CMSG_CLOEXEC,
);
/// Flags of sockets.
pub const SOCKET: &Names = bits!("0", SOCK_CLOEXEC, SOCK_NONBLOCK);
/// Types of sockets.
pub const SOCKET_TYPE: &Names = numbers!(SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET);
/// What `poll` waits for.
pub const POLL: &Names =
    bits!("0", POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLNVAL, POLLRDNORM, POLLWRNORM, POLLRDHUP,);
/// What `epoll` waits for.
pub const EPOLL: &Names = bits!(
    "0",
    EPOLLIN,
    EPOLLPRI,
    EPOLLOUT,
    EPOLLERR,
    EPOLLHUP,
    EPOLLRDNORM,
    EPOLLWRNORM,
    EPOLLRDHUP,
    EPOLLEXCLUSIVE,
    EPOLLONESHOT,
    EPOLLET,
);
/// Flags of handlers.
pub const SA: &Names =
    bits!("0", SA_NOCLDSTOP, SA_NOCLDWAIT, SA_SIGINFO, SA_RESTORER, SA_ONSTACK, SA_RESTART, SA_NODEFER, SA_RESETHAND);
const SA_RESTORER: i32 = 0x0400_0000;

/// From where `lseek` counts.
pub const WHENCE: &Names = numbers!(SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE);
/// How a mask changes.
pub const HOW: &Names = numbers!(SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK);
/// What `madvise` says.
pub const ADVICE: &Names = numbers!(
    MADV_NORMAL,
    MADV_RANDOM,
    MADV_SEQUENTIAL,
    MADV_WILLNEED,
    MADV_DONTNEED,
    MADV_FREE,
    MADV_REMOVE,
    MADV_DONTFORK,
    MADV_DOFORK,
    MADV_MERGEABLE,
    MADV_UNMERGEABLE,
    MADV_HUGEPAGE,
    MADV_NOHUGEPAGE,
    MADV_DONTDUMP,
    MADV_DODUMP,
);
/// Families of addresses.
pub const DOMAIN: &Names =
    numbers!(AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK, AF_BLUETOOTH);
/// Commands of `fcntl`.
pub const FCNTL: &Names = numbers!(
    F_DUPFD,
    F_GETFD,
    F_SETFD,
    F_GETFL,
    F_SETFL,
    F_GETLK,
    F_SETLK,
    F_SETLKW,
    F_SETOWN,
    F_GETOWN,
    F_DUPFD_CLOEXEC,
    F_SETPIPE_SZ,
    F_GETPIPE_SZ,
    F_ADD_SEALS,
    F_GET_SEALS,
    F_OFD_GETLK,
    F_OFD_SETLK,
    F_OFD_SETLKW,
);
/// Clocks.
pub const CLOCK: &Names = numbers!(
    CLOCK_REALTIME,
    CLOCK_MONOTONIC,
    CLOCK_PROCESS_CPUTIME_ID,
    CLOCK_THREAD_CPUTIME_ID,
    CLOCK_MONOTONIC_RAW,
    CLOCK_REALTIME_COARSE,
    CLOCK_MONOTONIC_COARSE,
    CLOCK_BOOTTIME,
    CLOCK_TAI,
);
/// Limited resources.
pub const RESOURCE: &Names = numbers!(
    RLIMIT_CPU,
    RLIMIT_FSIZE,
    RLIMIT_DATA,
    RLIMIT_STACK,
    RLIMIT_CORE,
    RLIMIT_RSS,
    RLIMIT_NPROC,
    RLIMIT_NOFILE,
    RLIMIT_MEMLOCK,
    RLIMIT_AS,
    RLIMIT_LOCKS,
    RLIMIT_SIGPENDING,
    RLIMIT_MSGQUEUE,
    RLIMIT_NICE,
    RLIMIT_RTPRIO,
    RLIMIT_RTTIME,
);
/// Commands of `epoll_ctl`.
pub const EPOLL_OP: &Names = numbers!(EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD);
/// Commands of `futex`.
pub const FUTEX: &Names = &[
    (FUTEX_WAIT, "FUTEX_WAIT"),
    (FUTEX_WAKE, "FUTEX_WAKE"),
    (FUTEX_FD, "FUTEX_FD"),
    (FUTEX_REQUEUE, "FUTEX_REQUEUE"),
    (FUTEX_CMP_REQUEUE, "FUTEX_CMP_REQUEUE"),
    (FUTEX_WAKE_OP, "FUTEX_WAKE_OP"),
    (FUTEX_LOCK_PI, "FUTEX_LOCK_PI"),
    (FUTEX_UNLOCK_PI, "FUTEX_UNLOCK_PI"),
    (FUTEX_TRYLOCK_PI, "FUTEX_TRYLOCK_PI"),
    (FUTEX_WAIT_BITSET, "FUTEX_WAIT_BITSET"),
    (FUTEX_WAKE_BITSET, "FUTEX_WAKE_BITSET"),
    (FUTEX_WAIT_REQUEUE_PI, "FUTEX_WAIT_REQUEUE_PI"),
    (FUTEX_CMP_REQUEUE_PI, "FUTEX_CMP_REQUEUE_PI"),
];
/// Flags of these.
pub const FUTEX_FLAGS: &Names =
    &[(0, "0"), (FUTEX_PRIVATE_FLAG, "FUTEX_PRIVATE_FLAG"), (FUTEX_CLOCK_REALTIME, "FUTEX_CLOCK_REALTIME")];
