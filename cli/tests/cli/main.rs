//! The command line as its users meet it.

mod common;
mod log_folder;
mod readers;
mod record_errors;
mod stopping;
mod transparent;
