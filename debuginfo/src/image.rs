//! One ELF file with the files that hold its debug information: symbols, lines, unwinding tables, entries.

use crate::demangle::{brief, demangle};
use crate::section::{Reader, bases, build_id, dwarf, hex, section};
use crate::split::{SplitFiles, Wanted};
use crate::store::{Store, ThreadLocals};
use addr2line::{LookupContinuation, LookupResult};
use gimli::{BaseAddresses, DebugFrame, EhFrame};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind, SymbolKind, elf};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// How many symbols before an address are looked at for the one that holds it.
const NEARBY_SYMBOLS: usize = 16;
/// Largest alignment of thread-local variables that is believed.
const MAX_TLS_ALIGN: u64 = 1 << 20;

/// A function with a line in it, from debug information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Demangled name of the function.
    pub function: Option<String>,
    /// Source file, as the compiler names it.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column in it, from 1.
    pub column: Option<u32>,
}

/// A piece of a file that is mapped, in the file's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes in memory.
    pub size: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Bytes of it that are in the file.
    pub file_size: u64,
    /// Whether the program can write to it.
    pub is_writable: bool,
    /// Whether it is code.
    pub is_executable: bool,
}

/// A symbol of `.symtab` or `.dynsym`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol {
    pub address: u64,
    pub size: u64,
    pub name: Box<str>,
}

/// An ELF file, parsed, and those that were split off it.
pub struct Image {
    /// Address of file offset 0 in the file's own terms.
    base: u64,
    /// Where its code is, as (start, end).
    executable: Vec<(u64, u64)>,
    /// Functions, ascending by address.
    code: Vec<Symbol>,
    /// Variables, ascending by address.
    data: Vec<Symbol>,
    /// This file and, if its own debug information was split off, the file that holds it.
    bytes: Vec<Vec<u8>>,
    /// The file that shares debug information with others, if this one refers to it (`.gnu_debugaltlink`).
    shared: Option<Vec<u8>>,
    split: Rc<dyn SplitFiles>,
    debug: OnceCell<Option<Debug>>,
    eh_frame: Option<(EhFrame<Reader>, BaseAddresses)>,
    debug_frame: Option<(DebugFrame<Reader>, BaseAddresses)>,
}

/// What is made of the sections of debug information.
struct Debug {
    lines: addr2line::Context<Reader>,
    store: Store,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image {{ {} functions, {} variables }}", self.code.len(), self.data.len())
    }
}

/// The files that an [`Image`] is made of.
pub struct Files {
    /// The ELF file that was mapped.
    pub main: Vec<u8>,
    /// The file with its debug information, if that was split off.
    pub debug: Option<Vec<u8>>,
    /// The file that shares debug information with others. It counts only if its build id is the one referred to.
    pub shared: Option<Vec<u8>>,
    /// Split units.
    pub split: Rc<dyn SplitFiles>,
}

impl SplitFiles for Rc<dyn SplitFiles> {
    fn unit(&self, wanted: &Wanted) -> Option<Vec<u8>> {
        (**self).unit(wanted)
    }

    fn package(&self) -> Option<Arc<[u8]>> {
        (**self).package()
    }
}

impl Image {
    /// `None` if the first file is no ELF file, or maps nothing.
    #[must_use]
    pub fn parse(files: Files) -> Option<Self> {
        let Files { main, debug, shared, split } = files;
        let mut bytes = vec![main];
        bytes.extend(debug);
        let file = object::File::parse(bytes[0].as_slice()).ok()?;
        let first = file.segments().next()?;
        let base = first.address().wrapping_sub(first.file_range().0);
        let (mut code, mut data) = (Vec::new(), Vec::new());
        let mut debug_frame = None;
        for bytes in &bytes {
            let Ok(file) = object::File::parse(bytes.as_slice()) else { continue };
            for symbol in file.symbols().chain(file.dynamic_symbols()) {
                let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
                let in_code = section.is_some_and(|section| section.kind() == SectionKind::Text);
                let list = match symbol.kind() {
                    _ if symbol.is_undefined() => continue,
                    SymbolKind::Text => &mut code,
                    // A label of assembly code.
                    SymbolKind::Unknown if in_code => &mut code,
                    SymbolKind::Data | SymbolKind::Unknown => &mut data,
                    _ => continue,
                };
                if let Ok(name) = symbol.name() {
                    list.push(Symbol { address: symbol.address(), size: symbol.size(), name: name.into() });
                }
            }
            if debug_frame.is_none() && file.section_by_name(".debug_frame").is_some() {
                let section = DebugFrame::from(section(&file, gimli::SectionId::DebugFrame.name()));
                debug_frame = Some((section, bases(&file)));
            }
        }
        for list in [&mut code, &mut data] {
            list.sort();
            list.dedup();
        }
        let eh_frame = file.section_by_name(".eh_frame").map(|_| {
            let section = EhFrame::from(section(&file, gimli::SectionId::EhFrame.name()));
            (section, bases(&file))
        });
        let executable = executable(&file, &bytes[0]);
        Some(Self { base, executable, code, data, debug: OnceCell::new(), eh_frame, debug_frame, bytes, shared, split })
    }

    /// The address, in the file's own terms, that lies `offset` behind the mapping of file offset 0.
    #[must_use]
    pub fn address(&self, offset: u64) -> u64 {
        self.base.wrapping_add(offset)
    }

    /// Bytes of an address.
    pub(crate) fn address_size(&self) -> u8 {
        8
    }

    /// The byte that the file has at an address in its own terms.
    #[must_use]
    pub fn byte(&self, address: u64) -> Option<u8> {
        let file = object::File::parse(self.bytes[0].as_slice()).ok()?;
        file.segments().find_map(|segment| segment.data_range(address, 1).ok()??.first().copied())
    }

    /// Up to `len` bytes at an address in the file's own terms, from a segment that nobody can write to: what is there is there all
    /// the time.
    #[must_use]
    pub fn read_only(&self, address: u64, len: usize) -> Option<Vec<u8>> {
        let file = ElfFile64::<Endianness>::parse(self.bytes[0].as_slice()).ok()?;
        let endian = file.endian();
        file.elf_program_headers().iter().find_map(|header| {
            if header.p_type(endian) != elf::PT_LOAD || header.p_flags(endian).contains(elf::PF_W) {
                return None;
            }
            let offset = usize::try_from(address.checked_sub(header.p_vaddr(endian))?).ok()?;
            let data = header.data(endian, self.bytes[0].as_slice()).ok()?;
            let data = data.get(offset..).filter(|data| !data.is_empty())?;
            Some(data[..len.min(data.len())].to_vec())
        })
    }

    /// The pieces of the file that are mapped (`PT_LOAD`).
    #[must_use]
    pub fn segments(&self) -> Vec<Segment> {
        mapped_segments(&self.bytes[0])
    }

    /// What the auxiliary vector says of a program: the address of its entry and of its program headers, in its own terms, and how many
    /// of these there are.
    #[must_use]
    pub fn start(&self) -> Option<(u64, u64, u64)> {
        let file = ElfFile64::<Endianness>::parse(self.bytes[0].as_slice()).ok()?;
        let (endian, header) = (file.endian(), file.elf_header());
        Some((header.e_entry(endian), self.address(header.e_phoff(endian)), header.e_phnum(endian).into()))
    }

    /// `.eh_frame`, and the addresses that its pointers count from.
    #[must_use]
    pub fn eh_frame(&self) -> Option<&(EhFrame<Reader>, BaseAddresses)> {
        self.eh_frame.as_ref()
    }

    /// `.debug_frame`, likewise.
    #[must_use]
    pub fn debug_frame(&self) -> Option<&(DebugFrame<Reader>, BaseAddresses)> {
        self.debug_frame.as_ref()
    }

    /// Name of the function whose symbol holds `address`, and the distance from its start: one that says how long it is, else the
    /// last before it, since assembly code often leaves that out.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<(String, u64)> {
        if !self.executable.iter().any(|(start, end)| (*start..*end).contains(&address)) {
            return None;
        }
        let near = near(&self.code, address);
        let sized = near.clone().find(|symbol| address - symbol.address < symbol.size);
        let symbol = sized.or_else(|| near.clone().find(|symbol| symbol.size == 0))?;
        Some((demangle(&symbol.name), address - symbol.address))
    }

    /// Name of the variable whose symbol holds `address`, and the distance from its start.
    #[must_use]
    pub fn variable(&self, address: u64) -> Option<(String, u64)> {
        let symbol = near(&self.data, address).find(|symbol| address - symbol.address < symbol.size)?;
        Some((demangle(&symbol.name), address - symbol.address))
    }

    /// Addresses of the symbols with this name, mangled or not: functions and variables.
    #[must_use]
    pub fn symbols_named(&self, name: &str) -> Vec<(u64, u64)> {
        let fits = |symbol: &&Symbol| {
            let own = &*symbol.name;
            let own = own.split('@').next().unwrap_or(own);
            own == name || (own.starts_with('_') && demangle(own).split('(').next() == Some(name))
        };
        let all = self.code.iter().chain(&self.data).filter(fits);
        let mut all: Vec<(u64, u64)> = all.map(|symbol| (symbol.address, symbol.size)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Addresses of the functions whose symbols have one of these names, without versions, and what the name stands for.
    pub fn code_named<'a, T: Copy>(&'a self, names: &'a HashMap<&str, T>) -> impl Iterator<Item = (u64, T)> + 'a {
        let plain = |symbol: &'a Symbol| symbol.name.split('@').next().and_then(|name| names.get(name));
        self.code.iter().filter_map(move |symbol| Some((symbol.address, *plain(symbol)?)))
    }

    /// Where functions begin that have a symbol, ascending.
    pub fn function_starts(&self) -> impl Iterator<Item = u64> {
        self.code.iter().map(|symbol| symbol.address)
    }

    /// The names of the functions of the symbol tables, without parameters.
    pub(crate) fn code_names(&self) -> impl Iterator<Item = String> {
        let plain = |symbol: &Symbol| {
            let name = demangle(symbol.name.split('@').next().unwrap_or_default());
            name.split('(').next().unwrap_or_default().to_owned()
        };
        self.code.iter().map(plain).filter(|name| !name.is_empty())
    }

    /// Functions and lines at `address`, innermost first.
    #[must_use]
    pub fn source(&self, address: u64) -> Vec<SourceLine> {
        let Some(Debug { lines, store }) = self.debug() else { return Vec::new() };
        let mut lookup = lines.find_frames(address);
        let frames = loop {
            match lookup {
                LookupResult::Output(found) => break found,
                LookupResult::Load { load, continuation } => {
                    let (name, folder) = (load.path.as_ref(), load.comp_dir.as_ref());
                    let split = store.split_dwarf(load.dwo_id.0, name, folder, &load.parent);
                    lookup = continuation.resume(split);
                }
            }
        };
        let Ok(mut frames) = frames else { return Vec::new() };
        let mut out = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|f| f.raw_name().ok().map(|name| brief(&demangle(&name))));
            let file = frame.location.as_ref().and_then(|l| l.file).map(str::to_owned);
            let line = frame.location.as_ref().and_then(|l| l.line);
            let column = frame.location.as_ref().and_then(|l| l.column).filter(|column| *column > 0);
            if function.is_some() || file.is_some() {
                out.push(SourceLine { function, file, line, column });
            }
        }
        out
    }

    /// The debugging entries; `None` without debug information.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.debug().map(|debug| &debug.store)
    }

    fn debug(&self) -> Option<&Debug> {
        self.debug.get_or_init(|| self.load()).as_ref()
    }

    fn load(&self) -> Option<Debug> {
        let files = self.bytes.iter().filter_map(|bytes| object::File::parse(bytes.as_slice()).ok());
        let file = files.into_iter().find(|file| file.section_by_name(".debug_info").is_some())?;
        let mut sections = dwarf(&file)?;
        if let (Some(shared), Ok(Some((_, id)))) = (&self.shared, file.gnu_debugaltlink())
            && build_id(shared) == hex(id)
            && let Ok(shared) = object::File::parse(shared.as_slice())
        {
            sections.set_sup(dwarf(&shared)?);
        }
        let sections = Arc::new(sections);
        let lines = addr2line::Context::from_arc_dwarf(Arc::clone(&sections)).ok()?;
        let store = Store::new(sections, Box::new(Rc::clone(&self.split)), thread_locals(&self.bytes[0]));
        Some(Debug { lines, store })
    }
}

/// The sections with code; where sections are not listed, the segments.
fn executable(file: &object::File<'_>, bytes: &[u8]) -> Vec<(u64, u64)> {
    let sections = file.sections().filter(|section| section.kind() == SectionKind::Text);
    let ranges: Vec<_> = sections.map(|s| (s.address(), s.address().saturating_add(s.size()))).collect();
    if !ranges.is_empty() {
        return ranges;
    }
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else { return Vec::new() };
    let endian = file.endian();
    let headers = file.elf_program_headers().iter();
    let code = headers.filter(|h| h.p_type(endian) == elf::PT_LOAD && h.p_flags(endian).contains(elf::PF_X));
    code.map(|h| (h.p_vaddr(endian), h.p_vaddr(endian).saturating_add(h.p_memsz(endian)))).collect()
}

/// The pieces of an ELF file that are mapped (`PT_LOAD`), by its first bytes. Empty if it is no such file.
#[must_use]
pub fn mapped_segments(head: &[u8]) -> Vec<Segment> {
    let header = elf::FileHeader64::<Endianness>::parse(head);
    let parsed = header.and_then(|header| header.endian().map(|endian| (header, endian)));
    let Ok((header, endian)) = parsed else { return Vec::new() };
    let Ok(programs) = header.program_headers(endian, head) else { return Vec::new() };
    let segment = |header: &elf::ProgramHeader64<Endianness>| Segment {
        address: header.p_vaddr(endian),
        size: header.p_memsz(endian),
        offset: header.p_offset(endian),
        file_size: header.p_filesz(endian),
        is_writable: header.p_flags(endian).contains(elf::PF_W),
        is_executable: header.p_flags(endian).contains(elf::PF_X),
    };
    programs.iter().filter(|header| header.p_type(endian) == elf::PT_LOAD).map(segment).collect()
}

/// The parts of an ELF file that are mapped where nobody can write: how far behind the mapping of file offset 0 each begins, and where
/// its bytes are in the file. Empty if it is no such file.
#[must_use]
pub fn read_only_parts(bytes: &[u8]) -> Vec<(u64, std::ops::Range<usize>)> {
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else { return Vec::new() };
    let endian = file.endian();
    let loads = || file.elf_program_headers().iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let base = loads().next().map_or(0, |first| first.p_vaddr(endian).wrapping_sub(first.p_offset(endian)));
    let part = |header: &elf::ProgramHeader64<Endianness>| {
        let start = usize::try_from(header.p_offset(endian)).ok()?;
        let end = start.checked_add(usize::try_from(header.p_filesz(endian)).ok()?)?;
        let distance = header.p_vaddr(endian).wrapping_sub(base);
        (end <= bytes.len()).then_some((distance, start..end))
    };
    loads().filter(|header| !header.p_flags(endian).contains(elf::PF_W)).filter_map(part).collect()
}

fn near(symbols: &[Symbol], address: u64) -> impl Iterator<Item = &Symbol> + Clone {
    let after = symbols.partition_point(|symbol| symbol.address <= address);
    symbols[..after].iter().rev().take(NEARBY_SYMBOLS)
}

/// The thread-local variables of a program; `None` for a library, whose ones lie where libc decides.
fn thread_locals(bytes: &[u8]) -> Option<ThreadLocals> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let (endian, header) = (file.endian(), file.elf_header());
    let headers = file.elf_program_headers();
    let is_pie = || {
        let dynamic = headers.iter().find_map(|header| header.dynamic(endian, bytes).ok().flatten());
        dynamic.is_some_and(|entries| {
            entries.iter().any(|entry| entry.tag(endian) == elf::DT_FLAGS_1 && entry.val(endian) & elf::DF_1_PIE.0 != 0)
        })
    };
    if header.e_type(endian) != elf::ET_EXEC && !is_pie() {
        return None;
    }
    let tls = headers.iter().find(|header| header.p_type(endian) == elf::PT_TLS)?;
    let align = tls.p_align(endian).max(1);
    let plausible = align.is_power_of_two() && align <= MAX_TLS_ALIGN;
    plausible.then(|| ThreadLocals { address: tls.p_vaddr(endian), size: tls.p_memsz(endian), align })
}
