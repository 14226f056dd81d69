//! How a program begins: loaded, with a stack, at its first instruction.

use crate::cpuid;
use crate::elf::{Elf, Loaded, PAGE, page_end};
use crate::epoch;
use crate::expand;
use crate::folder;
use crate::layout::{EXECUTED, PROGRAM, SPAWNED, START, STARTED};
use crate::log::{self, From, Record};
use crate::special;
use crate::stack::{self, Contents, Kernel};
use crate::state;
use crate::streams;
use crate::sys;
use crate::text::{Text, fail, say};
use crate::thread;
use crate::trap;
use core::arch::asm;
use core::ffi::CStr;
use core::fmt::Arguments;

/// Where programs that can be moved lie, less what makes the place hard to guess.
const PROGRAMS: u64 = 0x1500_0000_0000;
/// This program's own arguments.
const OWN: usize = 8;
/// `personality`: libraries lie from a third of the address space on.
const COMPAT_LAYOUT: u64 = 0x020_0000;

const PR_SET_NAME: u64 = 15;
const PR_SET_MM: u64 = 35;
const PR_SET_MM_MAP: u64 = 14;

/// Bytes of a text, without its end.
fn bytes(text: u64) -> &'static [u8] {
    // SAFETY: the kernel's texts end with a zero byte, and stay.
    unsafe { CStr::from_ptr(text as *const _) }.to_bytes()
}

/// The first thread gets its slot, and goes on there.
///
/// # Safety
/// `initial` is the stack as the kernel built it.
pub unsafe extern "C" fn enter(initial: *const u64) -> ! {
    let Some(thread) = thread::make(0) else { fail("there is no room for it", 0) };
    let stack = thread.calls_end();
    // SAFETY: a stack of this program's; the caller's promise.
    unsafe {
        asm!("mov rsp, {stack}", "xor ebp, ebp", "call {main}", "ud2", stack = in(reg) stack, in("rdi") initial, main = sym main,
            options(noreturn))
    }
}

/// # Safety
/// `initial` is the stack as the kernel built it.
unsafe extern "C" fn main(initial: *const u64) -> ! {
    // SAFETY: the caller's promise.
    let kernel = unsafe { Kernel::new(initial) };
    let mut own = [0; OWN];
    let mut args = kernel.args();
    if args.clone().nth(1).map(bytes) == Some(b"--expand") {
        expand::run(args.nth(2).map_or(b"", bytes));
    }
    for slot in &mut own {
        *slot = args
            .next()
            .unwrap_or_else(|| fail("usage: bugnet-capture LOG ORIGIN STREAMS ANSWERS ELF NAME COMM ARGUMENTS", 0));
    }
    let [program, folder, origin, streams, answers, elf, name, comm] = own;
    let state = state::get();
    let fits = state::set(&mut state.folder, bytes(folder))
        && state::set(&mut state.own, bytes(program))
        && state::set(&mut state.elf, bytes(elf));
    if !fits {
        fail("a path is too long", -36);
    }
    // SAFETY: a text that ends with a zero byte; a number.
    unsafe {
        sys::call3(sys::PRCTL, PR_SET_NAME, comm, 0);
        let personality = sys::call3(sys::PERSONALITY, 0xffff_ffff, 0, 0) as u64;
        sys::call3(sys::PERSONALITY, personality & !COMPAT_LAYOUT, 0, 0);
    }
    let (from, [cpu, seed, at]) = parse(bytes(origin));
    state.cpu = cpu;
    folder::begin(at);
    if let Err(error) = log::begin(from) {
        natively(&kernel, elf, format_args!("the log has no room for it (error {})", -error));
    }
    thread::get().tid = state.pid;
    state.chaos.begin(seed, state.pid);
    cpuid::begin();
    state.answers.begin(bytes(answers));
    streams::begin(bytes(streams));
    let file = open(elf);
    // Without links, as `/proc/self/exe` leads to it: some find what belongs to them by it.
    if file.path().starts_with(b"/") {
        state::set(&mut state.elf, file.path());
    }
    describe(&kernel, state.elf.as_ptr() as u64, name);
    let loaded = load(&file, kernel.random());
    if !loaded.kept {
        natively(&kernel, elf, format_args!("the log has no room for its file"));
    }
    let contents = Contents {
        kernel: &kernel,
        skipped: OWN,
        name,
        program: loaded.program,
        interpreter: loaded.interpreter,
        executable: loaded.executable,
    };
    let stack = stack::build(&contents);
    let heap = page_end(loaded.program.end) + (kernel.random() >> 40 & 0x1fff) * PAGE;
    tell_kernel(&loaded.program, heap, &stack);
    state.data = (loaded.program.code.1, loaded.program.end);
    state.linker = loaded.interpreter.map_or((0, 0), |interpreter| interpreter.code);
    let entry = loaded.interpreter.map_or(loaded.program.entry, |interpreter| interpreter.entry);
    let mut streams = Text::<4096>::new();
    streams::encode(&mut streams);
    if let Some(mut record) = Record::begin(START, 0, 40 + streams.bytes().len()) {
        record.word(entry);
        record.word(stack.pointer);
        record.word(heap);
        record.word(special::components());
        record.word(streams.bytes().len() as u64);
        record.bytes(streams.bytes());
        record.end();
    }
    epoch::begin(&kernel);
    trap::begin();
    // SAFETY: the program's first instruction, its stack, and registers as the kernel leaves them.
    unsafe { jump(entry, stack.pointer) }
}

/// From which process, what CPUID shows, the seed of chaos, and the descriptor of the folder of light logs: `how.pid.program.call.level.seed.descriptor`.
fn parse(text: &[u8]) -> (From, [u32; 3]) {
    let mut numbers = text.split(|b| *b == b'.').map(|digits| {
        digits
            .iter()
            .filter(|b| b.is_ascii_digit())
            .fold(0u32, |n, b| n.wrapping_mul(10).wrapping_add(u32::from(b - b'0')))
    });
    let mut next = || numbers.next().unwrap_or(0);
    let how = match next() {
        2 => EXECUTED,
        3 => SPAWNED,
        _ => STARTED,
    };
    (From { how, pid: next(), program: next(), call: next(), group: 0 }, [next(), next(), next()])
}

/// The program runs without being recorded.
fn natively(kernel: &Kernel, elf: u64, why: Arguments<'_>) -> ! {
    say(format_args!("a program is not recorded: {why}"));
    fail("the program cannot be executed", kernel.execute(elf, OWN));
}

/// Opens a program, or its interpreter.
fn open(path: u64) -> Elf {
    // SAFETY: a path that ends with a zero byte.
    let file = unsafe { sys::call3(sys::OPEN, path, sys::O_CLOEXEC, 0) };
    let elf = if file < 0 { None } else { Elf::read(file as u64) };
    elf.unwrap_or_else(|| fail("the program, or its interpreter, cannot be loaded", file.min(0)))
}

/// Tells the log what is executed.
fn describe(kernel: &Kernel, elf: u64, name: u64) {
    let texts = || [elf, name].into_iter().chain(kernel.args().skip(OWN)).map(bytes);
    let len: usize = texts().map(|text| text.len() + 1).sum();
    if let Some(mut record) = Record::begin(PROGRAM, 0, len) {
        for text in texts() {
            record.bytes(text);
            record.bytes(&[0]);
        }
        record.end();
    }
}

struct Program {
    program: Loaded,
    interpreter: Option<Loaded>,
    executable: bool,
    /// Whether the log has the files of both.
    kept: bool,
}

fn load(elf: &Elf, random: u64) -> Program {
    let place = PROGRAMS + (random & 0x0fff_ffff) * PAGE;
    let program = elf.load(Some(place)).unwrap_or_else(|error| fail("the program has no room", error));
    let mut room = [0; 4096];
    let interpreter = elf.interpreter(&mut room);
    let mut kept = elf.keep();
    elf.close();
    let interpreter = interpreter.map(|_| {
        let elf = open(room.as_ptr() as u64);
        let loaded = elf.load(None).unwrap_or_else(|error| fail("the program's interpreter has no room", error));
        kept &= elf.keep();
        elf.close();
        loaded
    });
    Program { program, interpreter, executable: elf.executable_stack(), kept }
}

/// Tells the kernel where the program, its heap and its arguments are.
fn tell_kernel(program: &Loaded, heap: u64, stack: &stack::Built) {
    let [code, data] = [program.code, (program.code.1, program.end)];
    let map = [
        code.0,
        code.1,
        data.0,
        data.1,
        heap,
        heap,
        stack.pointer,
        stack.arguments.0,
        stack.arguments.1,
        stack.environment.0,
        stack.environment.1,
        stack.auxiliary.0,
        (stack.auxiliary.1 - stack.auxiliary.0) & 0xffff_ffff | 0xffff_ffff << 32,
    ];
    // SAFETY: a structure of these fields, of which the last two have 4 bytes each: the vector's size, and no file.
    let told = unsafe {
        sys::call(sys::PRCTL, [PR_SET_MM, PR_SET_MM_MAP, map.as_ptr() as u64, size_of_val(&map) as u64, 0, 0])
    };
    if told < 0 {
        fail("the kernel does not take the program's layout", told);
    }
}

/// Where the program goes on: its first instruction and its stack, which no register leads to.
static mut TARGET: [u64; 2] = [0; 2];

/// # Safety
/// Never comes back; nothing of this program's stack is used any more.
pub unsafe fn jump(entry: u64, stack: u64) -> ! {
    let control: u32 = 0x1f80;
    // SAFETY: the caller's promise. Moves leave the flags as they are, and nothing is written to the program's stack.
    unsafe {
        TARGET = [entry, stack];
        asm!(
            "ldmxcsr [{control}]",
            "fninit",
            "xorps xmm0, xmm0", "xorps xmm1, xmm1", "xorps xmm2, xmm2", "xorps xmm3, xmm3",
            "xorps xmm4, xmm4", "xorps xmm5, xmm5", "xorps xmm6, xmm6", "xorps xmm7, xmm7",
            "xorps xmm8, xmm8", "xorps xmm9, xmm9", "xorps xmm10, xmm10", "xorps xmm11, xmm11",
            "xorps xmm12, xmm12", "xorps xmm13, xmm13", "xorps xmm14, xmm14", "xorps xmm15, xmm15",
            "push 0x202",
            "popfq",
            "mov eax, 0", "mov ebx, 0", "mov ecx, 0", "mov edx, 0", "mov esi, 0", "mov edi, 0", "mov ebp, 0",
            "mov r8d, 0", "mov r9d, 0", "mov r10d, 0", "mov r11d, 0",
            "mov r12d, 0", "mov r13d, 0", "mov r14d, 0", "mov r15d, 0",
            "mov rsp, [rip + {target} + 8]",
            "jmp qword ptr [rip + {target}]",
            control = in(reg) &raw const control,
            target = sym TARGET,
            options(noreturn),
        )
    }
}
