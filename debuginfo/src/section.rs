//! Sections of ELF files, read with all bounds checked.

use gimli::{BaseAddresses, RunTimeEndian};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::sync::Arc;

/// How DWARF sections are read: shared, so that a file's tables have no lifetime to care for.
pub type Reader = gimli::EndianReader<RunTimeEndian, Arc<[u8]>>;

/// All DWARF sections of a file.
pub(crate) type Dwarf = gimli::Dwarf<Reader>;

/// The bytes of a section; none if it is not there or does not decompress.
pub(crate) fn section(file: &object::File<'_>, name: &str) -> Reader {
    let data = section_data(file, name);
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    Reader::new(Arc::from(data.as_ref()), endian)
}

/// The bytes of a section; of several ones with the same name, as a `.dwo` file has them that holds types, all in a row.
pub(crate) fn section_data<'a>(file: &object::File<'a>, name: &str) -> Cow<'a, [u8]> {
    let mut all = file.sections().filter(|section| section.name() == Ok(name));
    let data = |section: object::Section<'a, '_>| section.uncompressed_data().unwrap_or_default();
    let first = all.next().map(data).unwrap_or_default();
    all.fold(first, |mut before, section| {
        before.to_mut().extend_from_slice(&data(section));
        before
    })
}

/// A reader over nothing.
pub(crate) fn empty() -> Reader {
    Reader::new(Arc::from(&[][..]), RunTimeEndian::Little)
}

/// All DWARF sections (`.debug_*`).
pub(crate) fn dwarf(file: &object::File<'_>) -> Option<Dwarf> {
    gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(section(file, id.name()))).ok()
}

/// The addresses that pointers in `.eh_frame` and `.debug_frame` count from.
pub(crate) fn bases(file: &object::File<'_>) -> BaseAddresses {
    let at = |name| file.section_by_name(name).map_or(0, |section| section.address());
    BaseAddresses::default()
        .set_eh_frame(at(".eh_frame"))
        .set_eh_frame_hdr(at(".eh_frame_hdr"))
        .set_text(at(".text"))
        .set_got(at(".got"))
}

/// The GNU build id of an ELF file in lower-case hexadecimal; empty if it has none or is no ELF file.
#[must_use]
pub fn build_id(bytes: &[u8]) -> String {
    let Ok(file) = object::File::parse(bytes) else { return String::new() };
    file.build_id().ok().flatten().map(hex).unwrap_or_default()
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The build id of the file with which one shares debug information (`.gnu_debugaltlink`).
#[must_use]
pub fn alternate_id(bytes: &[u8]) -> Option<String> {
    let file = object::File::parse(bytes).ok()?;
    Some(hex(file.gnu_debugaltlink().ok()??.1))
}
