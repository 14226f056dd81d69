//! Locks that outlive a thread's failure: see [`crate::base::failure`]. What a thread held when it failed, it never lets go of, since nothing
//! is dropped then. Whoever comes next takes it over.

#[cfg(not(test))]
use crate::base::slots::Slot;
use bugnet_handover::futex;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// What a thread is to locks, until it fails: it is another one from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder(u32);

/// In a lock's word, beside the holder: whether somebody may sleep until it is free.
const AWAITED: u32 = 1 << 31;
/// The first thread, before there are thread-local slots.
const FIRST: Holder = Holder(1);
/// So often a thread looks at a lock before it sleeps.
const SPINS: u32 = 100;
/// So long it sleeps at a time, and then asks whether the holder has failed.
const SLEEP: Duration = Duration::from_millis(20);
/// Most failures of a process, beyond which the locks of those that fail are lost.
const MOST_FAILED: usize = 1024;

/// The next thread's.
static NEXT: AtomicU32 = AtomicU32::new(FIRST.0 + 1);
/// Who has failed.
static FAILED: [AtomicU32; MOST_FAILED] = [const { AtomicU32::new(0) }; MOST_FAILED];
/// How many have.
static FAILURES: AtomicUsize = AtomicUsize::new(0);

impl Holder {
    /// The calling thread.
    fn current() -> Self {
        match read() {
            0 => Self::renew(),
            known => Self(known),
        }
    }

    /// The calling thread, as another one.
    fn renew() -> Self {
        let new = loop {
            match NEXT.fetch_add(1, Ordering::Relaxed) & !AWAITED {
                // The numbers have come round.
                0 | 1 => {}
                new => break new,
            }
        };
        write(new);
        Self(new)
    }

    /// Whether it has failed.
    fn has_failed(self) -> bool {
        let count = FAILURES.load(Ordering::SeqCst).min(MOST_FAILED);
        FAILED[..count].iter().any(|failed| failed.load(Ordering::SeqCst) == self.0)
    }
}

/// What the calling thread has written down of itself; 0 for nothing.
#[cfg(not(test))]
fn read() -> u32 {
    if Slot::are_there() { Slot::Holder.read() as u32 } else { FIRST.0 }
}

#[cfg(not(test))]
fn write(holder: u32) {
    if Slot::are_there() {
        // SAFETY: the calling thread's own slot, which only this module uses.
        unsafe { Slot::Holder.write(holder.into()) };
    }
}

#[cfg(test)]
thread_local! {
    /// There is no DynamoRIO, nor a slot of its.
    static HOLDER: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn read() -> u32 {
    HOLDER.get()
}

#[cfg(test)]
fn write(holder: u32) {
    HOLDER.set(holder);
}

/// The calling thread has failed, and holds none of its locks any more.
pub fn let_go() {
    let failed = Holder::current();
    let place = FAILURES.fetch_add(1, Ordering::SeqCst);
    if let Some(place) = FAILED.get(place) {
        place.store(failed.0, Ordering::SeqCst);
    }
    Holder::renew();
}

/// A value that one thread refers to at a time.
#[derive(Default)]
pub struct Mutex<T> {
    /// Who holds it; 0 if nobody does. With [`AWAITED`] where somebody may sleep.
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only who holds the lock refers to the value.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Of this value.
    pub const fn new(value: T) -> Self {
        Self { holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits until nobody else refers to the value.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let own = Holder::current();
        (0..SPINS).find_map(|_| self.take(own, 0)).unwrap_or_else(|| self.wait(own))
    }

    /// Unless somebody else refers to the value.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.take(Holder::current(), 0)
    }

    fn take(&self, own: Holder, awaited: u32) -> Option<MutexGuard<'_, T>> {
        // There is a guard only where the lock was taken: one that goes lets go of it.
        match self.holder.compare_exchange(0, own.0 | awaited, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(self.guard()),
            Err(_) => None,
        }
    }

    /// Of the thread that has just taken the lock.
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, value: PhantomData }
    }

    #[cold]
    fn wait(&self, own: Holder) -> MutexGuard<'_, T> {
        loop {
            // Others may sleep, too.
            if let Some(guard) = self.take(own, AWAITED) {
                return guard;
            }
            let found = self.holder.load(Ordering::Relaxed);
            let change = |to| self.holder.compare_exchange(found, to, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if found == 0 {
                continue;
            }
            if Holder(found & !AWAITED).has_failed() {
                if change(own.0 | AWAITED) {
                    return self.guard();
                }
            } else if change(found | AWAITED) {
                futex::wait(&self.holder, found | AWAITED, Some(SLEEP));
            }
        }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// As long as it lives, nobody else refers to the value.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// It is as good as the value: other threads may refer to the one as far as they may to the other.
    value: PhantomData<&'a mut T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and nobody else has the guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.mutex.holder.swap(0, Ordering::Release) & AWAITED != 0 {
            futex::wake(&self.mutex.holder, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_it_keeps_others_away() {
        let value = Mutex::new(1);
        let held = value.lock();
        // Also from who has tried before.
        assert!([(); 3].iter().all(|()| value.try_lock().is_none()));
        drop(held);
        assert!(value.try_lock().is_some());
    }

    #[test]
    fn what_a_failed_thread_held_is_taken_over() {
        let value = Mutex::new(1);
        std::mem::forget(value.lock());
        // The thread goes on, as another one to locks.
        let_go();
        *value.lock() += 1;
        assert_eq!(*value.lock(), 2);
    }
}
