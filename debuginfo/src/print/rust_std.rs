//! Containers of Rust's standard library, in the form that gdb gives them with rustc's printers: what is in them, not how they are made.
//!
//! Their fields have other names from version to version; what does not look as expected is printed as any structure.

use super::Printer;
use super::standard::{MOST_NODES, template};
use crate::location::Contents;
use crate::node::Node;
use crate::value::Value;

/// Deepest tree that a `BTreeMap` can be: each node but the root has five entries at least.
const DEEPEST: u64 = 32;
/// Bytes of a pointer.
const WORD: u64 = 8;
/// Set in the control byte of a slot of a hash table that holds nothing (hashbrown).
const EMPTY: u8 = 1 << 7;

impl Printer<'_> {
    /// Prints a container of Rust's standard library of this name; none if it is another one.
    pub(super) fn rust_container(&mut self, value: &Value, ty: &Node, name: &str) -> Option<()> {
        if ty.is_rust() && ["&[", "&mut ["].iter().any(|start| name.starts_with(start)) {
            return self.rust_slice(value, name);
        }
        match &*template(name) {
            "alloc::string::String" => self.rust_string(value),
            "alloc::vec::Vec" => self.rust_vector(value, ty),
            "alloc::collections::btree::map::BTreeMap" => self.rust_tree(value, ty, "BTreeMap"),
            "alloc::collections::btree::set::BTreeSet" => {
                let map = self.field(value, "map")?;
                let ty = self.place.store.strip(map.ty.as_ref()?)?;
                self.rust_tree(&map, &ty, "BTreeSet")
            }
            "std::collections::hash::map::HashMap" => {
                let table = self.path(value, &["base", "table"])?;
                self.rust_table(&table, "HashMap")
            }
            "std::collections::hash::set::HashSet" => {
                let table = self.path(value, &["base", "map", "table"])?;
                self.rust_table(&table, "HashSet")
            }
            _ => None,
        }
    }

    /// The same field of what it is in, as long as there is one: numbers and pointers lie in several structures.
    fn innermost(&mut self, value: &Value, name: &str) -> Value {
        let mut value = value.clone();
        while let Some(inner) = self.field(&value, name) {
            value = inner;
        }
        value
    }

    fn rust_slice(&mut self, value: &Value, name: &str) -> Option<()> {
        let (start, len) = (self.field(value, "data_ptr")?, self.field(value, "length")?);
        let element = self.place.store.type_of(&self.place.store.strip(start.ty.as_ref()?)?)?;
        let size = self.place.store.size_of(&element)?;
        let (start, count) = (self.number(&start)?, self.number(&len)?);
        self.push(&format!("{name}(size={count})"));
        self.elements(count, |number| Some(Value::new(Some(element.clone()), Contents::Memory(start + number * size))))
    }

    /// Where the elements of a `Vec` are, and how many there are: behind one structure more or less, by the version.
    fn rust_buffer(&mut self, value: &Value) -> Option<(u64, u64)> {
        let buffer = self.field(value, "buf")?;
        let buffer = self.field(&buffer, "inner").unwrap_or(buffer);
        let pointer = self.path(&buffer, &["ptr"])?;
        let pointer = self.innermost(&pointer, "pointer");
        let len = self.field(value, "len")?;
        Some((self.number(&pointer)?, self.number(&len)?))
    }

    fn rust_string(&mut self, value: &Value) -> Option<()> {
        let bytes = self.field(value, "vec")?;
        let (start, len) = self.rust_buffer(&bytes)?;
        self.text(start, len)
    }

    fn rust_vector(&mut self, value: &Value, ty: &Node) -> Option<()> {
        let element = self.argument(ty, "T")?;
        let size = self.place.store.size_of(&element)?;
        let (start, count) = self.rust_buffer(value)?;
        self.push(&format!("Vec(size={count})"));
        self.elements(count, |number| Some(Value::new(Some(element.clone()), Contents::Memory(start + number * size))))
    }

    fn rust_tree(&mut self, map: &Value, ty: &Node, name: &str) -> Option<()> {
        let len = self.field(map, "length")?;
        let count = self.number(&len)?;
        let mut entries = Vec::new();
        let types = [self.argument(ty, "K")?, self.argument(ty, "V")?];
        if count > 0 {
            let root = self.field(map, "root")?;
            let root = self.rust_variant(&root).filter(|root| root.name.as_deref() == Some("Some"))?;
            let root = self.field(&root.value, "__0")?;
            let (height, node) = (self.field(&root, "height")?, self.field(&root, "node")?);
            let node = self.innermost(&node, "pointer");
            let leaf = self.place.store.type_of(&self.place.store.strip(node.ty.as_ref()?)?)?;
            let (height, node) = (self.number(&height).filter(|height| *height < DEEPEST)?, self.number(&node)?);
            let most = count.min(MOST_NODES).min(self.left as u64);
            self.rust_entries(&leaf, &types, (node, height), most, &mut entries)?;
        }
        self.push(&format!("{name}(size={count})"));
        let value = |address, ty: &Node| Value::new(Some(ty.clone()), Contents::Memory(address));
        let entries = entries.into_iter().map(|(key, of)| (value(key, &types[0]), Some(value(of, &types[1]))));
        self.rust_pairs(count, entries.collect(), name.ends_with("Map"))
    }

    /// Where the keys and values of a tree's nodes are, from this node down: at most so many, in order.
    fn rust_entries(
        &mut self,
        leaf: &Node,
        types: &[Node; 2],
        (node, height): (u64, u64),
        most: u64,
        entries: &mut Vec<(u64, u64)>,
    ) -> Option<()> {
        let here = Value::new(Some(leaf.clone()), Contents::Memory(node));
        let len = self.field(&here, "len")?;
        let len = u64::try_from(len.integer(2, false, self.memory).ok()?).ok()?;
        let [keys, values] = ["keys", "vals"].map(|name| self.field(&here, name));
        let (keys, values) = (keys?.address()?, values?.address()?);
        let [key, value] = [0, 1].map(|number: usize| self.place.store.size_of(&types[number]));
        let (key, value) = (key?, value?);
        // An inner node begins with what a leaf has, and has its children behind that.
        let children = node + self.place.store.size_of(leaf)?;
        for number in 0..=len {
            if height > 0 {
                let child = self.word(children + number * WORD)?;
                self.rust_entries(leaf, types, (child, height - 1), most, entries)?;
            }
            if entries.len() as u64 >= most {
                break;
            }
            if number < len {
                entries.push((keys + number * key, values + number * value));
            }
        }
        Some(())
    }

    fn rust_table(&mut self, table: &Value, name: &str) -> Option<()> {
        let element = self.argument(&self.place.store.strip(table.ty.as_ref()?)?, "T")?;
        let size = self.place.store.size_of(&element)?;
        let inner = self.field(table, "table")?;
        let [mask, items, control] = ["bucket_mask", "items", "ctrl"].map(|name| self.field(&inner, name));
        let control = self.innermost(&control?, "pointer");
        let (mask, count, control) = (self.number(&mask?)?, self.number(&items?)?, self.number(&control)?);
        let mut entries = Vec::new();
        for slot in 0..=mask.min(MOST_NODES) {
            if entries.len() as u64 >= count.min(self.left as u64) {
                break;
            }
            let full = self.memory.read(control + slot, 1).first().copied().flatten()?;
            if full & EMPTY == 0 {
                // They lie below the control bytes, the first one next to them.
                let value = Value::new(Some(element.clone()), Contents::Memory(control - (slot + 1) * size));
                let [key, of] = ["__0", "__1"].map(|name| self.field(&value, name));
                entries.push((key?, of));
            }
        }
        self.push(&format!("{name}(size={count})"));
        self.rust_pairs(count, entries, name.ends_with("Map"))
    }

    /// Entries in braces, if there are any; of a map, keys in brackets before their values.
    fn rust_pairs(&mut self, count: u64, entries: Vec<(Value, Option<Value>)>, is_map: bool) -> Option<()> {
        if count == 0 {
            return Some(());
        }
        self.push(" = {");
        let mut printed = 0;
        for (key, value) in &entries {
            if self.left == 0 || self.is_full() {
                break;
            }
            self.separate(&mut printed);
            self.left -= 1;
            match value.as_ref().filter(|_| is_map) {
                Some(value) => {
                    self.push("[");
                    self.value(key);
                    self.push("] = ");
                    self.value(value);
                }
                None => self.value(key),
            }
        }
        self.push(if (printed as u64) < count { "...}" } else { "}" });
        Some(())
    }
}
