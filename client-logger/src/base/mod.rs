//! What everything else stands on: messages, memory, thread-local slots, what is true of the process.
//!
//! The lowest floor; it knows nothing of recording.

pub mod capabilities;
pub mod fs_base;
pub mod maps;
pub mod memory;
pub mod options;
pub mod own_memory;
pub mod pages;
pub mod process;
pub mod slots;
pub mod stuck;
pub mod waiting;

use bugnet_dr::sys;

/// Prints to standard error through DynamoRIO, whose descriptor the program cannot close.
pub fn warn(message: &str) {
    let text = format!("bugnet: {message}\n");
    // SAFETY: DynamoRIO's own standard error, and a buffer of the given length.
    unsafe { sys::dr_write_file(sys::dr_stderr(), text.as_ptr().cast(), text.len()) };
}

/// Ends the process: the recorder itself is broken, and going on would record something wrong.
pub fn die(message: &str) -> ! {
    warn(message);
    // SAFETY: ends the process.
    unsafe { sys::dr_abort_with_code(125) };
    std::process::abort()
}
