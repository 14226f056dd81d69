//! One ELF file: symbols, lines and unwinding tables, read with all bounds checked.

use super::pack::copy_path;
use super::{SourceFrame, Symbol};
use bugnet_format::files;
use bugnet_format::folder::Module;
use gimli::{BaseAddresses, DebugFrame, EhFrame, RunTimeEndian};
use nix::fcntl::OFlag;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind, SymbolKind};
use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest ELF file that is read, in bytes; a log's copy could decompress to anything.
const MAX_ELF: u64 = 4 << 30;
/// Where distributions put debug information by build id.
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

/// How many symbols before an address are looked at for the one that holds it.
const NEARBY_SYMBOLS: usize = 16;

/// How DWARF sections are read: shared, so that a file's tables have no lifetime to care for.
pub(crate) type Reader = gimli::EndianReader<RunTimeEndian, Arc<[u8]>>;

/// An ELF file, parsed.
pub(crate) struct ElfFile {
    /// Address of file offset 0 in the file's own terms.
    base: u64,
    /// Ascending by address.
    symbols: Vec<(u64, u64, Box<str>)>,
    /// This file and, if its own debug information was split off, the file that holds it.
    bytes: Vec<Vec<u8>>,
    lines: OnceCell<Option<addr2line::Context<Reader>>>,
    eh_frame: Option<(EhFrame<Reader>, BaseAddresses)>,
    debug_frame: Option<(DebugFrame<Reader>, BaseAddresses)>,
}

impl std::fmt::Debug for ElfFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ElfFile {{ {} symbols }}", self.symbols.len())
    }
}

impl ElfFile {
    /// The file of a module: the log's copy, else the file of the same path and build id on this machine.
    pub fn find(log_folder: &Path, module: &Module) -> Option<Self> {
        let copy = copy_path(log_folder, module);
        let matching = |bytes: &Vec<u8>| build_id(bytes) == module.build_id;
        // A copy of a file without build id was made by the recorder when it recorded; a file of this machine
        // without one might be anything.
        let bytes = read_compressed(log_folder, &copy).filter(|bytes| matching(bytes) || module.build_id.is_empty());
        let bytes = bytes.or_else(|| {
            let own = (!module.build_id.is_empty()).then(|| read_regular(Path::new(&module.path)))?;
            own.filter(matching)
        });
        let mut files = vec![bytes?];
        files.extend(debug_path(&module.build_id).and_then(|path| read_regular(&path)).filter(matching));
        Self::parse(files)
    }

    fn parse(bytes: Vec<Vec<u8>>) -> Option<Self> {
        let file = object::File::parse(bytes[0].as_slice()).ok()?;
        let first = file.segments().next()?;
        let base = first.address().wrapping_sub(first.file_range().0);
        let mut symbols = Vec::new();
        let mut debug_frame = None;
        for bytes in &bytes {
            let Ok(file) = object::File::parse(bytes.as_slice()) else { continue };
            for symbol in file.symbols().chain(file.dynamic_symbols()) {
                let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
                let in_code = section.is_some_and(|section| section.kind() == SectionKind::Text);
                let code = match symbol.kind() {
                    SymbolKind::Text => !symbol.is_undefined(),
                    // A label of assembly code.
                    SymbolKind::Unknown => in_code,
                    _ => false,
                };
                if let (true, Ok(name)) = (code, symbol.name()) {
                    symbols.push((symbol.address(), symbol.size(), name.into()));
                }
            }
            if debug_frame.is_none() && file.section_by_name(".debug_frame").is_some() {
                let section = DebugFrame::from(section(&file, gimli::SectionId::DebugFrame.name()));
                debug_frame = Some((section, bases(&file)));
            }
        }
        symbols.sort();
        symbols.dedup();
        let eh_frame = file.section_by_name(".eh_frame").map(|_| {
            let section = EhFrame::from(section(&file, gimli::SectionId::EhFrame.name()));
            (section, bases(&file))
        });
        Some(Self { base, symbols, lines: OnceCell::new(), eh_frame, debug_frame, bytes })
    }

    /// The address, in the file's own terms, that lies `offset` behind the mapping of file offset 0.
    pub fn address(&self, offset: u64) -> u64 {
        self.base.wrapping_add(offset)
    }

    /// The byte that the file has at an address in its own terms.
    pub fn byte(&self, address: u64) -> Option<u8> {
        let file = object::File::parse(self.bytes[0].as_slice()).ok()?;
        file.segments().find_map(|segment| segment.data_range(address, 1).ok()??.first().copied())
    }

    /// `.eh_frame`, and the addresses that its pointers count from.
    pub fn eh_frame(&self) -> Option<&(EhFrame<Reader>, BaseAddresses)> {
        self.eh_frame.as_ref()
    }

    /// `.debug_frame`, likewise.
    pub fn debug_frame(&self) -> Option<&(DebugFrame<Reader>, BaseAddresses)> {
        self.debug_frame.as_ref()
    }

    /// The symbol that holds `address`: one of a function that says how long it is, else the last before it, since
    /// assembly code often leaves that out.
    pub fn symbol(&self, address: u64) -> Option<Symbol> {
        let after = self.symbols.partition_point(|(start, ..)| *start <= address);
        let near = || self.symbols[..after].iter().rev().take(NEARBY_SYMBOLS);
        let sized = near().find(|(start, size, _)| address - start < *size);
        let (start, _, name) = sized.or_else(|| near().find(|(_, size, _)| *size == 0))?;
        let name = demangle(name);
        Some(Symbol { name, offset: address - start })
    }

    /// Functions and lines at `address`, innermost first.
    pub fn source(&self, address: u64) -> Vec<SourceFrame> {
        let Some(context) = self.lines.get_or_init(|| self.load_lines()) else { return Vec::new() };
        let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return Vec::new() };
        let mut out = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|f| f.raw_name().ok().map(|name| demangle(&name)));
            let file = frame.location.as_ref().and_then(|l| l.file).map(str::to_owned);
            let line = frame.location.as_ref().and_then(|l| l.line);
            if function.is_some() || file.is_some() {
                out.push(SourceFrame { function, file, line });
            }
        }
        out
    }

    fn load_lines(&self) -> Option<addr2line::Context<Reader>> {
        let files = self.bytes.iter().filter_map(|bytes| object::File::parse(bytes.as_slice()).ok());
        let file = files.into_iter().find(|file| file.section_by_name(".debug_info").is_some())?;
        let load = |file: &object::File<'_>| gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(section(file, id.name())));
        let mut dwarf = load(&file).ok()?;
        // Debian's debug files share a part among all of a package, in a file of its own.
        if let Ok(Some((path, id))) = file.gnu_debugaltlink() {
            let path = std::str::from_utf8(path).ok().map(|path| Path::new(DEBUG_FOLDER).join("x").join(path));
            let shared = path.and_then(|path| read_regular(&path)).filter(|bytes| build_id(bytes) == hex(id));
            if let Some(shared) = shared.as_deref().and_then(|bytes| object::File::parse(bytes).ok()) {
                dwarf.set_sup(load(&shared).ok()?);
            }
        }
        addr2line::Context::from_dwarf(dwarf).ok()
    }
}

/// A function's name as its source has it. Only names that are mangled are touched: `f` is also how C++ writes the type
/// `float`.
fn demangle(name: &str) -> String {
    let is_mangled = ["_Z", "__Z", "_R"].iter().any(|prefix| name.starts_with(prefix));
    if is_mangled { addr2line::demangle_auto(name.into(), None).into_owned() } else { name.to_owned() }
}

/// The bytes of a section; none if it is not there or does not decompress.
fn section(file: &object::File<'_>, name: &str) -> Reader {
    let data = file.section_by_name(name).and_then(|section| section.uncompressed_data().ok()).unwrap_or_default();
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    Reader::new(Arc::from(data.as_ref()), endian)
}

fn bases(file: &object::File<'_>) -> BaseAddresses {
    let at = |name| file.section_by_name(name).map_or(0, |section| section.address());
    BaseAddresses::default()
        .set_eh_frame(at(".eh_frame"))
        .set_eh_frame_hdr(at(".eh_frame_hdr"))
        .set_text(at(".text"))
        .set_got(at(".got"))
}

/// The GNU build id of an ELF file in lower-case hexadecimal; empty if it has none or is no ELF file.
pub(crate) fn build_id(bytes: &[u8]) -> String {
    let Ok(file) = object::File::parse(bytes) else { return String::new() };
    file.build_id().ok().flatten().map(hex).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_compressed(log: &Path, path: &Path) -> Option<Vec<u8>> {
    let file = files::open(log, path, MAX_ELF).ok()?;
    read_bounded(zstd::Decoder::new(file).ok()?)
}

/// Reads a regular file of this machine, through links; a path in a log may name anything.
pub(crate) fn read_regular(path: &Path) -> Option<Vec<u8>> {
    let not_waiting = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let is_file = || std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let file = is_file().then(|| File::options().read(true).custom_flags(not_waiting).open(path).ok())??;
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then(|| read_bounded(file))?
}

fn read_bounded(from: impl Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(MAX_ELF + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= MAX_ELF).then_some(bytes)
}

fn debug_path(build_id: &str) -> Option<PathBuf> {
    let plain = build_id.len() > 2 && build_id.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| Path::new(DEBUG_FOLDER).join(&build_id[..2]).join(format!("{}.debug", &build_id[2..])))
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn only_mangled_names_are_demangled() {
        // Each is a type in the mangling of C++.
        for name in ["f", "i", "d", "v", "b", "c", "x", "Pv", "PKc", "St", "main", "Z", "R", "_ZZZ", "_R"] {
            assert_eq!(demangle(name), name);
        }
        assert_eq!(demangle("_Z3fooi"), "foo(int)");
        assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
    }
}
