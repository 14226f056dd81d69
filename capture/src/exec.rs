//! `execve`: this program is executed in the place of the one that is asked for, with what it has to know in front of the arguments. What cannot be captured
//! is executed as it is: programs that change their rights, of other processors, or that cannot be read.

use crate::answers;
use crate::calls;
use crate::death;
use crate::elf::Elf;
use crate::end;
use crate::epoch;
use crate::folder;
use crate::layout::EXECUTES;
use crate::log;
use crate::signals::{self, Context};
use crate::state;
use crate::streams;
use crate::sys;
use crate::text::{Text, say};
use crate::thread;
use crate::threads;
use crate::trap;
use crate::turn;
use core::fmt::Write;

const EXECVEAT: u64 = 322;
const COMPAT_LAYOUT: u64 = 0x020_0000;
/// Most arguments.
const MOST: usize = 1 << 16;
/// How often a script's interpreter may be a script.
const DEPTH: usize = 5;
const SET_ID: u32 = 0o6000;
const EPERM: i64 = 1;
const ENOENT: i64 = 2;
const EACCES: i64 = 13;
const ENOTDIR: i64 = 20;

/// A list of pointers, and the paths that some of them point at.
struct Room {
    pointers: [u64; MOST],
    lines: [[u8; 256]; DEPTH],
    path: [u8; 4096],
    elf: [u8; 4096],
}

struct Rooms(core::cell::UnsafeCell<Room>);

// SAFETY: one thread at a time uses it.
unsafe impl Sync for Rooms {}

static ROOM: Rooms = Rooms(core::cell::UnsafeCell::new(Room {
    pointers: [0; MOST],
    lines: [[0; 256]; DEPTH],
    path: [0; 4096],
    elf: [0; 4096],
}));

/// `execve` and `execveat`.
pub fn serve(context: &mut Context, number: u64, args: &[u64; 6]) {
    if turn::is_with_others() && !threads::is_last() {
        // Others would have the turn as soon as the log's end says so, and its own threads still be there.
        let why = "a process with several threads executes a program while it shares memory with others";
        return end::because(context, why, true);
    }
    let result = execute(number, args);
    calls::made(context, number, args, result);
}

/// What is executed natively.
fn native(number: u64, args: &[u64; 6], why: &str) -> i64 {
    let mark = log::mark();
    hide(u64::MAX, number, args);
    say(format_args!("a program is not recorded: {why}"));
    // The kernel keeps this for the other program, unlike the same of CPUID.
    trap::allow_tsc(true);
    // SAFETY: the program's own call.
    let result = unsafe { sys::call(number, *args) };
    trap::allow_tsc(false);
    show(mark);
    // The program that was asked for may be executed, and is there.
    if matches!(-result, EPERM | ENOENT | EACCES | ENOTDIR) {
        return native(number, args, "bugnet's own program cannot be executed from there");
    }
    result
}

/// From here on, what comes, comes to the other program: the kernel has none of our handlers, and blocks what the program does. What has come kills this
/// one now. The log says which of both. `noted`: the other program's number there.
fn hide(noted: u64, number: u64, args: &[u64; 6]) {
    let signals = &thread::get().signals;
    turn::keep();
    epoch::end();
    signals::hide_handlers(true);
    let dies = death::has_come();
    if state::get().lent == 0 {
        if dies {
            death::note_in_call(signals.arrived().signal as u64, signals.arrived().code(), number, args);
        } else {
            calls::note_unfinished(EXECUTES, &[noted], number, args);
        }
    }
    turn::leave_to_others();
    if dies {
        death::send(signals.arrived().signal);
    }
    signals::block(signals.mask);
}

/// It was not executed: our handlers are there again, and nothing but what instructions raise comes as a call is served. The log has nothing of that.
fn show(mark: usize) {
    signals::hide_handlers(false);
    signals::block(signals::served(u64::MAX));
    log::take_back(mark);
    turn::keep_on();
}

fn execute(number: u64, args: &[u64; 6]) -> i64 {
    // SAFETY: one thread at a time uses it.
    let room = unsafe { &mut *ROOM.0.get() };
    let at = number == EXECVEAT;
    let (path, argv, envp) = if at { (args[1], args[2], args[3]) } else { (args[0], args[1], args[2]) };
    let Some(len) = sys::read_text(path, &mut room.path) else {
        return if sys::read::<1>(path).is_none() { -sys::EFAULT } else { -36 };
    };
    if at && (len == 0 || room.path[0] != b'/' && args[0] as i32 != -100) {
        return native(number, args, "execveat of a descriptor");
    }
    let mut first = OWN_POINTERS;
    // The arguments.
    let mut count = 0;
    loop {
        let Some(argument) = (if argv == 0 { Some(0) } else { sys::read_word(argv + 8 * count as u64) }) else {
            return -sys::EFAULT;
        };
        if first + DEPTH * 2 + count + 1 >= MOST {
            return -7;
        }
        room.pointers[SCRIPTS + count] = argument;
        if argument == 0 {
            break;
        }
        count += 1;
    }
    first = SCRIPTS;
    room.elf[..=len].copy_from_slice(&room.path[..=len]);
    for depth in 0..DEPTH {
        // SAFETY: a path that ends with a zero byte.
        let allowed = unsafe { sys::call(sys::FACCESSAT2, [-100i64 as u64, room.elf.as_ptr() as u64, 1, 0x200, 0, 0]) };
        // SAFETY: the same.
        let file = unsafe { sys::call3(sys::OPEN, room.elf.as_ptr() as u64, sys::O_CLOEXEC, 0) };
        if allowed < 0 {
            // The kernel says why not.
            // SAFETY: the program's own call, which fails.
            return unsafe { sys::call(number, *args) };
        }
        if file < 0 {
            return native(number, args, "it cannot be read");
        }
        let file = file as u64;
        let elf = Elf::read(file);
        let changes = changes_rights(file);
        let is_kept = changes || elf.as_ref().is_none_or(Elf::keep);
        let line = &mut room.lines[depth];
        line.fill(0);
        // SAFETY: room for so many bytes; this program's own descriptor.
        unsafe {
            sys::call(sys::PREAD, [file, line.as_mut_ptr() as u64, 255, 0, 0, 0]);
            sys::call3(sys::CLOSE, file, 0, 0);
        }
        if changes {
            return native(number, args, "it runs with other rights than its caller's");
        }
        if !is_kept {
            return native(number, args, "the log has no room for its file");
        }
        if elf.is_some() {
            return run(room, first, envp, number, args);
        }
        if !line.starts_with(b"#!") {
            return native(number, args, "it is no program of this processor");
        }
        // As the kernel: the interpreter, at most one argument, and the script's path in the place of its name.
        let end = line.iter().position(|b| *b == b'\n' || *b == 0).unwrap_or(255);
        line[end..].fill(0);
        let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
        let Some(start) = line[2..end].iter().position(|b| !is_blank(b)).map(|i| i + 2) else { return -8 };
        let stop = line[start..end].iter().position(is_blank).map_or(end, |i| i + start);
        let rest = line[stop..end].iter().position(|b| !is_blank(b)).map(|i| i + stop);
        let last = line[..end].iter().rposition(|b| !is_blank(b)).map_or(end, |i| i + 1);
        line[stop] = 0;
        line[last] = 0;
        let interpreter = line[start..].as_ptr() as u64;
        let option = rest.map(|at| line[at..].as_ptr() as u64);
        // The script's path takes the place of its own name.
        if count == 0 {
            room.pointers[first] = 0;
            count = 1;
            room.pointers[first + 1] = 0;
        }
        let script = if depth == 0 { room.path.as_ptr() as u64 } else { room.pointers[first] };
        room.pointers[first] = script;
        if let Some(option) = option {
            first -= 1;
            count += 1;
            room.pointers[first] = option;
        }
        first -= 1;
        count += 1;
        room.pointers[first] = interpreter;
        let text = stop - start;
        room.elf[..text].copy_from_slice(&line[start..stop]);
        room.elf[text] = 0;
    }
    -40
}

/// Where in the room the arguments begin: behind this program's own and those of scripts.
const OWN_POINTERS: usize = 8;
const SCRIPTS: usize = OWN_POINTERS + DEPTH * 2;

/// Whether a file changes the rights of who executes it.
fn changes_rights(file: u64) -> bool {
    let mut stat = [0u8; 144];
    // SAFETY: room for the structure.
    unsafe { sys::call3(sys::FSTAT, file, stat.as_mut_ptr() as u64, 0) };
    let half = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| stat[at + i]));
    let (mode, owner, group) = (half(24), half(28), half(32));
    // SAFETY: no arguments.
    let [user, own_group] = [107, 108].map(|number| unsafe { sys::call3(number, 0, 0, 0) } as u32);
    mode & SET_ID & 0o4000 != 0 && owner != user || mode & SET_ID & 0o2000 != 0 && group != own_group
}

fn run(room: &mut Room, first: usize, envp: u64, number: u64, args: &[u64; 6]) -> i64 {
    let state = state::get();
    let mut origin = Text::<64>::new();
    let how = if state.lent > 0 { 3 } else { 2 };
    let (pid, program) =
        if state.lent > 0 { (crate::fork::lender(), state.program) } else { (state.pid, state.program) };
    let _ = write!(
        origin,
        "{how}.{pid}.{program}.{}.{}.{}.{}",
        state.log.len(),
        state.cpu,
        state.chaos.seed,
        state.at.number()
    );
    let mut streams = Text::<4096>::new();
    streams::encode(&mut streams);
    let mut answers = Text::<{ answers::TEXT }>::new();
    state.answers.encode(&mut answers);
    let name = state::text(&room.path);
    let short = name.iter().rposition(|b| *b == b'/').map_or(0, |i| i + 1);
    let comm = room.path[short..].as_ptr() as u64;
    // Nothing stands between this program's own arguments and the program's.
    let begin = first - OWN_POINTERS;
    let own = [
        state.own.as_ptr() as u64,
        state.folder.as_ptr() as u64,
        origin.address(),
        streams.address(),
        answers.address(),
        room.elf.as_ptr() as u64,
        room.path.as_ptr() as u64,
        comm,
    ];
    let begin = begin + OWN_POINTERS - own.len();
    room.pointers[begin..first].copy_from_slice(&own);
    let mark = log::mark();
    hide(0, number, args);
    // SAFETY: texts that end with zero bytes, and the program's own environment.
    let result = unsafe {
        let personality = sys::call3(sys::PERSONALITY, 0xffff_ffff, 0, 0) as u64;
        sys::call3(sys::PERSONALITY, personality | COMPAT_LAYOUT, 0, 0);
        if state.lent > 0 {
            // The parent goes on as soon as the other program runs, and nobody comes back to say so.
            calls::note_made(number, args, 0);
        }
        folder::goes_along(true);
        let result = sys::call3(sys::EXECVE, state.own.as_ptr() as u64, room.pointers[begin..].as_ptr() as u64, envp);
        folder::goes_along(false);
        sys::call3(sys::PERSONALITY, personality, 0, 0);
        result
    };
    show(mark);
    // The program that was asked for may be executed, and is there.
    if matches!(-result, EPERM | ENOENT | EACCES | ENOTDIR) {
        return native(number, args, "bugnet's own program cannot be executed from there");
    }
    result
}
