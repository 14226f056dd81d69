//! Floors, checked: no module imports from a floor above its own, and no modules import each other in a circle, neither
//! single ones nor folders that lie side by side.
//!
//! What is imported is what a file names by a path, in `use` or anywhere else, tests and macros included. Whoever re-exports a name imports
//! it. Not seen are methods that a module defines on the struct of another one.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_to_string};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

/// The floors of a folder, from the lowest one up, as the crate's page and the folder's have them.
const FLOORS: [(&str, &[&str]); 2] = [
    ("", &["base", "log", "picture", "emitted", "kernel", "run", "calls"]),
    (
        "run",
        &[
            "hidden", "special", "signals", "parts", "thread", "snapshot", "lifetime", "dying", "expand", "callouts",
            "life", "fault", "blocks",
        ],
    ),
];

/// A module's path from the crate's root.
type Module = Vec<String>;

/// What each module imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn module(path: &Path) -> Module {
    let path = path.with_extension("");
    let parts = path.components().map(|part| part.as_os_str().to_str().unwrap().to_owned());
    parts.filter(|part| part != "mod").collect()
}

/// A path in code, with the module in which it stands.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    within: Module,
    path: Vec<String>,
}

/// Whether `::` follows, which is taken.
fn goes_on(tokens: &mut Peekable<impl Iterator<Item = TokenTree> + Clone>) -> bool {
    let mut ahead = tokens.clone();
    let colons = (0..2).all(|_| matches!(ahead.next(), Some(TokenTree::Punct(p)) if p.as_char() == ':'));
    if colons {
        *tokens = ahead;
    }
    colons
}

/// All paths of more than one part in some code of the module `within`, behind `before`, which is what stands before a brace in `use`.
fn named(code: TokenStream, within: &Module, before: &[String], found: &mut Vec<Named>) {
    let mut tokens = code.into_iter().peekable();
    let mut last = String::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(first) => {
                let mut path = before.to_vec();
                path.push(first.to_string());
                while goes_on(&mut tokens) {
                    match tokens.peek() {
                        Some(TokenTree::Ident(part)) => path.push(part.to_string()),
                        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                            named(group.stream(), within, &path, found);
                        }
                        _ => break,
                    }
                    tokens.next();
                }
                if last == "mod" && matches!(tokens.peek(), Some(TokenTree::Group(_))) {
                    let Some(TokenTree::Group(group)) = tokens.next() else { unreachable!() };
                    let inside: Module = within.iter().chain([&path[0]]).cloned().collect();
                    named(group.stream(), &inside, &[], found);
                }
                last = path.last().cloned().unwrap_or_default();
                if path.len() > 1 {
                    found.push(Named { within: within.clone(), path });
                }
            }
            TokenTree::Group(group) => named(group.stream(), within, &[], found),
            _ => {}
        }
    }
}

impl Named {
    /// The module that the path leads to or into, if that is one of these.
    fn resolve(&self, modules: &BTreeSet<Module>) -> Option<Module> {
        let supers = self.path.iter().take_while(|part| *part == "super").count();
        let (mut place, rest) = match self.path[0].as_str() {
            "crate" => (Module::new(), &self.path[1..]),
            "self" => (self.within.clone(), &self.path[1..]),
            _ => (self.within[..self.within.len() - supers].to_vec(), &self.path[supers..]),
        };
        let start = place.len();
        for part in rest {
            place.push(part.clone());
            if !modules.contains(&place) {
                place.pop();
                break;
            }
        }
        let is_there = modules.contains(&place) && (place.len() > start || rest.len() < self.path.len());
        is_there.then_some(place)
    }
}

/// The imports of all modules of the crate, its root left out.
fn imports() -> Imports {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files: Vec<PathBuf> = files(&source);
    files.retain(|file| !["lib.rs", "floors.rs"].contains(&file.strip_prefix(&source).unwrap().to_str().unwrap()));
    let place = |file: &Path| module(file.strip_prefix(&source).unwrap());
    let modules: BTreeSet<Module> = files.iter().map(|file| place(file)).collect();
    let mut imports = Imports::new();
    for file in &files {
        let (own, mut found) = (place(file), Vec::new());
        named(read_to_string(file).unwrap().parse().unwrap(), &own, &[], &mut found);
        let others = found.iter().filter_map(|named| named.resolve(&modules)).filter(|other| *other != own);
        imports.insert(own.clone(), others.collect());
    }
    imports
}

/// The imports among what lies in a folder: files with the folders of their names. A file that has a folder itself is
/// `self` in there.
fn among(imports: &Imports, folder: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let part = |module: &Module| {
        let inside = module.strip_prefix(folder)?;
        Some(inside.first().cloned().unwrap_or_else(|| "self".to_owned()))
    };
    let mut among: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (own, others) in imports {
        let Some(own) = part(own) else { continue };
        among.entry(own.clone()).or_default().extend(others.iter().filter_map(part).filter(|other| *other != own));
    }
    among
}

/// Those of which each imports another one of them, and is imported by one: if there are any, a circle is among them.
fn in_circles<T: Ord + Clone>(imports: &BTreeMap<T, BTreeSet<T>>) -> BTreeMap<T, BTreeSet<T>> {
    let mut left = imports.clone();
    loop {
        let imported: BTreeSet<T> = left.values().flatten().cloned().collect();
        let before = left.len();
        left.retain(|own, others| imported.contains(own) && !others.is_empty());
        let there: BTreeSet<T> = left.keys().cloned().collect();
        left.values_mut().for_each(|others| others.retain(|other| there.contains(other)));
        if left.len() == before {
            return left;
        }
    }
}

#[test]
fn imports_go_down() {
    let imports = imports();
    for (folder, floors) in FLOORS {
        let path: Module = folder.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let floor = |name: &str| floors.iter().position(|floor| *floor == name);
        let among: BTreeMap<_, _> = among(&imports, &path).into_iter().filter(|(name, _)| name != "self").collect();
        let there: BTreeSet<&str> = among.keys().map(String::as_str).collect();
        assert_eq!(there, floors.iter().copied().collect(), "the floors of {folder}");
        for (own, others) in &among {
            let above: Vec<_> = others.iter().filter(|other| floor(other) > floor(own)).collect();
            assert!(above.is_empty(), "in {folder}, {own} imports from floors above: {above:?}");
        }
    }
}

#[test]
fn no_modules_import_each_other() {
    let imports = imports();
    let name = |module: &Module| module.join("::");
    let names = imports.iter().map(|(own, others)| (name(own), others.iter().map(name).collect()));
    let circles = in_circles(&names.collect());
    assert!(circles.is_empty(), "modules in circles: {circles:#?}");
    let folders: BTreeSet<&[String]> = imports.keys().map(|module| &module[..module.len() - 1]).collect();
    for folder in folders {
        let circles = in_circles(&among(&imports, folder));
        assert!(circles.is_empty(), "circles in {folder:?}: {circles:#?}");
    }
    assert!(imports.len() > 100 && imports.values().map(BTreeSet::len).sum::<usize>() > 500);
}

#[test]
fn what_code_names() {
    let code = "use crate::log::{self, code::Code, files}; // crate::run
        /// See [`crate::run`].
        fn f() { let a = [super::b::c::<crate::d::E>(1), g!(\"crate::h\", self::i::J)]; a.k(k); l::m() }
        #[cfg(test)] mod tests { use super::*; use super::super::n; }";
    let mut found = Vec::new();
    named(code.parse().unwrap(), &vec!["own".to_owned()], &[], &mut found);
    let found: Vec<_> = found.iter().map(|named| (named.within.join("::"), named.path.join("::"))).collect();
    let own = ["crate::log::self", "crate::log::code::Code", "crate::log::files", "crate::log"].map(|p| ("own", p));
    let body = ["super::b::c", "crate::d::E", "self::i::J", "l::m"].map(|p| ("own", p));
    let tests = [("own::tests", "super::super::n")];
    let all: Vec<_> = own.into_iter().chain(body).chain(tests).map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    assert_eq!(found, all);
}

#[test]
fn where_a_path_leads() {
    let modules: BTreeSet<Module> = ["a", "a::b", "a::c", "d"].map(|m| module(Path::new(&m.replace("::", "/")))).into();
    let leads = |within: &str, path: &str| {
        let parts = |text: &str| text.split("::").map(str::to_owned).collect();
        Named { within: parts(within), path: parts(path) }.resolve(&modules).map(|module| module.join("::"))
    };
    assert_eq!(leads("a::b", "crate::d::Item"), Some("d".to_owned()));
    assert_eq!(leads("a::b", "super::c::Item"), Some("a::c".to_owned()));
    assert_eq!(leads("a::b", "super::Item"), Some("a".to_owned()));
    assert_eq!(leads("a", "b::Item"), Some("a::b".to_owned()));
    assert_eq!(leads("a::b::tests", "super::super::c::Item"), Some("a::c".to_owned()));
    assert_eq!(leads("a::b", "std::mem"), None);
    assert_eq!(leads("a::b", "c::Item"), None);
}

#[test]
fn circles_are_found() {
    let imports = |pairs: &[(&'static str, &'static str)]| {
        let mut imports: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (own, other) in pairs {
            imports.entry(*own).or_default().insert(*other);
            imports.entry(*other).or_default();
        }
        in_circles(&imports).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(imports(&[("a", "b"), ("b", "c"), ("a", "c")]), Vec::<&str>::new());
    assert_eq!(imports(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]), ["b", "c"]);
}
