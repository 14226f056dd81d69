//! The memory of the process where an epoch begins: a fork of it writes what is no file's, and not zero, page by page, to a file that the snapshots of the program have together. What has not changed since the
//! last one is there already. Beside it, each has a list of its regions and pages, which has its name when it is whole ([`crate::layout::MEMORY_MAGIC`]). Pages that no list has any more are written over.
//!
//! The fork shares the program's descriptors until it has none, so that no file stays open for its sake, and nobody waits for it: it sends no signal when it ends.

use crate::cpuid;
use crate::elf::PAGE;
use crate::files::Key;
use crate::folder::Entry;
use crate::fork;
use crate::hot;
use crate::layout::{
    MEMORY_HEADER, MEMORY_MAGIC, OF_FILE, OF_GROUP, PAGES, REGION_WORDS, SHARED_REGION, SNAPSHOT, STACK_REGION,
    UNFINISHED, ZEROS,
};
use crate::log;
use crate::own;
use crate::reach::LINE;
use crate::signals;
use crate::state;
use crate::sys::{self, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE};
use crate::text::Text;
use core::ffi::CStr;
use core::fmt::Write;
use core::ops::Range;
use core::slice;

/// `clone`: descriptors are shared.
const CLONE_FILES: u64 = 0x400;
const WAIT4: u64 = 61;
/// `wait4`: of children that send no signal; and does not wait.
const WCLONE: u64 = 0x8000_0000;
const WNOHANG: u64 = 1;
const SETPRIORITY: u64 = 141;
/// How much less often than others the fork runs.
const NICE: u64 = 10;
const GETDENTS64: u64 = 217;
const PR_SET_DUMPABLE: u64 = 4;

/// Our own memory, of which no snapshot has anything, nor a moment.
pub const OWN: Range<u64> = 0x1100_0000_0000..0x1500_0000_0000;
/// Where the fork has its tables: the text of mappings, regions, pages, which pages of the file are in use, what the kernel says of pages, the list before, the file.
const ROOM: u64 = 0x1400_0000_0000;
const ROOMS: u64 = 0x10_0000_0000;
/// Bytes of a table.
const MOST: u64 = 0x1_0000_0000;
/// Bytes of an entry of a list of pages.
const ENTRY: u64 = 16;

/// Asks which pages are of a kind (`ioctl(PAGEMAP_SCAN)`, Linux 6.7): a structure of 12 words, and regions of 3 words each, of which so many at once.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const SCANNED: usize = 256;
/// Kinds of pages: a file's, or shared; in memory; swapped out; the one with zeros.
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;

/// What the kernel says of a page (`/proc/PID/pagemap`): it is in memory, it is swapped out, it is a file's, or shared.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_OTHERS: u64 = 1 << 61;

/// Memory that forks share, and whose pages the process lists, as it is where an epoch begins: a fork sees it change.
struct Copies(u64);

/// Where they lie, one behind the other, and most bytes of them: to copy more takes the program too long.
const COPIES: u64 = ROOM + 8 * ROOMS;
const MOST_COPIED: u64 = 256 << 20;

impl Copies {
    /// Makes them; none where there is too much of it, or some of it cannot be read.
    fn make() -> Option<Self> {
        state::get().shared.list()?;
        let ranges = || state::get().shared.listed();
        let bytes: u64 = ranges().map(|range| range.end - range.start).sum();
        let copies = (bytes <= MOST_COPIED).then_some(Self(bytes))?;
        if bytes > 0 {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
            // SAFETY: replaces nothing.
            let made = unsafe { sys::call(sys::MMAP, [COPIES, bytes, PROT_READ | PROT_WRITE, flags, u64::MAX, 0]) };
            (made == COPIES as i64).then_some(())?;
        }
        ranges().all(|range| copies.fill(range)).then_some(copies)
    }

    fn fill(&self, range: Range<u64>) -> bool {
        let (to, len) = (Self::of(range.start).unwrap_or(COPIES), (range.end - range.start) as usize);
        // SAFETY: room for as many bytes.
        len == 0 || unsafe { sys::copy(to as *mut u8, range.start, len) } == len
    }

    /// Where the copy of an address is; none of memory that is not shared.
    fn of(address: u64) -> Option<u64> {
        let mut at = COPIES;
        for range in state::get().shared.listed() {
            if range.contains(&address) {
                return Some(at + address - range.start);
            }
            at += range.end - range.start;
        }
        None
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        if self.0 > 0 {
            // SAFETY: memory that `make` has made.
            unsafe { sys::call3(sys::MUNMAP, COPIES, self.0, 0) };
        }
    }
}

/// Makes a fork that writes the memory of the epoch which begins with this part; none where that is not possible.
pub fn take(part: u32) -> Option<u32> {
    let _copies = Copies::make()?;
    let before = signals::block(u64::MAX);
    // SAFETY: a process with memory of its own, which goes on here.
    let fork = unsafe { sys::call3(fork::CLONE, CLONE_FILES, 0, 0) };
    if fork == 0 {
        // What faults is read in pieces, or is not there.
        signals::block(signals::served(u64::MAX));
        let is_whole = write(part).is_some();
        loop {
            // SAFETY: ends the fork.
            unsafe { sys::call3(sys::EXIT_GROUP, u64::from(!is_whole), 0, 0) };
        }
    }
    signals::block(before);
    u32::try_from(fork).ok()
}

/// Whether a fork has ended.
pub fn is_over(fork: u32) -> bool {
    // SAFETY: a child of this process's that nobody else knows.
    unsafe { sys::call(WAIT4, [fork.into(), 0, WCLONE | WNOHANG, 0, 0, 0]) != 0 }
}

/// Ends a fork.
pub fn stop(fork: u32) {
    if !is_over(fork) {
        // SAFETY: as above.
        unsafe {
            sys::call3(sys::KILL, fork.into(), 9, 0);
            sys::call(WAIT4, [fork.into(), 0, WCLONE, 0, 0, 0]);
        }
    }
}

/// A table of the fork's.
struct Table {
    at: u64,
    used: u64,
}

impl Table {
    /// The one with this number.
    fn new(number: u64) -> Option<Self> {
        let at = ROOM + number * ROOMS;
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | sys::MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing.
        let made = unsafe { sys::call(sys::MMAP, [at, MOST, PROT_READ | PROT_WRITE, flags, u64::MAX, 0]) };
        (made == at as i64).then_some(Self { at, used: 0 })
    }

    fn bytes(&self) -> &'static [u8] {
        // SAFETY: written, and never freed.
        unsafe { slice::from_raw_parts(self.at as *const u8, self.used as usize) }
    }

    fn words(&self) -> &'static [u64] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.at as *const u64, (self.used / 8) as usize) }
    }

    /// Sets a bit, if the table has it.
    fn set(&mut self, bit: u64) {
        let (at, one) = (bit / 64 * 8, 1 << (bit % 64));
        if at < self.used {
            // SAFETY: in the table, to which nobody has a reference now.
            unsafe { *((self.at + at) as *mut u64) |= one };
        }
    }

    fn push(&mut self, word: u64) -> Option<()> {
        let room = self.used + 8 <= MOST;
        if room {
            // SAFETY: in the table.
            unsafe { ((self.at + self.used) as *mut u64).write(word) };
            self.used += 8;
        }
        room.then_some(())
    }

    fn push_text(&mut self, text: &[u8]) -> Option<()> {
        let (words, rest) = text.as_chunks::<8>();
        for word in words {
            self.push(u64::from_le_bytes(*word))?;
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        if rest.is_empty() { Some(()) } else { self.push(u64::from_le_bytes(last)) }
    }

    /// Fills it with what a file has from an offset on, up to so many bytes.
    fn read(&mut self, file: u64, from: u64, bytes: u64) -> Option<()> {
        self.used = 0;
        while self.used < bytes.min(MOST) {
            let (at, left) = (self.at + self.used, bytes.min(MOST) - self.used);
            // SAFETY: room for so many bytes.
            let read = unsafe { sys::call(sys::PREAD, [file, at, left, from + self.used, 0, 0]) };
            match read {
                ..0 => return None,
                0 => break,
                read => self.used += read as u64,
            }
        }
        Some(())
    }
}

fn open(entry: &Entry, flags: u64) -> Option<u64> {
    u64::try_from(entry.open(flags)).ok()
}

fn close(file: u64) {
    // SAFETY: the fork's own descriptor.
    unsafe { sys::call3(sys::CLOSE, file, 0, 0) };
}

fn open_own(path: &CStr) -> Option<u64> {
    // SAFETY: a path that ends with a zero byte.
    u64::try_from(unsafe { sys::call3(sys::OPEN, path.as_ptr() as u64, sys::O_CLOEXEC, 0) }).ok()
}

/// What the kernel says of the fork's pages. It lets a process that has given up rights look there only where others of the user's may look into the process's memory, which
/// they may for this moment alone.
fn open_pagemap() -> Option<u64> {
    let path = c"/proc/self/pagemap";
    open_own(path).or_else(|| {
        // SAFETY: numbers.
        let set = |may: u64| unsafe { sys::call3(sys::PRCTL, PR_SET_DUMPABLE, may, 0) };
        set(1);
        let opened = open_own(path);
        set(0);
        opened
    })
}

/// The size of a file, in bytes.
fn size(file: u64) -> Option<u64> {
    let mut stat = [0u64; 18];
    // SAFETY: room for the structure.
    let found = unsafe { sys::call3(sys::FSTAT, file, stat.as_mut_ptr() as u64, 0) };
    (found == 0).then_some(stat[6])
}

/// Writes all of a text to a file at an offset.
fn put(file: u64, text: &[u8], at: u64) -> Option<()> {
    let mut done = 0;
    while done < text.len() {
        let rest = &text[done..];
        let args = [file, rest.as_ptr() as u64, rest.len() as u64, at + done as u64, 0, 0];
        // SAFETY: the text is readable.
        match unsafe { sys::call(sys::PWRITE, args) } {
            ..=0 => return None,
            written => done += written as usize,
        }
    }
    Some(())
}

/// The list of the epoch that begins with this part.
fn list(part: u32) -> Entry {
    log::entry(format_args!(".{part}{SNAPSHOT}"))
}

/// The file with pages, and what is known of it.
struct Store {
    file: u64,
    /// Which pages are in use, a bit each; from where on one is looked for that is not.
    used: Table,
    next: u64,
    /// The list before, by addresses, where in it the snapshot is, and the pages that it leads to.
    before: &'static [u64],
    at: usize,
    pages: &'static [u8],
}

impl Store {
    fn open(part: u32) -> Option<Self> {
        let file = open(&log::entry(format_args!("{PAGES}")), sys::O_RDWR | sys::O_CREAT)?;
        let bytes = size(file)?;
        let (mut used, mut before, mut last) = (Table::new(3)?, Table::new(5)?, None);
        // As many words as the file has pages, and no more than there is room for.
        used.used = (bytes / PAGE).div_ceil(64) * 8;
        for other in lists()?.words() {
            let other = *other as u32;
            // One that is removed meanwhile is needed no more.
            if other < part && before.read_list(other).is_some() {
                before.words().chunks_exact(2).for_each(|entry| used.set(entry[1]));
                last = last.max(Some(other));
            }
        }
        before.used = 0;
        if let Some(last) = last {
            before.read_list(last)?;
        }
        let mut pages: &[u8] = &[];
        if bytes >= PAGE {
            let at = ROOM + 6 * ROOMS;
            let args = [at, bytes, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0];
            // SAFETY: replaces nothing.
            if unsafe { sys::call(sys::MMAP, args) } != at as i64 {
                return None;
            }
            // SAFETY: the file's pages, of which nobody writes those that are read here.
            pages = unsafe { slice::from_raw_parts(at as *const u8, bytes as usize) };
        }
        Some(Self { file, used, next: 0, before: before.words(), at: 0, pages })
    }

    /// The page in the file that has this, which is there or written; `address`: pages come by their addresses.
    fn number(&mut self, address: u64, page: &[u8; PAGE as usize]) -> Option<u64> {
        while self.before.get(self.at).is_some_and(|known| *known < address) {
            self.at += 2;
        }
        if let Some([known, number]) = self.before.get(self.at..self.at + 2)
            && *known == address
            && let Some(there) = self.pages.get((number * PAGE) as usize..((number + 1) * PAGE) as usize)
            && is_same(there, page)
        {
            return Some(*number);
        }
        while let Some(word) = self.used.words().get((self.next / 64) as usize) {
            match !word >> (self.next % 64) {
                0 => self.next = (self.next / 64 + 1) * 64,
                free => {
                    self.next += u64::from(free.trailing_zeros());
                    break;
                }
            }
        }
        put(self.file, page, self.next * PAGE)?;
        self.next += 1;
        Some(self.next - 1)
    }
}

impl Table {
    /// The pages of a list.
    fn read_list(&mut self, part: u32) -> Option<()> {
        let file = open(&list(part), 0)?;
        let read = self.read(file, 0, MEMORY_HEADER as u64).and_then(|()| {
            let [magic, regions, pages] = *self.words() else { return None };
            (magic == MEMORY_MAGIC).then_some(())?;
            self.read(file, MEMORY_HEADER as u64 + regions, pages * ENTRY)
        });
        close(file);
        read
    }
}

/// The parts with which the program's epochs begin of which there are lists.
fn lists() -> Option<Table> {
    let state = state::get();
    let mut found = Table::new(7)?;
    let mut start = Text::<64>::new();
    let _ = write!(start, "p{}.{}.", state.pid, state.program);
    let folder = open(&Entry::of(format_args!("")), sys::O_DIRECTORY)?;
    let mut room = [0u64; 1024];
    loop {
        // SAFETY: room for so many bytes.
        let got = unsafe { sys::call3(GETDENTS64, folder, room.as_mut_ptr() as u64, size_of_val(&room) as u64) };
        let got = usize::try_from(got).ok()?;
        if got == 0 {
            close(folder);
            return Some(found);
        }
        // SAFETY: the kernel has written so many bytes.
        let mut entries = unsafe { slice::from_raw_parts(room.as_ptr().cast::<u8>(), got) };
        // Inode, offset, length, kind, name.
        while let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, low, high, _, name @ ..] = entries {
            let name = name.split(|b| *b == 0).next().unwrap_or_default();
            let number = name.strip_prefix(start.bytes()).and_then(|rest| rest.strip_suffix(SNAPSHOT.as_bytes()));
            if let Some(number) = number
                && number.iter().all(u8::is_ascii_digit)
            {
                found.push(number.iter().fold(0, |n: u64, b| n.wrapping_mul(10) + u64::from(b - b'0')))?;
            }
            entries = entries.get(usize::from(u16::from_le_bytes([*low, *high]))..)?;
        }
    }
}

fn words(page: &[u8]) -> impl Iterator<Item = u64> + '_ {
    page.chunks_exact(8).map(|word| u64::from_ne_bytes(core::array::from_fn(|i| word[i])))
}

/// Whether two pages are the same: all words are looked at, which is the faster way.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    words(one).zip(words(other)).fold(0, |all, (a, b)| all | a ^ b) == 0
}

/// A region of the process's memory.
struct Region<'a> {
    start: u64,
    end: u64,
    permissions: [u8; 4],
    offset: u64,
    inode: u64,
    path: &'a [u8],
}

impl<'a> Region<'a> {
    /// Reads a line of `/proc/PID/maps`.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |b| *b == b' ');
        let mut next = || fields.next();
        let mut range = next()?.splitn(2, |b| *b == b'-');
        let (start, end) = (hex(range.next()?), hex(range.next()?));
        let permissions = next()?.try_into().ok()?;
        let (offset, _, inode) = (hex(next()?), next()?, next()?);
        let inode = inode.iter().fold(0, |n: u64, b| n.wrapping_mul(10) + u64::from(b.wrapping_sub(b'0')));
        let path = next().unwrap_or_default();
        let begin = path.iter().position(|b| *b != b' ').unwrap_or(path.len());
        Some(Self { start, end, permissions, offset, inode, path: &path[begin..] })
    }

    /// Whether it is the program's.
    fn is_programs(&self) -> bool {
        !OWN.contains(&self.start) && !self.path.starts_with(b"[v") && !hot::is_stub(self.start)
    }

    fn protection(&self) -> u64 {
        (0..).zip(b"rwx").filter(|(i, letter)| self.permissions[*i] == **letter).map(|(i, _)| 1 << i).sum()
    }

    fn is_shared(&self) -> bool {
        self.permissions[3] == b's'
    }

    /// The file that it has, if the log has that, and nobody writes to it.
    fn file(&self) -> Option<Key> {
        let is_read = !self.is_shared() || self.protection() & PROT_WRITE == 0;
        (is_read && self.path.first() == Some(&b'/')).then_some(())?;
        state::get().known_files.of(self.path, self.inode)
    }
}

fn hex(digits: &[u8]) -> u64 {
    let value =
        |digit: &u8| u64::from(if digit.is_ascii_digit() { digit - b'0' } else { (digit | 32).wrapping_sub(87) });
    digits.iter().fold(0, |n, digit| n << 4 | value(digit) & 15)
}

/// What is asked of the kernel ([`PAGEMAP_SCAN`]), and how far it has looked (`struct pm_scan_arg`).
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walked: u64,
    found: u64,
    room: u64,
    most: u64,
    inverted: u64,
    all: u64,
    any: u64,
    told: u64,
}

/// What becomes a snapshot.
struct Snapshot {
    store: Store,
    regions: Table,
    pages: Table,
    /// What the kernel says of pages: of a few, from one on.
    kinds: Table,
    pagemap: u64,
}

/// Writes it: whether it is whole.
fn write(part: u32) -> Option<()> {
    own::close_others(state::get().at.descriptor()).then_some(())?;
    // SAFETY: numbers.
    unsafe { sys::call3(SETPRIORITY, 0, 0, NICE) };
    let new = log::entry(format_args!(".{part}{SNAPSHOT}{UNFINISHED}"));
    let file = open(&new, sys::O_RDWR | sys::O_CREAT | sys::O_EXCL)?;
    let written = write_to(file, part);
    if written.is_none() {
        new.remove();
        return None;
    }
    new.rename(&list(part)).then_some(())
}

fn write_to(list: u64, part: u32) -> Option<()> {
    // SAFETY: no arguments.
    let own = unsafe { sys::call3(sys::GETPID, 0, 0, 0) } as u64;
    put(list, &own.to_le_bytes(), 0)?;
    let mut maps = Table::new(0)?;
    let file = open_own(c"/proc/self/maps")?;
    maps.read(file, 0, MOST)?;
    close(file);
    let pagemap = open_pagemap()?;
    let (regions, pages, kinds) = (Table::new(1)?, Table::new(2)?, Table::new(4)?);
    let mut snapshot = Snapshot { store: Store::open(part)?, regions, pages, kinds, pagemap };
    for line in maps.bytes().split(|b| *b == b'\n') {
        if let Some(region) = Region::parse(line).filter(Region::is_programs) {
            snapshot.add(&region)?;
        }
    }
    snapshot.finish(list)
}

impl Snapshot {
    fn add(&mut self, region: &Region<'_>) -> Option<()> {
        let group = if region.is_shared() { state::get().shared.at(region.start) } else { None };
        let file = if group.is_none() { region.file() } else { None };
        let is_stack = region.path == b"[stack]";
        let kind = if region.is_shared() && file.is_none() { SHARED_REGION } else { 0 };
        let kind = kind | if is_stack { STACK_REGION } else { 0 };
        let (source, Key(key), offset) = match (file, group) {
            (Some(key), _) => (OF_FILE, key, region.offset),
            (None, Some((key, before, _))) => (OF_GROUP, Key([key, 0, 0, 0]), before),
            (None, None) => (ZEROS, Key([0; 4]), region.offset),
        };
        let path = if file.is_some() { region.path } else { b"" };
        let fields = [region.start, region.end, region.protection() | kind, source, offset];
        for word in fields.into_iter().chain(key).chain([path.len() as u64]) {
            self.regions.push(word)?;
        }
        self.regions.push_text(path)?;
        if group.is_some_and(|(.., is_listed)| !is_listed) {
            return Some(());
        }
        if region.protection() & PROT_READ == 0 {
            // SAFETY: the fork's own memory, or its own view of it.
            unsafe { sys::call3(sys::MPROTECT, region.start, region.end - region.start, PROT_READ) };
        }
        // Nothing says of such pages whether the process has changed them.
        let is_whole = file.is_none() && (region.is_shared() || !region.path.is_empty() && region.path[0] == b'/');
        let (is_file, is_code) = (file.is_some(), region.protection() & sys::PROT_EXEC != 0);
        if is_whole {
            let is_shared = region.is_shared();
            let copy = |at: u64| if is_shared { Copies::of(at) } else { None };
            return (region.start..region.end)
                .step_by(PAGE as usize)
                .try_for_each(|at| self.add_page(at, copy(at).unwrap_or(at), is_file, is_code));
        }
        let mut at = region.start;
        while at < region.end {
            let mut found = [[0u64; 3]; SCANNED];
            let asked = Scan {
                size: size_of::<Scan>() as u64,
                flags: 0,
                start: at,
                end: region.end,
                walked: 0,
                found: found.as_mut_ptr() as u64,
                room: SCANNED as u64,
                most: 0,
                inverted: IS_FILE | IS_ZERO,
                all: IS_FILE | IS_ZERO,
                any: IS_PRESENT | IS_SWAPPED,
                told: IS_PRESENT,
            };
            // SAFETY: a structure of the kernel's, and room for so many regions.
            let count = unsafe { sys::call3(sys::IOCTL, self.pagemap, PAGEMAP_SCAN, &raw const asked as u64) };
            let Ok(count) = usize::try_from(count) else { return self.add_by_page(region, at, is_file, is_code) };
            for [start, end, _] in &found[..count] {
                (*start..*end).step_by(PAGE as usize).try_for_each(|at| self.add_page(at, at, is_file, is_code))?;
            }
            // SAFETY: the kernel has written it.
            at = unsafe { (&raw const asked.walked).read_volatile() };
        }
        Some(())
    }

    /// The same from an address on, where the kernel tells of each page by itself only.
    fn add_by_page(&mut self, region: &Region<'_>, mut at: u64, is_file: bool, is_code: bool) -> Option<()> {
        while at < region.end {
            const PAGES_AT_ONCE: u64 = 1 << 16;
            let count = ((region.end - at) / PAGE).min(PAGES_AT_ONCE);
            self.kinds.read(self.pagemap, at / PAGE * 8, count * 8)?;
            for kind in self.kinds.words().iter() {
                if kind & (PRESENT | SWAPPED) != 0 && kind & OF_OTHERS == 0 {
                    self.add_page(at, at, is_file, is_code)?;
                }
                at += PAGE;
            }
            if (self.kinds.used / 8) < count {
                return None;
            }
        }
        Some(())
    }

    /// `from`: where that page's bytes are to be read; `is_file`: zeros say that it is not as in the file.
    fn add_page(&mut self, at: u64, from: u64, is_file: bool, is_code: bool) -> Option<()> {
        let mut page = [0; PAGE as usize];
        // SAFETY: room for a page. Behind a file's end there is none.
        let there = unsafe { sys::copy(page.as_mut_ptr(), from, page.len()) };
        if there < page.len() {
            return Some(());
        }
        if is_code {
            for (line, bytes) in (at..).step_by(LINE).zip(page.as_chunks_mut::<LINE>().0) {
                hot::original(line, bytes);
                cpuid::original(line, bytes);
            }
        }
        if !is_file && words(&page).fold(0, |all, word| all | word) == 0 {
            return Some(());
        }
        let number = self.store.number(at, &page)?;
        self.pages.push(at)?;
        self.pages.push(number)
    }

    fn finish(self, list: u64) -> Option<()> {
        let (regions, pages) = (self.regions.bytes(), self.pages.bytes());
        let header = [MEMORY_MAGIC, regions.len() as u64, pages.len() as u64 / ENTRY];
        put(list, regions, MEMORY_HEADER as u64)?;
        put(list, pages, (MEMORY_HEADER + regions.len()) as u64)?;
        // SAFETY: numbers as bytes.
        put(list, unsafe { slice::from_raw_parts(header.as_ptr().cast::<u8>(), MEMORY_HEADER) }, 0)
    }
}

const _: () = assert!(REGION_WORDS == 10);
