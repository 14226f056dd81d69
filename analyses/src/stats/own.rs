//! Which code is a function of the program itself, by the address at which that begins.

use crate::path::objects::stubs;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::Result;
use bugnet_replay::crash::is_system;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::{Symbolizer, main_file};
use std::collections::BTreeSet;
use std::ops::Range;

/// All code that no file holds, as one function.
const MADE: u64 = 0;

/// A mapped file.
struct File {
    range: Range<u64>,
    is_own: bool,
    /// Where stubs are that lead to functions of other files.
    stubs: Vec<Range<u64>>,
}

/// The files of a process, and where functions of the program itself begin.
pub struct Own {
    files: Vec<File>,
    starts: BTreeSet<u64>,
}

impl Own {
    /// Of a process.
    ///
    /// # Errors
    /// The list of its files cannot be read.
    pub fn of(log: &Log, pid: ProcessId, symbols: &mut Symbolizer) -> Result<Self> {
        let info = log.processes()?.into_iter().find(|(id, _)| *id == pid).and_then(|(_, info)| info);
        let program = info.map(|info| info.program);
        let (mut files, mut starts) = (Vec::new(), BTreeSet::new());
        for module in log.modules(pid)? {
            let is_own = !is_system(&module.path) || program.as_ref() == Some(&module.path);
            let file = is_own.then(|| main_file(log.source(), &module)).flatten();
            let stubs = file.map_or_else(Vec::new, |file| stubs(&file));
            let range = module.base..module.base + module.size;
            if is_own {
                let all = symbols.function_starts(Addr(range.start)).into_iter();
                starts.extend(all.filter(|start| range.contains(start)));
            }
            let stubs = stubs.into_iter().map(|stub| range.start + stub.start..range.start + stub.end).collect();
            files.push(File { range, is_own, stubs });
        }
        Ok(Self { files, starts })
    }

    /// The file at an address; of two at the same place, the later one took the other's.
    fn file(&self, addr: u64) -> Option<&File> {
        self.files.iter().rev().find(|file| file.range.contains(&addr))
    }

    /// Whether here is nothing but what leads to a function of another file.
    pub fn is_stub(&self, addr: u64) -> bool {
        self.file(addr).is_some_and(|file| file.stubs.iter().any(|stubs| stubs.contains(&addr)))
    }

    /// The function of the program itself that holds an address; where no symbol tells it, all of its file is one. None for what belongs to libraries.
    pub fn function(&self, addr: u64) -> Option<u64> {
        let Some(file) = self.file(addr) else { return Some(MADE) };
        let is_there = file.is_own && !file.stubs.iter().any(|stubs| stubs.contains(&addr));
        let last = self.starts.range(file.range.start..=addr).next_back();
        is_there.then(|| last.copied().unwrap_or(file.range.start))
    }

    /// Whether a function of the program itself begins here.
    pub fn begins(&self, addr: u64) -> bool {
        self.starts.contains(&addr)
    }
}
