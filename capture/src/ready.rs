//! Calls that wait until something is ready. Others would see only after a while that such a call lasts, so the kernel is asked first whether anything is: where nothing
//! is, the call surely waits, and others have the turn at once.
//!
//! All of this happens as part of the call, while the turn is lent: what is asked may be another thread's to answer.

use crate::members;
use crate::sys;
use crate::thread;

const READ: u64 = 0;
const POLL: u64 = 7;
const READV: u64 = 19;
const WRITEV: u64 = 20;
const SELECT: u64 = 23;
const ACCEPT: u64 = 43;
const SENDTO: u64 = 44;
const RECVFROM: u64 = 45;
const SENDMSG: u64 = 46;
const RECVMSG: u64 = 47;
const EPOLL_WAIT: u64 = 232;
const PSELECT6: u64 = 270;
const PPOLL: u64 = 271;
const EPOLL_PWAIT: u64 = 281;
const ACCEPT4: u64 = 288;
const EPOLL_PWAIT2: u64 = 441;

const POLLIN: u64 = 1;
const POLLOUT: u64 = 4;
const MSG_DONTWAIT: u64 = 0x40;
const F_GETFL: u64 = 3;
const O_NONBLOCK: i64 = 0o4000;
/// Bytes of a set of signals.
const SIGNALS: u64 = 8;
/// Most descriptors that `poll` and `select` are asked about first.
const MOST: u64 = 64;
const SECOND: u64 = 1_000_000_000;
/// The word of `struct stat` that says what a descriptor is of, and what that may be.
const MODE: usize = 3;
const KIND: u32 = 0o170_000;
const FIFO: u32 = 0o010_000;
const SOCKET: u32 = 0o140_000;
const NO_FILE: u32 = 0;

/// What is known of a call before it is made as the program has asked for.
pub enum Ready {
    /// It has ended with this: something was ready.
    Done(i64),
    /// It waits, as long as nothing else happens.
    Nothing,
    /// Only making it tells.
    Unknown,
}

/// Asks; `given`: the arguments with which the call is to be made. What is found counts: the kernel may tell it only once (an edge, a change of `/proc/mounts`).
pub fn ask(number: u64, given: &[u64; 6]) -> Ready {
    let result = match number {
        EPOLL_WAIT | EPOLL_PWAIT | EPOLL_PWAIT2 if waits(number, given) => events(given),
        POLL | PPOLL if waits(number, given) && given[1] <= MOST => polls(given),
        SELECT | PSELECT6 if waits(number, given) && given[0] <= MOST => selects(given),
        _ => return event(number, given).map_or(Ready::Unknown, |event| descriptor(given[0], event)),
    };
    match result {
        0 => Ready::Nothing,
        result if result < 0 => Ready::Unknown,
        result => Ready::Done(result),
    }
}

/// Whether a call is one that waits if nothing is ready, and otherwise ends as one without a time does: the kernel looks at what is ready before it looks at time and signals. With
/// a time, `select` and `ppoll` say how much of it is left.
fn waits(number: u64, given: &[u64; 6]) -> bool {
    match number {
        EPOLL_WAIT => given[3] as u32 != 0,
        EPOLL_PWAIT => given[3] as u32 != 0 && is_mask(given[4], given[5]),
        EPOLL_PWAIT2 => is_time(given[3]) && is_mask(given[4], given[5]),
        POLL => given[2] as u32 != 0,
        PPOLL => given[2] == 0 && is_mask(given[3], given[4]),
        SELECT => given[4] == 0,
        PSELECT6 => given[4] == 0 && (given[5] == 0 || is_pair(given[5])),
        _ => false,
    }
}

/// Whether the kernel takes this for a mask, or for none.
fn is_mask(at: u64, size: u64) -> bool {
    at == 0 || size == SIGNALS && sys::read_word(at).is_some()
}

/// The same, where both are in memory.
fn is_pair(at: u64) -> bool {
    sys::read_word(at).zip(sys::read_word(at.wrapping_add(8))).is_some_and(|(at, size)| is_mask(at, size))
}

/// Whether the kernel takes this for a time that lets a call wait; without one, it waits for ever.
fn is_time(at: u64) -> bool {
    let is_valid = |(seconds, rest): (u64, u64)| i64::try_from(seconds).is_ok() && rest < SECOND && seconds | rest != 0;
    at == 0 || sys::read_word(at).zip(sys::read_word(at.wrapping_add(8))).is_some_and(is_valid)
}

/// What a call waits for at the descriptor that is its first argument.
fn event(number: u64, args: &[u64; 6]) -> Option<u64> {
    let flags = match number {
        RECVFROM | SENDTO => args[3],
        RECVMSG | SENDMSG => args[2],
        _ => 0,
    };
    let event = match number {
        READ | READV | ACCEPT | ACCEPT4 | RECVFROM | RECVMSG => POLLIN,
        sys::WRITE | WRITEV | SENDTO | SENDMSG => POLLOUT,
        _ => return None,
    };
    (flags & MSG_DONTWAIT == 0).then_some(event)
}

fn events(given: &[u64; 6]) -> i64 {
    // SAFETY: the program's own call, but that it does not wait.
    unsafe { sys::call(EPOLL_WAIT, [given[0], given[1], given[2], 0, 0, 0]) }
}

/// Where nothing is found, the call itself writes anew what this writes.
fn polls(given: &[u64; 6]) -> i64 {
    // SAFETY: as above.
    unsafe { sys::call3(POLL, given[0], given[1], 0) }
}

/// The kernel clears the sets where nothing is ready: they are for the call itself again then.
fn selects(given: &[u64; 6]) -> i64 {
    let sets = [given[1], given[2], given[3]];
    let before = sets.map(|set| if set == 0 { None } else { sys::read_word(set) });
    let time = [0u64; 2];
    // SAFETY: as above.
    let result = unsafe { sys::call(SELECT, [given[0], sets[0], sets[1], sets[2], time.as_ptr() as u64, 0]) };
    if result == 0 && given[0] > 0 {
        for (set, words) in sets.into_iter().zip(before) {
            words.inspect(|words| {
                sys::write(set, &words.to_le_bytes());
            });
        }
    }
    result
}

/// Whether a descriptor lets a call wait, and is not ready for it. That is asked where somebody waits for the turn, or soon will, as far as the thread's last such call tells.
fn descriptor(descriptor: u64, event: u64) -> Ready {
    let me = thread::get();
    let waited = me.waited_for == Some(descriptor);
    if !waited && !members::anybody_waits() {
        return Ready::Unknown;
    }
    if !is_safe(descriptor) {
        return Ready::Unknown;
    }
    let mut asked = descriptor & 0xffff_ffff | event << 32;
    // SAFETY: one descriptor (`struct pollfd`).
    if unsafe { sys::call3(POLL, &raw mut asked as u64, 1, 0) } != 0 {
        me.waited_for = me.waited_for.filter(|_| !waited);
        return Ready::Unknown;
    }
    // SAFETY: a number.
    let flags = unsafe { sys::call3(sys::FCNTL, descriptor, F_GETFL, 0) };
    if flags >= 0 && flags & O_NONBLOCK == 0 { Ready::Nothing } else { Ready::Unknown }
}

/// Whether a descriptor is one that may be asked as often as one likes: a pipe, a socket, or what has no file (`eventfd` and the like). Devices begin to work where they are
/// asked, and files of `/proc` tell of a change once.
fn is_safe(descriptor: u64) -> bool {
    let mut stat = [0u64; 18];
    // SAFETY: room for the structure.
    let found = unsafe { sys::call3(sys::FSTAT, descriptor, stat.as_mut_ptr() as u64, 0) };
    found == 0 && matches!(stat[MODE] as u32 & KIND, FIFO | SOCKET | NO_FILE)
}

/// Others have had the turn during a call.
pub fn has_waited(number: u64, args: &[u64; 6]) {
    if event(number, args).is_some() {
        thread::get().waited_for = Some(args[0]);
    }
}
