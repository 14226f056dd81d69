//! Moves the initial stack, and sets its limit, where the kernel's place for it is in the way of a shadow.

use crate::base::failure::fail;
use crate::base::maps;
use crate::base::memory::read_memory;
use crate::picture::stack;
use bugnet_dr::space::{self, Protection};
use bugnet_format::types::Addr;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ops::Range;

/// The part of an address that a moved stack keeps.
const KEPT: u64 = (1 << 40) - 1;
/// Where moved stacks lie: above the libraries of a low layout.
const BASE: u64 = 0x1600_0000_0000;
/// Bytes below the stack pointer that are there from the start; the rest comes as it is needed.
const ROOM: u64 = 128 << 10;

const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_PLATFORM: u64 = 15;
const AT_BASE_PLATFORM: u64 = 24;
const AT_RANDOM: u64 = 25;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO_EHDR: u64 = 33;

/// The limit that the program is to have.
pub fn limit(soft: u64) {
    let current = (soft != libc::RLIM_INFINITY).then_some(soft);
    if setrlimit(Resource::Stack, Rlimit { current, ..getrlimit(Resource::Stack) }).is_err() {
        fail("the limit of the stack cannot be set back");
    }
}

/// Where a stack goes that is moved.
pub fn place(stack: &Range<u64>) -> Range<u64> {
    let end = BASE | stack.end & KEPT;
    end - (stack.end - stack.start)..end
}

/// A range of the program's memory as words.
struct Words {
    start: u64,
    words: Vec<u64>,
}

impl Words {
    fn read(range: &Range<u64>) -> Option<Self> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let words = bytes.len() / 8;
        read_memory(range.start, &mut bytes).then(|| Self {
            start: range.start,
            words: (0..words).map(|i| u64::from_le_bytes(std::array::from_fn(|n| bytes[8 * i + n]))).collect(),
        })
    }

    /// Adds `by` to a word that points into `range`.
    fn shift(&mut self, at: usize, range: &Range<u64>, by: u64) -> bool {
        let word = self.words[at];
        if range.contains(&word) {
            self.words[at] = word.wrapping_add(by);
        }
        word != 0
    }
}

/// Moves the stack of a program that is about to execute its first instruction with this stack pointer, which points at
/// argc, argv, a null, envp, a null, the auxiliary vector. `reaches`: whether an address can have a shadow. Returns the new stack pointer.
pub fn relocate(rsp: u64, reaches: impl Fn(u64) -> bool) -> u64 {
    let failed = || -> ! { fail("the initial stack cannot be moved") };
    let Some(old) = maps::all().into_iter().map(|region| region.range).find(|range| range.contains(&rsp)) else {
        failed()
    };
    let content = rsp..old.end;
    let Some(mut words) = Words::read(&content) else { failed() };
    let by = place(&old).end.wrapping_sub(old.end);
    // argv and envp, each up to its null.
    let mut at = 1;
    for _ in 0..2 {
        while at < words.words.len() && words.shift(at, &content, by) {
            at += 1;
        }
        at += 1;
    }
    while at + 1 < words.words.len() && words.words[at] != AT_NULL {
        match words.words[at] {
            AT_PLATFORM | AT_BASE_PLATFORM | AT_RANDOM | AT_EXECFN => {
                words.shift(at + 1, &content, by);
            }
            // Out of the shadow's reach: the program does without.
            AT_SYSINFO_EHDR if !reaches(words.words[at + 1]) => words.words[at] = AT_IGNORE,
            _ => {}
        }
        at += 2;
    }
    let (new, end) = (rsp.wrapping_add(by), old.end.wrapping_add(by));
    let start = (new - ROOM) & !(Addr::PAGE - 1);
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN | libc::MAP_STACK | libc::MAP_FIXED_NOREPLACE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping that replaces nothing.
    let got = unsafe { libc::mmap(start as *mut _, (end - start) as usize, protection, flags, -1, 0) };
    if got as u64 != start {
        failed();
    }
    if stack::wants_executable() {
        // SAFETY: the mapping that was just made.
        if !unsafe { space::protect(start, (end - start) as usize, Protection::ALL) } {
            failed();
        }
    }
    // SAFETY: as many words as lie between the new stack pointer and the mapping's end.
    unsafe { std::ptr::copy_nonoverlapping(words.words.as_ptr(), new as *mut u64, words.words.len()) };
    debug_assert_eq!(words.start, rsp);
    new
}
