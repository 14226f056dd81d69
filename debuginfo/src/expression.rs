//! Expressions that name a place in memory: `name`, `name.field`, `name->field`, `name[3]`, `*name`, `&name`, and all of these in
//! each other, with parentheses. `.` goes through pointers and references as `->` does.

use crate::frame::Stack;
use crate::image::Image;
use crate::location::{Contents, Missing, Place};
use crate::memory::Memory;
use crate::node::Node;
use crate::print::{Limits, missing, print};
use crate::registers::Home;
use crate::value::Value;
use std::fmt;

/// Most parts of one expression.
const MAX_PARTS: usize = 64;
/// Longest expression, in bytes.
const MAX_LENGTH: usize = 1000;
/// How many anonymous structures and base classes are looked into for a field.
const MAX_NESTING: usize = 8;

/// What an expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// Its address in the process; none for what is in a register, or computed.
    pub address: Option<u64>,
    /// Bytes, as far as its type says.
    pub size: Option<u64>,
    /// Its type, as the source writes it.
    pub type_name: String,
    /// Its value as text.
    pub value: String,
}

/// Why an expression names nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpressionError {
    /// It is no expression: what is wrong.
    Syntax(String),
    /// There is no such variable.
    NoVariable(String),
    /// Its type has no such field.
    NoField(String),
    /// What it does needs another type than this.
    Type(String),
    /// A value on the way is not there.
    Missing(Missing),
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(what) => write!(f, "{what}"),
            Self::NoVariable(name) => write!(f, "there is no variable {name} here"),
            Self::NoField(name) => write!(f, "there is no field {name} in its type"),
            Self::Type(what) => write!(f, "{what}"),
            Self::Missing(why) => write!(f, "a value that it needs is {}", missing(*why)),
        }
    }
}

impl std::error::Error for ExpressionError {}

/// Where variables are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The stack, and which of its frames: its variables come first.
    pub stack: &'a Stack<'a>,
    /// See [`Self::stack`].
    pub frame: Option<usize>,
    /// Files whose global variables are looked for, with what their addresses are moved by; in this order.
    pub images: &'a [(&'a Image, u64)],
}

/// A place in memory, a register or a computed value with its type, as an expression names it.
#[derive(Clone)]
pub struct Named<'a> {
    place: Place<'a>,
    value: Value,
    /// Where it is was asked for, by `&name`.
    is_address: bool,
}

/// Evaluates an expression.
///
/// # Errors
/// It is no expression, or names nothing.
pub fn evaluate(
    text: &str,
    names: Names<'_>,
    memory: &mut dyn Memory,
    limits: Limits,
) -> Result<Evaluated, ExpressionError> {
    find(text, names, memory)?.evaluated(memory, limits)
}

/// What an expression names, without what its value is.
///
/// # Errors
/// It is no expression, or names nothing.
pub fn find<'a>(text: &str, names: Names<'a>, memory: &mut dyn Memory) -> Result<Named<'a>, ExpressionError> {
    if text.len() > MAX_LENGTH {
        return Err(ExpressionError::Syntax(format!("more than {MAX_LENGTH} characters")));
    }
    let mut parser = Parser { rest: text.trim(), names, memory, parts: 0 };
    let (place, value) = parser.unary()?;
    if !parser.rest.is_empty() {
        return Err(ExpressionError::Syntax(format!("`{}` is not understood", parser.rest)));
    }
    let is_address = text.trim().starts_with('&') && matches!(value.contents, Contents::Bytes(_));
    Ok(Named { place, value, is_address })
}

impl Named<'_> {
    /// Its address in the process; none for what is in a register, computed, or not kept.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        self.value.address()
    }

    /// Where each of its bytes is, in memory or in a register; none for those that are computed, constant or not kept, and none at all where
    /// its size is not known.
    #[must_use]
    pub fn homes(&self) -> Vec<Option<Home>> {
        self.size().map(|size| self.value.homes(size)).unwrap_or_default()
    }

    /// Bytes, as far as its type says; none for a bit field.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        if self.is_address {
            return Some(8);
        }
        let ty = self.value.ty.as_ref().filter(|_| self.value.bits.is_none());
        ty.and_then(|ty| self.place.store.size_of(ty))
    }

    /// Why there is no value, if its place is not known.
    #[must_use]
    pub fn missing(&self) -> Option<&'static str> {
        match self.value.contents {
            Contents::Missing(why) => Some(missing(why)),
            _ => None,
        }
    }

    /// Its type, as the source writes it.
    #[must_use]
    pub fn type_name(&self) -> String {
        let name = self.place.store.type_name(self.value.ty.as_ref());
        // `&name` has no type of its own in the file.
        if self.is_address { format!("{name} *") } else { name }
    }

    /// With its value, as memory has it.
    ///
    /// # Errors
    /// The address that was asked for is not known.
    pub fn evaluated(&self, memory: &mut dyn Memory, limits: Limits) -> Result<Evaluated, ExpressionError> {
        let (address, size, type_name) = (self.address(), self.size(), self.type_name());
        if self.is_address {
            let number = self.value.integer(8, false, memory).map_err(ExpressionError::Missing)?;
            return Ok(Evaluated { address: None, size, type_name, value: format!("{number:#x}") });
        }
        let value = print(self.place, &self.value, memory, limits);
        Ok(Evaluated { address, size, type_name, value })
    }
}

struct Parser<'t, 'a, 'm> {
    rest: &'t str,
    names: Names<'a>,
    memory: &'m mut dyn Memory,
    parts: usize,
}

type Parsed<'a> = Result<(Place<'a>, Value), ExpressionError>;

impl<'a> Parser<'_, 'a, '_> {
    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn part(&mut self) -> Result<(), ExpressionError> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(ExpressionError::Syntax(format!("more than {MAX_PARTS} parts")));
        }
        Ok(())
    }

    fn unary(&mut self) -> Parsed<'a> {
        self.part()?;
        if self.take("*") {
            let (place, value) = self.unary()?;
            return Ok((place, self.target(place, &value)?));
        }
        if self.take("&") {
            let (place, value) = self.unary()?;
            let address = value.address().ok_or(match value.contents {
                Contents::Missing(why) => ExpressionError::Missing(why),
                _ => ExpressionError::Type("it is not in memory, so it has no address".into()),
            })?;
            let bytes: Vec<_> = address.to_le_bytes().into_iter().map(crate::location::Byte::computed).collect();
            return Ok((place, Value::new(value.ty, Contents::Bytes(bytes.into()))));
        }
        self.postfix()
    }

    fn postfix(&mut self) -> Parsed<'a> {
        let (place, mut value) = if self.take("(") {
            let inner = self.unary()?;
            if !self.take(")") {
                return Err(ExpressionError::Syntax("a `)` is missing".into()));
            }
            inner
        } else {
            let name = self.name()?;
            self.variable(&name)?
        };
        loop {
            self.part()?;
            if self.take("->") || self.take(".") {
                let name = self.name()?;
                value = self.field(place, &value, &name)?;
            } else if self.take("[") {
                let end = self.rest.find(']').ok_or(ExpressionError::Syntax("a `]` is missing".into()))?;
                let (number, rest) = (self.rest[..end].trim(), &self.rest[end + 1..]);
                let index: u64 =
                    number.parse().map_err(|_| ExpressionError::Syntax(format!("`{number}` is not a number")))?;
                self.rest = rest.trim_start();
                value = self.element(place, &value, index)?;
            } else {
                return Ok((place, value));
            }
        }
    }

    /// A name, with name spaces.
    fn name(&mut self) -> Result<String, ExpressionError> {
        let mut end = 0;
        let bytes = self.rest.as_bytes();
        while let Some(byte) = bytes.get(end) {
            match byte {
                b'_' | b'$' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | 128.. => end += 1,
                b':' if bytes.get(end + 1) == Some(&b':') => end += 2,
                _ => break,
            }
        }
        let name = self.rest.get(..end).unwrap_or_default().to_owned();
        if name.is_empty() {
            let here = if self.rest.is_empty() { "the end".into() } else { format!("`{}`", self.rest) };
            return Err(ExpressionError::Syntax(format!("there should be a name instead of {here}")));
        }
        self.rest = self.rest[end..].trim_start();
        Ok(name)
    }

    fn variable(&mut self, name: &str) -> Parsed<'a> {
        let Names { stack, frame, images } = self.names;
        if let Some(place) = frame.and_then(|frame| stack.place(frame)) {
            let address = place.own_frame().map_err(ExpressionError::Missing)?.address;
            for scope in place.store.scopes(address) {
                if let Some(one) = scope.locals.iter().chain(&scope.arguments).find(|one| one.name == name) {
                    return Ok((place, place.value_of(one, self.memory)));
                }
                // A function that is inlined does not see the variables of the one around it, but somebody who looks does.
            }
        }
        for (image, bias) in images {
            let Some(store) = image.store() else { continue };
            let place = Place { store, stack, frame: None, bias: *bias, nesting: 0 };
            let found = store.named(name).into_iter().filter_map(|one| store.node(one.die));
            let definitions =
                found.filter(|node| node.tag() == gimli::DW_TAG_variable && !node.flag(gimli::DW_AT_declaration));
            if let Some(node) = definitions.into_iter().next() {
                let ty = store.type_of(&node);
                let size = ty.as_ref().and_then(|ty| store.size_of(ty)).unwrap_or(8);
                let contents = place.contents(&node, size, self.memory);
                return Ok((place, Value::new(ty, contents)));
            }
        }
        Err(ExpressionError::NoVariable(name.to_owned()))
    }

    fn stripped(&self, place: Place<'a>, value: &Value) -> Result<Node, ExpressionError> {
        let ty = value.ty.as_ref().and_then(|ty| place.store.strip(ty));
        ty.ok_or_else(|| ExpressionError::Type("it has no type".into()))
    }

    fn target(&mut self, place: Place<'a>, value: &Value) -> Result<Value, ExpressionError> {
        let ty = self.stripped(place, value)?;
        match ty.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                place.target(value, self.memory).map_err(ExpressionError::Missing)
            }
            gimli::DW_TAG_array_type => self.element(place, value, 0),
            _ => Err(ExpressionError::Type(format!("{} is no pointer", place.store.type_name(Some(&ty))))),
        }
    }

    fn field(&mut self, place: Place<'a>, value: &Value, name: &str) -> Result<Value, ExpressionError> {
        let mut value = value.clone();
        for _ in 0..MAX_NESTING {
            let ty = self.stripped(place, &value)?;
            match ty.tag() {
                gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                    value = place.target(&value, self.memory).map_err(ExpressionError::Missing)?;
                }
                _ => break,
            }
        }
        self.field_within(place, &value, name, MAX_NESTING)
    }

    fn field_within(
        &mut self,
        place: Place<'a>,
        value: &Value,
        name: &str,
        depth: usize,
    ) -> Result<Value, ExpressionError> {
        let missing = || ExpressionError::NoField(name.to_owned());
        let depth = depth.checked_sub(1).ok_or_else(missing)?;
        let ty = self.stripped(place, value)?;
        let members = place.members(value, &ty, self.memory);
        if let Some(member) = members.iter().find(|member| !member.is_base && member.name.as_deref() == Some(name)) {
            return Ok(member.value.clone());
        }
        let inner = members.into_iter().filter(|member| member.is_base || member.name.is_none());
        inner.into_iter().find_map(|m| self.field_within(place, &m.value, name, depth).ok()).ok_or_else(missing)
    }

    fn element(&mut self, place: Place<'a>, value: &Value, index: u64) -> Result<Value, ExpressionError> {
        let ty = self.stripped(place, value)?;
        let (start, element) = match ty.tag() {
            gimli::DW_TAG_pointer_type => {
                let target = place.target(value, self.memory).map_err(ExpressionError::Missing)?;
                let element = target.ty.clone();
                (target, element)
            }
            gimli::DW_TAG_array_type if place.store.dimensions(&ty).len() == 1 => {
                (value.clone(), place.store.type_of(&ty))
            }
            _ => {
                let name = place.store.type_name(Some(&ty));
                return Err(ExpressionError::Type(format!("{name} is no pointer and no array of one dimension")));
            }
        };
        let size = element.as_ref().and_then(|element| place.store.size_of(element));
        let size = size.ok_or_else(|| ExpressionError::Type("it is not known how large an element is".into()))?;
        Ok(start.part(element, index.wrapping_mul(size)))
    }
}
