//! Expanding a light log: what happens to the thread between instructions, and what instructions get from the processor, is as the log has it.
//!
//! What does not fit is a divergence: the log of the expansion ends there, with a sentence.

use crate::base::choices::{self, Choice, Seen};
use crate::base::confine;
use crate::base::light::{self, Light, Next, ORDER, Sought, Transfer};
use crate::base::memory::{read_memory, read_word, write_memory};
use crate::base::options;
use crate::base::turns;
use crate::base::waiting;
use crate::base::xsave;
use crate::emitted::site::Site;
use crate::run::lifetime;
use crate::run::snapshot::{self, How};
use crate::run::special;
use crate::run::thread::Thread;
use bugnet_dr::events::Signal;
use bugnet_dr::fpu;
use bugnet_dr::ir::Gpr;
use bugnet_format::light::{End, layout, reach};
use bugnet_format::record::{EndReason, Record, SignalStep, SpecialKind};
use bugnet_format::regs::{ARITHMETIC_FLAGS, R11, RAX, RSP, RegisterFile};
use bugnet_format::types::Addr;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is said where the turns of others do not come.
pub const LACKS_OTHERS: &str = "the expansion of a process that it shares memory with did not come to its end";

/// Status of an expansion that does not fit its light log.
const DIVERGED: i32 = 3;

/// In so many instructions a moment is found, or not at all: where a program waits for a signal, it would wait for ever.
const MOST_TO_MOMENT: u64 = 10_000_000_000;
/// In a frame, whose `ucontext` RSP points at: the first register, RIP, flags, and where x87 and vector state is.
const CONTEXT_REGISTERS: u64 = 40;
const CONTEXT_RIP: u64 = 168;
const CONTEXT_FLAGS: u64 = 176;
const CONTEXT_STATE: u64 = 224;
/// Flags that a handler may change in its frame.
const CHANGED_FLAGS: u64 = 0x0005_0dd5;

/// Before the program's first instruction, or its second thread: from here on, it is a stranger's code that runs.
pub fn confine() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if IS_DONE.swap(true, Ordering::SeqCst) {
        return;
    }
    let Some(folder) = light::of_process().map(|light| light.folder()) else { return };
    if let Err(why) = confine::confine(&options::get().log, light::folder_of_memory(), &folder) {
        crate::base::die(&why);
    }
}

/// Ends the expansion of the process at what does not fit.
pub fn diverged(thread: &mut Thread, position: u64, regs: RegisterFile, why: &str) -> ! {
    let place = light::of_process().map(|mut light| {
        light.tell_seen();
        light.place()
    });
    turns::give_up_all();
    let place = place.unwrap_or_default();
    let why = format!("the light log does not fit: {why} ({place})");
    leave(thread, position, EndReason::Unsupported { why }, regs, DIVERGED)
}

/// Ends the expansion of the process.
pub fn leave(thread: &mut Thread, position: u64, reason: EndReason, regs: RegisterFile, status: i32) -> ! {
    thread.leave(position);
    thread.stop(position, reason, regs);
    lifetime::finish();
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// General purpose registers, RIP and flags, in a light log's order.
fn set(regs: &mut RegisterFile, values: &[u64; 18]) {
    for (number, value) in ORDER.into_iter().zip(values) {
        regs.gpr[number] = *value;
    }
    regs.rip = values[16];
    regs.rflags = values[17];
}

/// What a return from a handler restores, from the frame that RSP points at.
fn frame(regs: &RegisterFile, rsp: u64) -> Option<RegisterFile> {
    let mut back = regs.clone();
    for (i, number) in (0..).zip(ORDER) {
        back.gpr[number] = read_word(rsp + CONTEXT_REGISTERS + 8 * i)?;
    }
    back.rip = read_word(rsp + CONTEXT_RIP)?;
    back.rflags = read_word(rsp + CONTEXT_FLAGS)? & CHANGED_FLAGS | regs.rflags & !CHANGED_FLAGS;
    let state = read_word(rsp + CONTEXT_STATE)?;
    if state != 0 {
        let mut bytes = [0; layout::STATE];
        if !read_memory(state, &mut bytes) {
            return None;
        }
        xsave::unpack(&bytes, &mut back);
    }
    Some(back)
}

impl Thread {
    /// Before a block, where a threshold is reached: waits until the thread has the turn, if others go on before it. It begins with the registers that the call has
    /// given it which made it; and behind a call that was waited for, it goes on with that.
    pub(in crate::run) fn follow_turns(&mut self, site: &Site) {
        if let Some(before) = self.syscall.resumed.take() {
            let position = self.counted() - site.back - 1;
            self.syscall.waited = true;
            self.go_to(position, &before);
        }
        if self.newborn.is_none() && self.awaits_turn.is_none() {
            return;
        }
        let position = self.counted().wrapping_sub(site.back);
        if self.awaits_turn.is_some() {
            self.leave(position);
        }
        let tid = self.tid.id();
        let test = || {
            turns::sleep_until_turn(tid);
            (turns::has_turn(tid) || turns::forks()).then_some(())
        };
        if waiting::asleep(self.context, test, turns::lacks_others).is_none() {
            let regs = self.awaits_turn.take().map(|regs| *regs).unwrap_or_default();
            diverged(self, position, regs, LACKS_OTHERS);
        }
        if !turns::has_turn(tid) {
            // DynamoRIO's dispatcher is where a fork finds it.
            if self.awaits_turn.is_some() {
                self.recount(position);
            }
            self.limit_soon();
            self.signals.leave.go(&self.callouts.saved, site.pc);
        }
        if let Some(registers) = self.newborn.take() {
            self.callouts.saved.gpr = registers;
        }
        if let Some(regs) = self.awaits_turn.take() {
            self.go_on_from(position, &regs);
        }
    }

    /// Goes on where the thread had passed its turn on: unless the next moment is here, too.
    fn go_on_from(&mut self, position: u64, regs: &RegisterFile) -> ! {
        let begins = light::of_process().and_then(|mut light| light.begin_epoch());
        begins.into_iter().for_each(|part| self.begin_epoch(light::first_interval(part)));
        if let Some(Ok(Next::End(End::GoesOn { why, is_lost: true }))) =
            light::of_process().map(|mut light| light.next())
        {
            leave(self, position, goes_on(why), regs.clone(), 0);
        }
        let is_due = self.follow_moments(position, regs);
        self.recount(position);
        // Where an epoch has begun meanwhile, so does an interval.
        self.picture.moved |= begins.is_some();
        if is_due || begins.is_some() || !self.is_in_epoch() {
            self.limit_soon();
        }
        self.go_on(regs)
    }

    /// The thread is between two instructions, with these registers, all of which are known: if the next moment is here, what happens there is seen to. Whether the
    /// thread has to come to a limit soon.
    pub fn follow_moments(&mut self, position: u64, regs: &RegisterFile) -> bool {
        while light::moment() == Some(regs.rip) && self.meets_moment(position, regs) {
            if !is_turn_next() {
                return light::of_process().is_some_and(|mut light| light.look_ahead());
            }
            // Once: with its next turn, the thread goes on from here before anything else.
            if !self.passes_turn() {
                self.awaits_turn = Some(Box::new(regs.clone()));
                return true;
            }
        }
        light::moment().is_some()
    }

    /// Whether it is at the next moment, which is over then.
    fn meets_moment(&mut self, position: u64, regs: &RegisterFile) -> bool {
        let is_there = light::of_process().is_some_and(|mut light| {
            let Light { sought: Some(sought), seen, .. } = &mut *light else { return false };
            // Behind a call, nobody reads the flags, or R11, which has what they were: where the thread has waited for its turn, they may be others.
            let same = |(i, number): (usize, usize)| number == R11 || regs.gpr[number] == sought.registers[i];
            let is_it = (0..).zip(ORDER).all(same) && is_it(sought, seen, position);
            if is_it {
                seen.find(position);
                light.sought = None;
            }
            is_it
        });
        if is_there {
            light::moment_over();
            if let Some(mut light) = light::of_process() {
                let _ = light.pass();
            }
        }
        is_there
    }

    /// Before a call, with these registers: others go on before this one, and epochs begin, if the light log says so. Whether the thread has the turn. With none of its instructions in
    /// between, it may have had it several times.
    pub fn has_turn(&mut self, before: &RegisterFile) -> bool {
        while turns::has_turn(self.tid.id()) {
            let begins = light::of_process().and_then(|mut light| light.begin_epoch());
            self.split_before_call(before, begins.map(light::first_interval));
            if !is_turn_next() {
                return true;
            }
            self.passes_turn();
        }
        false
    }

    /// Another thread goes on. Whether this one has the turn again already.
    fn passes_turn(&self) -> bool {
        if let Some(mut light) = light::of_process() {
            let _ = light.pass();
        }
        turns::has_turn(self.tid.id())
    }

    /// What is to happen to the thread before a block, which begins with a limit callout.
    pub(in crate::run) fn transfer(&mut self, site: &Site, flags: u64) {
        if light::is_over() && light::intervals_since(self.log.interval.0) > 1 {
            let (position, regs) = (self.counted() - site.back, self.registers(site.pc, flags));
            ended(self, position, regs);
        }
        if light::moment().is_some()
            && light::intervals_since(self.log.interval.0).saturating_mul(options::get().interval) > MOST_TO_MOMENT
        {
            let (position, regs) = (self.counted() - site.back, self.registers(site.pc, flags));
            let why =
                format!("a moment at which a signal was delivered was not found in {MOST_TO_MOMENT} instructions");
            diverged(self, position, regs, &why);
        }
        if !light::is_due() {
            if light::leaves_for_moment() {
                self.recount(self.counted() - site.back);
                self.flags_lost_at = Some(self.counted());
                // A thread that has just passed its turn on may have been building a block meanwhile that knows nothing of it.
                light::flush_moment();
                self.signals.leave.go(&self.callouts.saved, site.pc);
            }
            return;
        }
        let Some(transfer) = light::of_process().and_then(|mut light| light.take_transfer()) else { return };
        let position = self.counted() - site.back;
        let mut regs = self.registers(site.pc, flags);
        let (step, number) = match transfer {
            Transfer::Delivery { number, registers, frame: (address, bytes) } => {
                if !write_memory(address, &bytes) {
                    diverged(self, position, regs, "there is no memory for a signal's frame");
                }
                let (fs, gs) = (regs.fs_base, regs.gs_base);
                regs = RegisterFile { fs_base: fs, gs_base: gs, ..RegisterFile::default() };
                set(&mut regs, &registers);
                (SignalStep::Delivery, number)
            }
            Transfer::Return(rsp) => match frame(&regs, rsp) {
                Some(back) => {
                    regs = back;
                    (SignalStep::Return, 0)
                }
                None => diverged(self, position, regs, "a handler returns to a frame that is not there"),
            },
            Transfer::Resume(before) => {
                regs = *before;
                (SignalStep::Resume, 0)
            }
            Transfer::Death(signal, code) => self.die_of(position, regs, signal, code),
            Transfer::End(why) => leave(self, position, goes_on(why), regs, 0),
        };
        // A return is the system call itself.
        let at = if step == SignalStep::Return { position - 1 } else { position };
        regs.rflags_known = RegisterFile::default().rflags_known;
        let to = Box::new(regs.clone());
        self.record(at, |delta| Record::Signal { delta, step, number, regs: to });
        self.recount(position);
        if light::of_process().is_some_and(|mut light| light.look_ahead()) {
            self.limit_soon();
        }
        self.go_on(&regs);
    }

    /// A signal that somebody has sent kills the process.
    fn die_of(&mut self, position: u64, regs: RegisterFile, signal: u64, code: i32) -> ! {
        snapshot::keep(self, position, regs.gpr[RSP], How::Killed);
        leave(self, position, EndReason::Signal { signo: signal as u32, code, addr: Addr(0) }, regs, 0)
    }

    /// Goes on at this position with these registers.
    fn go_to(&mut self, position: u64, regs: &RegisterFile) -> ! {
        self.recount(position);
        self.go_on(regs)
    }

    /// Goes on with these registers, by way of DynamoRIO's dispatcher.
    fn go_on(&mut self, regs: &RegisterFile) -> ! {
        self.callouts.saved.gpr = regs.gpr;
        self.callouts.saved.rflags = regs.rflags;
        self.callouts.saved.ymm = regs.ymm;
        fpu::restore(regs);
        let pc = regs.rip;
        self.signals.leave.go(&self.callouts.saved, pc)
    }

    /// The thread is where a moment may be, before a block is counted.
    pub(in crate::run) fn at_moment(&mut self, pc: u64) {
        if self.awaits_turn.is_some() {
            // It has been at one, and is about to wait: the next one comes with its next turn.
            return;
        }
        let position = self.counted();
        // What nobody reads any more of them, a limit's callout does not save.
        let flags_lost = self.flags_lost_at == Some(position);
        let is_there = light::of_process().is_some_and(|mut light| {
            let Light { sought: Some(sought), seen, .. } = &mut *light else { return false };
            let saved = &self.callouts.saved;
            let same = (0..).zip(ORDER).all(|(i, number): (usize, _)| saved.gpr[number] == sought.registers[i])
                && (flags_lost || (saved.rflags ^ sought.registers[17]) & ARITHMETIC_FLAGS == 0)
                && sought.registers[16] == pc;
            let is_it = same && is_it(sought, seen, position);
            if is_it {
                seen.find(position);
                light.sought = None;
            }
            is_it
        });
        if !is_there {
            return;
        }
        light::moment_over();
        if let Some(mut light) = light::of_process() {
            let _ = light.pass();
        }
        if is_turn_next() {
            // It goes on here, when others have had theirs.
            let regs = self.registers(pc, 0);
            if self.passes_turn() {
                self.go_on_from(position, &regs);
            }
            self.recount(position);
            self.limit_soon();
            self.awaits_turn = Some(Box::new(regs.clone()));
            self.go_on(&regs);
        }
        let delivered = light::of_process().map(|mut light| {
            let next = light.next();
            let _ = light.pass();
            next
        });
        let (number, registers, frame) = match delivered {
            Some(Ok(Next::Signal { number, registers, frame, .. })) => (number, registers, frame),
            Some(Ok(Next::End(End::Killed { signal, code }))) => {
                let regs = self.registers(pc, 0);
                self.die_of(position, regs, signal, code);
            }
            Some(Ok(Next::End(End::GoesOn { why, .. }))) => {
                let regs = self.registers(pc, 0);
                leave(self, position, goes_on(why), regs, 0)
            }
            _ => return,
        };
        let regs = self.registers(pc, 0);
        if !write_memory(frame.address, frame.bytes) {
            diverged(self, position, regs, "there is no memory for a signal's frame");
        }
        let (fs, gs) = (regs.fs_base, regs.gs_base);
        let mut handler = RegisterFile { fs_base: fs, gs_base: gs, ..RegisterFile::default() };
        set(&mut handler, &registers);
        let to = Box::new(handler.clone());
        let (step, number) = (SignalStep::Delivery, number.into());
        self.record(position, |delta| Record::Signal { delta, step, number, regs: to });
        self.go_to(position, &handler);
    }

    /// An instruction gets what it got.
    pub(in crate::run) fn emulate_as_kept(&mut self, position: u64, pc: u64, kind: SpecialKind) {
        let wanted = match kind {
            SpecialKind::Rdtsc => layout::RDTSC,
            SpecialKind::Rdtscp => layout::RDTSCP,
            SpecialKind::Cpuid => layout::CPUID,
            SpecialKind::Xgetbv => {
                let components = light::of_process().map_or(0, |light| light.components);
                let (rax, rdx) = (Gpr::RAX, Gpr::RDX);
                special::set(&mut self.callouts.saved, rax, 4, components);
                special::set(&mut self.callouts.saved, rdx, 4, components >> 32);
                return;
            }
            SpecialKind::SystemTable | SpecialKind::OpaqueStore | SpecialKind::SegmentBase | SpecialKind::Emulated => {
                special::emulate(kind, None, &mut self.callouts.saved, options::get().cpu);
                return;
            }
            SpecialKind::Rdpid | SpecialKind::Rdpmc | SpecialKind::Rdrand | SpecialKind::Rdseed => {
                let why = format!("the instruction at {pc:#x} gets from the processor what a light log does not have");
                let regs = self.registers(pc, 0);
                leave(self, position, EndReason::Unsupported { why }, regs, 0);
            }
        };
        let found = light::of_process().map(|mut light| {
            let found = light.next();
            if let Ok(Next::Special(..)) = found {
                let _ = light.pass();
            }
            found
        });
        match found {
            Some(Ok(Next::Special(kind, at, values))) if kind == wanted && at == pc => {
                let saved = &mut self.callouts.saved;
                let all = [(0, values[0]), (3, values[1]), (1, values[2]), (2, values[3])];
                let written = |register: u8| match kind {
                    layout::CPUID => true,
                    layout::RDTSCP => register != 3,
                    _ => register == 0 || register == 2,
                };
                for (register, value) in all.into_iter().filter(|(register, _)| written(*register)) {
                    special::set(saved, Gpr(register), 4, value);
                }
                if light::moment().is_some() {
                    self.limit_soon();
                }
            }
            Some(Ok(Next::Nothing)) => {
                let regs = self.registers(pc, 0);
                ended(self, position, regs);
            }
            Some(Err(why)) => {
                let regs = self.registers(pc, 0);
                diverged(self, position, regs, &why);
            }
            _ => {
                let regs = self.registers(pc, 0);
                let why = match kind {
                    SpecialKind::Cpuid => format!(
                        "CPUID at {pc:#x} is not in it: where the processor cannot trap CPUID, it is kept in the code of files only"
                    ),
                    _ => format!("the instruction at {pc:#x} was not executed there"),
                };
                diverged(self, position, regs, &why);
            }
        }
    }
}

/// The light part ends, as a sentence says, and the process goes on.
pub fn goes_on(why: &[u8]) -> EndReason {
    EndReason::Unsupported { why: format!("light recording ended here: {}", String::from_utf8_lossy(why)) }
}

/// Whether another thread goes on from here on, or this one does with another turn.
pub fn is_turn_next() -> bool {
    light::of_process().is_some_and(|mut light| matches!(light.next(), Ok(Next::Turn)))
}

/// The light log has no more: the process went on as it was read, or a signal that nobody can catch has killed it, some time after.
pub fn ended(thread: &mut Thread, position: u64, regs: RegisterFile) -> ! {
    let why =
        "the light log has no more of the process, which went on, or which SIGKILL ended; how far it came is not known";
    leave(thread, position, EndReason::Unsupported { why: why.to_owned() }, regs, 0)
}

/// Whether a position with a moment's registers is that moment.
fn is_it(sought: &mut Sought, seen: &mut Seen, position: u64) -> bool {
    let differs = |seen: &Seen, at: u64, digest: u32| !seen.is_noise(at) && !has(at, digest);
    match &sought.choice {
        Choice::Take(chosen) => {
            let is_it = *chosen == position;
            if is_it {
                let others = sought.lines.iter().filter(|(at, digest)| differs(seen, *at, *digest));
                let others: Vec<u64> = others.map(|(at, _)| *at).collect();
                seen.learn(others);
            }
            is_it
        }
        Choice::Not(not) if not.contains(&position) => false,
        Choice::First | Choice::Not(_) => {
            let other = sought.lines.iter().position(|(at, digest)| differs(seen, *at, *digest));
            // Where one candidate differs, so does the next one, as a rule: it is looked at first.
            other.inspect(|other| sought.lines.swap(0, *other)).is_none()
        }
        Choice::Survey => {
            let others = sought.lines.iter().filter(|(at, digest)| differs(seen, *at, *digest));
            let others = others.take(choices::MOST_LINES as usize + 1).count() as u32;
            if others <= choices::MOST_LINES {
                seen.add(position, others);
            }
            false
        }
    }
}

/// Whether a line of memory has what it had at a moment.
fn has(at: u64, digest: u32) -> bool {
    let mut line = [0; reach::LINE];
    read_memory(at, &mut line) && reach::digest(&line) == digest
}

/// What becomes of an instruction of the program's that has raised a signal.
pub enum Raised {
    /// It kills, as natively.
    Kills,
    /// A handler of the program's begins with what was put into the event's registers.
    Handled,
}

/// An instruction of the program's has raised a signal, at this position with these registers.
pub fn raised(thread: &mut Thread, info: &mut Signal, position: u64, regs: RegisterFile) -> Raised {
    let next = light::of_process().map(|mut light| light.next());
    let number = info.number();
    match next {
        Some(Ok(Next::End(End::Dies(signal)))) if signal == number as u64 => Raised::Kills,
        Some(Ok(Next::Signal { number: kept, raised: true, registers, frame })) if i32::from(kept) == number => {
            if !write_memory(frame.address, frame.bytes) {
                diverged(thread, position, regs, "there is no memory for a signal's frame");
            }
            if let Some(mut light) = light::of_process() {
                let _ = light.pass();
            }
            let (fs, gs) = (regs.fs_base, regs.gs_base);
            let mut handler = RegisterFile { fs_base: fs, gs_base: gs, ..RegisterFile::default() };
            set(&mut handler, &registers);
            let machine = info.machine_mut();
            for (register, value) in handler.gpr.iter().enumerate() {
                *machine.gpr_mut(register) = *value;
            }
            machine.set_flags(handler.rflags);
            machine.set_pc(handler.rip);
            machine.set_vectors(&handler.ymm);
            // The event of the transfer to the handler records it.
            thread.recount(position);
            Raised::Handled
        }
        Some(Ok(Next::Nothing)) => ended(thread, position, regs),
        Some(Err(why)) => diverged(thread, position, regs, &why),
        _ => diverged(thread, position, regs, &format!("signal {number} is raised by an instruction that raised none")),
    }
}

/// The parent of a child of `vfork` goes on with the registers that it had, and this result.
pub fn resume(mut before: RegisterFile, result: i64) -> Transfer {
    before.gpr[RAX] = result as u64;
    debug_assert_ne!(before.gpr[RSP], 0);
    Transfer::Resume(Box::new(before))
}
