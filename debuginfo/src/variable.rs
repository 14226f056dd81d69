//! The variables in scope of a frame, with their values as text.

use crate::frame::Stack;
use crate::location::{Contents, Missing, Place};
use crate::memory::Memory;
use crate::print::{Limits, print};
use crate::scope::InScope;
use crate::value::Value;
use std::collections::HashSet;

/// A function of a frame, inlined or not, with what is in scope there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Its name, with name spaces.
    pub function: Option<String>,
    /// It has no frame of its own.
    pub is_inlined: bool,
    /// Its parameters, in their order.
    pub arguments: Vec<Variable>,
    /// Its variables in scope, innermost block first.
    pub locals: Vec<Variable>,
}

/// A variable with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type, as the source writes it.
    pub type_name: String,
    /// Its value as text.
    pub value: String,
    /// Its address, if it is in memory.
    pub address: Option<u64>,
    /// Bytes, as far as its type says.
    pub size: Option<u64>,
    /// There is no value: it is not kept, or not known.
    pub is_missing: bool,
}

impl Stack<'_> {
    /// The functions of a frame, innermost first (all but the last are inlined), with what is in scope. Empty without debug
    /// information.
    pub fn scopes(&self, frame: usize, memory: &mut dyn Memory, limits: Limits) -> Vec<Scope> {
        let Some(place) = self.place(frame) else { return Vec::new() };
        let Some(address) = self.frames.get(frame).map(|frame| frame.address) else { return Vec::new() };
        let mut out = Vec::new();
        for scope in place.store.scopes(address) {
            let function = place.store.qualified_name(&scope.function);
            let mut values = |list: &[InScope]| -> Vec<Variable> {
                let all = list.iter().map(|one| (place.store.origin(&one.node), place.variable(one, memory, limits)));
                let mut all: Vec<_> = all.collect();
                // Where the compiler has split a block, its variables are there more than once.
                let has_value: HashSet<_> =
                    all.iter().filter(|(_, one)| !one.is_missing).map(|(origin, _)| *origin).collect();
                let mut seen = HashSet::new();
                all.retain(|(origin, one)| (!one.is_missing || !has_value.contains(origin)) && seen.insert(*origin));
                all.into_iter().map(|(_, one)| one).collect()
            };
            let (arguments, locals) = (values(&scope.arguments), values(&scope.locals));
            out.push(Scope { function, is_inlined: scope.is_inlined, arguments, locals });
        }
        out
    }
}

impl Place<'_> {
    /// The value of a variable.
    pub(crate) fn value_of(self, one: &InScope, memory: &mut dyn Memory) -> Value {
        let ty = self.store.type_of(&one.node);
        let size = ty.as_ref().and_then(|ty| self.store.size_of(ty)).unwrap_or(8);
        Value::new(ty, self.contents(&one.node, size, memory))
    }

    fn variable(self, one: &InScope, memory: &mut dyn Memory, limits: Limits) -> Variable {
        let value = self.value_of(one, memory);
        let address = match value.contents {
            Contents::Memory(address) => Some(address),
            _ => None,
        };
        Variable {
            name: one.name.clone(),
            type_name: self.store.type_name(value.ty.as_ref()),
            value: print(self, &value, memory, limits),
            address,
            is_missing: matches!(value.contents, Contents::Missing(why) if why != Missing::Synthetic),
            size: value.ty.as_ref().and_then(|ty| self.store.size_of(ty)),
        }
    }
}
