//! Build script of packages that are linked into what runs where a recorded program does: links GCC's unwinder statically. A
//! container with a libc alone has no libgcc_s.so.1.
//!
//! Rust's standard library asks the linker for `gcc_s`, whatever else it is told. It finds a linker script of this name, which
//! names the static libraries.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=../scripts/static_libgcc.rs");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let script = folder.join("libgcc_s.so");
    if let Err(e) = std::fs::write(&script, "GROUP ( -lgcc_eh -lgcc )\n") {
        panic!("{}: {e}", script.display());
    }
    println!("cargo:rustc-link-search=native={}", folder.display());
}
