//! Little-endian integers and LEB128 varints, with bounds checked on every read.

/// A record stream or header that ends too early or holds a number out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireError(pub &'static str);

/// A cursor over bytes that never reads past the end.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next byte, without moving on.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let end = self.at.checked_add(len).ok_or(WireError("length overflows"))?;
        let out = self.bytes.get(self.at..end).ok_or(WireError("ends in the middle"))?;
        self.at = end;
        Ok(out)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Unsigned LEB128 of at most 64 bits; a longer or wider number is an error.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, WireError> {
        if let Some(byte @ ..0x80) = self.peek() {
            self.at += 1;
            return Ok(byte.into());
        }
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(WireError("number wider than 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError("number longer than 10 bytes"))
    }

    /// A varint length followed by that many bytes, at most `max` of them.
    #[inline]
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], WireError> {
        let len = usize::try_from(self.varint()?).map_err(|_| WireError("length overflows"))?;
        if len > max {
            return Err(WireError("length above the limit of its field"));
        }
        self.take(len)
    }
}

/// Appends an unsigned LEB128 number.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
