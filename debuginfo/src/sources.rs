//! The source files that the line tables of an ELF file name.

use gimli::{DwarfSections, EndianSlice, RunTimeEndian};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::collections::BTreeSet;

type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;
type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;

/// Most files of one ELF file.
const MOST: usize = 1 << 18;

/// The absolute paths of the source files that an ELF file's line tables name, as they stand there. `shared` gives the file with a build id with which this one shares debug
/// information. What is damaged names none.
#[must_use]
pub fn source_files(elf: &[u8], shared: impl Fn(&str) -> Option<Vec<u8>>) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let Ok(file) = object::File::parse(elf) else { return paths };
    let id =
        file.gnu_debugaltlink().ok().flatten().map(|(_, id)| id.iter().map(|b| format!("{b:02x}")).collect::<String>());
    let other = id.and_then(|id| shared(&id));
    let other = other.as_deref().and_then(|bytes| object::File::parse(bytes).ok());
    let (own, other) = (sections(&file), other.as_ref().map(sections));
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut dwarf = own.borrow(|section| EndianSlice::new(section, endian));
    if let Some(other) = &other {
        dwarf.set_sup(other.borrow(|section| EndianSlice::new(section, endian)));
    }
    let mut units = dwarf.units();
    while let (Ok(Some(header)), true) = (units.next(), paths.len() < MOST) {
        if let Ok(unit) = dwarf.unit(header) {
            add_files(&dwarf, &unit, &mut paths);
        }
    }
    paths
}

fn sections<'a>(file: &object::File<'a>) -> Sections<'a> {
    let section = |id: gimli::SectionId| {
        let data = file.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok::<_, gimli::Error>(data.unwrap_or_default())
    };
    // What cannot be read is empty.
    DwarfSections::load(section).unwrap_or_default()
}

fn add_files(dwarf: &Dwarf<'_>, unit: &gimli::Unit<Reader<'_>>, paths: &mut BTreeSet<String>) {
    let Some(program) = &unit.line_program else { return };
    let header = program.header();
    let text = |value| dwarf.attr_string(unit, value).ok().map(|text| text.to_string_lossy().into_owned());
    let folder = unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    for file in header.file_names().iter().take(MOST) {
        let Some(name) = text(file.path_name()) else { continue };
        let below = file.directory(header).and_then(text).unwrap_or_default();
        // Each may be absolute, and then what stands before does not count.
        let path = [below.as_str(), name.as_str()].into_iter().fold(folder.clone(), |path, part| {
            if part.starts_with('/') { part.to_owned() } else { format!("{path}/{part}") }
        });
        if path.starts_with('/') && paths.len() < MOST {
            paths.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn a_compiler_names_its_sources() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::create_dir(folder.join("include")).unwrap();
        fs::write(folder.join("include/inline.h"), "static inline int twice(int n) { return 2 * n; }").unwrap();
        fs::write(folder.join("main.c"), "#include \"inline.h\"\nint main(int n, char **a) { return twice(n); }")
            .unwrap();
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let mut gcc = Command::new("gcc");
            gcc.args([version, "-O0", "-I", "include", "-o", "main", "main.c"]).current_dir(&folder);
            assert!(gcc.status().expect("gcc is needed for this test").success());
            let elf = fs::read(folder.join("main")).unwrap();
            let paths = source_files(&elf, |_| None);
            for name in ["main.c", "include/inline.h"] {
                let path = folder.join(name);
                assert!(paths.contains(path.to_str().unwrap()), "{version}: {path:?} in {paths:?}");
            }
            // Whatever stands in a file, this does not panic.
            for step in (0..elf.len()).step_by(elf.len() / 20) {
                let mut altered = elf.clone();
                altered[step..].iter_mut().step_by(97).for_each(|byte| *byte ^= 0x55);
                let _ = source_files(&altered, |_| None);
                let _ = source_files(&elf[..step], |_| None);
            }
        }
    }
}
