//! Links the replay host as a position-independent program without libc and without an interpreter.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for arg in ["-nostartfiles", "-nostdlib", "-Wl,--no-dynamic-linker", "-Wl,-z,norelro", "-Wl,--build-id=none"] {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
}
