//! What wrote a variable or some bytes last, with the values before and after as a debugger prints them.

mod display;
mod subject;

pub use subject::{Home, MAX_BYTES, Subject};

use crate::crash::{LIMITS, Seen};
use crate::cursor::{Cursor, LastWrite, Seek};
use crate::error::Result;
use crate::log::Log;
use crate::memory::Memory;
use crate::symbols::Symbolizer;
use crate::syscall::{Inferred, Traces, who_wrote};
use bugnet_debuginfo::expression::Named;
use bugnet_debuginfo::memory::Memory as KnownMemory;
use bugnet_format::types::Addr;
use serde::Serialize;
use subject::{Scene, bytes};

/// What wrote something last.
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    /// What was asked about.
    pub subject: Asked,
    /// What wrote it.
    pub write: LastWrite,
    /// The system call that may have written it, where that was no instruction: inferred from where calls write. The last one that
    /// writes there, before a thread found the bytes and behind where something else was there.
    pub inferred: Option<Inferred>,
    /// Its values before and after, as a debugger prints them; none without a type.
    pub values: Option<Values>,
}

/// What was asked about, as it was found.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// The expression; none for bytes at an address.
    pub expression: Option<String>,
    /// The frame whose variable it is: its number and function, where it was asked from.
    pub frame: Option<(usize, String)>,
    /// First byte.
    pub address: Addr,
    /// Bytes.
    pub size: u64,
    /// Its type, as the source writes it.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
}

/// A value before and after it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Values {
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// Bytes of a pointer.
const POINTER: u64 = 8;

/// Memory in which some bytes are others than they are.
struct Overlay<'a, 'm> {
    seen: &'a mut Seen<'m>,
    at: u64,
    bytes: &'a [Option<u8>],
}

impl KnownMemory for Overlay<'_, '_> {
    fn read(&mut self, addr: u64, len: usize) -> Vec<Option<u8>> {
        let mut found = self.seen.read(addr, len);
        for (number, byte) in found.iter_mut().enumerate() {
            let offset = addr.wrapping_add(number as u64).checked_sub(self.at).map(|offset| offset as usize);
            if let Some(other) = offset.and_then(|offset| self.bytes.get(offset)) {
                *byte = *other;
            }
        }
        found
    }

    fn symbol(&mut self, addr: u64) -> Option<(String, u64)> {
        self.seen.symbol(addr)
    }
}

/// Where each byte of this is, in memory or in a register, where the cursor is.
///
/// # Errors
/// The expression names nothing there that is in either, or the replay process is lost.
pub fn homes_of(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, subject: &Subject) -> Result<Vec<Home>> {
    let text = match subject {
        Subject::Bytes { addr, len } => return Ok(bytes(*addr, *len)),
        Subject::Expression(text) => text,
    };
    let scene = Scene::of(log, cursor, symbols)?;
    let (stack, images) = (scene.stack(), scene.images());
    scene.find(text, &stack, &images, &mut Seen { memory: cursor, symbols })?.homes(text)
}

/// What a variable, or a part of one, holds as a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Where it is.
    pub at: Addr,
    /// Where it points; none if it has not the size of a pointer, or its value is not known.
    pub to: Option<Addr>,
}

/// What an expression holds as a pointer where the cursor is.
///
/// # Errors
/// The expression names nothing there that is in memory, or the replay process is lost.
pub fn pointer(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, text: &str) -> Result<Pointer> {
    let scene = Scene::of(log, cursor, symbols)?;
    let (stack, images) = (scene.stack(), scene.images());
    let found = scene.find(text, &stack, &images, &mut Seen { memory: cursor, symbols })?.in_memory(text)?;
    let (at, len) = (found.addr, found.len);
    drop(found);
    let bytes = if len == POINTER { cursor.read_memory(at, len)? } else { Vec::new() };
    Ok(Pointer { at, to: bytes.try_into().ok().map(|bytes| Addr(u64::from_le_bytes(bytes))) })
}

/// Goes back to what wrote this last before where the cursor is; names mean what they mean there.
///
/// # Errors
/// The expression names nothing there that is in memory, or the replay process is lost.
pub fn last_write(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, subject: &Subject) -> Result<Written> {
    let text = match subject {
        Subject::Bytes { addr, len } => {
            let asked = Asked { expression: None, frame: None, address: *addr, size: *len, type_name: None };
            return written(log, cursor, symbols, asked, None);
        }
        Subject::Expression(text) => text,
    };
    let scene = Scene::of(log, cursor, symbols)?;
    let (stack, images) = (scene.stack(), scene.images());
    let found = scene.find(text, &stack, &images, &mut Seen { memory: cursor, symbols })?.in_memory(text)?;
    let asked = Asked {
        expression: Some(text.clone()),
        frame: found.frame,
        address: found.addr,
        size: found.len,
        type_name: found.named.as_ref().map(Named::type_name),
    };
    written(log, cursor, symbols, asked, found.named)
}

fn written(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    subject: Asked,
    named: Option<Named<'_>>,
) -> Result<Written> {
    let write = cursor.last_write(subject.address, subject.size)?;
    let nothing = vec![None; subject.size as usize];
    let changed = match &write {
        LastWrite::Instruction { before, after, .. } | LastWrite::Outside { before, after, .. } => {
            Some((before, after))
        }
        LastWrite::Found { bytes, .. } => Some((&nothing, bytes)),
        LastWrite::Unknown | LastWrite::Interrupted => None,
    };
    let mut values = None;
    if let (Some(named), Some((before, after))) = (named, changed) {
        let mut value = |cursor: &mut Cursor<'_>, bytes: &[Option<u8>]| {
            let mut seen = Seen { memory: cursor, symbols };
            let mut memory = Overlay { seen: &mut seen, at: subject.address.0, bytes };
            named.evaluated(&mut memory, LIMITS).map_or_else(|error| error.to_string(), |found| found.value)
        };
        let before = value(cursor, before);
        // What it points at may have been written just before it, or by the same instruction.
        let time = cursor.time();
        cursor.step(crate::cursor::Direction::Forward)?;
        let after = value(cursor, after);
        cursor.seek(Seek::Time(time))?;
        values = Some(Values { before, after });
    }
    let (bytes, since) = match &write {
        LastWrite::Outside { after, since, .. } => (after, *since),
        LastWrite::Found { bytes, .. } => (bytes, None),
        _ => return Ok(Written { subject, write, inferred: None, values }),
    };
    let traces = Traces { addr: subject.address.0, bytes, since };
    let inferred = who_wrote(log, cursor, symbols, traces)?;
    Ok(Written { subject, write, inferred, values })
}
