//! What registers point at.

use super::variables::Seen;
use crate::backtrace::Unwound;
use crate::memory::Memory;
use crate::symbols::Symbolizer;
use bugnet_debuginfo::frame::Stack;
use bugnet_debuginfo::memory::Memory as _;
use bugnet_debuginfo::registers::RSP;
use bugnet_format::regs::{GPR_NAMES, RegisterFile};
use bugnet_format::types::Addr;
use serde::Serialize;
use std::fmt::{Display, Formatter, Result, Write};

/// Addresses that programs have: above what the kernel lets nobody map, below the kernel's own.
const ADDRESSES: std::ops::Range<u64> = 0x1_0000..1 << 47;
/// Bytes that are shown, and the most of a text.
const BYTES: usize = 16;
const TEXT: usize = 64;
/// Shortest text that is taken for one, in characters.
const SHORTEST: usize = 3;

/// A register that holds an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pointer {
    /// Its name.
    pub register: &'static str,
    /// Its value.
    pub address: u64,
    /// What is there: a function or variable with what is added to it, or the part of the stack.
    pub what: Option<String>,
    /// The text there, if it looks like one.
    pub text: Option<String>,
    /// The bytes there; nothing of one that is not known. Empty where there is code or a text.
    pub bytes: Vec<Option<u8>>,
}

impl Display for Pointer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:<3} {:#018x}", self.register, self.address)?;
        if let Some(what) = &self.what {
            write!(f, "  {what}")?;
        }
        match &self.text {
            Some(text) => write!(f, "  {text}"),
            None if self.bytes.is_empty() => Ok(()),
            None if self.bytes.iter().all(Option::is_none) => write!(f, "  not known"),
            None => {
                f.write_char(' ')?;
                self.bytes.iter().try_for_each(|byte| match byte {
                    Some(byte) => write!(f, " {byte:02x}"),
                    None => write!(f, " ??"),
                })
            }
        }
    }
}

/// What the general purpose registers point at.
pub(super) fn find(
    regs: &RegisterFile,
    unwound: &Unwound,
    memory: &mut dyn Memory,
    symbols: &mut Symbolizer,
) -> Vec<Pointer> {
    let mut seen = Seen { memory, symbols };
    let stack = Stack { frames: &unwound.states, fs_base: Some(regs.fs_base) };
    let known = GPR_NAMES.iter().zip(regs.gpr).filter(|(_, value)| ADDRESSES.contains(value));
    let pointer = |(register, address): (&&'static str, u64)| {
        let is_code = seen.symbols.lookup(Addr(address)).symbol.is_some();
        let what = in_file(address, seen.symbols).or_else(|| on_stack(address, &stack, unwound, &mut seen));
        let bytes = seen.read(address, TEXT);
        let text = if is_code { None } else { text(&bytes) };
        let bytes = if is_code || text.is_some() { Vec::new() } else { bytes[..BYTES].to_vec() };
        Pointer { register, address, what, text, bytes }
    };
    known.map(pointer).collect()
}

/// What of a mapped file is at an address.
fn in_file(address: u64, symbols: &mut Symbolizer) -> Option<String> {
    let module = symbols.module_at(Addr(address))?;
    let (path, offset) = (module.path.clone(), address.wrapping_sub(module.base));
    let named = symbols.file_at(Addr(address)).and_then(|(image, own)| image.describe(own));
    Some(named.unwrap_or_else(|| format!("{path}+{offset:#x}")))
}

/// The variable of a frame at an address, or at least whose frame it is in.
fn on_stack(address: u64, stack: &Stack<'_>, unwound: &Unwound, seen: &mut Seen<'_>) -> Option<String> {
    let function = |number: usize| {
        let place = &unwound.frames[number].place;
        let name = place.source.last().and_then(|source| source.function.clone());
        name.or_else(|| place.symbol.as_ref().map(|symbol| symbol.name.clone())).unwrap_or_else(|| "?".into())
    };
    let local = |number: usize| stack.describe_local(number, address, seen).map(|name| (number, name));
    if let Some((number, name)) = (0..unwound.states.len()).find_map(local) {
        return Some(format!("{name} of #{number} {}", function(number)));
    }
    let holds = |number: &usize| {
        let state = &unwound.states[*number];
        let (from, end) = (state.registers.get(RSP), state.cfa);
        from.zip(end).is_some_and(|(from, end)| (from..end).contains(&address))
    };
    let number = (0..unwound.states.len()).find(holds)?;
    Some(format!("stack of #{number} {}", function(number)))
}

/// Bytes as a text, if they look like one as far as they are known.
fn text(bytes: &[Option<u8>]) -> Option<String> {
    let is_text = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    let known: Vec<u8> = bytes.iter().map_while(|byte| *byte).take_while(|byte| is_text(*byte)).collect();
    let ended = bytes.get(known.len()) == Some(&Some(0));
    let goes_on = known.len() == bytes.len() || bytes.get(known.len()) == Some(&None);
    let more = if ended { "" } else { "..." };
    let long = if ended { SHORTEST } else { 2 * SHORTEST };
    (known.len() >= long && (ended || goes_on)).then(|| format!("\"{}\"{more}", known.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let known = |bytes: &[u8]| bytes.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(text(&known(b"abc\0xx")).as_deref(), Some("\"abc\""));
        assert_eq!(text(&known(b"ab\0")), None);
        assert_eq!(text(&known(b"abc\x01def")), None);
        assert_eq!(text(&known(b"abcdefgh")).as_deref(), Some("\"abcdefgh\"..."));
        assert_eq!(text(&[known(b"a\n\"bcdef"), vec![None]].concat()).as_deref(), Some("\"a\\n\\\"bcdef\"..."));
        assert_eq!(text(&[None, Some(b'a')]), None);
    }

    #[test]
    fn what_is_not_known_is_said() {
        let pointer = Pointer { register: "rax", address: 0x1_0000, what: None, text: None, bytes: vec![None; 2] };
        assert_eq!(pointer.to_string(), "rax 0x0000000000010000  not known");
        let some = Pointer { bytes: vec![Some(7), None], what: Some("list+4".into()), ..pointer };
        assert_eq!(some.to_string(), "rax 0x0000000000010000  list+4  07 ??");
    }
}
