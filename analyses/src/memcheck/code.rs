//! What code is of an allocator or of a C library, whose functions may do with memory what others may not.

use super::functions::{Does, Family, Function, known};
use super::python;
use super::stubs::{Stub, stubs};
use bugnet_events::code::Block;
use bugnet_format::folder::Module;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::Result;
use bugnet_replay::crash::is_system;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::{Symbolizer, main_file};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Files that are allocators as a whole.
const ALLOCATORS: &[&str] = &["libjemalloc", "libtcmalloc", "libmimalloc"];
/// Files that are C libraries.
const C_LIBRARIES: &[&str] = &["libc.so", "libc-2", "libc.musl", "ld-musl", "ld-linux"];
/// What the names of their functions for strings and memory begin with, in a program that has them itself.
const STRINGS: &[&str] = &["str", "mem", "wcs", "wmem", "stp", "stpc", "rawmem", "bcmp", "index", "rindex"];
/// Where libc gives up because it found a canary changed.
pub const CANARY: &str = "__stack_chk_fail";

/// Which of the bytes to which its arguments point a function reads for sure, or what its result tells of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The first ones of those in these arguments.
    First(&'static [u8]),
    /// The string in its first argument, whose length it returns.
    String,
    /// As much as its third argument says from its second to its first, which must not overlap.
    Copy,
}

/// What stubs are looked for.
const LIBRARY: &[(&str, Reads)] = &[
    ("memcpy", Reads::Copy),
    ("mempcpy", Reads::Copy),
    ("__memcpy_chk", Reads::Copy),
    ("__mempcpy_chk", Reads::Copy),
    ("strlen", Reads::String),
    ("strcmp", Reads::First(&[0, 1])),
    ("strcasecmp", Reads::First(&[0, 1])),
    ("strchr", Reads::First(&[0])),
    ("strrchr", Reads::First(&[0])),
    ("strstr", Reads::First(&[0, 1])),
    ("strcpy", Reads::First(&[1])),
    ("stpcpy", Reads::First(&[1])),
    ("strcat", Reads::First(&[0, 1])),
    ("__strcpy_chk", Reads::First(&[1])),
    ("__strcat_chk", Reads::First(&[0, 1])),
    ("puts", Reads::First(&[0])),
    ("atoi", Reads::First(&[0])),
    ("strtol", Reads::First(&[0])),
    ("strdup", Reads::First(&[0])),
];

/// What an address means at which a function begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// An allocator's, by its index.
    Allocator(usize),
    /// One of Python's, which know no bounds, by its index.
    Python(usize),
    /// A stub for a function of a library, by its index.
    Library(usize),
    /// A function of a library itself, to which a stub leads.
    Target,
    /// Where libc gives up.
    Canary,
    /// A function for texts or memory, by its index ([`super::texts`]).
    Text(usize),
}

/// What is known of the code of a process.
pub struct Known {
    /// Functions of allocators.
    pub allocators: Vec<Function>,
    /// What begins where.
    pub meanings: HashMap<u64, Meaning>,
    /// Files, in the order of their mapping.
    modules: Vec<Module>,
    /// Code of allocators that is executed outside of their functions, too.
    own: Vec<Range<u64>>,
    /// The program has operators `new` and `delete` of its own, of which the compiler may have inlined one and not the other.
    pub has_operators: bool,
    /// Functions of Python's allocator: where they begin, and their indices.
    pub python: Vec<(u64, usize)>,
    /// Stubs of functions that copy, and where each finds its target.
    pub slots: Vec<(u64, u64)>,
    /// Where these stubs lead, as far as it is known.
    pub targets: HashMap<u64, u64>,
}

impl Known {
    /// Of a process; with functions that somebody has named.
    ///
    /// # Errors
    /// The list of its files cannot be read.
    pub fn new(log: &Log, pid: ProcessId, symbols: &mut Symbolizer, named: &[Function]) -> Result<Self> {
        let mut allocators = named.to_vec();
        allocators.extend(known().into_iter().filter(|one| named.iter().all(|other| other.name != one.name)));
        let names: Vec<&str> = allocators.iter().map(|function| &*function.name).chain([CANARY]).collect();
        let found: BTreeMap<u64, usize> = symbols.functions(&names);
        let modules = log.modules(pid)?;
        let mut known = Self {
            meanings: HashMap::new(),
            own: modules.iter().filter_map(|module| own(log, module)).collect(),
            has_operators: false,
            python: Vec::new(),
            slots: Vec::new(),
            targets: HashMap::new(),
            modules,
            allocators,
        };
        for (address, index) in found {
            let Some(function) = known.allocators.get(index) else {
                known.meanings.insert(address, Meaning::Canary);
                continue;
            };
            let is_programs = known.module_at(address).is_some_and(|module| !is_system(&module.path));
            known.has_operators |= is_programs && function.name.starts_with("_Z");
            let is_pythons = matches!(&function.family, Family::Named(name) if name == python::FAMILY);
            if is_pythons {
                known.python.push((address, index));
            }
            let meaning = if is_pythons { Meaning::Python(index) } else { Meaning::Allocator(index) };
            known.meanings.insert(address, meaning);
        }
        known.add_stubs(log);
        Ok(known)
    }

    fn add_stubs(&mut self, log: &Log) {
        let names: Vec<&str> = LIBRARY.iter().map(|(name, _)| *name).chain([CANARY]).collect();
        for module in &self.modules {
            for Stub { address, slot, name } in stubs(log, module, &names) {
                let library = LIBRARY.get(name);
                let meaning = library.map_or(Meaning::Canary, |_| Meaning::Library(name));
                self.meanings.entry(address).or_insert(meaning);
                self.slots.extend(library.filter(|(_, reads)| *reads == Reads::Copy).map(|_| (address, slot)));
            }
        }
    }

    /// A function for texts or memory begins here.
    pub fn add_text(&mut self, address: u64, index: usize) {
        self.meanings.entry(address).or_insert(Meaning::Text(index));
    }

    /// The files that are mapped.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Whether code is the dynamic loader's.
    #[must_use]
    pub fn is_loader(&self, ip: u64) -> bool {
        self.module_at(ip).is_some_and(|module| is_one_of(module, &["ld-linux", "ld-2"]))
    }

    /// A stub leads to a function of a library that begins here.
    pub fn add_target(&mut self, stub: u64, address: u64) {
        self.targets.insert(stub, address);
        self.meanings.entry(address).or_insert(Meaning::Target);
    }

    /// Of a library's function, its name, and what it reads.
    #[must_use]
    pub fn library(&self, index: usize) -> (&'static str, Reads) {
        LIBRARY[index]
    }

    /// The allocators' functions that are there.
    pub fn found(&self) -> impl Iterator<Item = &Function> {
        let index = |meaning: &Meaning| if let Meaning::Allocator(index) = meaning { Some(*index) } else { None };
        self.meanings.values().filter_map(index).map(|index| &self.allocators[index])
    }

    /// Whether anything can give memory out.
    #[must_use]
    pub fn can_allocate(&self) -> bool {
        self.found().any(|function| matches!(function.does, Does::Allocate(_)))
    }

    /// The file that is mapped at an address.
    #[must_use]
    pub fn module_at(&self, addr: u64) -> Option<&Module> {
        self.modules.iter().rev().find(|module| addr.wrapping_sub(module.base) < module.size)
    }

    /// Code that is an allocator's, wherever it is called from.
    #[must_use]
    pub fn own(&self) -> &[Range<u64>] {
        &self.own
    }

    /// Whether code is an allocator's, wherever it is called from.
    #[must_use]
    pub fn is_allocators(&self, ip: u64) -> bool {
        self.own.iter().any(|range| range.contains(&ip))
    }

    /// Whether code is of a file that is a C library.
    #[must_use]
    pub fn is_c_library(&self, ip: u64) -> bool {
        self.module_at(ip).is_some_and(|module| is_one_of(module, C_LIBRARIES))
    }

    /// Whether code is of a C library's functions for strings and memory: any of a file that is a C library, since the names of these are not
    /// known there.
    pub fn is_strings(&self, ip: u64, symbols: &mut Symbolizer) -> bool {
        let Some(module) = self.module_at(ip) else { return false };
        if is_one_of(module, C_LIBRARIES) {
            return true;
        }
        let symbol = symbols.lookup(Addr(ip)).symbol;
        symbol.is_some_and(|symbol| STRINGS.iter().any(|start| symbol.name.trim_start_matches('_').starts_with(start)))
    }
}

/// Whether a block looks through vectors that it loads, and stores none: what it loads may be more than it needs.
#[must_use]
pub fn looks_through(block: &Block) -> bool {
    const VECTOR: usize = 16;
    !block.instructions.iter().any(|decoded| decoded.instruction.memory_size().size() >= VECTOR && decoded.stores())
}

fn is_one_of(module: &Module, names: &[&str]) -> bool {
    let name = module.path.rsplit('/').next().unwrap_or_default();
    names.iter().any(|known| name.starts_with(known))
}

/// The code of a file that is an allocator's: all of a file that is one; of a C library, what lies around its allocator's functions, up to the
/// next ones that have names. There are functions without names for when threads end or processes fork.
fn own(log: &Log, module: &Module) -> Option<Range<u64>> {
    let all = module.base..module.base.saturating_add(module.size);
    if is_one_of(module, ALLOCATORS) {
        return Some(all);
    }
    if !is_one_of(module, C_LIBRARIES) {
        return None;
    }
    let bytes = main_file(log.source(), module)?;
    let file = object::File::parse(&*bytes).ok()?;
    let start = file.segments().map(|segment| segment.address()).min()? & !(Addr::PAGE - 1);
    let at = |address: u64| address.wrapping_sub(start).wrapping_add(module.base);
    let is_malloc = |name: &str| {
        let name = name.trim_start_matches("__libc_").trim_start_matches('_');
        [
            "malloc",
            "free",
            "calloc",
            "realloc",
            "memalign",
            "posix_memalign",
            "aligned_alloc",
            "valloc",
            "pvalloc",
            "mallopt",
            "mallinfo",
            // In the middle of them, where it has a name.
            "default_morecore",
        ]
        .iter()
        .any(|known| {
            name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('_') || rest == "2")
        })
    };
    let functions: Vec<(u64, u64, bool)> = file
        .dynamic_symbols()
        .chain(file.symbols())
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.address() != 0)
        .map(|symbol| {
            let name = symbol.name().unwrap_or_default();
            (at(symbol.address()), at(symbol.address() + symbol.size()), is_malloc(name))
        })
        .collect();
    let malloc = functions.iter().filter(|(.., is_malloc)| *is_malloc).map(|(address, ..)| *address);
    let (first, last) = malloc.fold((u64::MAX, 0), |(first, last), address| (first.min(address), last.max(address)));
    let before =
        functions.iter().filter(|(address, _, is_malloc)| *address < first && !is_malloc).map(|(_, end, _)| *end).max();
    let behind = functions
        .iter()
        .filter(|(address, _, is_malloc)| *address > last && !is_malloc)
        .map(|(address, ..)| *address)
        .min();
    let own = before.unwrap_or(first)..behind.unwrap_or(last);
    (own.start < own.end && own.end - own.start < 1 << 17).then_some(own)
}
