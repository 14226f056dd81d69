//! Variables and their values compared with what gdb prints for the same frames: real programs that die under gdb, of which the
//! crate sees the registers and the memory of the core that gdb writes.

#[path = "gdb/process.rs"]
mod process;

use process::{Died, as_written, compile};
use std::path::Path;

/// Compiles `source` with this compiler and flags, and compares all frames of its crash with gdb.
fn same_as_gdb(compiler: &str, source: &str, flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), compiler, source, flags);
    compare(&Died::under_gdb(folder.path(), &program), &format!("{compiler} {flags:?} {source}"));
}

fn compare(died: &Died, what: &str) {
    let own = died.scopes();
    assert!(own.len() >= 2, "{what}: {own:?}");
    let mut wrong = Vec::new();
    let mut count = 0;
    for (number, (scope, theirs)) in own.iter().zip(&died.frames).enumerate() {
        // gdb loses its way in the runtime of Rust.
        if scope.function.as_deref().is_some_and(|name| name.starts_with("core::") || name.starts_with("std::")) {
            continue;
        }
        let written = |(name, value): &(String, String)| (name.clone(), as_written(value));
        let mut theirs: Vec<_> = theirs.iter().map(written).collect();
        let mut ours: Vec<(String, String)> = scope
            .arguments
            .iter()
            .chain(&scope.locals)
            .map(|variable| (variable.name.clone(), variable.value.clone()))
            .collect();
        // Of a block that the compiler has moved, gdb also lists the variables of the function that it was inlined from.
        let has_value = |one: &(String, String)| ours.iter().any(|own| own.0 == one.0 && own.1 != one.1);
        theirs.retain(|one| one.1 != "<optimized out>" || !has_value(one));
        ours.sort();
        theirs.sort();
        ours.dedup();
        theirs.dedup();
        count += ours.len();
        if ours != theirs {
            let name = scope.function.as_deref().unwrap_or("?");
            for one in ours.iter().filter(|one| !theirs.contains(one)) {
                wrong.push(format!("#{number} {name}: ours  {} = {}", one.0, one.1));
            }
            for one in theirs.iter().filter(|one| !ours.contains(one)) {
                wrong.push(format!("#{number} {name}: gdb's {} = {}", one.0, one.1));
            }
            if ours.len() != theirs.len() {
                wrong.push(format!("#{number} {name}: {} variables, gdb has {}", ours.len(), theirs.len()));
            }
        }
    }
    assert!(wrong.is_empty(), "{what}: of {count} values\n{}", wrong.join("\n"));
    assert!(count >= 5, "{what}: {count} values only");
    println!("{what}: {count} values as gdb has them");
}

#[test]
fn c_without_optimisation() {
    same_as_gdb("gcc", "values.c", &["-O0", "-g", "-no-pie"]);
}

#[test]
fn c_with_dwarf_4() {
    same_as_gdb("gcc", "values.c", &["-O0", "-g", "-gdwarf-4", "-fPIE", "-pie"]);
}

#[test]
fn c_optimised() {
    same_as_gdb("gcc", "optimised.c", &["-O2", "-g", "-no-pie"]);
    same_as_gdb("gcc", "optimised.c", &["-O2", "-g", "-gdwarf-4", "-fPIE", "-pie"]);
    same_as_gdb("gcc", "optimised.c", &["-O1", "-g", "-no-pie"]);
}

#[test]
fn cpp() {
    same_as_gdb("g++", "classes.cpp", &["-O0", "-g", "-no-pie"]);
    same_as_gdb("g++", "classes.cpp", &["-O0", "-g", "-gdwarf-4", "-fPIE", "-pie"]);
    same_as_gdb("g++", "classes.cpp", &["-O0", "-g", "-DNO_STATIC", "-fdebug-types-section", "-no-pie"]);
}

#[test]
fn rust() {
    same_as_gdb("rustc", "values.rs", &["-g", "-Cpanic=abort", "-Coverflow-checks=off"]);
}

#[test]
fn split_units() {
    same_as_gdb("gcc", "values.c", &["-O0", "-g", "-gsplit-dwarf", "-no-pie"]);
    same_as_gdb("gcc", "optimised.c", &["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf", "-fPIE", "-pie"]);
    same_as_gdb("g++", "classes.cpp", &["-O0", "-g", "-DNO_STATIC", "-gsplit-dwarf", "-no-pie"]);
}

#[test]
fn debug_information_in_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "gcc", "values.c", &["-O0", "-g", "-no-pie"]);
    process::split_off(&program, &folder.path().join(".debug"));
    compare(&Died::under_gdb(folder.path(), &program), "debug link");
}

#[test]
fn debug_information_that_files_share() {
    let folder = tempfile::tempdir().unwrap();
    let one = compile(folder.path(), "gcc", "values.c", &["-O0", "-g", "-no-pie"]);
    let two = compile(folder.path(), "gcc", "optimised.c", &["-O2", "-g", "-no-pie"]);
    process::share(folder.path(), &[&one, &two]);
    compare(&Died::under_gdb(folder.path(), &one), "dwz, first");
    compare(&Died::under_gdb(folder.path(), &two), "dwz, second");
    assert!(Path::new(&folder.path().join("shared")).exists());
}
