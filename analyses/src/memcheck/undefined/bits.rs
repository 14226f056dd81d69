//! Which bits of memory are undefined, and where that comes from: a byte of V bits for each byte (1: undefined), and an origin for
//! each 8 bytes ("Using Valgrind to detect undefined value errors with bit-precision", Seward and Nethercote, section 2). Pages of which
//! all is defined, or nothing is, take no room.

use super::origins::OriginId;
use std::ops::Range;

/// Bytes of memory of a page.
const PAGE: u64 = 1 << 12;
/// Bytes of memory with one origin.
const GRANULE: u64 = 8;
/// Pages of a table.
const PAGES: u64 = 1 << 16;
const TABLE: u64 = PAGE * PAGES;
/// Behind all addresses of programs.
const END: u64 = 1 << 47;

/// The V bits of up to 32 bytes, the lowest byte first.
pub type Bits = [u64; 4];

/// All of these are defined.
pub const DEFINED: Bits = [0; 4];

struct Bytes {
    bits: [u8; PAGE as usize],
    origins: [OriginId; (PAGE / GRANULE) as usize],
}

enum Page {
    Defined,
    Undefined(OriginId),
    Each(Box<Bytes>),
}

/// Of all memory.
pub struct Memory {
    tables: Vec<Option<Box<[Page]>>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { tables: (0..END / TABLE).map(|_| None).collect() }
    }
}

impl Memory {
    #[inline]
    fn page(&self, addr: u64) -> &Page {
        match self.tables.get((addr / TABLE) as usize) {
            Some(Some(table)) => &table[(addr % TABLE / PAGE) as usize],
            _ => &Page::Defined,
        }
    }

    /// Whether all of these bytes are defined.
    #[inline]
    pub fn is_defined(&self, addr: u64, len: u64) -> bool {
        let at = (addr % PAGE) as usize;
        if at as u64 + len > PAGE {
            let rest = PAGE - at as u64;
            return self.is_defined(addr, rest) && self.is_defined(addr.wrapping_add(rest), len - rest);
        }
        match self.page(addr) {
            Page::Defined => true,
            Page::Undefined(_) => len == 0,
            Page::Each(bytes) => {
                let bits = &bytes.bits[at..at + len as usize];
                match bits.try_into() {
                    Ok(bits) => u64::from_ne_bytes(bits) == 0,
                    Err(_) => bits.iter().all(|byte| *byte == 0),
                }
            }
        }
    }

    fn byte(&self, addr: u64) -> (u8, OriginId) {
        match self.page(addr) {
            Page::Defined => (0, OriginId::NONE),
            Page::Undefined(origin) => (0xff, *origin),
            Page::Each(bytes) => {
                let at = addr % PAGE;
                (bytes.bits[at as usize], bytes.origins[(at / GRANULE) as usize])
            }
        }
    }

    /// The first of these bytes that is not defined, or not all of it, and where that comes from.
    pub fn first_undefined(&self, addr: u64, len: u64) -> Option<(u64, OriginId)> {
        let end = addr.saturating_add(len);
        let mut at = addr;
        while at < end {
            let next = (at / PAGE * PAGE + PAGE).min(end);
            if !self.is_defined(at, next - at) {
                return (at..next).find_map(|at| Some((at, self.byte(at).1)).filter(|_| self.byte(at).0 != 0));
            }
            at = next;
        }
        None
    }

    /// The V bits of up to 32 bytes, and where the first undefined one comes from.
    pub fn load(&self, addr: u64, len: u64) -> Bits {
        let mut bits = DEFINED;
        for number in 0..len.min(32) {
            let byte = self.byte(addr.wrapping_add(number)).0;
            bits[(number / 8) as usize] |= u64::from(byte) << (number % 8 * 8);
        }
        bits
    }

    /// Sets the V bits of up to 32 bytes.
    pub fn store(&mut self, addr: u64, len: u64, bits: &Bits, origin: OriginId) {
        for number in 0..len.min(32) {
            let byte = (bits[(number / 8) as usize] >> (number % 8 * 8)) as u8;
            self.set(addr.wrapping_add(number), byte, origin);
        }
    }

    fn set(&mut self, addr: u64, byte: u8, origin: OriginId) {
        if byte == 0 {
            self.define(addr, 1);
        } else if let Some(bytes) = self.each(addr) {
            let at = addr % PAGE;
            bytes.bits[at as usize] = byte;
            bytes.origins[(at / GRANULE) as usize] = origin;
        }
    }

    /// The bytes of a page, which is to have each.
    fn each(&mut self, addr: u64) -> Option<&mut Bytes> {
        let table = self.tables.get_mut((addr / TABLE) as usize)?;
        let table = table.get_or_insert_with(|| (0..PAGES).map(|_| Page::Defined).collect());
        let page = &mut table[(addr % TABLE / PAGE) as usize];
        let (bits, origin) = match page {
            Page::Defined => (0, OriginId::NONE),
            Page::Undefined(origin) => (0xff, *origin),
            Page::Each(_) => (0, OriginId::NONE),
        };
        if !matches!(page, Page::Each(_)) {
            let fresh = Bytes { bits: [bits; PAGE as usize], origins: [origin; (PAGE / GRANULE) as usize] };
            *page = Page::Each(Box::new(fresh));
        }
        match page {
            Page::Each(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// These bytes are defined from now on.
    #[inline]
    pub fn define(&mut self, addr: u64, len: u64) {
        let at = (addr % PAGE) as usize;
        if at as u64 + len <= PAGE && len < PAGE {
            let Some(Some(table)) = self.tables.get_mut((addr / TABLE) as usize) else { return };
            match &mut table[(addr % TABLE / PAGE) as usize] {
                Page::Defined => return,
                Page::Each(bytes) => {
                    let bits = &mut bytes.bits[at..at + len as usize];
                    // What is copied by eights needs no call.
                    match <&mut [u8; 8]>::try_from(&mut *bits) {
                        Ok(eight) => *eight = [0; 8],
                        Err(_) => bits.fill(0),
                    }
                    return;
                }
                Page::Undefined(_) => {}
            }
        }
        self.fill(addr..addr.saturating_add(len).min(END), 0, OriginId::NONE);
    }

    /// These bytes are undefined from now on.
    pub fn undefine(&mut self, addr: u64, len: u64, origin: OriginId) {
        self.fill(addr..addr.saturating_add(len).min(END), 0xff, origin);
    }

    fn fill(&mut self, range: Range<u64>, bits: u8, origin: OriginId) {
        let mut at = range.start;
        while at < range.end {
            let next = (at / PAGE * PAGE + PAGE).min(range.end);
            let Some(table) = self.tables.get_mut((at / TABLE) as usize) else { return };
            if table.is_none() && bits == 0 {
                at = (at / TABLE * TABLE + TABLE).min(range.end);
                continue;
            }
            if next - at == PAGE {
                let table = table.get_or_insert_with(|| (0..PAGES).map(|_| Page::Defined).collect());
                let page = &mut table[(at % TABLE / PAGE) as usize];
                *page = if bits == 0 { Page::Defined } else { Page::Undefined(origin) };
            } else if (bits != 0 || !matches!(self.page(at), Page::Defined))
                && let Some(bytes) = self.each(at)
            {
                let (first, last) = ((at % PAGE) as usize, ((next - 1) % PAGE) as usize);
                bytes.bits[first..=last].fill(bits);
                if bits != 0 {
                    bytes.origins[first / GRANULE as usize..=last / GRANULE as usize].fill(origin);
                }
            }
            at = next;
        }
    }

    /// Bytes are copied, which may overlap.
    pub fn copy(&mut self, from: u64, to: u64, len: u64) {
        if self.is_defined_long(from, len) {
            self.define(to, len);
            return;
        }
        let bytes: Vec<(u8, OriginId)> = (from..from.saturating_add(len)).map(|at| self.byte(at)).collect();
        for (at, (bits, origin)) in (to..).zip(bytes) {
            self.set(at, bits, origin);
        }
    }

    fn is_defined_long(&self, addr: u64, len: u64) -> bool {
        self.first_undefined(addr, len).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_apart() {
        let mut memory = Memory::default();
        let origin = OriginId::numbered(3);
        memory.undefine(0x1ff0, 0x2020, origin);
        assert!(memory.is_defined(0x1fe0, 16) && !memory.is_defined(0x1fe8, 9));
        assert!(memory.is_defined(0x4010, 64) && !memory.is_defined(0x400f, 1));
        assert_eq!(memory.first_undefined(0x1000, 0x10000), Some((0x1ff0, origin)));
        // A page of which nothing is defined, but for a few bytes.
        memory.define(0x2ffd, 6);
        assert_eq!(memory.load(0x2ff8, 16), [0xff_ffff_ffff, !0 << 24, 0, 0]);
        memory.store(0x2ff8, 8, &[0xf0, 0, 0, 0], origin);
        assert_eq!(memory.load(0x2ff8, 8), [0xf0, 0, 0, 0]);
        memory.copy(0x2ff8, 0x9000, 0x10);
        assert_eq!(memory.first_undefined(0x9001, 0x100), Some((0x900b, origin)));
        memory.define(0, 1 << 20);
        assert_eq!(memory.first_undefined(0, 1 << 20), None);
    }
}
