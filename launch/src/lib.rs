//! What it takes to start a program under DynamoRIO in the kernel's place: [`program`] finds what an `execve` would
//! execute, [`variables`] tells DynamoRIO about it. `bugnet record` starts the first program with it, and the logger
//! every program that a recorded one executes.

pub mod error;
pub mod program;
mod sanitizer;
mod surroundings;
pub mod variables;

pub use error::ProgramError;
pub use program::Program;
pub use sanitizer::sanitizer;
pub use surroundings::obstacle;
