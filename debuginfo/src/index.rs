//! What a unit declares: functions, variables and types by name, with the name spaces that they are in.

use crate::node::Node;
use crate::section::Reader;
use crate::store::{Die, Store};
use gimli::{DwTag, EntriesTreeNode};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// How deep name spaces and types are followed into each other.
const MAX_DEPTH: usize = 32;
/// Most entries of all units that are listed.
const MAX_ENTRIES: usize = 1 << 24;

/// A function, variable or type.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub die: Die,
    pub tag: DwTag,
    /// With the name spaces and types around it; none where the name stands at the entry that this one completes.
    pub name: Option<Rc<str>>,
    /// The name without what is around it begins here.
    pub last: usize,
    pub is_declaration: bool,
}

/// What a unit declares.
#[derive(Default)]
pub(crate) struct Outline {
    pub all: Vec<Declared>,
    by_offset: HashMap<usize, u32>,
}

impl Outline {
    pub fn at(&self, offset: usize) -> Option<&Declared> {
        self.all.get(*self.by_offset.get(&offset)? as usize)
    }
}

/// What all units declare, as far as it was asked for.
#[derive(Default)]
pub(crate) struct Index {
    outlines: RefCell<HashMap<(u32, u32), Rc<Outline>>>,
    by_name: OnceCell<HashMap<Rc<str>, Vec<Declared>>>,
}

impl Store {
    /// What a unit declares.
    pub fn outline(&self, (set, unit): (u32, u32)) -> Rc<Outline> {
        if let Some(known) = self.index.outlines.borrow().get(&(set, unit)) {
            return Rc::clone(known);
        }
        let outline = Rc::new(self.list(set, unit));
        self.index.outlines.borrow_mut().insert((set, unit), Rc::clone(&outline));
        outline
    }

    fn list(&self, set: u32, unit: u32) -> Outline {
        let mut outline = Outline::default();
        let Some((dwarf, parsed)) = self.unit(set, unit) else { return outline };
        let Ok(mut tree) = parsed.entries_tree(None) else { return outline };
        if let Ok(root) = tree.root() {
            let mut lister =
                Lister { store: self, dwarf: &dwarf, unit: &parsed, die: (set, unit), out: &mut outline.all };
            lister.children(root, "", 0);
        }
        outline.by_offset =
            outline.all.iter().enumerate().map(|(number, one)| (one.die.offset, number as u32)).collect();
        outline
    }

    /// The name with the name spaces and types around it; of a method, also those of its class.
    pub fn qualified_name(&self, node: &Node) -> Option<String> {
        let origin = self.origin(node);
        let outline = self.outline((origin.set, origin.unit));
        match outline.at(origin.offset).and_then(|declared| declared.name.as_deref()) {
            Some(name) => Some(name.to_owned()),
            None => self.name(node),
        }
    }

    /// All that has this name: with what is around it, or without.
    pub fn named(&self, name: &str) -> Vec<Declared> {
        let last = last_part(name);
        let Some(found) = self.by_name().get(last) else { return Vec::new() };
        let fits = |declared: &&Declared| {
            let full = declared.name.as_deref().unwrap_or_default();
            full == name || full.strip_suffix(name).is_some_and(|before| before.ends_with("::"))
        };
        found.iter().filter(fits).cloned().collect()
    }

    /// Every name of a function, variable or type, without what is around it.
    fn by_name(&self) -> &HashMap<Rc<str>, Vec<Declared>> {
        self.index.by_name.get_or_init(|| {
            let mut all: HashMap<Rc<str>, Vec<Declared>> = HashMap::new();
            let mut count = 0;
            for unit in self.units() {
                let outline = self.outline(unit);
                for declared in &outline.all {
                    // Where an entry completes another one, its name stands there.
                    let named = match declared.name {
                        Some(_) => Some(declared.clone()),
                        None => self.node(declared.die).and_then(|node| {
                            let name: Rc<str> = self.qualified_name(&node)?.into();
                            let last = name.len() - last_part(&name).len();
                            Some(Declared { name: Some(name), last, ..declared.clone() })
                        }),
                    };
                    let Some(named) = named else { continue };
                    let Some(key) = named.name.as_deref().and_then(|name| name.get(named.last..)) else { continue };
                    count += 1;
                    if count > MAX_ENTRIES {
                        return all;
                    }
                    match all.get_mut(key) {
                        Some(list) => list.push(named),
                        None => drop(all.insert(key.into(), vec![named])),
                    }
                }
            }
            all
        })
    }

    /// The names of all functions.
    pub fn function_names(&self) -> impl Iterator<Item = String> {
        let functions = self.by_name().values().flatten().filter(|one| one.tag == gimli::DW_TAG_subprogram);
        functions.filter_map(|one| one.name.as_deref().map(str::to_owned))
    }

    /// The full definition of a type by its name with everything around it.
    pub fn find_type(&self, name: &str, tag: DwTag) -> Option<Die> {
        let is_class = |tag| tag == gimli::DW_TAG_class_type || tag == gimli::DW_TAG_structure_type;
        let same = |other: DwTag| other == tag || (is_class(other) && is_class(tag));
        let fits = |d: &&Declared| same(d.tag) && !d.is_declaration && d.name.as_deref() == Some(name);
        self.by_name().get(last_part(name))?.iter().find(fits).map(|declared| declared.die)
    }
}

/// A name without the name spaces around it: `b<c::d>` of `a::b<c::d>`.
pub(crate) fn last_part(name: &str) -> &str {
    let bytes = name.as_bytes();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => start = at + 2,
            _ => {}
        }
    }
    name.get(start..).unwrap_or(name)
}

struct Lister<'a> {
    store: &'a Store,
    dwarf: &'a crate::section::Dwarf,
    unit: &'a crate::store::Unit,
    die: (u32, u32),
    out: &'a mut Vec<Declared>,
}

impl Lister<'_> {
    fn children(&mut self, node: EntriesTreeNode<'_, '_, Reader>, prefix: &str, depth: usize) {
        use gimli::Reader as _;
        if depth == MAX_DEPTH {
            return;
        }
        let mut children = node.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let tag = entry.tag();
            let scope = match tag {
                gimli::DW_TAG_namespace | gimli::DW_TAG_module => true,
                gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
                | gimli::DW_TAG_interface_type => true,
                gimli::DW_TAG_subprogram
                | gimli::DW_TAG_variable
                | gimli::DW_TAG_member
                | gimli::DW_TAG_typedef
                | gimli::DW_TAG_base_type => false,
                _ => continue,
            };
            // Members other than static ones have no name of their own to be found by.
            if tag == gimli::DW_TAG_member && !entry.has_attr(gimli::DW_AT_external) {
                continue;
            }
            let own = entry.attr_value(gimli::DW_AT_name);
            let own = own.and_then(|name| self.dwarf.attr_string(self.unit, name).ok());
            let own = own.and_then(|name| Some(name.to_string_lossy().ok()?.into_owned()));
            let anonymous = || matches!(tag, gimli::DW_TAG_namespace).then(|| "(anonymous namespace)".to_owned());
            // Of a type in a unit of its own, the others have no more than its signature.
            let elsewhere = || {
                let die = Die { set: self.die.0, unit: self.die.1, offset: entry.offset().0 };
                let full = self.store.resolve(die, entry.attr_value(gimli::DW_AT_signature)?)?;
                self.store.name(&self.store.node(full)?)
            };
            let own = own.or_else(anonymous).or_else(elsewhere);
            let mut full: Option<Rc<str>> = None;
            let mut last = 0;
            if let Some(own) = own {
                last = if prefix.is_empty() { 0 } else { prefix.len() + 2 };
                full = Some(if prefix.is_empty() { own.into() } else { format!("{prefix}::{own}").into() });
            }
            if !matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_module) {
                let is_declaration = entry.has_attr(gimli::DW_AT_declaration);
                let die = Die { set: self.die.0, unit: self.die.1, offset: entry.offset().0 };
                self.out.push(Declared { die, tag, name: full.clone(), last, is_declaration });
            }
            if scope {
                let inner = full.unwrap_or_else(|| prefix.into());
                self.children(child, &inner, depth + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::last_part;

    #[test]
    fn last_parts() {
        assert_eq!(last_part("main"), "main");
        assert_eq!(last_part("a::b<c::d>"), "b<c::d>");
        assert_eq!(last_part("a::{impl#0}::f"), "f");
        assert_eq!(last_part("a::"), "");
        assert_eq!(last_part("operator<"), "operator<");
    }
}
