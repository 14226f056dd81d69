//! Source files as line tables (`.debug_line`) name them.

use crate::image::Image;
use crate::section::{Dwarf, Reader};
use crate::store::Unit;
use gimli::{AttributeValue, LineProgramHeader};
use std::collections::BTreeSet;

/// Longest path, in bytes.
const MAX_PATH: usize = 4096;

/// The path of a file of a line table, as far as it says it.
pub(crate) fn path(dwarf: &Dwarf, unit: &Unit, header: &LineProgramHeader<Reader>, index: u64) -> Option<String> {
    use gimli::Reader as _;
    let file = header.file(index)?;
    let text = |value: AttributeValue<Reader>| {
        let text = dwarf.attr_string(unit, value).ok()?;
        Some(text.to_string_lossy().ok()?.into_owned())
    };
    let mut path = text(file.path_name())?;
    if !path.starts_with('/')
        && let Some(folder) = file.directory(header).and_then(text)
    {
        path = format!("{folder}/{path}");
    }
    if !path.starts_with('/')
        && let Some(folder) = unit.comp_dir.as_ref().and_then(|folder| folder.to_string_lossy().ok())
    {
        path = format!("{folder}/{path}");
    }
    (path.len() <= MAX_PATH).then_some(path)
}

/// Whether a path ends with these parts of one.
pub fn ends_with(path: &str, end: &str) -> bool {
    path == end || path.strip_suffix(end.trim_start_matches("./")).is_some_and(|before| before.ends_with('/'))
}

impl Image {
    /// The files of the line tables, as far as they say their paths.
    #[must_use]
    pub fn file_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let Some(store) = self.store() else { return names };
        for (set, unit) in store.units().collect::<BTreeSet<_>>() {
            let Some((dwarf, parsed)) = store.unit(set, unit) else { continue };
            let Some(program) = parsed.line_program.as_ref() else { continue };
            let header = program.header();
            let first = u64::from(header.version() < 5);
            let indices = first..first + header.file_names().len() as u64;
            names.extend(indices.filter_map(|index| path(&dwarf, &parsed, header, index)));
        }
        names
    }

    /// The MD5 sum that the compiler has written down of a source file (DWARF 5), which `source` of the code at `address` names.
    #[must_use]
    pub fn source_md5(&self, address: u64, source: &str) -> Option<[u8; 16]> {
        let store = self.store()?;
        let (set, unit) = store.unit_at(address)?;
        let (dwarf, parsed) = store.unit(set, unit)?;
        let program = parsed.line_program.as_ref()?;
        let header = program.header();
        if !header.file_has_md5() {
            return None;
        }
        let first = u64::from(header.version() < 5);
        let count = header.file_names().len() as u64;
        let index = (first..first + count)
            .find(|index| path(&dwarf, &parsed, header, *index).is_some_and(|path| simple(&path) == simple(source)))?;
        header.file(index).map(|file| *file.md5())
    }
}

/// A path without `.` and `//`.
fn simple(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{ends_with, simple};

    #[test]
    fn paths() {
        assert!(ends_with("/src/main.c", "main.c"));
        assert!(ends_with("/src/main.c", "src/main.c"));
        assert!(ends_with("/src/main.c", "/src/main.c"));
        assert!(!ends_with("/src/domain.c", "main.c"));
        assert_eq!(simple("/a/./b//c.c"), simple("/a/b/c.c"));
    }
}
