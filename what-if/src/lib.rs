//! Runs a recorded program on from a place of its log, natively, with some of its code changed: what would it have done?
//!
//! | what one wants | where |
//! |---|---|
//! | a process that is the recorded one at a place, and runs that begin there | [`Seed`] |
//! | runs of many trials, on all processors | [`Pool`] |
//! | what memory held there | `image` |
//! | what the program found in memory that it had not put there | `loads` |
//! | what system calls answer, as the log has it | `calls` |
//! | one run, with a change, to its end | `run` |
//! | a conditional jump that goes the other way, once | `switch` |
//! | memory that is set to something else before an instruction | `set` |
//! | where a run stops for that | `watch` |
//! | a difference in place of a sum | `sums` |
//! | a process that does nothing but what it is told, by ptrace | `host` |
//! | what that process may ask of the kernel | `confine` |
//! | the part of its registers that only XSAVE has | `xstate` |
//!
//! A log is a stranger's. Nothing that such a run asks of the kernel gets there, but for memory: it is answered as the recorded run was (`PTRACE_SYSEMU`), and what
//! is written is collected. A run that asks what the recorded one did not ends. Replay is exact; this is not: of what the recorded run never looked at, files have
//! what the log's copies of them have, and the rest is zero. So a seed is one only if the run without any change does what was recorded.

mod calls;
mod confine;
mod host;
mod image;
mod loads;
mod pool;
mod run;
mod seed;
mod set;
mod sums;
mod switch;
mod watch;
mod xstate;

pub use pool::Pool;
pub use run::{Change, Ended, Outcome, Trial, Turn, Until};
pub use seed::Seed;
pub use set::{Set, Spot};
