//! Calls that wait for the end of a thread. The kernel, of whose stores no record tells, says so by clearing a word; the C library, by
//! coming back.

use bugnet_events::calls::Called;
use bugnet_replay::cursor::Place;
use hashbrown::HashSet;

/// The functions.
pub const NAMES: [&str; 5] =
    ["pthread_join", "pthread_tryjoin_np", "pthread_timedjoin_np", "pthread_clockjoin_np", "thrd_join"];

/// The functions' addresses.
#[derive(Default)]
pub struct Joins(HashSet<u64>);

impl Joins {
    /// With these.
    pub fn new(functions: impl IntoIterator<Item = u64>) -> Self {
        Self(functions.into_iter().collect())
    }

    /// Where the functions begin, in no order.
    pub fn functions(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// Where somebody goes on behind the end of a thread, and what the C library calls that.
    pub fn called(&self, called: Called<'_>) -> Option<(Place, u64)> {
        match called {
            Called::Returned { call, result: Some(0), place } if self.0.contains(&call.function) => {
                Some((place, call.args[0]?))
            }
            _ => None,
        }
    }
}
