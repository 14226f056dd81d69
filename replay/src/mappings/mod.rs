//! What is mapped where in a process, at any moment: programs, libraries, heap, stacks.
//!
//! It follows from the recorded system calls, which say with arguments and results how the address space has changed, and from the list of
//! ELF files, which has those that the kernel maps. No replay is needed for it. Where the log does not have the beginning, what was mapped
//! then and is no ELF file is not known.

mod calls;
mod layout;
mod timeline;

pub(crate) use calls::{State, counts};
pub(crate) use timeline::{Birth, Timeline, birth};

use bugnet_format::types::Tid;
use layout::Region;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// A range of addresses that is mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind its last one.
    pub end: u64,
    /// How it can be accessed: `PROT_READ` and so on.
    pub prot: u64,
    /// Whether others see what is written there.
    pub is_shared: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file, or in brackets what it is; empty if it is nothing of these.
    pub name: String,
}

/// All that is known to be mapped at a moment, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mappings {
    /// The ranges.
    pub all: Vec<Mapping>,
    /// The log does not have the beginning of the process: there may be more.
    pub is_cut: bool,
}

impl Mapping {
    /// Whether it is of a file.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl Mappings {
    /// The range in which an address lies.
    #[must_use]
    pub fn at(&self, addr: u64) -> Option<&Mapping> {
        let behind = self.all.partition_point(|mapping| mapping.start <= addr);
        self.all[..behind].last().filter(|mapping| addr < mapping.end)
    }

    /// What may be missing, as a sentence; none if nothing is.
    #[must_use]
    pub fn note(&self) -> Option<&'static str> {
        self.is_cut.then_some(
            "the log does not have the beginning of the process: what was mapped before, and is no ELF file, is not \
             listed, and an ELF file is also if it was unmapped before",
        )
    }
}

/// As `/proc/PID/maps` has it.
impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, prot, is_shared, offset, name } = self;
        let flag = |bit: i32, letter: char| if prot & bit as u64 == 0 { '-' } else { letter };
        let (r, w, x) = (flag(libc::PROT_READ, 'r'), flag(libc::PROT_WRITE, 'w'), flag(libc::PROT_EXEC, 'x'));
        let shared = if *is_shared { 's' } else { 'p' };
        let line = format!("{start:08x}-{end:08x} {r}{w}{x}{shared} {offset:08x} 00:00 0");
        let padded = if name.is_empty() { line.len() } else { 73 };
        write!(f, "{line:padded$}{name}")
    }
}

impl fmt::Display for Mappings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.iter().try_for_each(|mapping| writeln!(f, "{mapping}"))
    }
}

/// The stack of a thread: where its stack pointer is, or was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackOf {
    /// None for the stack with which the process began.
    pub tid: Option<Tid>,
    pub pointer: u64,
}

/// What memory is mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An ELF file, by its index, from this offset on, and nobody else sees what is written there.
    File { module: usize, offset: u64 },
    /// Memory of the process's own.
    Nothing,
    /// Something else, or that is not known.
    Other,
}

/// Addresses up to `end` that are mapped to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub end: u64,
    pub origin: Origin,
}

impl State {
    /// What an address is mapped to, and all behind it up to the end of the range.
    pub fn origin(&self, addr: u64) -> Range {
        let Some((start, region)) = self.layout.at(addr) else {
            let end = self.layout.regions().map(|(start, _)| start).find(|start| *start > addr).unwrap_or(u64::MAX);
            return Range { end, origin: Origin::Other };
        };
        let origin = match region.module {
            _ if region.is_shared => Origin::Other,
            Some(module) => Origin::File { module, offset: region.offset.wrapping_add(addr - start) },
            None if region.name.is_empty() => Origin::Nothing,
            None => Origin::Other,
        };
        Range { end: region.end, origin }
    }

    /// The indices of the ELF files of which something is mapped.
    pub fn modules(&self) -> BTreeSet<usize> {
        self.layout.regions().filter_map(|(_, region)| region.module).collect()
    }

    /// All ranges, with stacks. Of one that the kernel made, the pages are listed of which something is known that `below` and `above` say
    /// yes to, which lie together and around the stack pointer.
    pub fn mappings(
        mut self,
        stacks: &[StackOf],
        below: impl Fn(u64) -> bool,
        above: impl Fn(u64) -> bool,
    ) -> Vec<Mapping> {
        for StackOf { tid, pointer } in stacks {
            let name = tid.map_or_else(|| "[stack]".to_owned(), |tid| format!("[stack:{tid}]"));
            match self.layout.at(*pointer) {
                Some((start, region)) if region.name.is_empty() => {
                    let region = Region { name: name.into(), ..region.clone() };
                    self.layout.map(start, region);
                }
                Some(_) => {}
                None => self.add_stack(name, *pointer, &below, &above),
            }
        }
        let mapping = |(start, region): (u64, Region)| Mapping {
            start,
            end: region.end,
            prot: region.prot,
            is_shared: region.is_shared,
            offset: region.offset,
            name: region.name.as_ref().to_owned(),
        };
        self.layout.joined().into_iter().map(mapping).collect()
    }

    fn add_stack(&mut self, name: String, pointer: u64, below: &impl Fn(u64) -> bool, above: &impl Fn(u64) -> bool) {
        const PAGE: u64 = bugnet_format::types::Addr::PAGE;
        let here = pointer & !(PAGE - 1);
        let is_free = |page: u64| self.layout.at(page).is_none();
        let (mut start, mut end) = (here, here);
        while is_free(end) && above(end) {
            end += PAGE;
        }
        while start >= PAGE && is_free(start - PAGE) && below(start - PAGE) {
            start -= PAGE;
        }
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        self.layout.map(start, Region { name: name.into(), ..Region::anonymous(end, prot) });
    }
}
