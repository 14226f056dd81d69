//! Copies of a replay process, to which a cursor goes back.

use crate::error::ReplayError;
use crate::process::Process;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most copies that are kept.
const MOST: usize = 40;
/// How far before the place to which a cursor goes copies are left on the way, in instructions: close to it, the next steps
/// back take no time.
const GAPS: [u64; 8] = [1 << 25, 1 << 22, 1 << 19, 1 << 16, 1 << 13, 1 << 10, 1 << 7, 1 << 4];

/// Copies by the time at which they are, in the epoch.
#[derive(Debug, Default)]
pub(super) struct Snapshots(BTreeMap<u64, Process>);

impl Snapshots {
    /// The newest one that is at a time or before it, of those that will do.
    pub fn before(&mut self, time: u64, will_do: impl Fn(&Process) -> bool) -> Option<(u64, &mut Process)> {
        let mut known = self.0.range_mut(..=time).rev();
        known.find(|(_, process)| will_do(process)).map(|(at, process)| (*at, process))
    }

    /// The oldest one in a stretch, of those that will do; the newest before it, if there is none.
    pub fn oldest(&mut self, stretch: Range<u64>, will_do: impl Fn(&Process) -> bool) -> Option<(u64, &mut Process)> {
        let first = self.0.range(stretch.clone()).find(|(_, process)| will_do(process));
        let at = first.map_or(stretch.start, |(at, _)| *at);
        self.before(at, will_do)
    }

    /// Whether there is one at exactly this time.
    pub fn has(&self, time: u64) -> bool {
        self.0.contains_key(&time)
    }

    /// The error for when there is none.
    pub fn lost() -> ReplayError {
        ReplayError::OutOfRange("an epoch has lost its start".into())
    }

    /// Keeps those alone that will do.
    pub fn retain(&mut self, will_do: impl Fn(&Process) -> bool) {
        self.0.retain(|_, process| will_do(process));
    }

    /// Adds one; of too many, the one goes that is missed least by who is at `now`. The first one stays.
    pub fn add(&mut self, time: u64, process: Process, now: u64) {
        self.0.insert(time, process);
        if self.0.len() > MOST {
            let times: Vec<u64> = self.0.keys().copied().collect();
            // How far apart its neighbours are, for its distance from here.
            let price = |three: &[u64]| (three[2] - three[0]) as f64 / (three[1].abs_diff(now) + 1) as f64;
            let least = times.windows(3).min_by(|a, b| price(a).total_cmp(&price(b))).map(|three| three[1]);
            least.and_then(|time| self.0.remove(&time));
        }
    }

    /// The times at which copies are to be left on the way from one time to another.
    pub fn on_the_way(from: u64, to: u64) -> impl Iterator<Item = u64> {
        GAPS.into_iter().filter_map(move |gap| to.checked_sub(gap).filter(|time| *time > from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_get_denser_towards_the_place() {
        let way = |from, to| Snapshots::on_the_way(from, to).collect::<Vec<_>>();
        assert_eq!(way(0, 100), [84]);
        assert_eq!(way(0, 2000), [976, 1872, 1984]);
        assert_eq!(way(1900, 2000), [1984]);
        assert_eq!(way(5, 5), [] as [u64; 0]);
        assert_eq!(way(0, 1 << 30).len(), GAPS.len());
    }
}
