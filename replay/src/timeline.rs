//! A thread's whole recorded time, as one line to move on.

use crate::error::{ReplayError, Result};
use crate::log::{IntervalId, Log, ThreadId};
use crate::session::{Session, Stop};
use crate::tools::Tools;
use bugnet_format::types::{IntervalNo, Position};

/// A place in a thread's time. Ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Instant {
    /// The interval.
    pub interval: IntervalNo,
    /// Instructions since its start.
    pub position: Position,
}

/// A thread at some instant, movable to any other.
#[derive(Debug)]
pub struct Timeline<'a> {
    tools: &'a Tools,
    log: &'a Log,
    thread: ThreadId,
    session: Session,
}

impl<'a> Timeline<'a> {
    /// Opens a thread at the first instant that the log holds of it.
    ///
    /// # Errors
    /// No such thread, no interval of it, or the replay process cannot be started.
    pub fn open(tools: &'a Tools, log: &'a Log, thread: ThreadId) -> Result<Self> {
        let Some(&interval) = log.intervals(thread)?.first() else {
            return Err(ReplayError::OutOfRange(format!("{thread}: the log holds none of its intervals")));
        };
        let session = Session::open(tools, log, IntervalId { thread, interval })?;
        Ok(Self { tools, log, thread, session })
    }

    /// Where the thread is now.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant { interval: self.session.id().interval, position: self.session.position() }
    }

    /// The thread, stopped at [`Self::now`].
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Moves to `to`, forwards or backwards. A position behind the interval's end means its end.
    ///
    /// Backwards within an interval starts it again from its checkpoint. If the interval cannot be opened, the
    /// timeline stays where it was.
    ///
    /// # Errors
    /// No such interval, or the replay process cannot be started or is lost.
    pub fn seek(&mut self, to: Instant) -> Result<Stop> {
        let now = self.now();
        if to.interval != now.interval || to.position < now.position {
            let id = IntervalId { thread: self.thread, interval: to.interval };
            self.session = Session::open(self.tools, self.log, id)?;
        }
        self.session.run_to(to.position)
    }
}
