//! Loads ELF files the way the kernel does, and keeps what it has mapped.

use crate::cpuid;
use crate::files::{self, Key, Kind};
use crate::layout::{BYTES, MAP, OF_FILE, ZEROS};
use crate::log::Record;
use crate::sys::{self, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_PRIVATE};

pub const PAGE: u64 = 4096;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
pub const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PT_GNU_STACK: u32 = 0x6474_e551;
/// `p_flags`: executable.
pub const PF_X: u32 = 1;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const X86_64: u16 = 62;
/// Bytes of an entry in the table of segments, and most of them.
const ENTRY: usize = 56;
const MOST: usize = 64;

/// An ELF file's header and its segments.
pub struct Elf {
    file: u64,
    key: Key,
    head: [u8; 64],
    table: [u8; ENTRY * MOST],
    count: usize,
}

/// A segment.
#[derive(Clone, Copy)]
pub struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    memory_size: u64,
}

/// A loaded file.
#[derive(Clone, Copy)]
pub struct Loaded {
    pub base: u64,
    pub entry: u64,
    /// Address and number of the table of segments.
    pub table: (u64, u64),
    pub end: u64,
    pub code: (u64, u64),
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes[at + i])
}

pub fn page_start(address: u64) -> u64 {
    address & !(PAGE - 1)
}

pub fn page_end(address: u64) -> u64 {
    page_start(address.wrapping_add(PAGE - 1))
}

impl Elf {
    /// Reads an open file's; none where it is no program of this processor that can be loaded.
    pub fn read(file: u64) -> Option<Self> {
        let Kind::Regular(key) = files::kind(file) else { return None };
        let mut elf = Self { file, key, head: [0; 64], table: [0; ENTRY * MOST], count: 0 };
        // SAFETY: room for so many bytes.
        unsafe { sys::call(sys::PREAD, [file, elf.head.as_mut_ptr() as u64, 64, 0, 0, 0]) };
        let kind = u16::from_le_bytes(number(&elf.head, 16));
        let fits = elf.head.starts_with(b"\x7fELF\x02\x01")
            && matches!(kind, ET_EXEC | ET_DYN)
            && u16::from_le_bytes(number(&elf.head, 18)) == X86_64
            && u16::from_le_bytes(number(&elf.head, 54)) as usize == ENTRY;
        elf.count = u16::from_le_bytes(number(&elf.head, 56)).into();
        if !fits || elf.count > MOST || elf.count == 0 {
            return None;
        }
        let (at, bytes) = (u64::from_le_bytes(number(&elf.head, 32)), (elf.count * ENTRY) as u64);
        // SAFETY: room for so many bytes.
        let read = unsafe { sys::call(sys::PREAD, [file, elf.table.as_mut_ptr() as u64, bytes, at, 0, 0]) };
        (read == bytes as i64).then_some(elf)
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.key.0[2]
    }

    /// Where the headers of sections are, and how many.
    pub fn sections(&self) -> (u64, u64) {
        (u64::from_le_bytes(number(&self.head, 40)), u16::from_le_bytes(number(&self.head, 60)).into())
    }

    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        (0..self.count).map(|i| {
            let entry = &self.table[i * ENTRY..][..ENTRY];
            let word = |at| u64::from_le_bytes(number(entry, at));
            Segment {
                kind: u32::from_le_bytes(number(entry, 0)),
                flags: u32::from_le_bytes(number(entry, 4)),
                offset: word(8),
                address: word(16),
                file_size: word(32),
                memory_size: word(40),
            }
        })
    }

    pub fn loads(&self) -> impl Iterator<Item = Segment> + '_ {
        self.segments().filter(|segment| segment.kind == PT_LOAD)
    }

    /// The path of the interpreter, which ends with a zero byte; none where there is none.
    pub fn interpreter(&self, room: &mut [u8]) -> Option<usize> {
        let segment = self.segments().find(|segment| segment.kind == PT_INTERP)?;
        let len = (segment.file_size as usize).min(room.len());
        // SAFETY: room for so many bytes.
        unsafe { sys::call(sys::PREAD, [self.file, room.as_mut_ptr() as u64, len as u64, segment.offset, 0, 0]) };
        Some(len)
    }

    /// Whether the stack is to be executable.
    pub fn executable_stack(&self) -> bool {
        self.segments().find(|segment| segment.kind == PT_GNU_STACK).is_none_or(|segment| segment.flags & PF_X != 0)
    }

    /// Loads it, where it can be moved at `at`, or where the kernel finds room.
    pub fn load(&self, at: Option<u64>) -> Result<Loaded, i64> {
        let first = self.loads().map(|segment| page_start(segment.address)).min().ok_or(-8i64)?;
        let last = self.loads().map(|segment| page_end(segment.address + segment.memory_size)).max().ok_or(-8i64)?;
        let fixed = u16::from_le_bytes(number(&self.head, 16)) == ET_EXEC;
        let (wanted, flags) = match at {
            _ if fixed => (first, MAP_FIXED_NOREPLACE),
            Some(at) => (at, MAP_FIXED_NOREPLACE),
            None => (0, 0),
        };
        // Room for all of it, which its parts then take.
        let room = [wanted, last - first, 0, MAP_PRIVATE | MAP_ANONYMOUS | flags, u64::MAX, 0];
        // SAFETY: replaces nothing.
        let start = unsafe { sys::call(sys::MMAP, room) };
        if start < 0 {
            return Err(start);
        }
        let base = (start as u64).wrapping_sub(first);
        let mut end = start as u64;
        let mut code = (u64::MAX, 0);
        for segment in self.loads() {
            let covered = self.map(&segment, base)?;
            // What lies between segments is nobody's.
            if covered.0 > end {
                // SAFETY: a part of the room.
                unsafe { sys::call3(sys::MUNMAP, end, covered.0 - end, 0) };
            }
            end = covered.1;
            if segment.flags & PF_X != 0 {
                code = (code.0.min(covered.0), code.1.max(covered.1));
            }
        }
        let entry = base.wrapping_add(u64::from_le_bytes(number(&self.head, 24)));
        let table = u64::from_le_bytes(number(&self.head, 32));
        let holds = |segment: &Segment| (segment.offset..segment.offset + segment.file_size).contains(&table);
        let table = self.loads().find(holds).map_or(0, |s| base.wrapping_add(s.address + (table - s.offset)));
        Ok(Loaded { base, entry, table: (table, self.count as u64), end, code })
    }

    /// Maps a segment, and tells the log; returns the pages that it has.
    fn map(&self, segment: &Segment, base: u64) -> Result<(u64, u64), i64> {
        let protection = [(4, sys::PROT_READ), (2, sys::PROT_WRITE), (PF_X, sys::PROT_EXEC)]
            .into_iter()
            .filter(|(bit, _)| segment.flags & bit != 0)
            .fold(0, |all, (_, one)| all | one);
        let start = base.wrapping_add(page_start(segment.address));
        let file_end = base.wrapping_add(segment.address + segment.file_size);
        let end = base.wrapping_add(segment.address + segment.memory_size);
        let offset = page_start(segment.offset);
        let pages = page_end(file_end);
        if segment.file_size > 0 {
            let args = [start, file_end - start, protection, MAP_PRIVATE | MAP_FIXED, self.file, offset];
            // SAFETY: a part of the room that `load` has made.
            let mapped = unsafe { sys::call(sys::MMAP, args) };
            if mapped < 0 {
                return Err(mapped);
            }
            cpuid::mapped((self.file, self.key), start..pages, protection, offset);
            note(start, pages - start, protection, OF_FILE, Some((offset, self.key)), self.path());
            if end > file_end && segment.flags & 2 != 0 && pages > file_end {
                let zeros = [0; PAGE as usize];
                let zeros = &zeros[..(pages.min(end.max(pages)) - file_end) as usize];
                sys::write(file_end, zeros);
                note(file_end, zeros.len() as u64, protection, BYTES, None, zeros);
            }
        }
        let zeros_start = if segment.file_size > 0 { pages } else { start };
        let zeros_end = page_end(end);
        if zeros_end > zeros_start {
            let flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS;
            // SAFETY: as above.
            let mapped =
                unsafe { sys::call(sys::MMAP, [zeros_start, zeros_end - zeros_start, protection, flags, u64::MAX, 0]) };
            if mapped < 0 {
                return Err(mapped);
            }
            note(zeros_start, zeros_end - zeros_start, protection, ZEROS, None, &[]);
        }
        Ok((start, zeros_end.max(pages)))
    }

    /// The path of the file, as the kernel names it.
    pub fn path(&self) -> &'static [u8] {
        files::path(self.file, self.key)
    }

    /// The log keeps the file.
    pub fn keep(&self) -> bool {
        files::keep(self.file, self.key)
    }
}

/// Tells the log of memory that is there at the start.
pub fn note(at: u64, len: u64, protection: u64, source: u64, file: Option<(u64, Key)>, bytes: &[u8]) {
    let Some(mut record) = Record::begin(MAP, 0, 72 + bytes.len()) else { return };
    let (offset, Key(key)) = file.unwrap_or((0, Key([0; 4])));
    for word in [at, len, protection, source, offset].into_iter().chain(key) {
        record.word(word);
    }
    record.bytes(bytes);
    record.end();
}

impl Elf {
    /// The file is needed no more.
    pub fn close(&self) {
        // SAFETY: this program's own descriptor.
        unsafe { sys::call3(sys::CLOSE, self.file, 0, 0) };
    }
}
