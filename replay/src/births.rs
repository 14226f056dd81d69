//! In which order the threads of a process were made. Their ids do not tell: the system gives ids out in a circle, and those of threads that have ended once more.

use crate::error::Result;
use crate::log::{IntervalId, Log, ThreadId};
use bugnet_format::record::{DependencyKind, Record};
use bugnet_format::types::{IntervalNo, Position, ProcessId, Tid};
use std::collections::BTreeMap;

/// What the log says about a thread's birth.
#[derive(Clone, Copy, Debug)]
struct Born {
    thread: ThreadId,
    /// How many checkpoints the process had made before the first one of the thread's that is kept; none where none is.
    sequence: Option<u64>,
    /// The thread that made it, and where that was; none of the first one, and where the log does not have its beginning.
    maker: Option<(Tid, IntervalNo, Position)>,
}

/// The threads of a process that the log holds, in the order in which they were made, the one with which it begins first. Where the log does not have the
/// beginnings, the order of the others is that of what it has first of each.
///
/// # Errors
/// An interval cannot be read.
pub fn births(log: &Log, pid: ProcessId) -> Result<Vec<ThreadId>> {
    let mut all = Vec::new();
    for thread in log.threads().filter(|thread| thread.pid == pid) {
        let (mut sequence, mut maker) = (None, None);
        if let Some(&interval) = log.intervals(thread)?.first() {
            let id = IntervalId { thread, interval };
            sequence = Some(log.header(id)?.sequence);
            if interval == IntervalNo(0) {
                let events = log.events(id)?;
                maker =
                    events.records().flatten().take_while(|placed| placed.position == Position(0)).find_map(maker_in);
            }
        }
        all.push(Born { thread, sequence, maker });
    }
    Ok(in_order(all).into_iter().map(|born| born.thread).collect())
}

fn maker_in(placed: bugnet_format::record::Placed<'_>) -> Option<(Tid, IntervalNo, Position)> {
    match placed.record {
        Record::Dependency { kind: DependencyKind::Birth, other, other_interval, other_position, .. } => {
            Some((other, other_interval, other_position))
        }
        _ => None,
    }
}

/// A thread's first checkpoint is its own, so of two that one thread has made, the later one may have come first to it: these take each other's places.
fn in_order(mut all: Vec<Born>) -> Vec<Born> {
    let is_first = |thread: ThreadId| thread.tid.0 == thread.pid.pid.0;
    all.sort_by_key(|born| (!is_first(born.thread), born.sequence.is_none(), born.sequence));
    let mut places: BTreeMap<Tid, Vec<usize>> = BTreeMap::new();
    for (place, born) in all.iter().enumerate() {
        if let Some((maker, ..)) = born.maker {
            places.entry(maker).or_default().push(place);
        }
    }
    for places in places.into_values() {
        let mut siblings: Vec<Born> = places.iter().map(|place| all[*place]).collect();
        siblings.sort_by_key(|born| born.maker);
        places.into_iter().zip(siblings).for_each(|(place, born)| all[place] = born);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::types::Pid;

    #[test]
    fn ids_do_not_count() {
        let pid = ProcessId::from(Pid(32_766));
        let born = |tid: u32, sequence, maker: Option<(u32, u64)>| Born {
            thread: ThreadId { pid, tid: Tid(tid) },
            sequence,
            maker: maker.map(|(tid, position)| (Tid(tid), IntervalNo(0), Position(position))),
        };
        // The third one has come to its checkpoint before the second one, which has made a fourth; of the last one nothing is kept.
        let all = vec![
            born(300, Some(2), Some((32_766, 50))),
            born(301, Some(4), Some((32_767, 10))),
            born(302, None, None),
            born(32_766, Some(0), None),
            born(32_767, Some(3), Some((32_766, 40))),
        ];
        let order: Vec<u32> = in_order(all).iter().map(|born| born.thread.tid.0).collect();
        assert_eq!(order, [32_766, 32_767, 300, 301, 302]);
    }
}
