//! The program's memory, which may not be there.

use bugnet_dr::sys;

/// Reads a word of the program's memory.
pub fn read_word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read_memory(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// Reads the program's memory; `false` if not all of it is readable.
pub fn read_memory(address: u64, out: &mut [u8]) -> bool {
    let mut read = 0;
    // SAFETY: DynamoRIO's safe read catches faults at the source; the target is ours.
    unsafe { sys::dr_safe_read(address as *const _, out.len(), out.as_mut_ptr().cast(), &raw mut read) != 0 }
}

/// Writes to the program's memory; `false` if not all of it is writable.
pub fn write_memory(address: u64, bytes: &[u8]) -> bool {
    let mut written = 0;
    // SAFETY: DynamoRIO's safe write catches faults at the target; the source is ours.
    unsafe { sys::dr_safe_write(address as *mut _, bytes.len(), bytes.as_ptr().cast(), &raw mut written) != 0 }
}
