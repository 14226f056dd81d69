//! Running and stepping, both ways.

use crate::debuggee::{Debuggee, from_gdb, to_gdb};
use crate::siginfo::SigInfo;
use bugnet_format::types::Tid;
use bugnet_replay::ReplayError;
use bugnet_replay::cursor::{Direction, Event, Stopped};
use gdbstub::common::{Signal, Tid as GdbTid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::multithread::{
    MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::breakpoints::WatchKind;
use gdbstub::target::ext::catch_syscalls::CatchSyscallPosition;

/// Single steps within a range before the replay is told to run until it is left.
const STEPS: usize = 50;

/// What is done when gdb has said everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Run.
    #[default]
    Continue,
    /// Let a thread execute one instruction.
    Step(Tid),
    /// Let a thread execute instructions until it is outside of a range.
    StepRange(Tid, u64, u64),
    /// Run backwards.
    ContinueBack,
    /// Take back one instruction of a thread.
    StepBack(Tid),
    /// Take no instruction back: there is no such thread.
    Nothing,
}

/// What a run that has stopped has to say later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Later {
    #[default]
    Nothing,
    /// A system call was reported before it was made.
    Return(Tid, u64),
    /// The signal that killed the process was reported.
    Dead,
}

/// Why a run stopped, for gdb.
pub type Reason = MultiThreadStopReason<u64>;

/// The signal as the protocol numbers it, which is unlike Linux.
pub fn to_gdb_signal(number: u64) -> Signal {
    match number {
        1..=6 | 8 | 9 | 11 | 13..=15 => Signal(number as u8),
        7 => Signal::SIGBUS,
        10 => Signal::SIGUSR1,
        12 => Signal::SIGUSR2,
        17 => Signal::SIGCHLD,
        18 => Signal::SIGCONT,
        19 => Signal::SIGSTOP,
        20 => Signal::SIGTSTP,
        21 => Signal::SIGTTIN,
        22 => Signal::SIGTTOU,
        23 => Signal::SIGURG,
        24 => Signal::SIGXCPU,
        25 => Signal::SIGXFSZ,
        26 => Signal::SIGVTALRM,
        27 => Signal::SIGPROF,
        28 => Signal::SIGWINCH,
        29 => Signal::SIGIO,
        30 => Signal::SIGPWR,
        31 => Signal::SIGSYS,
        32 => Signal::SIG32,
        // The protocol numbers real-time signals in three pieces: 33 to 63, 32, 64 and up.
        33..=63 => Signal(number as u8 - 33 + Signal::SIG33.0),
        64 => Signal::SIG64,
        _ => Signal::UNKNOWN,
    }
}

impl Debuggee<'_> {
    /// Does what was planned.
    ///
    /// # Errors
    /// The replay process is lost.
    pub(crate) fn go(&mut self) -> Result<Reason, ReplayError> {
        let later = std::mem::take(&mut self.later);
        self.set_siginfo(None);
        let reason = self.carry_out(later)?;
        // One that killed is there however a run came to the end, but for a stop at one with a handler.
        if self.siginfo().is_none() {
            self.look_for_signal()?;
        }
        Ok(reason)
    }

    fn carry_out(&mut self, later: Later) -> Result<Reason, ReplayError> {
        match std::mem::take(&mut self.plan) {
            Plan::Continue => {
                if let Later::Return(tid, number) = later {
                    let conditions = self.stops.without_addresses();
                    // The call itself, which was reported, is made now.
                    let stopped = self.cursor.step_thread(tid, Direction::Forward, &conditions)?;
                    if stopped == Stopped::There {
                        self.stopped_in(tid);
                        let tid = Some(to_gdb(tid));
                        return Ok(Reason::CatchSyscall { tid, number, position: CatchSyscallPosition::Return });
                    }
                    return self.reason(stopped, later);
                }
                let stopped = self.cursor.run(Direction::Forward, &self.stops.conditions())?;
                self.reason(stopped, later)
            }
            Plan::ContinueBack => {
                let stopped = self.cursor.run(Direction::Backward, &self.stops.conditions())?;
                self.reason(stopped, Later::Nothing)
            }
            Plan::Step(tid) => {
                let stopped = self.cursor.step_thread(tid, Direction::Forward, &self.stops.conditions())?;
                self.step_reason(tid, stopped, later)
            }
            Plan::StepRange(tid, start, end) => self.step_range(tid, start, end, later),
            Plan::StepBack(tid) => {
                let mut conditions = self.stops.conditions();
                (conditions.signals, conditions.addresses) = (false, Vec::new());
                let stopped = self.cursor.step_thread(tid, Direction::Backward, &conditions)?;
                self.step_reason(tid, stopped, Later::Nothing)
            }
            Plan::Nothing => Ok(self.trapped(self.focus)),
        }
    }

    /// The signal that has killed the process where it is, which counts as reported then.
    pub(crate) fn stopped_by(&mut self) -> Result<Option<Signal>, ReplayError> {
        let death = if self.cursor.time() == self.cursor.end() { self.cursor.death()? } else { None };
        let number = death.filter(|(dead, _)| *dead == self.focus).map(|(_, number)| number);
        if number.is_some() {
            self.later = Later::Dead;
        }
        Ok(number.map(|number| to_gdb_signal(number.into())))
    }

    /// Does nothing of what was planned: it was interrupted before.
    pub(crate) fn not_run(&mut self) -> Reason {
        self.plan = Plan::default();
        Reason::SignalWithThread { tid: to_gdb(self.focus), signal: Signal::SIGINT }
    }

    fn step_range(&mut self, tid: Tid, start: u64, end: u64, later: Later) -> Result<Reason, ReplayError> {
        let conditions = self.stops.conditions();
        for steps in 0.. {
            let stopped = if steps < STEPS {
                self.cursor.step_thread(tid, Direction::Forward, &conditions)?
            } else {
                self.cursor.run_out_of(tid, start, end, &conditions)?
            };
            match stopped {
                Stopped::Condition(Event::Address(pc)) if !self.stops.has_breakpoint(pc) => break,
                Stopped::There => {}
                other => return self.step_reason(tid, other, later),
            }
            self.stopped_in(tid);
            let pc = self.threads()?.iter().find(|thread| thread.place.tid == tid).map(|thread| thread.regs.rip);
            if !pc.is_some_and(|pc| (start..end).contains(&pc)) {
                break;
            }
        }
        self.stopped_in(tid);
        Ok(self.trapped(tid))
    }

    /// A run ended, with this thread being what it was about.
    fn stopped_in(&mut self, tid: Tid) {
        self.moved();
        self.focus = tid;
    }

    fn trapped(&self, tid: Tid) -> Reason {
        Reason::SignalWithThread { tid: to_gdb(tid), signal: Signal::SIGTRAP }
    }

    fn step_reason(&mut self, tid: Tid, stopped: Stopped, later: Later) -> Result<Reason, ReplayError> {
        if stopped == Stopped::There {
            self.stopped_in(tid);
            return Ok(self.trapped(tid));
        }
        self.reason(stopped, later)
    }

    fn reason(&mut self, stopped: Stopped, later: Later) -> Result<Reason, ReplayError> {
        self.moved();
        if let Stopped::Condition(Event::Signal(number)) = stopped {
            self.set_siginfo(Some((self.focus, SigInfo::handled(number))));
        }
        let here = self.focus;
        let tid = to_gdb(here);
        Ok(match stopped {
            Stopped::There => self.trapped(here),
            Stopped::Condition(Event::Address(addr)) if self.stops.is_software(addr) => Reason::SwBreak(tid),
            Stopped::Condition(Event::Address(_)) => Reason::HwBreak(tid),
            Stopped::Condition(Event::Access { range, addr, .. } | Event::Outside { range, addr, .. }) => {
                match self.stops.watch(range) {
                    Some(watch) => Reason::Watch { tid, kind: watch.kind, addr: addr.max(watch.addr) },
                    None => Reason::Watch { tid, kind: WatchKind::ReadWrite, addr },
                }
            }
            Stopped::Condition(Event::Call(number)) => {
                self.later = Later::Return(here, number);
                Reason::CatchSyscall { tid: Some(tid), number, position: CatchSyscallPosition::Entry }
            }
            Stopped::Condition(Event::Signal(number)) => {
                Reason::SignalWithThread { tid, signal: to_gdb_signal(number) }
            }
            Stopped::Condition(Event::Thread) => self.trapped(here),
            Stopped::Interrupted => Reason::SignalWithThread { tid, signal: Signal::SIGINT },
            Stopped::Start => Reason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::Begin },
            Stopped::End => match self.cursor.death()? {
                Some((dead, number)) if later != Later::Dead => {
                    self.focus = dead;
                    self.later = Later::Dead;
                    Reason::SignalWithThread { tid: to_gdb(dead), signal: to_gdb_signal(number.into()) }
                }
                _ => {
                    // The signal was said once, and is not until time has passed again.
                    self.later = later;
                    Reason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::End }
                }
            },
        })
    }

    fn plan_for(&mut self, tid: GdbTid, plan: impl FnOnce(Tid) -> Plan) {
        self.plan = from_gdb(tid).map_or(Plan::Nothing, plan);
    }
}

/// Which signal gdb lets the program have is of no importance: it had those that it had.
impl MultiThreadResume for Debuggee<'_> {
    fn resume(&mut self) -> Result<(), ReplayError> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), ReplayError> {
        self.plan = Plan::Continue;
        Ok(())
    }

    /// All threads go on as they did.
    fn set_resume_action_continue(&mut self, _: GdbTid, _: Option<Signal>) -> Result<(), ReplayError> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, GdbTid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, GdbTid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debuggee<'_> {
    fn set_resume_action_step(&mut self, tid: GdbTid, _: Option<Signal>) -> Result<(), ReplayError> {
        self.plan_for(tid, Plan::Step);
        Ok(())
    }
}

impl MultiThreadRangeStepping for Debuggee<'_> {
    fn set_resume_action_range_step(&mut self, tid: GdbTid, start: u64, end: u64) -> Result<(), ReplayError> {
        self.plan_for(tid, |tid| Plan::StepRange(tid, start, end));
        Ok(())
    }
}

/// The order in which threads run was recorded: gdb's wish to stop the others cannot be met, and need not.
impl MultiThreadSchedulerLocking for Debuggee<'_> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), ReplayError> {
        Ok(())
    }
}

impl ReverseStep<GdbTid> for Debuggee<'_> {
    /// `gdbstub` names the thread that stopped last, which a seek has left.
    fn reverse_step(&mut self, tid: GdbTid) -> Result<(), ReplayError> {
        let tid = if self.sought { to_gdb(self.focus) } else { tid };
        self.plan_for(tid, Plan::StepBack);
        Ok(())
    }
}

impl ReverseCont<GdbTid> for Debuggee<'_> {
    fn reverse_cont(&mut self) -> Result<(), ReplayError> {
        self.plan = Plan::ContinueBack;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_protocols_numbers() {
        let gdb = |number: u64| to_gdb_signal(number).0;
        // include/gdb/signals.def
        assert_eq!([gdb(2), gdb(7), gdb(10), gdb(11), gdb(17), gdb(31)], [2, 10, 30, 11, 20, 12]);
        assert_eq!([gdb(32), gdb(33), gdb(34), gdb(63), gdb(64)], [77, 45, 46, 75, 78]);
    }
}
