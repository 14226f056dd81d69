//! Descriptors of this program's own, which the recorded one does not see: they have high numbers, and calls about them are answered as if they were not open.

use crate::state;
use crate::sys;

const DUP: u64 = 32;
const DUP2: u64 = 33;
const DUP3: u64 = 292;
const CLOSE_RANGE: u64 = 436;
/// `close_range`: descriptors are closed where a program is executed; the calling process has its own table of them from then on.
const CLOSE_RANGE_CLOEXEC: u64 = 4;
const UNSHARE: u64 = 2;
const F_DUPFD_CLOEXEC: u64 = 1030;
const RLIMIT_NOFILE: u64 = 7;
const EBADF: i64 = -9;
/// From which number on they lie, if they can: what programs open has lower ones, and those that close everything come to their limit first.
const HIGH: u64 = 4096;
/// Most of them.
const MOST: usize = 72;

/// Their numbers; 0 for none.
#[derive(Clone, Copy)]
pub struct Own([u32; MOST]);

impl Own {
    pub const fn new() -> Self {
        Self([0; MOST])
    }
}

/// One of them, whose number may change.
#[derive(Clone, Copy)]
pub struct Descriptor(usize);

impl Descriptor {
    pub fn number(self) -> u64 {
        state::get().descriptors.0[self.0].into()
    }

    /// Closes it.
    pub fn close(self) {
        let number = core::mem::take(&mut state::get().descriptors.0[self.0]);
        if number != 0 {
            close(number);
        }
    }
}

fn close(file: u32) {
    // SAFETY: this program's own descriptor.
    unsafe { sys::call3(sys::CLOSE, file.into(), 0, 0) };
}

/// Takes over what has a high number already.
pub fn add(number: u32) -> Option<Descriptor> {
    let at = state::get().descriptors.0.iter().position(|number| *number == 0)?;
    state::get().descriptors.0[at] = number;
    Some(Descriptor(at))
}

/// Gives a new descriptor of this program's own a high number; none where it cannot be kept, and is closed.
pub fn keep(file: u32) -> Option<Descriptor> {
    let kept = lift(file).and_then(add);
    close(file);
    kept
}

/// Another descriptor of the same, with a high number.
fn lift(file: u32) -> Option<u32> {
    // SAFETY: an array of two, or none.
    let limit = |new: u64, old: u64| unsafe { sys::call(sys::PRLIMIT, [0, RLIMIT_NOFILE, new, old, 0, 0]) };
    let mut limits = [0u64; 2];
    limit(0, limits.as_mut_ptr() as u64);
    let [most, hard] = limits;
    // Above what the program may have, if that is not too high: the kernel has a table of all numbers up to the highest.
    let raised = [most + 2 * MOST as u64, hard.max(most + 2 * MOST as u64)];
    let is_raised = most <= HIGH && limit(raised.as_ptr() as u64, 0) == 0;
    let places = [if is_raised { most } else { HIGH }, most.saturating_sub(2 * MOST as u64), most / 2, 0];
    let lifted = places
        .into_iter()
        // SAFETY: this program's own descriptor.
        .map(|place| unsafe { sys::call3(sys::FCNTL, file.into(), F_DUPFD_CLOEXEC, place) })
        .find_map(|lifted| u32::try_from(lifted).ok());
    if is_raised {
        limit(limits.as_ptr() as u64, 0);
    }
    lifted
}

/// Closes all other descriptors of the calling process, which has had them together with the program, and has its own ones from here on. Whether that was possible.
pub fn close_others(than: Option<Descriptor>) -> bool {
    // SAFETY: numbers.
    let close = |first: u32, last: u32| unsafe { sys::call3(CLOSE_RANGE, first.into(), last.into(), UNSHARE) } == 0;
    match than.map(|descriptor| descriptor.number() as u32) {
        Some(file) => (file == 0 || close(0, file - 1)) && close(file + 1, u32::MAX),
        None => close(0, u32::MAX),
    }
}

/// The answer of a call of the program's that is about them.
pub fn answer(number: u64, args: &[u64; 6]) -> Option<i64> {
    if !matches!(number, sys::CLOSE | sys::FSTAT | sys::FCNTL | DUP | DUP2 | DUP3 | CLOSE_RANGE) {
        return None;
    }
    let own = &mut state::get().descriptors.0;
    let [first, second] = [args[0] as u32, args[1] as u32];
    let is_own = |file: u32| file != 0 && own.contains(&file);
    if number == CLOSE_RANGE {
        let is_meant = |file: &u32| *file != 0 && (first..=second).contains(file);
        let closes = args[2] & CLOSE_RANGE_CLOEXEC == 0 && own.iter().any(is_meant);
        return closes.then(|| close_range(first, second, args[2]));
    }
    if is_own(first) {
        return Some(EBADF);
    }
    if matches!(number, DUP2 | DUP3) && is_own(second) {
        // It makes way.
        let moved = lift(second).unwrap_or(0);
        own.iter_mut().filter(|file| **file == second).for_each(|file| *file = moved);
        close(second);
    }
    None
}

/// Closes what the program closes, and leaves out ours.
fn close_range(first: u32, last: u32, flags: u64) -> i64 {
    let own = &state::get().descriptors.0;
    let mut from = first;
    loop {
        let next = own.iter().copied().filter(|file| *file >= from && *file != 0 && *file <= last).min();
        let to = next.map_or(last, |file| file.saturating_sub(1));
        if from <= to {
            // SAFETY: the program's own call, in parts.
            let closed = unsafe { sys::call3(CLOSE_RANGE, from.into(), to.into(), flags) };
            if closed < 0 {
                return closed;
            }
        }
        match next {
            Some(file) if file < last => from = file + 1,
            _ => return 0,
        }
    }
}
