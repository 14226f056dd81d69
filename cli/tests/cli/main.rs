//! The command line as its users meet it.

mod common;
mod readers;
mod record_errors;
mod transparent;
