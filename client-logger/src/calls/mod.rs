//! The system calls that the program makes: what is recorded of each, and which are answered in the kernel's place.

mod answers;
mod exit;
pub mod helper;
mod maps_file;
pub mod syscall;
