//! The program's memory, as far as it can be read.

use crate::base::memory::read_memory;
use crate::log::writer::CHUNK;
use bugnet_format::types::Addr;

/// Reads the program's memory from `address` on, up to the first page that is not readable or to `len`, and calls
/// `f(offset, bytes)` on one piece after the other.
pub fn for_readable(buffer: &mut Vec<u8>, address: u64, len: u64, mut f: impl FnMut(u64, &[u8])) {
    let mut at = 0;
    let mut limit = CHUNK as u64;
    while at < len {
        let here = address + at;
        let piece = (limit - here % limit).min(len - at);
        buffer.resize(piece as usize, 0);
        if read_memory(here, buffer) {
            f(at, buffer);
            at += piece;
        } else if limit > Addr::PAGE {
            limit = Addr::PAGE;
        } else {
            break;
        }
    }
}
