//! Numbers, characters, enumerators and pointers.

use super::{Printer, float, text};
use crate::location::Missing;
use crate::node::{MAX_REFERENCES, Node};
use crate::types::encoding;
use crate::value::Value;

/// The kinds of characters, by the mark before their quotes.
const CHARACTERS: [(&str, &str); 4] = [("wchar_t", "L"), ("char16_t", "u"), ("char32_t", "U"), ("char8_t", "u8")];

impl Printer<'_> {
    pub(super) fn scalar(&mut self, value: &Value, declared: &Node, ty: &Node) {
        let printed = match ty.tag() {
            gimli::DW_TAG_base_type => self.base(value, declared, ty),
            gimli::DW_TAG_enumeration_type => self.enumeration(value, ty),
            gimli::DW_TAG_pointer_type => self.pointer(value, ty),
            gimli::DW_TAG_ptr_to_member_type => self.member_pointer(value, ty),
            gimli::DW_TAG_unspecified_type => Ok("nullptr".to_owned()),
            _ => Err(Missing::Unsupported),
        };
        match printed {
            Ok(text) => self.push(&text),
            Err(why) => self.missing(why),
        }
    }

    fn base(&mut self, value: &Value, declared: &Node, ty: &Node) -> Result<String, Missing> {
        let size = self.place.store.size_of(ty).ok_or(Missing::Unsupported)?;
        if size == 0 && ty.is_rust() {
            return Ok("()".into());
        }
        let encoding = encoding(ty).ok_or(Missing::Unsupported)?;
        if let Some(mark) = self.character(declared) {
            let number = value.integer(size, !self.place.store.is_unsigned(ty), self.memory)?;
            return Ok(format!("{number} {mark}{}", text::quoted(number, '\'')));
        }
        Ok(match encoding {
            gimli::DW_ATE_boolean => match value.integer(size, false, self.memory)? {
                0 => "false".into(),
                1 => "true".into(),
                other => other.to_string(),
            },
            gimli::DW_ATE_float => float::text(&value.bytes(size, self.memory)?).ok_or(Missing::Unsupported)?,
            gimli::DW_ATE_complex_float => {
                let bytes = value.bytes(size, self.memory)?;
                let (real, imaginary) = bytes.split_at(bytes.len() / 2);
                let part = |bytes| float::text(bytes).ok_or(Missing::Unsupported);
                format!("{} + {}i", part(real)?, part(imaginary)?)
            }
            _ if size > 16 => return Err(Missing::Unsupported),
            _ => {
                let signed = !self.place.store.is_unsigned(ty);
                let number = value.integer(size, signed, self.memory)?;
                if signed { number.to_string() } else { number.cast_unsigned().to_string() }
            }
        })
    }

    /// If values of a type are characters: the mark before their quotes.
    pub(super) fn character(&self, declared: &Node) -> Option<&'static str> {
        let store = self.place.store;
        let mut node = declared.clone();
        for _ in 0..MAX_REFERENCES {
            let name = store.name(&node);
            let wide = CHARACTERS.iter().find(|(wide, _)| name.as_deref() == Some(*wide));
            if let Some((_, mark)) = wide {
                return Some(mark);
            }
            if node.tag() == gimli::DW_TAG_base_type {
                return match encoding(&node)? {
                    gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF => Some(""),
                    _ => None,
                };
            }
            let passes = [
                gimli::DW_TAG_typedef,
                gimli::DW_TAG_const_type,
                gimli::DW_TAG_volatile_type,
                gimli::DW_TAG_atomic_type,
            ];
            if !passes.contains(&node.tag()) {
                return None;
            }
            node = store.type_of(&node)?;
        }
        None
    }

    fn enumeration(&mut self, value: &Value, ty: &Node) -> Result<String, Missing> {
        let store = self.place.store;
        let size = store.size_of(ty).ok_or(Missing::Unsupported)?;
        let number = value.integer(size, !store.is_unsigned(ty), self.memory)?;
        let scoped = ty.flag(gimli::DW_AT_enum_class) || ty.is_rust();
        let around = store.qualified_name(ty).unwrap_or_default();
        let around = if scoped { around } else { around.rsplit_once("::").map_or("", |(before, _)| before).to_owned() };
        let named = |name: String| if around.is_empty() { name } else { format!("{around}::{name}") };
        let bits = size.clamp(1, 8) * 8;
        let all =
            ty.children().into_iter().filter(|child| child.tag() == gimli::DW_TAG_enumerator).filter_map(|child| {
                let own = child.signed(gimli::DW_AT_const_value)?;
                // As many bits as the type has: an enumerator of an unsigned one may be written as a negative number.
                let own = if number >= 0 && own < 0 {
                    i128::from(own.cast_unsigned() & (u64::MAX >> (64 - bits)))
                } else {
                    own.into()
                };
                Some((own, named(store.name(&child)?)))
            });
        let all: Vec<(i128, String)> = all.collect();
        if let Some((_, name)) = all.iter().find(|(own, _)| *own == number) {
            return Ok(name.clone());
        }
        let is_flag = |own: i128| own.count_ones() <= 1;
        if number < 0 || !all.iter().all(|(own, _)| *own >= 0 && is_flag(*own)) {
            return Ok(number.to_string());
        }
        let (mut left, mut parts) = (number, Vec::new());
        for (own, name) in &all {
            if left & own != 0 {
                parts.push(name.clone());
                left &= !own;
            }
        }
        if left != 0 {
            parts.push(format!("unknown: {left:#x}"));
        }
        Ok(if parts.is_empty() { "0".into() } else { format!("({})", parts.join(" | ")) })
    }

    fn pointer(&mut self, value: &Value, ty: &Node) -> Result<String, Missing> {
        let store = self.place.store;
        let size = store.size_of(ty).unwrap_or(8).min(8);
        let address = value.integer(size, false, self.memory)?;
        let address = u64::try_from(address).map_err(|_| Missing::Unsupported)?;
        let target = store.type_of(ty);
        let character = target.as_ref().filter(|_| !ty.is_rust()).and_then(|target| self.character(target));
        if let (Some(mark), Some(target)) = (character, &target) {
            if address == 0 {
                return Ok("0x0".into());
            }
            let width = store.size_of(target).unwrap_or(1);
            let symbol = if width == 1 { self.variable(address) } else { String::new() };
            let text = self.pointed(address, width, mark);
            return Ok(format!("{address:#x}{symbol} {text}"));
        }
        Ok(format!("{address:#x}{}", self.symbol(address)))
    }

    /// The variable that a pointer to characters points to, if it does.
    fn variable(&mut self, address: u64) -> String {
        self.symbol(address)
    }

    fn member_pointer(&mut self, value: &Value, ty: &Node) -> Result<String, Missing> {
        let size = self.place.store.size_of(ty).unwrap_or(8);
        let word = value.integer(size.min(8), true, self.memory)?;
        if size == 8 {
            let store = self.place.store;
            let class = store.reference(ty, gimli::DW_AT_containing_type).and_then(|class| store.strip(&class));
            let named = class.and_then(|class| {
                let is_there = |m: &&Node| m.signed(gimli::DW_AT_data_member_location) == i64::try_from(word).ok();
                let name = store.name(class.children().iter().find(is_there)?)?;
                Some(format!("&{}::{name}", store.qualified_name(&class)?))
            });
            return Ok(if word == -1 { "NULL".into() } else { named.unwrap_or_else(|| word.to_string()) });
        }
        let address = u64::try_from(word).unwrap_or(0);
        Ok(format!("{address:#x}{}", self.symbol(address)))
    }
}
