//! Structures, tuples and enums of Rust, in the form that gdb gives them.

use super::{Printer, text};
use crate::location::Missing;
use crate::node::Node;
use crate::value::{Member, Value};

/// Most variants of one enum.
const MAX_VARIANTS: usize = 1 << 16;

impl Printer<'_> {
    pub(super) fn rust_structure(&mut self, value: &Value, ty: &Node) {
        let children = ty.children();
        if let Some(part) = children.iter().find(|child| child.tag() == gimli::DW_TAG_variant_part) {
            return self.rust_enum(value, part);
        }
        let name = self.place.store.qualified_name(ty).unwrap_or_default();
        let members = self.place.members(value, ty, self.memory);
        if name == "&str"
            && let Some(text) = self.rust_str(&members)
        {
            return self.push(&text);
        }
        let is_tuple = name.starts_with('(');
        if !is_tuple {
            self.push(&name);
            if members.is_empty() {
                return;
            }
            self.push(" ");
        }
        self.rust_fields(&members, is_tuple);
    }

    /// The fields of a structure or variant, in brackets.
    fn rust_fields(&mut self, members: &[Member], is_tuple: bool) {
        let numbered = |(at, member): (usize, &Member)| member.name.as_deref() == Some(&format!("__{at}"));
        let is_tuple = is_tuple || members.iter().enumerate().all(numbered);
        self.push(if is_tuple { "(" } else { "{" });
        let mut count = 0;
        for member in members {
            self.separate(&mut count);
            if let Some(name) = member.name.as_ref().filter(|_| !is_tuple) {
                self.push(&format!("{name}: "));
            }
            self.value(&member.value);
            if self.is_full() {
                break;
            }
        }
        self.push(if is_tuple { ")" } else { "}" });
    }

    fn rust_str(&mut self, members: &[Member]) -> Option<String> {
        let field = |name: &str| members.iter().find(|member| member.name.as_deref() == Some(name));
        let address = field("data_ptr")?.value.integer(8, false, self.memory).ok()?;
        let len = field("length")?.value.integer(8, false, self.memory).ok()?;
        let (address, len) = (u64::try_from(address).ok()?, usize::try_from(len).ok()?);
        let shown = len.min(self.limits.elements);
        let bytes = self.memory.read(address, shown);
        let known: Vec<i128> = bytes.iter().map_while(|byte| byte.map(i128::from)).collect();
        if known.len() < shown {
            let begun = if known.is_empty() { String::new() } else { text::string(&known, "", true) };
            return Some(format!("{begun}{}", super::missing(Missing::Unavailable)));
        }
        Some(text::string(&known, "", shown < len))
    }

    fn rust_enum(&mut self, value: &Value, part: &Node) {
        let member = match self.variant(value, part) {
            Ok(member) => member,
            Err(why) => return self.missing(why),
        };
        let store = self.place.store;
        let Some(ty) = member.value.ty.as_ref().and_then(|ty| store.strip(ty)) else {
            return self.missing(Missing::Unsupported);
        };
        let name = store.qualified_name(&ty).or(member.name).unwrap_or_default();
        self.push(variant_name(&name));
        let members = self.place.members(&member.value, &ty, self.memory);
        if !members.is_empty() {
            self.rust_fields(&members, false);
        }
    }

    /// The variant that an enum has, as the member that holds it.
    pub(super) fn rust_variant(&mut self, value: &Value) -> Option<Member> {
        let ty = self.place.store.strip(value.ty.as_ref()?)?;
        let children = ty.children();
        let part = children.iter().find(|child| child.tag() == gimli::DW_TAG_variant_part)?;
        self.variant(value, part).ok()
    }

    fn variant(&mut self, value: &Value, part: &Node) -> Result<Member, Missing> {
        let store = self.place.store;
        let discriminant = match store.reference(part, gimli::DW_AT_discr) {
            Some(member) => {
                let member = self.place.member(value, &member, self.memory).ok_or(Missing::Unsupported)?;
                let size = member.value.ty.as_ref().and_then(|ty| store.size_of(ty)).unwrap_or(8);
                Some((member.value.integer(size, false, self.memory)?, size))
            }
            None => None,
        };
        let children = part.children();
        let variants = || children.iter().filter(|c| c.tag() == gimli::DW_TAG_variant).take(MAX_VARIANTS);
        let fits = |variant: &&Node| {
            let (Some((number, size)), Some(own)) = (discriminant, variant.signed(gimli::DW_AT_discr_value)) else {
                return false;
            };
            let bits = 8 * size.clamp(1, 16);
            let mask = u128::MAX >> (128 - bits);
            i128::from(own).cast_unsigned() & mask == number.cast_unsigned() & mask
        };
        let fallback = |variant: &&Node| !variant.entry.has_attr(gimli::DW_AT_discr_value);
        let found = variants().find(fits).or_else(|| variants().find(fallback));
        let member = found.and_then(|variant| {
            let inner = variant.children();
            inner.iter().find_map(|child| self.place.member(value, child, self.memory))
        });
        member.ok_or(Missing::Unsupported)
    }
}

/// The name of a variant as one writes it: those of `Option` and `Result` alone.
fn variant_name(name: &str) -> &str {
    let is_alone = ["core::option::Option<", "core::result::Result<"].iter().any(|start| name.starts_with(start));
    name.rsplit("::").next().filter(|_| is_alone).unwrap_or(name)
}
