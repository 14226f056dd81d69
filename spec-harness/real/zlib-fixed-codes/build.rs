//! Compiles the reproducer against the headers of the pinned library.

fn main() {
    println!("cargo:rerun-if-changed=main.c");
    cc::Build::new()
        .include(std::env::var("DEP_Z_INCLUDE").expect("the library's headers"))
        .file("main.c")
        .compile("case");
}
