//! System calls of a program whose light log is expanded: each is as in the log, or it is a divergence. The kernel gets those that make memory.

use super::kinds::{Output, child_stack, creates_thread, known, mapped};
use super::{ARGUMENTS, after, answer, describe, leave_traces, order, prepare_thread, registers};
use crate::base::chosen;
use crate::base::descriptors::{How as Opens, OwnFile};
use crate::base::light::{self, Next, Transfer};
use crate::base::lock::Mutex;
use crate::base::maps;
use crate::base::memory::{read_memory, read_word, write_memory};
use crate::base::turns::{self, Born};
use crate::base::waiting;
use crate::calls::answers;
use crate::calls::exit;
use crate::emitted::flush;
use crate::kernel::arguments::clone_flags;
use crate::kernel::streams::{self, Streams};
use crate::kernel::substitute::Substitution;
use crate::log::code;
use crate::picture::placement;
use crate::picture::protections::PROTECTIONS;
use crate::run::expand::{LACKS_OTHERS, confine, diverged, ended, goes_on, is_turn_next, leave, resume};
use crate::run::lifetime;
use crate::run::parts::call::{SYSCALL_BYTES, left_in_r11, take_pending_pc};
use crate::run::snapshot::{self, How};
use crate::run::thread::Thread;
use bugnet_dr::call as call_event;
use bugnet_dr::context::Machine;
use bugnet_dr::events::Bool;
use bugnet_format::light::{Call, End, FileKey, layout};
use bugnet_format::record::{EndReason, OutputStream, Record, RegisterUpdates};
use bugnet_format::regs::{R11, RAX, RCX, RSP, RegisterFile};
use bugnet_format::types::Addr;
use std::ffi::{CString, c_void};
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

/// What descriptors of those refer to whose memory a child of `vfork` has, which has descriptors of its own.
static LENT: Mutex<Vec<Streams>> = Mutex::new(Vec::new());

const CLONE_VM: u64 = 0x100;
const ARCH_SET_FS: u64 = 0x1002;
const PAGE: u64 = 4096;
const ANONYMOUS_AND_SHARED: u64 = (libc::MAP_ANONYMOUS | libc::MAP_SHARED) as u64;
/// In `struct clone_args`: the base of FS.
const CLONE_TLS: u64 = 56;

/// Before a system call; 0 if the kernel does not get it.
///
/// # Safety
/// In the pre-syscall event.
pub unsafe fn before(drcontext: *mut c_void, thread: &mut Thread, number: i64) -> Bool {
    let pc = take_pending_pc();
    if light::is_to_begin() {
        if number == libc::SYS_clone {
            begin_thread(thread);
        }
        return 1;
    }
    let mut regs = registers(thread);
    let behind = regs.rip;
    regs.rip = pc.unwrap_or_else(|| behind.wrapping_sub(SYSCALL_BYTES));
    let args = ARGUMENTS.map(|register| regs.gpr[register]);
    let position = thread.counted() - 1;
    thread.leave(position);
    let waited = std::mem::take(&mut thread.syscall.waited);
    if !waited && !turns::has_turn(thread.tid().id()) {
        diverged(thread, position, *regs, "a thread has gone on without its turn");
    }
    if !thread.has_turn(&regs)
        && let Some((door, seen)) = turns::closed_door(thread.tid().id())
    {
        if turns::lacks_others() {
            diverged(thread, position, *regs, LACKS_OTHERS);
        }
        // Where a fork of another thread's finds it, and its end. It looks again after a second.
        static TIME: [u64; 2] = [1, 0];
        let values =
            [(0, door.as_ptr() as u64), (1, libc::FUTEX_WAIT as u64), (2, seen.into()), (3, TIME.as_ptr() as u64)];
        substitute(drcontext, thread, regs, libc::SYS_futex, &values);
        thread.syscall.awaits_turn = true;
        return 1;
    }
    let position = thread.counted() - 1;
    let next = light::of_process().map_or(Ok(Next::Nothing), |mut light| light.next());
    let (call, file) = match next {
        Ok(Next::Call(call, file)) => (call, file),
        Ok(Next::End(End::Exits(call))) if call.number == number as u64 && ends(number) && call.args == args => {
            exit::end(thread, number, args[0], position, *regs);
            if exit::alone() {
                exit::end_process(args[0]);
            }
            return 1;
        }
        Ok(Next::End(End::DiesInCall { signal, code, call })) if call.number == number as u64 && call.args == args => {
            describe(thread, number, &args, u64::MAX);
            snapshot::keep(thread, position, regs.gpr[RSP], How::Killed);
            let reason = EndReason::Signal { signo: signal as u32, code, addr: Addr(0) };
            leave(thread, position, reason, *regs, 0)
        }
        Ok(Next::End(End::Executes(call))) if call.number == number as u64 && call.args == args => {
            thread.pause(position, EndReason::Exec, *regs);
            lifetime::finish();
            // SAFETY: ends the process: the other program is expanded by itself.
            unsafe { libc::_exit(0) }
        }
        Ok(Next::End(End::GoesOn { why, .. })) => leave(thread, position, goes_on(why), *regs, 0),
        Ok(Next::Nothing) => ended(thread, position, *regs),
        Ok(Next::Moment) => {
            let why = "a moment at which a signal was delivered has not been found";
            diverged(thread, position, *regs, why)
        }
        Ok(
            Next::End(End::Dies(_) | End::Exits(_) | End::Executes(_) | End::DiesInCall { .. } | End::Killed { .. })
            | Next::Special(..)
            | Next::Turn
            | Next::Signal { .. },
        ) => {
            let why = format!("the program makes system call {number} where it made none");
            diverged(thread, position, *regs, &why)
        }
        Err(why) => diverged(thread, position, *regs, &why),
    };
    if call.number != number as u64 || call.args != args {
        let why = format!(
            "the program makes system call {number} with {args:x?} where it made {} with {:x?}",
            call.number, call.args
        );
        diverged(thread, position, *regs, &why);
    }
    describe(thread, number, &args, u64::MAX);
    let sent = sent(number, &args, call.result);
    if sent != call.sent {
        let why = format!("system call {number} sends other bytes than it sent");
        diverged(thread, position, *regs, &why);
    }
    if is_fork(number, &args) && call.result >= 0 {
        return fork(drcontext, thread, regs);
    }
    if creates_thread(number, &args) && call.result > 0 {
        return create(drcontext, thread, regs, &call, behind);
    }
    if number == libc::SYS_exit && call.result == 0 {
        return end_thread(thread, &call, position, regs);
    }
    if call.result == layout::MADE_AGAIN && !light::is_signal_next() {
        // It is made again at once: a futex was tried, or the light part ends here.
        let again = Transfer::Resume(regs.clone());
        finish(drcontext, thread, &regs, &call, behind);
        if let Some(mut light) = light::of_process() {
            light.set_transfer(again);
        }
        thread.limit_soon();
        return 0;
    }
    let opened =
        file.map(|file| file.memory.map_or_else(|| open_copy(file.key), |memory| open_memory(file.key, memory)));
    if let Some(Err(why)) = &opened {
        diverged(thread, position, *regs, why);
    }
    let opened =
        opened.and_then(Result::ok).map(|descriptor| (descriptor, file.is_some_and(|file| file.memory.is_some())));
    // DynamoRIO has the kernel's GS.
    super::set_gs_base(thread, number, &args);
    if let Some((made, values)) = memory(&call, opened) {
        if let Some((start, len)) = mapped(made, &values, call.result) {
            chosen::maps(start..start.saturating_add(len));
        }
        // What is ours there makes way; or the call is made around it.
        let answer = answers::in_the_way(drcontext, thread, made, &values);
        if answer.is_some_and(|answer| answer != call.result) {
            diverged(thread, position, *regs, "memory of the program's lies where the recorder has its own");
        }
        PROTECTIONS.get().follow(made, &values);
        if answer.is_some() {
            finish(drcontext, thread, &regs, &call, behind);
            return 0;
        }
        let values: Vec<(usize, u64)> = values.into_iter().enumerate().collect();
        substitute(drcontext, thread, regs, made, &values);
        return 1;
    }
    finish(drcontext, thread, &regs, &call, behind);
    0
}

/// Whether a call ends the thread or the process.
fn ends(number: i64) -> bool {
    matches!(number, libc::SYS_exit | libc::SYS_exit_group)
}

/// The kernel gets this call, and never the program's own.
fn substitute(
    drcontext: *mut c_void,
    thread: &mut Thread,
    regs: Box<RegisterFile>,
    number: i64,
    values: &[(usize, u64)],
) {
    thread.syscall.substitution = Substitution::make(drcontext, number, values);
    if thread.syscall.substitution.is_none() {
        let position = thread.counted() - 1;
        diverged(thread, position, *regs, "DynamoRIO does not take another call in the place of the program's");
    }
    thread.syscall.before = Some(regs);
}

/// Whether a call makes a process with memory of its own.
fn is_fork(number: i64, args: &[u64; 6]) -> bool {
    super::kinds::forks(number, args)
}

/// A fork is one here, too, whose child goes on with its own light log.
fn fork(drcontext: *mut c_void, thread: &mut Thread, regs: Box<RegisterFile>) -> Bool {
    thread.leave(thread.counted() - 1);
    code::of_process().before_fork();
    turns::set_forks(true);
    substitute(drcontext, thread, regs, libc::SYS_fork, &[]);
    1
}

/// A thread is one here, too. What the kernel writes for it is in the log.
fn create(drcontext: *mut c_void, thread: &mut Thread, regs: Box<RegisterFile>, call: &Call, behind: u64) -> Bool {
    const OURS: i32 =
        libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::CLONE_PIDFD;
    let number = call.number.cast_signed();
    let flags = clone_flags(number, &call.args).unwrap_or_default() & !(OURS as u64);
    let stack = child_stack(number, &call.args).unwrap_or(regs.gpr[RSP]);
    let base =
        if number == libc::SYS_clone3 { read_word(call.args[0] + CLONE_TLS).unwrap_or_default() } else { call.args[4] };
    let position = thread.counted() - 1;
    prepare_thread(thread, stack, position);
    let mut born = regs.gpr;
    (born[RAX], born[RCX], born[R11], born[RSP]) = (0, behind, left_in_r11(&regs), stack);
    turns::announce_birth(call.result as u32, Born::Behind(born));
    let values = [flags, stack, 0, 0, base];
    let values: Vec<(usize, u64)> = values.into_iter().enumerate().collect();
    substitute(drcontext, thread, regs, libc::SYS_clone, &values);
    1
}

/// A thread is about to be made that is there where an epoch begins, before the program does.
fn begin_thread(thread: &mut Thread) {
    // What confines the process holds for threads that are made behind it.
    confine();
    thread.share();
    flush::become_threaded();
    placement::make_room_for_child(light::announce_thread());
}

/// A thread ends, and others go on.
fn end_thread(thread: &mut Thread, call: &Call, position: u64, regs: Box<RegisterFile>) -> Bool {
    apply(thread, call, &regs);
    exit::end(thread, libc::SYS_exit, call.args[0], position, *regs);
    pass();
    match light::of_process().map(|mut light| light.next()) {
        Some(Ok(Next::Turn)) => pass(),
        // Nothing says what the others did.
        _ => {
            lifetime::finish();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
    }
    1
}

/// The call, by number and arguments, that the kernel gets in the place of one that makes, changes or unmaps memory; none for others. `file`: the descriptor of what is mapped, and
/// whether other processes may have it, too.
fn memory(call: &Call, file: Option<(u64, bool)>) -> Option<(i64, [u64; 6])> {
    let (number, args) = (call.number.cast_signed(), &call.args);
    let got = u64::try_from(call.result).ok()?;
    let make = |number: i64, values: [u64; 6]| Some((number, values));
    match number {
        libc::SYS_mmap => {
            let kept = libc::MAP_GROWSDOWN | libc::MAP_STACK | libc::MAP_NORESERVE;
            // What only it and its forks have is theirs together here, too.
            let (descriptor, is_shared) =
                file.unwrap_or((u64::MAX, args[3] & ANONYMOUS_AND_SHARED == ANONYMOUS_AND_SHARED));
            let whose = if is_shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
            let flags = whose as u64 | libc::MAP_FIXED as u64 | args[3] & kept as u64;
            let flags = if file.is_some() { flags } else { flags | libc::MAP_ANONYMOUS as u64 };
            make(libc::SYS_mmap, [got, args[1], args[2], flags, descriptor, args[5]])
        }
        libc::SYS_mremap => {
            let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
            let [flags, to] = if got == args[0] { [0, 0] } else { [flags, got] };
            make(libc::SYS_mremap, [args[0], args[1], args[2], flags, to, 0])
        }
        libc::SYS_brk => {
            let (old, new) = {
                let mut light = light::of_process()?;
                let old = light.heap.1;
                light.set_break(got);
                (old.next_multiple_of(PAGE), got.next_multiple_of(PAGE))
            };
            let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
            if new > old {
                make(libc::SYS_mmap, [old, new - old, protection, flags, u64::MAX, 0])
            } else if new < old {
                make(libc::SYS_munmap, [new, old - new, 0, 0, 0, 0])
            } else {
                None
            }
        }
        libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_madvise => make(number, *args),
        // What only it and its forks have. The log has all that is in it.
        libc::SYS_shmat => {
            let len = call.written.iter().find(|written| written.address == got)?.bytes.len() as u64;
            let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let flags = (libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
            make(libc::SYS_mmap, [got, len, protection, flags, u64::MAX, 0])
        }
        libc::SYS_shmdt => make(libc::SYS_munmap, [args[0], len_of_mapping(args[0])?, 0, 0, 0, 0]),
        libc::SYS_pkey_mprotect => make(libc::SYS_mprotect, *args),
        libc::SYS_arch_prctl if args[0] == ARCH_SET_FS => make(number, *args),
        _ => None,
    }
}

/// Bytes of the mapping that begins at an address.
fn len_of_mapping(start: u64) -> Option<u64> {
    maps::all().into_iter().map(|region| region.range).find(|range| range.start == start).map(|range| range.end - start)
}

/// Opens the memory of a file that processes share. The first one that maps it finds what the file had then.
fn open_memory(key: FileKey, memory: u64) -> Result<u64, String> {
    let path = light::folder_of_memory().join(format!("{memory:x}"));
    let wrong = |e: std::io::Error| format!("memory that processes share cannot be made: {e}");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(wrong)?;
    if file.metadata().map_err(wrong)?.len() == 0 {
        let path = light::of_process().map(|light| light.file(key)).unwrap_or_default();
        let missing = |e: std::io::Error| {
            format!("the light log's copy of a file that the program maps, {}: {e}", path.display())
        };
        let copy = OwnFile::open(&path, Opens::Read).map_err(missing)?;
        let (mut room, mut done) = (vec![0; 1 << 16], 0);
        loop {
            match copy.read_at(&mut room, done).map_err(missing)? {
                0 => break,
                got => {
                    file.write_all_at(&room[..got], done).map_err(wrong)?;
                    done += got as u64;
                }
            }
        }
        file.set_len(layout::MOST_SHARED).map_err(wrong)?;
    }
    u64::try_from(file.into_raw_fd()).map_err(|e| e.to_string())
}

/// Opens the copy of a mapped file.
fn open_copy(key: FileKey) -> Result<u64, String> {
    let path = light::of_process().map(|light| light.file(key)).unwrap_or_default();
    let missing = format!("the light log lacks a file that the program maps, {}", path.display());
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| missing.clone())?;
    // SAFETY: a path; nobody else has the descriptor.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    u64::try_from(file).map_err(|_| missing)
}

/// After a system call that the kernel got.
///
/// # Safety
/// In the post-syscall event.
pub unsafe fn after_call(drcontext: *mut c_void, thread: &mut Thread) {
    if light::is_to_begin() {
        return;
    }
    if std::mem::take(&mut thread.syscall.awaits_turn) {
        if let Some(substitution) = thread.syscall.substitution.take() {
            substitution.undo(drcontext);
        }
        thread.syscall.resumed = thread.syscall.before.take();
        thread.limit_soon();
        return;
    }
    turns::set_forks(false);
    // A forked child that shares memory with its parent.
    if is_turn_next() {
        pass();
        let tid = thread.tid().id();
        let test = || {
            turns::sleep_until_turn(tid);
            turns::has_turn(tid).then_some(())
        };
        if waiting::asleep(drcontext, test, turns::lacks_others).is_none() {
            let position = thread.counted() - 1;
            let regs = thread.syscall.before.take().unwrap_or_default();
            diverged(thread, position, *regs, LACKS_OTHERS);
        }
    }
    let next = light::of_process().map_or(Ok(Next::Nothing), |mut light| light.next());
    let Some(before) = thread.syscall.before.clone() else { return };
    let Ok(Next::Call(call, file)) = next else { return };
    if file.is_some()
        && let Some(machine) = Machine::current()
    {
        // The copy's, or the memory's.
        let descriptor = machine.register_file().gpr[ARGUMENTS[4]];
        // SAFETY: opened for this call.
        unsafe { libc::close(descriptor as i32) };
    }
    if let Some(substitution) = thread.syscall.substitution.take() {
        substitution.undo(drcontext);
    }
    // Advice may be refused here, and changes nothing that a program sees but by what it drops, which is zero then.
    let made = Machine::current().map_or(0, |machine| machine.register_file().gpr[RAX].cast_signed());
    if made < 0 && call.number.cast_signed() != libc::SYS_madvise {
        let position = thread.counted() - 1;
        let why = format!("system call {} cannot be made here: error {}", call.number, -made);
        diverged(thread, position, *before, &why);
    }
    if creates_thread(call.number.cast_signed(), &call.args) {
        waiting::until(drcontext, || turns::is_born().then_some(()), || None, || None);
    }
    apply(thread, &call, &before);
    // SAFETY: in the event.
    unsafe { call_event::set_result(drcontext, call.result as u64) };
    if is_fork(call.number.cast_signed(), &call.args) || creates_thread(call.number.cast_signed(), &call.args) {
        leave_traces(drcontext, &before);
    }
    pass();
    // SAFETY: in the event.
    unsafe { after(drcontext, call.number.cast_signed()) };
    follow_streams(&call);
    let behind = before.rip + SYSCALL_BYTES;
    look_ahead(thread, &before, call.result, behind);
}

/// What the kernel wrote is there.
fn apply(thread: &mut Thread, call: &Call, before: &RegisterFile) {
    for written in &call.written {
        // What the kernel may write, and did not, may be memory that nobody can write.
        let mut there = vec![0; written.bytes.len()];
        let is_there = read_memory(written.address, &mut there) && there == written.bytes;
        if !is_there && !write_memory(written.address, written.bytes) {
            let position = thread.counted() - 1;
            let why = format!("there is no memory at {:#x}, where the kernel wrote", written.address);
            diverged(thread, position, before.clone(), &why);
        }
    }
}

fn pass() {
    if let Some(mut light) = light::of_process() {
        let _ = light.pass();
    }
}

fn follow_streams(call: &Call) {
    let number = call.number.cast_signed();
    if call.result >= 0 && !matches!(number, libc::SYS_open | libc::SYS_openat) {
        streams::of_process().follow(number, &call.args, call.result);
    }
}

/// A call that the kernel does not get is over.
fn finish(drcontext: *mut c_void, thread: &mut Thread, regs: &RegisterFile, call: &Call, behind: u64) {
    let number = call.number.cast_signed();
    apply(thread, call, regs);
    let stream = match known(number).is_some_and(|call| call.sends.is_some()) {
        true => streams::of(call.args[0]),
        false => OutputStream::None,
    };
    pass();
    if number == libc::SYS_rt_sigreturn {
        if let Some(mut light) = light::of_process() {
            light.set_transfer(Transfer::Return(regs.gpr[RSP]));
        }
        thread.limit_soon();
        return;
    }
    if shares(number, &call.args) && call.result == 0 {
        // As if `vfork` returned twice: the parent's registers wait.
        let mut lent = regs.clone();
        lent.rip = behind;
        lent.gpr[RCX] = behind;
        lent.gpr[R11] = left_in_r11(regs);
        if let Some(mut light) = light::of_process() {
            light.lent.push(lent);
        }
        LENT.lock().push(streams::of_process().clone());
    }
    let begins = number != libc::SYS_vfork && shares(number, &call.args) && call.result == 0;
    let stack = super::kinds::child_stack(number, &call.args).filter(|_| begins);
    record(drcontext, thread, regs, call, stream, stack);
    follow_streams(call);
    look_ahead(thread, regs, call.result, behind);
}

/// Whether a call makes a process that has the caller's memory.
fn shares(number: i64, args: &[u64; 6]) -> bool {
    match number {
        libc::SYS_vfork => true,
        libc::SYS_clone => args[0] & CLONE_VM != 0,
        libc::SYS_clone3 => super::kinds::shares_memory(number, args),
        _ => false,
    }
}

/// The call in the log of the expansion. `stack`: where the stack is from here on, if it is another one.
fn record(
    drcontext: *mut c_void,
    thread: &mut Thread,
    regs: &RegisterFile,
    call: &Call,
    stream: OutputStream,
    stack: Option<u64>,
) {
    let (number, args, result) = (call.number, call.args, call.result);
    if stream == OutputStream::None && stack.is_none() {
        answer(thread, drcontext, regs, number.cast_signed(), args, result);
        return;
    }
    // SAFETY: in the pre-syscall event.
    unsafe { call_event::set_result(drcontext, result as u64) };
    leave_traces(drcontext, regs);
    let (position, order, mut updates) = (thread.counted() - 1, order::answered(), RegisterUpdates::default());
    if let (Some(stack), Some(mut machine)) = (stack, Machine::current()) {
        *machine.gpr_mut(RSP) = stack;
        // SAFETY: the current context, but for a register.
        unsafe { machine.set_current(drcontext) };
        updates.values.push((RSP as u8, stack));
    }
    thread.record(position, |delta| Record::Syscall { delta, number, result, args, stream, order, updates });
}

/// What happens to the thread behind a call with this result, before which it had these registers.
fn look_ahead(thread: &mut Thread, before: &RegisterFile, result: i64, behind: u64) {
    let Some(mut light) = light::of_process() else { return };
    match light.next() {
        Ok(Next::Call(call, _))
            if !light.lent.is_empty() && call.result > 0 && shares(call.number.cast_signed(), &call.args) =>
        {
            // The child has executed or ended.
            let Some(registers) = light.lent.pop() else { return };
            if let Some(own) = LENT.lock().pop() {
                *streams::of_process() = own;
            }
            let _ = light.pass();
            light.set_transfer(resume(registers, call.result));
        }
        _ if light.look_ahead() => {}
        _ => return,
    }
    drop(light);
    let mut regs = before.clone();
    regs.rip = behind;
    (regs.gpr[RAX], regs.gpr[RCX], regs.gpr[R11]) = (result as u64, behind, left_in_r11(before));
    if light::moment() != Some(behind) || thread.follow_moments(thread.counted(), &regs) {
        thread.limit_soon();
    }
}

/// A hash of what a call sends, as the light log has it.
fn sent(number: i64, args: &[u64; 6], result: i64) -> u64 {
    let Ok(mut left) = u64::try_from(result) else { return 0 };
    let mut state = 0;
    for (address, len) in Output::of(number, args).buffers {
        let len = len.min(left);
        left -= len;
        let mut room = [0; 4096];
        let mut done = 0;
        while done < len {
            let part = (len - done).min(room.len() as u64) as usize;
            if !read_memory(address + done, &mut room[..part]) {
                break;
            }
            state = layout::hash(state, &room[..part]);
            done += part as u64;
        }
    }
    state
}
