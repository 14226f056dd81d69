use super::*;
use std::fs;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = r#"#include <stdio.h>
static inline __attribute__((always_inline)) int innermost(int *p) {
    return *p + 1; /* line 3 */
}
__attribute__((noinline)) int outer_function(int *p) {
    return innermost(p) * 2; /* line 6 */
}
int main(int argc, char **argv) { return outer_function(&argc); }
"#;

/// Compiles [`SOURCE`] and returns the program and the module that a recorder would have seen, mapped at `base`.
fn compile(folder: &Path, flags: &[&str], base: u64) -> Module {
    let (source, program) = (folder.join("story.c"), folder.join("story"));
    fs::write(&source, SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(flags).arg("-o").arg(&program).arg(&source);
    assert!(gcc.status().expect("gcc is needed for this test").success());
    let bytes = fs::read(&program).unwrap();
    let path = program.to_str().unwrap().to_owned();
    Module { base, size: bytes.len() as u64, path, build_id: bugnet_debuginfo::section::build_id(&bytes) }
}

fn symbolizer(folder: &Path, module: &Module) -> Symbolizer {
    Symbolizer { log: folder.into(), modules: vec![module.clone()], files: HashMap::new() }
}

/// Bytes from the module's base to the start of `outer_function`, as nm tells it.
fn offset_of_outer(module: &Module, lowest: u64) -> u64 {
    let nm = Command::new("nm").arg(&module.path).output().unwrap();
    let nm = String::from_utf8(nm.stdout).unwrap();
    let line = nm.lines().find(|line| line.ends_with(" outer_function")).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap() - lowest
}

/// Looks an address inside the inlined function up, in a program compiled with `flags`.
fn check_lines(flags: &[&str], lowest: u64) {
    let (programs, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let module = compile(programs.path(), flags, 0x5555_0000_0000);
    let packed = pack_elf(log.path(), std::slice::from_ref(&module)).unwrap();
    assert_eq!((packed.copied, packed.skipped.len()), (1, 0), "{packed:?}");
    fs::remove_file(&module.path).unwrap();
    // The copy alone must do.
    let nm_module = compile(programs.path(), flags, 0);
    let offset = offset_of_outer(&nm_module, lowest);
    fs::remove_file(&nm_module.path).unwrap();

    let mut symbols = symbolizer(log.path(), &module);
    let places: Vec<Place> = (0..32).map(|at| symbols.lookup(Addr(module.base + offset + at))).collect();
    let inlined = places.iter().find(|place| place.source.len() == 2).expect("the inlined function has code");
    let frame = |f: &SourceFrame| (f.function.clone().unwrap(), f.file.clone().unwrap(), f.line.unwrap());
    let (inner, outer) = (frame(&inlined.source[0]), frame(&inlined.source[1]));
    assert_eq!((inner.0.as_str(), inner.2), ("innermost", 3));
    assert_eq!((outer.0.as_str(), outer.2), ("outer_function", 6));
    assert!(outer.1.ends_with("/story.c"), "{outer:?}");
    assert_eq!(places[2].symbol, Some(Symbol { name: "outer_function".into(), offset: 2 }));
    assert_eq!(places[2].module, Some(ModulePlace { path: module.path.clone(), offset: offset + 2 }));
}

#[test]
fn dwarf_5_of_a_position_independent_program() {
    check_lines(&["-g", "-O2", "-gdwarf-5", "-pie", "-fPIE"], 0);
}

#[test]
fn dwarf_4_of_a_program_at_a_fixed_address() {
    check_lines(&["-g", "-O1", "-gdwarf-4", "-no-pie"], 0x40_0000);
}

#[test]
fn compressed_debug_sections() {
    check_lines(&["-g", "-O2", "-gz", "-pie", "-fPIE"], 0);
}

#[test]
fn a_file_of_another_build_id_is_never_trusted() {
    let (programs, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recorded = compile(programs.path(), &["-g", "-O2"], 0x1000_0000);
    let offset = offset_of_outer(&recorded, 0);
    let at = Addr(recorded.base + offset);
    let own = symbolizer(log.path(), &recorded).lookup(at);
    assert_eq!(own.symbol.expect("the developer's own file, same build id").name, "outer_function");

    let replaced = compile(programs.path(), &["-g", "-O0", "-DOTHER"], 0x1000_0000);
    assert_ne!(recorded.build_id, replaced.build_id);
    let place = symbolizer(log.path(), &recorded).lookup(at);
    assert!(place.symbol.is_none() && place.source.is_empty() && place.module.is_some(), "{place:?}");
    let packed = pack_elf(log.path(), std::slice::from_ref(&recorded)).unwrap();
    assert_eq!(packed.copied, 0);
    assert!(packed.skipped[0].why.contains("another one"), "{packed:?}");

    // A copy under the right name but of another file is not trusted either.
    pack_elf(log.path(), std::slice::from_ref(&replaced)).unwrap();
    fs::rename(pack::copy_path(log.path(), &replaced), pack::copy_path(log.path(), &recorded)).unwrap();
    assert!(symbolizer(log.path(), &recorded).lookup(at).symbol.is_none());
}

#[test]
fn without_a_build_id_only_the_logs_copy_counts() {
    let (programs, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let module = compile(programs.path(), &["-g", "-O2", "-Wl,--build-id=none"], 0x1000_0000);
    assert_eq!(module.build_id, "");
    let at = Addr(module.base + offset_of_outer(&module, 0));
    assert!(symbolizer(log.path(), &module).lookup(at).symbol.is_none());
    pack_elf(log.path(), std::slice::from_ref(&module)).unwrap();
    assert_eq!(symbolizer(log.path(), &module).lookup(at).symbol.unwrap().name, "outer_function");
}

#[test]
fn what_cannot_be_read_is_listed() {
    let log = tempfile::tempdir().unwrap();
    let module = |path: &str| Module { base: 0, size: 1, path: path.into(), build_id: String::new() };
    let packed = pack_elf(log.path(), &[module("/nonexistent/x"), module("/dev/zero"), module("[vdso]")]).unwrap();
    let skipped: Vec<&str> = packed.skipped.iter().map(|s| s.path.as_str()).collect();
    assert_eq!(skipped, ["/nonexistent/x", "/dev/zero"]);
}

#[test]
fn damaged_copies_are_as_good_as_none() {
    let (programs, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let module = compile(programs.path(), &["-g", "-Wl,--build-id=none"], 0);
    let good = fs::read(&module.path).unwrap();
    fs::create_dir(log.path().join(bugnet_format::folder::ELF_FOLDER)).unwrap();
    let copy = pack::copy_path(log.path(), &module);
    fs::write(&copy, b"not even compressed").unwrap();
    assert!(symbolizer(log.path(), &module).lookup(Addr(0x1000)).symbol.is_none());
    // Whatever stands in a file, no lookup may panic: cut it off and alter it everywhere.
    for step in (0..good.len()).step_by(good.len() / 20) {
        let mut altered = good.clone();
        altered[step..].iter_mut().step_by(97).for_each(|byte| *byte ^= 0x55);
        for bytes in [&good[..step], &altered[..]] {
            fs::write(&copy, zstd::bulk::compress(bytes, 1).unwrap()).unwrap();
            let mut symbols = symbolizer(log.path(), &module);
            (0..module.size).step_by(512).for_each(|at| drop(symbols.lookup(Addr(at))));
        }
    }
}
