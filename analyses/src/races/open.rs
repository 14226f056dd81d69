//! The calls in which a thread is, by number: two accesses are of one call if their numbers are the same.

use bugnet_events::effects::Control;
use bugnet_events::stretch::Ran;

/// The calls of a thread that are open.
#[derive(Debug)]
pub struct OpenCalls {
    /// Where the return address is, and the call's number.
    calls: Vec<(u64, u64)>,
    /// Where in `calls` handlers began.
    handlers: Vec<usize>,
    /// The number of what was called before the log begins.
    outermost: u64,
}

impl OpenCalls {
    /// None is known to be open but the outermost, which has this number.
    #[must_use]
    pub fn new(outermost: u64) -> Self {
        Self { calls: Vec::new(), handlers: Vec::new(), outermost }
    }

    /// The number of the innermost one.
    #[must_use]
    pub fn innermost(&self) -> u64 {
        self.calls.last().map_or(self.outermost, |(_, number)| *number)
    }

    /// A block has come to its end. `next` is the number of the last call of all threads.
    pub fn ended(&mut self, ran: &Ran<'_>, next: &mut u64) {
        let Some(slot) = ran.slot() else { return };
        // What lies below has been left without a return.
        self.leave(slot);
        if ran.block.control == Control::Call {
            *next += 1;
            self.calls.push((slot, *next));
        }
    }

    fn leave(&mut self, slot: u64) {
        while self.calls.last().is_some_and(|(other, _)| *other <= slot) {
            self.calls.pop();
        }
    }

    /// A signal's handler begins.
    pub fn interrupt(&mut self, next: &mut u64) {
        self.handlers.push(self.calls.len());
        *next += 1;
        self.calls.push((u64::MAX, *next));
    }

    /// It has ended.
    pub fn resume(&mut self) {
        if let Some(open) = self.handlers.pop() {
            self.calls.truncate(open);
        }
    }
}
