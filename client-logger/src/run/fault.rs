//! Faults: those of the shadow, which get their memory; those of the program, whose registers the instrumentation
//! holds; and death by a signal.

pub mod handlers;
mod si_code;

use crate::base::failure::{attempt, fail};
use crate::base::fs_base::Guard;
use crate::base::light;
use crate::base::memory::read_memory;
use crate::base::slots::Slot;
use crate::emitted::branches;
use crate::emitted::map::{self, Here};
use crate::emitted::site::Site;
use crate::log::recording;
use crate::run::dying::wait_to_end;
use crate::run::expand::{self, Raised};
use crate::run::lifetime;
use crate::run::parts::call::{self, SYSCALL_BYTES, left_in_r11};
use crate::run::parts::last_program;
use crate::run::signals::{self, actions};
use crate::run::snapshot::{self, How};
use crate::run::thread::{self, Thread};
use bugnet_dr::context::View;
use bugnet_dr::decode::MAX_LEN;
use bugnet_dr::events::{Action, Bool, DELIVER, REDIRECT, Restored, SUPPRESS, Signal};
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::thread::{self as dr_thread, segment_base};
use bugnet_format::record::EndReason;
use bugnet_format::regs::{ARITHMETIC_FLAGS, FPU_UNKNOWN, GPR_UNKNOWN, R11, RAX, RCX, RSP, RegisterFile};
use bugnet_format::types::Addr;
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};
use std::ffi::c_void;

/// The general purpose register of which this is one, or a part.
fn gpr(register: Register) -> Option<Gpr> {
    let full = register.full_register();
    full.is_gpr64().then(|| Gpr((full as u32 - Register::RAX as u32) as u8))
}

/// How many of a block's instructions lie before `pc`.
fn index_in_block(site: &Site, pc: u64) -> Option<u64> {
    let mut bytes = vec![0; (pc.checked_sub(site.pc)?) as usize];
    if !read_memory(site.pc, &mut bytes) {
        return None;
    }
    let decoder = Decoder::with_ip(64, &bytes, site.pc, DecoderOptions::NONE);
    Some(decoder.into_iter().count() as u64)
}

/// DynamoRIO translates a state in the code cache into the program's.
///
/// # Safety
/// DynamoRIO's restore-state event.
pub unsafe extern "C" fn on_restore_state(_drcontext: *mut c_void, _restore_memory: Bool, info: *mut Restored) -> Bool {
    let _own = Guard::new();
    attempt(|| restore(info));
    1
}

fn restore(info: *mut Restored) {
    // SAFETY: the event hands out a valid description.
    let info = unsafe { &mut *info };
    let (Some(fragment), Some(pc)) = (info.fragment(), info.raw().map(View::pc)) else { return };
    if pc < fragment.start {
        return;
    }
    let found = map::here(fragment, pc);
    let machine = info.machine_mut();
    for reg in (0..16).map(Gpr).filter(|reg| found.spilled & reg.bit() != 0) {
        // SAFETY: the faulting thread's own slot.
        *machine.gpr_mut(reg.0.into()) = unsafe { *Slot::Spill(reg).address() };
    }
    if found.flags_saved {
        machine.set_flags(machine.flags() & !ARITHMETIC_FLAGS | Slot::read_flags());
    }
}

/// Signals that stop a process that does nothing about them.
fn stops(signo: i32) -> bool {
    matches!(signo, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}

/// Signals that kill a process that does nothing about them.
fn kills(signo: i32) -> bool {
    !matches!(
        signo,
        libc::SIGCHLD
            | libc::SIGURG
            | libc::SIGWINCH
            | libc::SIGCONT
            | libc::SIGSTOP
            | libc::SIGTSTP
            | libc::SIGTTIN
            | libc::SIGTTOU
    )
}

/// Whether a fault at `pc` was one of the shadow's, which gets its memory then.
fn makes_shadow(thread: &mut Thread, raw: &View, here: &Here, accessed: u64) -> bool {
    let pc = raw.pc();
    let through = || here.shadow.is_some_and(|reg| touches(pc, reg)).then_some(accessed);
    let Some(shadow) = shadow_address(raw, thread).or_else(through) else { return false };
    let len = instruction_at(pc).memory_size().size() as u64;
    // The program's own access has succeeded, or is about to: there is memory that this is the shadow of. Where the shadow is there already,
    // it is the program's own fault, which meets it there.
    if !read_memory(thread.picture.shadow.address(shadow), &mut [0; 1])
        || thread.picture.shadow.is_reserved(shadow, len)
    {
        return false;
    }
    if !thread.picture.shadow.reserve_range(thread.picture.shadow.address(shadow), len) {
        fail("another thread has mapped memory whose shadow has no room; please record again");
    }
    true
}

/// A signal has arrived.
///
/// # Safety
/// DynamoRIO's signal event.
pub unsafe extern "C" fn on_signal(drcontext: *mut c_void, info: *mut Signal) -> Action {
    let _own = Guard::new();
    // SAFETY: in the event.
    attempt(|| unsafe { signal(drcontext, info) }).unwrap_or(DELIVER)
}

/// # Safety
/// In the signal event.
unsafe fn signal(drcontext: *mut c_void, info: *mut Signal) -> Action {
    // SAFETY: the event hands out a valid description.
    let info = unsafe { &mut *info };
    // SAFETY: in the event.
    let Some(thread) = (unsafe { thread::of(drcontext) }) else { return DELIVER };
    // It may have come while the thread waited in DynamoRIO for another that wants it to stop, as one that can be stopped; and the thread
    // does not return there, so that DynamoRIO would take it for that from now on, whatever it does and whatever it has locked.
    // SAFETY: the calling thread's context; DynamoRIO has just found that it does not hold the lock that this takes.
    unsafe { dr_thread::let_suspend(drcontext, false) };
    if recording::over() {
        thread.follow_end();
    }
    if info.number() == libc::SIGSEGV && std::mem::take(&mut thread.signals.called_back) {
        return go_back(thread, info);
    }
    if info.number() == libc::SIGSEGV {
        thread.allow();
    }
    let code = thread.signals.codes.take(info.number());
    let mut found = None;
    if let (Some(fragment), Some(raw)) = (info.fragment(), info.raw()) {
        let here = map::here(fragment, raw.pc());
        if info.number() == libc::SIGSEGV && makes_shadow(thread, raw, &here, info.access_address()) {
            return SUPPRESS;
        }
        found = Some(here);
    }
    name_limits(thread, info);
    let to_nowhere = info.number() == libc::SIGSEGV && found.is_none() && undo_branch_to_nowhere(thread, info);
    // What DynamoRIO goes by, which another thread may have changed since.
    // SAFETY: in the event.
    let handler = unsafe { actions::Action::delivered(drcontext) }.handler;
    // A fault cannot wait, and cannot be ignored.
    let faults = is_fault(info.number()) && info.raw().is_some();
    let mut fatal = if faults { handler <= 1 || info.is_blocked() } else { handler == 0 };
    if faults && light::expands() && thread.recording() {
        let (position, regs) = interrupted(thread, info, found.as_ref());
        match expand::raised(thread, info, position, regs) {
            Raised::Handled => return REDIRECT,
            Raised::Kills => fatal = true,
        }
    }
    if fatal && kills(info.number()) {
        let place = thread.recording().then(|| interrupted(thread, info, found.as_ref()));
        if let Some((position, _)) = place {
            thread.leave(position);
        }
        // It may have been about to make a call for which others wait.
        thread.syscall.let_others_go_on(drcontext);
        if !thread.is_foreign() {
            wait_to_end(drcontext);
        }
        if let Some((position, regs)) = place {
            end(thread, info, (code, to_nowhere), position, regs);
        }
        return killed(thread, info, handler);
    }
    if handler <= 1 {
        return ignored(thread, info, handler);
    } else if found.is_some() && thread.recording() {
        // What was counted behind a fault has not been executed.
        let (position, _) = interrupted(thread, info, found.as_ref());
        thread.recount(position);
    }
    DELIVER
}

/// Nothing is delivered: the program has changed what the signal does since it came. DynamoRIO still looks through what it holds: the next block
/// opens the mask.
fn ignored(thread: &mut Thread, info: &mut Signal, handler: u64) -> Action {
    thread.signals.mask.pending.remove(info.number());
    if handler == 0 && stops(info.number()) {
        // DynamoRIO does not stop: the kernel does, which has the default by now, or will soon.
        signals::send::send_plain(info.number());
    }
    let again = make_call_again(thread, info);
    thread.open_soon();
    if again { REDIRECT } else { DELIVER }
}

/// Where a signal that is not delivered has come in a system call, or before one that DynamoRIO has then given up, the call goes on as natively:
/// it is made again. Returns whether it is, by way of the registers.
fn make_call_again(thread: &mut Thread, info: &mut Signal) -> bool {
    let now = info.machine().register_file();
    let has_not_begun = call::pending_pc() == Some(now.rip);
    if has_not_begun || thread.syscall.before.take_if(|before| before.rip == now.rip).is_some() {
        // It has not begun, or was given up: DynamoRIO goes there by itself.
        if thread.recording() {
            thread.recount(thread.counted() - 1);
        }
        return false;
    }
    let ended = now.gpr[RAX].cast_signed() == -i64::from(libc::EINTR);
    let is_behind = |call: u64| ended && now.rip == call + SYSCALL_BYTES;
    let Some(before) = thread.syscall.interrupted.take_if(|before| now.rip == before.rip || is_behind(before.rip))
    else {
        return false;
    };
    if now.gpr[RSP] != before.gpr[RSP] {
        return false;
    }
    if thread.recording() {
        let position = thread.counted() - 1;
        if thread.take_back_call(position) != Some(true) {
            // The log has it that the call was interrupted, and so it was.
            return false;
        }
        thread.recount(position);
    }
    let machine = info.machine_mut();
    for (number, value) in before.gpr.iter().enumerate() {
        *machine.gpr_mut(number) = *value;
    }
    machine.set_pc(before.rip);
    true
}

/// The thread leaves the block in which it waits for memory, before the instruction that does, with which another block begins.
fn go_back(thread: &mut Thread, info: &mut Signal) -> Action {
    let here = info.fragment().zip(info.raw()).map(|(fragment, raw)| map::here(fragment, raw.pc()));
    if thread.recording() {
        let (position, _) = interrupted(thread, info, here.as_ref());
        thread.recount(position);
    }
    REDIRECT
}

/// A signal kills the process, whose recording has ended.
fn killed(thread: &mut Thread, info: &mut Signal, handler: u64) -> Action {
    if thread.is_foreign() {
        // DynamoRIO would take apart what is the parent's, and wait for that, which waits for this process.
        if last_program::go(&mut thread.syscall.last_program, info) {
            return REDIRECT;
        }
        signals::die_by(info.number());
    }
    if is_fault(info.number()) && (handler != 0 || info.number() == libc::SIGTRAP) {
        // DynamoRIO would deliver it for ever, or fail.
        lifetime::finish();
        signals::die_by(info.number());
    }
    DELIVER
}

/// Where a thread has branched to an address that is none, the branch has not happened: it faults itself. Returns whether it is so.
fn undo_branch_to_nowhere(thread: &mut Thread, info: &mut Signal) -> bool {
    let machine = info.machine_mut();
    let mut regs = machine.register_file();
    if !branches::is_none(regs.rip) {
        return false;
    }
    let segments = [segment_base(Segment::Fs), segment_base(Segment::Gs)];
    [regs.fs_base, regs.gs_base] = segments;
    if !branches::undo(&mut regs) {
        return false;
    }
    *machine.gpr_mut(RSP) = regs.gpr[RSP];
    machine.set_pc(regs.rip);
    if thread.recording() {
        // Its block has counted it.
        thread.recount(thread.counted() - 1);
    }
    true
}

/// Names the limit of recording that a signal shows to be met.
fn name_limits(thread: &mut Thread, info: &Signal) {
    const TRAP_FLAG: u64 = 0x100;
    const ALIGNMENT_CHECK: u64 = 0x4_0000;
    const VSYSCALL_PAGE: u64 = 0xffff_ffff_ff60_0000 >> 12;
    let (flags, pc) = (info.machine().flags(), info.machine().pc());
    match info.number() {
        libc::SIGSEGV if pc >> 12 == VSYSCALL_PAGE => {
            // Replay cannot go where not even DynamoRIO can look.
            let why = "the program calls the vsyscall page, which is as if there were none".to_owned();
            thread.stop_where_known(EndReason::Unsupported { why });
        }
        libc::SIGTRAP if flags & TRAP_FLAG != 0 => {
            crate::base::warn(
                "the program single-steps itself by the trap flag, which does not work while it is recorded",
            );
        }
        libc::SIGBUS if flags & ALIGNMENT_CHECK != 0 => {
            crate::base::warn(
                "the program has set the alignment check flag; signals that come meanwhile do not work while it is recorded",
            );
        }
        _ => {}
    }
}

/// Whether a signal is one that instructions cause.
fn is_fault(signal: i32) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP)
}

/// Whether the instruction at `pc` in the code cache addresses memory through `reg`.
fn touches(pc: u64, reg: Gpr) -> bool {
    gpr(instruction_at(pc).memory_base()) == Some(reg)
}

fn instruction_at(pc: u64) -> Instruction {
    // SAFETY: the longest instruction; the code cache does not end within its last fragment's stubs.
    let code = unsafe { (pc as *const [u8; MAX_LEN]).read() };
    Decoder::with_ip(64, &code, pc, DecoderOptions::NONE).decode()
}

/// What the instruction at `pc` in the code cache addresses, if that is the shadow at a distance. It is what has FS: of
/// the program's own instructions DynamoRIO makes others.
fn shadow_address(raw: &View, thread: &Thread) -> Option<u64> {
    let instruction = instruction_at(raw.pc());
    if instruction.memory_segment() != Register::FS {
        return None;
    }
    let regs = raw.register_file();
    let operand = (0..instruction.op_count()).find(|n| instruction.op_kind(*n) == OpKind::Memory)?;
    instruction.virtual_address(operand, 0, |register, _, _| match gpr(register) {
        Some(reg) if register.size() == 4 => Some(regs.gpr[usize::from(reg.0)] & 0xffff_ffff),
        Some(reg) => Some(regs.gpr[usize::from(reg.0)]),
        None => (register == Register::FS).then_some(thread.callouts.bases.running),
    })
}

/// Position and registers of the program where a signal interrupts it.
fn interrupted(thread: &mut Thread, info: &Signal, found: Option<&Here>) -> (u64, RegisterFile) {
    let mut regs = info.machine().register_file();
    let counted = thread.counted();
    if let Some(before) = thread.syscall.before.take() {
        // Within a system call, which then has not happened.
        return (counted - 1, *before);
    }
    if found.is_none()
        && let Some(ended) = killed_within(thread)
    {
        return ended;
    }
    if info.number() == libc::SIGTRAP {
        regs.rip = breakpoint(regs.rip);
    }
    let mut dead = 0;
    let position = found.and_then(|here| here.limit).and_then(|site| {
        let index = index_in_block(site, regs.rip)?;
        dead = dead_gprs(regs.rip, site.back - index);
        Some(counted - site.back + index)
    });
    thread.complete(&mut regs);
    // The processor's x87 state is this handler's, and the flags may be the instrumentation's.
    regs.rflags_known &= !ARITHMETIC_FLAGS;
    regs.rflags &= regs.rflags_known;
    regs.rflags_known |= FPU_UNKNOWN | (u64::from(dead) * GPR_UNKNOWN);
    // Just before a system call, which its block has counted.
    let pending = Some(regs.rip) == call::pending_pc();
    (position.unwrap_or(counted - u64::from(pending)), regs)
}

/// Where a signal kills a thread, and with which registers, if it has interrupted the system call that was the last thing that the
/// thread did: in the call, which then has not returned.
fn killed_within(thread: &mut Thread) -> Option<(u64, RegisterFile)> {
    let mut regs = thread.syscall.interrupted.take()?;
    let position = thread.counted() - 1;
    if thread.take_back_call(position)? {
        return Some((position, *regs));
    }
    // DynamoRIO may be about to make it again: as the record says that it returned.
    regs.gpr[RAX] = -i64::from(libc::EINTR) as u64;
    regs.rip += SYSCALL_BYTES;
    regs.gpr[RCX] = regs.rip;
    regs.gpr[R11] = left_in_r11(&regs);
    Some((position + 1, *regs))
}

/// The address of the breakpoint instruction that leads a trap to `pc`, behind it; `pc` if there is none.
fn breakpoint(pc: u64) -> u64 {
    let mut code = [0; 2];
    match (read_memory(pc.wrapping_sub(2), &mut code), code) {
        (true, [0xcd, 3]) => pc - 2,
        (true, [_, 0xcc | 0xf1]) => pc - 1,
        _ => pc,
    }
}

/// General purpose registers that the `count` instructions from `pc` on overwrite before they read them: the
/// instrumentation may have used them.
fn dead_gprs(pc: u64, count: u64) -> u16 {
    let mut bytes = vec![0; 15 * count as usize];
    let mut len = bytes.len();
    while len > 0 && !read_memory(pc, &mut bytes[..len]) {
        len -= 1;
    }
    let (mut dead, mut seen) = (0, 0);
    let mut factory = InstructionInfoFactory::new();
    for i in Decoder::with_ip(64, &bytes[..len], pc, DecoderOptions::NONE).into_iter().take(count as usize) {
        let mut overwritten = 0;
        for used in factory.info(&i).used_registers() {
            let Some(reg) = gpr(used.register()) else { continue };
            let whole = used.register().size() >= 4 && used.access() == OpAccess::Write;
            if whole && seen & reg.bit() == 0 {
                overwritten |= reg.bit();
            } else {
                seen |= reg.bit();
            }
        }
        dead |= overwritten & !seen;
        seen |= overwritten;
    }
    dead
}

/// Ends the recording of a thread that a signal kills, which the kernel sent with this code, or DynamoRIO because a branch leads nowhere,
/// or where it did not execute something.
fn end(thread: &mut Thread, info: &Signal, (code, to_nowhere): (Option<i32>, bool), position: u64, regs: RegisterFile) {
    thread.interrupt_repeat(position, &regs);
    thread.end_others();
    snapshot::keep(thread, position, regs.gpr[RSP], How::Killed);
    let fault = is_fault(info.number());
    let no_code = info.number() == libc::SIGSEGV && info.raw().is_none() && !read_memory(regs.rip, &mut [0; 1]);
    let addr = match info.number() {
        libc::SIGSEGV if to_nowhere => Addr(0),
        // DynamoRIO finds out by itself, without a fault.
        libc::SIGSEGV if no_code => Addr(regs.rip),
        // Somebody has sent it.
        _ if code.is_some_and(|code| code <= 0) => Addr(0),
        libc::SIGSEGV | libc::SIGBUS => Addr(info.access_address()),
        _ if fault => Addr(regs.rip),
        _ => Addr(0),
    };
    let code = match (to_nowhere, no_code) {
        (true, _) => si_code::SI_KERNEL,
        (_, true) => si_code::SEGV_MAPERR,
        _ => code.unwrap_or_else(|| si_code::without_kernel(info.number())),
    };
    thread.stop(position, EndReason::Signal { signo: info.number() as u32, code, addr }, regs);
}
