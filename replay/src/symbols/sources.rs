//! The source files that the line tables of an ELF file name.

use bugnet_debuginfo::sources;
use bugnet_format::files;
use bugnet_format::folder::SOURCES_FOLDER;
use bugnet_format::source::Source;
use std::collections::BTreeSet;

/// Largest source file that is packed and read, in bytes.
pub const MAX_SOURCE: u64 = 64 << 20;
/// Most bytes of a path.
const LONGEST: usize = 4000;

/// The absolute path of a source file, without `.` and `..`: as it is written, since the links that it leads through are elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePath(String);

impl SourcePath {
    /// Of a path as debug information has it; none if that is not absolute, or no path.
    #[must_use]
    pub fn new(path: &str) -> Option<Self> {
        let mut parts = Vec::new();
        for part in path.strip_prefix('/')?.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let path = format!("/{}", parts.join("/"));
        (path.len() > 1 && path.len() <= LONGEST && !path.contains('\0')).then_some(Self(path))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where a log has the file.
    #[must_use]
    pub fn name_in_log(&self) -> String {
        format!("{SOURCES_FOLDER}{}", self.0)
    }

    /// The file, if it was packed together with the log.
    #[must_use]
    pub fn read(&self, log: &Source) -> Option<Vec<u8>> {
        files::read(log, &log.path().join(self.name_in_log()), MAX_SOURCE).ok().map(Vec::from)
    }
}

/// The source files that an ELF file's line tables name. `shared` gives the file with a build id with which this one shares debug
/// information. What is damaged names none.
pub fn source_files(elf: &[u8], shared: impl Fn(&str) -> Option<Vec<u8>>) -> BTreeSet<SourcePath> {
    sources::source_files(elf, shared).iter().filter_map(|path| SourcePath::new(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn paths_lead_down() {
        let name = |path: &str| SourcePath::new(path).map(|path| path.name_in_log());
        assert_eq!(name("/usr/src/x.c").as_deref(), Some("sources/usr/src/x.c"));
        assert_eq!(name("/usr//src/./lib/../x.c").as_deref(), Some("sources/usr/src/x.c"));
        assert_eq!(name("/../../etc/../x.c").as_deref(), Some("sources/x.c"));
        for wrong in ["", "/", "x.c", "../x.c", "/..", "/a\0b"] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_packed_is_read() {
        let log = tempfile::tempdir().unwrap();
        let path = SourcePath::new("/build/lib/../main.c").unwrap();
        assert_eq!(path.read(&log.path().into()), None);
        fs::create_dir_all(log.path().join("sources/build")).unwrap();
        fs::write(log.path().join("sources/build/main.c"), "int main;").unwrap();
        assert_eq!(path.read(&log.path().into()).unwrap(), b"int main;");
        // Not what a link in a log leads to.
        std::os::unix::fs::symlink("/etc", log.path().join("sources/etc")).unwrap();
        assert_eq!(SourcePath::new("/etc/passwd").unwrap().read(&log.path().into()), None);
    }
}
