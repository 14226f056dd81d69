//! Names for addresses: module, function, source line, inlined functions.
//!
//! Symbols come from the log's own copies of ELF files ([`pack_elf`]), else from files of this machine. A file of
//! this machine counts only if its build id is the recorded one.

mod files;
mod pack;
mod read_only;
mod shared;
mod sources;

pub use files::{ModuleFiles, main_file, module_files, module_head};
pub use pack::{Kept, Packed, Skipped, pack_elf, pack_elf_below, pack_kept_elf};
pub(crate) use read_only::ReadOnly;
pub use sources::{MAX_SOURCE, SourcePath, source_files};

use crate::crash::is_system;
use crate::error::Result;
use crate::log::Log;
use bugnet_debuginfo::companions::read_regular;
use bugnet_debuginfo::image::{Image, SourceLine};
use bugnet_format::folder::Module;
use bugnet_format::source::Source;
use bugnet_format::types::{Addr, ProcessId};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// What is at an address of the program's code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The mapped file, and how far behind its start the address lies.
    pub module: Option<ModulePlace>,
    /// The function of the symbol table that holds the address.
    pub symbol: Option<Symbol>,
    /// Functions and source lines from debug information, innermost first; all but the last are inlined.
    pub source: Vec<SourceFrame>,
}

impl Place {
    /// The innermost function with its source line, as far as known; `None` if nothing is known.
    #[must_use]
    pub fn brief(&self) -> Option<String> {
        let symbol = self.symbol.as_ref();
        let Some(source) = self.source.first() else {
            return match (symbol, &self.module) {
                (Some(symbol), _) => Some(format!("{}+{:#x}", symbol.name, symbol.offset)),
                (None, Some(module)) => Some(format!("{}+{:#x}", module.path, module.offset)),
                _ => None,
            };
        };
        let function = source.function.as_deref().or(symbol.map(|symbol| symbol.name.as_str()));
        let line = match (&source.file, source.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (Some(file), None) => Some(file.clone()),
            _ => None,
        };
        match (function, line) {
            (Some(function), Some(line)) => Some(format!("{function} at {line}")),
            (function, line) => function.map(ToOwned::to_owned).or(line),
        }
    }
}

/// A place in a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModulePlace {
    /// Path on the recording machine.
    pub path: String,
    /// Bytes from the module's base.
    pub offset: u64,
}

/// A symbol and a distance from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// Demangled name.
    pub name: String,
    /// Bytes from the symbol's start.
    pub offset: u64,
}

/// A function with a line in it, from debug information.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceFrame {
    /// Demangled name.
    pub function: Option<String>,
    /// Source file, as the compiler names it.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column in it, from 1.
    #[serde(skip)]
    pub column: Option<u32>,
}

impl From<SourceLine> for SourceFrame {
    fn from(SourceLine { function, file, line, column }: SourceLine) -> Self {
        Self { function, file, line, column }
    }
}

/// Memory of a process that holds the same all the time, since it is of ELF files and nobody can write to it: in ascending order.
///
/// # Errors
/// The log cannot be read.
pub fn constant_memory(log: &Log, pid: ProcessId) -> Result<Vec<Range<u64>>> {
    Ok(ReadOnly::new(log, pid)?.ranges(&*log.code(pid)?))
}

/// Answers what is at an address of one process.
#[derive(Debug)]
pub struct Symbolizer {
    log: Source,
    modules: Vec<Module>,
    /// By index into `modules`; `None` where no file can be had.
    files: HashMap<usize, Option<Rc<Image>>>,
}

impl Symbolizer {
    /// For the modules of a process of the log.
    ///
    /// # Errors
    /// The list of modules cannot be read.
    pub fn new(log: &Log, pid: ProcessId) -> Result<Self> {
        Ok(Self::of(log, log.modules(pid)?))
    }

    /// For these modules of the log.
    #[must_use]
    pub fn of(log: &Log, modules: Vec<Module>) -> Self {
        Self { log: log.source().clone(), modules, files: HashMap::new() }
    }

    /// The module that holds an address. Where one was mapped in place of another, it is the later one.
    #[must_use]
    pub fn module_at(&self, addr: Addr) -> Option<&Module> {
        self.index_at(addr).map(|index| &self.modules[index])
    }

    /// All that is known of the code at an address. For a return address, ask for the byte before it.
    pub fn lookup(&mut self, addr: Addr) -> Place {
        let Some(index) = self.index_at(addr) else { return Place::default() };
        let module = &self.modules[index];
        let mut place = Place {
            module: Some(ModulePlace { path: module.path.clone(), offset: addr.0 - module.base }),
            ..Place::default()
        };
        if let Some((file, address)) = self.file_at(addr) {
            place.symbol = file.function(address).map(|(name, offset)| Symbol { name, offset });
            place.source = file.source(address).into_iter().map(SourceFrame::from).collect();
        }
        place
    }

    /// The ELF files that can be had, each with what its own addresses are moved by in the process; those of the system's libraries
    /// come last.
    pub(crate) fn images(&mut self) -> Vec<(Rc<Image>, u64)> {
        let mut found: Vec<(Rc<Image>, u64)> = Vec::new();
        let mut order: Vec<usize> = (0..self.modules.len()).collect();
        order.sort_by_key(|index| is_system(&self.modules[*index].path));
        for index in order {
            let base = self.modules[index].base;
            if let Some(image) = self.image(index) {
                let bias = base.wrapping_sub(image.address(0));
                found.push((image, bias));
            }
        }
        found
    }

    /// All modules with their files, as far as these can be had.
    pub(crate) fn modules(&mut self) -> Vec<(Module, Option<Rc<Image>>)> {
        (0..self.modules.len()).map(|index| (self.modules[index].clone(), self.image(index))).collect()
    }

    fn image(&mut self, index: usize) -> Option<Rc<Image>> {
        let (log, module) = (&self.log, &self.modules[index]);
        self.files.entry(index).or_insert_with(|| files::open(log, module)).clone()
    }

    /// The ELF file that is mapped at `addr`, and the address in the file's own terms.
    pub(crate) fn file_at(&mut self, addr: Addr) -> Option<(Rc<Image>, u64)> {
        let index = self.index_at(addr)?;
        let base = self.modules[index].base;
        let file = self.image(index)?;
        let address = file.address(addr.0.wrapping_sub(base));
        Some((file, address))
    }

    /// A source file that was packed together with the log, by the path that debug information has for it.
    pub(crate) fn packed_source(&self, path: &str) -> Option<Vec<u8>> {
        SourcePath::new(path)?.read(&self.log)
    }

    /// A line of a source file, if that was packed together with the log or is on this machine.
    #[must_use]
    pub fn source_line(&self, path: &str, line: u32) -> Option<String> {
        let line = usize::try_from(line).ok()?.checked_sub(1)?;
        self.source_text(path)?.lines().nth(line).map(ToOwned::to_owned)
    }

    /// A source file, if it was packed together with the log or is on this machine.
    #[must_use]
    pub fn source_text(&self, path: &str) -> Option<String> {
        // A path that is relative to a folder of the machine that compiled it means nothing here.
        let here = || Path::new(path).is_absolute().then(|| read_regular(Path::new(path))).flatten();
        let bytes = self.packed_source(path).or_else(here).filter(|bytes| bytes.len() as u64 <= MAX_SOURCE)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The function or variable that holds an address, and how far behind its start that lies.
    pub fn name_at(&mut self, addr: Addr) -> Option<(String, u64)> {
        let (file, address) = self.file_at(addr)?;
        file.function(address).or_else(|| file.variable(address))
    }

    /// What is at an address, down to the member of a variable: `function+0x4`, `variable`, `variable.field[3]`.
    pub fn describe(&mut self, addr: Addr) -> Option<String> {
        let (file, address) = self.file_at(addr)?;
        file.describe(address)
    }

    /// Where functions with symbols of these names, mangled, are in all files that can be had; each address with the index of a name.
    pub fn functions(&mut self, names: &[&str]) -> BTreeMap<u64, usize> {
        let indices: HashMap<&str, usize> = names.iter().zip(0..).map(|(name, index)| (*name, index)).collect();
        let mut found = BTreeMap::new();
        for (image, bias) in self.images() {
            found.extend(image.code_named(&indices).map(|(address, index)| (address.wrapping_add(bias), index)));
        }
        found
    }

    /// Where functions begin that have a symbol, of the file at an address.
    #[must_use]
    pub fn function_starts(&mut self, addr: Addr) -> Vec<u64> {
        let Some((image, address)) = self.file_at(addr) else { return Vec::new() };
        let bias = addr.0.wrapping_sub(address);
        image.function_starts().map(|start| start.wrapping_add(bias)).collect()
    }

    fn index_at(&self, addr: Addr) -> Option<usize> {
        self.modules.iter().rposition(|m| addr.0.checked_sub(m.base).is_some_and(|offset| offset < m.size))
    }
}

#[cfg(test)]
mod tests;
