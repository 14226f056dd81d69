//! The debugging entries of a file, and of those that it refers to: `.debug_info` and `.debug_types`, a part that several
//! debug files share (`.gnu_debugaltlink`), and split units (`.dwo`, `.dwp`), which are loaded when they are first needed.

use crate::index::Index;
use crate::scope::Functions;
use crate::section::{Dwarf, Reader};
use crate::split::{SplitFiles, Wanted, load_split};
use gimli::{DebugInfoOffset, UnitHeader, UnitType};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A unit, parsed.
pub(crate) type Unit = gimli::Unit<Reader>;

/// Which debugging entry: the set of units, the unit in it, the offset in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Die {
    pub(crate) set: u32,
    pub(crate) unit: u32,
    pub(crate) offset: usize,
}

/// The units of one file, or of one split unit.
pub(crate) struct Set {
    pub dwarf: Arc<Dwarf>,
    headers: Vec<UnitHeader<Reader>>,
    units: Vec<OnceCell<Option<Rc<Unit>>>>,
    /// What a split unit takes from the file that it was split off.
    skeleton: Option<Rc<Unit>>,
    /// Type units by their signature (`DW_FORM_ref_sig8`).
    signatures: OnceCell<HashMap<u64, (u32, usize)>>,
}

impl Set {
    fn new(dwarf: Arc<Dwarf>, skeleton: Option<Rc<Unit>>) -> Self {
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            headers.push(header);
        }
        let mut types = dwarf.type_units();
        while let Ok(Some(header)) = types.next() {
            headers.push(header);
        }
        let units = headers.iter().map(|_| OnceCell::new()).collect();
        Self { dwarf, headers, units, skeleton, signatures: OnceCell::new() }
    }

    fn unit(&self, number: u32) -> Option<Rc<Unit>> {
        let header = self.headers.get(number as usize)?;
        let parse = || {
            let mut unit = self.dwarf.unit(header.clone()).ok()?;
            if let Some(skeleton) = &self.skeleton {
                unit.copy_relocated_attributes(skeleton);
            }
            Some(Rc::new(unit))
        };
        self.units.get(number as usize)?.get_or_init(parse).clone()
    }

    /// The unit of `.debug_info` that holds an offset, and the offset in it.
    fn at(&self, offset: DebugInfoOffset<usize>) -> Option<(u32, usize)> {
        let start = |header: &UnitHeader<Reader>| header.debug_info_offset().map_or(usize::MAX, |start| start.0);
        // Headers of `.debug_info` come first, in the section's order; those of `.debug_types` count as behind it.
        let behind = self.headers.partition_point(|header| start(header) <= offset.0);
        let number = behind.checked_sub(1)?;
        let unit_offset = offset.to_unit_offset(self.headers.get(number)?)?;
        Some((number as u32, unit_offset.0))
    }

    fn by_signature(&self, signature: u64) -> Option<(u32, usize)> {
        let list = || {
            let types = self.headers.iter().enumerate().filter_map(|(number, header)| match header.type_() {
                UnitType::Type { type_signature, type_offset }
                | UnitType::SplitType { type_signature, type_offset } => {
                    Some((type_signature.0, (number as u32, type_offset.0)))
                }
                _ => None,
            });
            types.collect()
        };
        self.signatures.get_or_init(list).get(&signature).copied()
    }
}

/// All entries that belong to one ELF file.
pub(crate) struct Store {
    sets: RefCell<Vec<Rc<Set>>>,
    /// Which set is the part that several files share.
    shared: Option<u32>,
    files: Box<dyn SplitFiles>,
    /// Split units by their id; `None` where no file can be had.
    split: RefCell<HashMap<u64, Option<(u32, u32)>>>,
    /// Ranges of code of the units of the file itself, ascending: start, end, unit.
    ranges: OnceCell<Vec<(u64, u64, u32)>>,
    pub index: Index,
    /// The functions of each unit, as far as they were asked for.
    pub functions: RefCell<HashMap<(u32, u32), Rc<Functions>>>,
    /// The block of thread-local variables, if the file is the program itself.
    pub thread_locals: Option<ThreadLocals>,
}

/// The segment of thread-local variables (`PT_TLS`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadLocals {
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// A power of two.
    pub align: u64,
}

/// Which set is the file itself.
const MAIN: u32 = 0;

impl Store {
    pub fn new(dwarf: Arc<Dwarf>, files: Box<dyn SplitFiles>, thread_locals: Option<ThreadLocals>) -> Self {
        let mut sets = vec![Rc::new(Set::new(Arc::clone(&dwarf), None))];
        let shared = dwarf.sup.as_ref().map(|sup| {
            sets.push(Rc::new(Set::new(Arc::clone(sup), None)));
            1
        });
        Self {
            sets: RefCell::new(sets),
            shared,
            files,
            split: RefCell::default(),
            ranges: OnceCell::new(),
            index: Index::default(),
            functions: RefCell::default(),
            thread_locals,
        }
    }

    pub fn set(&self, number: u32) -> Option<Rc<Set>> {
        self.sets.borrow().get(number as usize).cloned()
    }

    pub fn unit(&self, set: u32, unit: u32) -> Option<(Arc<Dwarf>, Rc<Unit>)> {
        let set = self.set(set)?;
        Some((Arc::clone(&set.dwarf), set.unit(unit)?))
    }

    /// The units of the file itself; for one that was split off, the unit with its entries, if that can be had.
    pub fn units(&self) -> impl Iterator<Item = (u32, u32)> {
        let count = self.set(MAIN).map_or(0, |set| set.headers.len());
        let shared = self.shared.and_then(|number| Some((number, self.set(number)?.headers.len())));
        let shared = shared.into_iter().flat_map(|(set, count)| (0..count as u32).map(move |unit| (set, unit)));
        (0..count as u32).map(|unit| self.whole(unit)).chain(shared)
    }

    /// The set and unit with the entries of a unit of the file itself.
    fn whole(&self, number: u32) -> (u32, u32) {
        let load = || {
            let (dwarf, unit) = self.unit(MAIN, number)?;
            let id = unit.dwo_id?;
            let name = unit.dwo_name().ok()??;
            let name = dwarf.attr_string(&unit, name).ok()?;
            self.split_set(id.0, &name, &dwarf, &unit)
        };
        load().unwrap_or((MAIN, number))
    }

    fn split_set(&self, id: u64, name: &Reader, parent: &Arc<Dwarf>, skeleton: &Rc<Unit>) -> Option<(u32, u32)> {
        if let Some(known) = self.split.borrow().get(&id) {
            return *known;
        }
        let wanted = Wanted::new(id, Some(name), skeleton.comp_dir.as_ref());
        let loaded = load_split(&*self.files, &wanted, parent).and_then(|dwarf| {
            let set = Set::new(dwarf, Some(Rc::clone(skeleton)));
            // The id is the only thing that says that it belongs here.
            let is_it = |unit: &u32| set.unit(*unit).and_then(|unit| unit.dwo_id).is_some_and(|own| own.0 == id);
            let unit = (0..set.headers.len() as u32).find(is_it)?;
            let mut sets = self.sets.borrow_mut();
            let number = u32::try_from(sets.len()).ok()?;
            sets.push(Rc::new(set));
            Some((number, unit))
        });
        self.split.borrow_mut().insert(id, loaded);
        loaded
    }

    /// The split unit with this id, for whoever knows nothing but that.
    pub fn split_dwarf(
        &self,
        id: u64,
        name: Option<&Reader>,
        folder: Option<&Reader>,
        parent: &Dwarf,
    ) -> Option<Arc<Dwarf>> {
        load_split(&*self.files, &Wanted::new(id, name, folder), parent)
    }

    /// The unit whose code holds an address (in the file's own terms).
    pub fn unit_at(&self, address: u64) -> Option<(u32, u32)> {
        let ranges = self.ranges.get_or_init(|| self.list_ranges());
        let behind = ranges.partition_point(|(start, ..)| *start <= address);
        // Ranges of different units do not overlap, but for those of damaged files.
        let (_, _, unit) = ranges[..behind].iter().rev().take(16).find(|(_, end, _)| address < *end)?;
        Some(self.whole(*unit))
    }

    fn list_ranges(&self) -> Vec<(u64, u64, u32)> {
        let mut all = Vec::new();
        let Some(set) = self.set(MAIN) else { return all };
        for number in 0..set.headers.len() as u32 {
            let Some(unit) = set.unit(number) else { continue };
            let Ok(mut ranges) = set.dwarf.unit_ranges(&unit) else { continue };
            while let Ok(Some(range)) = ranges.next() {
                if range.begin < range.end && range.begin != 0 {
                    all.push((range.begin, range.end, number));
                }
            }
        }
        all.sort_unstable();
        all
    }

    /// Whom a reference of an entry of `from`'s unit names.
    pub fn resolve(&self, from: Die, value: gimli::AttributeValue<Reader>) -> Option<Die> {
        use gimli::AttributeValue as V;
        let within = |set: u32, found: Option<(u32, usize)>| found.map(|(unit, offset)| Die { set, unit, offset });
        match value {
            V::UnitRef(offset) => Some(Die { offset: offset.0, ..from }),
            V::DebugInfoRef(offset) => within(from.set, self.set(from.set)?.at(offset)),
            V::DebugInfoRefSup(offset) => self.shared.and_then(|set| within(set, self.set(set)?.at(offset))),
            V::DebugTypesRef(signature) => {
                let near = within(from.set, self.set(from.set)?.by_signature(signature.0));
                near.or_else(|| within(MAIN, self.set(MAIN)?.by_signature(signature.0)))
                    .or_else(|| self.split_type(from.set, signature.0))
            }
            _ => None,
        }
    }

    /// A type unit of a package of split units.
    fn split_type(&self, set: u32, signature: u64) -> Option<Die> {
        // Ids of units and signatures of types are hashes: one table serves for both.
        if let Some(known) = self.split.borrow().get(&signature) {
            return known.and_then(|(set, _)| self.type_unit(set, signature));
        }
        let from = self.set(set)?;
        let skeleton = from.skeleton.clone()?;
        let parent = self.set(MAIN)?;
        let wanted = Wanted::type_unit(signature);
        let loaded = load_split(&*self.files, &wanted, &parent.dwarf).and_then(|dwarf| {
            let mut sets = self.sets.borrow_mut();
            let number = u32::try_from(sets.len()).ok()?;
            sets.push(Rc::new(Set::new(dwarf, Some(skeleton))));
            Some((number, 0))
        });
        self.split.borrow_mut().insert(signature, loaded);
        loaded.and_then(|(set, _)| self.type_unit(set, signature))
    }

    fn type_unit(&self, set: u32, signature: u64) -> Option<Die> {
        let (unit, offset) = self.set(set)?.by_signature(signature)?;
        Some(Die { set, unit, offset })
    }
}
