//! What everything else stands on: messages, memory, thread-local slots, what is true of the process.
//!
//! The lowest floor; it knows nothing of recording.

pub mod capabilities;
pub mod choices;
pub mod chosen;
pub mod confine;
pub mod descriptors;
pub mod failure;
pub mod fs_base;
pub mod light;
pub mod lock;
pub mod maps;
pub mod memory;
pub mod options;
pub mod own_memory;
pub mod pages;
pub mod places;
pub mod process;
pub mod slots;
pub mod stuck;
pub mod turns;
pub mod waiting;
pub mod xsave;

/// Prints to standard error through DynamoRIO, whose descriptor the program cannot close.
pub fn warn(message: &str) {
    bugnet_dr::process::say(&format!("bugnet: {message}\n"));
}

/// Ends the process: there is no way on, neither for the recorder nor for the program.
pub fn die(message: &str) -> ! {
    warn(message);
    bugnet_dr::process::abort(125)
}
