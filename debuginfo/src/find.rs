//! Names to addresses: functions with their clones and inlined instances, variables, source lines.

use crate::frame::Stack;
use crate::image::Image;
use crate::location::{Contents, Place};
use crate::memory::Memory;
use crate::node::Node;
use crate::store::{Die, Store};
use crate::value::Value;
use gimli::Reader as _;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Most places of one name or line.
const MAX_PLACES: usize = 10_000;
/// Most entries of a unit that are looked through for inlined functions.
const MAX_ENTRIES: usize = 1 << 24;

/// The first operation of where an argument is that was put onto the stack: relative to the frame's base, to RBP or to RSP.
const ON_STACK: [u8; 3] = [gimli::DW_OP_fbreg.0, gimli::DW_OP_breg6.0, gimli::DW_OP_breg7.0];

/// A place at which a function's code begins, in the file's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its address.
    pub address: u64,
    /// The function has no frame of its own there.
    pub is_inlined: bool,
}

/// A variable that is the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its name, with name spaces.
    pub name: String,
    /// Its address in the file's own terms.
    pub address: u64,
    /// Its type as the source writes it; none if there is no debug information for it.
    pub type_name: Option<String>,
    /// Bytes, if that is known.
    pub size: Option<u64>,
}

impl Image {
    /// Where the code of the functions with this name begins (`f`, `space::f`, or a mangled name): each copy that the compiler has
    /// made, and each place at which it is inlined. In ascending order.
    #[must_use]
    pub fn entries_of(&self, name: &str) -> Vec<Entry> {
        let mut found = BTreeSet::new();
        if let Some(store) = self.store() {
            let declared = store.named(name).into_iter().filter(|one| one.tag == gimli::DW_TAG_subprogram);
            let origins: BTreeSet<Die> =
                declared.filter_map(|one| store.node(one.die)).map(|node| store.origin(&node)).collect();
            let units: BTreeSet<(u32, u32)> = store.units().collect();
            if !origins.is_empty() {
                units.into_iter().for_each(|unit| store.instances(unit, &origins, &mut found));
            }
        }
        if found.is_empty() {
            let symbols = self.symbols_named(name).into_iter().map(|(address, _)| address);
            let code = symbols.filter(|address| self.function(*address).is_some_and(|(_, offset)| offset == 0));
            found.extend(code.map(|address| Entry { address, is_inlined: false }));
        }
        found.into_iter().take(MAX_PLACES).collect()
    }

    /// Where the code of a source line begins, in ascending order: starts of statements, one for each piece of code. `file` is the
    /// end of a path: `main.c`, `src/main.c`. Of a line without code, the next one that has any, as debuggers do.
    #[must_use]
    pub fn addresses_of_line(&self, file: &str, line: u64) -> Vec<u64> {
        self.line_with_code(file, line).map_or_else(Vec::new, |(_, addresses)| addresses)
    }

    /// As [`Self::addresses_of_line`], with the line that has the code; `None` if no line from there on has any.
    #[must_use]
    pub fn line_with_code(&self, file: &str, line: u64) -> Option<(u64, Vec<u64>)> {
        let store = self.store()?;
        // By line, since a line without code is answered by the next one.
        let mut rows: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (set, unit) in store.units().collect::<BTreeSet<_>>() {
            store.rows_of(set, unit, file, line, &mut rows);
        }
        let (line, addresses) = rows.into_iter().next()?;
        Some((line, addresses.into_iter().take(MAX_PLACES).collect()))
    }

    /// The names of all functions, with name spaces and without parameters: by symbols, and by debug information.
    #[must_use]
    pub fn function_names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.code_names().collect();
        if let Some(store) = self.store() {
            names.extend(store.function_names());
        }
        names
    }

    /// Where the arguments of the function that begins at `entry` are where its debug information says. Code that was not optimized
    /// puts them onto the stack first: then that is the second line's start, as debuggers have it; else it is the entry.
    #[must_use]
    pub fn arguments_ready(&self, entry: u64) -> u64 {
        let found = self.store().and_then(|store| {
            let unit = store.unit_at(entry)?;
            let function = store.function_at(unit, entry)?;
            let (start, end) = function.ranges().into_iter().find(|(start, end)| (*start..*end).contains(&entry))?;
            let is_start = start == entry && function.address(gimli::DW_AT_low_pc) == Some(entry);
            let on_stack = |child: &Node| {
                child.tag() == gimli::DW_TAG_formal_parameter
                    && matches!(child.entry.attr_value(gimli::DW_AT_location), Some(gimli::AttributeValue::Exprloc(it))
                        if it.0.to_slice().is_ok_and(|bytes| bytes.first().is_some_and(|first| ON_STACK.contains(first))))
            };
            if !is_start || !function.children().iter().any(on_stack) {
                return None;
            }
            store.second_row(unit, start, end)
        });
        found.unwrap_or(entry)
    }

    /// The variables with this name (`x`, `space::x`, or a mangled name) that are the same everywhere: global, and static ones of a
    /// file, class or function.
    #[must_use]
    pub fn globals(&self, name: &str) -> Vec<Global> {
        let mut found: Vec<Global> = Vec::new();
        if let Some(store) = self.store() {
            for declared in store.named(name).into_iter().take(MAX_PLACES) {
                let Some(node) = store.node(declared.die).filter(|node| node.tag() == gimli::DW_TAG_variable) else {
                    continue;
                };
                let Some((address, ty)) = store.global(&node) else { continue };
                found.push(Global {
                    name: declared.name.as_deref().unwrap_or(name).to_owned(),
                    address,
                    type_name: Some(store.type_name(ty.as_ref())),
                    size: ty.and_then(|ty| store.size_of(&ty)),
                });
            }
        }
        if found.is_empty() {
            let data = self.symbols_named(name).into_iter().filter(|(address, _)| self.variable(*address).is_some());
            found.extend(data.map(|(address, size)| Global {
                name: name.to_owned(),
                address,
                type_name: None,
                size: Some(size).filter(|size| *size > 0),
            }));
        }
        found.sort_by_key(|global| global.address);
        found.dedup_by_key(|global| global.address);
        found
    }
}

impl Store {
    /// Adds the instances of functions in a unit.
    fn instances(&self, (set, unit): (u32, u32), origins: &BTreeSet<Die>, found: &mut BTreeSet<Entry>) {
        let Some((dwarf, parsed)) = self.unit(set, unit) else { return };
        let mut cursor = parsed.entries();
        for _ in 0..MAX_ENTRIES {
            let Ok(Some(entry)) = cursor.next_dfs() else { break };
            let is_inlined = match entry.tag() {
                gimli::DW_TAG_subprogram => false,
                gimli::DW_TAG_inlined_subroutine => true,
                _ => continue,
            };
            let die = Die { set, unit, offset: entry.offset().0 };
            let node = Node { die, entry: entry.clone(), dwarf: dwarf.clone(), unit: parsed.clone() };
            if !origins.contains(&self.origin(&node)) {
                continue;
            }
            // The entry point, which need not be the lowest address.
            let start = node.address(gimli::DW_AT_entry_pc).or_else(|| node.address(gimli::DW_AT_low_pc));
            let start = start.or_else(|| node.ranges().first().map(|(start, _)| *start));
            found.extend(start.filter(|start| *start != 0).map(|address| Entry { address, is_inlined }));
            if found.len() >= MAX_PLACES {
                return;
            }
        }
    }

    /// Adds the starts of statements of a line, and of those behind it that have code.
    fn rows_of(&self, set: u32, unit: u32, file: &str, line: u64, rows: &mut BTreeMap<u64, BTreeSet<u64>>) {
        let Some((dwarf, parsed)) = self.unit(set, unit) else { return };
        let Some(program) = parsed.line_program.clone() else { return };
        let mut lines = program.rows();
        let mut fitting: BTreeMap<u64, bool> = BTreeMap::new();
        let mut before = None;
        while let Ok(Some((header, row))) = lines.next_row() {
            let number = row.line().map_or(0, std::num::NonZeroU64::get);
            let index = row.file_index();
            let fits = *fitting.entry(index).or_insert_with(|| {
                let path = crate::lines::path(&dwarf, &parsed, header, index);
                path.is_some_and(|path| crate::lines::ends_with(&path, file))
            });
            let here = (fits && row.is_stmt() && !row.end_sequence() && number >= line && row.address() != 0)
                .then_some(number);
            // One for each run of rows: the others go on with the same statement.
            if let Some(number) = here.filter(|_| before != here)
                && rows.first_key_value().is_none_or(|(first, _)| number <= *first)
            {
                rows.entry(number).or_default().insert(row.address());
            }
            before = if row.end_sequence() { None } else { here };
        }
    }

    /// The second address that the line table has of a piece of code.
    fn second_row(&self, (set, unit): (u32, u32), start: u64, end: u64) -> Option<u64> {
        let (_, parsed) = self.unit(set, unit)?;
        let mut lines = parsed.line_program.clone()?.rows();
        let mut second: Option<u64> = None;
        while let Ok(Some((_, row))) = lines.next_row() {
            let address = row.address();
            if !row.end_sequence() && start < address && address < end && second.is_none_or(|known| address < known) {
                second = Some(address);
            }
        }
        second
    }

    /// Address (in the file's own terms) and type of a variable that is the same everywhere.
    fn global(&self, node: &Node) -> Option<(u64, Option<Node>)> {
        let stack = Stack { frames: &[], fs_base: None };
        let place = Place { store: self, stack: &stack, frame: None, bias: 0, nesting: 0 };
        let ty = self.type_of(node);
        let size = ty.as_ref().and_then(|ty| self.size_of(ty)).unwrap_or(0);
        match place.contents(node, size, &mut crate::memory::Nothing) {
            Contents::Memory(address) if address != 0 => Some((address, ty)),
            _ => None,
        }
    }

    /// The variable that holds an address (in the file's own terms), with the path of fields and elements to it.
    pub(crate) fn describe_global(&self, node: &Node, address: u64) -> Option<String> {
        let (start, ty) = self.global(node)?;
        let offset = address.checked_sub(start)?;
        let ty = ty?;
        (offset < self.size_of(&ty)?)
            .then(|| format!("{}{}", self.qualified_name(node).unwrap_or_default(), self.path_in(&ty, offset)))
    }

    /// `.field[3]` for an offset in a type.
    pub(crate) fn path_in(&self, ty: &Node, offset: u64) -> String {
        let mut out = String::new();
        let (mut ty, mut offset) = (ty.clone(), offset);
        for _ in 0..crate::node::MAX_REFERENCES {
            let Some(inner) = self.strip(&ty) else { break };
            let next = match inner.tag() {
                gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                    let members = inner
                        .children()
                        .into_iter()
                        .filter(|child| [gimli::DW_TAG_member, gimli::DW_TAG_inheritance].contains(&child.tag()));
                    let mut found = None;
                    for member in members {
                        let Some(start) = member.unsigned(gimli::DW_AT_data_member_location) else { continue };
                        let Some(ty) = self.type_of(&member) else { continue };
                        let within = offset.checked_sub(start);
                        if let Some(within) =
                            within.filter(|within| self.size_of(&ty).is_some_and(|size| *within < size))
                        {
                            if let Some(name) = self.name(&member).filter(|_| member.tag() == gimli::DW_TAG_member) {
                                out.push_str(&format!(".{name}"));
                            }
                            found = Some((ty, within));
                            break;
                        }
                    }
                    found
                }
                gimli::DW_TAG_array_type => {
                    let element = self.type_of(&inner);
                    let dimensions = self.dimensions(&inner);
                    let size = element.as_ref().and_then(|element| self.size_of(element)).filter(|size| *size > 0);
                    element.zip(size).map(|(element, size)| {
                        let mut number = offset / size;
                        let mut indices = Vec::new();
                        for dimension in dimensions.iter().skip(1).rev() {
                            let count = dimension.fixed().filter(|count| *count > 0).unwrap_or(u64::MAX);
                            indices.push(number % count);
                            number /= count;
                        }
                        indices.push(number);
                        indices.iter().rev().for_each(|index| out.push_str(&format!("[{index}]")));
                        (element, offset % size)
                    })
                }
                _ => None,
            };
            let Some((next_type, next_offset)) = next else { break };
            (ty, offset) = (next_type, next_offset);
        }
        if offset > 0 {
            out.push_str(&format!("+{offset}"));
        }
        out
    }
}

impl Image {
    /// What is at an address (in the file's own terms): `function+4`, `variable`, `variable.field[3]`.
    #[must_use]
    pub fn describe(&self, address: u64) -> Option<String> {
        let with = |(name, offset): (String, u64)| if offset == 0 { name } else { format!("{name}+{offset:#x}") };
        if let Some(found) = self.function(address) {
            return Some(with(found));
        }
        let (name, offset) = self.variable(address)?;
        let exact = self.store().and_then(|store| {
            let nodes =
                store.named(name.split('.').next().unwrap_or(&name)).into_iter().filter_map(|one| store.node(one.die));
            nodes
                .filter(|node| node.tag() == gimli::DW_TAG_variable)
                .find_map(|node| store.describe_global(&node, address))
        });
        exact.or_else(|| Some(with((name, offset))))
    }
}

impl Stack<'_> {
    /// What the source may call an address of a block, by a variable of a frame that points into the block: `pointer->field[3]`. The address
    /// may lie behind the block.
    pub fn describe_pointed(
        &self,
        frame: usize,
        address: u64,
        block: &Range<u64>,
        memory: &mut dyn Memory,
    ) -> Option<String> {
        let place = self.place(frame)?;
        let scopes = place.store.scopes(self.frames.get(frame)?.address);
        let all = scopes.iter().flat_map(|scope| scope.locals.iter().chain(&scope.arguments));
        let named = all.filter_map(|one| {
            let value = place.value_of(one, memory);
            let ty = place.store.strip(value.ty.as_ref()?)?;
            let points = [gimli::DW_TAG_pointer_type, gimli::DW_TAG_reference_type].contains(&ty.tag());
            let target = place.target(&value, memory).ok().filter(|_| points)?;
            let start = target.address().filter(|start| *start >= block.start && *start <= block.end)?;
            let ty = target.ty?;
            let size = place.store.size_of(&ty).filter(|size| *size > 0)?;
            let offset = address.checked_sub(start)?;
            let path = place.store.path_in(&ty, offset % size);
            Some(match (offset / size, path.strip_prefix('.')) {
                (0, Some(field)) => format!("{}->{field}", one.name),
                (index, _) => format!("{}[{index}]{path}", one.name),
            })
        });
        // Fields tell more than numbers.
        let mut named: Vec<String> = named.collect();
        named.sort_by_key(|name| !(name.contains("->") || name.contains("].")));
        named.into_iter().next()
    }

    /// The variable or part of a variable of a frame that holds an address: `local.field[3]`.
    pub fn describe_local(&self, frame: usize, address: u64, memory: &mut dyn Memory) -> Option<String> {
        let place = self.place(frame)?;
        let scopes = place.store.scopes(self.frames.get(frame)?.address);
        let all = scopes.iter().flat_map(|scope| scope.locals.iter().chain(&scope.arguments));
        all.into_iter().find_map(|one| {
            let Value { ty: Some(ty), contents: Contents::Memory(start), .. } = place.value_of(one, memory) else {
                return None;
            };
            let offset = address.checked_sub(start)?;
            (offset < place.store.size_of(&ty)?).then(|| format!("{}{}", one.name, place.store.path_in(&ty, offset)))
        })
    }
}
