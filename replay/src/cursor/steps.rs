//! Steps of one thread, whichever is the next one to run.

use super::{Conditions, Cursor, Direction, Leaving, Open, Stopped};
use crate::error::Result;
use bugnet_format::types::Tid;

impl Open {
    /// The time in the epoch right behind a thread's next instruction, if it has another one.
    fn after_next(&self, tid: Tid) -> Option<u64> {
        let thread = self.threads.iter().position(|thread| thread.id.tid == tid)?;
        let mut runs = self.runs.iter().filter(|run| run.thread == thread);
        let run = runs.find(|run| run.time + (run.until - run.from) > self.time)?;
        Some(run.time.max(self.time) + 1)
    }

    /// The time in the epoch right before a thread's last instruction, if it has executed one.
    fn before_last(&self, tid: Tid) -> Option<u64> {
        let thread = self.threads.iter().position(|thread| thread.id.tid == tid)?;
        let mut runs = self.runs.iter().rev().filter(|run| run.thread == thread && run.until > run.from);
        let run = runs.find(|run| run.time < self.time)?;
        Some((run.time + (run.until - run.from)).min(self.time) - 1)
    }
}

impl Cursor<'_> {
    /// Lets a thread execute one instruction, or takes its last one back. Other threads do meanwhile what they did. It ends earlier where
    /// a condition holds.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn step_thread(&mut self, tid: Tid, direction: Direction, conditions: &Conditions) -> Result<Stopped> {
        loop {
            let (begin, time) = match direction {
                Direction::Forward => (self.open.begin, self.open.after_next(tid)),
                Direction::Backward => (self.open.begin, self.open.before_last(tid)),
            };
            if let Some(time) = time {
                return self.run_until(direction, conditions, Some(begin + time));
            }
            let index = self.open.index;
            let next = match direction {
                Direction::Forward => Some(index + 1).filter(|next| self.outline.epoch(*next).is_some()),
                Direction::Backward => index.checked_sub(1),
            };
            let Some(next) = next else { return self.run(direction, conditions) };
            let border = self.outline.epoch(index.max(next)).map_or(0, |(_, begin)| begin);
            match self.run_until(direction, conditions, Some(border))? {
                Stopped::There | Stopped::Start => {}
                other => return Ok(other),
            }
            self.enter(next)?;
            if direction == Direction::Backward {
                self.open.go_to(border - self.open.begin.min(border))?;
            }
        }
    }

    /// Runs until a thread is to execute an instruction outside of `start..end`, or a condition holds.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn run_out_of(&mut self, tid: Tid, start: u64, end: u64, conditions: &Conditions) -> Result<Stopped> {
        let thread = self.open.threads.iter().position(|thread| thread.id.tid == tid);
        let leaving = thread.map(|thread| Leaving { thread: thread as u32, start, end });
        // Threads have other numbers in the next epoch: the run goes no further than to this one's end.
        let border = self.outline.epoch(self.open.index + 1).map_or(self.outline.end, |(_, begin)| begin);
        let conditions = Conditions { leaving, ..conditions.clone() };
        match self.run_until(Direction::Forward, &conditions, Some(border))? {
            Stopped::There if border == self.outline.end => Ok(Stopped::End),
            other => Ok(other),
        }
    }
}
