//! The program's break. DynamoRIO has a mapping of its own in the place of the kernel's, which does not grow again once it
//! has shrunk, or where the program has protected some of it: here, its growth and shrinking are mappings and unmappings.

use crate::maps;
use crate::substitute::Substitution;
use bugnet_dr::sys;
use bugnet_format::types::Addr;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// What DynamoRIO maps above the break at first.
const INITIAL: u64 = 4 << 20;

/// Where the break is.
struct Break {
    /// Where it was at the program's start.
    start: u64,
    /// Where it is now, to the byte.
    now: u64,
    /// Up to where there is memory: the end of a page.
    mapped: u64,
}

static BREAK: Mutex<Option<Break>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Break>> {
    BREAK.lock().unwrap_or_else(|e| e.into_inner())
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

impl Break {
    fn first() -> Self {
        // SAFETY: asks for a number.
        let start = unsafe { sys::dr_raw_brk(std::ptr::null_mut()) } as u64;
        let end = maps::region_of(start).map_or(start, |region| region.range.end);
        Self { start, now: start, mapped: end.min(start + INITIAL) }
    }

    fn step(&mut self, wanted: u64) -> Step {
        let end = wanted.saturating_add(Addr::PAGE - 1) & !(Addr::PAGE - 1);
        if wanted < self.start {
            return Step::Is(self.now);
        }
        let page_of_now = self.now.saturating_add(Addr::PAGE - 1) & !(Addr::PAGE - 1);
        if end > self.mapped {
            Step::Map(self.mapped..end)
        } else if end < page_of_now {
            Step::Unmap(end..self.mapped)
        } else {
            self.now = wanted;
            Step::Is(wanted)
        }
    }

    fn done(&mut self, step: &Step, wanted: u64) {
        self.now = wanted;
        self.mapped = match step {
            Step::Is(_) => self.mapped,
            Step::Map(range) => range.end,
            Step::Unmap(range) => range.start,
        };
    }
}

/// Before a `brk`: what it needs.
pub fn before(wanted: u64) -> Step {
    lock().get_or_insert_with(Break::first).step(wanted)
}

/// Makes another system call of it.
pub fn substitute(drcontext: *mut c_void, step: &Step) -> Option<Substitution> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let (number, range) = match step {
        Step::Is(_) => return None,
        Step::Map(range) => (libc::SYS_mmap, range),
        Step::Unmap(range) => (libc::SYS_munmap, range),
    };
    let arguments = [range.start, range.end - range.start, protection, flags, u64::MAX, 0];
    let arguments: Vec<_> = arguments.into_iter().enumerate().collect();
    Substitution::make(drcontext, number, &arguments)
}

/// Behind that call, whose result this is: the result of the `brk`.
pub fn after(step: &Step, wanted: u64, result: u64) -> u64 {
    let mut lock = lock();
    let here = lock.get_or_insert_with(Break::first);
    let done = match step {
        Step::Map(range) if result == range.start && here.mapped == range.start => true,
        Step::Map(range) => {
            if result.cast_signed() >= 0 {
                // Something else lies there, and the kernel has found another place.
                // SAFETY: the mapping that was just made.
                unsafe { sys::dr_raw_mem_free(result as *mut c_void, (range.end - range.start) as usize) };
            }
            false
        }
        _ => result == 0,
    };
    if done {
        here.done(step, wanted);
    }
    here.now
}

/// Where the break is.
pub fn now() -> u64 {
    lock().get_or_insert_with(Break::first).now
}

/// What DynamoRIO has mapped above the break, of which the program has nothing yet.
pub fn spare() -> Range<u64> {
    let mut lock = lock();
    let here = lock.get_or_insert_with(Break::first);
    (here.now.saturating_add(Addr::PAGE - 1) & !(Addr::PAGE - 1))..here.mapped
}

/// The heap up to the break.
pub fn heap() -> Range<u64> {
    lock().as_ref().map_or(0..0, |here| here.start..here.mapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_up_and_down_and_up_again() {
        let mut here = Break { start: 0x10_0000, now: 0x10_0000, mapped: 0x10_4000 };
        assert_eq!(here.step(0), Step::Is(0x10_0000));
        assert_eq!(here.step(0x10_1234), Step::Is(0x10_1234));
        let up = here.step(0x10_8001);
        assert_eq!(up, Step::Map(0x10_4000..0x10_9000));
        here.done(&up, 0x10_8001);
        assert_eq!(here.step(0x10_8f00), Step::Is(0x10_8f00));
        let down = here.step(0x10_0000);
        assert_eq!(down, Step::Unmap(0x10_0000..0x10_9000));
        here.done(&down, 0x10_0000);
        assert_eq!(here.step(0x10_0000), Step::Is(0x10_0000));
        assert_eq!(here.step(0xf_ffff), Step::Is(0x10_0000));
        assert_eq!(here.step(0x10_0001), Step::Map(0x10_0000..0x10_1000));
    }
}
