//! Debug information of ELF files: symbols, lines, variables in scope and their values, names for addresses and back.
//!
//! | what one wants | where |
//! |---|---|
//! | one ELF file with the files that hold its debug information | [`image::Image`] |
//! | the files that belong to an ELF file, on the machine where it runs | [`companions`] |
//! | the frames of a stack, and what is in scope in each | [`frame::Stack`] |
//! | the source files that it names | [`sources`] |
//! | memory, of which some may not be known | [`memory::Memory`] |
//! | `name`, `name->field`, `name[3]`: an address with a type | [`expression`] |
//!
//! Whatever stands in a file may be a stranger's: all that is read is bounded, and nothing of it makes this crate panic. The
//! crate knows no logs, no replay and no processes.

pub mod companions;
pub mod demangle;
pub mod expression;
pub mod find;
pub mod frame;
pub mod image;
mod index;
pub mod lines;
mod location;
pub mod memory;
mod node;
mod print;
pub mod registers;
mod scope;
pub mod section;
pub mod sources;
pub mod split;
mod store;
mod types;
pub mod unwind;

mod value;
pub mod variable;

pub use location::Missing;
pub use print::Limits;
