//! The program's memory, which may not be there.

use bugnet_dr::space;
pub use bugnet_dr::space::read as read_memory;

/// Reads a word of the program's memory.
pub fn read_word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read_memory(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// Writes to the program's memory; `false` if not all of it is writable.
pub fn write_memory(address: u64, bytes: &[u8]) -> bool {
    // SAFETY: the program's memory, to which nobody here has references.
    unsafe { space::write(address, bytes) }
}
