//! The command line as its users meet it.

mod by_hand;
mod common;
mod gaps;
mod hostile;
mod keeping;
mod limit;
mod log_folder;
mod long;
mod packed;
mod readers;
mod record_errors;
mod statuses;
mod stopping;
mod transparent;
mod until_fail;
