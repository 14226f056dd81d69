//! End to end tests: what they share.
//!
//! The tests themselves are in `tests/`: each starts the built `bugnet` as a user would, and reads logs with
//! `bugnet-format`. `spec-harness` measures the same programs ([`programs`]).

pub mod alike;
pub mod asm;
pub mod browser;
pub mod bugnet;
pub mod causes;
pub mod correct;
pub mod debugged;
pub mod editor;
pub mod faulty;
pub mod hang;
pub mod inputs;
pub mod kernel_word;
pub mod machine;
pub mod many_loads;
pub mod moved;
pub mod parallel;
pub mod programs;
pub mod rare;
pub mod sample;
pub mod servers;
pub mod slices;
pub mod small;
pub mod threaded;
pub mod trace;
