//! Faults: those of the shadow, which get their memory; those of the program, whose registers the instrumentation
//! holds; and death by a signal.

mod handlers;
pub mod last_program;
mod si_code;

use crate::branches;
use crate::by_rip;
use crate::callout::Slot;
use crate::code::read_memory;
use crate::counter::COUNTERS;
use crate::fs_base::Guard;
use crate::instrument::BEFORE_LIMIT;
use crate::process;
use crate::signals::{self, Sent};
use crate::site::Site;
use crate::snapshot::{self, How};
use crate::syscall;
use crate::thread::{self, Thread};
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::{context, sys};
use bugnet_format::record::EndReason;
use bugnet_format::regs::{ARITHMETIC_FLAGS, FPU_UNKNOWN, GPR_UNKNOWN, RSP, RegisterFile};
use bugnet_format::types::Addr;
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use std::ffi::c_void;

pub use handlers::on_kernel_transfer;

/// What the code cache holds up to an address in a fragment.
#[derive(Default)]
struct Scan {
    /// Registers whose program value is in their slot.
    spilled: u16,
    /// The scratch register that holds a shadow address.
    shadow: Option<Gpr>,
    /// Whether RAX's program value is in [`Slot::Rax`].
    rax_moved: bool,
    /// Whether the program's arithmetic flags are in [`Slot::Flags`].
    flags_saved: bool,
    /// The block that is being executed: address of its limit callout.
    limit: Option<u64>,
}

fn gpr(register: Register) -> Option<Gpr> {
    let full = register.full_register();
    full.is_gpr64().then(|| Gpr((full as u32 - Register::RAX as u32) as u8))
}

/// The slot of ours that an instruction's memory operand is.
fn slot_offset(i: &Instruction) -> Option<u64> {
    if i.is_ip_rel_memory_operand() {
        return by_rip::slot_offset(i.ip_rel_memory_address());
    }
    let tls = i.memory_segment() == Register::GS && i.memory_base() == Register::None;
    (tls && i.memory_index() == Register::None).then(|| i.memory_displacement64())
}

fn spill_of(offset: u64) -> Option<Gpr> {
    (0..16).map(Gpr).find(|reg| u64::from(Slot::Spill(*reg).offset()) == offset)
}

/// Whether a slot is one of the counters.
fn is_counter(offset: u64) -> bool {
    (0..COUNTERS).any(|number| u64::from(Slot::Left(number as u8).offset()) == offset)
}

/// A decoder over code at an address of this process.
///
/// # Safety
/// Readable up to `end`.
unsafe fn decoder<'a>(start: u64, end: u64) -> Decoder<'a> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, (end - start) as usize) };
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
}

/// Whether an instruction puts the program's own arithmetic flags in place: `sahf` of the instrumentation does, and what
/// changes flags without being a check. `behind_shadow`: the instruction before it accesses the shadow.
fn overwrites_flags(i: &Instruction, behind_shadow: bool) -> bool {
    let of_check = match i.mnemonic() {
        Mnemonic::Cmp => {
            let code = [Slot::CodeSeq, Slot::CodeSeqByFs].map(|slot| Some(u64::from(slot.offset())));
            i.memory_segment() == Register::FS || code.contains(&slot_offset(i))
        }
        Mnemonic::Sub => slot_offset(i).is_some_and(is_counter),
        Mnemonic::Ptest | Mnemonic::Vptest => behind_shadow,
        // Before `sahf`.
        Mnemonic::Add => {
            i.op0_register() == Register::AL && i.op1_kind() == OpKind::Immediate8 && i.immediate8() == 0x7f
        }
        _ => false,
    };
    i.rflags_modified() != 0 && !of_check
}

/// Which instructions are those of checks for permission: see [`crate::instrument`]. What they end with, no program has.
fn of_permission_checks(all: &[Instruction]) -> Vec<bool> {
    let mut ours = vec![false; all.len()];
    let permissions = u64::from(Slot::Permissions.offset());
    for at in 0..all.len() {
        if all[at].mnemonic() != Mnemonic::Add || slot_offset(&all[at]) != Some(permissions) {
            continue;
        }
        // shr, mov, add, cmp
        ours[at.saturating_sub(2)..all.len().min(at + 2)].fill(true);
        // Before that, and, cmp, ja, with no change of flags in between. Only a block's end has a jump of the program's.
        let before = &all[..at.saturating_sub(2)];
        let changes = |i: &Instruction| i.mnemonic() == Mnemonic::Ja || i.rflags_modified() != 0;
        if let Some(jump) = before.iter().rposition(changes)
            && before[jump].mnemonic() == Mnemonic::Ja
        {
            ours[jump.saturating_sub(2)..jump].fill(true);
        }
    }
    ours
}

/// Follows the instrumentation from a fragment's start to `pc`.
fn scan(start: u64, pc: u64) -> Scan {
    let mut out = Scan::default();
    // SAFETY: the fragment reaches beyond the instruction at `pc`, which has just executed.
    let decoder = unsafe { decoder(start, pc) };
    let (mut counting, mut shadowed) = (false, false);
    let mut factory = InstructionInfoFactory::new();
    let all: Vec<Instruction> = decoder.into_iter().collect();
    let of_permission_checks = of_permission_checks(&all);
    for (i, of_check) in all.into_iter().zip(of_permission_checks) {
        let slot = slot_offset(&i);
        let behind_shadow = std::mem::replace(&mut shadowed, i.memory_segment() == Register::FS);
        out.flags_saved &= of_check || !overwrites_flags(&i, behind_shadow);
        let toggles = i.mnemonic() == Mnemonic::Xor && slot == Some(u64::from(Slot::Key.offset()));
        if toggles {
            let reg = gpr(i.op0_register());
            out.shadow = if out.shadow == reg { None } else { reg };
            continue;
        }
        if slot == Some(u64::from(Slot::Distance.offset())) {
            // The same register, on the same way.
            continue;
        }
        let writes = |used: &iced_x86::UsedRegister| {
            !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) && gpr(used.register()) == out.shadow
        };
        if out.shadow.is_some() && factory.info(&i).used_registers().iter().any(writes) {
            out.shadow = None;
        }
        match (i.mnemonic(), slot) {
            (Mnemonic::Sub, Some(offset)) if is_counter(offset) => counting = true,
            (Mnemonic::Mov, Some(offset)) if i.op0_kind() == OpKind::Memory => {
                if let (Some(reg), Some(own)) = (spill_of(offset), gpr(i.op1_register()))
                    && reg == own
                {
                    out.spilled |= reg.bit();
                }
                if offset == u64::from(Slot::Rax.offset()) {
                    out.rax_moved = true;
                }
                out.flags_saved |= offset == u64::from(Slot::Flags.offset());
                counting |= is_counter(offset);
            }
            (Mnemonic::Mov, Some(offset)) => {
                if let (Some(reg), Some(own)) = (spill_of(offset), gpr(i.op0_register()))
                    && reg == own
                {
                    out.spilled &= !reg.bit();
                }
                if offset == u64::from(Slot::Rax.offset()) {
                    out.rax_moved = false;
                }
            }
            // A callout, behind which RAX is the program's.
            (Mnemonic::Jmp, Some(_)) => out.rax_moved = false,
            (Mnemonic::Js, _) if counting => {
                out.limit = Some(i.near_branch_target());
                counting = false;
            }
            (Mnemonic::Jns, _) if counting => {
                out.limit = Some(i.next_ip());
                counting = false;
            }
            (Mnemonic::Jrcxz, _) if counting => {
                out.limit = Some(i.next_ip() + BEFORE_LIMIT);
                counting = false;
            }
            _ => {}
        }
    }
    out
}

/// The site of a limit callout, from its inline part in the code cache.
fn site_at(callout: u64) -> Option<&'static Site> {
    // SAFETY: a callout's inline part is longer than this.
    let decoder = unsafe { decoder(callout, callout + 64) };
    let pointer = decoder.into_iter().find(|i| i.code() == Code::Mov_r64_imm64)?.immediate64();
    // SAFETY: the instrumentation put the address of a site there, which is kept as long as the block.
    unsafe { (pointer as *const Site).as_ref() }
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
pub unsafe extern "C" fn on_restore_state(
    _drcontext: *mut c_void,
    _restore_memory: sys::bool_,
    info: *mut sys::dr_restore_state_info_t,
) -> sys::bool_ {
    let _own = Guard::new();
    // SAFETY: the event hands out valid pointers.
    let (info, machine) = unsafe { (&*info, &mut *(*info).mcontext) };
    let start = info.fragment_info.cache_start_pc as u64;
    if start == 0 || info.raw_mcontext_valid == 0 || info.raw_mcontext.is_null() {
        return 1;
    }
    // SAFETY: checked above; the union is one pointer under several names.
    let pc = unsafe { (*info.raw_mcontext).__bindgen_anon_10.pc } as u64;
    if pc < start {
        return 1;
    }
    let found = scan(start, pc);
    for reg in (0..16).map(Gpr).filter(|reg| found.spilled & reg.bit() != 0) {
        // SAFETY: the faulting thread's own slot.
        *context::gpr_mut(machine, reg.0.into()) = unsafe { *Slot::Spill(reg).address() };
    }
    if found.rax_moved {
        // SAFETY: as above.
        *context::gpr_mut(machine, 0) = unsafe { *Slot::Rax.address() };
    }
    if found.flags_saved {
        // SAFETY: both members of the union are one integer.
        let flags = unsafe { &mut machine.__bindgen_anon_9.xflags };
        *flags = *flags & !(ARITHMETIC_FLAGS as sys::reg_t) | Slot::read_flags() as sys::reg_t;
    }
    1
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

/// A signal has arrived.
///
/// # Safety
/// DynamoRIO's signal event.
pub unsafe extern "C" fn on_signal(drcontext: *mut c_void, info: *mut sys::dr_siginfo_t) -> sys::dr_signal_action_t {
    let _own = Guard::new();
    // SAFETY: the event hands out a valid description.
    let info = unsafe { &*info };
    let Some(thread) = thread::of(drcontext) else { return sys::dr_signal_action_t_DR_SIGNAL_DELIVER };
    // It may have come while the thread waited in DynamoRIO for another that wants it to stop, as one that can be stopped; and the thread
    // does not return there, so that DynamoRIO would take it for that from now on, whatever it does and whatever it has locked.
    // SAFETY: the calling thread's context; DynamoRIO has just found that it does not hold the lock that this takes.
    unsafe { sys::dr_mark_safe_to_suspend(drcontext, 0) };
    if process::get().over() {
        thread.follow_end();
    }
    if info.sig == libc::SIGSEGV {
        thread.allow();
    }
    let code = thread.codes.take(info.sig);
    let mut found = None;
    let start = info.fault_fragment_info.cache_start_pc as u64;
    if start != 0 && info.raw_mcontext_valid != 0 {
        // SAFETY: valid as just checked; the union is one pointer under several names.
        let raw = unsafe { &*info.raw_mcontext };
        // SAFETY: as above.
        let pc = unsafe { raw.__bindgen_anon_10.pc } as u64;
        let scan = scan(start, pc);
        if info.sig == libc::SIGSEGV
            && let Some(shadow) = shadow_address(pc, raw, thread).or_else(|| {
                let touches = scan.shadow.is_some_and(|reg| touches(pc, reg));
                touches.then_some(info.access_address as u64)
            })
            // The program's own access has succeeded, or is about to: there is memory that this is the shadow of.
            && read_memory(thread.shadow.address(shadow), &mut [0; 1])
            // Where the shadow is there already, it is the program's own fault, which meets it there.
            && !thread.shadow.is_reserved(shadow, instruction_at(pc).memory_size().size() as u64)
        {
            let len = instruction_at(pc).memory_size().size() as u64;
            if !thread.shadow.reserve_range(thread.shadow.address(shadow), len) {
                crate::die("another thread has mapped memory whose shadow has no room; please record again");
            }
            return sys::dr_signal_action_t_DR_SIGNAL_SUPPRESS;
        }
        found = Some(scan);
    }
    name_limits(thread, info);
    let to_nowhere = info.sig == libc::SIGSEGV && found.is_none() && undo_branch_to_nowhere(thread, info);
    let fault = is_fault(info.sig);
    let handler = thread.mask.handler(info.sig);
    // A fault cannot wait, and cannot be ignored.
    let fatal = if fault && info.raw_mcontext_valid != 0 { handler <= 1 || info.blocked != 0 } else { handler == 0 };
    if fatal && kills(info.sig) {
        if thread.recording() {
            let (position, regs) = interrupted(thread, info, found.as_ref());
            end(thread, info, (code, to_nowhere), position, regs);
        }
        if thread.is_foreign() {
            // DynamoRIO would take apart what is the parent's, and wait for that, which waits for this process.
            if last_program::go(thread, info) {
                return sys::dr_signal_action_t_DR_SIGNAL_REDIRECT;
            }
            signals::die_by(info.sig);
        }
        if fault && (handler != 0 || info.sig == libc::SIGTRAP) {
            // DynamoRIO would deliver it for ever, or fail.
            process::finish();
            signals::die_by(info.sig);
        }
    } else if handler <= 1 {
        // Nothing will be delivered. DynamoRIO still looks through what it holds: the next block opens the mask.
        thread.mask.pending.remove(info.sig);
        thread.open_soon();
    } else if found.is_some() && thread.recording() {
        // What was counted behind a fault has not been executed.
        let (position, _) = interrupted(thread, info, found.as_ref());
        thread.recount(position);
    }
    sys::dr_signal_action_t_DR_SIGNAL_DELIVER
}

/// Where a thread has branched to an address that is none, the branch has not happened: it faults itself. Returns whether it is so.
fn undo_branch_to_nowhere(thread: &mut Thread, info: &sys::dr_siginfo_t) -> bool {
    // SAFETY: the event's context of the program, which nobody else refers to; DynamoRIO takes changes from there.
    let machine = unsafe { &mut *info.mcontext };
    let mut regs = context::register_file(machine);
    if !branches::is_none(regs.rip) {
        return false;
    }
    let segments = [thread::segment_base(Segment::Fs), thread::segment_base(Segment::Gs)];
    [regs.fs_base, regs.gs_base] = segments;
    if !branches::undo(&mut regs) {
        return false;
    }
    *context::gpr_mut(machine, RSP) = regs.gpr[RSP];
    machine.__bindgen_anon_10.pc = regs.rip as sys::app_pc;
    if thread.recording() {
        // Its block has counted it.
        thread.recount(thread.counted() - 1);
    }
    true
}

/// Names the limit of recording that a signal shows to be met.
fn name_limits(thread: &mut Thread, info: &sys::dr_siginfo_t) {
    const TRAP_FLAG: u64 = 0x100;
    const ALIGNMENT_CHECK: u64 = 0x4_0000;
    const VSYSCALL_PAGE: u64 = 0xffff_ffff_ff60_0000 >> 12;
    // SAFETY: the event's context of the program, in which both members of the union are one integer.
    let flags = unsafe { (*info.mcontext).__bindgen_anon_9.xflags };
    // SAFETY: as above.
    let pc = unsafe { (*info.mcontext).__bindgen_anon_10.pc } as u64;
    match info.sig {
        libc::SIGSEGV if pc >> 12 == VSYSCALL_PAGE => {
            // Replay cannot go where not even DynamoRIO can look.
            let why = "the program calls the vsyscall page, which is as if there were none".to_owned();
            thread.stop_where_known(EndReason::Unsupported { why });
        }
        libc::SIGTRAP if flags & TRAP_FLAG != 0 => {
            crate::warn("the program single-steps itself by the trap flag, which does not work while it is recorded");
        }
        libc::SIGBUS if flags & ALIGNMENT_CHECK != 0 => {
            crate::warn(
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
    unsafe { decoder(pc, pc + 15) }.decode()
}

/// What the instruction at `pc` in the code cache addresses, if that is the shadow at a distance. It is what has FS: of
/// the program's own instructions DynamoRIO makes others.
fn shadow_address(pc: u64, raw: &sys::dr_mcontext_t, thread: &Thread) -> Option<u64> {
    let instruction = instruction_at(pc);
    if instruction.memory_segment() != Register::FS {
        return None;
    }
    let regs = context::register_file(raw);
    let operand = (0..instruction.op_count()).find(|n| instruction.op_kind(*n) == OpKind::Memory)?;
    instruction.virtual_address(operand, 0, |register, _, _| match gpr(register) {
        Some(reg) if register.size() == 4 => Some(regs.gpr[usize::from(reg.0)] & 0xffff_ffff),
        Some(reg) => Some(regs.gpr[usize::from(reg.0)]),
        None => (register == Register::FS).then_some(thread.running_fs),
    })
}

/// Position and registers of the program where a signal interrupts it.
fn interrupted(thread: &mut Thread, info: &sys::dr_siginfo_t, found: Option<&Scan>) -> (u64, RegisterFile) {
    // SAFETY: the event's context of the program.
    let mut regs = context::register_file(unsafe { &*info.mcontext });
    let counted = thread.counted();
    if let Some(before) = thread.syscall.before.take() {
        // Within a system call, which then has not happened.
        return (counted - 1, *before);
    }
    if found.is_none()
        && let Some(ended) = syscall::killed_within(thread)
    {
        return ended;
    }
    if info.sig == libc::SIGTRAP {
        regs.rip = breakpoint(regs.rip);
    }
    let mut dead = 0;
    let position = found.and_then(|f| f.limit).and_then(site_at).and_then(|site| {
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
    let pending = Some(regs.rip) == syscall::pending_pc();
    (position.unwrap_or(counted - u64::from(pending)), regs)
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
fn end(
    thread: &mut Thread,
    info: &sys::dr_siginfo_t,
    (code, to_nowhere): (Option<i32>, bool),
    position: u64,
    regs: RegisterFile,
) {
    thread.interrupt_repeat(position, &regs);
    thread.end_others();
    snapshot::keep(thread, position, regs.gpr[RSP], How::Killed);
    let fault = is_fault(info.sig);
    let no_code = info.sig == libc::SIGSEGV && info.raw_mcontext_valid == 0 && !read_memory(regs.rip, &mut [0; 1]);
    let addr = match info.sig {
        libc::SIGSEGV if to_nowhere => Addr(0),
        // DynamoRIO finds out by itself, without a fault.
        libc::SIGSEGV if no_code => Addr(regs.rip),
        // Somebody has sent it.
        _ if code.is_some_and(|code| code <= 0) => Addr(0),
        libc::SIGSEGV | libc::SIGBUS => Addr(info.access_address as u64),
        _ if fault => Addr(regs.rip),
        _ => Addr(0),
    };
    let code = match (to_nowhere, no_code) {
        (true, _) => si_code::SI_KERNEL,
        (_, true) => si_code::SEGV_MAPERR,
        _ => code.unwrap_or_else(|| si_code::without_kernel(info.sig)),
    };
    thread.stop(position, EndReason::Signal { signo: info.sig as u32, code, addr }, regs);
}

/// The thread dies, at this position, of a signal that somebody has sent.
pub fn die(thread: &mut Thread, sent: &Sent, position: u64, regs: RegisterFile) -> ! {
    if thread.recording() {
        thread.end_others();
        snapshot::keep(thread, position, regs.gpr[RSP], How::Killed);
        let (signo, code, addr) = (sent.signal as u32, sent.code, Addr(0));
        thread.stop(position, EndReason::Signal { signo, code, addr }, regs);
    }
    if !thread.is_foreign() {
        process::finish();
    }
    signals::die_by(sent.signal)
}
