//! The frames of a stack, and what one knows of another: frame bases and the values that parameters had at the call.

use crate::image::Image;
use crate::location::{Missing, Place};
use crate::memory::Memory;
use crate::node::Node;
use crate::registers::Registers;
use crate::section::Reader;
use crate::store::{Die, Store};
use gimli::{Expression, Operation};
use std::rc::Rc;

/// How many entries of a function are looked at for a call.
const MAX_ENTRIES: usize = 1 << 18;

/// A frame of a stack, as an unwinder has found it. Inlined functions have none of their own.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The ELF file with its code, and its debug information.
    pub image: Option<Rc<Image>>,
    /// Where the frame goes on, in the process: the next instruction, or a return address.
    pub pc: u64,
    /// What code that is, in the file's own terms: of a return address, an address in the call.
    pub address: u64,
    /// How far above the file's own addresses it lies in the process.
    pub bias: u64,
    /// Its registers, as far as they are known.
    pub registers: Registers,
    /// The stack pointer before the call (DWARF's canonical frame address), if tables of unwinding information gave it.
    pub cfa: Option<u64>,
}

/// The frames of a thread, innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// The frames.
    pub frames: &'a [Frame],
    /// The thread's pointer to its own data (the base of FS).
    pub fs_base: Option<u64>,
}

impl<'a> Stack<'a> {
    /// Where expressions of a frame's function are evaluated; `None` without debug information.
    pub(crate) fn place(&'a self, frame: usize) -> Option<Place<'a>> {
        let found = self.frames.get(frame)?;
        let store = found.image.as_ref()?.store()?;
        Some(Place { store, stack: self, frame: Some(frame), bias: found.bias, nesting: 0 })
    }

    /// The address of a thread-local variable of the program itself, which lies just below the thread's pointer (variant II of
    /// the TLS ABI). Where libraries have theirs is known to libc alone.
    pub(crate) fn thread_local(&self, store: &Store, offset: u64) -> Option<u64> {
        let tls = store.thread_locals?;
        let first = tls.address.wrapping_neg() & (tls.align - 1);
        let block = tls.size.checked_sub(first)?.checked_next_multiple_of(tls.align)?.checked_add(first)?;
        Some(self.fs_base?.wrapping_sub(block).wrapping_add(offset))
    }
}

impl<'a> Place<'a> {
    /// The function (not inlined) whose code this is.
    pub fn function(self) -> Option<Node> {
        let frame = self.own_frame().ok()?;
        let unit = self.store.unit_at(frame.address)?;
        self.store.function_at(unit, frame.address)
    }

    /// The frame base of the function (`DW_AT_frame_base`).
    pub fn frame_base(self, memory: &mut dyn Memory) -> Result<u64, Missing> {
        let function = self.function().ok_or(Missing::Unsupported)?;
        let (value, owner) = self.store.inherited(&function, gimli::DW_AT_frame_base).ok_or(Missing::Unsupported)?;
        let expression = self.expression(&owner, value)?.ok_or(Missing::OptimizedOut)?;
        self.word(&owner, expression, memory)
    }

    /// The value that the register named by `inner` had when the function was called (`DW_OP_entry_value`).
    pub fn entry_value(self, inner: &Expression<Reader>, memory: &mut dyn Memory) -> Result<u64, Missing> {
        let wanted = only_register(inner, self.own_frame()?).ok_or(Missing::OptimizedOut)?;
        let (caller, site) = self.call_site(memory)?;
        for parameter in site.children() {
            let Some(location) = parameter.entry.attr_value(gimli::DW_AT_location) else { continue };
            let Ok(Some(location)) = caller.expression(&parameter, location) else { continue };
            if only_register(&location, self.own_frame()?) == Some(wanted) {
                return caller.passed(&parameter, memory);
            }
        }
        Err(Missing::OptimizedOut)
    }

    /// The value that a parameter had when the function was called (`DW_OP_GNU_parameter_ref`).
    pub fn parameter_at_entry(self, die: Die, memory: &mut dyn Memory) -> Result<u64, Missing> {
        let wanted = self.store.node(die).map(|node| self.store.origin(&node)).ok_or(Missing::Unsupported)?;
        let (caller, site) = self.call_site(memory)?;
        for parameter in site.children() {
            let named = caller.store.reference(&parameter, gimli::DW_AT_call_parameter);
            let named = named.or_else(|| caller.store.reference(&parameter, gimli::DW_AT_abstract_origin));
            let same = named.is_some_and(|node| caller.store.origin(&node) == wanted);
            if same && std::ptr::eq(caller.store, self.store) {
                return caller.passed(&parameter, memory);
            }
        }
        Err(Missing::OptimizedOut)
    }

    /// What was passed for a parameter of a call site of this frame.
    fn passed(self, parameter: &Node, memory: &mut dyn Memory) -> Result<u64, Missing> {
        let value = parameter.entry.attr_value(gimli::DW_AT_call_value);
        let value = value.or_else(|| parameter.entry.attr_value(gimli::DW_AT_GNU_call_site_value));
        let value = value.ok_or(Missing::OptimizedOut)?;
        let expression = self.expression(parameter, value)?.ok_or(Missing::OptimizedOut)?;
        self.word(parameter, expression, memory)
    }

    /// The call by which this frame's caller got here: only if it is known to call this very function. Between the two, others may
    /// have been that left by a jump.
    fn call_site(self, memory: &mut dyn Memory) -> Result<(Place<'a>, Node), Missing> {
        let number = self.frame.ok_or(Missing::OptimizedOut)? + 1;
        let caller = self.stack.place(number).ok_or(Missing::OptimizedOut)?;
        let caller = Place { nesting: self.nesting + 1, ..caller };
        let frame = caller.own_frame()?;
        let back = frame.pc.wrapping_sub(frame.bias);
        let calling = caller.function().ok_or(Missing::OptimizedOut)?;
        let site = find_call(&calling, back).ok_or(Missing::OptimizedOut)?;
        let own = self.function().ok_or(Missing::OptimizedOut)?;
        if caller.calls(&site, self, &own, memory) { Ok((caller, site)) } else { Err(Missing::OptimizedOut) }
    }

    /// Whether the call of this frame's function calls `function`, of another frame.
    fn calls(self, site: &Node, callee: Place<'_>, function: &Node, memory: &mut dyn Memory) -> bool {
        let target = site.entry.attr_value(gimli::DW_AT_call_target);
        let target = target.or_else(|| site.entry.attr_value(gimli::DW_AT_GNU_call_site_target));
        if let Some(target) = target {
            let start = function.address(gimli::DW_AT_low_pc).map(|start| start.wrapping_add(callee.bias));
            let address = self.expression(site, target).ok().flatten();
            let address = address.and_then(|expression| self.word(site, expression, memory).ok());
            return address.is_some() && address == start;
        }
        let named = self.store.reference(site, gimli::DW_AT_call_origin);
        let Some(named) = named.or_else(|| self.store.reference(site, gimli::DW_AT_abstract_origin)) else {
            return false;
        };
        if std::ptr::eq(self.store, callee.store) && self.store.origin(&named) == callee.store.origin(function) {
            return true;
        }
        // A declaration in another unit.
        let symbol = |store: &Store, node: &Node| store.linkage_name(node).or_else(|| store.name(node));
        let is_external = callee.store.inherited(function, gimli::DW_AT_external).is_some();
        is_external
            && named.flag(gimli::DW_AT_declaration)
            && symbol(self.store, &named).is_some_and(|name| Some(name) == symbol(callee.store, function))
    }
}

/// The register that an expression consists of.
fn only_register(expression: &Expression<Reader>, frame: &Frame) -> Option<u16> {
    let image = frame.image.as_ref()?;
    let encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 5, address_size: image.address_size() };
    let mut operations = expression.clone().operations(encoding);
    match (operations.next().ok()??, operations.next().ok()?) {
        (Operation::Register { register }, None) => Some(register.0),
        _ => None,
    }
}

/// The call that returns to `back`, below a function's entry.
fn find_call(function: &Node, back: u64) -> Option<Node> {
    let mut cursor = function.unit.entries_at_offset(gimli::UnitOffset(function.die.offset)).ok()?;
    cursor.next_dfs().ok()??;
    for _ in 0..MAX_ENTRIES {
        let entry = cursor.next_dfs().ok()??;
        if entry.depth() <= 0 {
            return None;
        }
        let returns = match entry.tag() {
            gimli::DW_TAG_call_site => gimli::DW_AT_call_return_pc,
            gimli::DW_TAG_GNU_call_site => gimli::DW_AT_low_pc,
            _ => continue,
        };
        let node = Node {
            die: Die { offset: entry.offset().0, ..function.die },
            entry: entry.clone(),
            dwarf: function.dwarf.clone(),
            unit: function.unit.clone(),
        };
        if node.address(returns) == Some(back) {
            return Some(node);
        }
    }
    None
}
