//! `bugnet debug` with the real gdb: the same sessions with Debian's and with a new one.

#[path = "sessions.rs"]
mod debian;

#[path = "sessions.rs"]
#[expect(clippy::duplicate_mod, reason = "the same sessions with another gdb")]
mod new;

mod strangers;
