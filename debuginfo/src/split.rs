//! Split units: debug information that the linker never saw, in a `.dwo` file each or together in a `.dwp` package.

use crate::section::{Dwarf, Reader, empty, section, section_data};
use gimli::{DebugTypeSignature, DwarfPackage, DwarfSections, DwoId, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::sync::Arc;

/// Which split unit is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its id (`DW_AT_GNU_dwo_id`, or the unit header's); for a type unit of a package, its signature.
    pub id: u64,
    /// Whether it is a type unit.
    pub is_type: bool,
    /// Its file as the compiler named it (`DW_AT_dwo_name`), if that is known.
    pub name: Option<String>,
    /// The folder that the name is relative to (`DW_AT_comp_dir`).
    pub folder: Option<String>,
}

impl Wanted {
    pub(crate) fn new(id: u64, name: Option<&Reader>, folder: Option<&Reader>) -> Self {
        use gimli::Reader as _;
        let text = |reader: Option<&Reader>| reader.and_then(|text| Some(text.to_string_lossy().ok()?.into_owned()));
        Self { id, is_type: false, name: text(name), folder: text(folder) }
    }

    pub(crate) fn type_unit(signature: u64) -> Self {
        Self { id: signature, is_type: true, name: None, folder: None }
    }
}

/// Where the files of split units come from.
pub trait SplitFiles {
    /// The `.dwo` file of a unit. That it is the right one is checked by its id.
    fn unit(&self, wanted: &Wanted) -> Option<Vec<u8>>;

    /// The file's `.dwp` package.
    fn package(&self) -> Option<Arc<[u8]>>;
}

/// There are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSplitFiles;

impl SplitFiles for NoSplitFiles {
    fn unit(&self, _: &Wanted) -> Option<Vec<u8>> {
        None
    }

    fn package(&self) -> Option<Arc<[u8]>> {
        None
    }
}

/// The sections of a split unit.
pub(crate) fn load_split(files: &dyn SplitFiles, wanted: &Wanted, parent: &Dwarf) -> Option<Arc<Dwarf>> {
    let packaged = || {
        let bytes = files.package()?;
        let file = object::File::parse(&*bytes).ok()?;
        let load =
            |id: gimli::SectionId| Ok::<_, gimli::Error>(id.dwo_name().map_or_else(empty, |name| section(&file, name)));
        let package = DwarfPackage::load(load, empty()).ok()?;
        let found = if wanted.is_type {
            package.find_tu(DebugTypeSignature(wanted.id), parent)
        } else {
            package.find_cu(DwoId(wanted.id), parent)
        };
        found.ok().flatten().map(Arc::new)
    };
    let alone = || {
        if wanted.is_type {
            return None;
        }
        let bytes = files.unit(wanted)?;
        let file = object::File::parse(bytes.as_slice()).ok()?;
        let load =
            |id: gimli::SectionId| Ok::<_, gimli::Error>(id.dwo_name().map_or_else(empty, |name| section(&file, name)));
        let mut split = Dwarf::load(load).ok()?;
        split.make_dwo(parent);
        Some(Arc::new(split))
    };
    alone().or_else(packaged)
}

/// The split units that a file refers to: what a recorder has to keep. Reads no more than it must of a large file.
#[must_use]
pub fn split_units(bytes: &[u8]) -> Vec<Wanted> {
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    // The addresses of a split unit stay with the program, in a section that few other compilations have.
    if file.section_by_name(".debug_addr").is_none() {
        return Vec::new();
    }
    let load = |id: SectionId| {
        let data = matches!(
            id,
            SectionId::DebugInfo
                | SectionId::DebugAbbrev
                | SectionId::DebugStr
                | SectionId::DebugLineStr
                | SectionId::DebugStrOffsets
                | SectionId::DebugLine
        );
        let section = if data { file.section_by_name(id.name()) } else { None };
        Ok::<_, gimli::Error>(section.and_then(|section| section.uncompressed_data().ok()).unwrap_or_default())
    };
    let Ok(sections) = DwarfSections::<Cow<'_, [u8]>>::load(load) else { return Vec::new() };
    let dwarf = sections.borrow(|data| EndianSlice::new(data, LittleEndian));
    let text = |text: EndianSlice<'_, LittleEndian>| text.to_string_lossy().into_owned();
    let mut all = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let (Some(id), Ok(Some(name))) = (unit.dwo_id, unit.dwo_name()) else { continue };
        let Ok(name) = dwarf.attr_string(&unit, name) else { continue };
        all.push(Wanted { id: id.0, is_type: false, name: Some(text(name)), folder: unit.comp_dir.map(text) });
    }
    all
}

/// The id of the unit in a `.dwo` file.
#[must_use]
pub fn split_id(bytes: &[u8]) -> Option<u64> {
    let file = object::File::parse(bytes).ok()?;
    let load =
        |id: SectionId| Ok::<_, gimli::Error>(id.dwo_name().map(|name| section_data(&file, name)).unwrap_or_default());
    let sections = DwarfSections::<Cow<'_, [u8]>>::load(load).ok()?;
    let mut dwarf = sections.borrow(|data| EndianSlice::new(data, LittleEndian));
    dwarf.file_type = gimli::DwarfFileType::Dwo;
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if let Some(id) = dwarf.unit(header).ok().and_then(|unit| unit.dwo_id) {
            return Some(id.0);
        }
    }
    None
}
