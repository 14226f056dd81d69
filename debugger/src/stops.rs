//! What gdb wants to be told of: breakpoints, watchpoints, system calls.

use crate::conditional::Conditional;
use crate::debuggee::Debuggee;
use bugnet_replay::cursor::{Conditions, WatchedRange};
use gdbstub::target::TargetResult;
use gdbstub::target::ext::breakpoints::{
    Breakpoints, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::catch_syscalls::{CatchSyscalls, SyscallNumbers};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Which accesses count.
    pub kind: WatchKind,
}

/// Which system calls are caught.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Calls {
    All,
    These(Vec<u64>),
}

/// All that a run stops at.
#[derive(Debug, Default)]
pub struct Stops {
    software: BTreeSet<u64>,
    hardware: BTreeSet<u64>,
    watches: Vec<Watch>,
    calls: Option<Calls>,
    /// When breakpoints count, as the connection has it from gdb.
    pub conditional: Arc<Mutex<Conditional>>,
}

impl Stops {
    /// As the cursor understands it.
    pub fn conditions(&self) -> Conditions {
        let addresses: Vec<u64> = self.software.union(&self.hardware).copied().collect();
        let conditional = self.conditional.lock().unwrap_or_else(PoisonError::into_inner);
        let kinds = [(0, &self.software), (1, &self.hardware)];
        let test = |addr: u64| {
            // Without one, a breakpoint always counts.
            let there = kinds.iter().filter(|(_, there)| there.contains(&addr));
            let tests: Option<Vec<_>> = there.map(|(kind, _)| conditional.0.get(&(*kind, addr)).cloned()).collect();
            Some((addr, tests?.concat()))
        };
        let tests = addresses.iter().filter_map(|addr| test(*addr)).collect();
        Conditions { addresses, tests, ..self.without_addresses() }
    }

    /// The same, but not where instructions are.
    pub fn without_addresses(&self) -> Conditions {
        let range = |watch: &Watch| WatchedRange {
            addr: watch.addr,
            len: watch.len,
            reads: watch.kind != WatchKind::Write,
            writes: watch.kind != WatchKind::Read,
            // gdb itself passes over writes that change nothing; to stop for each takes long.
            changes: watch.kind == WatchKind::Write,
        };
        let calls = match &self.calls {
            Some(Calls::These(calls)) => calls.clone(),
            _ => Vec::new(),
        };
        Conditions {
            ranges: self.watches.iter().map(range).collect(),
            calls,
            all_calls: self.calls == Some(Calls::All),
            signals: true,
            ..Conditions::default()
        }
    }

    /// Whether there is a software breakpoint here.
    pub fn is_software(&self, addr: u64) -> bool {
        self.software.contains(&addr)
    }

    /// Whether there is a breakpoint here.
    pub fn has_breakpoint(&self, addr: u64) -> bool {
        self.software.contains(&addr) || self.hardware.contains(&addr)
    }

    /// The watch with this number in [`Self::conditions`].
    pub fn watch(&self, number: u32) -> Option<Watch> {
        self.watches.get(number as usize).copied()
    }
}

impl Breakpoints for Debuggee<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debuggee<'_> {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.stops.software.insert(addr);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.stops.software.remove(&addr))
    }
}

impl HwBreakpoint for Debuggee<'_> {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.stops.hardware.insert(addr);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.stops.hardware.remove(&addr))
    }
}

impl HwWatchpoint for Debuggee<'_> {
    fn add_hw_watchpoint(&mut self, addr: u64, len: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        self.stops.watches.push(Watch { addr, len, kind });
        Ok(true)
    }

    fn remove_hw_watchpoint(&mut self, addr: u64, len: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let watch = Watch { addr, len, kind };
        let found = self.stops.watches.iter().position(|other| *other == watch);
        Ok(found.map(|number| self.stops.watches.remove(number)).is_some())
    }
}

impl CatchSyscalls for Debuggee<'_> {
    fn enable_catch_syscalls(&mut self, filter: Option<SyscallNumbers<'_, u64>>) -> TargetResult<(), Self> {
        self.stops.calls = Some(filter.map_or(Calls::All, |numbers| Calls::These(numbers.collect())));
        Ok(())
    }

    fn disable_catch_syscalls(&mut self) -> TargetResult<(), Self> {
        self.stops.calls = None;
        Ok(())
    }
}
