//! How far each thread has come where the cursor is.

use super::Cursor;
use crate::error::Result;
use bugnet_format::types::Tid;
use std::collections::BTreeMap;

impl Cursor<'_> {
    /// The instructions that each thread has executed, since its recording began; `u64::MAX` where it has executed all.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn reached(&mut self) -> Result<BTreeMap<Tid, u64>> {
        let now = self.outline.epoch(self.open.index).map(|(epoch, _)| epoch);
        let mut reached = BTreeMap::new();
        for (tid, _) in self.outline.threads() {
            let parts = self.outline.parts(tid);
            // Of one that does nothing in the present epoch, intervals are behind it or to come.
            let next = parts.iter().find(|part| Some(part.epoch) > now).map(|part| part.before);
            let is_before = parts.first().is_some_and(|part| Some(part.epoch) < now);
            reached.insert(tid, if is_before { next.unwrap_or(u64::MAX) } else { 0 });
        }
        for thread in self.threads()? {
            let place = thread.place;
            let before = self.outline.of_interval(place.tid, place.interval).map_or(0, |(_, before)| before);
            reached.insert(place.tid, before.saturating_add(place.position.0));
        }
        Ok(reached)
    }
}
