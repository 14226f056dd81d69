//! Builds Lua and, against it, the reproducer.

fn main() {
    println!("cargo:rerun-if-changed=main.c");
    let lua = lua_src::Build::new().build(lua_src::Lua53);
    cc::Build::new().include(lua.include_dir()).file("main.c").compile("case");
    lua.print_cargo_metadata();
    println!("cargo:rustc-link-lib=m");
}
