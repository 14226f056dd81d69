//! Structures, classes, unions and arrays.

use super::{Printer, text};
use crate::location::{Contents, Missing, Place};
use crate::memory::Memory;
use crate::node::Node;
use crate::types::Dimension;
use crate::value::{Bytes, Member, Value};

/// So many equal elements in a row are counted instead of being printed.
const REPEATS: usize = 10;
/// Most bytes of an array that are looked at.
const MAX_ARRAY: u64 = 1 << 16;
/// Largest value of which it is asked whether anything of it is known at all.
const MAX_LOOK: u64 = 1 << 12;

impl Printer<'_> {
    /// Whether nothing of the value is known; then there is one word for all of it.
    fn is_unknown(&mut self, value: &Value, ty: &Node) -> bool {
        let Contents::Memory(address) = value.contents else { return false };
        let Some(size) = self.place.store.size_of(ty).filter(|size| (1..=MAX_LOOK).contains(size)) else {
            return false;
        };
        self.memory.read(address, size as usize).iter().all(Option::is_none)
    }

    pub(super) fn structure(&mut self, value: &Value, ty: &Node) {
        if self.is_unknown(value, ty) {
            return self.missing(Missing::Unavailable);
        }
        if self.standard(value, ty) {
            return;
        }
        if ty.is_rust() {
            return self.rust_structure(value, ty);
        }
        if ty.flag(gimli::DW_AT_declaration) {
            return self.push("<incomplete type>");
        }
        self.push("{");
        let children = ty.children();
        let (bases, fields): (Vec<_>, Vec<_>) =
            children.iter().partition(|child| child.tag() == gimli::DW_TAG_inheritance);
        let mut count = 0;
        for base in &bases {
            let is_virtual = base.entry.has_attr(gimli::DW_AT_virtuality);
            let ty = self.place.store.type_of(base).map(|ty| ty.die);
            if is_virtual && ty.is_some_and(|ty| !self.virtual_bases.insert(ty)) {
                continue;
            }
            let Some(member) = self.place.member(value, base, self.memory) else { continue };
            self.separate(&mut count);
            self.push(&format!("<{}> = ", member.name.as_deref().unwrap_or("?")));
            self.value(&member.value);
        }
        let mut has_fields = false;
        for field in &fields {
            if self.is_full() {
                break;
            }
            if let Some(member) = self.place.member(value, field, self.memory) {
                self.separate(&mut count);
                self.member(&member);
                has_fields = true;
            } else if let Some((name, value)) = self.static_member(field) {
                self.separate(&mut count);
                self.push(&format!("static {name} = "));
                let before = std::mem::replace(&mut self.in_static, true);
                self.value(&value);
                self.in_static = before;
                has_fields = true;
            }
        }
        if !has_fields {
            self.separate(&mut count);
            self.push("<No data fields>");
        }
        self.push("}");
    }

    pub(super) fn separate(&mut self, count: &mut usize) {
        if *count > 0 {
            self.push(", ");
        }
        *count += 1;
    }

    fn member(&mut self, member: &Member) {
        if let Some(name) = &member.name {
            self.push(&format!("{name} = "));
        }
        self.value(&member.value);
    }

    /// A static member of a class, wherever it is defined. Those of a static member's type are left out, which may be the same.
    fn static_member(&mut self, field: &Node) -> Option<(String, Value)> {
        let is_variable = [gimli::DW_TAG_variable, gimli::DW_TAG_member].contains(&field.tag());
        if !is_variable || self.in_static {
            return None;
        }
        let store = self.place.store;
        let name = store.name(field)?;
        let full = store.qualified_name(field)?;
        let definitions = store.named(&full).into_iter().filter_map(|found| store.node(found.die));
        let definition = definitions
            .filter(|node| node.tag() == gimli::DW_TAG_variable && !node.flag(gimli::DW_AT_declaration))
            .find(|node| store.qualified_name(node).as_ref() == Some(&full));
        let node = definition.unwrap_or_else(|| field.clone());
        let ty = store.type_of(&node);
        let size = ty.as_ref().and_then(|ty| store.size_of(ty)).unwrap_or(0);
        let contents = Place { frame: None, ..self.place }.contents(&node, size, self.memory);
        Some((name, Value::new(ty, contents)))
    }

    pub(super) fn array(&mut self, value: &Value, ty: &Node) {
        if self.is_unknown(value, ty) {
            return self.missing(Missing::Unavailable);
        }
        let dimensions = self.place.store.dimensions(ty);
        let Some(element) = self.place.store.type_of(ty) else { return self.missing(Missing::Unsupported) };
        self.dimension(value, &dimensions, &element);
    }

    fn dimension(&mut self, value: &Value, dimensions: &[Dimension], element: &Node) {
        let Some((first, inner)) = dimensions.split_first() else { return self.value(value) };
        let count = match self.place.count(first, self.memory) {
            Ok(Some(count)) => count,
            // A flexible array: nothing says where it ends.
            Ok(None) => 0,
            Err(why) => return self.missing(why),
        };
        let size = size_of_row(self.place, inner, element, self.memory);
        let Some(size) = size else { return self.missing(Missing::Unsupported) };
        let is_rust = element.is_rust();
        if let Some(mark) = self.character(element).filter(|_| inner.is_empty() && !is_rust)
            && self.characters(value, count, size, mark)
        {
            return;
        }
        self.push(if is_rust { "[" } else { "{" });
        // No more than can be looked at; what is behind that is not said to be equal or not.
        let looked_at = count.min(MAX_ARRAY / size.max(1)).min(MAX_ARRAY);
        let part = |number: u64| value.part(Some(element.clone()), number.saturating_mul(size));
        let mut printed = 0;
        let mut number = 0;
        while number < looked_at && self.left > 0 && !self.is_full() {
            self.separate(&mut printed);
            let bytes: Bytes = part(number).bytes(size, self.memory);
            let mut run = 1;
            while number + run < looked_at && part(number + run).bytes(size, self.memory) == bytes {
                run += 1;
            }
            let is_run = run >= REPEATS as u64;
            self.left = self.left.saturating_sub(if is_run { REPEATS } else { 1 });
            self.dimension(&part(number), inner, element);
            if is_run {
                self.push(&format!(" <repeats {run} times>"));
                number += run;
            } else {
                number += 1;
            }
        }
        if number < count {
            self.push("...");
        }
        self.push(if is_rust { "]" } else { "}" });
    }

    /// An array of characters; false if some of them have no value, so that they have to be printed one by one.
    fn characters(&mut self, value: &Value, count: u64, width: u64, mark: &str) -> bool {
        let width = width.max(1);
        let looked_at = count.min(MAX_ARRAY / width);
        let mut characters = Vec::new();
        for number in 0..looked_at {
            let part = value.part(None, number * width);
            match part.integer(width, false, self.memory) {
                Ok(character) => characters.push(character),
                Err(_) => return false,
            }
        }
        if looked_at == count && characters.last() == Some(&0) {
            characters.pop();
        }
        // A run of equal characters is printed as a whole, however long.
        let mut end = 0;
        while end < characters.len() && end < self.limits.elements {
            end += characters[end..].iter().take_while(|c| **c == characters[end]).count();
        }
        let cut = end < characters.len() || looked_at < count;
        self.push(&text::string(&characters[..end], mark, cut));
        true
    }
}

/// Bytes of one element of a dimension, which may be an array of further ones.
fn size_of_row(place: Place<'_>, inner: &[Dimension], element: &Node, memory: &mut dyn Memory) -> Option<u64> {
    let mut size = place.store.size_of(element)?;
    for dimension in inner {
        size = size.checked_mul(place.count(dimension, memory).ok()??)?;
    }
    Some(size)
}
