//! Values: a type and what it is made of; parts of them.

use crate::location::{Contents, Missing, Place};
use crate::memory::Memory;
use crate::node::Node;
use crate::registers::Home;
use crate::types::Dimension;

/// Most bytes of one value that are read at a time.
const MAX_READ: u64 = 1 << 16;

/// A value of the program's.
#[derive(Clone)]
pub(crate) struct Value {
    /// Its type, as declared; `None` is void.
    pub ty: Option<Node>,
    pub contents: Contents,
    /// For a bit field: the first bit and how many, counted from the lowest.
    pub bits: Option<(u64, u64)>,
}

/// A value's bytes, or why there are none.
pub(crate) type Bytes = Result<Vec<u8>, Missing>;

impl Value {
    pub fn new(ty: Option<Node>, contents: Contents) -> Self {
        Self { ty, contents, bits: None }
    }

    /// Its address, if it is in memory.
    pub fn address(&self) -> Option<u64> {
        match self.contents {
            Contents::Memory(address) => Some(address),
            _ => None,
        }
    }

    /// Where its first `size` bytes are; none for what is computed, constant or nowhere.
    pub fn homes(&self, size: u64) -> Vec<Option<Home>> {
        let home = |at: usize| match &self.contents {
            Contents::Memory(address) => Some(Home::Memory(*address).plus(at)),
            Contents::Bytes(bytes) => bytes.get(at).and_then(|byte| byte.home),
            Contents::Missing(_) => None,
        };
        (0..size.min(MAX_READ) as usize).map(home).collect()
    }

    /// The part of `size` bytes that begins `offset` bytes behind its start.
    pub fn part(&self, ty: Option<Node>, offset: u64) -> Self {
        let contents = match &self.contents {
            Contents::Memory(address) => Contents::Memory(address.wrapping_add(offset)),
            Contents::Bytes(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                Contents::Bytes(bytes[from..].into())
            }
            Contents::Missing(missing) => Contents::Missing(*missing),
        };
        Self::new(ty, contents)
    }

    /// Its first `size` bytes.
    pub fn bytes(&self, size: u64, memory: &mut dyn Memory) -> Bytes {
        if size > MAX_READ {
            return Err(Missing::Unsupported);
        }
        let size = size as usize;
        match &self.contents {
            Contents::Memory(address) => memory.known(*address, size).ok_or(Missing::Unavailable),
            Contents::Bytes(bytes) => {
                let byte = |at: usize| bytes.get(at).map_or(Err(Missing::OptimizedOut), |byte| byte.value);
                (0..size).map(byte).collect()
            }
            Contents::Missing(missing) => Err(*missing),
        }
    }

    /// The integer that its first `size` bytes are (at most 16), or its bits; sign-extended if `signed`.
    pub fn integer(&self, size: u64, signed: bool, memory: &mut dyn Memory) -> Result<i128, Missing> {
        let bytes = self.bytes(size.min(16), memory)?;
        let all = bytes.iter().rev().fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
        let (shift, bits) = self.bits.unwrap_or((0, 8 * size.min(16)));
        if bits == 0 || bits > 128 || shift >= 128 {
            return Err(Missing::Unsupported);
        }
        let up = (all >> shift) << (128 - bits);
        Ok(if signed { up.cast_signed() >> (128 - bits) } else { (up >> (128 - bits)).cast_signed() })
    }
}

/// A member of a structure, class or union, or a base class.
#[derive(Clone)]
pub(crate) struct Member {
    /// None for an anonymous structure or union in it.
    pub name: Option<String>,
    pub is_base: bool,
    pub value: Value,
}

impl Place<'_> {
    /// How many elements a dimension has; `None` if that is not said.
    pub fn count(self, dimension: &Dimension, memory: &mut dyn Memory) -> Result<Option<u64>, Missing> {
        let (die, is_count) = match dimension {
            Dimension::Fixed(count) => return Ok(Some(*count)),
            Dimension::Open => return Ok(None),
            Dimension::Computed { die, is_count } => (*die, *is_count),
        };
        let range = self.store.node(die).ok_or(Missing::Unsupported)?;
        let attribute = if is_count { gimli::DW_AT_count } else { gimli::DW_AT_upper_bound };
        let bound = if let Some(variable) = self.store.reference(&range, attribute) {
            // A variable of the function, of which there may be several entries: the one in scope has the location.
            let variable = self.in_scope(&variable);
            let ty = self.store.type_of(&variable);
            let size = ty.as_ref().and_then(|ty| self.store.size_of(ty)).unwrap_or(8);
            Value::new(ty, self.contents(&variable, size, memory)).integer(size.min(8), true, memory)?
        } else {
            let value = range.entry.attr_value(attribute).ok_or(Missing::Unsupported)?;
            let expression = self.expression(&range, value)?.ok_or(Missing::OptimizedOut)?;
            i128::from(self.word(&range, expression, memory)?.cast_signed())
        };
        let lower = i128::from(range.signed(gimli::DW_AT_lower_bound).unwrap_or(0));
        let count = if is_count { bound } else { bound - lower + 1 };
        Ok(Some(u64::try_from(count.max(0)).map_err(|_| Missing::Unsupported)?))
    }

    /// The entry of a variable that is in force in this frame.
    fn in_scope(self, variable: &Node) -> Node {
        if variable.entry.has_attr(gimli::DW_AT_location) {
            return variable.clone();
        }
        let origin = self.store.origin(variable);
        let frame = self.own_frame().ok();
        let scopes = frame.map(|frame| self.store.scopes(frame.address)).unwrap_or_default();
        let mut all = scopes.into_iter().flat_map(|scope| scope.locals.into_iter().chain(scope.arguments));
        all.find(|one| self.store.origin(&one.node) == origin).map_or_else(|| variable.clone(), |one| one.node)
    }

    /// The members of a structure, class or union; static ones are left out.
    pub fn members(self, value: &Value, ty: &Node, memory: &mut dyn Memory) -> Vec<Member> {
        let children = ty.children();
        let mut members: Vec<Member> = children.iter().filter_map(|child| self.member(value, child, memory)).collect();
        // Base classes come first.
        members.sort_by_key(|member| !member.is_base);
        members
    }

    /// The member that an entry below a structure's stands for.
    pub fn member(self, value: &Value, child: &Node, memory: &mut dyn Memory) -> Option<Member> {
        let is_base = child.tag() == gimli::DW_TAG_inheritance;
        let is_static = child.flag(gimli::DW_AT_external) || child.flag(gimli::DW_AT_declaration);
        if !is_base && (child.tag() != gimli::DW_TAG_member || is_static) {
            return None;
        }
        let ty = self.store.type_of(child);
        let size = ty.as_ref().and_then(|ty| self.store.size_of(ty)).unwrap_or(0);
        let offset = self.member_offset(value, child, memory);
        let part = match offset {
            Ok(offset) => match bit_field(child, offset, size) {
                Some((offset, bits)) => Value { bits: Some(bits), ..value.part(ty.clone(), offset) },
                None => value.part(ty.clone(), offset),
            },
            Err(missing) => Value::new(ty.clone(), Contents::Missing(missing)),
        };
        let name = if is_base { ty.and_then(|ty| self.store.qualified_name(&ty)) } else { self.store.name(child) };
        Some(Member { name, is_base, value: part })
    }

    fn member_offset(self, value: &Value, child: &Node, memory: &mut dyn Memory) -> Result<u64, Missing> {
        let Some(attribute) = child.entry.attr(gimli::DW_AT_data_member_location) else { return Ok(0) };
        if let Some(offset) = attribute.udata_value() {
            return Ok(offset);
        }
        // Virtual base classes: an expression that begins with the object's address.
        let address = value.address().ok_or(Missing::Unsupported)?;
        let expression = self.expression(child, attribute.value())?.ok_or(Missing::Unsupported)?;
        let pieces = self.evaluate(child, expression, Some(address), memory)?;
        match &pieces[..] {
            [gimli::Piece { location: gimli::Location::Address { address: found }, .. }] => {
                Ok(found.wrapping_sub(address))
            }
            _ => Err(Missing::Unsupported),
        }
    }

    /// What a pointer or reference points to.
    pub fn target(self, value: &Value, memory: &mut dyn Memory) -> Result<Value, Missing> {
        let ty = value.ty.as_ref().and_then(|ty| self.store.strip(ty)).ok_or(Missing::Unsupported)?;
        let size = self.store.size_of(&ty).unwrap_or(8);
        let address = value.integer(size.min(8), false, memory)?;
        Ok(Value::new(self.store.type_of(&ty), Contents::Memory(u64::try_from(address).unwrap_or(0))))
    }
}

/// The byte from which a bit field is read, with the first bit and the number of bits from there on.
fn bit_field(member: &Node, offset: u64, size: u64) -> Option<(u64, (u64, u64))> {
    let bits = member.unsigned(gimli::DW_AT_bit_size)?;
    let first = match (member.unsigned(gimli::DW_AT_data_bit_offset), member.unsigned(gimli::DW_AT_bit_offset)) {
        (Some(first), _) => first,
        // DWARF 2 and 3 count from the highest bit of a word of the type's size.
        (None, Some(from_top)) => {
            let word = member.unsigned(gimli::DW_AT_byte_size).unwrap_or(size);
            offset.checked_mul(8)?.checked_add(word.checked_mul(8)?)?.checked_sub(from_top)?.checked_sub(bits)?
        }
        (None, None) => offset.checked_mul(8)?,
    };
    // From the lowest byte in which it lies.
    Some((first / 8, (first % 8, bits)))
}
