//! The limit of file sizes, `RLIMIT_FSIZE`: it is the program's, and the log has to keep to it.
//!
//! Whoever writes beyond it gets SIGXFSZ, which is for the program alone, so the recorder asks first. Stores to mapped files
//! have no limit.

use rustix::process::{Resource, getrlimit};
use std::io::{Error, Result};

/// Whether a file may be so long: the error is the one that writing would give, without the signal.
pub fn check(len: u64) -> Result<()> {
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| len > limit) { Err(Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}
