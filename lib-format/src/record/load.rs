//! The value of a `LOAD` record and its forms.

use super::{MAX_ORDINAL, MAX_VALUE, Record, tag};
use crate::wire::{Reader, WireError, put_bytes, put_varint};

/// Sizes and forms of a `LOAD` record's value, in the low five bits of its tag: `(form, stored bytes, value bytes)`.
/// A value of more bytes than stored has zeros above.
pub const LOAD_FORMS: [(u8, usize, usize); 11] = [
    (0, 1, 1),
    (1, 2, 2),
    (2, 4, 4),
    (3, 8, 8),
    (4, 1, 8),
    (5, 2, 8),
    (6, 4, 8),
    (7, 1, 4),
    (8, 2, 4),
    (9, 16, 16),
    (10, 32, 32),
];

/// Form of a `LOAD` with explicit ordinal, offset and length.
pub const LOAD_GENERAL: u8 = 31;

/// The value of a [`Record::Load`]: the bytes that the stream holds, then zeros up to the length.
#[derive(Clone, Copy, Debug, Eq)]
pub struct LoadValue<'a> {
    stored: &'a [u8],
    len: usize,
}

impl<'a> LoadValue<'a> {
    /// A value with all of its bytes at hand: 1 to [`MAX_VALUE`] of them.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { stored: bytes, len: bytes.len() }
    }

    /// Length in bytes.
    #[must_use]
    #[allow(
        clippy::len_without_is_empty,
        reason = "a value is a register's or a memory operand's: never empty by format"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes, lowest address first.
    pub fn iter(&self) -> impl Iterator<Item = u8> + 'a {
        self.stored.iter().copied().chain(std::iter::repeat(0)).take(self.len)
    }

    /// The bytes of a value of up to `N` bytes, lowest address first, and zeros behind them.
    #[must_use]
    pub fn to_array<const N: usize>(&self) -> [u8; N] {
        if let Ok(whole) = self.stored.try_into() {
            return whole;
        }
        let mut out = [0; N];
        out.iter_mut().zip(self.stored).for_each(|(to, from)| *to = *from);
        out
    }

    /// The bytes, lowest address first.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.iter().collect()
    }
}

impl PartialEq for LoadValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// The shortest of [`LOAD_FORMS`] for a value, and its stored bytes.
fn shortest_form(value: &[u8]) -> Option<(u8, usize)> {
    let form = match *value {
        [_] => 0,
        [_, _] => 1,
        [_, 0, 0, 0] => 7,
        [_, _, 0, 0] => 8,
        [_, _, _, _] => 2,
        [_, 0, 0, 0, 0, 0, 0, 0] => 4,
        [_, _, 0, 0, 0, 0, 0, 0] => 5,
        [_, _, _, _, 0, 0, 0, 0] => 6,
        [_, _, _, _, _, _, _, _] => 3,
        _ if value.len() == 16 => 9,
        _ if value.len() == 32 => 10,
        _ => return None,
    };
    let (form, stored, _) = LOAD_FORMS[form];
    Some((form, stored))
}

/// Appends a `LOAD` record in its shortest form; the logger's slow path calls this directly.
///
/// `value` has 1 to [`MAX_VALUE`] bytes; a longer piece of memory is several records.
pub fn encode_load(out: &mut Vec<u8>, delta: u64, ordinal: u8, offset: u64, value: &[u8]) {
    debug_assert!((1..=MAX_VALUE).contains(&value.len()) && ordinal <= MAX_ORDINAL);
    let form = if ordinal < 4 && offset == 0 { shortest_form(value) } else { None };
    if let Some((form, stored)) = form {
        out.push(tag::LOAD | ordinal << 5 | form);
        put_varint(out, delta);
        out.extend_from_slice(&value[..stored]);
    } else {
        out.push(tag::LOAD | LOAD_GENERAL);
        put_varint(out, delta);
        out.push(ordinal);
        put_varint(out, offset);
        put_bytes(out, value);
    }
}

/// What a `LOAD` record says.
pub(super) struct Load<'a> {
    pub delta: u64,
    pub ordinal: u64,
    pub offset: u64,
    pub value: LoadValue<'a>,
}

impl<'a> Load<'a> {
    /// The record.
    #[inline(always)]
    pub fn record(self) -> Record<'a> {
        let Self { delta, ordinal, offset, value } = self;
        Record::Load { delta, ordinal: ordinal as u8, offset, value }
    }
}

// Nearly all records are of this kind: they are not to be copied from place to place on the way.
#[inline(always)]
pub(super) fn decode_load<'a>(r: &mut Reader<'a>, first: u8) -> Result<Load<'a>, WireError> {
    let form = first & 0x1f;
    let delta = r.varint()?;
    if form == LOAD_GENERAL {
        if first & 0x60 != 0 {
            return Err(WireError("ordinal in the tag of a general LOAD"));
        }
        let ordinal = r.u8()?;
        if ordinal > MAX_ORDINAL {
            return Err(WireError("ordinal of a LOAD out of range"));
        }
        let offset = r.varint()?;
        let value = r.bytes(MAX_VALUE)?;
        if value.is_empty() {
            return Err(WireError("a LOAD of no bytes"));
        }
        if offset.checked_add(value.len() as u64).is_none() {
            return Err(WireError("offset of a LOAD out of range"));
        }
        return Ok(Load { delta, ordinal: ordinal.into(), offset, value: LoadValue::new(value) });
    }
    let (_, stored, len) = *LOAD_FORMS.get(usize::from(form)).ok_or(WireError("unknown form of a LOAD"))?;
    let value = LoadValue { stored: r.take(stored)?, len };
    Ok(Load { delta, ordinal: (first >> 5 & 3).into(), offset: 0, value })
}
