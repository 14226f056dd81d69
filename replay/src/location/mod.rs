//! What people type to say where: a position, a source line, a function, an address; and how one gets there.
//!
//! ```text
//! 4711/3/123  @5000000  start  end     positions ([`Seek`])
//! main.c:12   src/main.c:12            a line; the end of the file's path is enough
//! sum  list::sum  _ZN4list3sumEv       a function: everywhere it begins, copies and inlined ones too
//! list.c:sum                           the one of this file
//! sum+0x1c  0x401136  *0x401136        an instruction
//! ```

mod code;
mod go;

pub use code::{Code, Spot};
pub(crate) use go::finish_prologue;
pub use go::{Arrival, Choice, check_thread, go};

use crate::cursor::{Place, Seek};
use bugnet_format::types::Addr;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Where, as somebody typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A moment.
    Position(Seek),
    /// Code, which may run many times or never.
    Code(Name),
}

/// A piece of code by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// A line of a source file.
    Line {
        /// The end of its path.
        file: String,
        /// The line, from 1.
        line: u64,
    },
    /// A function.
    Function {
        /// The end of the path of the file that it is in, if that matters.
        file: Option<String>,
        /// Its name.
        name: String,
        /// Bytes from its start, if not the function is meant but this instruction.
        offset: Option<u64>,
    },
    /// An instruction.
    Address(Addr),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Function { file, name, offset } => {
                if let Some(file) = file {
                    write!(f, "{file}:")?;
                }
                write!(f, "{name}")?;
                offset.map_or(Ok(()), |offset| write!(f, "+{offset:#x}"))
            }
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let is_place = text.split('/').count() == 3 && !text.starts_with('/') && text.split('/').all(is_number);
        if is_place {
            return Ok(Self::Position(Seek::Place(text.parse::<Place>()?)));
        }
        if text == "start" || text == "end" || text.starts_with('@') {
            return Ok(Self::Position(text.parse()?));
        }
        text.parse().map(Self::Code)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(address) = text.strip_prefix('*').or_else(|| text.starts_with("0x").then_some(text)) {
            return address_of(address.trim()).map(Self::Address).ok_or_else(|| {
                format!("{text} is no address: expected one below 2^47 in hexadecimal, such as 0x7f3a20001000")
            });
        }
        if text.is_empty() || is_number(text) {
            return Err(format!(
                "{text:?} says no place: a line is FILE:LINE, as main.c:12; a position is THREAD/INTERVAL/INSTRUCTION, as 4711/3/123, \
                 or @TIME; an address begins with 0x"
            ));
        }
        let (file, rest) = match split_file(text) {
            Some((file, line)) if is_number(line) => {
                let number = line.parse().ok().filter(|line| *line > 0);
                let line = number.ok_or_else(|| format!("{line} is no line: lines count from 1"))?;
                return Ok(Self::Line { file: file.to_owned(), line });
            }
            Some((file, name)) => (Some(file.to_owned()), name),
            None => (None, text),
        };
        let (name, offset) = match rest.rsplit_once('+') {
            Some((name, offset)) if !name.ends_with("operator") && number_of(offset).is_some() => {
                (name, number_of(offset))
            }
            _ => (rest, None),
        };
        let name = name.strip_suffix("()").unwrap_or(name).to_owned();
        Ok(Self::Function { file, name, offset })
    }
}

/// `FILE` and what is behind it. The colons of `space::f` divide no file from anything.
fn split_file(text: &str) -> Option<(&str, &str)> {
    let (file, rest) = text.rsplit_once(':')?;
    let is_file = !file.is_empty() && !rest.is_empty() && !file.ends_with(':') && !file.contains("::");
    is_file.then_some((file, rest))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b'.')
}

fn address_of(text: &str) -> Option<Addr> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let hexadecimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address = hexadecimal.then(|| u64::from_str_radix(digits, 16).ok())??;
    (address >> 47 == 0).then_some(Addr(address))
}

fn number_of(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(file: Option<&str>, name: &str, offset: Option<u64>) -> Location {
        Location::Code(Name::Function { file: file.map(Into::into), name: name.into(), offset })
    }

    #[test]
    fn what_people_type() {
        let line = |file: &str, line| Location::Code(Name::Line { file: file.into(), line });
        let position = |text: &str| Location::Position(text.parse().unwrap());
        let address = |address| Location::Code(Name::Address(Addr(address)));
        for (text, expected) in [
            ("end", position("end")),
            ("@1,000", position("@1000")),
            ("4711.1/3/123", position("4711.1/3/123")),
            ("main.c:12", line("main.c", 12)),
            ("src/lib/main.c:12", line("src/lib/main.c", 12)),
            ("main", function(None, "main", None)),
            ("a::b<c::d>", function(None, "a::b<c::d>", None)),
            ("main()", function(None, "main", None)),
            ("list.c:sum", function(Some("list.c"), "sum", None)),
            ("list.c:end", function(Some("list.c"), "end", None)),
            ("sum+0x1c", function(None, "sum", Some(0x1c))),
            ("sum+28", function(None, "sum", Some(28))),
            ("a::operator+", function(None, "a::operator+", None)),
            ("0x401136", address(0x40_1136)),
            ("*401136", address(0x40_1136)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for wrong in ["", "12", "@x", "main.c:0", "0x", "0xfffffffffffffff", "0x12g"] {
            assert!(wrong.parse::<Location>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_printed_as_they_are_typed() {
        for text in ["main.c:12", "list.c:sum", "sum+0x1c", "a::b"] {
            assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
        }
    }
}
