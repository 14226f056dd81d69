//! A layout of the address space in which libraries lie low, for programs that cannot be moved.
//!
//! The logger wants to reach a shadow of all memory by one distance. Where a program has to lie at the lowest addresses,
//! nothing else may lie at the highest. The kernel maps everything but the stack far below them when the stack may
//! become as large as it wants; the logger then moves the stack, and sets the limit back.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The limit of the stack that the logger has to restore, in bytes, if the program is to be started in this layout: it
/// cannot be moved, and the limit may be raised.
pub fn wanted(program: &Path) -> Option<u64> {
    // `e_type` is at the same place in all ELF files.
    let mut head = [0; 18];
    File::open(program).ok()?.read_exact(&mut head).ok()?;
    let fixed = u16::from_le_bytes([head[16], head[17]]) == libc::ET_EXEC;
    let (soft, hard) = getrlimit(Resource::RLIMIT_STACK).ok()?;
    (fixed && hard == RLIM_INFINITY).then_some(soft)
}

/// Asks for the layout, in the process that is about to execute.
pub fn ask() -> nix::Result<()> {
    setrlimit(Resource::RLIMIT_STACK, RLIM_INFINITY, RLIM_INFINITY)
}

/// Asks for the layout without touching the limit of the stack. Who is executed takes the wish back.
pub fn ask_by_personality() {
    // SAFETY: numbers only.
    unsafe {
        let now = libc::personality(0xffff_ffff);
        libc::personality(now as libc::c_ulong | libc::ADDR_COMPAT_LAYOUT as libc::c_ulong);
    }
}
