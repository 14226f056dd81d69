//! Calls that take and give back the locks of the C library, of which those of C++ are made.

use bugnet_events::calls::{Called, Entered};
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use hashbrown::HashMap;
use serde::Serialize;

/// What `pthread_mutex_lock` gives back where the thread that held the mutex is gone: the caller holds it.
const EOWNERDEAD: u32 = 130;

/// What a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `pthread_mutex_t`.
    Mutex,
    /// `pthread_rwlock_t`.
    ReadWriteLock,
    /// `pthread_spinlock_t`.
    Spinlock,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// By one thread alone.
    Alone,
    /// With other readers.
    Reading,
}

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It takes the lock of its first argument.
    Take(Kind, Mode),
    /// The same, if nobody holds it: it does not wait.
    Try(Kind, Mode),
    /// It gives it back.
    Give(Kind),
    /// A lock begins, or ends.
    New(Kind),
    /// It gives the mutex of its second argument back, and takes it again.
    Wait,
}

const FUNCTIONS: [(&str, Does); 26] = [
    ("pthread_mutex_lock", Does::Take(Kind::Mutex, Mode::Alone)),
    ("pthread_mutex_timedlock", Does::Take(Kind::Mutex, Mode::Alone)),
    ("pthread_mutex_clocklock", Does::Take(Kind::Mutex, Mode::Alone)),
    ("pthread_mutex_trylock", Does::Try(Kind::Mutex, Mode::Alone)),
    ("pthread_mutex_unlock", Does::Give(Kind::Mutex)),
    ("pthread_mutex_init", Does::New(Kind::Mutex)),
    ("pthread_mutex_destroy", Does::New(Kind::Mutex)),
    ("pthread_rwlock_rdlock", Does::Take(Kind::ReadWriteLock, Mode::Reading)),
    ("pthread_rwlock_timedrdlock", Does::Take(Kind::ReadWriteLock, Mode::Reading)),
    ("pthread_rwlock_clockrdlock", Does::Take(Kind::ReadWriteLock, Mode::Reading)),
    ("pthread_rwlock_tryrdlock", Does::Try(Kind::ReadWriteLock, Mode::Reading)),
    ("pthread_rwlock_wrlock", Does::Take(Kind::ReadWriteLock, Mode::Alone)),
    ("pthread_rwlock_timedwrlock", Does::Take(Kind::ReadWriteLock, Mode::Alone)),
    ("pthread_rwlock_clockwrlock", Does::Take(Kind::ReadWriteLock, Mode::Alone)),
    ("pthread_rwlock_trywrlock", Does::Try(Kind::ReadWriteLock, Mode::Alone)),
    ("pthread_rwlock_unlock", Does::Give(Kind::ReadWriteLock)),
    ("pthread_rwlock_init", Does::New(Kind::ReadWriteLock)),
    ("pthread_rwlock_destroy", Does::New(Kind::ReadWriteLock)),
    ("pthread_spin_lock", Does::Take(Kind::Spinlock, Mode::Alone)),
    ("pthread_spin_trylock", Does::Try(Kind::Spinlock, Mode::Alone)),
    ("pthread_spin_unlock", Does::Give(Kind::Spinlock)),
    ("pthread_spin_init", Does::New(Kind::Spinlock)),
    ("pthread_spin_destroy", Does::New(Kind::Spinlock)),
    ("pthread_cond_wait", Does::Wait),
    ("pthread_cond_timedwait", Does::Wait),
    ("pthread_cond_clockwait", Does::Wait),
];

/// The functions' names.
#[must_use]
pub fn names() -> [&'static str; FUNCTIONS.len()] {
    FUNCTIONS.map(|(name, _)| name)
}

/// A lock: one that begins anew at the same address is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// Its address.
    pub addr: u64,
    /// How many were there before.
    pub life: u32,
}

/// What a thread does with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It begins to wait for it, or to take it, if it may wait.
    Wants,
    /// It has it.
    Takes,
    /// It gives it back.
    Gives,
}

/// Something that was done with a lock.
#[derive(Clone, Copy, Debug)]
pub struct Locking {
    /// What.
    pub step: Step,
    /// Which lock.
    pub lock: Lock,
    /// What it is.
    pub kind: Kind,
    /// How it is wanted or held.
    pub mode: Mode,
    /// Where the function begins, or for [`Step::Takes`] where its caller goes on.
    pub place: Place,
    /// Where the function that wants it began.
    pub call: Place,
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Which.
    pub lock: Lock,
    /// What it is.
    pub kind: Kind,
    /// How.
    pub mode: Mode,
    /// Where the function began that took it.
    pub since: Place,
}

/// The locks that threads hold.
#[derive(Default)]
pub struct Locks {
    functions: HashMap<u64, Does>,
    lives: HashMap<u64, u32>,
    /// By thread; a recursive mutex several times.
    held: HashMap<Tid, Vec<Held>>,
    /// Calls whose lock the trace had no room to tell.
    pub unknown: u64,
}

impl Locks {
    /// With the functions' addresses, each with the index of its name in [`names`].
    pub fn new(functions: impl IntoIterator<Item = (u64, usize)>) -> Self {
        let functions = functions.into_iter().map(|(addr, index)| (addr, FUNCTIONS[index].1)).collect();
        Self { functions, ..Self::default() }
    }

    /// What a thread holds, what it took first at the beginning.
    #[must_use]
    pub fn held(&self, thread: Tid) -> &[Held] {
        self.held.get(&thread).map_or(&[], |held| held)
    }

    /// Where the functions begin, in no order.
    pub fn functions(&self) -> impl Iterator<Item = u64> {
        self.functions.keys().copied()
    }

    /// A function is called, or returns. `each` is told what is done with a lock, before that counts.
    pub fn called(&mut self, called: Called<'_>, each: &mut impl FnMut(&Self, Locking)) {
        match called {
            Called::Entered(call) => {
                let Some(does) = self.functions.get(&call.function).copied() else { return };
                let Some(addr) = self.address(does, call) else { return };
                match does {
                    Does::Take(kind, mode) => self.tell(Step::Wants, addr, (kind, mode), call, call.place, each),
                    Does::Give(kind) => self.give(addr, kind, call, each),
                    Does::Wait => self.give(addr, Kind::Mutex, call, each),
                    Does::New(_) => {
                        // Whoever held it holds nothing of the new one.
                        *self.lives.entry(addr).or_default() += 1;
                        self.held.values_mut().for_each(|held| held.retain(|held| held.lock.addr != addr));
                    }
                    Does::Try(..) => {}
                }
            }
            Called::Returned { call, result, place } => {
                let Some(does) = self.functions.get(&call.function).copied() else { return };
                let has_it = result.is_none_or(|result| matches!(result as u32, 0 | EOWNERDEAD));
                let (kind, mode) = match does {
                    Does::Take(kind, mode) | Does::Try(kind, mode) if has_it => (kind, mode),
                    // It has the mutex, whatever ended the wait.
                    Does::Wait => (Kind::Mutex, Mode::Alone),
                    _ => return,
                };
                let Some(addr) = self.address(does, call) else { return };
                self.tell(Step::Takes, addr, (kind, mode), call, place, each);
                let held = Held { lock: self.lock(addr), kind, mode, since: call.place };
                self.held.entry(place.tid).or_default().push(held);
            }
            Called::Left(_) => {}
        }
    }

    fn address(&mut self, does: Does, call: &Entered) -> Option<u64> {
        let addr = call.args[usize::from(does == Does::Wait)];
        self.unknown += u64::from(addr.is_none());
        addr
    }

    fn lock(&self, addr: u64) -> Lock {
        Lock { addr, life: self.lives.get(&addr).copied().unwrap_or(0) }
    }

    fn tell(
        &self,
        step: Step,
        addr: u64,
        (kind, mode): (Kind, Mode),
        call: &Entered,
        place: Place,
        each: &mut impl FnMut(&Self, Locking),
    ) {
        each(self, Locking { step, lock: self.lock(addr), kind, mode, place, call: call.place });
    }

    fn give(&mut self, addr: u64, kind: Kind, call: &Entered, each: &mut impl FnMut(&Self, Locking)) {
        let lock = self.lock(addr);
        let held = self.held.entry(call.place.tid).or_default();
        let own = held.iter().rposition(|held| held.lock == lock).map(|own| held.remove(own));
        let mode = own.map_or(Mode::Alone, |own| own.mode);
        self.tell(Step::Gives, addr, (kind, mode), call, call.place, each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::types::{IntervalNo, Position};

    const NAMES: [&str; 4] =
        ["pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutex_trylock", "pthread_mutex_init"];

    fn call(function: u64, lock: u64) -> Entered {
        let place = Place { tid: Tid(1), interval: IntervalNo(0), position: Position(0) };
        Entered { place, function, args: [Some(lock), None, None, None, None, None], slot: 0 }
    }

    fn steps(locks: &mut Locks, function: u64, lock: u64, result: Option<u64>) -> Vec<Step> {
        let (mut steps, call) = (Vec::new(), call(function, lock));
        let called = match result {
            None => Called::Entered(&call),
            result => Called::Returned { call: &call, result, place: call.place },
        };
        locks.called(called, &mut |_, locking| steps.push(locking.step));
        steps
    }

    #[test]
    fn locks_are_held_from_call_to_call() {
        let index = |name: &str| names().iter().position(|other| *other == name).unwrap();
        let mut locks = Locks::new((0..).zip(NAMES.map(index)));
        assert_eq!(steps(&mut locks, 0, 64, None), [Step::Wants]);
        assert!(locks.held(Tid(1)).is_empty());
        assert_eq!(steps(&mut locks, 0, 64, Some(0)), [Step::Takes]);
        assert_eq!(locks.held(Tid(1)).len(), 1);
        // EBUSY.
        assert_eq!(steps(&mut locks, 2, 128, None), []);
        assert_eq!(steps(&mut locks, 2, 128, Some(16)), []);
        assert_eq!(steps(&mut locks, 2, 128, Some(0)), [Step::Takes]);
        assert_eq!(steps(&mut locks, 1, 64, None), [Step::Gives]);
        assert_eq!(locks.held(Tid(1)).iter().map(|held| held.lock.addr).collect::<Vec<_>>(), [128]);
        steps(&mut locks, 3, 128, None);
        assert!(locks.held(Tid(1)).is_empty());
        steps(&mut locks, 0, 128, Some(0));
        assert_eq!(locks.held(Tid(1))[0].lock, Lock { addr: 128, life: 1 });
    }
}
