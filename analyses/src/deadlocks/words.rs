//! Locks that are one word, which whoever takes one that is free changes without a call: those of Rust's standard library, of `parking_lot`, and
//! the C library's own. A thread that waits for one is in a function that is known by its name. Who holds the lock is inferred from who changed
//! the word how.

use crate::locks::{Kind, Mode};
use bugnet_format::types::{Addr, Tid};
use bugnet_replay::Result;
use bugnet_replay::backtrace::{Frame, Unwound, unwind_some};
use bugnet_replay::cursor::{Cursor, Direction, LastWrite, Place, Seek, Thread};
use bugnet_replay::log::{Log, ThreadId};
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::at_the_end;
use std::collections::HashMap;

/// The system call, and the operations by which a thread waits as long as the word is what it was.
const FUTEX: u64 = 202;
const WAIT: u64 = 0;
const WAIT_BITSET: u64 = 9;
/// Flags of an operation.
const FLAGS: u64 = 128 | 256;
/// Frames of a thread in which the function is looked for that waits for a lock.
const FRAMES: usize = 12;
/// Writes to the word that are looked at.
const WRITES: usize = 1000;
/// Number of the register of the first argument (System V ABI, 3.2.3).
const RDI: usize = 7;
/// Bytes of a return address.
const SLOT: u64 = 8;

/// How a word says who holds its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// A mutex: zero where it is free (`std::sync::Mutex`, `lll_lock`).
    Word,
    /// A byte, whose lowest bit says that it is taken (`parking_lot::RawMutex`).
    Byte,
    /// 30 bits with the count of readers, all set for a writer; then whether readers and writers wait (`std::sync::RwLock`).
    Counted,
    /// Whether threads wait, in two bits, an upgradable reader, a writer, and above that the count of readers (`parking_lot::RawRwLock`).
    Wide,
}

/// What a word is made that was free, and for which nobody waits.
const TAKEN: u64 = 1;
const COUNT: u64 = (1 << 30) - 1;
const WRITERS_WAIT: u64 = 1 << 31;
const PARKED: [u64; 2] = [0b10, 0b11];
const WRITER: u64 = 1 << 3;
const UPGRADABLE: u64 = 1 << 2;

/// Who holds a lock: whether one does alone, and how many read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    alone: bool,
    readers: u64,
}

impl Layout {
    fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Word | Self::Counted => 4,
            Self::Wide => 8,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Word | Self::Byte => Kind::Mutex,
            Self::Counted | Self::Wide => Kind::ReadWriteLock,
        }
    }

    fn taken(self, word: u64) -> Taken {
        match self {
            Self::Word => Taken { alone: word != 0, readers: 0 },
            Self::Byte => Taken { alone: word & 1 != 0, readers: 0 },
            Self::Counted if word & COUNT == COUNT => Taken { alone: true, readers: 0 },
            Self::Counted => Taken { alone: false, readers: word & COUNT },
            // An upgradable reader is there with others, and no second one like it.
            Self::Wide => Taken { alone: word & (WRITER | UPGRADABLE) != 0, readers: word >> 4 },
        }
    }
}

/// How a thread waits that is in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// On the word itself.
    OnIt(Layout),
    /// On the word behind it, or before it.
    Beside(Layout),
    /// On a word of its own: the function's first argument is the lock.
    Elsewhere(Layout),
}

/// How a thread waits for a lock in a function, by the function's name, if it does.
fn waits(function: &str) -> Option<Waits> {
    let ends = |part: &str, end: &str| function.contains(part) && function.ends_with(end);
    if function.starts_with("__lll_lock_wait") || ends("futex::Mutex", "lock_contended") {
        return Some(Waits::OnIt(Layout::Word));
    }
    if ends("futex::RwLock", "read_contended") {
        return Some(Waits::OnIt(Layout::Counted));
    }
    if ends("futex::RwLock", "write_contended") {
        return Some(Waits::Beside(Layout::Counted));
    }
    if ends("raw_mutex::RawMutex", "lock_slow") {
        return Some(Waits::Elsewhere(Layout::Byte));
    }
    let slow = ["lock_exclusive_slow", "lock_shared_slow", "lock_upgradable_slow", "upgrade_slow"];
    slow.iter().any(|end| ends("raw_rwlock::RawRwLock", end)).then_some(Waits::Elsewhere(Layout::Wide))
}

/// Whether a source file is of a library of such locks: who wants one is who called that.
pub fn is_locks_own(file: &str) -> bool {
    ["/parking_lot-", "/parking_lot_core-", "/lock_api-"].iter().any(|part| file.contains(part))
}

/// A thread that waits for such a lock.
pub struct Waiting {
    /// Where the word is.
    pub addr: u64,
    layout: Layout,
    /// Where the thread waits.
    pub place: Place,
    /// Its stack there.
    pub frames: Vec<Frame>,
}

impl Waiting {
    /// What the lock is.
    pub fn kind(&self) -> Kind {
        self.layout.kind()
    }
}

/// A thread that holds such a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// The instruction that took it.
    pub place: Place,
    /// How.
    pub mode: Mode,
}

/// What a thread waits for at the end, where the cursor is, if it is such a lock. The cursor is somewhere else then.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub fn waiting(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    thread: &Thread,
) -> Result<Option<Waiting>> {
    let id = ThreadId { pid: cursor.pid(), tid: thread.place.tid };
    let Some((FUTEX, [futex, operation, ..])) = at_the_end(log, id)? else { return Ok(None) };
    if !matches!(operation & !FLAGS, WAIT | WAIT_BITSET) {
        return Ok(None);
    }
    let code = log.code(cursor.pid())?;
    let unwound = unwind_some(&thread.regs, cursor, symbols, &code, FRAMES)?;
    let found = unwound.frames.iter().enumerate().find_map(|(number, frame)| {
        let inlined = frame.place.source.iter().filter_map(|source| source.function.as_deref());
        let mut names = inlined.chain(frame.place.symbol.as_ref().map(|symbol| symbol.name.as_str()));
        Some((number, names.find_map(waits)?))
    });
    let Some((frame, waits)) = found else { return Ok(None) };
    let found = match waits {
        Waits::OnIt(layout) => Some((futex, layout)),
        // The lock's word says that somebody waits there.
        Waits::Beside(layout) => {
            let mut found = None;
            for addr in [futex.wrapping_sub(layout.bytes()), futex.wrapping_add(layout.bytes())] {
                let says_so = word(cursor, addr, layout)?.is_some_and(|word| word & WRITERS_WAIT != 0);
                found = found.or(says_so.then_some((addr, layout)));
            }
            found
        }
        Waits::Elsewhere(layout) => {
            // The compiler may know a lock, and pass nothing: the word has to say that somebody waits.
            let mask = if layout == Layout::Byte { PARKED[0] } else { PARKED[1] };
            let addr = argument(cursor, &unwound, frame)?;
            cursor.seek(Seek::End)?;
            match addr {
                Some(addr) if word(cursor, addr, layout)?.is_some_and(|word| word & mask != 0) => Some((addr, layout)),
                _ => None,
            }
        }
    };
    Ok(found.map(|(addr, layout)| Waiting { addr, layout, place: thread.place, frames: unwound.frames }))
}

/// The first argument of the function of a frame: what was in its register behind the call.
fn argument(cursor: &mut Cursor<'_>, unwound: &Unwound, frame: usize) -> Result<Option<u64>> {
    let Some(cfa) = unwound.states[frame].cfa else { return Ok(None) };
    let LastWrite::Instruction { place, .. } = cursor.last_write(Addr(cfa.wrapping_sub(SLOT)), SLOT)? else {
        return Ok(None);
    };
    cursor.seek(Seek::Place(place))?;
    cursor.step(Direction::Forward)?;
    Ok(Some(cursor.regs().gpr[RDI]))
}

/// The word of a lock where the cursor is, if it is known.
fn word(cursor: &mut Cursor<'_>, addr: u64, layout: Layout) -> Result<Option<u64>> {
    Ok(number(&cursor.read_known(Addr(addr), layout.bytes())?, layout))
}

fn number(bytes: &[Option<u8>], layout: Layout) -> Option<u64> {
    let known = bytes.iter().rev().try_fold(0_u64, |all, byte| Some(all << 8 | u64::from((*byte)?)));
    known.filter(|_| bytes.len() as u64 == layout.bytes())
}

/// A wait for a mutex of the C library, which also has a word that says whether it is held: the first one.
pub fn of_mutex(addr: u64, place: Place) -> Waiting {
    Waiting { addr, layout: Layout::Word, place, frames: Vec::new() }
}

/// Who holds the lock where the cursor is, as far as it is known. A writer that has announced itself waits for those who still read, and is not one of those
/// that it waits for.
///
/// # Errors
/// The replay process is lost.
pub fn holders(cursor: &mut Cursor<'_>, waiting: &Waiting) -> Result<Vec<Holds>> {
    let (layout, mut back) = (waiting.layout, Back::default());
    for _ in 0..WRITES {
        let write = cursor.last_write(Addr(waiting.addr), layout.bytes())?;
        let LastWrite::Instruction { place, before, after, .. } = write else { break };
        let Some(after) = number(&after, layout) else { break };
        // Whoever makes it this has found it free, also where that was never seen.
        let before = number(&before, layout).or((layout == Layout::Word && after == TAKEN).then_some(0));
        let Some(before) = before else { break };
        let [before, after] = [before, after].map(|word| layout.taken(word));
        if after == Taken::default() {
            break;
        }
        back.change(place, before, after);
        if before == Taken::default() {
            break;
        }
    }
    let reads = |holder: &Holds| holder.mode == Mode::Reading;
    let has_readers = back.holders.iter().any(reads);
    back.holders.retain(|holder| !has_readers || reads(holder) || holder.place.tid != waiting.place.tid);
    Ok(back.holders)
}

/// The changes of a lock's word, the last one first.
#[derive(Default)]
struct Back {
    holders: Vec<Holds>,
    /// Whether one who held it alone has given it back.
    is_given_back: bool,
    /// How often threads have ceased to read that began before.
    ceased: HashMap<Tid, u64>,
}

impl Back {
    fn change(&mut self, place: Place, before: Taken, after: Taken) {
        match (before.alone, after.alone) {
            (false, true) if !self.is_given_back => {
                self.holders.push(Holds { place, mode: Mode::Alone });
                self.is_given_back = true;
            }
            (true, false) => self.is_given_back = true,
            _ => {}
        }
        let ceased = self.ceased.entry(place.tid).or_default();
        if after.readers < before.readers {
            *ceased += 1;
        } else if after.readers > before.readers {
            if *ceased > 0 {
                *ceased -= 1;
            } else {
                self.holders.push(Holds { place, mode: Mode::Reading });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::types::{IntervalNo, Position};

    #[test]
    fn functions_that_wait_for_locks() {
        for (function, layout) in [
            ("std::sys::sync::mutex::futex::Mutex::lock_contended", Layout::Word),
            ("<std::sys::sync::mutex::futex::Mutex>::lock_contended", Layout::Word),
            ("__lll_lock_wait_private", Layout::Word),
            ("std::sys::sync::rwlock::futex::RwLock::read_contended", Layout::Counted),
        ] {
            assert_eq!(waits(function), Some(Waits::OnIt(layout)), "{function}");
        }
        let beside = waits("<std::sys::sync::rwlock::futex::RwLock>::write_contended");
        assert_eq!(beside, Some(Waits::Beside(Layout::Counted)));
        let mutex = waits("parking_lot::raw_mutex::RawMutex::lock_slow");
        assert_eq!(mutex, Some(Waits::Elsewhere(Layout::Byte)));
        let lock = waits("<parking_lot::raw_rwlock::RawRwLock>::lock_shared_slow");
        assert_eq!(lock, Some(Waits::Elsewhere(Layout::Wide)));
        for other in ["futex_wait", "std::sys::sync::condvar::futex::Condvar::wait", "main"] {
            assert_eq!(waits(other), None, "{other}");
        }
    }

    #[test]
    fn what_words_say() {
        let [alone, free] = [true, false].map(|alone| Taken { alone, readers: 0 });
        let readers = |readers| Taken { alone: false, readers };
        assert_eq!([0, 1, 2].map(|word| Layout::Word.taken(word)), [free, alone, alone]);
        assert_eq!([2, 3].map(|word| Layout::Byte.taken(word)), [free, alone]);
        assert_eq!(
            [WRITERS_WAIT, WRITERS_WAIT | 2, COUNT].map(|word| Layout::Counted.taken(word)),
            [free, readers(2), alone]
        );
        assert_eq!([0b11, 0x23, WRITER].map(|word| Layout::Wide.taken(word)), [free, readers(2), alone]);
    }

    #[test]
    fn who_reads_is_who_has_not_ceased() {
        let place = |tid, position| Place { tid: Tid(tid), interval: IntervalNo(0), position: Position(position) };
        let readers = |readers| Taken { alone: false, readers };
        // Thread 1 reads, ceases and reads again; thread 2 reads and ceases. The last change comes first.
        let mut back = Back::default();
        for (tid, at, before, after) in [(2, 5, 2, 1), (1, 4, 1, 2), (1, 3, 2, 1), (2, 2, 1, 2), (1, 1, 0, 1)] {
            back.change(place(tid, at), readers(before), readers(after));
        }
        assert_eq!(back.holders, [Holds { place: place(1, 4), mode: Mode::Reading }]);
    }
}
