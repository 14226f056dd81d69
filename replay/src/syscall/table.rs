//! System calls as data: what the arguments of the common ones mean.

use super::names::{
    ACCESS, ACCESS_MODE, ADVICE, AT, CLOCK, CLONE, DOMAIN, EPOLL_OP, FCNTL, FUTEX, FUTEX_FLAGS, HOW, MAP, MESSAGE,
    OPEN, PROT, RESOURCE, SOCKET, SOCKET_TYPE, WHENCE,
};
use super::shapes::{Shape, Size};

/// How an argument is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// A file descriptor.
    Fd,
    /// A descriptor of a folder, or the working directory.
    DirFd,
    /// Address of a text that ends with a zero byte.
    Text,
    /// Address of what the call takes.
    In(Shape),
    /// Address of what the call writes.
    Out(Shape),
    /// Address of what the call takes and changes.
    InOut(Shape),
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
    /// A number with a name.
    Choice(&'static [(i32, &'static str)]),
    /// A number with a name, and named bits: the mask of the number.
    ChoiceAndBits(&'static [(i32, &'static str)], &'static [(i32, &'static str)], i32),
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

use Arg::{
    Bits, Choice, ChoiceAndBits, DirFd, Fd, Hex, In, InOut, Int, Octal, Out, Pointer, Signal, Signed, Text, Unsigned,
};
use Shape::{
    Bytes, EpollEvent, EpollEvents, Iovecs, Opaque, PollFds, Rlimit, Sigaction, Signals, SocketAddress, Stat, Timespec,
    Timeval, WaitStatus, Word, Words,
};
use Size::{At, Fixed, OfArg, Result};

const fn call(name: &'static str, args: &'static [Arg]) -> Signature {
    Signature { name, args, returns: Returns::Number }
}

const fn returning(returns: Returns, name: &'static str, args: &'static [Arg]) -> Signature {
    Signature { name, args, returns }
}

/// The system calls whose arguments are known. Others are shown with six hexadecimal numbers.
#[rustfmt::skip]
pub(super) const SIGNATURES: &[Signature] = &[
    call("read", &[Fd, Out(Bytes(Result)), Unsigned]),
    call("write", &[Fd, In(Bytes(OfArg(2))), Unsigned]),
    call("open", &[Text, ChoiceAndBits(ACCESS_MODE, OPEN, 3), Octal]),
    call("close", &[Fd]),
    call("stat", &[Text, Out(Stat)]),
    call("fstat", &[Fd, Out(Stat)]),
    call("lstat", &[Text, Out(Stat)]),
    call("poll", &[InOut(PollFds(1)), Unsigned, Int]),
    call("lseek", &[Fd, Signed, Choice(WHENCE)]),
    returning(Returns::Address, "mmap", &[Pointer, Unsigned, Bits(PROT), Bits(MAP), Fd, Hex]),
    call("mprotect", &[Pointer, Unsigned, Bits(PROT)]),
    call("munmap", &[Pointer, Unsigned]),
    returning(Returns::Address, "brk", &[Pointer]),
    call("rt_sigaction", &[Signal, In(Sigaction), Out(Sigaction), Unsigned]),
    call("rt_sigprocmask", &[Choice(HOW), In(Signals), Out(Signals), Unsigned]),
    call("rt_sigreturn", &[]),
    call("ioctl", &[Fd, Hex, InOut(Opaque(Fixed(60)))]),
    call("pread64", &[Fd, Out(Bytes(Result)), Unsigned, Signed]),
    call("pwrite64", &[Fd, In(Bytes(OfArg(2))), Unsigned, Signed]),
    call("readv", &[Fd, Out(Iovecs(2)), Unsigned]),
    call("writev", &[Fd, In(Iovecs(2)), Unsigned]),
    call("access", &[Text, Bits(ACCESS)]),
    call("pipe", &[Out(Words(2))]),
    call("select", &[Int, Pointer, Pointer, Pointer, Pointer]),
    call("sched_yield", &[]),
    returning(Returns::Address, "mremap", &[Pointer, Unsigned, Unsigned, Hex, Pointer]),
    call("msync", &[Pointer, Unsigned, Hex]),
    call("mincore", &[Pointer, Unsigned, Pointer]),
    call("madvise", &[Pointer, Unsigned, Choice(ADVICE)]),
    call("shmget", &[Int, Unsigned, Hex]),
    returning(Returns::Address, "shmat", &[Int, Pointer, Hex]),
    call("shmdt", &[Pointer]),
    call("dup", &[Fd]),
    call("dup2", &[Fd, Fd]),
    call("pause", &[]),
    call("nanosleep", &[In(Timespec), Out(Timespec)]),
    call("alarm", &[Unsigned]),
    call("setitimer", &[Int, In(Opaque(Fixed(32))), Out(Opaque(Fixed(32)))]),
    call("getitimer", &[Int, Out(Opaque(Fixed(32)))]),
    call("getpid", &[]),
    call("sendfile", &[Fd, Fd, InOut(Opaque(Fixed(8))), Unsigned]),
    call("socket", &[Choice(DOMAIN), ChoiceAndBits(SOCKET_TYPE, SOCKET, 0xf), Int]),
    call("connect", &[Fd, In(SocketAddress(OfArg(2))), Unsigned]),
    call("accept", &[Fd, Out(SocketAddress(At(2))), InOut(Word)]),
    call("sendto", &[Fd, In(Bytes(OfArg(2))), Unsigned, Bits(MESSAGE), In(SocketAddress(OfArg(5))), Unsigned]),
    call("recvfrom", &[Fd, Out(Bytes(Result)), Unsigned, Bits(MESSAGE), Out(SocketAddress(At(5))), InOut(Word)]),
    call("sendmsg", &[Fd, Pointer, Bits(MESSAGE)]),
    call("recvmsg", &[Fd, Pointer, Bits(MESSAGE)]),
    call("shutdown", &[Fd, Int]),
    call("bind", &[Fd, In(SocketAddress(OfArg(2))), Unsigned]),
    call("listen", &[Fd, Int]),
    call("getsockname", &[Fd, Out(SocketAddress(At(2))), InOut(Word)]),
    call("getpeername", &[Fd, Out(SocketAddress(At(2))), InOut(Word)]),
    call("socketpair", &[Choice(DOMAIN), ChoiceAndBits(SOCKET_TYPE, SOCKET, 0xf), Int, Out(Words(2))]),
    call("setsockopt", &[Fd, Int, Int, In(Opaque(OfArg(4))), Unsigned]),
    call("getsockopt", &[Fd, Int, Int, Out(Opaque(At(4))), InOut(Word)]),
    call("clone", &[Bits(CLONE), Pointer, Out(Word), Out(Word), Hex]),
    call("fork", &[]),
    call("vfork", &[]),
    call("execve", &[Text, Pointer, Pointer]),
    call("exit", &[Int]),
    call("wait4", &[Int, Out(WaitStatus), Hex, Out(Opaque(Fixed(144)))]),
    call("kill", &[Int, Signal]),
    call("uname", &[Out(Opaque(Fixed(390)))]),
    call("fcntl", &[Fd, Choice(FCNTL), Hex]),
    call("flock", &[Fd, Int]),
    call("fsync", &[Fd]),
    call("fdatasync", &[Fd]),
    call("truncate", &[Text, Signed]),
    call("ftruncate", &[Fd, Signed]),
    call("getdents", &[Fd, Out(Opaque(Result)), Unsigned]),
    call("getcwd", &[Out(Bytes(Result)), Unsigned]),
    call("chdir", &[Text]),
    call("fchdir", &[Fd]),
    call("rename", &[Text, Text]),
    call("mkdir", &[Text, Octal]),
    call("rmdir", &[Text]),
    call("creat", &[Text, Octal]),
    call("link", &[Text, Text]),
    call("unlink", &[Text]),
    call("symlink", &[Text, Text]),
    call("readlink", &[Text, Out(Bytes(Result)), Unsigned]),
    call("chmod", &[Text, Octal]),
    call("fchmod", &[Fd, Octal]),
    call("chown", &[Text, Int, Int]),
    call("fchown", &[Fd, Int, Int]),
    call("lchown", &[Text, Int, Int]),
    returning(Returns::Octal, "umask", &[Octal]),
    call("gettimeofday", &[Out(Timeval), Pointer]),
    call("getrlimit", &[Choice(RESOURCE), Out(Rlimit)]),
    call("getrusage", &[Int, Out(Opaque(Fixed(144)))]),
    call("sysinfo", &[Out(Opaque(Fixed(112)))]),
    call("times", &[Out(Opaque(Fixed(32)))]),
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
    call("rt_sigpending", &[Out(Signals), Unsigned]),
    call("rt_sigtimedwait", &[In(Signals), Out(Opaque(Fixed(128))), In(Timespec), Unsigned]),
    call("rt_sigsuspend", &[In(Signals), Unsigned]),
    call("sigaltstack", &[In(Opaque(Fixed(24))), Out(Opaque(Fixed(24)))]),
    call("utime", &[Text, Pointer]),
    call("mknod", &[Text, Octal, Hex]),
    call("personality", &[Hex]),
    call("statfs", &[Text, Out(Opaque(Fixed(120)))]),
    call("fstatfs", &[Fd, Out(Opaque(Fixed(120)))]),
    call("prctl", &[Int, Hex, Hex, Hex, Hex]),
    call("arch_prctl", &[Hex, Pointer]),
    call("setrlimit", &[Choice(RESOURCE), In(Rlimit)]),
    call("sync", &[]),
    call("gettid", &[]),
    call("readahead", &[Fd, Signed, Unsigned]),
    call("getxattr", &[Text, Text, Out(Bytes(Result)), Unsigned]),
    call("lgetxattr", &[Text, Text, Out(Bytes(Result)), Unsigned]),
    call("listxattr", &[Text, Out(Bytes(Result)), Unsigned]),
    call("tkill", &[Int, Signal]),
    call("time", &[Out(Opaque(Fixed(8)))]),
    call("futex", &[Pointer, ChoiceAndBits(FUTEX, FUTEX_FLAGS, 0x7f), Int, Pointer, Pointer, Hex]),
    call("sched_setaffinity", &[Int, Unsigned, Pointer]),
    call("sched_getaffinity", &[Int, Unsigned, Out(Opaque(Result))]),
    call("epoll_create", &[Unsigned]),
    call("getdents64", &[Fd, Out(Opaque(Result)), Unsigned]),
    call("set_tid_address", &[Pointer]),
    call("restart_syscall", &[]),
    call("fadvise64", &[Fd, Signed, Unsigned, Int]),
    call("timer_create", &[Int, Pointer, Pointer]),
    call("timer_settime", &[Int, Hex, Pointer, Pointer]),
    call("timer_delete", &[Int]),
    call("clock_gettime", &[Choice(CLOCK), Out(Timespec)]),
    call("clock_getres", &[Choice(CLOCK), Out(Timespec)]),
    call("clock_nanosleep", &[Choice(CLOCK), Hex, In(Timespec), Out(Timespec)]),
    call("exit_group", &[Int]),
    call("epoll_wait", &[Fd, Out(EpollEvents), Unsigned, Int]),
    call("epoll_ctl", &[Fd, Choice(EPOLL_OP), Fd, In(EpollEvent)]),
    call("tgkill", &[Int, Int, Signal]),
    call("utimes", &[Text, Pointer]),
    call("waitid", &[Int, Int, Out(Opaque(Fixed(128))), Hex, Out(Opaque(Fixed(144)))]),
    call("inotify_add_watch", &[Fd, Text, Hex]),
    call("openat", &[DirFd, Text, ChoiceAndBits(ACCESS_MODE, OPEN, 3), Octal]),
    call("mkdirat", &[DirFd, Text, Octal]),
    call("mknodat", &[DirFd, Text, Octal, Hex]),
    call("fchownat", &[DirFd, Text, Int, Int, Bits(AT)]),
    call("newfstatat", &[DirFd, Text, Out(Stat), Bits(AT)]),
    call("unlinkat", &[DirFd, Text, Bits(AT)]),
    call("renameat", &[DirFd, Text, DirFd, Text]),
    call("linkat", &[DirFd, Text, DirFd, Text, Bits(AT)]),
    call("symlinkat", &[Text, DirFd, Text]),
    call("readlinkat", &[DirFd, Text, Out(Bytes(Result)), Unsigned]),
    call("fchmodat", &[DirFd, Text, Octal]),
    call("faccessat", &[DirFd, Text, Bits(ACCESS)]),
    call("pselect6", &[Int, Pointer, Pointer, Pointer, Pointer, Pointer]),
    call("ppoll", &[InOut(PollFds(1)), Unsigned, InOut(Timespec), In(Signals), Unsigned]),
    call("set_robust_list", &[Pointer, Unsigned]),
    call("splice", &[Fd, Pointer, Fd, Pointer, Unsigned, Hex]),
    call("utimensat", &[DirFd, Text, Pointer, Hex]),
    call("epoll_pwait", &[Fd, Out(EpollEvents), Unsigned, Int, In(Signals), Unsigned]),
    call("signalfd4", &[Fd, Pointer, Unsigned, Hex]),
    call("timerfd_create", &[Int, Hex]),
    call("eventfd", &[Unsigned]),
    call("fallocate", &[Fd, Int, Signed, Signed]),
    call("timerfd_settime", &[Fd, Hex, In(Opaque(Fixed(32))), Out(Opaque(Fixed(32)))]),
    call("accept4", &[Fd, Out(SocketAddress(At(2))), InOut(Word), Bits(SOCKET)]),
    call("eventfd2", &[Unsigned, Hex]),
    call("epoll_create1", &[Hex]),
    call("dup3", &[Fd, Fd, Bits(OPEN)]),
    call("pipe2", &[Out(Words(2)), Bits(OPEN)]),
    call("inotify_init1", &[Hex]),
    call("preadv", &[Fd, Out(Iovecs(2)), Unsigned, Signed]),
    call("pwritev", &[Fd, In(Iovecs(2)), Unsigned, Signed]),
    call("prlimit64", &[Int, Choice(RESOURCE), In(Rlimit), Out(Rlimit)]),
    call("sendmmsg", &[Fd, Pointer, Unsigned, Hex]),
    call("getcpu", &[Out(Word), Out(Word)]),
    call("renameat2", &[DirFd, Text, DirFd, Text, Hex]),
    call("seccomp", &[Int, Hex, Pointer]),
    call("getrandom", &[Out(Bytes(Result)), Unsigned, Hex]),
    call("memfd_create", &[Text, Hex]),
    call("statx", &[DirFd, Text, Bits(AT), Hex, Out(Opaque(Fixed(256)))]),
    call("execveat", &[DirFd, Text, Pointer, Pointer, Bits(AT)]),
    call("membarrier", &[Int, Hex, Int]),
    call("mlock", &[Pointer, Unsigned]),
    call("copy_file_range", &[Fd, Pointer, Fd, Pointer, Unsigned, Hex]),
    call("preadv2", &[Fd, Out(Iovecs(2)), Unsigned, Signed, Signed, Hex]),
    call("pwritev2", &[Fd, In(Iovecs(2)), Unsigned, Signed, Signed, Hex]),
    call("rseq", &[Pointer, Unsigned, Hex, Hex]),
    call("pidfd_open", &[Int, Hex]),
    call("clone3", &[Pointer, Unsigned]),
    call("close_range", &[Fd, Fd, Hex]),
    call("openat2", &[DirFd, Text, Pointer, Unsigned]),
    call("faccessat2", &[DirFd, Text, Bits(ACCESS), Bits(AT)]),
];
