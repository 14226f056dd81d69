//! Ctrl-C, which a terminal sends to gdb and to bugnet alike.
//!
//! gdb does with it what it wants, and tells bugnet while something runs. While it waits for the answer to a `monitor` command it does not:
//! bugnet has to know by itself.

use crate::failure::Failure;
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};

/// Where the handler writes; negative while there is nothing.
static TOLD: AtomicI32 = AtomicI32::new(-1);

/// Writes a byte.
pub extern "C" fn on_interrupt(_: c_int) {
    let told = TOLD.load(Ordering::Relaxed);
    if told >= 0 {
        // SAFETY: a system call that a handler may make, with a byte that lives; and the place of the thread's `errno`, which is as it
        // was when the handler returns. That nothing was written because all is full is as good.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::write(told, [0_u8].as_ptr().cast(), 1);
            *errno = before;
        }
    }
}

/// A connection from which bytes can be read when [`on_interrupt`] was called. It does not block.
pub fn listen() -> Result<UnixStream, Failure> {
    let (reads, writes) = UnixStream::pair().map_err(Failure::system("listen for Ctrl-C"))?;
    for end in [&reads, &writes] {
        end.set_nonblocking(true).map_err(Failure::system("listen for Ctrl-C"))?;
    }
    // It stays open as long as the handler may be called.
    TOLD.store(std::mem::ManuallyDrop::new(writes).as_raw_fd(), Ordering::Relaxed);
    Ok(reads)
}
