//! System calls: their records, what goes to standard output and error, and those that recording has to know.

mod compat;
mod descriptors;
pub mod expand;
mod form;
mod kinds;
mod order;

use crate::base::failure::attempt;
use crate::base::fs_base::Guard;
use crate::base::light;
use crate::base::slots::set_segment_base;
use crate::calls::answers;
use crate::calls::exit::{self, alone, end, end_process};
use crate::calls::helper;
use crate::calls::maps_file;
use crate::emitted::flush;
use crate::kernel::apart::Apart;
use crate::kernel::arguments::{ARGUMENTS, clone_flags, string};
use crate::kernel::descriptor_limit::concerns_numbers;
use crate::kernel::executing;
use crate::kernel::lending;
use crate::kernel::limits;
use crate::kernel::mapping_limit;
use crate::kernel::program_break;
use crate::kernel::streams;
use crate::kernel::timers;
use crate::log::code;
use crate::log::file;
use crate::log::recording;
use crate::picture::placement;
use crate::picture::protections::PROTECTIONS;
use crate::picture::shared_code::SHARED;
use crate::picture::writable_code;
use crate::run::dying::{die, wait_to_end};
use crate::run::parts::call::{SYSCALL_BYTES, left_in_r11, take_pending_pc};
use crate::run::parts::chaos::Point;
use crate::run::parts::last_program;
use crate::run::signals::mask;
use crate::run::snapshot;
use crate::run::thread::{self, Thread};
use bugnet_dr::call as call_event;
use bugnet_dr::context::Machine;
use bugnet_dr::events::Bool;
use bugnet_dr::ir::Segment;
use bugnet_dr::thread::segment_base;
use bugnet_format::record::{EndReason, OutputStream, Record, RegisterUpdates, register_number};
use bugnet_format::regs::{GPR_NAMES, R11, RAX, RCX, RSP, RegisterFile};
use form::{execute, substitute};
use kinds::{Output, borrows, child_stack, creates_thread, forks, known, mapped, shares_memory};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// What is done before and behind a call where a light log is expanded.
type Expansion = (unsafe fn(*mut c_void, &mut Thread, i64) -> Bool, unsafe fn(*mut c_void, &mut Thread));

static EXPANSION: OnceLock<Expansion> = OnceLock::new();

/// A light log is expanded, by these.
pub fn answer_by(expansion: Expansion) {
    let _ = EXPANSION.set(expansion);
}

fn expansion() -> &'static Expansion {
    EXPANSION.get().unwrap_or_else(|| crate::base::failure::fail("nothing answers the calls of an expansion"))
}

/// Whether the client sees a system call: it sees all.
///
/// # Safety
/// DynamoRIO's filter event.
pub unsafe extern "C" fn on_filter(_context: *mut c_void, _number: c_int) -> Bool {
    1
}

/// All registers, in an event of a system call.
fn registers(thread: &mut Thread) -> Box<RegisterFile> {
    let mut regs = Machine::current().map(|m| m.register_file()).unwrap_or_default();
    thread.complete(&mut regs);
    Box::new(regs)
}

/// Before a system call; 0 if it is not to be made.
///
/// # Safety
/// DynamoRIO's pre-syscall event.
pub unsafe extern "C" fn on_before(drcontext: *mut c_void, number: c_int) -> Bool {
    let _own = Guard::between();
    // SAFETY: in the event.
    let Some(thread) = (unsafe { thread::of(drcontext) }) else { return 1 };
    // SAFETY: in the event.
    let make = attempt(|| unsafe {
        if light::expands() {
            (expansion().0)(drcontext, thread, number.into())
        } else {
            before(drcontext, thread, number)
        }
    });
    let make = make.unwrap_or(1);
    // SAFETY: in the event; nobody else refers to it any more.
    if let Some(thread) = unsafe { thread::of(drcontext) } {
        thread.signals.in_call = make != 0;
        thread.syscall.begins(make != 0);
    }
    make
}

/// # Safety
/// In the pre-syscall event.
unsafe fn before(drcontext: *mut c_void, thread: &mut Thread, number: c_int) -> Bool {
    let syscall_pc = take_pending_pc();
    // A call that a signal has interrupted before it did anything is made again, some time.
    thread.syscall.let_others_go_on(drcontext);
    if let Some(last) = &thread.syscall.last_program {
        last.before();
        execute(thread, drcontext);
        return 1;
    }
    if thread.signals.retry.repeats() && syscall_pc.is_none() {
        thread.signals.mask.reopen();
        return 1;
    }
    let killed = thread.let_signals_in();
    let mut number = i64::from(number);
    if recording::over() {
        thread.follow_end();
    }
    let mut regs = registers(thread);
    if killed.is_none()
        && let Some(pc) = syscall_pc.filter(|pc| compat::is_interrupt(*pc))
    {
        regs.rip = pc;
        return compat::before(drcontext, thread, number, regs);
    }
    let mut args = ARGUMENTS.map(|reg| regs.gpr[reg]);
    if borrows(number, &args)
        && let Some((apart, substitution)) = Apart::instead(drcontext, number, &args)
    {
        (number, args) = apart.call;
        thread.syscall.substitution = substitution;
        thread.syscall.apart = Some(apart);
    }
    thread.syscall.concerns_numbers = concerns_numbers(number, &args) && !thread.is_foreign();
    PROTECTIONS.get().follow(number, &args);
    snapshot::follow(number);
    // SAFETY: in the event.
    unsafe { thread.signals.mask.before(drcontext, number, &args, &regs) };
    let behind = regs.rip;
    // The call itself, where an interval would end.
    regs.rip = syscall_pc.unwrap_or_default();
    // SAFETY: in the event.
    if killed.is_none() && mask::is_last_to_let_in(number) && unsafe { call_event::give_up_for_signal(drcontext) } {
        // It is made again behind the handler.
        thread.syscall.before = Some(regs);
        return 1;
    }
    if let Some(sent) = killed {
        // The call is counted.
        let position = thread.counted().wrapping_sub(1);
        die(thread, &sent, position, *regs);
    }
    // SAFETY: in the event.
    let instead = unsafe { instead(drcontext, thread, number, &args) };
    let instead = instead.or_else(|| help(thread, number, &args, &regs, behind));
    if shares_memory(number, &args) {
        flush::share_blocks();
    }
    if thread.recording() {
        thread.note_stack(regs.gpr[RSP]);
        describe(thread, number, &args, u64::MAX);
    }
    if let Some(result) = instead {
        thread.signals.mask.not_called();
        answer(thread, drcontext, &regs, number, args, result);
        return 0;
    }
    let call = Call { drcontext, number, args };
    if thread.recording() { before_recorded(thread, &call, regs) } else { before_unrecorded(thread, &call, regs) }
}

/// A system call that is about to be made.
struct Call {
    drcontext: *mut c_void,
    number: i64,
    args: [u64; 6],
}

/// The answer to a system call that the kernel does not get.
///
/// # Safety
/// In the pre-syscall event.
unsafe fn instead(drcontext: *mut c_void, thread: &mut Thread, number: i64, args: &[u64; 6]) -> Option<i64> {
    set_gs_base(thread, number, args)
        // SAFETY: the caller's promise.
        .or_else(|| unsafe { answers::instead(drcontext, thread, number, args) })
        .or_else(|| limits::instead(&mut thread.syscall.own_limits, number, args))
        .or_else(|| timers::instead(number, args))
        .or_else(|| mask::refused(number, args))
        .or_else(|| mapping_limit::meets(number))
        .or_else(|| maps_file::instead(number, args))
        .or_else(|| answers::in_the_way(drcontext, thread, number, args))
}

/// Makes a process that shares the program's memory, and is neither a thread nor a child of `vfork`, if that is what a call does which goes on `behind` it.
fn help(thread: &Thread, number: i64, args: &[u64; 6], regs: &RegisterFile, behind: u64) -> Option<i64> {
    if !shares_memory(number, args) || borrows(number, args) || creates_thread(number, args) || thread.is_foreign() {
        return None;
    }
    let result = helper::make(&helper::Call { number, args, regs, behind, mask: thread.signals.mask.blocked() });
    thread.signals.mask.apply();
    result
}

/// Before a system call of a thread that is not recorded; 0 if it is not to be made.
fn before_unrecorded(thread: &mut Thread, call: &Call, regs: Box<RegisterFile>) -> Bool {
    let Call { drcontext, number, args } = *call;
    if number == libc::SYS_exit_group && alone() && !thread.is_foreign() {
        end_process(args[0]);
    }
    if creates_thread(number, &args) {
        thread.share();
        flush::become_threaded();
    }
    wait_if_ends(thread, drcontext, number);
    // Masks are followed still; and instrumentation may still be there, and wants room for the shadow of new memory.
    keep_out_of_the_way(thread, drcontext, number, &args);
    remember(thread, call, regs)
}

/// Before a system call of a thread that is recorded; 0 if it is not to be made.
fn before_recorded(thread: &mut Thread, call: &Call, regs: Box<RegisterFile>) -> Bool {
    let Call { drcontext, number, args } = *call;
    // The call is its block's last instruction, and counted.
    let position = thread.counted() - 1;
    match number {
        libc::SYS_exit | libc::SYS_exit_group => {
            thread.leave(position);
            wait_if_ends(thread, drcontext, number);
            end(thread, number, args[0], position, *regs);
            return 1;
        }
        libc::SYS_execve | libc::SYS_execveat => {
            thread.pause(position, EndReason::Exec, *regs);
            return substitute(thread, drcontext, number);
        }
        _ => {}
    }
    if borrows(number, &args) {
        placement::make_room_for_child(None);
        last_program::note_vfork(regs.rip);
    }
    if creates_thread(number, &args) {
        create_thread(thread, call, regs.gpr[RSP], position);
    } else {
        thread.leave(position);
    }
    keep_out_of_the_way(thread, drcontext, number, &args);
    if forks(number, &args) {
        if clone_flags(number, &args).is_some_and(|flags| flags & libc::CLONE_FILES as u64 != 0) {
            file::share_descriptors();
        }
        code::of_process().before_fork();
    }
    order::begins(thread, drcontext, number, args[0]);
    remember(thread, call, regs)
}

/// Before a call that makes a thread; `stack`: the calling thread's stack pointer.
fn create_thread(thread: &mut Thread, call: &Call, stack: u64, position: u64) {
    prepare_thread(thread, child_stack(call.number, &call.args).unwrap_or(stack), position);
}

/// The same; the new thread begins with this stack pointer.
fn prepare_thread(thread: &mut Thread, stack: u64, position: u64) {
    thread.share();
    flush::become_threaded();
    placement::make_room_for_child(Some(stack));
    thread.create(stack, position);
}

/// Remembers what has to be known behind the call; 0 if it is not to be made.
fn remember(thread: &mut Thread, call: &Call, regs: Box<RegisterFile>) -> Bool {
    thread.signals.retry.before(call.number, &call.args, regs.gpr[RSP]);
    thread.syscall.writable_code = writable_code::before(call.number, &call.args);
    thread.syscall.before = Some(regs);
    substitute(thread, call.drcontext, call.number)
}

/// Records what a system call, which is its block's last instruction, and counted, gets by its arguments: paths, and what it writes
/// to standard output or error, where it writes no more than so many bytes.
fn describe(thread: &mut Thread, number: i64, args: &[u64; 6], mut written: u64) {
    let position = thread.counted() - 1;
    for &arg in known(number).map_or(&[][..], |call| call.paths) {
        if let Some(text) = string(args[arg]) {
            thread.record(position, |_| Record::SyscallData { arg: arg as u8, bytes: &text });
        }
    }
    if streams::of(args[0]) != OutputStream::None {
        let Output { structures, buffers } = Output::of(number, args);
        let buffers = buffers.into_iter().map(|(address, len)| {
            let len = len.min(written);
            written -= len;
            (address, len)
        });
        for (address, len) in structures.into_iter().chain(buffers) {
            thread.make_room_in_call(address, len);
            thread.supply(position, address, len);
        }
    }
}

/// Before a system call that may be one of those that exclude each other: waits until it may be made.
fn keep_out_of_the_way(thread: &mut Thread, drcontext: *mut c_void, number: i64, args: &[u64; 6]) {
    let foreign = thread.is_foreign();
    let (lending, executing) = if borrows(number, args) {
        (Some(lending::Call::Lends), executing::Call::Lends)
    } else if forks(number, args) {
        (Some(lending::Call::Stops), executing::Call::Makes)
    } else if shares_memory(number, args) {
        (None, executing::Call::Makes)
    } else {
        return;
    };
    // In this order: nobody who waits here for the first keeps those waiting who wait for the second.
    if let Some(call) = lending {
        call.begins(drcontext, foreign);
        thread.syscall.lending = lending;
    }
    executing.begins(drcontext, foreign);
    thread.syscall.executing = Some(executing);
}

/// Before a system call that may end the process: waits until it may.
fn wait_if_ends(thread: &Thread, drcontext: *mut c_void, number: i64) {
    if number == libc::SYS_exit_group && !alone() && !thread.is_foreign() {
        wait_to_end(drcontext);
    }
}

/// Answers a system call in the kernel's place.
fn answer(
    thread: &mut Thread,
    drcontext: *mut c_void,
    before: &RegisterFile,
    number: i64,
    args: [u64; 6],
    result: i64,
) {
    // SAFETY: in the pre-syscall event.
    unsafe { call_event::set_result(drcontext, result as u64) };
    leave_traces(drcontext, before);
    let mut updates = RegisterUpdates::default();
    let gs = segment_base(Segment::Gs);
    if gs != before.gs_base {
        updates.values.push((register_number::GS_BASE, gs));
    }
    let (position, stream, order) = (thread.counted() - 1, OutputStream::None, order::answered());
    let number = number as u64;
    thread.record(position, |delta| Record::Syscall { delta, number, result, args, stream, order, updates });
}

/// What the processor leaves in RCX and R11; under DynamoRIO, RCX has an address of the code cache there. The arguments
/// stay as they were, also where the system call was made with others.
fn leave_traces(drcontext: *mut c_void, before: &RegisterFile) {
    let Some(mut machine) = Machine::current() else { return };
    for argument in [7, 6, 2, 10, 8, 9] {
        *machine.gpr_mut(argument) = before.gpr[argument];
    }
    // Code that is not instrumented any more does not say where it is.
    if before.rip != 0 {
        *machine.gpr_mut(RCX) = before.rip + SYSCALL_BYTES;
        *machine.gpr_mut(R11) = left_in_r11(before);
    }
    // SAFETY: the current context, but for some registers.
    unsafe { machine.set_current(drcontext) };
}

const ARCH_SET_FS: u64 = 0x1002;

/// `arch_prctl(ARCH_SET_GS)` is done here: the kernel would change the base that DynamoRIO itself uses. Returns the
/// result if it is that call.
fn set_gs_base(thread: &mut Thread, number: i64, args: &[u64; 6]) -> Option<i64> {
    const ARCH_SET_GS: u64 = 0x1001;
    if number != libc::SYS_arch_prctl || args[0] != ARCH_SET_GS {
        return None;
    }
    if args[1] >> 47 != 0 {
        return Some(-i64::from(libc::EPERM));
    }
    set_segment_base(Segment::Gs, args[1]).then(|| {
        thread.segments.selectors[1] = 0;
        0
    })
}

/// After a system call.
///
/// # Safety
/// DynamoRIO's post-syscall event.
pub unsafe extern "C" fn on_after(drcontext: *mut c_void, number: c_int) {
    let _own = Guard::between();
    // SAFETY: in the event.
    attempt(|| unsafe {
        match thread::of(drcontext) {
            Some(thread) if light::expands() => (expansion().1)(drcontext, thread),
            _ => after(drcontext, number.into()),
        }
    });
}

/// # Safety
/// In the post-syscall event.
unsafe fn after(drcontext: *mut c_void, mut number: i64) {
    // SAFETY: in the event.
    let Some(thread) = (unsafe { thread::of(drcontext) }) else { return };
    thread.syscall.ends();
    if let Some(last) = &thread.syscall.last_program
        && number == libc::SYS_execve
    {
        last.after();
    }
    // SAFETY: in the event.
    if unsafe { again(thread, drcontext) } {
        return;
    }
    // Until the call is in the log: if an epoch has begun meanwhile, who writes next does so in that one, too.
    let turn = thread.syscall.turn.take();
    if turn.as_ref().is_some_and(|turn| !turn.is_kept()) {
        // Others have written while the kernel kept this call.
        thread.syscall.order = None;
    }
    clean_up(thread, drcontext, number);
    let Some(before) = thread.syscall.before.take() else { return };
    if let Some(number) = thread.syscall.by_interrupt.take() {
        compat::after(thread, number, &before);
        return;
    }
    let mut args = ARGUMENTS.map(|reg| before.gpr[reg]);
    let apart = thread.syscall.apart.take();
    let made = apart.as_ref().map_or((number, args), |apart| apart.call);
    if number != libc::SYS_clone3 {
        (number, args) = made;
    }
    let order = order::ends(thread, number);
    if let (Some(step), Some(machine)) = (thread.syscall.program_break.take(), Machine::current()) {
        number = libc::SYS_brk;
        let result = program_break::after(&step, args[0], machine.register_file().gpr[RAX]);
        // SAFETY: in the event.
        unsafe { call_event::set_result(drcontext, result) };
    }
    if std::mem::take(&mut thread.syscall.sleeps) {
        number = libc::SYS_sched_yield;
        // SAFETY: in the event.
        unsafe { call_event::set_result(drcontext, 0) };
    }
    leave_traces(drcontext, &before);
    let Some(machine) = Machine::current() else { return };
    let after = machine.register_file();
    let result = after.gpr[RAX].cast_signed();
    // SAFETY: in the event.
    unsafe { thread.signals.mask.after(drcontext, made.0, &made.1, result, before.gpr[RSP]) };
    follow_processes(made.0, &made.1, result);
    maps_file::opened(made.0, &made.1, result);
    let updates = changed(thread, &before, &after);
    if (number, args[0], result) == (libc::SYS_arch_prctl, ARCH_SET_FS, 0) {
        thread.segments.selectors[0] = 0;
    }
    let sends = known(number).is_some_and(|call| call.sends.is_some());
    let stream = if sends { streams::of(args[0]) } else { OutputStream::None };
    follow_memory(thread, number, &args, result);
    if thread.split_call(&before) {
        describe(thread, number, &args, u64::try_from(result).unwrap_or(0));
    }
    let position = thread.counted() - 1;
    let call = number as u64;
    thread.record(position, |delta| Record::Syscall { delta, number: call, result, args, stream, order, updates });
    drop(turn);
    if shares_memory(number, &args) {
        thread.see_code_of_child();
    }
    thread.syscall.interrupted = (result == -i64::from(libc::EINTR)).then_some(before);
    if let Some((address, len)) = mapped(number, &args, result) {
        thread.mapped(address, len);
    }
    thread.perturb(Point::Call);
}

/// Undoes, behind a system call, what was done for it before, whoever made it.
fn clean_up(thread: &mut Thread, drcontext: *mut c_void, number: i64) {
    thread.signals.retry.after();
    thread.syscall.let_others_go_on(drcontext);
    if let Some(exec) = thread.syscall.exec.take() {
        exec.failed(drcontext);
    }
    if matches!(number, libc::SYS_execve | libc::SYS_execveat) {
        limits::take_back();
    }
    if let Some(substitution) = thread.syscall.substitution.take() {
        substitution.undo(drcontext);
    }
    if thread.syscall.by_interrupt.is_none() {
        descriptors::follow(thread, number);
        descriptors::hide(drcontext, number);
    }
}

/// Keeps track of processes and threads that a system call has made, or has not.
fn follow_processes(number: i64, args: &[u64; 6], result: i64) {
    if forks(number, args) && result != 0 {
        code::of_process().after_fork();
    }
    if result < 0 && matches!(number, libc::SYS_clone | libc::SYS_clone3) {
        exit::note_clone_failed();
    }
    if matches!(number, libc::SYS_wait4 | libc::SYS_waitid) {
        helper::look();
    }
}

/// The registers that a system call has changed, but for its result and what the processor leaves in RCX and R11.
fn changed(thread: &mut Thread, before: &RegisterFile, after: &RegisterFile) -> RegisterUpdates {
    let mut updates = RegisterUpdates::default();
    for n in 0..GPR_NAMES.len() {
        if n != RAX && n != RCX && n != R11 && after.gpr[n] != before.gpr[n] {
            updates.values.push((n as u8, after.gpr[n]));
        }
    }
    let (fs, gs) = (segment_base(Segment::Fs), segment_base(Segment::Gs));
    for (register, new, old) in
        [(register_number::FS_BASE, fs, before.fs_base), (register_number::GS_BASE, gs, before.gs_base)]
    {
        if new != old {
            updates.values.push((register, new));
        }
    }
    thread.segments.bases = [fs, gs];
    updates
}

/// Keeps track of the program's memory, as a system call has changed it.
fn follow_memory(thread: &mut Thread, number: i64, args: &[u64; 6], result: i64) {
    if let Ok(result) = u64::try_from(result) {
        SHARED.get().follow(number, args, result);
        if std::mem::take(&mut thread.syscall.writable_code) {
            writable_code::after(number, args, result);
        }
    }
    PROTECTIONS.get().follow(number, args);
}

/// Whether the system call is made once more.
///
/// # Safety
/// In the post-syscall event.
unsafe fn again(thread: &mut Thread, drcontext: *mut c_void) -> bool {
    let (Some(before), Some(machine)) = (&thread.syscall.before, Machine::current()) else { return false };
    let result = machine.register_file().gpr[RAX].cast_signed();
    if result != -i64::from(libc::EINTR) || thread.signals.mask.close() {
        return false;
    }
    // SAFETY: the caller's promise; signals are blocked.
    let again = unsafe { thread.signals.retry.again(drcontext, before.gpr[ARGUMENTS[0]]) };
    if !again {
        thread.signals.mask.reopen();
    }
    again
}
