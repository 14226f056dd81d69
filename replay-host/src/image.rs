//! Maps `libdynamorio.so` the way the kernel maps a program, at an address of our choice.

use crate::kernel::{
    File, MAP_FIXED, MAP_FIXED_NOREPLACE, PROT_EXEC, PROT_READ, PROT_WRITE, map_file, map_zeros, open, read,
};
use crate::report::Failure;
use core::ffi::CStr;

const PAGE: usize = 4096;
const PT_LOAD: u32 = 1;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;

/// Start of an ELF file, as far as needed here; its fields are at fixed places for 64-bit files.
struct Header([u8; PAGE]);

/// A loadable segment.
struct Segment {
    flags: u32,
    offset: usize,
    address: usize,
    file_size: usize,
    memory_size: usize,
}

impl Header {
    fn number<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.number(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.number(at).map(u32::from_le_bytes)
    }

    fn usize(&self, at: usize) -> Option<usize> {
        self.number(at).map(usize::from_le_bytes)
    }

    fn is_library(&self) -> bool {
        self.0.starts_with(b"\x7fELF\x02\x01") && self.u16(16) == Some(ET_DYN) && self.u16(18) == Some(EM_X86_64)
    }

    /// The loadable segments, ascending by address.
    fn segments(&self) -> impl Iterator<Item = Segment> {
        let (table, count) = (self.usize(32).unwrap_or(0), self.u16(56).unwrap_or(0));
        (0..usize::from(count)).filter_map(move |i| {
            let at = table.checked_add(i * 56)?;
            let segment = Segment {
                flags: self.u32(at + 4)?,
                offset: self.usize(at + 8)?,
                address: self.usize(at + 16)?,
                file_size: self.usize(at + 32)?,
                memory_size: self.usize(at + 40)?,
            };
            (self.u32(at)? == PT_LOAD).then_some(segment)
        })
    }
}

impl Segment {
    fn protection(&self) -> usize {
        [(4, PROT_READ), (2, PROT_WRITE), (1, PROT_EXEC)]
            .into_iter()
            .filter(|(bit, _)| self.flags & bit != 0)
            .fold(0, |all, (_, one)| all | one)
    }

    /// Maps the segment with its addresses moved by `delta`.
    fn map(&self, file: File, delta: usize) -> Result<(), Failure> {
        let start = (self.address & !(PAGE - 1)).wrapping_add(delta);
        let file_end = self.address.wrapping_add(self.file_size).wrapping_add(delta);
        let end = self.address.wrapping_add(self.memory_size).wrapping_add(delta);
        let offset = self.offset & !(PAGE - 1);
        let failed = "cannot map a segment of libdynamorio.so";
        let protection = self.protection();
        // SAFETY: the whole image was mapped at this place by `map` below, so nothing else is overwritten.
        unsafe { map_file(start, file_end - start, protection, MAP_FIXED, file, offset, failed) }?;
        let file_pages_end = file_end.next_multiple_of(PAGE);
        if end > file_end && self.flags & 2 != 0 {
            // SAFETY: the rest of the segment's last page of the file, mapped just now, writable.
            unsafe { core::ptr::write_bytes(file_end as *mut u8, 0, file_pages_end.min(end) - file_end) };
        }
        if end > file_pages_end {
            // SAFETY: as for the file's part.
            unsafe { map_zeros(file_pages_end, end - file_pages_end, protection, MAP_FIXED, failed) }?;
        }
        Ok(())
    }
}

/// Maps the library at `base`, which is free; returns its entry point.
pub fn map(path: &CStr, base: usize) -> Result<usize, Failure> {
    let file = open(path, "cannot open libdynamorio.so, the first argument")?;
    let mut header = Header([0; PAGE]);
    read(file, &mut header.0, "cannot read libdynamorio.so")?;
    let broken = Failure::new("the first argument is no library of this architecture", 0);
    if !header.is_library() {
        return Err(broken);
    }
    let first = header.segments().map(|s| s.address & !(PAGE - 1)).min();
    let last = header.segments().map(|s| s.address.saturating_add(s.memory_size)).max();
    let (Some(first), Some(last), Some(entry)) = (first, last, header.usize(24)) else { return Err(broken) };
    let size = last.next_multiple_of(PAGE) - first;
    if size > 1 << 28 {
        return Err(broken);
    }
    // SAFETY: the kernel places nothing in the window by itself, and FIXED_NOREPLACE makes sure.
    unsafe { map_zeros(base, size, 0, MAP_FIXED_NOREPLACE, "the window is taken") }?;
    let delta = base.wrapping_sub(first);
    for segment in header.segments() {
        segment.map(file, delta)?;
    }
    Ok(entry.wrapping_add(delta))
}
