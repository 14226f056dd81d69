//! Writes the sample recording that is frozen under `tests/data/v<version>/` into the folder given as argument.
//!
//! ```text
//! cargo run -p bugnet-format --example make_sample -- lib-format/tests/data/v3
//! ```
//!
//! A frozen sample is made once, when its version of the format comes into being, and never again.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: make_sample FOLDER");
        std::process::exit(2);
    };
    common::sample().write(folder.as_ref());
}
