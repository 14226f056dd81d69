//! Containers of the standard libraries, in the form that gdb gives them with the printers of their makers: what is in them, not how they are made.
//!
//! What does not look as expected is printed as any structure: another library may have the same names.

use super::{Printer, text};
use crate::location::{Contents, Missing};
use crate::node::Node;
use crate::value::Value;

/// Most base classes within each other in which a field is looked for.
const DEEPEST: usize = 8;
/// Most nodes of a container that are walked through.
pub(super) const MOST_NODES: u64 = 1 << 12;
/// What is longer than any memory was not made yet, or is gone.
const LONGEST: u64 = 1 << 47;
/// Bytes of a node of a tree before its value, and where its links are: to its parent, and to what is left and right of it.
const TREE_HEAD: u64 = 32;
const PARENT: u64 = 8;
const LEFT: u64 = 16;
const RIGHT: u64 = 24;

/// A name without its template arguments, and without the inline namespace of versions.
pub(super) fn template(name: &str) -> String {
    let name = name.split('<').next().unwrap_or_default();
    name.replace("std::__cxx11::", "std::").replace("std::__debug::", "std::")
}

fn counted(name: &str, count: u64) -> String {
    format!("{name} with {count} element{}", if count == 1 { "" } else { "s" })
}

impl Printer<'_> {
    /// Prints a container of a standard library; whether it is one.
    pub(super) fn standard(&mut self, value: &Value, ty: &Node) -> bool {
        let Some(name) = self.place.store.qualified_name(ty) else { return false };
        let (start, left) = (self.out.len(), self.left);
        let printed = match &*template(&name) {
            "std::basic_string" if name.contains("<char,") || name.contains("<char>") => self.string(value),
            "std::vector" => self.vector(value),
            short @ ("std::map" | "std::multimap" | "std::set" | "std::multiset") => self.tree(value, short),
            short @ ("std::unordered_map"
            | "std::unordered_multimap"
            | "std::unordered_set"
            | "std::unordered_multiset") => self.table(value, short),
            _ => self.rust_container(value, ty, &name),
        };
        if printed.is_none() {
            self.out.truncate(start);
            self.left = left;
        }
        printed.is_some()
    }

    /// A field of a structure or of its base classes.
    pub(super) fn field(&mut self, value: &Value, name: &str) -> Option<Value> {
        self.field_within(value, name, DEEPEST)
    }

    fn field_within(&mut self, value: &Value, name: &str, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        let ty = self.place.store.strip(value.ty.as_ref()?)?;
        let members = self.place.members(value, &ty, self.memory);
        if let Some(found) = members.iter().find(|member| !member.is_base && member.name.as_deref() == Some(name)) {
            return Some(found.value.clone());
        }
        members.iter().filter(|member| member.is_base).find_map(|base| self.field_within(&base.value, name, depth))
    }

    pub(super) fn path(&mut self, value: &Value, names: &[&str]) -> Option<Value> {
        names.iter().try_fold(value.clone(), |value, name| self.field(&value, name))
    }

    pub(super) fn number(&mut self, value: &Value) -> Option<u64> {
        u64::try_from(value.integer(8, false, self.memory).ok()?).ok()
    }

    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        self.number(&Value::new(None, Contents::Memory(address)))
    }

    fn string(&mut self, value: &Value) -> Option<()> {
        let start = self.path(value, &["_M_dataplus", "_M_p"])?;
        let (start, len) = (self.number(&start)?, self.field(value, "_M_string_length")?);
        let len = self.number(&len).filter(|len| *len < LONGEST)?;
        self.text(start, len)
    }

    pub(super) fn text(&mut self, start: u64, len: u64) -> Option<()> {
        let len = usize::try_from(len).ok()?;
        let shown = len.min(self.limits.elements);
        let bytes = self.memory.read(start, shown);
        let known: Vec<i128> = bytes.iter().map_while(|byte| byte.map(i128::from)).collect();
        let is_known = known.len() == shown;
        self.push(&text::string(&known, "", shown < len || !is_known));
        if !is_known {
            self.missing(Missing::Unavailable);
        }
        Some(())
    }

    fn vector(&mut self, value: &Value) -> Option<()> {
        let fields = ["_M_start", "_M_finish", "_M_end_of_storage"];
        let [start, finish, end] = fields.map(|name| self.path(value, &["_M_impl", name]));
        let element = self.place.store.strip(start.as_ref()?.ty.as_ref()?)?;
        // Of bits, these are structures.
        if element.tag() != gimli::DW_TAG_pointer_type {
            return None;
        }
        let element = self.place.store.type_of(&element)?;
        let size = self.place.store.size_of(&element).filter(|size| *size > 0)?;
        let (start, finish, end) = (self.number(&start?)?, self.number(&finish?)?, self.number(&end?)?);
        let (len, room) = (finish.checked_sub(start)?, end.checked_sub(start)?);
        if len > room || room >= LONGEST {
            return None;
        }
        let (count, room) = (len / size, room / size);
        self.push(&format!("std::vector of length {count}, capacity {room}"));
        self.elements(count, |number| Some(Value::new(Some(element.clone()), Contents::Memory(start + number * size))))
    }

    /// Values in braces, if there are any, each as `at` has it.
    pub(super) fn elements(&mut self, count: u64, mut at: impl FnMut(u64) -> Option<Value>) -> Option<()> {
        if count == 0 {
            return Some(());
        }
        self.push(" = {");
        let (mut printed, mut number) = (0, 0);
        while number < count && self.left > 0 && !self.is_full() {
            self.separate(&mut printed);
            self.left -= 1;
            self.value(&at(number)?);
            number += 1;
        }
        self.push(if number < count { "...}" } else { "}" });
        Some(())
    }

    /// The type that a template has for a parameter.
    pub(super) fn argument(&self, ty: &Node, name: &str) -> Option<Node> {
        let is_it = |child: &&Node| {
            child.tag() == gimli::DW_TAG_template_type_parameter
                && self.place.store.name(child).as_deref() == Some(name)
        };
        let children = ty.children();
        self.place.store.type_of(children.iter().find(is_it)?)
    }

    fn tree(&mut self, value: &Value, name: &str) -> Option<()> {
        let tree = self.field(value, "_M_t")?;
        let element = self.argument(&self.place.store.strip(tree.ty.as_ref()?)?, "_Val")?;
        let implementation = self.field(&tree, "_M_impl")?;
        let header = self.field(&implementation, "_M_header")?.address()?;
        let count = self.field(&implementation, "_M_node_count")?;
        let count = self.number(&count)?;
        let mut nodes = Vec::new();
        let mut node = self.word(header + LEFT)?;
        while node != header && (nodes.len() as u64) < count.min(MOST_NODES) && nodes.len() < self.left {
            nodes.push(node);
            node = self.successor(node)?;
        }
        self.push(&counted(name, count));
        self.pairs(count, &nodes, TREE_HEAD, &element, name.ends_with("map"))
    }

    /// The next node of a tree in order.
    fn successor(&mut self, node: u64) -> Option<u64> {
        let mut at = self.word(node + RIGHT)?;
        if at != 0 {
            for _ in 0..MOST_NODES {
                match self.word(at + LEFT)? {
                    0 => return Some(at),
                    left => at = left,
                }
            }
            return None;
        }
        at = node;
        for _ in 0..MOST_NODES {
            let parent = self.word(at + PARENT)?;
            if self.word(parent + RIGHT)? != at {
                return Some(parent);
            }
            // From the last node, one comes to the header, whose parent is the root.
            if self.word(parent + PARENT)? == at {
                return Some(parent);
            }
            at = parent;
        }
        None
    }

    fn table(&mut self, value: &Value, name: &str) -> Option<()> {
        let table = self.field(value, "_M_h")?;
        let element = self.argument(&self.place.store.strip(table.ty.as_ref()?)?, "_Value")?;
        let count = self.field(&table, "_M_element_count")?;
        let count = self.number(&count)?;
        let first = self.path(&table, &["_M_before_begin", "_M_nxt"])?;
        let (mut node, mut nodes) = (self.number(&first)?, Vec::new());
        while node != 0 && (nodes.len() as u64) < count.min(MOST_NODES) && nodes.len() < self.left {
            nodes.push(node);
            node = self.word(node)?;
        }
        let align = element.unsigned(gimli::DW_AT_alignment).unwrap_or(8).max(8);
        self.push(&counted(name, count));
        self.pairs(count, &nodes, align, &element, name.ends_with("map"))
    }

    /// The values of nodes, so many bytes behind where each begins; of a map, keys in brackets before their values.
    fn pairs(&mut self, count: u64, nodes: &[u64], behind: u64, element: &Node, is_map: bool) -> Option<()> {
        if count == 0 {
            return Some(());
        }
        self.push(" = {");
        let mut printed = 0;
        for node in nodes {
            if self.left == 0 || self.is_full() {
                break;
            }
            self.separate(&mut printed);
            self.left -= 1;
            let value = Value::new(Some(element.clone()), Contents::Memory(node + behind));
            if is_map {
                let (key, value) = (self.field(&value, "first")?, self.field(&value, "second")?);
                self.push("[");
                self.value(&key);
                self.push("] = ");
                self.value(&value);
            } else {
                self.value(&value);
            }
        }
        self.push(if (printed as u64) < count { "...}" } else { "}" });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn names_of_templates() {
        assert_eq!(template("std::vector<int, std::allocator<int> >"), "std::vector");
        assert_eq!(template("std::__cxx11::basic_string<char, std::char_traits<char> >"), "std::basic_string");
        assert_eq!(template("alloc::vec::Vec<u8, alloc::alloc::Global>"), "alloc::vec::Vec");
    }
}
