//! System calls as data: what the arguments of the common ones mean.

use libc::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, MAP_HUGETLB, MAP_NORESERVE, MAP_POPULATE,
    MAP_PRIVATE, MAP_SHARED, MAP_STACK, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_DSYNC, O_EXCL,
    O_NOATIME, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDWR, O_TRUNC, O_WRONLY, PROT_EXEC, PROT_READ, PROT_WRITE,
};

/// How an argument is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// A file descriptor.
    Fd,
    /// A descriptor of a folder, or the working directory.
    DirFd,
    /// Address of a text that ends with a zero byte.
    Text,
    /// Address of bytes that the call takes.
    Data,
    /// Another address.
    Pointer,
    /// An unsigned number of 64 bits.
    Unsigned,
    /// A signed number of 32 bits.
    Int,
    /// A signed number of 64 bits.
    Signed,
    /// A number best read in hexadecimal.
    Hex,
    /// Permission bits.
    Octal,
    /// A signal's number.
    Signal,
    /// Named bits: the name of zero first.
    Bits(&'static [(i32, &'static str)]),
}

/// How a result that is no error is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    /// As a decimal number.
    Number,
    /// As an address.
    Address,
    /// As permission bits.
    Octal,
}

/// What is known of a system call.
pub(super) struct Signature {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub args: &'static [Arg],
    /// Its result.
    pub returns: Returns,
}

macro_rules! names {
    ($zero:literal, $($constant:ident),* $(,)?) => {
        &[(0, $zero), $(($constant, stringify!($constant))),*]
    };
}

const OPEN: &[(i32, &str)] = names!(
    "O_RDONLY",
    O_WRONLY,
    O_RDWR,
    O_CREAT,
    O_EXCL,
    O_NOCTTY,
    O_TRUNC,
    O_APPEND,
    O_NONBLOCK,
    O_DSYNC,
    O_DIRECT,
    O_DIRECTORY,
    O_NOFOLLOW,
    O_NOATIME,
    O_CLOEXEC,
    O_PATH,
);
const PROT: &[(i32, &str)] = names!("PROT_NONE", PROT_READ, PROT_WRITE, PROT_EXEC);
const MAP: &[(i32, &str)] = names!(
    "0",
    MAP_SHARED,
    MAP_PRIVATE,
    MAP_FIXED,
    MAP_ANONYMOUS,
    MAP_GROWSDOWN,
    MAP_NORESERVE,
    MAP_POPULATE,
    MAP_STACK,
    MAP_HUGETLB,
    MAP_FIXED_NOREPLACE,
);

use Arg::{Bits, Data, DirFd, Fd, Hex, Int, Octal, Pointer, Signal, Signed, Text, Unsigned};

const fn call(name: &'static str, args: &'static [Arg]) -> Signature {
    Signature { name, args, returns: Returns::Number }
}

const fn returning(returns: Returns, name: &'static str, args: &'static [Arg]) -> Signature {
    Signature { name, args, returns }
}

/// The system calls whose arguments are known. Others are shown with six hexadecimal numbers.
#[rustfmt::skip]
pub(super) const SIGNATURES: &[Signature] = &[
    call("read", &[Fd, Pointer, Unsigned]),
    call("write", &[Fd, Data, Unsigned]),
    call("open", &[Text, Bits(OPEN), Octal]),
    call("close", &[Fd]),
    call("stat", &[Text, Pointer]),
    call("fstat", &[Fd, Pointer]),
    call("lstat", &[Text, Pointer]),
    call("poll", &[Pointer, Unsigned, Int]),
    call("lseek", &[Fd, Signed, Int]),
    returning(Returns::Address, "mmap", &[Pointer, Unsigned, Bits(PROT), Bits(MAP), Fd, Hex]),
    call("mprotect", &[Pointer, Unsigned, Bits(PROT)]),
    call("munmap", &[Pointer, Unsigned]),
    returning(Returns::Address, "brk", &[Pointer]),
    call("rt_sigaction", &[Signal, Pointer, Pointer, Unsigned]),
    call("rt_sigprocmask", &[Int, Pointer, Pointer, Unsigned]),
    call("rt_sigreturn", &[]),
    call("ioctl", &[Fd, Hex, Pointer]),
    call("pread64", &[Fd, Pointer, Unsigned, Signed]),
    call("pwrite64", &[Fd, Data, Unsigned, Signed]),
    call("readv", &[Fd, Pointer, Unsigned]),
    call("writev", &[Fd, Pointer, Unsigned]),
    call("access", &[Text, Octal]),
    call("pipe", &[Pointer]),
    call("select", &[Int, Pointer, Pointer, Pointer, Pointer]),
    call("sched_yield", &[]),
    returning(Returns::Address, "mremap", &[Pointer, Unsigned, Unsigned, Hex, Pointer]),
    call("msync", &[Pointer, Unsigned, Hex]),
    call("mincore", &[Pointer, Unsigned, Pointer]),
    call("madvise", &[Pointer, Unsigned, Int]),
    call("shmget", &[Int, Unsigned, Hex]),
    returning(Returns::Address, "shmat", &[Int, Pointer, Hex]),
    call("shmdt", &[Pointer]),
    call("dup", &[Fd]),
    call("dup2", &[Fd, Fd]),
    call("pause", &[]),
    call("nanosleep", &[Pointer, Pointer]),
    call("alarm", &[Unsigned]),
    call("setitimer", &[Int, Pointer, Pointer]),
    call("getitimer", &[Int, Pointer]),
    call("getpid", &[]),
    call("sendfile", &[Fd, Fd, Pointer, Unsigned]),
    call("socket", &[Int, Hex, Int]),
    call("connect", &[Fd, Pointer, Unsigned]),
    call("accept", &[Fd, Pointer, Pointer]),
    call("sendto", &[Fd, Data, Unsigned, Hex, Pointer, Unsigned]),
    call("recvfrom", &[Fd, Pointer, Unsigned, Hex, Pointer, Pointer]),
    call("sendmsg", &[Fd, Pointer, Hex]),
    call("recvmsg", &[Fd, Pointer, Hex]),
    call("shutdown", &[Fd, Int]),
    call("bind", &[Fd, Pointer, Unsigned]),
    call("listen", &[Fd, Int]),
    call("getsockname", &[Fd, Pointer, Pointer]),
    call("getpeername", &[Fd, Pointer, Pointer]),
    call("socketpair", &[Int, Hex, Int, Pointer]),
    call("setsockopt", &[Fd, Int, Int, Pointer, Unsigned]),
    call("getsockopt", &[Fd, Int, Int, Pointer, Pointer]),
    call("clone", &[Hex, Pointer, Pointer, Pointer, Hex]),
    call("fork", &[]),
    call("vfork", &[]),
    call("execve", &[Text, Pointer, Pointer]),
    call("exit", &[Int]),
    call("wait4", &[Int, Pointer, Hex, Pointer]),
    call("kill", &[Int, Signal]),
    call("uname", &[Pointer]),
    call("fcntl", &[Fd, Int, Hex]),
    call("flock", &[Fd, Int]),
    call("fsync", &[Fd]),
    call("fdatasync", &[Fd]),
    call("truncate", &[Text, Signed]),
    call("ftruncate", &[Fd, Signed]),
    call("getdents", &[Fd, Pointer, Unsigned]),
    call("getcwd", &[Pointer, Unsigned]),
    call("chdir", &[Text]),
    call("fchdir", &[Fd]),
    call("rename", &[Text, Text]),
    call("mkdir", &[Text, Octal]),
    call("rmdir", &[Text]),
    call("creat", &[Text, Octal]),
    call("link", &[Text, Text]),
    call("unlink", &[Text]),
    call("symlink", &[Text, Text]),
    call("readlink", &[Text, Pointer, Unsigned]),
    call("chmod", &[Text, Octal]),
    call("fchmod", &[Fd, Octal]),
    call("chown", &[Text, Int, Int]),
    call("fchown", &[Fd, Int, Int]),
    call("lchown", &[Text, Int, Int]),
    returning(Returns::Octal, "umask", &[Octal]),
    call("gettimeofday", &[Pointer, Pointer]),
    call("getrlimit", &[Int, Pointer]),
    call("getrusage", &[Int, Pointer]),
    call("sysinfo", &[Pointer]),
    call("times", &[Pointer]),
    call("getuid", &[]),
    call("getgid", &[]),
    call("setuid", &[Int]),
    call("setgid", &[Int]),
    call("geteuid", &[]),
    call("getegid", &[]),
    call("setpgid", &[Int, Int]),
    call("getppid", &[]),
    call("getpgrp", &[]),
    call("setsid", &[]),
    call("getgroups", &[Unsigned, Pointer]),
    call("getpgid", &[Int]),
    call("getsid", &[Int]),
    call("rt_sigpending", &[Pointer, Unsigned]),
    call("rt_sigtimedwait", &[Pointer, Pointer, Pointer, Unsigned]),
    call("rt_sigsuspend", &[Pointer, Unsigned]),
    call("sigaltstack", &[Pointer, Pointer]),
    call("utime", &[Text, Pointer]),
    call("mknod", &[Text, Octal, Hex]),
    call("personality", &[Hex]),
    call("statfs", &[Text, Pointer]),
    call("fstatfs", &[Fd, Pointer]),
    call("prctl", &[Int, Hex, Hex, Hex, Hex]),
    call("arch_prctl", &[Hex, Pointer]),
    call("setrlimit", &[Int, Pointer]),
    call("sync", &[]),
    call("gettid", &[]),
    call("readahead", &[Fd, Signed, Unsigned]),
    call("getxattr", &[Text, Text, Pointer, Unsigned]),
    call("lgetxattr", &[Text, Text, Pointer, Unsigned]),
    call("listxattr", &[Text, Pointer, Unsigned]),
    call("tkill", &[Int, Signal]),
    call("time", &[Pointer]),
    call("futex", &[Pointer, Hex, Int, Pointer, Pointer, Int]),
    call("sched_setaffinity", &[Int, Unsigned, Pointer]),
    call("sched_getaffinity", &[Int, Unsigned, Pointer]),
    call("epoll_create", &[Unsigned]),
    call("getdents64", &[Fd, Pointer, Unsigned]),
    call("set_tid_address", &[Pointer]),
    call("restart_syscall", &[]),
    call("fadvise64", &[Fd, Signed, Unsigned, Int]),
    call("timer_create", &[Int, Pointer, Pointer]),
    call("timer_settime", &[Int, Hex, Pointer, Pointer]),
    call("timer_delete", &[Int]),
    call("clock_gettime", &[Int, Pointer]),
    call("clock_getres", &[Int, Pointer]),
    call("clock_nanosleep", &[Int, Hex, Pointer, Pointer]),
    call("exit_group", &[Int]),
    call("epoll_wait", &[Fd, Pointer, Unsigned, Int]),
    call("epoll_ctl", &[Fd, Int, Fd, Pointer]),
    call("tgkill", &[Int, Int, Signal]),
    call("utimes", &[Text, Pointer]),
    call("waitid", &[Int, Int, Pointer, Hex, Pointer]),
    call("inotify_add_watch", &[Fd, Text, Hex]),
    call("openat", &[DirFd, Text, Bits(OPEN), Octal]),
    call("mkdirat", &[DirFd, Text, Octal]),
    call("mknodat", &[DirFd, Text, Octal, Hex]),
    call("fchownat", &[DirFd, Text, Int, Int, Hex]),
    call("newfstatat", &[DirFd, Text, Pointer, Hex]),
    call("unlinkat", &[DirFd, Text, Hex]),
    call("renameat", &[DirFd, Text, DirFd, Text]),
    call("linkat", &[DirFd, Text, DirFd, Text, Hex]),
    call("symlinkat", &[Text, DirFd, Text]),
    call("readlinkat", &[DirFd, Text, Pointer, Unsigned]),
    call("fchmodat", &[DirFd, Text, Octal]),
    call("faccessat", &[DirFd, Text, Octal]),
    call("pselect6", &[Int, Pointer, Pointer, Pointer, Pointer, Pointer]),
    call("ppoll", &[Pointer, Unsigned, Pointer, Pointer, Unsigned]),
    call("set_robust_list", &[Pointer, Unsigned]),
    call("splice", &[Fd, Pointer, Fd, Pointer, Unsigned, Hex]),
    call("utimensat", &[DirFd, Text, Pointer, Hex]),
    call("epoll_pwait", &[Fd, Pointer, Unsigned, Int, Pointer, Unsigned]),
    call("signalfd4", &[Fd, Pointer, Unsigned, Hex]),
    call("timerfd_create", &[Int, Hex]),
    call("eventfd", &[Unsigned]),
    call("fallocate", &[Fd, Int, Signed, Signed]),
    call("timerfd_settime", &[Fd, Hex, Pointer, Pointer]),
    call("accept4", &[Fd, Pointer, Pointer, Hex]),
    call("eventfd2", &[Unsigned, Hex]),
    call("epoll_create1", &[Hex]),
    call("dup3", &[Fd, Fd, Hex]),
    call("pipe2", &[Pointer, Hex]),
    call("inotify_init1", &[Hex]),
    call("preadv", &[Fd, Pointer, Unsigned, Signed]),
    call("pwritev", &[Fd, Pointer, Unsigned, Signed]),
    call("prlimit64", &[Int, Int, Pointer, Pointer]),
    call("sendmmsg", &[Fd, Pointer, Unsigned, Hex]),
    call("getcpu", &[Pointer, Pointer]),
    call("renameat2", &[DirFd, Text, DirFd, Text, Hex]),
    call("seccomp", &[Int, Hex, Pointer]),
    call("getrandom", &[Pointer, Unsigned, Hex]),
    call("memfd_create", &[Text, Hex]),
    call("statx", &[DirFd, Text, Hex, Hex, Pointer]),
    call("execveat", &[DirFd, Text, Pointer, Pointer, Hex]),
    call("membarrier", &[Int, Hex, Int]),
    call("mlock", &[Pointer, Unsigned]),
    call("copy_file_range", &[Fd, Pointer, Fd, Pointer, Unsigned, Hex]),
    call("preadv2", &[Fd, Pointer, Unsigned, Signed, Signed, Hex]),
    call("pwritev2", &[Fd, Pointer, Unsigned, Signed, Signed, Hex]),
    call("rseq", &[Pointer, Unsigned, Hex, Hex]),
    call("pidfd_open", &[Int, Hex]),
    call("clone3", &[Pointer, Unsigned]),
    call("close_range", &[Fd, Fd, Hex]),
    call("openat2", &[DirFd, Text, Pointer, Unsigned]),
    call("faccessat2", &[DirFd, Text, Octal, Hex]),
];
