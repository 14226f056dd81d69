//! Types: what is behind typedefs and qualifiers, how large they are, what they consist of.

use crate::node::{MAX_REFERENCES, Node};
use crate::store::{Die, Store};
use gimli::{AttributeValue, DwAte};

impl Store {
    /// The type behind typedefs and qualifiers (`const`, `volatile`, `restrict`, `_Atomic`); `None` is void.
    pub fn strip(&self, node: &Node) -> Option<Node> {
        let mut node = node.clone();
        for _ in 0..MAX_REFERENCES {
            match node.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type
                | gimli::DW_TAG_immutable_type
                | gimli::DW_TAG_packed_type
                | gimli::DW_TAG_template_alias => node = self.type_of(&node)?,
                _ => return Some(self.complete(node)),
            }
        }
        None
    }

    /// The full type where an entry only declares it.
    fn complete(&self, node: Node) -> Node {
        if let Some(full) = self.reference(&node, gimli::DW_AT_signature) {
            return full;
        }
        if !node.flag(gimli::DW_AT_declaration) {
            return node;
        }
        let qualified = self.qualified_name(&node);
        let found = qualified.and_then(|name| self.find_type(&name, node.tag())).and_then(|die| self.node(die));
        found.unwrap_or(node)
    }

    /// Bytes that a value of the type takes.
    pub fn size_of(&self, node: &Node) -> Option<u64> {
        let node = self.strip(node)?;
        if let Some(size) = node.unsigned(gimli::DW_AT_byte_size) {
            return Some(size);
        }
        match node.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => Some(8),
            gimli::DW_TAG_array_type => {
                let dimensions = self.dimensions(&node);
                let count = dimensions.iter().try_fold(1_u64, |all, one| all.checked_mul(one.fixed()?))?;
                let element = self.type_of(&node)?;
                // Arrays of arrays of arrays...: as deep as the file says, but not as the stack allows.
                let size = if element.tag() == gimli::DW_TAG_array_type { None } else { self.size_of(&element) };
                count.checked_mul(size.or_else(|| element.unsigned(gimli::DW_AT_byte_size))?)
            }
            gimli::DW_TAG_enumeration_type => self.type_of(&node).and_then(|under| match under.tag() {
                gimli::DW_TAG_enumeration_type => None,
                _ => self.size_of(&under),
            }),
            gimli::DW_TAG_ptr_to_member_type => {
                let target = self.type_of(&node).and_then(|target| self.strip(&target));
                let method = target.is_some_and(|target| target.tag() == gimli::DW_TAG_subroutine_type);
                Some(if method { 16 } else { 8 })
            }
            _ => None,
        }
    }

    /// The dimensions of an array, outermost first.
    pub fn dimensions(&self, array: &Node) -> Vec<Dimension> {
        let tags = [gimli::DW_TAG_subrange_type, gimli::DW_TAG_enumeration_type];
        let ranges = array.children().into_iter().filter(|child| tags.contains(&child.tag()));
        ranges.map(|range| Dimension::of(self, &range)).collect()
    }

    /// The type as its source names it: for people.
    pub fn type_name(&self, node: Option<&Node>) -> String {
        self.type_name_within(node, 16)
    }

    fn type_name_within(&self, node: Option<&Node>, depth: usize) -> String {
        let Some(node) = node else { return "void".into() };
        let Some(depth) = depth.checked_sub(1) else { return "...".into() };
        let inner = || self.type_name_within(self.type_of(node).as_ref(), depth);
        let suffixed = |suffix: &str| {
            let inner = inner();
            // A pointer to a function or array is written around what it points to.
            if let Some((before, behind)) = inner.split_once("(*)") {
                return format!("{before}(*{suffix}){behind}");
            }
            match inner.find(['(', '[']).filter(|_| inner.ends_with([')', ']']) && !node.is_rust()) {
                Some(at) => format!("{} ({suffix}){}", inner[..at].trim_end(), &inner[at..]),
                None if inner.ends_with(['*', '&']) => format!("{inner}{suffix}"),
                None => format!("{inner} {suffix}"),
            }
        };
        match node.tag() {
            gimli::DW_TAG_pointer_type if node.is_rust() => {
                self.qualified_name(node).unwrap_or_else(|| format!("*mut {}", inner()))
            }
            gimli::DW_TAG_pointer_type => suffixed("*"),
            gimli::DW_TAG_reference_type => suffixed("&"),
            gimli::DW_TAG_rvalue_reference_type => suffixed("&&"),
            gimli::DW_TAG_const_type => {
                let inner = inner();
                if inner.ends_with('*') { format!("{inner} const") } else { format!("const {inner}") }
            }
            gimli::DW_TAG_volatile_type => format!("volatile {}", inner()),
            gimli::DW_TAG_restrict_type => format!("{} restrict", inner()),
            gimli::DW_TAG_atomic_type => format!("_Atomic {}", inner()),
            gimli::DW_TAG_array_type if node.is_rust() => {
                let counts: String = self.dimensions(node).iter().map(|d| format!("; {}", d.text())).collect();
                format!("[{}{counts}]", inner())
            }
            gimli::DW_TAG_array_type => {
                let counts: String = self.dimensions(node).iter().map(|d| format!("[{}]", d.text())).collect();
                format!("{} {counts}", inner())
            }
            gimli::DW_TAG_subroutine_type | gimli::DW_TAG_subprogram => {
                let parameters = node.children().into_iter().filter(|c| c.tag() == gimli::DW_TAG_formal_parameter);
                let parameters: Vec<String> =
                    parameters.take(32).map(|p| self.type_name_within(self.type_of(&p).as_ref(), depth)).collect();
                let parameters = if parameters.is_empty() { "void".into() } else { parameters.join(", ") };
                format!("{} ({parameters})", inner())
            }
            tag => {
                let name = self.qualified_name(node);
                let keyword = match tag {
                    gimli::DW_TAG_structure_type => "struct ",
                    gimli::DW_TAG_union_type => "union ",
                    gimli::DW_TAG_enumeration_type => "enum ",
                    _ => "",
                };
                match name {
                    Some(name) if is_c(node) => format!("{keyword}{name}"),
                    Some(name) => name,
                    None => format!("{keyword}{{...}}"),
                }
            }
        }
    }

    /// An entry's number where a type, or the type under an enumeration, has to be signed or not.
    pub fn is_unsigned(&self, base: &Node) -> bool {
        match base.tag() {
            gimli::DW_TAG_base_type => matches!(
                encoding(base),
                Some(
                    gimli::DW_ATE_unsigned
                        | gimli::DW_ATE_unsigned_char
                        | gimli::DW_ATE_boolean
                        | gimli::DW_ATE_UTF
                        | gimli::DW_ATE_address
                )
            ),
            gimli::DW_TAG_enumeration_type => {
                let under = self.type_of(base).and_then(|under| self.strip(&under));
                match under.filter(|under| under.tag() == gimli::DW_TAG_base_type) {
                    Some(under) => self.is_unsigned(&under),
                    None => base.children().iter().all(|child| child.signed(gimli::DW_AT_const_value) >= Some(0)),
                }
            }
            _ => true,
        }
    }
}

/// Whether the unit is one in C, where tags of types are a name space of their own.
pub(crate) fn is_c(node: &Node) -> bool {
    matches!(
        node.language(),
        Some(gimli::DW_LANG_C | gimli::DW_LANG_C89 | gimli::DW_LANG_C99 | gimli::DW_LANG_C11 | gimli::DW_LANG_C17)
    )
}

/// How a base type is encoded.
pub(crate) fn encoding(node: &Node) -> Option<DwAte> {
    match node.entry.attr_value(gimli::DW_AT_encoding)? {
        AttributeValue::Encoding(encoding) => Some(encoding),
        _ => None,
    }
}

/// One dimension of an array.
#[derive(Clone, Debug)]
pub(crate) enum Dimension {
    /// So many elements.
    Fixed(u64),
    /// An attribute of this entry says how many: the number of elements, or the last one's.
    Computed { die: Die, is_count: bool },
    /// It is not said.
    Open,
}

impl Dimension {
    fn of(store: &Store, range: &Node) -> Self {
        if range.tag() == gimli::DW_TAG_enumeration_type {
            return Self::Fixed(range.children().len() as u64);
        }
        let _ = store;
        let lower = range.signed(gimli::DW_AT_lower_bound).unwrap_or(0);
        if let Some(attribute) = range.entry.attr_value(gimli::DW_AT_count) {
            return match attribute.udata_value() {
                Some(count) => Self::Fixed(count),
                None => Self::Computed { die: range.die, is_count: true },
            };
        }
        match range.entry.attr(gimli::DW_AT_upper_bound) {
            None => Self::Open,
            Some(attribute) => match attribute.value() {
                AttributeValue::Exprloc(_) | AttributeValue::UnitRef(_) | AttributeValue::DebugInfoRef(_) => {
                    Self::Computed { die: range.die, is_count: false }
                }
                _ => {
                    let upper = attribute.udata_value().map(u64::cast_signed).or_else(|| attribute.sdata_value());
                    // An upper bound of -1, whatever its width, is an array without elements.
                    let upper = upper.filter(|upper| *upper != i64::from(u32::MAX)).unwrap_or(-1);
                    Self::Fixed(upper.saturating_sub(lower).saturating_add(1).max(0).cast_unsigned())
                }
            },
        }
    }

    pub fn fixed(&self) -> Option<u64> {
        match self {
            Self::Fixed(count) => Some(*count),
            Self::Computed { .. } | Self::Open => None,
        }
    }

    fn text(&self) -> String {
        self.fixed().map_or_else(String::new, |count| count.to_string())
    }
}
