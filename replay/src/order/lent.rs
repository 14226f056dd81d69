//! What children of `vfork` may have written, of which no log tells.
//!
//! Such a child has its parent's memory for as long as the parent's system call lasts. What another thread does is before that, behind
//! it, or at the same time as far as anyone knows, wherever it stands in the one order that was made of all.

use super::threads::{OrderedThread, Threads};
use std::collections::BTreeSet;

/// A system call that may lend the caller's memory to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// How many instructions the thread had executed before the call.
    pub at: u64,
    /// The child's id.
    pub child: i64,
}

impl Loan {
    /// That of a system call, if it is one. The flags of `clone3` are in no record: it may lend memory, and is one.
    pub(super) fn of(at: u64, number: u64, args: &[u64; 6], result: i64) -> Option<Self> {
        const LENDS: u64 = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
        let lends = match number.cast_signed() {
            libc::SYS_vfork | libc::SYS_clone3 => true,
            libc::SYS_clone => args[0] & LENDS == LENDS,
            _ => false,
        };
        (lends && result > 0).then_some(Self { at, child: result })
    }
}

impl Threads {
    /// Forgets loans to what are threads of the process itself.
    pub(super) fn forget_loans_to_threads(&mut self) {
        let own: BTreeSet<i64> = self.threads.iter().map(|thread| thread.id.tid.id().into()).collect();
        for thread in &mut self.threads {
            thread.loans.retain(|loan| !own.contains(&loan.child));
        }
    }

    /// Whether a child of `vfork` may have written what a read found, in place of what a write had left there. Each is given as a
    /// thread's index, and how many instructions that thread had executed before.
    #[must_use]
    pub fn may_be_of_child(&self, write: (usize, u64), read: (usize, u64)) -> bool {
        if self.threads.iter().all(|thread| thread.loans.is_empty()) {
            return false;
        }
        let (before, behind) = (self.before(write), self.behind(read));
        let possible = |(index, thread): (usize, &OrderedThread)| {
            thread.loans.iter().any(|loan| loan.at >= before[index] && loan.at < behind[index])
        };
        self.threads.iter().enumerate().any(possible)
    }

    /// How many instructions of each thread come before an instruction of one of them, itself among them.
    fn before(&self, (index, at): (usize, u64)) -> Vec<u64> {
        let mut before = vec![0; self.threads.len()];
        before[index] = at.saturating_add(1);
        let mut due = vec![index];
        while let Some(index) = due.pop() {
            let until = before[index];
            for wait in self.threads[index].waits.iter().take_while(|wait| wait.at < until) {
                if before[wait.other] < wait.until {
                    before[wait.other] = wait.until;
                    due.push(wait.other);
                }
            }
        }
        before
    }

    /// The first instruction of each thread that comes behind an instruction of one of them, or is that itself; `u64::MAX` where none
    /// does.
    fn behind(&self, (index, at): (usize, u64)) -> Vec<u64> {
        let mut behind = vec![u64::MAX; self.threads.len()];
        behind[index] = at;
        let mut changed = true;
        while changed {
            changed = false;
            for (index, thread) in self.threads.iter().enumerate() {
                let known = behind[index];
                let mut waits = thread.waits.iter().take_while(|wait| wait.at < known);
                if let Some(first) = waits.find(|wait| wait.until > behind[wait.other]) {
                    (behind[index], changed) = (first.at, true);
                }
            }
        }
        behind
    }
}
