//! System calls: which are made as they are, which otherwise, and what the log keeps of each.

use crate::cpuid;
use crate::death;
use crate::end;
use crate::epoch;
use crate::exec;
use crate::files::{self, Kind};
use crate::folder;
use crate::fork;
use crate::hot;
use crate::kernel::{self, Buffer, Kernel};
use crate::layout::{self, CALL, END, EXITS, FILE, MADE_AGAIN};
use crate::log::{self, Record};
use crate::own;
use crate::ready::{self, Ready};
use crate::shared;
use crate::signals::{self, Context};
use crate::state;
use crate::streams;
use crate::sys::{self, EAGAIN, EFAULT, EINVAL, ENOSYS, FUTEX, MAP_ANONYMOUS, MAP_SHARED};
use crate::table::{self, Call};
use crate::taken;
use crate::thread;
use crate::threads;
use crate::turn;

/// Bytes of the instruction that makes a call.
pub const BYTES: u64 = 2;
/// Most bytes that one record takes: what a call writes, and what is known of it.
const MOST: usize = 1 << 28;

/// Those that are not made as they are: what has to do with signals, makes processes, or ends them. (Nor are those that have a mask of their own.)
const SPECIAL: [u64; 19] = [13, 14, 15, 56, 57, 58, 59, 60, 62, 127, 129, 130, 131, 200, 231, 234, 297, 322, 435];
/// Those that may wait without the table saying so: on files, pipes, terminals, locks and children.
const MAY_WAIT: [u64; 30] = [
    0, 1, 2, 16, 19, 20, 40, 61, 72, 73, 74, 75, 85, 162, 187, 247, 257, 275, 276, 277, 278, 295, 296, 306, 318, 327,
    328, 437, 17, 18,
];

/// `si_code` of `kill` and of `tgkill`.
const SI_USER: i32 = 0;
const SI_TKILL: i32 = -6;
const SCHED_YIELD: u64 = 24;
const NANOSLEEP: u64 = 35;
const PSELECT6: u64 = 270;
const FUTEX_PRIVATE: u64 = 128;
const MADV_DONTFORK: u64 = 10;
const MADV_WIPEONFORK: u64 = 18;
/// The list of interfaces, with their addresses.
const SIOCGIFCONF: u32 = 0x8912;
const PR_GET_TSC: u64 = 25;
const PR_SET_TSC: u64 = 26;
const PR_SET_SECCOMP: u64 = 22;
const PR_SET_MM: u64 = 35;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_CPUID: u64 = 0x1011;
const ARCH_SET_CPUID: u64 = 0x1012;
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_TRYLOCK_PI: u64 = 8;
const FUTEX_WAIT_REQUEUE_PI: u64 = 11;
const FUTEX_CMP_REQUEUE_PI: u64 = 12;
const FUTEX_LOCK_PI2: u64 = 13;
/// The argument of `futex` that is another one.
const OTHER_FUTEX: usize = 4;
const FUTEX_CLOCK_REALTIME: u64 = 256;

/// How a call is served.
enum Way {
    /// Made as it is.
    Make,
    /// Answered.
    Answer(i64),
    /// The light part ends, and the program makes it alone.
    End(&'static str),
}

fn way(number: u64, args: &[u64; 6]) -> Way {
    const UNKNOWN: &str = "a system call of which bugnet does not know what it writes";
    if let Some(why) = state::get().shared.refuses(number, args) {
        return Way::End(why);
    }
    if let Some(answer) = own::answer(number, args) {
        return Way::Answer(answer);
    }
    folder::keep_way(number);
    match number {
        // mmap
        9 if args[3] & MAP_SHARED != 0 => map_shared(args),
        FUTEX if matches!(args[1] & FUTEX_COMMAND, FUTEX_WAIT_REQUEUE_PI | FUTEX_CMP_REQUEUE_PI) => {
            Way::End("the program requeues threads to a priority-inheriting futex")
        }
        9 if args[3] & MAP_ANONYMOUS == 0 && is_device(args[4]) => Way::End("the program maps a device"),
        10 | 329 if args[2] as i32 & 0x0100_0000 != 0 => Way::End("the stack's end is moved"),
        16 => match table::ioctl(args[1]) {
            Some(_) => Way::Make,
            None if args[1] as u32 == SIOCGIFCONF => Way::Make,
            None => Way::End("an ioctl of which bugnet does not know what it writes"),
        },
        // Advice that forks have not this memory, or have it empty.
        28 if matches!(args[2], MADV_DONTFORK | MADV_WIPEONFORK) => {
            epoch::turn_off();
            Way::Make
        }
        shared::SHMAT if !state::get().shared.may_attach(args) => {
            Way::End("the program attaches memory that other processes can write (shmat)")
        }
        shared::SHMAT | shared::SHMDT => Way::Make,
        101 => Way::End("the program traces another process, or is traced"),
        154 => Way::End("the program makes segments of its own (modify_ldt)"),
        157 => match args[0] {
            PR_SET_TSC | PR_SET_MM => Way::Answer(-1),
            PR_GET_TSC => Way::Answer(if sys::write(args[1], &1u32.to_le_bytes()) { 0 } else { -EFAULT }),
            PR_SET_SYSCALL_USER_DISPATCH => Way::Answer(-22),
            PR_SET_SECCOMP => Way::End("the program restricts its system calls (seccomp)"),
            _ => Way::Make,
        },
        158 => match args[0] {
            ARCH_SET_FS => {
                hot::changes_base();
                Way::Make
            }
            ARCH_GET_CPUID => Way::Answer(1),
            ARCH_SET_CPUID => Way::Answer(-19),
            _ => Way::Make,
        },
        // The kernel would write at its own times: the program does without.
        206 | 323 | 334 | 425 => Way::Answer(-ENOSYS),
        216 => Way::End("the program maps a file's pages in another order (remap_file_pages)"),
        310 | 311 if args[0] as u32 != state::get().pid => Way::Make,
        // No protection keys, as with full recording: `pkey_mprotect`, `pkey_alloc`, `pkey_free`.
        329 if args[3] as i32 != -1 => Way::Answer(-EINVAL),
        330 | 331 => Way::Answer(-EINVAL),
        317 => Way::End("the program restricts its system calls (seccomp)"),
        _ => match table::of(number) {
            Some(Call { writes: Some(_), .. }) => Way::Make,
            // As with a kernel that is older than they are.
            None if number > table::last() => Way::Answer(-ENOSYS),
            _ => Way::End(UNKNOWN),
        },
    }
}

/// Whether a call is made as it is, whatever its arguments, unless it is answered, or ends the light part.
pub fn is_plain(number: u64) -> bool {
    !SPECIAL.contains(&number) && !matches!(number, threads::SET_TID_ADDRESS | threads::SET_ROBUST_LIST)
}

/// Whether such a call with these arguments is made as it is.
pub fn is_open(number: u64, args: &[u64; 6]) -> bool {
    let is_masked = mask_of(number).is_some_and(|argument| args[argument] != 0);
    !is_masked && !locks_pi(number, args) && matches!(way(number, args), Way::Make)
}

/// Whether a call locks a priority-inheriting futex while there are several threads.
fn locks_pi(number: u64, args: &[u64; 6]) -> bool {
    number == FUTEX && turn::is_shared() && matches!(args[1] & FUTEX_COMMAND, FUTEX_LOCK_PI | FUTEX_LOCK_PI2)
}

/// Whether a descriptor is of something that is no regular file, of which nothing says what it has.
fn is_device(descriptor: u64) -> bool {
    matches!(files::kind(descriptor), Kind::Other)
}

/// A mapping that others may write.
fn map_shared(args: &[u64; 6]) -> Way {
    if state::get().shared.may_map(args) {
        Way::Make
    } else {
        Way::End("the program maps memory that other processes can write")
    }
}

/// Serves the call at which the program is.
pub fn serve(context: &mut Context, number: u64) {
    let args = context.arguments();
    let result = match number {
        13 => signals::action(args[0] as usize, args[1], args[2], args[3]),
        14 => signals::mask(context, args[0], args[1], args[2], args[3]),
        15 => {
            note_made(number, &args, 0);
            signals::give_back(context);
            // What it lets in is delivered before anything else.
            signals::let_in();
            if let Some(arrived) = thread::get().signals.take_arrived() {
                signals::deliver(context, &arrived);
            }
            return;
        }
        127 => signals::pending(args[0], args[1]),
        131 => signals::alt_stack(context.rsp(), args[0], args[1]),
        number if fork::makes(number) => return fork::serve(context, number, &args),
        sys::EXECVE | 322 => return exec::serve(context, number, &args),
        sys::EXIT if state::get().lent == 0 && !threads::is_last() => {
            threads::end(&args);
            // It does not, as a signal has come.
            MADE_AGAIN
        }
        sys::EXIT | sys::EXIT_GROUP => return exit(number, &args),
        _ => match way(number, &args) {
            Way::Answer(result) => result,
            Way::End(why) => return end::because(context, why, true),
            Way::Make => match threads::answer(number, &args) {
                Some(result) => result,
                None => make(number, &args),
            },
        },
    };
    finish(context, number, &args, result);
}

fn exit(number: u64, args: &[u64; 6]) {
    let state = state::get();
    if state.lent > 0 {
        // A child of vfork ends, and its parent goes on with the log.
        note_made(number, args, 0);
    } else {
        note_unfinished(EXITS, &args[..1], number, args);
        threads::end_last();
    }
    // SAFETY: ends the process.
    unsafe { sys::call(number, *args) };
}

/// Makes a call for the program.
fn make(number: u64, args: &[u64; 6]) -> i64 {
    let mut args = *args;
    if let Some(answer) = redirect(number, &mut args) {
        return answer;
    }
    let masked = mask_of(number).filter(|argument| args[*argument] != 0);
    if number == PSELECT6 && masked.is_some() {
        return lent(number, &args, select);
    }
    if let Some(argument) = masked
        && let Some(mask) = sys::read_word(args[argument])
    {
        return lent(number, &args, |args| signals::suspended(number, args, argument, mask));
    }
    if number == SCHED_YIELD {
        turn::give_way();
    }
    if locks_pi(number, &args) {
        return lock_pi(&args);
    }
    if let Some(signal) = sends_to_itself(number, &args) {
        return send(number, &args, signal);
    }
    if may_wait(number) {
        return lent(number, &args, |args| signals::waiting(number, args));
    }
    // SAFETY: the program's own call.
    unsafe { sys::call(number, args) }
}

/// The argument by which a call has a mask of its own.
fn mask_of(number: u64) -> Option<usize> {
    match number {
        130 => Some(0),
        271 => Some(3),
        281 | 441 => Some(4),
        PSELECT6 => Some(5),
        _ => None,
    }
}

fn may_wait(number: u64) -> bool {
    table::of(number).is_some_and(|call| call.waits) || MAY_WAIT.contains(&number)
}

/// Makes a call that may wait: other threads have the turn meanwhile, if they want it.
fn lent(number: u64, args: &[u64; 6], make: impl FnOnce(&[u64; 6]) -> i64) -> i64 {
    if !turn::is_shared() || state::get().lent > 0 {
        return make(args);
    }
    let me = thread::get();
    let Some(given) = me.borrowed.lend(me.index, number, args) else { return make(args) };
    let mut turn = turn::lend(waits_surely(number, args));
    let result = match ready::ask(number, &given) {
        Ready::Done(result) => result,
        Ready::Nothing => {
            turn = turn::lend_surely(turn);
            make(&given)
        }
        Ready::Unknown => make(&given),
    };
    if turn::take_back(turn) {
        ready::has_waited(number, args);
    }
    me.borrowed.write_back(if is_silent(number, result) { None } else { Some(result) });
    result
}

/// Locks a priority-inheriting futex: the kernel would write into it while the thread waits. So it is tried, again and again: as a call that is made again, and others have their turns
/// before it is.
fn lock_pi(args: &[u64; 6]) -> i64 {
    const TIMED_OUT: i64 = -110;
    const PAUSE: [u64; 2] = [0, 100_000];
    let me = thread::get();
    if core::mem::take(&mut me.tries_again) {
        let turn = turn::lend(true);
        // SAFETY: a time.
        unsafe { sys::call3(NANOSLEEP, PAUSE.as_ptr() as u64, 0, 0) };
        turn::take_back(turn);
    }
    let tried = [args[0], args[1] & FUTEX_PRIVATE | FUTEX_TRYLOCK_PI, 0, 0, 0, 0];
    // SAFETY: the program's own call, but that it does not wait.
    let result = unsafe { sys::call(FUTEX, tried) };
    if result != -EAGAIN {
        return result;
    }
    let is_real = args[1] & FUTEX_COMMAND == FUTEX_LOCK_PI || args[1] & FUTEX_CLOCK_REALTIME != 0;
    let mut now = [0u64; 2];
    // SAFETY: room for a time.
    unsafe { sys::call3(sys::CLOCK_GETTIME, if is_real { 0 } else { 1 }, now.as_mut_ptr() as u64, 0) };
    let until = if args[3] == 0 { None } else { sys::read::<16>(args[3]) };
    let is_over = until.is_some_and(|time| {
        let [seconds, nanoseconds] = [0, 8].map(|at| u64::from_le_bytes(core::array::from_fn(|i| time[at + i])));
        now >= [seconds, nanoseconds]
    });
    me.tries_again = !is_over;
    if is_over { TIMED_OUT } else { MADE_AGAIN }
}

/// Whether a call waits, as long as nothing else happens.
fn waits_surely(number: u64, args: &[u64; 6]) -> bool {
    const WNOHANG: u64 = 1;
    match number {
        34 | 35 | 130 | 230 => true,
        61 => args[2] & WNOHANG == 0,
        247 => args[3] & WNOHANG == 0,
        // FUTEX_WAIT, FUTEX_WAIT_BITSET
        FUTEX => matches!(args[1] & FUTEX_COMMAND, 0 | 9),
        _ => false,
    }
}

/// Whether a call of `futex` is about another one, too; otherwise, anything may be in that argument.
fn has_other_futex(args: &[u64; 6]) -> bool {
    // FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP
    matches!(args[1] & FUTEX_COMMAND, 3..=5 | FUTEX_WAIT_REQUEUE_PI | FUTEX_CMP_REQUEUE_PI)
}

/// Whether a call that has ended so has written nothing.
fn is_silent(number: u64, result: i64) -> bool {
    let writes_last = table::of(number).is_some_and(|call| call.writes_last);
    // A futex that was tried may say that others wait.
    result == MADE_AGAIN && number != FUTEX || result < 0 && result != -EFAULT && writes_last
}

/// A call about the program's own file means the recorded program's; the answer of one that reads where that is.
fn redirect(number: u64, args: &mut [u64; 6]) -> Option<i64> {
    let argument = own_path(number, args, &mut [0u8; 32])?;
    args[argument] = state::get().elf.as_ptr() as u64;
    matches!(number, 89 | 267).then(|| link(args, number))
}

/// Makes a call of which arguments and signals change nothing, while signals may come.
pub fn make_open(number: u64, args: &[u64; 6]) -> i64 {
    let mut args = *args;
    if let Some(answer) = redirect(number, &mut args) {
        return answer;
    }
    if number == SCHED_YIELD {
        turn::give_way();
    }
    // SAFETY: the program's own call.
    let wait = |args: &[u64; 6]| unsafe { sys::wait(number, args, &raw const thread::get().signals.come) };
    if may_wait(number) { lent(number, &args, wait) } else { wait(&args) }
}

/// The signal that a call sends to the process itself.
pub fn sends_to_itself(number: u64, args: &[u64; 6]) -> Option<u64> {
    let [own, tid] = [state::get().pid, thread::get().tid].map(u64::from);
    let [first, second] = [args[0] as u32, args[1] as u32].map(u64::from);
    match number {
        // kill, and with a value; to the process, or to its group
        62 | 129 if first == own || args[0] as i32 == 0 => Some(args[1]),
        // tkill
        200 if first == tid => Some(args[1]),
        // tgkill, and with a value
        234 | 297 if second == tid => Some(args[2]),
        _ => None,
    }
}

/// Such a call may not return: the log says so until it does.
fn send(number: u64, args: &[u64; 6], signal: u64) -> i64 {
    let mark = log::mark();
    death::note_in_call(signal, if matches!(number, 62 | 129) { SI_USER } else { SI_TKILL }, number, args);
    // A handler begins before such a call returns.
    turn::keep();
    let result = signals::waiting(number, args);
    log::take_back(mark);
    turn::keep_on();
    result
}

/// `pselect6` with a mask.
fn select(args: &[u64; 6]) -> i64 {
    let Some(pair) = sys::read::<16>(args[5]) else { return -EFAULT };
    let [set, size] = [0, 8].map(|at| u64::from_le_bytes(core::array::from_fn(|i| pair[at + i])));
    let Some(mask) = (set != 0).then(|| sys::read_word(set)).flatten() else { return signals::waiting(270, args) };
    let kept = signals::served(mask);
    let given = [&raw const kept as u64, size];
    let mut args = *args;
    args[5] = given.as_ptr() as u64;
    signals::suspended_in(270, &args, mask)
}

/// The argument that is a path of the program's own file, as the kernel would name it.
fn own_path(number: u64, args: &[u64; 6], room: &mut [u8; 32]) -> Option<usize> {
    let argument = match number {
        2 | 4 | 21 | 89 | 137 => 0,
        257 | 262 | 267 | 269 | 332 | 437 | 439 => 1,
        _ => return None,
    };
    let len = sys::read_text(args[argument], room)?;
    let text = &room[..len];
    let rest = text.strip_prefix(b"/proc/")?.strip_suffix(b"/exe")?;
    let mut own = crate::text::Text::<16>::new();
    let _ = core::fmt::Write::write_fmt(&mut own, format_args!("{}", state::get().pid));
    (rest == b"self" || rest == own.bytes() || rest == b"thread-self").then_some(argument)
}

/// What `readlink` of the program's own file gives.
fn link(args: &[u64; 6], number: u64) -> i64 {
    let [to, size] = if number == 89 { [args[1], args[2]] } else { [args[2], args[3]] };
    let own = state::text(&state::get().elf);
    let len = own.len().min(size as usize);
    if sys::write(to, &own[..len]) { len as i64 } else { -EFAULT }
}

/// A call is over: the log keeps it, the program gets its result, and a signal that has come is delivered.
fn finish(context: &mut Context, number: u64, args: &[u64; 6], result: i64) {
    let arrived = thread::get().signals.take_arrived();
    let Some(arrived) = arrived else {
        // The signal that asks for a file of the program's has interrupted it: the program makes it without us.
        let is_again = result == MADE_AGAIN || result == -sys::EINTR && state::get().ends.is_some();
        return if is_again { made_again(context, number) } else { made(context, number, args, result) };
    };
    if death::is_in_call(&arrived, number, args, result) {
        context.set_rip(context.rip() - BYTES);
        return death::in_call(context, &arrived, number);
    }
    if result == MADE_AGAIN || result == -sys::EINTR && signals::restarts(number) {
        made_again(context, number);
    } else {
        made(context, number, args, result);
    }
    signals::deliver(context, &arrived);
}

/// The call is made again, behind a handler.
pub fn made_again(context: &mut Context, number: u64) {
    note_made(number, &context.arguments(), MADE_AGAIN);
    context.set_rip(context.rip() - BYTES);
}

/// The log keeps a call, and the program gets its result.
pub fn made(context: &mut Context, number: u64, args: &[u64; 6], result: i64) {
    note_made(number, args, result);
    context.set_rax(result as u64);
}

/// The log keeps a call.
pub fn note_made(number: u64, args: &[u64; 6], result: i64) {
    if turn::is_lost() {
        return;
    }
    if result >= 0 {
        streams::follow(number, args, result);
    }
    match number {
        9 => {
            state::get().shared.made(args, result);
            if result >= 0 && args[3] & MAP_ANONYMOUS == 0 {
                keep_file(args, result as u64);
            }
        }
        2 | 257 | 437 => state::get().shared.opened(),
        shared::RECVMSG | shared::RECVMMSG if result >= 0 => {
            state::get().shared.passes(number, args, result);
        }
        11 if result == 0 => state::get().shared.unmapped(args[0], args[1]),
        shared::SHMAT => state::get().shared.attached(result),
        shared::SHMDT if result == 0 => state::get().shared.detached(args[0]),
        _ => {}
    }
    let call = table::of(number);
    let writes = call.and_then(|call| call.writes).unwrap_or_default();
    let silent = is_silent(number, result);
    let all = |see: &mut dyn FnMut(u64, u64)| {
        if silent {
            return;
        }
        let memory = |at: u64| sys::read_word(at).unwrap_or(0);
        for (argument, size) in writes {
            if args[*argument] == 0 || number == FUTEX && *argument == OTHER_FUTEX && !has_other_futex(args) {
                continue;
            }
            if number == 16 && args[1] as u32 == SIOCGIFCONF {
                // A length, and what it is of.
                see(args[2], 4);
                see(memory(args[2] + 8), memory(args[2]) & 0xffff_ffff);
            } else if number == 16 {
                see(args[2], table::ioctl(args[1]).unwrap_or(0));
            } else if !matches!(size, Kernel::Bytes(0)) {
                kernel::visit(args, result, *argument, *size, &memory, &mut |(at, len)| see(at, len));
            }
        }
        fork::written(number, args, result, &mut *see);
        threads::written_at_end(number, &mut *see);
        if number == shared::SHMAT && result > 0 {
            // What was written there when nobody had it.
            see(result as u64, state::get().shared.len_at(result as u64));
        }
    };
    let stream = call.filter(|call| call.sends.is_some()).map_or(0, |_| streams::of(args[0]));
    let whole = stream != 0 && result > 0 && streams::may_keep(result as u64);
    let takes = |see: &mut dyn FnMut(Buffer)| {
        if let Some(call) = call {
            taken::visit(call, args, result, whole, see);
        }
    };
    let (mut total, mut count) = (9 * 8, 0u16);
    let piece = |len: u64| 16 + len.min(MOST as u64).next_multiple_of(8) as usize;
    takes(&mut |(_, len)| (total, count) = (total + piece(len), count + 1));
    all(&mut |_, len| total += piece(len));
    let Some(mut record) = Record::begin(CALL, layout::taken(count, stream), total) else {
        state::get().full = true;
        return;
    };
    record.word(number);
    args.iter().for_each(|arg| record.word(*arg));
    record.word(result as u64);
    record.word(call.map_or(0, |call| sent(call, args, result)));
    takes(&mut |(at, len)| record.memory(at, len.min(MOST as u64)));
    all(&mut |at, len| {
        if len > 0 && at != 0 {
            record.memory(at, len.min(MOST as u64));
        }
    });
    record.end();
}

/// Number, arguments and what it takes of a call that does not return, in the record of the process's end.
pub fn note_unfinished(end: u16, words: &[u64], number: u64, args: &[u64; 6]) {
    let call = table::of(number);
    let takes = |see: &mut dyn FnMut(Buffer)| {
        if let Some(call) = call {
            taken::visit(call, args, 0, false, see);
        }
    };
    let mut total = (words.len() + 7) * 8;
    takes(&mut |(_, len)| total += 16 + len.next_multiple_of(8) as usize);
    let Some(mut record) = Record::begin(END, end, total) else { return };
    words.iter().chain([&number]).chain(args).for_each(|word| record.word(*word));
    takes(&mut |(at, len)| record.memory(at, len));
    record.end();
}

/// Before the call that maps it, the log has a file.
fn keep_file(args: &[u64; 6], at: u64) {
    let [_, bytes, protection, _, descriptor, offset] = *args;
    let Kind::Regular(key) = files::kind(descriptor) else { return };
    if !files::keep(descriptor, key) {
        state::get().full = true;
        return;
    }
    let path = files::path(descriptor, key);
    hot::mapped(path, at, bytes, protection);
    cpuid::mapped((descriptor, key), at..at + bytes, protection, offset);
    let memory = state::get().shared.at(at).map_or(0, |(memory, ..)| memory);
    if let Some(mut record) = Record::begin(FILE, 0, 48 + path.len()) {
        key.0.iter().for_each(|word| record.word(*word));
        record.word(memory);
        record.word(path.len() as u64);
        record.bytes(path);
        record.end();
    }
}

/// A hash of what a call has sent.
fn sent(call: &Call, args: &[u64; 6], result: i64) -> u64 {
    let mut state = 0;
    taken::sent(call, args, result, &mut |(at, len)| {
        let (mut done, mut is_there) = (0, true);
        let mut room = [0u8; 4096];
        while is_there && done < len {
            let part = (len - done).min(room.len() as u64) as usize;
            // SAFETY: room for as many bytes.
            let there = unsafe { sys::copy(room.as_mut_ptr(), at + done, part) };
            state = layout::hash(state, &room[..there]);
            is_there = there == part;
            done += part as u64;
        }
    });
    state
}
