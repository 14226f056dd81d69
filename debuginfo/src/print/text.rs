//! Characters and texts.

use super::Printer;
use crate::location::Missing;
use std::fmt::Write;

/// So many equal characters in a row are counted instead of being printed, if there are more.
const REPEATS: usize = 10;
/// Bytes of a text that are asked for at a time.
const CHUNK: usize = 64;

/// A character in quotes, as it would stand in a source.
pub(super) fn quoted(character: i128, quote: char) -> String {
    format!("{quote}{}{quote}", escaped(character, quote))
}

fn escaped(character: i128, quote: char) -> String {
    let byte = u8::try_from(character & 0xff).unwrap_or(0);
    match u32::try_from(character) {
        Ok(value @ 0x20..0x7f) => match char::from_u32(value) {
            Some(c) if c == quote || c == '\\' => format!("\\{c}"),
            Some(c) => c.to_string(),
            None => String::new(),
        },
        Ok(7) => "\\a".into(),
        Ok(8) => "\\b".into(),
        Ok(9) => "\\t".into(),
        Ok(10) => "\\n".into(),
        Ok(11) => "\\v".into(),
        Ok(12) => "\\f".into(),
        Ok(13) => "\\r".into(),
        Ok(27) => "\\033".into(),
        Ok(value @ 0x100..) => {
            // In the bytes of its code, highest first, without leading zeros beyond the width of the character.
            let bytes = value.to_le_bytes();
            let len = if value > 0xffff { 4 } else { 2 };
            bytes[..len].iter().map(|byte| format!("\\{byte:03o}")).collect()
        }
        _ => format!("\\{byte:03o}"),
    }
}

/// Characters as a text in quotes. Equal ones in a row are counted; `cut`: the text goes on.
pub(super) fn string(characters: &[i128], mark: &str, cut: bool) -> String {
    if characters.is_empty() {
        return format!("{mark}\"\"{}", if cut { "..." } else { "" });
    }
    let mut out = String::new();
    let mut open = false;
    let mut rest = characters;
    while let Some(&first) = rest.first() {
        let run = rest.iter().take_while(|c| **c == first).count();
        let separator = if out.is_empty() { "" } else { ", " };
        if run > REPEATS {
            if open {
                out.push('"');
                open = false;
            }
            let separator = if out.is_empty() { "" } else { ", " };
            let _ = write!(out, "{separator}{mark}{} <repeats {run} times>", quoted(first, '\''));
            rest = &rest[run..];
            continue;
        }
        if !open {
            let _ = write!(out, "{separator}{mark}\"");
            open = true;
        }
        out.push_str(&escaped(first, '"'));
        rest = &rest[1..];
    }
    if open {
        out.push('"');
    }
    if cut {
        out.push_str("...");
    }
    out
}

impl Printer<'_> {
    /// The text that a pointer points to, up to its end, to what is not known, or to the limit.
    pub(super) fn pointed(&mut self, address: u64, width: u64, mark: &str) -> String {
        let width = width.clamp(1, 4) as usize;
        let mut characters = Vec::new();
        let mut at = address;
        let most = self.limits.elements;
        let missing = loop {
            let bytes = self.memory.read(at, CHUNK);
            let mut ended = None;
            for character in bytes.chunks(width) {
                let known: Option<Vec<u8>> = character.iter().copied().collect();
                let Some(known) = known.filter(|known| known.len() == width) else {
                    ended = Some(true);
                    break;
                };
                let value = known.iter().rev().fold(0_i128, |all, byte| all << 8 | i128::from(*byte));
                if value == 0 {
                    ended = Some(false);
                    break;
                }
                if characters.len() == most {
                    return string(&characters, mark, true);
                }
                characters.push(value);
            }
            if let Some(missing) = ended {
                break missing;
            }
            match at.checked_add(CHUNK as u64).filter(|_| bytes.len() == CHUNK) {
                Some(next) => at = next,
                None => break true,
            }
        };
        match (missing, characters.is_empty()) {
            (true, true) => super::missing(Missing::Unavailable).to_owned(),
            (true, false) => format!("{}<unavailable>", string(&characters, mark, true)),
            (false, _) => string(&characters, mark, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        string(&bytes.iter().map(|byte| i128::from(*byte)).collect::<Vec<_>>(), "", false)
    }

    #[test]
    fn texts_are_those_of_gdb() {
        assert_eq!(text(b"hello"), "\"hello\"");
        assert_eq!(text(b""), "\"\"");
        assert_eq!(text(b"a\"b\\c\n\x01\xff"), r#""a\"b\\c\n\001\377""#);
        assert_eq!(text(b"hello\0\0\0\0\0\0\0\0\0\0\0"), r#""hello", '\000' <repeats 11 times>"#);
        assert_eq!(text(b"xxxxxxxxxxxxab"), r#"'x' <repeats 12 times>, "ab""#);
        assert_eq!(text(b"ayyyyyyyyyyyb"), r#""a", 'y' <repeats 11 times>, "b""#);
        assert_eq!(quoted(97, '\''), "'a'");
        assert_eq!(quoted(39, '\''), r"'\''");
        assert_eq!(quoted(-1, '\''), r"'\377'");
    }
}
