//! The memory that is asked about, as people type it: an address, a variable, or a part of one.

use crate::backtrace::{DWARF_NUMBERS, unwind};
use crate::crash::{Seen, is_system};
use crate::cursor::Cursor;
use crate::error::{ReplayError, Result};
use crate::log::Log;
use crate::symbols::Symbolizer;
use bugnet_debuginfo::expression::{self, ExpressionError, Named, Names};
use bugnet_debuginfo::frame::{Frame, Stack};
use bugnet_debuginfo::image::Image;
use bugnet_debuginfo::registers::{self, VECTORS, XMM0};
use bugnet_format::types::Addr;
use std::rc::Rc;
use std::str::FromStr;

/// Most bytes that are asked about at once.
pub const MAX_BYTES: u64 = 1 << 16;

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Bytes at an address: `0x7ffd1000:8`.
    Bytes {
        /// The first.
        addr: Addr,
        /// How many.
        len: u64,
    },
    /// A variable or a part of one, as C writes it: `total`, `list->next->value`, `*argv[1]`.
    Expression(String),
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let text = text.trim();
        if !text.starts_with(|first: char| first.is_ascii_digit()) {
            return if text.is_empty() {
                Err("nothing is asked about".into())
            } else {
                Ok(Self::Expression(text.into()))
            };
        }
        let (start, len) = text.split_once(':').unwrap_or((text, "1"));
        let digits = start.strip_prefix("0x").unwrap_or(start);
        let addr = u64::from_str_radix(digits, 16).ok().filter(|addr| addr >> 47 == 0);
        match (addr, len.parse()) {
            (Some(addr), Ok(len)) if (1..=MAX_BYTES).contains(&len) => Ok(Self::Bytes { addr: Addr(addr), len }),
            _ => Err(format!(
                "{text} is no memory: expected ADDR or ADDR:N with an address below 2^47 in hexadecimal and 1 to {MAX_BYTES} bytes, \
                 or a variable"
            )),
        }
    }
}

/// Where a byte is that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In memory.
    Memory(Addr),
    /// In a general purpose register, by the processor's number: which byte of it, the lowest first.
    General {
        /// Which register.
        number: usize,
        /// Which byte.
        byte: usize,
    },
    /// In a vector register.
    Vector {
        /// Which register.
        number: usize,
        /// Which byte.
        byte: usize,
    },
}

impl Home {
    /// The same in the processor's terms instead of DWARF's; none for a register that has no number here.
    fn of(home: registers::Home) -> Option<Self> {
        let (number, byte) = match home {
            registers::Home::Memory(addr) => return Some(Self::Memory(Addr(addr))),
            registers::Home::Register { number, byte } => (number, byte),
        };
        let general = DWARF_NUMBERS.iter().position(|dwarf| *dwarf == number);
        let vector = || number.checked_sub(XMM0).filter(|number| *number < VECTORS);
        let general = general.map(|number| Self::General { number, byte });
        general.or_else(|| Some(Self::Vector { number: vector()?, byte }))
    }
}

/// A stack at a moment, in which names mean something.
pub(super) struct Scene {
    frames: Vec<Frame>,
    functions: Vec<String>,
    fs_base: u64,
    /// The innermost frame of the user's own.
    own: usize,
    images: Vec<(Rc<Image>, u64)>,
}

/// What an expression was found to name.
pub(super) enum Found<'a> {
    /// A variable, or a part of one.
    Variable {
        named: Named<'a>,
        /// Number and function of the frame that it belongs to; none if it is the same everywhere.
        frame: Option<(usize, String)>,
    },
    /// A symbol without debug information: its bytes.
    Symbol { addr: Addr, len: u64 },
}

/// A variable that was found in memory, or a part of one.
pub(super) struct Variable<'a> {
    /// How to print it; none if there is no debug information.
    pub named: Option<Named<'a>>,
    /// First byte, and how many.
    pub addr: Addr,
    pub len: u64,
    /// Number and function of the frame that it belongs to; none if it is the same everywhere.
    pub frame: Option<(usize, String)>,
}

impl Scene {
    /// What is in scope where a cursor is.
    pub fn of(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<Self> {
        let (regs, code) = (cursor.regs().clone(), log.code(cursor.pid())?);
        let unwound = unwind(&regs, cursor, symbols, &code)?;
        let path = |number: &usize| unwound.frames[*number].place.module.as_ref().map(|module| module.path.clone());
        let own = (0..unwound.frames.len()).find(|number| path(number).is_some_and(|path| !is_system(&path)));
        let function = |frame: &crate::backtrace::Frame| {
            let name = frame.place.source.first().and_then(|source| source.function.clone());
            name.or_else(|| frame.place.symbol.as_ref().map(|symbol| symbol.name.clone())).unwrap_or_else(|| "?".into())
        };
        let functions = unwound.frames.iter().map(function).collect();
        let (frames, images) = (unwound.states, symbols.images());
        Ok(Self { frames, functions, fs_base: regs.fs_base, own: own.unwrap_or(0), images })
    }

    pub fn stack(&self) -> Stack<'_> {
        Stack { frames: &self.frames, fs_base: Some(self.fs_base) }
    }

    pub fn images(&self) -> Vec<(&Image, u64)> {
        self.images.iter().map(|(image, bias)| (&**image, *bias)).collect()
    }

    /// Looks for what an expression names: in the innermost frame of the user's own, then among what is the same everywhere, then in the frames
    /// of libraries inside of that, which have names that the user has not heard of, and last in those outside. What is not there in a library's
    /// frame counts only if there is nothing else.
    pub fn find<'a>(
        &self,
        text: &str,
        stack: &'a Stack<'a>,
        images: &'a [(&'a Image, u64)],
        seen: &mut Seen<'_>,
    ) -> Result<Found<'a>> {
        let (own, count) = (self.own, self.frames.len());
        let frames = (own..count.min(own + 1)).map(Some).chain([None]).chain((0..own).chain(own + 1..count).map(Some));
        let (mut failed, mut left) = (None, None);
        for frame in frames {
            let of_library = frame.is_some_and(|frame| frame < own);
            let images = if frame.is_none() { images } else { &[] };
            let found = match expression::find(text, Names { stack, frame, images }, seen) {
                Ok(named) => {
                    let is_there = named.missing().is_none();
                    let frame = frame.map(|number| (number, self.functions[number].clone()));
                    let found = Found::Variable { named, frame };
                    if is_there || !of_library {
                        return Ok(found);
                    }
                    Ok(found)
                }
                Err(error @ ExpressionError::NoVariable(_)) => {
                    failed.get_or_insert(error);
                    continue;
                }
                Err(error) => Err(ReplayError::OutOfRange(format!("{text}: {error}"))),
            };
            if !of_library {
                return found;
            }
            left.get_or_insert(found);
        }
        let mut symbols =
            images.iter().flat_map(|(image, bias)| image.globals(text).into_iter().map(|one| (one, *bias)));
        if let Some((global, bias)) = symbols.next() {
            let (addr, len) = (Addr(global.address.wrapping_add(bias)), global.size.unwrap_or(1).clamp(1, MAX_BYTES));
            return Ok(Found::Symbol { addr, len });
        }
        if let Some(left) = left {
            return left;
        }
        let why = failed.map_or_else(|| "nothing is known by this name".to_owned(), |error| error.to_string());
        let functions = self.functions.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(ReplayError::OutOfRange(format!(
            "{text}: {why}; the innermost functions are {functions}; --before says where else to look for the name"
        )))
    }
}

fn wrong(text: &str, why: &str) -> ReplayError {
    ReplayError::OutOfRange(format!("{text}: {why}"))
}

impl<'a> Found<'a> {
    /// Where it is, if that is in memory.
    pub fn in_memory(self, text: &str) -> Result<Variable<'a>> {
        let (named, frame) = match self {
            Self::Symbol { addr, len } => return Ok(Variable { named: None, addr, len, frame: None }),
            Self::Variable { named, frame } => (named, frame),
        };
        let Some(addr) = named.address() else {
            let why = match named.missing() {
                Some(why) => format!("it is {why} there, so that it has no memory which something could have written"),
                None => "it is not in memory there but in a register, or computed".into(),
            };
            return Err(wrong(text, &why));
        };
        let len = size(text, &named)?;
        Ok(Variable { addr: Addr(addr), len, frame, named: Some(named) })
    }

    /// Where each of its bytes is, in memory or in a register.
    pub fn homes(&self, text: &str) -> Result<Vec<Home>> {
        let named = match self {
            Self::Symbol { addr, len } => return Ok(bytes(*addr, *len)),
            Self::Variable { named, .. } => named,
        };
        if let Some(why) = named.missing() {
            return Err(wrong(text, &format!("it is {why} there, so that there is nothing that could have made it")));
        }
        let len = size(text, named)?;
        let found: Vec<Home> = named.homes().into_iter().flatten().filter_map(Home::of).collect();
        if found.len() as u64 == len {
            return Ok(found);
        }
        Err(wrong(
            text,
            &match found.len() {
                0 => "it is neither in memory there nor in a register: the debug information says how to compute it"
                    .to_owned(),
                _ => format!(
                    "only {} of its {len} bytes are in memory there or in registers; name a part of it",
                    found.len()
                ),
            },
        ))
    }
}

/// How large it is, if that can be asked about at once.
fn size(text: &str, named: &Named<'_>) -> Result<u64> {
    match (named.size(), named.address()) {
        (Some(len @ 1..=MAX_BYTES), _) => Ok(len),
        (Some(len), _) => Err(wrong(text, &format!("it has {len} bytes; name a part of it"))),
        (None, Some(addr)) => {
            let why = format!("its size is not known; it begins at {addr:#x}, which can be given as {addr:#x}:N");
            Err(wrong(text, &why))
        }
        (None, None) => Err(wrong(text, "its size is not known")),
    }
}

/// Bytes of memory, one by one.
pub(super) fn bytes(addr: Addr, len: u64) -> Vec<Home> {
    (0..len).map(|at| Home::Memory(Addr(addr.0.wrapping_add(at)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type() {
        let bytes = |addr, len| Ok(Subject::Bytes { addr: Addr(addr), len });
        assert_eq!("0x7ffd1000:8".parse(), bytes(0x7ffd_1000, 8));
        assert_eq!("7ffd1000".parse(), bytes(0x7ffd_1000, 1));
        assert_eq!("beef".parse::<Subject>(), Ok(Subject::Expression("beef".into())));
        assert_eq!("*a->b[3]".parse::<Subject>(), Ok(Subject::Expression("*a->b[3]".into())));
        for wrong in ["", "0x", "0x1000:0", "0x1000:x", "0x800000000000", "0x1000:65537", "12zz"] {
            assert!(wrong.parse::<Subject>().is_err(), "{wrong}");
        }
    }
}
