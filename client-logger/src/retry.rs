//! Waits that DynamoRIO itself has interrupted: it stops threads by a signal of its own, as when another thread forks, and
//! the kernel then ends with `EINTR` what only a handler of the program's should end. The thread waits on, for the rest of
//! the time.

use crate::code::read_word;
use crate::signals;
use bugnet_dr::sys;
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

/// `struct timespec` as the kernel has it.
type Timespec = [u64; 2];

/// Of a thread in a system call.
#[derive(Default)]
pub struct Retry {
    /// When the wait is over; none if the kernel keeps account of that, or if it has no end.
    end: Option<Instant>,
    /// [`signals::sent_faults`] before the call.
    sent_faults: u64,
    /// What is left, for the kernel.
    rest: Box<Timespec>,
    /// Whether it is made once more.
    repeating: bool,
}

/// How a system call says how long it waits.
#[derive(Clone, Copy)]
enum Wait {
    /// In a way that holds when it is repeated.
    Repeatable,
    /// In milliseconds, in this argument; negative for ever.
    Millis(c_int),
    /// By a `struct timespec` that this argument points at.
    Timespec(c_int),
}

fn wait(number: i64, args: &[u64; 6]) -> Option<Wait> {
    let wait = match number {
        // With a time, the kernel puts the rest of it where it was.
        libc::SYS_pause | libc::SYS_select | libc::SYS_pselect6 | libc::SYS_ppoll => Wait::Repeatable,
        libc::SYS_futex if args[1] as i32 & libc::FUTEX_CMD_MASK == libc::FUTEX_WAIT_BITSET => Wait::Repeatable,
        libc::SYS_clock_nanosleep if args[1] as i32 & libc::TIMER_ABSTIME != 0 => Wait::Repeatable,
        libc::SYS_poll => Wait::Millis(2),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Wait::Millis(3),
        libc::SYS_nanosleep => Wait::Timespec(0),
        libc::SYS_clock_nanosleep => Wait::Timespec(2),
        libc::SYS_rt_sigtimedwait if args[2] != 0 => Wait::Timespec(2),
        libc::SYS_rt_sigtimedwait | libc::SYS_semop => Wait::Repeatable,
        _ => return None,
    };
    Some(wait)
}

fn duration(wait: Wait, args: &[u64; 6]) -> Option<Duration> {
    match wait {
        Wait::Repeatable => None,
        Wait::Millis(n) => u64::try_from(args[n as usize] as i32).ok().map(Duration::from_millis),
        Wait::Timespec(n) => {
            let (seconds, nanos) = (read_word(args[n as usize])?, read_word(args[n as usize] + 8)?);
            Some(Duration::new(seconds, u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?))
        }
    }
}

impl Retry {
    /// Before a system call.
    pub fn before(&mut self, number: i64, args: &[u64; 6]) {
        if let Some(wait) = wait(number, args) {
            self.sent_faults = signals::sent_faults();
            self.end = duration(wait, args).and_then(|time| Instant::now().checked_add(time));
        }
    }

    /// Whether the system call that is about to be made is one that is made once more.
    pub fn repeats(&mut self) -> bool {
        std::mem::take(&mut self.repeating)
    }

    /// After it, where it was interrupted, but not by a signal that the thread has taken: whether it is made once more.
    ///
    /// # Safety
    /// In the post-syscall event.
    pub unsafe fn again(&mut self, drcontext: *mut c_void, number: i64, args: &[u64; 6]) -> bool {
        if self.sent_faults != signals::sent_faults() {
            return false;
        }
        let rest = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        let replaced = match (wait(number, args), rest) {
            (None, _) => return false,
            (Some(Wait::Millis(n)), Some(rest)) => Some((n, rest.as_millis() as u64)),
            (Some(Wait::Timespec(n)), Some(rest)) => {
                *self.rest = [rest.as_secs(), rest.subsec_nanos().into()];
                Some((n, self.rest.as_ptr() as u64))
            }
            (Some(Wait::Timespec(_)), None) => return false,
            (Some(_), _) => None,
        };
        self.repeating = true;
        // SAFETY: the caller's promise; the argument that is replaced is one of the same kind.
        unsafe {
            sys::dr_syscall_set_sysnum(drcontext, number as c_int);
            if let Some((n, value)) = replaced {
                sys::dr_syscall_set_param(drcontext, n, value);
            }
            sys::dr_syscall_invoke_another(drcontext);
        }
        true
    }
}
