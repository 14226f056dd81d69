//! Which functions an address is in, inlined ones included, and the variables that are in scope there.

use crate::node::{MAX_REFERENCES, Node};
use crate::store::{Die, Store};
use std::collections::HashSet;
use std::rc::Rc;

/// Most entries of one unit.
const MAX_ENTRIES: usize = 1 << 26;
/// Most variables of one function that are listed.
const MAX_VARIABLES: usize = 1000;

/// A variable or parameter in scope.
#[derive(Clone)]
pub(crate) struct InScope {
    pub name: String,
    pub node: Node,
}

/// A function at an address, with what is in scope.
#[derive(Clone)]
pub(crate) struct FunctionScope {
    pub function: Node,
    pub is_inlined: bool,
    pub arguments: Vec<InScope>,
    /// Innermost block first, in the order of the source within each.
    pub locals: Vec<InScope>,
}

/// Ranges of code and the functions that they belong to: start, end, offset of the entry.
pub(crate) type Functions = Vec<(u64, u64, usize)>;

impl Store {
    /// All functions of a unit that have code, in ascending order.
    pub fn functions(&self, (set, unit): (u32, u32)) -> Rc<Functions> {
        if let Some(known) = self.functions.borrow().get(&(set, unit)) {
            return Rc::clone(known);
        }
        let mut all = Vec::new();
        if let Some((dwarf, parsed)) = self.unit(set, unit) {
            let mut cursor = parsed.entries();
            let mut entries = 0;
            while let Ok(Some(entry)) = cursor.next_dfs() {
                entries += 1;
                if entries > MAX_ENTRIES {
                    break;
                }
                if entry.tag() != gimli::DW_TAG_subprogram {
                    continue;
                }
                let Ok(mut ranges) = dwarf.die_ranges(&parsed, entry) else { continue };
                while let Ok(Some(range)) = ranges.next() {
                    if range.begin < range.end && range.begin != 0 {
                        all.push((range.begin, range.end, entry.offset().0));
                    }
                }
            }
        }
        all.sort_unstable();
        let all = Rc::new(all);
        self.functions.borrow_mut().insert((set, unit), Rc::clone(&all));
        all
    }

    /// The function of a unit whose code holds an address.
    pub fn function_at(&self, unit: (u32, u32), address: u64) -> Option<Node> {
        let functions = self.functions(unit);
        let behind = functions.partition_point(|(start, ..)| *start <= address);
        let near = functions[..behind].iter().rev().take(64);
        let (_, _, offset) = near.filter(|(_, end, _)| address < *end).min_by_key(|(start, end, _)| end - start)?;
        self.node(Die { set: unit.0, unit: unit.1, offset: *offset })
    }

    /// The functions that an address is in, innermost first; all but the last are inlined.
    pub fn scopes(&self, address: u64) -> Vec<FunctionScope> {
        let Some(unit) = self.unit_at(address) else { return Vec::new() };
        let Some(function) = self.function_at(unit, address) else { return Vec::new() };
        let mut scopes = Vec::new();
        let mut next = Some((function, false));
        while let Some((function, is_inlined)) = next.take() {
            let mut scope = FunctionScope { function, is_inlined, arguments: Vec::new(), locals: Vec::new() };
            let mut block = Some(scope.function.clone());
            let mut depth = 0;
            while let Some(inner) = block.take() {
                let mut locals = Vec::new();
                let mut named = HashSet::new();
                for child in inner.children() {
                    match child.tag() {
                        gimli::DW_TAG_formal_parameter | gimli::DW_TAG_variable => {
                            named.insert(self.origin(&child));
                            self.add(child, &mut scope.arguments, &mut locals);
                        }
                        gimli::DW_TAG_lexical_block | gimli::DW_TAG_try_block | gimli::DW_TAG_catch_block
                            if child.covers(address) =>
                        {
                            block = Some(child);
                        }
                        gimli::DW_TAG_inlined_subroutine if child.covers(address) => next = Some((child, true)),
                        _ => {}
                    }
                }
                // What the compiler has nothing to say about here stands at the abstract function alone.
                for child in self.abstract_children(&inner) {
                    if named.insert(self.origin(&child)) {
                        self.add(child, &mut scope.arguments, &mut locals);
                    }
                }
                locals.append(&mut scope.locals);
                scope.locals = locals;
                depth += 1;
                if depth == MAX_REFERENCES {
                    break;
                }
            }
            scopes.push(scope);
            if scopes.len() == MAX_REFERENCES {
                break;
            }
        }
        scopes.reverse();
        scopes
    }

    fn abstract_children(&self, block: &Node) -> Vec<Node> {
        let Some(origin) = self.reference(block, gimli::DW_AT_abstract_origin) else { return Vec::new() };
        let tags = [gimli::DW_TAG_formal_parameter, gimli::DW_TAG_variable];
        origin.children().into_iter().filter(|child| tags.contains(&child.tag())).collect()
    }

    fn add(&self, child: Node, arguments: &mut Vec<InScope>, locals: &mut Vec<InScope>) {
        // A declaration of what is defined elsewhere.
        if child.flag(gimli::DW_AT_declaration) || arguments.len() + locals.len() >= MAX_VARIABLES {
            return;
        }
        let Some(name) = self.name(&child) else { return };
        let list = if child.tag() == gimli::DW_TAG_formal_parameter { arguments } else { locals };
        list.push(InScope { name, node: child });
    }
}
