//! Values as text, in the form in which gdb prints them.

mod aggregate;
mod float;
mod rust;
mod rust_std;
mod scalar;
mod standard;
mod text;

use crate::location::{Contents, Missing, Place};
use crate::memory::Memory;
use crate::store::Die;
use crate::value::Value;
use std::collections::HashSet;

/// How much is printed of a value.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Elements of arrays and characters of texts, all in all.
    pub elements: usize,
    /// Structures and arrays in each other.
    pub depth: usize,
    /// Bytes of text.
    pub length: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { elements: 200, depth: 20, length: 2000 }
    }
}

/// Prints one value.
pub(crate) struct Printer<'a> {
    place: Place<'a>,
    memory: &'a mut dyn Memory,
    limits: Limits,
    /// Elements and characters that may still be printed.
    left: usize,
    depth: usize,
    /// Within a static member of a class.
    in_static: bool,
    /// Virtual base classes that were printed: each is there once.
    virtual_bases: HashSet<Die>,
    out: String,
}

/// A value as text.
pub(crate) fn print(place: Place<'_>, value: &Value, memory: &mut dyn Memory, limits: Limits) -> String {
    let mut printer = Printer {
        place,
        memory,
        limits,
        left: limits.elements,
        depth: 0,
        in_static: false,
        virtual_bases: HashSet::new(),
        out: String::new(),
    };
    printer.value(value);
    let mut out = printer.out;
    if out.len() > limits.length {
        let end = (0..=limits.length).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
        out.truncate(end);
        out.push_str("...");
    }
    out
}

/// What stands in the place of a value.
pub(crate) fn missing(why: Missing) -> &'static str {
    match why {
        Missing::OptimizedOut => "<optimized out>",
        Missing::Unavailable => "<unavailable>",
        Missing::ThreadLocal => "<unavailable: where its thread has it is not known>",
        Missing::Unsupported => "<unavailable: its debug information is not understood>",
        Missing::Synthetic => "<synthetic pointer>",
    }
}

impl Printer<'_> {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn is_full(&self) -> bool {
        self.out.len() > self.limits.length
    }

    fn missing(&mut self, why: Missing) {
        self.push(missing(why));
    }

    fn value(&mut self, value: &Value) {
        if self.is_full() {
            return;
        }
        if self.depth > self.limits.depth {
            return self.push("{...}");
        }
        if let Contents::Missing(why) = value.contents {
            return self.missing(why);
        }
        let Some(declared) = value.ty.clone() else { return self.push("void") };
        let Some(ty) = self.place.store.strip(&declared) else { return self.push("void") };
        self.depth += 1;
        match ty.tag() {
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type => self.structure(value, &ty),
            gimli::DW_TAG_array_type => self.array(value, &ty),
            gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => self.reference(value),
            gimli::DW_TAG_subroutine_type | gimli::DW_TAG_subprogram => self.code(value, &ty),
            _ => self.scalar(value, &declared, &ty),
        }
        self.depth -= 1;
    }

    /// A function as a value: its type and where it is.
    fn code(&mut self, value: &Value, ty: &crate::node::Node) {
        let name = self.place.store.type_name(Some(ty));
        let address = value.address().unwrap_or(0);
        let symbol = self.symbol(address);
        self.push(&format!("{{{name}}} {address:#x}{symbol}"));
    }

    /// The function or variable at an address, in the form in which it stands behind a pointer.
    fn symbol(&mut self, address: u64) -> String {
        match self.memory.symbol(address) {
            Some((name, 0)) => format!(" <{name}>"),
            Some((name, offset)) => format!(" <{name}+{offset}>"),
            None => String::new(),
        }
    }

    fn reference(&mut self, value: &Value) {
        match self.place.target(value, self.memory) {
            Ok(target) => {
                let address = target.address().unwrap_or(0);
                self.push(&format!("@{address:#x}"));
                // Within structures, as pointers are.
                if self.depth == 1 {
                    self.push(": ");
                    self.value(&target);
                }
            }
            Err(why) => self.missing(why),
        }
    }
}
