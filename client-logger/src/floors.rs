//! Floors, checked: no module imports from a floor above its own.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// From the lowest one up, as the crate's page has them.
const FLOORS: [&str; 7] = ["base", "log", "picture", "emitted", "kernel", "run", "calls"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// What a line of code names of this crate: the modules right below its root.
fn named(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or_default();
    let ends = |rest: &str| rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    code.split("crate::").skip(1).map(|rest| &rest[..ends(rest)]).collect()
}

#[test]
fn imports_go_down() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let floor = |name: &str| FLOORS.iter().position(|floor| *floor == name);
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for file in files(&source) {
        let place = file.strip_prefix(&source).unwrap();
        let Some(own) = floor(place.components().next().unwrap().as_os_str().to_str().unwrap()) else {
            assert!(["lib.rs", "floors.rs"].contains(&place.to_str().unwrap()), "{} is on no floor", place.display());
            continue;
        };
        *seen.entry(own).or_default() += 1;
        for (number, line) in read_to_string(&file).unwrap().lines().enumerate() {
            for name in named(line) {
                match floor(name) {
                    Some(other) if other <= own => {}
                    _ => wrong.push(format!("{}:{}: {}", place.display(), number + 1, line.trim())),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports from a floor above:\n{}", wrong.join("\n"));
    assert_eq!(seen.len(), FLOORS.len());
}

#[test]
fn what_a_line_names() {
    assert_eq!(named("use crate::base::{die, warn}; // crate::run"), ["base"]);
    assert_eq!(named("/// See [`crate::run`]."), Vec::<&str>::new());
    assert_eq!(named("    crate::log::a(crate::picture::b())"), ["log", "picture"]);
}
