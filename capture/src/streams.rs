//! Which descriptors refer to the recording's standard output and error: what is written there is the program's output.

use crate::state;
use crate::sys;
use crate::text::Text;
use core::fmt::Write;

const F_DUPFD: u64 = 0;
const F_DUPFD_CLOEXEC: u64 = 1030;
const F_GETFD: u64 = 1;
const CLOSE_RANGE_CLOEXEC: u64 = 4;

/// Takes over what the program before has written down: `3=1,4=2`. The first one has both.
pub fn begin(text: &[u8]) {
    let streams = &mut state::get().streams;
    if text.is_empty() {
        streams[1] = 1;
        streams[2] = 2;
        return;
    }
    for pair in text.split(|b| *b == b',') {
        let mut halves = pair
            .split(|b| *b == b'=')
            .map(|digits| digits.iter().filter(|b| b.is_ascii_digit()).fold(0u64, |n, b| n * 10 + u64::from(b - b'0')));
        let (Some(descriptor), Some(stream)) = (halves.next(), halves.next()) else { continue };
        // `execve` has closed some.
        // SAFETY: asks about a number.
        let open = unsafe { sys::call3(sys::FCNTL, descriptor, F_GETFD, 0) } >= 0;
        if let Some(slot) = streams.get_mut(descriptor as usize).filter(|_| open) {
            *slot = stream as u8;
        }
    }
}

/// What [`begin`] takes.
pub fn encode(text: &mut Text<4096>) {
    let streams = state::get().streams.iter().enumerate().filter(|(_, stream)| **stream != 0);
    for (descriptor, stream) in streams {
        let _ = write!(text, "{descriptor}={stream},");
    }
    // Never empty, which would stand for the first program.
    text.push(b"-");
}

/// Which of both a descriptor refers to: standard output (1), error (2), or none of them (0).
pub fn of(descriptor: u64) -> u8 {
    state::get().streams.get(descriptor as u32 as usize).copied().unwrap_or(0)
}

/// Whether the log keeps all of what a call has written there, which counts from now on.
pub fn may_keep(bytes: u64) -> bool {
    let left = &mut state::get().output;
    let kept = bytes <= *left;
    *left -= if kept { bytes } else { 0 };
    kept
}

/// A call that may change descriptors has succeeded.
pub fn follow(number: u64, args: &[u64; 6], result: i64) {
    let streams = &mut state::get().streams;
    let (descriptor, stream) = match number {
        32 | 33 | 292 => (result as u64, of(args[0])),
        72 if args[1] == F_DUPFD || args[1] == F_DUPFD_CLOEXEC => (result as u64, of(args[0])),
        3 => (args[0] as u32 as u64, 0),
        436 if args[2] & CLOSE_RANGE_CLOEXEC == 0 => {
            for slot in streams
                .iter_mut()
                .skip(args[0] as usize)
                .take((args[1].saturating_sub(args[0]) as usize).saturating_add(1))
            {
                *slot = 0;
            }
            return;
        }
        _ => return,
    };
    if let Some(slot) = streams.get_mut(descriptor as usize) {
        *slot = stream;
    }
}
