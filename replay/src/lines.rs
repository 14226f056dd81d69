//! Which memory an interval's instructions access: its replay process marks them ([`bugnet_format::lines`]), without telling each access.
//!
//! The process is a stranger: what it says is checked.

use crate::error::Result;
use crate::log::{IntervalId, Log};
use crate::session::{Session, Stop};
use crate::tools::Tools;
use bugnet_format::control::{Request, Response};
use bugnet_format::frame::Interval;
use bugnet_format::lines::MAX_ACCESSES;
use bugnet_format::types::{Addr, Position};

pub use bugnet_format::lines::{AtomicAccess, PageAccesses};

/// What a stretch of an interval has accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Pages, each once, in no order.
    pub pages: Vec<PageAccesses>,
    /// Atomic accesses, each once, in no order.
    pub atomic: Vec<AtomicAccess>,
}

/// An interval in a replay process that marks lines.
pub struct Marker {
    session: Session,
}

impl Marker {
    /// At the start of an interval; with the process that another one leaves behind, if it will do. `None`: the machine does not let it mark.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(
        tools: &Tools,
        log: &Log,
        id: IntervalId,
        interval: &Interval,
        before: Option<Self>,
    ) -> Result<Option<Self>> {
        let before = before.map(|before| before.session);
        let process = before.as_ref().map(Session::number);
        let mut session = Session::start_behind(before, tools, log, id, interval)?;
        if process != Some(session.number()) {
            let process = session.process();
            process.send(&Request::Mark)?;
            match process.receive_any()? {
                Response::Ready => {}
                Response::Refused(_) => return Ok(None),
                other => return Err(process.unexpected(&other)),
            }
        }
        Ok(Some(Self { session }))
    }

    /// Goes on to a position, or to the interval's end: what was accessed since the position before. `None`: that is not known, as marks of some memory
    /// may have been taken for those of other memory.
    ///
    /// # Errors
    /// The interval goes otherwise than recorded, or the process is lost.
    pub fn run_to(&mut self, until: Option<Position>) -> Result<Option<Lines>> {
        let before = self.session.position();
        let stop = match until {
            Some(until) => self.session.run_to(until)?,
            None => self.session.run_to_end()?,
        };
        if let Stop::Divergence { what, .. } = stop {
            return Err(self.session.diverged(what));
        }
        let executed = self.session.position().0.saturating_sub(before.0);
        self.session.process().work().did(executed);
        let (process, mut all) = (self.session.process(), Lines::default());
        let mut from = 0;
        loop {
            process.send(&Request::Lines { from })?;
            let (pages, atomic) = match process.receive()? {
                Response::Lines { doubtful: true, .. } => return Ok(None),
                Response::Lines { pages, atomic, .. } => (pages, atomic),
                other => return Err(process.unexpected(&other)),
            };
            if !pages.iter().all(is_sound) {
                return Err(process.makes_no_sense("lines"));
            }
            let is_last = pages.len() < MAX_ACCESSES && atomic.len() < MAX_ACCESSES;
            all.pages.extend(pages);
            all.atomic.extend(atomic);
            if is_last {
                return Ok(Some(all));
            }
            from += MAX_ACCESSES as u32;
        }
    }
}

fn is_sound(page: &PageAccesses) -> bool {
    let is_accessed = |(written, accessed): (&u64, &u64)| written & !accessed == 0;
    page.addr.is_multiple_of(Addr::PAGE) && page.written.iter().zip(&page.accessed).all(is_accessed)
}
