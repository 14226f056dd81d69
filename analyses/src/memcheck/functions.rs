//! Which functions give memory out and take it back: those of C libraries, C++ and other allocators, and those that a file names.

use super::python;
pub use bugnet_format::allocator::{Does, Size};
pub use bugnet_heap::Family;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, mangled.
    pub name: String,
    /// What it does.
    pub does: Does,
    /// To what it belongs.
    pub family: Family,
}

impl Function {
    /// Its name as the source writes it.
    #[must_use]
    pub fn shown(&self) -> String {
        let operator = match self.name.get(..4) {
            Some("_Znw") => "operator new",
            Some("_Zna") => "operator new[]",
            Some("_Zdl") => "operator delete",
            Some("_Zda") => "operator delete[]",
            _ => return self.name.clone(),
        };
        operator.to_owned()
    }
}

const SIZE: Does = Does::Allocate(Size::Arg(0));
const COUNTED: Does = Does::Allocate(Size::Product(0, 1));
const ALIGNED: Does = Does::Allocate(Size::Arg(1));
const STORED: Does = Does::Store(Size::Arg(2));
const RESIZE: Does = Does::Resize(0, Size::Arg(1));
const RELEASE: Does = Does::Release(0);

/// Of C libraries; other allocators have the same ones with a prefix of their own.
const C: &[(&str, Does)] = &[
    ("malloc", SIZE),
    ("calloc", COUNTED),
    ("realloc", RESIZE),
    ("reallocarray", Does::Resize(0, Size::Product(1, 2))),
    ("free", RELEASE),
    ("cfree", RELEASE),
    ("memalign", ALIGNED),
    ("aligned_alloc", ALIGNED),
    ("posix_memalign", STORED),
    ("valloc", SIZE),
    ("pvalloc", SIZE),
    ("malloc_usable_size", Does::Tell),
    ("free_sized", RELEASE),
    ("free_aligned_sized", RELEASE),
];
/// Prefixes: glibc's, jemalloc's, tcmalloc's, mimalloc's.
const PREFIXES: &[&str] = &["", "__libc_", "je_", "tc_", "mi_"];

/// Of single allocators: jemalloc's, mimalloc's.
const OTHERS: &[(&str, Does)] = &[
    ("mallocx", SIZE),
    ("rallocx", RESIZE),
    ("xallocx", Does::Tell),
    ("sallocx", Does::Tell),
    ("dallocx", RELEASE),
    ("sdallocx", RELEASE),
    ("mi_zalloc", SIZE),
    ("mi_malloc_small", SIZE),
    ("mi_zalloc_small", SIZE),
    ("mi_mallocn", COUNTED),
    ("mi_reallocn", Does::Resize(0, Size::Product(1, 2))),
    ("mi_malloc_aligned", SIZE),
    ("mi_zalloc_aligned", SIZE),
    ("mi_realloc_aligned", RESIZE),
    ("mi_usable_size", Does::Tell),
    ("mi_free_size", RELEASE),
    ("mi_free_aligned", RELEASE),
    ("tc_malloc_size", Does::Tell),
];

/// What follows the names of `operator new`, `new[]`, `delete` and `delete[]`.
const ALLOCATING: &[&str] = &["m", "mRKSt9nothrow_t", "mSt11align_val_t", "mSt11align_val_tRKSt9nothrow_t"];
const RELEASING: &[&str] =
    &["Pv", "Pvm", "PvSt11align_val_t", "PvmSt11align_val_t", "PvRKSt9nothrow_t", "PvSt11align_val_tRKSt9nothrow_t"];
/// The same as tcmalloc calls them.
const TC_OPERATORS: &[(&str, Does, Family)] = &[
    ("tc_new", SIZE, Family::New),
    ("tc_new_nothrow", SIZE, Family::New),
    ("tc_newarray", SIZE, Family::NewArray),
    ("tc_newarray_nothrow", SIZE, Family::NewArray),
    ("tc_delete", RELEASE, Family::New),
    ("tc_delete_sized", RELEASE, Family::New),
    ("tc_deletearray", RELEASE, Family::NewArray),
    ("tc_deletearray_sized", RELEASE, Family::NewArray),
];

/// All that are known by name.
#[must_use]
pub fn known() -> Vec<Function> {
    let function = |name: String, does: Does, family: &Family| Function { name, does, family: family.clone() };
    let mut all = Vec::new();
    for prefix in PREFIXES {
        all.extend(C.iter().map(|(name, does)| function(format!("{prefix}{name}"), *does, &Family::C)));
    }
    all.extend(OTHERS.iter().map(|(name, does)| function((*name).to_owned(), *does, &Family::C)));
    for (letter, family) in [("w", Family::New), ("a", Family::NewArray)] {
        all.extend(ALLOCATING.iter().map(|rest| function(format!("_Zn{letter}{rest}"), SIZE, &family)));
    }
    for (letter, family) in [("l", Family::New), ("a", Family::NewArray)] {
        all.extend(RELEASING.iter().map(|rest| function(format!("_Zd{letter}{rest}"), RELEASE, &family)));
    }
    let pythons = Family::Named(python::FAMILY.to_owned());
    all.extend(python::FUNCTIONS.iter().map(|(name, does)| function((*name).to_owned(), *does, &pythons)));
    all.extend(TC_OPERATORS.iter().map(|(name, does, family)| function((*name).to_owned(), *does, family)));
    all
}

/// Those that a file names, one a line:
///
/// ```text
/// pool_get    allocate 0          # the first argument says how much
/// pool_table  allocate 0*1        # the product of the first two
/// pool_grow   resize 0 1          # which block, how much
/// pool_put    release 1  pool     # which block; a family, if there are several
/// ```
///
/// # Errors
/// What is wrong with which line.
pub fn parse(text: &str) -> Result<Vec<Function>, String> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        all.push(function(&words).ok_or_else(|| {
            format!("line {number} is not NAME allocate SIZE [FAMILY], NAME resize BLOCK SIZE [FAMILY] or NAME release BLOCK [FAMILY]")
        })?);
    }
    Ok(all)
}

fn function(words: &[&str]) -> Option<Function> {
    let (name, does, rest) = match *words {
        [name, "allocate", size, ref rest @ ..] => (name, Does::Allocate(self::size(size)?), rest),
        [name, "resize", block, size, ref rest @ ..] => (name, Does::Resize(argument(block)?, self::size(size)?), rest),
        [name, "release", block, ref rest @ ..] => (name, Does::Release(argument(block)?), rest),
        _ => return None,
    };
    let family = match *rest {
        [] => Family::Named("named by --allocator".to_owned()),
        [family] => Family::Named(family.to_owned()),
        _ => return None,
    };
    Some(Function { name: name.to_owned(), does, family })
}

fn size(word: &str) -> Option<Size> {
    match word.split_once('*') {
        Some((one, other)) => Some(Size::Product(argument(one)?, argument(other)?)),
        None => argument(word).map(Size::Arg),
    }
}

fn argument(word: &str) -> Option<u8> {
    word.parse().ok().filter(|number| *number < 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_names() {
        let all =
            parse("# pools\npool_get allocate 1*2 pool\n\npool_put release 1 pool # back\ngrow resize 0 1\n").unwrap();
        let named = |name: &str| Family::Named(name.to_owned());
        assert_eq!(all[0].does, Does::Allocate(Size::Product(1, 2)));
        assert_eq!((&all[0].family, &all[1].family), (&named("pool"), &named("pool")));
        assert_eq!(all[2].does, Does::Resize(0, Size::Arg(1)));
        for wrong in ["get", "get allocate", "get allocate 6", "get allocate 0 a b", "put takes 0"] {
            assert!(parse(wrong).unwrap_err().starts_with("line 1 "), "{wrong}");
        }
    }

    #[test]
    fn names_are_known_once() {
        let mut names: Vec<String> = known().into_iter().map(|function| function.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        let shown = |name: &str| known().into_iter().find(|function| function.name == name).unwrap().shown();
        assert_eq!(shown("_ZdaPvm"), "operator delete[]");
        assert_eq!(shown("je_malloc"), "je_malloc");
    }
}
