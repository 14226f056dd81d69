//! Ending what takes long when somebody asks for it, where nothing runs that gdb knows of.
//!
//! While gdb waits for the answer to a `monitor` command, it keeps a Ctrl-C to itself: it sends nothing, and gives up once it has read a
//! part of the answer. So whoever shares a terminal with gdb says that there was one; and an answer is one packet, such that nothing of it
//! is left behind that gdb would take for the answer to what it asks next.

use crate::debuggee::Debuggee;
use crate::serve::{Client, INTERRUPT};
use bugnet_replay::ReplayError;
use bugnet_replay::cursor::{Interrupter, Seek};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often what is to end is told so: between two runs of the replay process, it does not listen.
const AGAIN: Duration = Duration::from_millis(20);
/// Attempts to come back to a moment, of which one that was asked to end may disturb the first.
const ATTEMPTS: usize = 3;

/// Who may ask, and the answer that is under way.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Becomes readable where a person asks. It does not block.
    pub person: Option<UnixStream>,
    /// The gdb that is connected.
    pub client: Option<Client>,
    /// The text that is the next answer.
    pub answer: Arc<Mutex<Option<String>>>,
}

impl Asked {
    /// Forgets that somebody asked: that was about something else.
    fn forget(&mut self) {
        let mut bytes = [0; 64];
        while let Some(Ok(1..)) = self.person.as_mut().map(|person| person.read(&mut bytes)) {}
    }

    /// The next answer is this text.
    pub fn answer(&self, text: String) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Interrupts until it is over, once somebody asks; whether that was so.
    fn watch(&self, over: &UnixStream, interrupter: &Interrupter) -> bool {
        let mut asked = false;
        loop {
            let mut fds = vec![PollFd::new(over.as_fd(), PollFlags::POLLIN)];
            if !asked {
                fds.extend(self.person.as_ref().map(|person| PollFd::new(person.as_fd(), PollFlags::POLLIN)));
                fds.extend(self.client.as_ref().map(|client| PollFd::new(client.as_fd(), PollFlags::POLLIN)));
            }
            let timeout = if asked { PollTimeout::from(AGAIN.as_millis() as u8) } else { PollTimeout::NONE };
            // What cannot be waited for, by a signal for example, is waited for again.
            let _ = poll(&mut fds, timeout);
            let mut happened = fds.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
            if happened.next() == Some(true) {
                return asked;
            }
            let by_person = self.person.is_some() && happened.next() == Some(true);
            if !asked && by_person {
                asked = true;
            } else if !asked && happened.next() == Some(true) {
                // gdb says nothing else before it has the answer, but that it has received something; or it is gone.
                asked = match self.client.as_ref().map(|client| client.look(false)) {
                    Some(Ok(Some(INTERRUPT))) => self.client.as_ref().is_some_and(|client| client.look(true).is_ok()),
                    Some(Ok(Some(_))) => {
                        thread::sleep(AGAIN);
                        false
                    }
                    _ => true,
                };
            }
            if asked {
                interrupter.interrupt();
            }
        }
    }
}

impl Debuggee<'_> {
    /// Does something that takes long. Where somebody asks for its end, that is the answer, whatever came of it.
    pub(crate) fn until_asked<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, ReplayError>,
    ) -> Result<T, ReplayError> {
        let interrupter = self.cursor.interrupter();
        let mut asked = std::mem::take(&mut self.asked);
        asked.forget();
        let pair =
            UnixStream::pair().map_err(|source| ReplayError::System { what: "wait for an interrupt".into(), source });
        let done = pair.and_then(|(working, over)| {
            thread::scope(|scope| {
                let watch = scope.spawn(|| asked.watch(&over, &interrupter));
                let done = work(self);
                drop(working);
                if watch.join().unwrap_or(false) { Err(ReplayError::OutOfRange("interrupted".into())) } else { done }
            })
        });
        self.asked = asked;
        done
    }

    /// Goes back to a moment, from wherever.
    pub(crate) fn back_to(&mut self, time: u64) -> Result<(), ReplayError> {
        for _ in 0..ATTEMPTS {
            self.seek(Seek::Time(time))?;
            if self.cursor.time() == time {
                break;
            }
        }
        Ok(())
    }
}
