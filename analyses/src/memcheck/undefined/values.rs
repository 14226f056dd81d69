//! What registers and memory have at a moment: asked for where the values of defined bits say whether a result is defined.
//!
//! A replay process for each thread follows what is looked at, and goes on only when it is asked.

use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, ProcessId, Tid};
use bugnet_replay::Result;
use bugnet_replay::cursor::Place;
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::memory::Memory;
use bugnet_replay::session::{Session, Stop};
use bugnet_replay::tools::Tools;
use hashbrown::HashMap;

/// Replay processes of threads.
pub struct Values<'a> {
    tools: &'a Tools,
    log: &'a Log,
    pid: ProcessId,
    sessions: HashMap<Tid, Session>,
    /// How often something was asked.
    pub asked: u64,
}

impl<'a> Values<'a> {
    /// Of a process.
    pub fn new(tools: &'a Tools, log: &'a Log, pid: ProcessId) -> Self {
        Self { tools, log, pid, sessions: HashMap::new(), asked: 0 }
    }

    /// The replay process of a thread at a place; none where that cannot be reached.
    ///
    /// # Errors
    /// The replay process is lost, or cannot be started.
    pub fn at(&mut self, place: Place) -> Result<Option<&mut Session>> {
        self.asked += 1;
        let thread = ThreadId { pid: self.pid, tid: place.tid };
        let id = IntervalId { thread, interval: place.interval };
        let fits = |session: &Session| session.id() == id && session.position() <= place.position;
        if !self.sessions.get(&place.tid).is_some_and(fits) {
            self.sessions.insert(place.tid, Session::open(self.tools, self.log, id)?);
        }
        let Some(session) = self.sessions.get_mut(&place.tid) else { return Ok(None) };
        if session.position() < place.position {
            let stop = session.run_to(place.position)?;
            if matches!(stop, Stop::Divergence { .. }) || session.position() != place.position {
                return Ok(None);
            }
        }
        Ok(Some(session))
    }

    /// The registers at a place.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn registers(&mut self, place: Place) -> Result<Option<&RegisterFile>> {
        Ok(self.at(place)?.map(|session| session.regs()))
    }

    /// Up to 32 bytes of memory at a place.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn memory(&mut self, place: Place, addr: u64, len: u64) -> Result<Option<[u64; 4]>> {
        let Some(session) = self.at(place)? else { return Ok(None) };
        let bytes = session.read_memory(Addr(addr), len.min(32))?;
        if (bytes.len() as u64) < len.min(32) {
            return Ok(None);
        }
        let mut value = [0; 4];
        for (number, byte) in bytes.into_iter().enumerate() {
            value[number / 8] |= u64::from(byte) << (number % 8 * 8);
        }
        Ok(Some(value))
    }
}
