//! `bugnet-capture --expand FILE`, under DynamoRIO: the memory of the program's start is made again from a light log, and the program begins anew. What its calls
//! give, the logger answers.

use crate::elf::PAGE;
use crate::files::{self, Key};
use crate::layout::{BYTES, HEADER, MAGIC, MAP, OF_FILE, PART, STACK, START, USED};
use crate::log::AT;
use crate::start::jump;
use crate::sys::{self, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, MAP_PRIVATE, MAP_STACK};
use crate::text::{Text, fail};

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

/// Never comes back: the program begins.
pub fn run(path: &[u8]) -> ! {
    let mut whole = Text::<1200>::new();
    whole.push(path);
    // SAFETY: a path that ends with a zero byte.
    let file = unsafe { sys::call3(sys::OPEN, whole.address(), 0, 0) };
    if file < 0 {
        fail("the light log cannot be read", file);
    }
    map([AT, PART as u64, sys::PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file as u64, 0]);
    // SAFETY: this program's own descriptor.
    unsafe { sys::call3(sys::CLOSE, file as u64, 0, 0) };
    if word(AT) != MAGIC {
        fail("this is no light log", 0);
    }
    let end = AT + word(AT + USED as u64).min(PART as u64);
    let folder = path.iter().rposition(|b| *b == b'/').map_or(&[][..], |i| &path[..=i]);
    let mut at = AT + HEADER as u64;
    while at < end {
        let head = word(at);
        let body = at + 8;
        match (head >> 32) as u16 {
            MAP => memory(body, folder),
            START => {
                let (entry, stack) = (word(body), word(body + 8));
                // SAFETY: the log is needed no more; and the program's first instruction, with its stack.
                unsafe {
                    sys::call3(sys::MUNMAP, AT, PART as u64, 0);
                    jump(entry, stack)
                }
            }
            _ => {}
        }
        at += (head & 0xffff_ffff).max(8);
    }
    fail("the light log has no start", 0)
}

/// Makes memory that was there at the start.
fn memory(body: u64, folder: &[u8]) {
    let [at, len, protection, source, offset] = core::array::from_fn(|i| word(body + 8 * i as u64));
    let bytes = body + 72;
    match source {
        OF_FILE => {
            let mut path = Text::<1200>::new();
            path.push(folder);
            path.push(b"files/");
            files::name(&mut path, Key(core::array::from_fn(|i| word(body + 40 + 8 * i as u64))));
            // SAFETY: a path that ends with a zero byte.
            let file = unsafe { sys::call3(sys::OPEN, path.address(), 0, 0) };
            if file < 0 {
                fail("the light log lacks a file that the program had mapped", file);
            }
            map([at, len, protection, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file as u64, offset]);
            // SAFETY: this program's own descriptor.
            unsafe { sys::call3(sys::CLOSE, file as u64, 0, 0) };
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
