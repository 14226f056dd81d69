//! What system calls have in common: where their arguments are, and what they return.

use crate::base::memory::{read_memory, read_word};

/// The registers of a system call's arguments.
pub const ARGUMENTS: [usize; 6] = [7, 6, 2, 10, 8, 9];

/// Reads a string of the program's, without its final zero, at most 4096 bytes.
pub fn string(address: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while out.len() < 4096 {
        let at = address + out.len() as u64;
        let mut piece = [0; 64];
        let room = (4096 - (at & 4095)).min(64) as usize;
        if !read_memory(at, &mut piece[..room]) {
            return None;
        }
        if let Some(end) = piece[..room].iter().position(|b| *b == 0) {
            out.extend_from_slice(&piece[..end]);
            return Some(out);
        }
        out.extend_from_slice(&piece[..room]);
    }
    Some(out)
}

/// Flags of a `clone` or `clone3`.
pub fn clone_flags(number: i64, args: &[u64; 6]) -> Option<u64> {
    match number {
        libc::SYS_clone => Some(args[0]),
        libc::SYS_clone3 => read_word(args[0]),
        _ => None,
    }
}

/// The kernel's answer to a system call of the program's that was made here, as libc returns it.
pub fn made(result: i64) -> Option<i64> {
    if result < 0 { Some(-i64::from(std::io::Error::last_os_error().raw_os_error()?)) } else { Some(result) }
}
