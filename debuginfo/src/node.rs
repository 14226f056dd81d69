//! A debugging entry with its attributes, its relatives and its name.

use crate::section::{Dwarf, Reader};
use crate::store::{Die, Store, Unit};
use gimli::{AttributeValue, DwAt, DwLang, DwTag, UnitOffset};
use std::rc::Rc;
use std::sync::Arc;

/// Most references that are followed from one entry to the next: what a log brings may refer in a circle.
pub(crate) const MAX_REFERENCES: usize = 64;

/// Most children of one entry.
const MAX_CHILDREN: usize = 1 << 20;

/// A debugging entry.
#[derive(Clone)]
pub(crate) struct Node {
    pub die: Die,
    pub entry: gimli::DebuggingInformationEntry<Reader>,
    pub dwarf: Arc<Dwarf>,
    pub unit: Rc<Unit>,
}

impl Store {
    pub fn node(&self, die: Die) -> Option<Node> {
        let (dwarf, unit) = self.unit(die.set, die.unit)?;
        let entry = unit.entry(UnitOffset(die.offset)).ok()?;
        Some(Node { die, entry, dwarf, unit })
    }

    /// The entry that an attribute refers to.
    pub fn reference(&self, node: &Node, attribute: DwAt) -> Option<Node> {
        self.node(self.resolve(node.die, node.entry.attr_value(attribute)?)?)
    }

    /// An attribute of the entry, or of the one that it completes (`DW_AT_abstract_origin`, `DW_AT_specification`), with
    /// the entry that has it.
    pub fn inherited(&self, node: &Node, attribute: DwAt) -> Option<(AttributeValue<Reader>, Node)> {
        let mut node = node.clone();
        for _ in 0..MAX_REFERENCES {
            if let Some(value) = node.entry.attr_value(attribute) {
                return Some((value, node));
            }
            let next = self.reference(&node, gimli::DW_AT_abstract_origin);
            node = next.or_else(|| self.reference(&node, gimli::DW_AT_specification))?;
        }
        None
    }

    /// The name, wherever it stands.
    pub fn name(&self, node: &Node) -> Option<String> {
        let (value, owner) = self.inherited(node, gimli::DW_AT_name)?;
        owner.text(value)
    }

    /// The mangled name, wherever it stands.
    pub fn linkage_name(&self, node: &Node) -> Option<String> {
        let find = |attribute| self.inherited(node, attribute).and_then(|(value, owner)| owner.text(value));
        find(gimli::DW_AT_linkage_name).or_else(|| find(gimli::DW_AT_MIPS_linkage_name))
    }

    /// The entry of the type, wherever it is said.
    pub fn type_of(&self, node: &Node) -> Option<Node> {
        let (value, owner) = self.inherited(node, gimli::DW_AT_type)?;
        self.node(self.resolve(owner.die, value)?)
    }

    /// The root of everything that the entry completes: two entries are of the same function or variable if theirs is the same.
    pub fn origin(&self, node: &Node) -> Die {
        let mut node = node.clone();
        for _ in 0..MAX_REFERENCES {
            let next = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification, gimli::DW_AT_signature];
            match next.into_iter().find_map(|attribute| self.reference(&node, attribute)) {
                Some(next) => node = next,
                None => break,
            }
        }
        node.die
    }
}

impl Node {
    pub fn tag(&self) -> DwTag {
        self.entry.tag()
    }

    pub fn text(&self, value: AttributeValue<Reader>) -> Option<String> {
        use gimli::Reader as _;
        let text = self.dwarf.attr_string(&self.unit, value).ok()?;
        Some(text.to_string_lossy().ok()?.into_owned())
    }

    pub fn unsigned(&self, attribute: DwAt) -> Option<u64> {
        match self.entry.attr_value(attribute)? {
            AttributeValue::FileIndex(index) => Some(index),
            value => value.udata_value(),
        }
    }

    pub fn signed(&self, attribute: DwAt) -> Option<i64> {
        let attribute = self.entry.attr(attribute)?;
        attribute.sdata_value().or_else(|| attribute.udata_value().map(u64::cast_signed))
    }

    pub fn flag(&self, attribute: DwAt) -> bool {
        matches!(self.entry.attr_value(attribute), Some(AttributeValue::Flag(true)))
    }

    /// An address attribute, in the file's own terms.
    pub fn address(&self, attribute: DwAt) -> Option<u64> {
        self.dwarf.attr_address(&self.unit, self.entry.attr_value(attribute)?).ok().flatten()
    }

    /// Its ranges of code, in the file's own terms, as (start, end).
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        let Ok(mut ranges) = self.dwarf.die_ranges(&self.unit, &self.entry) else { return all };
        while let Ok(Some(range)) = ranges.next() {
            // A function that the linker has dropped is at 0.
            if range.begin < range.end && range.begin != 0 {
                all.push((range.begin, range.end));
            }
        }
        all
    }

    pub fn covers(&self, address: u64) -> bool {
        self.ranges().iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    pub fn children(&self) -> Vec<Node> {
        let mut all = Vec::new();
        if !self.entry.has_children() {
            return all;
        }
        let Ok(mut tree) = self.unit.entries_tree(Some(UnitOffset(self.die.offset))) else { return all };
        let Ok(root) = tree.root() else { return all };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            if all.len() == MAX_CHILDREN {
                break;
            }
            let entry = child.entry().clone();
            let die = Die { offset: entry.offset().0, ..self.die };
            all.push(Self { die, entry, dwarf: Arc::clone(&self.dwarf), unit: Rc::clone(&self.unit) });
        }
        all
    }

    pub fn language(&self) -> Option<DwLang> {
        let root = self.unit.entry(self.unit.header.root_offset()).ok()?;
        match root.attr_value(gimli::DW_AT_language)? {
            AttributeValue::Language(language) => Some(language),
            _ => None,
        }
    }

    pub fn is_rust(&self) -> bool {
        self.language() == Some(gimli::DW_LANG_Rust)
    }
}
