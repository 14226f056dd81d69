//! Waits that DynamoRIO itself has interrupted: it stops threads by a signal of its own, as when another thread forks. The kernel makes
//! most system calls once more behind a signal handler by itself, but ends some with `EINTR`, which only a handler of the program's
//! should do. The thread waits on in these, for the rest of the time.
//!
//! Nearly all of this is done in the handler of that signal, so that nothing comes in between: behind it, the thread is in the kernel again, or
//! at the instruction that brings it there, where a signal of the program's is taken for one that has ended the wait.

use super::frame::{ARGUMENTS, Frame, RAX};
use super::send::raw_syscall;
use super::suspended;
use crate::base::memory::read_word;
use crate::base::process;
use bugnet_dr::call as call_event;
use bugnet_system_calls::Wait;
use std::ffi::c_void;
use std::time::Duration;

/// `struct timespec` as the kernel has it.
type Timespec = [u64; 2];

/// The system call in which a thread is.
#[derive(Default)]
pub struct Retry {
    /// None outside of those that the kernel does not make once more.
    call: Option<Call>,
    /// What is left of the time, for the kernel.
    rest: Timespec,
    /// Whether it is made once more by DynamoRIO.
    repeating: bool,
}

struct Call {
    number: i64,
    wait: Wait,
    /// The program's stack pointer, which nobody else has.
    stack: u64,
    /// The clock by which it ends, and when it has begun.
    clock: i32,
    begun: Duration,
    /// How long it waits from then on; none if the kernel keeps account of that, or if it has no end.
    time: Option<Duration>,
    /// Where the kernel puts the rest of the time when a signal ends the wait, and what is there before.
    remainder: Option<(u64, Timespec)>,
    /// Whether it was interrupted, and goes on.
    goes_on: bool,
}

fn wait(number: i64, args: &[u64; 6]) -> Option<Wait> {
    const EXTENDED: u32 = 8;
    let wait = bugnet_system_calls::of(u64::try_from(number).ok()?)?.waits?;
    match number {
        // Others are for the moment only, or have structures of their own for the time.
        libc::SYS_io_uring_enter if args[3] as u32 & EXTENDED != 0 => None,
        libc::SYS_clock_nanosleep if args[1] as i32 & libc::TIMER_ABSTIME != 0 => Some(Wait::Repeatable),
        libc::SYS_futex => match args[1] as i32 & libc::FUTEX_CMD_MASK {
            libc::FUTEX_WAIT => Some(wait),
            libc::FUTEX_WAIT_BITSET => Some(Wait::Repeatable),
            _ => None,
        },
        _ => Some(wait),
    }
}

/// The time on a clock.
fn now(clock: i32) -> Duration {
    let mut time = [0u64; 2];
    // SAFETY: a structure of two words, for the kernel to write.
    unsafe { raw_syscall(libc::SYS_clock_gettime, [clock as u64, time.as_mut_ptr() as u64, 0, 0, 0]) };
    Duration::new(time[0], time[1] as u32)
}

fn timespec(address: u64) -> Option<Timespec> {
    Some([read_word(address)?, read_word(address + 8)?])
}

/// How long a system call waits, as it says itself; `Err` if the kernel refuses it.
fn duration(wait: Wait, args: &[u64; 6]) -> Result<Option<Duration>, ()> {
    match wait {
        Wait::Repeatable | Wait::Receive | Wait::Send | Wait::Suspension => Ok(None),
        Wait::Millis(n) => Ok(u64::try_from(args[n] as i32).ok().map(Duration::from_millis)),
        Wait::Timespec(n) if args[n] == 0 => Ok(None),
        Wait::Timespec(n) => {
            let [seconds, nanos] = timespec(args[n]).ok_or(())?;
            let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
            Ok(Some(Duration::new(seconds, nanos.ok_or(())?)))
        }
    }
}

/// The time after which calls on a socket give up; none for never.
fn of_socket(fd: u64, option: i32) -> Option<Duration> {
    let (mut time, mut len) = ([0u64; 2], size_of::<Timespec>() as u32);
    let (level, address) = (libc::SOL_SOCKET as u64, time.as_mut_ptr() as u64);
    // SAFETY: a structure of two words and its size, for the kernel to write.
    let result =
        unsafe { raw_syscall(libc::SYS_getsockopt, [fd, level, option as u64, address, (&raw mut len) as u64]) };
    let time = Duration::from_secs(time[0]) + Duration::from_micros(time[1]);
    (result == 0 && !time.is_zero()).then_some(time)
}

/// How a call is made once more.
enum Left {
    /// Not at all: it has waited for as long as it was to, and ends with this error.
    Nothing(i32),
    /// With the same arguments.
    Same,
    /// With this value of an argument.
    Rest(usize, u64),
}

impl Call {
    /// What is left of the wait, whose first argument this is; `rest` is for the kernel to read.
    fn left(&self, first: u64, rest: &mut Timespec) -> Left {
        if let Some((address, before)) = self.remainder {
            // SAFETY: the kernel has just written there.
            unsafe { (address as *mut Timespec).write_unaligned(before) };
        }
        let time = match self.wait {
            Wait::Receive => of_socket(first, libc::SO_RCVTIMEO),
            Wait::Send => of_socket(first, libc::SO_SNDTIMEO),
            _ => self.time,
        };
        let Some(time) = time.map(|time| (self.begun + time).saturating_sub(now(self.clock))) else {
            return Left::Same;
        };
        match self.wait {
            Wait::Receive | Wait::Send if !time.is_zero() => Left::Same,
            Wait::Send if self.number == libc::SYS_connect => Left::Nothing(libc::EINPROGRESS),
            Wait::Receive | Wait::Send => Left::Nothing(libc::EAGAIN),
            // Not shorter than the program wants it.
            Wait::Millis(n) => Left::Rest(n, time.as_nanos().div_ceil(1_000_000) as u64),
            Wait::Timespec(n) => {
                *rest = [time.as_secs(), time.subsec_nanos().into()];
                Left::Rest(n, rest.as_ptr() as u64)
            }
            Wait::Repeatable | Wait::Suspension => Left::Same,
        }
    }
}

impl Retry {
    /// Before a system call, with the program's stack pointer.
    pub fn before(&mut self, number: i64, args: &[u64; 6], stack: u64) {
        // Nobody stops a thread that is the only one.
        let wait = if process::threaded() { wait(number, args) } else { None };
        self.call = wait.and_then(|wait| {
            let time = duration(wait, args).ok()?;
            // A time by the clock of the day does not change when that is set.
            let (clock, remainder) = match number {
                libc::SYS_clock_nanosleep if args[0] as i32 != libc::CLOCK_REALTIME => (args[0] as i32, args[3]),
                libc::SYS_clock_nanosleep => (libc::CLOCK_MONOTONIC, args[3]),
                libc::SYS_nanosleep => (libc::CLOCK_MONOTONIC, args[1]),
                _ => (libc::CLOCK_MONOTONIC, 0),
            };
            let timed = time.is_some() || matches!(wait, Wait::Receive | Wait::Send);
            let begun = if timed { now(clock) } else { Duration::ZERO };
            let remainder = time.and_then(|_| Some((remainder, timespec(remainder)?)));
            Some(Call { number, wait, stack, clock, begun, time, remainder, goes_on: false })
        });
    }

    /// After it.
    pub fn after(&mut self) {
        self.call = None;
    }

    /// Whether the system call that is about to be made is one that is made once more.
    pub fn repeats(&mut self) -> bool {
        std::mem::take(&mut self.repeating)
    }

    /// After one that was interrupted, though no signal has come to the thread: another thread has taken the one for which the kernel had
    /// chosen it. Whether it is made once more.
    ///
    /// # Safety
    /// In the post-syscall event; no signal comes before the pre-syscall event of the other call, which DynamoRIO would make in vain.
    pub unsafe fn again(&mut self, drcontext: *mut c_void, first: u64) -> bool {
        let Some(call) = self.call.as_ref().filter(|call| !matches!(call.wait, Wait::Suspension)) else { return false };
        let left = call.left(first, &mut self.rest);
        // SAFETY: the caller's promise; the argument that is replaced is one of the same kind.
        unsafe {
            match left {
                Left::Nothing(error) => {
                    call_event::set_result(drcontext, -i64::from(error) as u64);
                    return false;
                }
                Left::Same => {}
                Left::Rest(n, value) => call_event::set_argument(drcontext, n, value),
            }
            call_event::set_number(drcontext, call.number);
            call_event::make_another(drcontext);
        }
        self.repeating = true;
        true
    }

    /// In the handler of the signal by which DynamoRIO has stopped the thread: if that has ended the wait, it goes on.
    pub fn repeat(&mut self, frame: Frame) {
        let Some(call) = self.call.as_mut().filter(|call| frame.stack() == call.stack) else { return };
        if !frame.is_behind_interrupted_call() {
            return;
        }
        if matches!(call.wait, Wait::Suspension) {
            call.goes_on = suspended::repeat(frame);
            return;
        }
        match call.left(frame.word(ARGUMENTS[0]), &mut self.rest) {
            Left::Nothing(error) => {
                frame.set(RAX, -i64::from(error) as u64);
                return;
            }
            Left::Same => {}
            Left::Rest(n, value) => frame.set(ARGUMENTS[n], value),
        }
        frame.repeat_call(call.number);
        call.goes_on = true;
    }

    /// In the handler of a signal of the program's: if it has come in the call, that does not go on any more. A wait that was about to
    /// has been ended by it.
    pub fn end_by_signal(&mut self, frame: Frame) {
        let Some(call) = self.call.take_if(|call| frame.stack() == call.stack) else { return };
        if call.goes_on && frame.is_at_call() && frame.word(RAX) == call.number as u64 {
            frame.leave_call(-i64::from(libc::EINTR));
        }
    }
}
