//! The program's break. DynamoRIO has a mapping of its own in the place of the kernel's, which does not grow again once it
//! has shrunk, or where the program has protected some of it: here, its growth and shrinking are mappings and unmappings.
//!
//! As natively, the heap begins at a page that nobody can foresee, and there is nothing behind the break that can be accessed. What
//! DynamoRIO has mapped stays reserved for the heap to grow, since here, other mappings come close to it.

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::maps;
use crate::base::own_memory;
use crate::kernel::substitute::Substitution;
use bugnet_dr::space::{self, Protection};
use bugnet_format::types::Addr;
use std::ffi::c_void;
use std::ops::Range;

/// What DynamoRIO maps above the break at first.
const INITIAL: u64 = 4 << 20;
/// So much of it is left out at most, for the heap to begin anywhere.
const SPREAD: u64 = 2 << 20;

/// Where the break is.
struct Break {
    /// Where it was at the program's start.
    start: u64,
    /// Where it is now, to the byte.
    now: u64,
    /// Up to where there is a reservation that nobody can access.
    reserved: u64,
}

static BREAK: Mutex<Option<Break>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Break>> {
    BREAK.lock()
}

/// What a `brk` needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing; this is its result.
    Is(u64),
    /// More memory.
    Map(Range<u64>),
    /// Less.
    Unmap(Range<u64>),
}

fn page_end(address: u64) -> u64 {
    address.saturating_add(Addr::PAGE - 1) & !(Addr::PAGE - 1)
}

/// How far from the program's end the heap begins.
fn distance() -> u64 {
    let mut random = 0u64;
    // SAFETY: asks only.
    let plain = unsafe { libc::personality(0xffff_ffff) } & libc::ADDR_NO_RANDOMIZE != 0;
    // SAFETY: a variable of that size.
    let got = unsafe { libc::getrandom((&raw mut random).cast(), size_of::<u64>(), libc::GRND_NONBLOCK) };
    if plain || got < 0 { 0 } else { random % (SPREAD / Addr::PAGE) * Addr::PAGE }
}

impl Break {
    fn first() -> Self {
        let start = space::program_break();
        let end = maps::region_of(start).map_or(start, |region| region.range.end).min(start + INITIAL);
        // SAFETY: DynamoRIO's mapping for this purpose, which nobody has used yet.
        let reserves = || unsafe { space::protect(start, (end - start) as usize, Protection::NONE) };
        if end > start + SPREAD && reserves() {
            let distance = distance();
            own_memory::mapped(start as *const c_void, distance as usize);
            let start = start + distance;
            return Self { start, now: start, reserved: end };
        }
        Self { start, now: start, reserved: start }
    }

    fn step(&mut self, wanted: u64) -> Step {
        let (end, here) = (page_end(wanted), page_end(self.now));
        if wanted < self.start {
            Step::Is(self.now)
        } else if end > here {
            Step::Map(here..end)
        } else if end < here {
            Step::Unmap(end..here)
        } else {
            self.now = wanted;
            Step::Is(wanted)
        }
    }
}

/// Before a `brk`: what it needs.
pub fn before(wanted: u64) -> Step {
    lock().get_or_insert_with(Break::first).step(wanted)
}

/// Makes another system call of it.
pub fn substitute(drcontext: *mut c_void, step: &Step) -> Option<Substitution> {
    const NEW: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let mut lock = lock();
    let here = lock.get_or_insert_with(Break::first);
    let (range, protection, flags) = match step {
        Step::Is(_) => return None,
        Step::Map(range) if range.end <= here.reserved => {
            (range, libc::PROT_READ | libc::PROT_WRITE, NEW | libc::MAP_FIXED)
        }
        Step::Map(range) => {
            if range.start < here.reserved {
                // SAFETY: the reservation, which nobody accesses, makes way.
                unsafe { space::free(range.start, (here.reserved - range.start) as usize) };
                here.reserved = range.start;
            }
            (range, libc::PROT_READ | libc::PROT_WRITE, NEW)
        }
        // It stays reserved.
        Step::Unmap(range) => (range, libc::PROT_NONE, NEW | libc::MAP_FIXED | libc::MAP_NORESERVE),
    };
    let arguments = [range.start, range.end - range.start, protection as u64, flags as u64, u64::MAX, 0];
    let arguments: Vec<_> = arguments.into_iter().enumerate().collect();
    Substitution::make(drcontext, libc::SYS_mmap, &arguments)
}

/// Behind that call, whose result this is: the result of the `brk`.
pub fn after(step: &Step, wanted: u64, result: u64) -> u64 {
    let mut lock = lock();
    let here = lock.get_or_insert_with(Break::first);
    match step {
        Step::Is(_) => return here.now,
        Step::Map(range) if result != range.start => {
            if result.cast_signed() >= 0 {
                // Something else lies there, and the kernel has found another place.
                // SAFETY: the mapping that was just made.
                unsafe { space::free(result, (range.end - range.start) as usize) };
            }
            return here.now;
        }
        Step::Unmap(range) if result == range.start => here.reserved = here.reserved.max(range.end),
        Step::Unmap(_) => return here.now,
        Step::Map(_) => {}
    }
    here.now = wanted;
    here.now
}

/// Whether an address lies in what is reserved for the heap, where natively there is nothing.
pub fn is_reserved(address: u64) -> bool {
    lock().as_ref().is_some_and(|here| (page_end(here.now)..here.reserved).contains(&address))
}

/// Where the break is.
pub fn now() -> u64 {
    lock().get_or_insert_with(Break::first).now
}

/// What is mapped above the break, of which the program has nothing yet.
pub fn spare() -> Range<u64> {
    let mut lock = lock();
    let here = lock.get_or_insert_with(Break::first);
    page_end(here.now)..here.reserved.max(page_end(here.now))
}

/// The heap up to the break.
pub fn heap() -> Range<u64> {
    lock().as_ref().map_or(0..0, |here| here.start..page_end(here.now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_up_and_down_and_up_again() {
        let mut here = Break { start: 0x10_0000, now: 0x10_0000, reserved: 0x10_4000 };
        assert_eq!(here.step(0), Step::Is(0x10_0000));
        assert_eq!(here.step(0x10_1234), Step::Map(0x10_0000..0x10_2000));
        here.now = 0x10_1234;
        assert_eq!(here.step(0x10_1f00), Step::Is(0x10_1f00));
        assert_eq!(here.step(0x10_8001), Step::Map(0x10_2000..0x10_9000));
        here.now = 0x10_8001;
        assert_eq!(here.step(0x10_8f00), Step::Is(0x10_8f00));
        assert_eq!(here.step(0x10_0000), Step::Unmap(0x10_0000..0x10_9000));
        here.now = 0x10_0000;
        assert_eq!(here.step(0x10_0000), Step::Is(0x10_0000));
        assert_eq!(here.step(0xf_ffff), Step::Is(0x10_0000));
        assert_eq!(here.step(0x10_0001), Step::Map(0x10_0000..0x10_1000));
    }
}
