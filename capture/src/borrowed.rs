//! Memory that the kernel writes in the place of the program's, while a call waits and other threads have the turn: the program's own gets it when the thread
//! has the turn again, so that memory changes when the log says so.

use crate::kernel::Kernel;
use crate::sys::{self, FUTEX, MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::table;

/// Where it lies, each thread's behind the one before.
const AT: u64 = 0x1105_0000_0000;
/// Most bytes of a thread's: longer buffers the kernel writes itself, while nobody else has the turn.
const MOST: u64 = 64 << 20;
/// More than this is given back behind the call.
const KEPT: u64 = 1 << 20;
const MADV_DONTNEED: u64 = 4;
/// Most buffers of a call.
const BUFFERS: usize = 64;
/// Bytes of `struct iovec`, and of a message header (`struct msghdr`).
const BUFFER: u64 = 16;
const MESSAGE: u64 = 56;

/// All calls that wait and say by their result how much they have written have room for as much as this argument says.
const ROOM: usize = 2;
const WORD: usize = 8;

/// A thread's, and what of it the call has that it makes.
pub struct Borrowed {
    at: u64,
    used: u64,
    pairs: [Pair; BUFFERS],
    count: usize,
}

/// How what the kernel has written comes to the program.
#[derive(Clone, Copy)]
enum How {
    /// Where it differs from what was there before, of which this is a copy.
    Changed(u64),
    /// As much as the result says, times this, in the order of the buffers.
    Result(u64),
}

/// A buffer of the program's, ours in its place, and bytes of both.
#[derive(Clone, Copy)]
struct Pair {
    program: u64,
    ours: u64,
    bytes: u64,
    how: How,
}

impl Borrowed {
    pub const fn new() -> Self {
        let none = Pair { program: 0, ours: 0, bytes: 0, how: How::Result(1) };
        Self { at: 0, used: 0, pairs: [none; BUFFERS], count: 0 }
    }

    /// Takes so many bytes of it.
    fn take(&mut self, index: u32, bytes: u64) -> Option<u64> {
        if self.at == 0 {
            let (at, flags) =
                (AT + u64::from(index) * MOST, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | sys::MAP_NORESERVE);
            // SAFETY: nobody else's memory.
            let made = unsafe { sys::call(sys::MMAP, [at, MOST, PROT_READ | PROT_WRITE, flags, u64::MAX, 0]) };
            self.at = u64::try_from(made).ok()?;
        }
        let at = self.at + self.used;
        let used = self.used.checked_add(bytes)?.checked_next_multiple_of(16)?;
        self.used = used;
        (used <= MOST).then_some(at)
    }

    /// The call is over.
    fn give_back(&mut self) {
        if self.used > KEPT {
            // SAFETY: memory of this program's, of which nothing is needed any more.
            unsafe { sys::call3(sys::MADVISE, self.at, MOST, MADV_DONTNEED) };
        }
        (self.used, self.count) = (0, 0);
    }

    /// The thread ends.
    pub fn end(&mut self) {
        if self.at != 0 {
            // SAFETY: memory of this program's, of which nothing is needed any more.
            unsafe { sys::call3(sys::MUNMAP, self.at, MOST, 0) };
        }
        *self = Self::new();
    }

    /// The arguments of a call that may wait, with buffers of ours in the place of all that it writes by the table; none where it is to keep the turn.
    pub fn lend(&mut self, index: u32, number: u64, args: &[u64; 6]) -> Option<[u64; 6]> {
        let writes = match number {
            // Those that write wait not.
            FUTEX => &[],
            _ => table::of(number)?.writes?,
        };
        let mut given = *args;
        let all = writes.iter().filter(|(argument, _)| args[*argument] != 0).try_for_each(|(argument, kernel)| {
            let kernel = if number == sys::IOCTL { Kernel::Bytes(table::ioctl(args[1])?) } else { *kernel };
            given[*argument] = self.place(index, args, *argument, kernel)?;
            Some(())
        });
        if all.is_none() {
            self.give_back();
        }
        all.map(|()| given)
    }

    /// What the kernel gets in the place of an argument behind which it writes so.
    fn place(&mut self, index: u32, args: &[u64; 6], argument: usize, kernel: Kernel) -> Option<u64> {
        let at = args[argument];
        // Most of them are `int`.
        let count = |of: usize| u64::from(args[of] as u32);
        let bytes = match kernel {
            Kernel::Bytes(bytes) | Kernel::Counted(_, bytes) => bytes,
            Kernel::Arg(of, times) => args[of].checked_mul(times)?,
            Kernel::Each { count: of, size, .. } => count(of) * size,
            Kernel::Descriptors(of) => count(of).div_ceil(64) * 8,
            Kernel::Command(of, known) => {
                known.iter().find(|(command, _)| *command == args[of]).map_or(0, |(_, bytes)| *bytes)
            }
            Kernel::Result(times) => return self.of_result(index, at, args[ROOM].checked_mul(times)?, times),
            Kernel::Vector(of) => return self.vector(index, at, args[of]),
            Kernel::Message => return self.message(index, at),
            Kernel::ResultBehind(_) | Kernel::Messages(_) => return None,
        };
        if bytes == 0 { Some(at) } else { self.changed(index, at, bytes) }
    }

    /// Ours in the place of what the kernel reads and writes; the program's own where that is not there.
    fn changed(&mut self, index: u32, at: u64, bytes: u64) -> Option<u64> {
        let [ours, before] = [self.take(index, bytes)?, self.take(index, bytes)?];
        // SAFETY: room for so many bytes.
        let there = unsafe { sys::copy(ours as *mut u8, at, bytes as usize) };
        // SAFETY: the same.
        unsafe { sys::copy(before as *mut u8, ours, there) };
        self.add(Pair { program: at, ours, bytes: there as u64, how: How::Changed(before) })?;
        Some(if there == 0 { at } else { ours })
    }

    fn of_result(&mut self, index: u32, at: u64, bytes: u64, times: u64) -> Option<u64> {
        let ours = self.take(index, bytes)?;
        self.add(Pair { program: at, ours, bytes, how: How::Result(times) })?;
        // The kernel is the one to say that there is no memory.
        let is_there = bytes == 0 || sys::read::<1>(at).is_some() && sys::read::<1>(at + bytes - 1).is_some();
        is_there.then_some(ours)
    }

    fn vector(&mut self, index: u32, at: u64, count: u64) -> Option<u64> {
        let count = (count <= BUFFERS as u64).then_some(count)?;
        let list = self.take(index, count * BUFFER)?;
        for element in (0..count).map(|i| i * BUFFER) {
            let [from, bytes] = [sys::read_word(at + element)?, sys::read_word(at + element + 8)?];
            let ours = self.of_result(index, from, bytes, 1)?;
            sys::write(list + element, [ours, bytes].map(u64::to_le_bytes).as_flattened());
        }
        Some(list)
    }

    fn message(&mut self, index: u32, at: u64) -> Option<u64> {
        let ours = self.take(index, MESSAGE)?;
        let before = self.take(index, MESSAGE)?;
        let header = sys::read::<{ MESSAGE as usize }>(at)?;
        let field = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| header[at + i]));
        let mut given = header;
        let mut set = |at: usize, value: u64| given[at..at + 8].copy_from_slice(&value.to_le_bytes());
        if field(0) != 0 {
            set(0, self.changed(index, field(0), field(8) & 0xffff_ffff)?);
        }
        set(16, self.vector(index, field(16), field(24))?);
        if field(32) != 0 {
            set(32, self.changed(index, field(32), field(40))?);
        }
        // What is written back is what the kernel changes, and so no pointer.
        sys::write(ours, &given);
        sys::write(before, &given);
        self.add(Pair { program: at, ours, bytes: MESSAGE, how: How::Changed(before) })?;
        Some(ours)
    }

    /// The program's memory gets what the kernel has written, if it has written anything: with this result.
    pub fn write_back(&mut self, result: Option<i64>) {
        let mut left = result.and_then(|result| u64::try_from(result).ok()).unwrap_or(0);
        for pair in self.pairs[..self.count].iter().filter(|_| result.is_some()) {
            match pair.how {
                How::Changed(before) => write_changed(pair, before),
                How::Result(times) => {
                    let bytes = left.saturating_mul(times).min(pair.bytes);
                    left -= bytes / times;
                    // SAFETY: the program's memory, which it has asked to have written.
                    unsafe { sys::copy(pair.program as *mut u8, pair.ours, bytes as usize) };
                }
            }
        }
        self.give_back();
    }

    fn add(&mut self, pair: Pair) -> Option<()> {
        *self.pairs.get_mut(self.count)? = pair;
        self.count += 1;
        Some(())
    }
}

/// Writes what differs from what was there before, in words and a rest of bytes.
fn write_changed(pair: &Pair, before: u64) {
    // SAFETY: memory of this program's, which nobody else has.
    let [now, then] =
        [pair.ours, before].map(|from| unsafe { core::slice::from_raw_parts(from as *const u8, pair.bytes as usize) });
    let mut at = 0;
    while at < now.len() {
        let len = if now.len() - at >= WORD { WORD } else { 1 };
        if now[at..at + len] != then[at..at + len] {
            sys::write(pair.program + at as u64, &now[at..at + len]);
        }
        at += len;
    }
}
