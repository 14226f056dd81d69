//! `bugnet-capture --expand FILE`, under DynamoRIO: the memory of the program's start is made again from a light log, and the program begins anew. What its calls
//! give, the logger answers.

mod threads;

use crate::elf::PAGE;
use crate::files::{self, Key};
use crate::layout::{
    BYTES, EPOCH, GROUP_MEMORY, HEADER, MAGIC, MAP, MEMORY_HEADER, MEMORY_MAGIC, MOST_SHARED, OF_FILE, OF_GROUP, PAGES,
    PART, PART_NUMBER, REGION_WORDS, SHARED_REGION, SNAPSHOT, STACK, STACK_REGION, START, USED,
};
use crate::log::AT;
use crate::start::jump;
use crate::sys::{self, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, MAP_PRIVATE, MAP_SHARED, MAP_STACK};
use crate::text::{Text, fail};
use core::fmt::Write;

fn word(at: u64) -> u64 {
    sys::read_word(at).unwrap_or_else(|| fail("the light log is damaged", 0))
}

fn map(args: [u64; 6]) {
    // SAFETY: replaces nothing.
    let mapped = unsafe { sys::call(sys::MMAP, args) };
    if mapped != args[0] as i64 {
        fail("the program's memory has no room here", mapped.min(0));
    }
}

/// Opens a file, with this behind its path.
fn open(path: &[u8], behind: &str, what: &str) -> u64 {
    let mut whole = Text::<1200>::new();
    whole.push(path);
    whole.push(behind.as_bytes());
    // SAFETY: a path that ends with a zero byte.
    let file = unsafe { sys::call3(sys::OPEN, whole.address(), 0, 0) };
    if file < 0 {
        fail(what, file);
    }
    file as u64
}

fn close(file: u64) {
    // SAFETY: this program's own descriptor.
    unsafe { sys::call3(sys::CLOSE, file, 0, 0) };
}

/// Never comes back: the program begins.
pub fn run(path: &[u8]) -> ! {
    let file = open(path, "", "the light log cannot be read");
    map([AT, PART as u64, sys::PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0]);
    close(file);
    if word(AT) != MAGIC {
        fail("this is no light log", 0);
    }
    let end = AT + word(AT + USED as u64).min(PART as u64);
    let folder = path.iter().rposition(|b| *b == b'/').map_or(&[][..], |i| &path[..=i]);
    let at_epoch = word(AT + PART_NUMBER as u64) > 0;
    let mut at = AT + HEADER as u64;
    while at < end {
        let head = word(at);
        let body = at + 8;
        match (head >> 32) as u16 {
            MAP if !at_epoch => memory(body, folder),
            START if !at_epoch => {
                let (entry, stack) = (word(body), word(body + 8));
                // SAFETY: the log is needed no more; and the program's first instruction, with its stack.
                unsafe {
                    sys::call3(sys::MUNMAP, AT, PART as u64, 0);
                    jump(entry, stack)
                }
            }
            EPOCH if at_epoch => {
                memory_at_epoch(path, folder);
                threads::begin(at + (head & 0xffff_ffff), end)
            }
            _ => {}
        }
        at += (head & 0xffff_ffff).max(8);
    }
    fail("the light log has no start", 0)
}

/// Maps the copy of a file.
fn map_file(folder: &[u8], key: Key, [at, len, protection, offset]: [u64; 4]) {
    let mut name = Text::<1200>::new();
    name.push(folder);
    name.push(b"files/");
    files::name(&mut name, key);
    let file = open(name.bytes(), "", "the light log lacks a file that the program had mapped");
    map([at, len, protection, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, offset]);
    close(file);
}

/// Maps memory that forks share, which is that of a file here.
fn map_shared(path: &[u8], memory: u64, [at, len, protection, offset]: [u64; 4]) {
    let mut name = Text::<1200>::new();
    name.push(path);
    let _ = write!(name, "{GROUP_MEMORY}/{memory:x}");
    // SAFETY: a path that ends with a zero byte; this program's own descriptor.
    let file = unsafe {
        let file = sys::call3(sys::OPEN, name.address(), sys::O_RDWR | sys::O_CREAT, 0o600);
        let sized = if file < 0 { file } else { sys::call3(sys::FTRUNCATE, file as u64, MOST_SHARED, 0) };
        if sized < 0 {
            fail("memory that processes share cannot be made", sized);
        }
        file as u64
    };
    map([at, len, protection, MAP_SHARED | MAP_FIXED_NOREPLACE, file, offset]);
    close(file);
}

/// Makes memory that was there at the start.
fn memory(body: u64, folder: &[u8]) {
    let [at, len, protection, source, offset] = core::array::from_fn(|i| word(body + 8 * i as u64));
    let bytes = body + 72;
    match source {
        OF_FILE => {
            let key = Key(core::array::from_fn(|i| word(body + 40 + 8 * i as u64)));
            map_file(folder, key, [at, len, protection, offset]);
        }
        // SAFETY: memory that was made just before.
        BYTES => unsafe {
            sys::copy(at as *mut u8, bytes, len as usize);
        },
        STACK => {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK | MAP_FIXED_NOREPLACE;
            map([at, len, protection, flags, u64::MAX, 0]);
            let head = word(body - 8) & 0xffff_ffff;
            let there = (head - 80).min(len);
            // What is on it ends where it ends; the record is filled up to a multiple of 8.
            // SAFETY: memory that was made just now.
            unsafe { sys::copy((at + len - there) as *mut u8, bytes, there as usize) };
        }
        _ => map([
            at,
            len.next_multiple_of(PAGE),
            protection,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
            u64::MAX,
            0,
        ]),
    }
}

/// Where the list of memory at an epoch lies, as long as it is made.
const LIST: u64 = 0x1106_0000_0000;

/// Makes the memory that was there where an epoch began.
fn memory_at_epoch(path: &[u8], folder: &[u8]) {
    let list = open(path, SNAPSHOT, "the light log lacks the memory at its beginning");
    let pages = open(path, PAGES, "the light log lacks the pages of its memory");
    let mut stat = [0u64; 18];
    // SAFETY: room for the structure.
    unsafe { sys::call3(sys::FSTAT, list, stat.as_mut_ptr() as u64, 0) };
    map([LIST, stat[6], sys::PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, list, 0]);
    close(list);
    if word(LIST) != MEMORY_MAGIC {
        fail("the list of the memory is damaged", 0);
    }
    let mut region = LIST + MEMORY_HEADER as u64;
    let regions_end = region + word(LIST + 8);
    let mut page = regions_end;
    let pages_end = page + word(LIST + 16) * ENTRY;
    while region < regions_end {
        let [start, end, bits, source, offset]: [u64; 5] = core::array::from_fn(|i| word(region + 8 * i as u64));
        let key = Key(core::array::from_fn(|i| word(region + 40 + 8 * i as u64)));
        let (len, protection) = (end.saturating_sub(start), bits & 7);
        let has_pages = page < pages_end && word(page) < end;
        let first = if has_pages { sys::PROT_READ | sys::PROT_WRITE } else { protection };
        if source == OF_FILE {
            map_file(folder, key, [start, len, first, offset]);
        } else if source == OF_GROUP {
            map_shared(path, key.0[0], [start, len, first, offset]);
        } else {
            let whose = if bits & SHARED_REGION != 0 { MAP_SHARED } else { MAP_PRIVATE };
            let grows = if bits & STACK_REGION != 0 { MAP_GROWSDOWN | MAP_STACK } else { 0 };
            map([
                start,
                len,
                first,
                whose | grows | MAP_ANONYMOUS | sys::MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                u64::MAX,
                0,
            ]);
        }
        while page < pages_end && word(page) < end {
            let (at, number) = (word(page), word(page + 8));
            let next = |count: u64| page + count * ENTRY;
            let follows = |count: u64| {
                next(count) < pages_end
                    && [word(next(count)), word(next(count) + 8)] == [at + count * PAGE, number + count]
                    && at + count * PAGE < end
            };
            let count = (1..).find(|count| !follows(*count)).unwrap_or(1);
            // SAFETY: memory that was made just now; where it is not, the kernel says so.
            let read = unsafe { sys::call(sys::PREAD, [pages, at, count * PAGE, number * PAGE, 0, 0]) };
            if read != (count * PAGE) as i64 {
                fail("the pages of the memory are damaged", read.min(0));
            }
            page = next(count);
        }
        if first != protection {
            // SAFETY: as above.
            unsafe { sys::call3(sys::MPROTECT, start, len, protection) };
        }
        region += 8 * REGION_WORDS as u64 + word(region + 72).next_multiple_of(8);
    }
    close(pages);
    // SAFETY: needed no more.
    unsafe { sys::call3(sys::MUNMAP, LIST, stat[6], 0) };
}

/// Bytes of an entry of a list of pages.
const ENTRY: u64 = 16;
