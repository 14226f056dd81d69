//! Memory that two runs have in common: a global variable by its name, blocks of the heap by the line that asked for them.

use super::follow::{Access, Look, Memory};
use super::pattern::Patterns;
use crate::runs::scene::Spot;
use crate::runs::side::Side;
use crate::touched::Touched;
use bugnet_events::stretch::Ran;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::symbols::Symbolizer;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What memory is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// A global variable.
    Global(String),
    /// A block of the heap, by the function and line that asked for it.
    Block(String),
}

/// Bytes of a mapped file: its path, how far behind where it is mapped, and how many.
type Bytes = (String, u64, u64);

/// What functions accessed.
#[derive(Default)]
pub struct Wanted {
    globals: BTreeMap<Object, BTreeSet<Bytes>>,
    blocks: BTreeSet<Object>,
}

/// Looks for what functions of some names access.
pub struct Touching<'a> {
    names: &'a BTreeSet<String>,
    symbols: Symbolizer,
    is_one: HashMap<u64, bool>,
    wanted: &'a mut Wanted,
    /// Whether any of their instructions was executed that accesses memory.
    pub has_run: bool,
}

impl<'a> Touching<'a> {
    /// In a run.
    pub fn new(side: &Side<'_>, names: &'a BTreeSet<String>, wanted: &'a mut Wanted) -> Result<Self> {
        let symbols = Symbolizer::new(side.recorded.log, side.recorded.pid)?;
        Ok(Self { names, symbols, is_one: HashMap::new(), wanted, has_run: false })
    }
}

impl Look for Touching<'_> {
    fn may_want(&mut self, _: &Ran<'_>) -> bool {
        true
    }

    fn access(&mut self, access: &Access, memory: &mut Memory) {
        let Self { names, symbols, is_one, .. } = self;
        let mut is_of_functions = |ip: u64| Spot::of(symbols, ip).function.is_some_and(|name| names.contains(&name));
        if !*is_one.entry(access.ip).or_insert_with_key(|ip| is_of_functions(*ip)) {
            return;
        }
        self.has_run = true;
        match memory.object(access.addr) {
            Some(object @ Object::Global(_)) => {
                let Some(module) = self.symbols.module_at(Addr(access.addr)) else { return };
                let bytes = (module.path.clone(), access.addr - module.base, access.len);
                self.wanted.globals.entry(object.clone()).or_default().insert(bytes);
            }
            Some(object @ Object::Block(_)) if !self.wanted.blocks.contains(object) => {
                self.wanted.blocks.insert(object.clone());
            }
            _ => {}
        }
    }

    fn allocated(&mut self, _: u64, _: u64, _: &Object) {}
}

/// Looks at all accesses of what is wanted.
pub struct Using<'a> {
    wanted: &'a Wanted,
    lines: Touched<3>,
    /// How many blocks there were of each kind.
    pub blocks: BTreeMap<Object, u64>,
    pub patterns: Patterns,
}

impl<'a> Using<'a> {
    /// In a run.
    pub fn new(side: &Side<'_>, wanted: &'a Wanted) -> Result<Self> {
        let mut lines = Touched::default();
        let modules = side.recorded.log.modules(side.recorded.pid)?;
        for (path, offset, len) in wanted.globals.values().flatten() {
            if let Some(module) = modules.iter().find(|module| module.path == *path) {
                lines.touch(module.base + offset, *len);
            }
        }
        Ok(Self { wanted, lines, blocks: BTreeMap::new(), patterns: Patterns::default() })
    }
}

impl Look for Using<'_> {
    fn may_want(&mut self, ran: &Ran<'_>) -> bool {
        let lines = &mut self.lines;
        ran.touches_any(|addr, len| lines.has(addr, len))
    }

    fn access(&mut self, access: &Access, memory: &mut Memory) {
        if !self.lines.has(access.addr, access.len) {
            return;
        }
        if let Some(object) = memory.object(access.addr)
            && (self.wanted.globals.contains_key(object) || self.wanted.blocks.contains(object))
        {
            self.patterns.access(object, access);
        }
    }

    fn allocated(&mut self, start: u64, len: u64, object: &Object) {
        if self.wanted.blocks.contains(object) {
            self.lines.touch(start, len);
            *self.blocks.entry(object.clone()).or_default() += 1;
            self.patterns.forget(start, len);
        }
    }
}
