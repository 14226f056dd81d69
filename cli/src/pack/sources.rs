//! Source files, for `--sources`: those that the line tables of the log's ELF and debug files name, and that are here.
//!
//! A log may be a stranger's, and its ELF files may name any file of whoever packs it. So only files count whose names are those of
//! source code.

use super::contents::{Contents, Place};
use bugnet_format::files;
use bugnet_format::folder::ELF_FOLDER;
use bugnet_format::source::{Source, open_file};
use bugnet_replay::symbols::{MAX_SOURCE, source_files};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

/// Largest ELF file that is looked into, in bytes.
const MAX_ELF: u64 = 4 << 30;

/// How the names of source files end.
const ENDINGS: &str = " c h i cc cp cpp cxx c++ hh hpp hxx h++ inc inl ipp tcc tpp def S s asm rs go zig d adb ads pas pp \
                       f F for f77 f90 F90 f95 f03 f08 swift m mm ml mli hs nim v vala cr y yy l ll rl re cu cuh proto ";

/// Adds them; how many there are is the result.
pub fn add(log: &Source, contents: &mut Contents) -> usize {
    let elf: Vec<_> = contents
        .all()
        .filter(|(name, _)| name.starts_with(ELF_FOLDER))
        .map(|(n, f)| (n.to_owned(), f.clone()))
        .collect();
    let read = |name: &str| {
        let (name, from) = elf.iter().find(|(other, _)| other == name)?;
        let mut bytes = Vec::new();
        let file: Box<dyn Read> = match from {
            Place::Log => Box::new(files::open(log, &log.path().join(name), MAX_ELF).ok()?),
            Place::File(path) => Box::new(open_file(path).ok()??),
            Place::EmptyFolder => return None,
        };
        zstd::Decoder::new(file).ok()?.take(MAX_ELF).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let mut paths = BTreeSet::new();
    for (name, _) in &elf {
        let shared = |id: &str| read(&format!("{ELF_FOLDER}/{id}.zst"));
        paths.extend(read(name).map(|bytes| source_files(&bytes, shared)).unwrap_or_default());
    }
    let mut count = 0;
    for path in paths {
        let file = Path::new(path.as_str());
        if is_source(file) && std::fs::metadata(file).is_ok_and(|file| file.is_file() && file.len() <= MAX_SOURCE) {
            count += usize::from(contents.add(path.name_in_log(), file.to_owned()));
        }
    }
    count
}

/// Whether a file is one of source code, by its name.
fn is_source(path: &Path) -> bool {
    match path.extension().map(|ending| ending.to_str()) {
        Some(ending) => ending.is_some_and(|ending| ENDINGS.split_whitespace().any(|known| known == ending)),
        // The headers of C++ have names such as `vector`.
        None => path.components().any(|part| part.as_os_str() == "include"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources() {
        for path in ["/x/a.c", "/x/b.rs", "/x/c.S", "/usr/include/c++/14/vector", "/x/d.tar.h"] {
            assert!(is_source(Path::new(path)), "{path}");
        }
        for path in ["/etc/shadow", "/h/.ssh/id_ed25519", "/h/key.pem", "/h/.env", "/x/a.c.gz", "/x/secret.txt"] {
            assert!(!is_source(Path::new(path)), "{path}");
        }
    }
}
