//! Work that may take long: what is being done, how much of it is done, and whether it is to go on.
//!
//! Replay processes are asked for nothing more once it is over ([`ReplayError::Over`]); whoever has found something by then can still tell it, and
//! goes on with [`Work::resume`].

use crate::error::{ReplayError, Result};
use serde::Serialize;
use std::fmt::{Debug, Display, Formatter};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Why it is over before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Somebody wanted that.
    Interrupted,
    /// It had this time.
    Late(Duration),
}

impl Display for Over {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interrupted => write!(f, "interrupted"),
            Self::Late(time) => write!(f, "not done after {} s", time.as_secs()),
        }
    }
}

/// Shows people what is done.
pub trait Watch: Debug + Send + Sync {
    /// This begins, of which so much is to be done; 0: nobody knows how much.
    fn begins(&self, what: &str, of: u64);
    /// So much of it is done.
    fn did(&self, done: u64);
    /// Nothing is done any more that takes long.
    fn ends(&self);
}

/// The same for all who take part in it.
#[derive(Clone, Debug, Default)]
pub struct Work(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_interrupted: AtomicBool,
    /// Whether it goes on nevertheless.
    is_resumed: AtomicBool,
    /// Whether it does nothing but tell what it knows.
    is_telling: AtomicBool,
    limit: Mutex<Option<(Instant, Duration)>>,
    done: AtomicU64,
    watch: OnceLock<Box<dyn Watch>>,
}

impl Work {
    /// Lets somebody watch; the first one stays.
    pub fn watch_by(&self, watch: impl Watch + 'static) {
        let _ = self.0.watch.set(Box::new(watch));
    }

    /// Something begins: of so many instructions, or of 0 where that is not known; it has so much time, if that is limited.
    pub fn begin(&self, what: &str, of: u64, time: Option<Duration>) {
        *self.limit() = time.and_then(|time| Some((Instant::now().checked_add(time)?, time)));
        self.0.done.store(0, Ordering::Relaxed);
        self.0.is_telling.store(false, Ordering::Relaxed);
        self.watch(|watch| watch.begins(what, of));
    }

    /// Instructions were executed for it.
    pub fn did(&self, instructions: u64) {
        let before = self.0.done.fetch_add(instructions, Ordering::Relaxed);
        self.watch(|watch| watch.did(before.saturating_add(instructions)));
    }

    /// Ends it, from another thread or a signal handler.
    pub fn interrupt(&self) {
        self.0.is_interrupted.store(true, Ordering::Relaxed);
    }

    /// Why it is over, if it is.
    #[must_use]
    pub fn over(&self) -> Option<Over> {
        let goes_on = self.0.is_resumed.load(Ordering::Relaxed) || self.0.is_telling.load(Ordering::Relaxed);
        if self.is_interrupted() && !goes_on {
            return Some(Over::Interrupted);
        }
        let late = |(until, time): (Instant, Duration)| (Instant::now() >= until).then_some(Over::Late(time));
        self.limit().and_then(late)
    }

    /// Nothing, as long as it goes on.
    ///
    /// # Errors
    /// [`ReplayError::Over`].
    pub fn go_on(&self) -> Result<()> {
        self.over().map_or(Ok(()), |why| Err(ReplayError::Over(why)))
    }

    /// Whether somebody has interrupted it, whatever it did then.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.is_interrupted.load(Ordering::Relaxed)
    }

    /// What was interrupted, or late, goes on, for as long as it takes.
    pub fn resume(&self) {
        *self.limit() = None;
        // Who was late can still be interrupted.
        self.0.is_resumed.fetch_or(self.is_interrupted(), Ordering::Relaxed);
    }

    /// What is known is told from here on, until something begins: whoever interrupts that wants what comes anyway.
    pub fn tell(&self) {
        *self.limit() = None;
        self.0.is_telling.store(true, Ordering::Relaxed);
    }

    /// While the guard lives, nothing is late: something is done that is not for this alone.
    #[must_use]
    pub fn without_limit(&self) -> WithoutLimit<'_> {
        let left = self.limit().take().map(|(until, time)| (until.saturating_duration_since(Instant::now()), time));
        WithoutLimit { work: self, left }
    }

    /// Nothing takes long any more: what is known is told.
    pub fn end(&self) {
        self.tell();
        self.watch(|watch| watch.ends());
    }

    fn watch(&self, tell: impl FnOnce(&dyn Watch)) {
        if let Some(watch) = self.0.watch.get() {
            tell(&**watch);
        }
    }

    fn limit(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Duration)>> {
        self.0.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with the limit that there was, and as much time as was left.
#[derive(Debug)]
pub struct WithoutLimit<'a> {
    work: &'a Work,
    left: Option<(Duration, Duration)>,
}

impl Drop for WithoutLimit<'_> {
    fn drop(&mut self) {
        *self.work.limit() = self.left.and_then(|(left, time)| Some((Instant::now().checked_add(left)?, time)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_until_somebody_or_time_ends_it() {
        let work = Work::default();
        work.begin("nothing", 0, None);
        assert!(work.go_on().is_ok());
        work.resume();
        work.clone().interrupt();
        assert!(matches!(work.go_on(), Err(ReplayError::Over(Over::Interrupted))));
        work.resume();
        assert!(work.go_on().is_ok());
        work.begin("nothing", 0, Some(Duration::ZERO));
        assert_eq!(work.over(), Some(Over::Late(Duration::ZERO)));
        let unlimited = work.without_limit();
        assert_eq!(work.over(), None);
        drop(unlimited);
        assert_eq!(work.over(), Some(Over::Late(Duration::ZERO)));
        work.begin("nothing", 0, Some(Duration::from_secs(1 << 30)));
        assert_eq!(work.over(), None);
    }

    #[test]
    fn what_is_known_is_told_whoever_interrupts_that() {
        let work = Work::default();
        work.begin("nothing", 0, Some(Duration::ZERO));
        work.tell();
        work.interrupt();
        assert_eq!(work.over(), None);
        work.begin("nothing", 0, None);
        assert_eq!(work.over(), Some(Over::Interrupted));
    }
}
