//! The stack as the kernel builds it for a new program: arguments, environment, auxiliary vector; at a place of its own.

use crate::elf::{Loaded, PAGE, note, page_start};
use crate::layout::STACK;
use crate::sys::{self, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, MAP_PRIVATE, MAP_STACK};
use crate::text::fail;

const AT_NULL: u64 = 0;
const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_PLATFORM: u64 = 15;
const AT_RANDOM: u64 = 25;
pub const AT_HWCAP2: u64 = 26;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const AT_RSEQ_ALIGN: u64 = 28;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO: u64 = 32;
const AT_SYSINFO_EHDR: u64 = 33;
/// In `AT_HWCAP2`: the instructions that read and write the segments' bases may be used.
pub const FSGSBASE: u64 = 2;

/// Where stacks end, less what makes the place hard to guess.
const TOP: u64 = 0x1700_0000_0000;
/// Bytes that are there from the start, below what is on it.
const ROOM: u64 = 128 << 10;

/// The stack that the kernel has built for this program.
pub struct Kernel {
    argc: usize,
    argv: *const u64,
}

impl Kernel {
    /// # Safety
    /// `initial` is the stack pointer at the program's entry.
    pub unsafe fn new(initial: *const u64) -> Self {
        // SAFETY: argc stands there, and argv behind it.
        unsafe { Self { argc: initial.read() as usize, argv: initial.add(1) } }
    }

    fn words(from: *const u64) -> impl Iterator<Item = u64> + Clone {
        // SAFETY: the kernel ends each list with a null.
        (0..).map(move |i| unsafe { from.add(i).read() }).take_while(|word| *word != 0)
    }

    /// The arguments' addresses.
    pub fn args(&self) -> impl Iterator<Item = u64> + Clone {
        Self::words(self.argv)
    }

    /// Executes another program with what is behind the first arguments; the system's error where that is not possible.
    pub fn execute(&self, path: u64, skipped: usize) -> i64 {
        // SAFETY: a path that ends with a zero byte, and the kernel's lists.
        unsafe {
            let [argv, envp] = [skipped, self.argc + 1].map(|at| self.argv.add(at) as u64);
            sys::call3(sys::EXECVE, path, argv, envp)
        }
    }

    /// The environment's.
    pub fn environment(&self) -> impl Iterator<Item = u64> + Clone {
        // SAFETY: behind argv and its null.
        Self::words(unsafe { self.argv.add(self.argc + 1) })
    }

    /// The auxiliary vector without its end.
    fn auxiliary(&self) -> impl Iterator<Item = [u64; 2]> {
        // SAFETY: behind the environment and its null.
        let first = unsafe { self.argv.add(self.argc + 2 + self.environment().count()) }.cast::<[u64; 2]>();
        // SAFETY: up to AT_NULL.
        (0..).map(move |i| unsafe { first.add(i).read() }).take_while(|[tag, _]| *tag != AT_NULL)
    }

    /// What the vector has of this kind.
    pub fn auxiliary_of(&self, tag: u64) -> Option<u64> {
        self.auxiliary().find(|[found, _]| *found == tag).map(|[_, value]| value)
    }

    /// Random bytes of the kernel's, of which the recorded program gets others.
    pub fn random(&self) -> u64 {
        self.auxiliary_of(AT_RANDOM).and_then(sys::read_word).unwrap_or(0)
    }
}

/// Bytes of a text with its end.
fn len(text: u64) -> usize {
    // SAFETY: texts of the kernel's end with a zero byte.
    (0..).take_while(|i| unsafe { *((text + i) as *const u8) } != 0).count() + 1
}

/// What a stack is built of.
pub struct Contents<'a> {
    pub kernel: &'a Kernel,
    /// How many of the kernel's arguments are this program's own.
    pub skipped: usize,
    pub name: u64,
    pub program: Loaded,
    pub interpreter: Option<Loaded>,
    pub executable: bool,
}

/// Where things on a stack are.
pub struct Built {
    pub pointer: u64,
    pub arguments: (u64, u64),
    pub environment: (u64, u64),
    pub auxiliary: (u64, u64),
}

/// Maps a stack and fills it.
pub fn build(contents: &Contents) -> Built {
    let Contents { kernel, skipped, name, program, interpreter, executable } = *contents;
    let arguments = || kernel.args().skip(skipped);
    let texts: usize = arguments().chain(kernel.environment()).chain([name]).map(len).sum();
    let words = 3 + arguments().count() + kernel.environment().count() + 2 * (kernel.auxiliary().count() + 1);
    let random = kernel.random();
    let end = TOP - (random >> 16 & 0xff_ffff) * PAGE;
    let start = page_start(end - (texts + words * 8) as u64 - ROOM - PAGE);
    let protection = sys::PROT_READ | sys::PROT_WRITE | if executable { sys::PROT_EXEC } else { 0 };
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK | MAP_FIXED_NOREPLACE;
    // SAFETY: replaces nothing.
    let mapped = unsafe { sys::call(sys::MMAP, [start, end - start, protection, flags, u64::MAX, 0]) };
    if mapped < 0 {
        fail("the program's stack has no room", mapped);
    }
    let mut at = end - 8;
    let mut push = |from: u64, bytes: usize| {
        at -= bytes as u64;
        // SAFETY: in the new stack.
        unsafe { sys::copy(at as *mut u8, from, bytes) };
        at
    };
    let name = push(name, len(name));
    let bytes: usize = kernel.environment().map(len).sum();
    let environment_end = name;
    let environment_start = environment_end - bytes as u64;
    let arguments_start = environment_start - arguments().map(len).sum::<usize>() as u64;
    let mut texts = arguments_start;
    for text in arguments().chain(kernel.environment()) {
        // SAFETY: below the name, where there is room for all.
        texts += unsafe { sys::copy(texts as *mut u8, text, len(text)) } as u64;
    }
    let platform = b"x86_64\0";
    let mut below = arguments_start - platform.len() as u64;
    let platform = {
        sys::write(below, platform);
        below
    };
    below = (below - 16) & !15;
    // The bytes that the program gets are not those by which its place was chosen.
    let mut seed = [0u8; 16];
    // SAFETY: room for so many bytes.
    unsafe { sys::call3(318, seed.as_mut_ptr() as u64, 16, 0) };
    sys::write(below, &seed);
    let random = below;
    let pointer = (below - words as u64 * 8) & !15;
    let mut word_at = pointer;
    let mut word = |value: u64| {
        sys::write(word_at, &value.to_le_bytes());
        word_at += 8;
        word_at
    };
    word(arguments().count() as u64);
    let mut text = arguments_start;
    for argument in arguments() {
        word(text);
        text += len(argument) as u64;
    }
    word(0);
    for variable in kernel.environment() {
        word(text);
        text += len(variable) as u64;
    }
    let auxiliary = word(0);
    for [tag, value] in kernel.auxiliary() {
        let value = match tag {
            AT_SYSINFO | AT_SYSINFO_EHDR | AT_RSEQ_FEATURE_SIZE | AT_RSEQ_ALIGN => continue,
            AT_PHDR => program.table.0,
            AT_PHNUM => program.table.1,
            AT_BASE => interpreter.map_or(0, |loaded| loaded.base),
            AT_ENTRY => program.entry,
            AT_PLATFORM => platform,
            AT_RANDOM => random,
            AT_EXECFN => name,
            AT_HWCAP2 => value & !FSGSBASE,
            _ => value,
        };
        word(tag);
        word(value);
    }
    word(AT_NULL);
    let auxiliary_end = word(0);
    // SAFETY: what was just written.
    let bytes = unsafe { core::slice::from_raw_parts(pointer as *const u8, (end - pointer) as usize) };
    note(start, end - start, protection, STACK, None, bytes);
    Built {
        pointer,
        arguments: (arguments_start, environment_start),
        environment: (environment_start, environment_end),
        auxiliary: (auxiliary, auxiliary_end),
    }
}
