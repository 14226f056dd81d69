//! The limit of file sizes, `RLIMIT_FSIZE`: it is the program's, and the log has to keep to it.
//!
//! Whoever writes beyond it gets SIGXFSZ, which is for the program alone, so the recorder asks first. Stores to mapped files
//! have no limit.

use std::io::{Error, Result};

/// Whether a file may be so long: the error is the one that writing would give, without the signal.
pub fn check(len: u64) -> Result<()> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of ours.
    let asked = unsafe { libc::prlimit64(0, libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut limit) };
    if asked == 0 && len > limit.rlim_cur { Err(Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}
