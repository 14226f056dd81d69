//! What threads wait for that are in a `futex` call, and who holds it.

use super::Stacks;
use crate::backtrace::Frame;
use crate::error::Result;
use crate::log::{Log, ThreadId};
use crate::memory::Memory;
use crate::syscall::last_calls;
use bugnet_format::types::{Addr, IntervalNo, Tid};
use serde::Serialize;

/// Bytes from the start of glibc's `pthread_mutex_t` to `__owner`, the id of the thread that holds it (x86-64).
const OWNER: u64 = 8;

/// Functions of the C library that wait, by the beginnings of their names, and what for.
const WAITS: [(&str, Kind); 10] = [
    ("pthread_mutex", Kind::Mutex),
    ("lll_lock", Kind::Mutex),
    ("pthread_cond", Kind::Condition),
    ("pthread_rwlock", Kind::ReadWriteLock),
    ("sem_", Kind::Semaphore),
    ("new_sem_", Kind::Semaphore),
    ("pthread_join", Kind::Join),
    ("pthread_clockjoin", Kind::Join),
    ("pthread_timedjoin", Kind::Join),
    ("pthread_barrier", Kind::Barrier),
];

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A `pthread_mutex_t`.
    Mutex,
    /// A `pthread_cond_t`.
    Condition,
    /// A `pthread_rwlock_t`.
    ReadWriteLock,
    /// A `sem_t`.
    Semaphore,
    /// The end of another thread.
    Join,
    /// A `pthread_barrier_t`.
    Barrier,
    /// A futex of which it is not known what it belongs to.
    Futex,
}

impl Kind {
    /// As a part of a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Mutex => "the mutex",
            Self::Condition => "the condition variable",
            Self::ReadWriteLock => "the read-write lock",
            Self::Semaphore => "the semaphore",
            Self::Join => "the end of a thread, by the word",
            Self::Barrier => "the barrier",
            Self::Futex => "the futex",
        }
    }
}

/// What a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Address of the word that the kernel watches.
    pub address: u64,
    /// What that belongs to.
    pub kind: Kind,
    /// The variable there, if that is known.
    pub name: Option<String>,
    /// For a mutex: the thread that holds it; none if that is not known.
    pub holder: Option<Tid>,
}

/// The word for which a thread waits at its end, if it is in a `futex` call that waits.
///
/// # Errors
/// The log cannot be read.
pub(super) fn futex(log: &Log, thread: ThreadId, interval: IntervalNo) -> Result<Option<u64>> {
    let call = last_calls(log, thread, interval, 1)?.pop().filter(|call| call.result.is_none());
    let waits = call.and_then(|call| {
        let (address, operation) = call.call.strip_prefix("futex(")?.split_once(", ")?;
        let waits = operation.starts_with("FUTEX_WAIT") || operation.starts_with("FUTEX_LOCK_PI") || is_wait(operation);
        let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
        waits.then_some(address)
    });
    Ok(waits)
}

/// Whether a number is that of an operation that waits: FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET.
fn is_wait(operation: &str) -> bool {
    let number = operation.split(&[',', ')'][..]).next().unwrap_or_default();
    let number = match number.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => number.parse().ok(),
    };
    number.is_some_and(|number| matches!(number & 0x7f, 0 | 6 | 9))
}

/// What the functions that wait say about it.
pub(super) fn kind(backtrace: &[Frame]) -> Kind {
    for frame in backtrace {
        let symbols = frame.place.symbol.iter().map(|symbol| symbol.name.as_str());
        let functions = frame.place.source.iter().filter_map(|source| source.function.as_deref());
        for name in symbols.chain(functions) {
            let name = name.trim_start_matches('_');
            let name = name.strip_prefix("GI_").map_or(name, |name| name.trim_start_matches('_'));
            if let Some((_, kind)) = WAITS.iter().find(|(start, _)| name.starts_with(start)) {
                return *kind;
            }
        }
    }
    Kind::Futex
}

/// What a thread waits for, as far as its stack tells; who holds it is found out with the other threads.
pub(super) fn waiting(backtrace: &[Frame], thread: ThreadId, stacks: &Stacks) -> Option<Waiting> {
    let address = stacks.words.iter().find(|(waits, _)| *waits == thread)?.1;
    let name = stacks.names.get(&address).cloned();
    Some(Waiting { address, kind: kind(backtrace), name, holder: None })
}

/// Whether a thread holds the mutex at an address, by what it knows itself: who takes a mutex writes its own id there, and who gives
/// it back zero.
pub(super) fn holds(thread: ThreadId, mutex: u64, memory: &mut dyn Memory) -> bool {
    let Ok(bytes) = memory.read_known(Addr(mutex.wrapping_add(OWNER)), 4) else { return false };
    let known: Option<Vec<u8>> = bytes.into_iter().collect();
    known.is_some_and(|known| known == thread.tid.0.to_le_bytes())
}
