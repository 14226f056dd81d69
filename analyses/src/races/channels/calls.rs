//! What system calls do to descriptors, and to what is behind them.

/// What two descriptors are that one call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// The reading and the writing end of a pipe.
    Pipe,
    /// Sockets of a stream that are connected with each other.
    Stream,
    /// Those that keep messages apart.
    Messages,
}

/// What a descriptor is that a call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file with a path; the call's record has that.
    File,
    /// An eventfd: whether each read takes one only, and what it holds at the beginning.
    Event { is_semaphore: bool, initial: u64 },
    /// Where signals are read.
    Signals,
    /// A socket that may be connected with anything, and whether descriptors may go through it.
    Socket { is_local: bool },
    /// Memory that has a descriptor.
    Memory,
    /// What no thread hands anything to another one by: timers, sets of descriptors.
    Other,
}

/// How much a call moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes, in one message where there are messages.
    Bytes(u64),
    /// Nobody knows how much.
    Unknown,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It gives two descriptors, which it puts here.
    Pair {
        addr: u64,
        pair: Pair,
    },
    /// It gives one.
    Opens {
        fd: i32,
        kind: Kind,
    },
    /// Another descriptor becomes the same as one.
    Copies {
        from: i32,
        to: i32,
    },
    /// These are closed.
    Closes {
        first: i32,
        last: i32,
    },
    /// Something is read from one, or written to one, or both.
    Moves {
        from: Option<i32>,
        to: Option<i32>,
        amount: Amount,
    },
    /// A connection is asked for, or accepted as another descriptor.
    Connects {
        fd: i32,
    },
    Accepts {
        listening: i32,
        fd: i32,
    },
    /// Others can connect to it.
    Listens,
    /// Nothing more comes from it.
    ShutsDown {
        fd: i32,
    },
    /// It waits for any of several descriptors.
    Waits,
    /// It sends a signal.
    Signals,
    /// It makes a process, unless it is a thread that has this id.
    Forks {
        child: i64,
    },
    /// Behind this, it is not known what descriptors are, or what goes through them.
    Clouds(&'static str),
}

const EFD_SEMAPHORE: u64 = 1;
/// Flags of a socket's type that are none of it.
const TYPE: u64 = 0xf;
const SHUT_RD: u64 = 0;

/// Whether calls with a number may have to do with descriptors.
pub fn is_known(number: u64) -> bool {
    let result = |result| does(number, &[0, 0, 1, 0, 0, 0], result).is_some();
    result(Some(1)) || result(None) || matches!(number.cast_signed(), libc::SYS_fcntl)
}

/// What a call does; none if it has nothing to do with descriptors. `result` is none of one that has not come back.
pub fn does(number: u64, args: &[u64; 6], result: Option<i64>) -> Option<Does> {
    let fd = |arg: usize| args[arg] as u32 as i32;
    let number = number.cast_signed();
    // Of one that has not come back, it is not known how much it has written.
    let Some(result) = result else {
        let to = to(number, args)?;
        return Some(Does::Moves { from: None, to: Some(to), amount: Amount::Unknown });
    };
    if result < 0 {
        return None;
    }
    let made = result as i32;
    let opens = |kind| Some(Does::Opens { fd: made, kind });
    match number {
        libc::SYS_pipe | libc::SYS_pipe2 => Some(Does::Pair { addr: args[0], pair: Pair::Pipe }),
        libc::SYS_socketpair => {
            let is_stream = args[1] & TYPE == libc::SOCK_STREAM as u64;
            Some(Does::Pair { addr: args[3], pair: if is_stream { Pair::Stream } else { Pair::Messages } })
        }
        libc::SYS_eventfd => opens(Kind::Event { is_semaphore: false, initial: args[0] & u64::from(u32::MAX) }),
        libc::SYS_eventfd2 => {
            opens(Kind::Event { is_semaphore: args[1] & EFD_SEMAPHORE != 0, initial: args[0] & u64::from(u32::MAX) })
        }
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => opens(Kind::File),
        libc::SYS_memfd_create => opens(Kind::Memory),
        libc::SYS_signalfd | libc::SYS_signalfd4 => opens(Kind::Signals),
        libc::SYS_socket => opens(Kind::Socket { is_local: args[0] == libc::AF_UNIX as u64 }),
        libc::SYS_accept | libc::SYS_accept4 => Some(Does::Accepts { listening: fd(0), fd: made }),
        libc::SYS_connect => Some(Does::Connects { fd: fd(0) }),
        libc::SYS_listen | libc::SYS_bind => Some(Does::Listens),
        libc::SYS_epoll_create
        | libc::SYS_epoll_create1
        | libc::SYS_timerfd_create
        | libc::SYS_inotify_init
        | libc::SYS_inotify_init1
        | libc::SYS_pidfd_open
        | libc::SYS_perf_event_open
        | libc::SYS_userfaultfd => opens(Kind::Other),
        libc::SYS_dup => Some(Does::Copies { from: fd(0), to: made }),
        libc::SYS_dup2 | libc::SYS_dup3 => Some(Does::Copies { from: fd(0), to: fd(1) }),
        libc::SYS_fcntl if matches!(args[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
            Some(Does::Copies { from: fd(0), to: made })
        }
        libc::SYS_close => Some(Does::Closes { first: fd(0), last: fd(0) }),
        libc::SYS_close_range if args[2] == 0 => {
            let end = |arg: usize| i32::try_from(args[arg] & u64::from(u32::MAX)).unwrap_or(i32::MAX);
            Some(Does::Closes { first: end(0), last: end(1) })
        }
        libc::SYS_shutdown if args[1] != SHUT_RD => Some(Does::ShutsDown { fd: fd(0) }),
        libc::SYS_poll | libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6 => (result > 0).then_some(Does::Waits),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => (result > 0).then_some(Does::Waits),
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill | libc::SYS_rt_sigqueueinfo => Some(Does::Signals),
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => Some(Does::Forks { child: result }),
        libc::SYS_io_uring_setup | libc::SYS_io_setup => Some(Does::Clouds("asynchronous reads and writes")),
        libc::SYS_pidfd_getfd => Some(Does::Clouds("descriptors taken from other processes")),
        _ => moves(number, args, result.cast_unsigned()),
    }
}

fn moves(number: i64, args: &[u64; 6], result: u64) -> Option<Does> {
    let fd = |arg: usize| args[arg] as u32 as i32;
    let peeks = |flags: usize| args[flags] & libc::MSG_PEEK as u64 != 0;
    let (from, to) = match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg => (Some(fd(0)), None),
        libc::SYS_sendfile => (Some(fd(1)), Some(fd(0))),
        libc::SYS_splice | libc::SYS_copy_file_range => (Some(fd(0)), Some(fd(2))),
        libc::SYS_tee => (Some(fd(0)), Some(fd(1))),
        _ => (None, Some(to(number, args)?)),
    };
    if matches!(number, libc::SYS_read | libc::SYS_recvfrom) && args[2] == 0 {
        return None;
    }
    let amount = match number {
        // Vectors may be empty: that nothing was read does not say that nothing comes any more.
        libc::SYS_readv | libc::SYS_recvmsg | libc::SYS_splice if result == 0 => Amount::Unknown,
        libc::SYS_recvmmsg | libc::SYS_sendmmsg | libc::SYS_tee => Amount::Unknown,
        libc::SYS_recvfrom if peeks(3) => Amount::Unknown,
        libc::SYS_recvmsg if peeks(2) => Amount::Unknown,
        _ => Amount::Bytes(result),
    };
    Some(Does::Moves { from, to, amount })
}

/// The descriptor to which a call writes that only does that.
fn to(number: i64, args: &[u64; 6]) -> Option<i32> {
    let sends = number == libc::SYS_sendmmsg
        || number == libc::SYS_vmsplice
        || bugnet_system_calls::of(number.cast_unsigned()).is_some_and(|call| call.sends.is_some());
    sends.then_some(args[0] as u32 as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_do() {
        let asked = |number: i64, args: [u64; 6], result| does(number.cast_unsigned(), &args, result);
        let moved = |from, to, amount| Some(Does::Moves { from, to, amount });
        assert_eq!(asked(libc::SYS_read, [7, 0, 9, 0, 0, 0], Some(5)), moved(Some(7), None, Amount::Bytes(5)));
        assert_eq!(asked(libc::SYS_writev, [7, 0, 9, 0, 0, 0], Some(5)), moved(None, Some(7), Amount::Bytes(5)));
        assert_eq!(asked(libc::SYS_write, [7, 0, 9, 0, 0, 0], Some(-11)), None);
        assert_eq!(asked(libc::SYS_write, [7, 0, 9, 0, 0, 0], None), moved(None, Some(7), Amount::Unknown));
        assert_eq!(asked(libc::SYS_read, [7, 0, 9, 0, 0, 0], None), None);
        assert_eq!(asked(libc::SYS_recvfrom, [7, 0, 9, 2, 0, 0], Some(5)), moved(Some(7), None, Amount::Unknown));
        assert_eq!(asked(libc::SYS_poll, [0; 6], Some(0)), None);
        let event = Kind::Event { is_semaphore: true, initial: 3 };
        assert_eq!(asked(libc::SYS_eventfd2, [3, 1, 0, 0, 0, 0], Some(8)), Some(Does::Opens { fd: 8, kind: event }));
        let all = Does::Closes { first: 3, last: i32::MAX };
        assert_eq!(asked(libc::SYS_close_range, [3, u64::from(u32::MAX), 0, 0, 0, 0], Some(0)), Some(all));
        assert_eq!(asked(libc::SYS_getpid, [0; 6], Some(1)), None);
    }
}
