//! Names to addresses and back, and expressions: on the frames of programs that died under gdb.

#[path = "gdb/process.rs"]
mod process;

use bugnet_debuginfo::expression::{ExpressionError, Names, evaluate};
use bugnet_debuginfo::{Limits, Missing};
use process::{Died, compile};
use std::process::Command;

fn gdb(folder: &std::path::Path, program: &std::path::Path, command: &str) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set auto-load off", "-ex", command]).arg(program).current_dir(folder);
    String::from_utf8_lossy(&gdb.output().expect("gdb is needed for this test").stdout).into_owned()
}

#[test]
fn names_and_lines_have_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "gcc", "optimised.c", &["-O2", "-g", "-no-pie"]);
    let image = process::open(&program);
    // What gdb would stop at, without the prologue that it skips.
    let main = gdb(folder.path(), &program, "info address main");
    let address = main.split("0x").nth(1).unwrap().trim_end_matches(&['.', '\n'][..]);
    let entries = image.entries_of("main");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].address, u64::from_str_radix(address, 16).unwrap());
    let inlined = image.entries_of("square");
    assert!(!inlined.is_empty() && inlined.iter().all(|entry| entry.is_inlined), "{inlined:?}");
    let scale = image.globals("scale");
    assert_eq!((scale.len(), scale[0].type_name.as_deref(), scale[0].size), (1, Some("double"), Some(8)));
    assert_eq!(image.describe(scale[0].address).as_deref(), Some("scale"));
    assert_eq!(image.describe(entries[0].address + 1).as_deref(), Some("main+0x1"));
    let source = std::fs::read_to_string(folder.path().join("optimised.c")).unwrap();
    let line = source.lines().position(|line| line.contains("sink = code + (int)single")).unwrap() as u64 + 1;
    let addresses = image.addresses_of_line("optimised.c", line);
    assert!(!addresses.is_empty());
    let theirs = gdb(folder.path(), &program, &format!("info line optimised.c:{line}"));
    let start = theirs.split("starts at address 0x").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(addresses.contains(&u64::from_str_radix(start, 16).unwrap()), "{theirs}: {addresses:x?}");
    assert!(image.addresses_of_line("other.c", line).is_empty());
    assert!(image.entries_of("nothing").is_empty() && image.globals("nothing").is_empty());
    assert_eq!(image.describe(3), None);
}

#[test]
fn expressions_name_places() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "gcc", "values.c", &["-O0", "-g", "-no-pie"]);
    let died = Died::under_gdb(folder.path(), &program);
    died.with_stack(|stack, image, memory| {
        let at = |frame: usize, text: &str, memory: &mut dyn bugnet_debuginfo::memory::Memory| {
            let images = [(image, 0)];
            evaluate(text, Names { stack, frame: Some(frame), images: &images }, memory, Limits::default())
        };
        let value = |frame, text: &str, memory: &mut dyn bugnet_debuginfo::memory::Memory| {
            at(frame, text, memory).unwrap().value
        };
        assert_eq!(value(1, "p.x", memory), "3");
        assert_eq!(value(1, "list->next->value", memory), "5");
        assert_eq!(value(1, "list->name", memory).split(' ').nth(1), Some("\"first\""));
        assert_eq!(value(1, "*list", memory), value(2, "first", memory));
        assert_eq!(value(1, "ints[2]", memory), "3");
        assert_eq!(value(1, "words[1][1]", memory), "119 'w'");
        assert_eq!(value(1, "n.weight", memory), "0.25");
        assert_eq!(value(1, "(*pp).y", memory), "4");
        assert_eq!(value(1, "&p", memory), value(1, "pp", memory));
        assert_eq!(value(0, "counter", memory), "42");
        assert_eq!(value(0, "origin.y", memory), "-1");
        assert_eq!(value(3, "argc", memory), "1");
        let field = at(1, "list->value", memory).unwrap();
        let list = at(1, "list", memory).unwrap();
        assert_eq!((field.size, field.type_name.as_str()), (Some(8), "long int"));
        assert_eq!(field.address.map(|a| format!("{:#x}", a - 16)), Some(list.value));
        let local = field.address.unwrap();
        assert_eq!(stack.describe_local(2, local, memory).as_deref(), Some("first.value"));
        let fails = |text: &str, memory: &mut dyn bugnet_debuginfo::memory::Memory| at(1, text, memory).unwrap_err();
        assert_eq!(fails("nobody", memory), ExpressionError::NoVariable("nobody".into()));
        assert_eq!(fails("p.z", memory), ExpressionError::NoField("z".into()));
        assert!(matches!(fails("*p", memory), ExpressionError::Type(_)));
        assert!(matches!(fails("p.", memory), ExpressionError::Syntax(_)));
        assert!(matches!(fails("ints[x]", memory), ExpressionError::Syntax(_)));
        assert!(matches!(fails(&"*".repeat(500), memory), ExpressionError::Syntax(_)));
        assert_eq!(value(1, "*list->next->next", memory), "<unavailable>");
        assert_eq!(fails("list->next->next->next->value", memory), ExpressionError::Missing(Missing::Unavailable));
    });
}
