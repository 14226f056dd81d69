//! What a [`crate::run::thread::Thread`] is made of: its parts, which know nothing of the thread.

pub mod begun;
pub mod call;
pub mod chaos;
pub mod code_seq;
pub mod count;
pub mod exec;
pub mod first_loads;
pub mod last_program;
pub mod log;
pub mod ownership;
pub mod picture;
pub mod readable;
