//! Linker options: DynamoRIO's loader reports undefined symbols only when they are called, so the linker has to.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,defs");
}
