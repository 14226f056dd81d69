//! Memory that is as an ELF file has it: all the time, since nobody can write there, or where it came to be.

use super::files;
use crate::error::Result;
use crate::log::Log;
use bugnet_debuginfo::image::{mapped_segments, read_only_parts};
use bugnet_format::code::CodeStore;
use bugnet_format::folder::Module;
use bugnet_format::source::Source;
use bugnet_format::types::{Addr, ProcessId};
use std::collections::HashMap;
use std::ops::Range;

/// A module's file, and the parts of it that nobody can write to.
#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    parts: Vec<(u64, Range<usize>)>,
}

/// The modules of a process.
#[derive(Debug)]
pub(crate) struct ReadOnly {
    log: Source,
    modules: Vec<Module>,
    /// By index into `modules`.
    files: HashMap<usize, File>,
}

impl ReadOnly {
    /// Of a process of the log.
    ///
    /// # Errors
    /// The list of modules cannot be read.
    pub fn new(log: &Log, pid: ProcessId) -> Result<Self> {
        Ok(Self { log: log.source().clone(), modules: log.modules(pid)?, files: HashMap::new() })
    }

    /// The only module that was ever mapped at one of these addresses, and at all of them.
    pub fn module_of(&self, addr: u64, len: u64) -> Option<usize> {
        let end = addr.saturating_add(len);
        let meets = |module: &Module| module.base < end && addr < module.base.saturating_add(module.size);
        let mut found = (0..self.modules.len()).filter(|index| meets(&self.modules[*index]));
        let only = found.next().filter(|_| found.next().is_none())?;
        let Module { base, size, .. } = self.modules[only];
        (base <= addr && end <= base.saturating_add(size)).then_some(only)
    }

    /// Where such memory is, in ascending order. Of pages that were executed in several versions, nothing is said.
    pub fn ranges(&mut self, code: &CodeStore) -> Vec<Range<u64>> {
        let mut versions: HashMap<Addr, usize> = HashMap::new();
        code.pages.iter().for_each(|page| *versions.entry(page.addr).or_default() += 1);
        let mut all = Vec::new();
        for index in 0..self.modules.len() {
            let Module { base, .. } = self.modules[index];
            for (distance, part) in self.file(index).parts.clone() {
                let range = base.wrapping_add(distance)..base.wrapping_add(distance).saturating_add(part.len() as u64);
                let changes =
                    |(page, count): (&Addr, &usize)| *count > 1 && page.0 < range.end && range.start <= page.0 + 4095;
                if self.module_of(range.start, range.end - range.start) == Some(index) && !versions.iter().any(changes)
                {
                    all.push(range);
                }
            }
        }
        all.sort_by_key(|range| range.start);
        all
    }

    fn file(&mut self, module: usize) -> &File {
        let Self { log, modules, files } = self;
        files.entry(module).or_insert_with(|| {
            let bytes = files::main_file(log, &modules[module]).unwrap_or_default();
            File { parts: read_only_parts(&bytes), bytes }
        })
    }

    /// A module's build id.
    pub fn build_id(&self, module: usize) -> &str {
        self.modules.get(module).map_or("", |module| &module.build_id)
    }

    /// Up to `len` bytes of a module at an address.
    pub fn read(&mut self, module: usize, addr: u64, len: usize) -> Vec<u8> {
        let Some(base) = self.modules.get(module).map(|module| module.base) else { return Vec::new() };
        let file = self.file(module);
        let distance = addr.wrapping_sub(base);
        let found = file.parts.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(distance.checked_sub(*start)?).ok()?;
            let from = bytes.start.checked_add(offset)?;
            file.bytes.get(from..bytes.end.min(from.saturating_add(len))).filter(|found| !found.is_empty())
        });
        found.unwrap_or_default().to_vec()
    }

    /// Up to `len` bytes that are mapped with this offset in a module's file.
    pub fn at_offset(&mut self, module: usize, offset: u64, len: usize) -> Vec<u8> {
        let bytes = &self.file(module).bytes;
        if bytes.is_empty() {
            return Vec::new();
        }
        // Behind its end there are zeros, up to the end of the page.
        let end = (bytes.len() as u64).next_multiple_of(Addr::PAGE);
        let all = (offset..end).take(len).map(|at| bytes.get(at as usize).copied().unwrap_or_default());
        all.collect()
    }

    /// Up to `len` bytes of a module at an address where the kernel mapped it as a program, or as a program's loader.
    pub fn at_start(&mut self, module: usize, addr: u64, len: usize) -> Vec<u8> {
        let Some(base) = self.modules.get(module).map(|module| module.base) else { return Vec::new() };
        let bytes = &self.file(module).bytes;
        let segments = mapped_segments(bytes);
        let Some(first) = segments.first() else { return Vec::new() };
        let bias = base.wrapping_sub(first.address.wrapping_sub(first.offset) & !(Addr::PAGE - 1));
        let at = addr.wrapping_sub(bias);
        let page = |address: u64| address & !(Addr::PAGE - 1);
        let Some(segment) =
            segments.iter().find(|it| (page(it.address)..it.address.saturating_add(it.size)).contains(&at))
        else {
            return Vec::new();
        };
        let (in_file, behind) = (segment.address.saturating_add(segment.file_size), segment.address + segment.size);
        let byte = |at: u64| match at < in_file {
            true => {
                bytes.get(usize::try_from(segment.offset.wrapping_add(at.wrapping_sub(segment.address))).ok()?).copied()
            }
            false => Some(0),
        };
        (at..behind).take(len).map_while(byte).collect()
    }

    /// The lowest start of a part of the module above an address.
    pub fn next_after(&mut self, module: usize, addr: u64) -> Option<u64> {
        let base = self.modules.get(module)?.base;
        let starts = self.file(module).parts.iter().map(|(start, _)| base.wrapping_add(*start));
        starts.filter(|start| *start > addr).min()
    }
}
