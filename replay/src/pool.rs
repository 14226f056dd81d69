//! Work on many items by several threads, with the results in the items' order.

use crate::error::{ReplayError, Result};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

/// Calls `work` on each item, `jobs` at a time, and `sink` with each result, in order. Each of the threads that work
/// has a state of its own that goes from item to item.
///
/// At most a few results per job wait for their turn, so that memory stays bounded however slow the first is. An
/// error of `sink` ends it; items whose work has begun are still finished.
///
/// # Errors
/// The first of `sink`, or a thread cannot be started.
pub fn in_order<T: Sync, R: Send, S: Default>(
    items: &[T],
    jobs: NonZeroUsize,
    work: impl Fn(&mut S, &T) -> R + Sync,
    mut sink: impl FnMut(&T, R) -> Result<()>,
) -> Result<()> {
    let jobs = jobs.get().min(items.len());
    let turn = Turn::new(items.len(), 4 * jobs);
    std::thread::scope(|scope| {
        let (send, results) = mpsc::channel();
        // Whatever ends this closure, the workers must not wait for more to be taken.
        let _done = Finish(&turn);
        for _ in 0..jobs {
            let (send, turn, work) = (send.clone(), &turn, &work);
            let worker = move || {
                let mut state = S::default();
                while let Some(index) = turn.next() {
                    if send.send((index, work(&mut state, &items[index]))).is_err() {
                        break;
                    }
                }
            };
            std::thread::Builder::new()
                .name("bugnet-replay".into())
                .spawn_scoped(scope, worker)
                .map_err(ReplayError::system("start a thread"))?;
        }
        drop(send);
        let mut waiting = BTreeMap::new();
        let mut taken = 0;
        for (index, result) in results {
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(&taken) {
                sink(&items[taken], result)?;
                taken += 1;
                turn.taken(taken);
            }
        }
        Ok(())
    })
}

/// Which item is next, and how far ahead of the results that were taken work may go.
struct Turn {
    state: Mutex<TurnState>,
    moved: Condvar,
    ahead: usize,
}

struct TurnState {
    next: usize,
    taken: usize,
    items: usize,
}

impl Turn {
    fn new(items: usize, ahead: usize) -> Self {
        Self { state: Mutex::new(TurnState { next: 0, taken: 0, items }), moved: Condvar::new(), ahead }
    }

    fn next(&self) -> Option<usize> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let too_far = |s: &mut TurnState| s.next < s.items && s.next >= s.taken + self.ahead;
        let mut state = self.moved.wait_while(state, too_far).unwrap_or_else(PoisonError::into_inner);
        if state.next >= state.items {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn taken(&self, taken: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).taken = taken;
        self.moved.notify_all();
    }
}

struct Finish<'a>(&'a Turn);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).items = 0;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn jobs(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap()
    }

    #[test]
    fn results_come_in_order_and_work_stays_near() {
        let items: Vec<usize> = (0..200).collect();
        for n in [1, 3, 8, 500] {
            let taken = AtomicUsize::new(0);
            let mut seen = Vec::new();
            let work = |(): &mut (), &i: &usize| {
                assert!(i < taken.load(Ordering::SeqCst) + 4 * n.min(200) + 1);
                i * 2
            };
            in_order(&items, jobs(n), work, |&item, result| {
                seen.push((item, result));
                taken.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, items.iter().map(|&i| (i, 2 * i)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_of_the_sink_ends_it() {
        let items: Vec<usize> = (0..1000).collect();
        let worked = AtomicUsize::new(0);
        let result = in_order(
            &items,
            jobs(4),
            |(): &mut (), _| worked.fetch_add(1, Ordering::SeqCst),
            |&item, _| if item == 5 { Err(ReplayError::OutOfRange("enough".into())) } else { Ok(()) },
        );
        assert_eq!(result.unwrap_err().to_string(), "enough");
        assert!(worked.load(Ordering::SeqCst) <= 6 + 16 + 4, "{worked:?}");
    }

    #[test]
    fn no_items_are_no_work() {
        in_order(&[] as &[u8], jobs(4), |(): &mut (), _| (), |_, ()| Ok(())).unwrap();
    }
}
