//! How a light log lies in its file (FORMAT.md, "Light logs"). Numbers only: the program that captures has no standard library, and includes this file.

/// Folder, in that of light logs, of what logs share, as long as programs are captured; a link to one that is no log's.
pub const SHARED: &str = "shared";
/// Copies of files in it.
pub const SHARED_FILES: &str = "shared/files";
/// What is known of files' code: offsets of CPUID instructions (u64 each).
pub const SHARED_PLACES: &str = "shared/places";

/// First 8 bytes of a file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"BNLIGHT\x07");
/// Bytes of a file's header: magic; process id and number of the program; those of the process that it came from; how; which of its forks; when (nanoseconds
/// since the Unix epoch); bytes of the file in use; which part of the process's log it is; whether the process goes on behind it; bytes of records in the
/// parts before; when the part began; the group of processes that share memory; which epoch was asked for. All in little-endian order.
pub const HEADER: usize = 96;
/// Where in the header the fields are.
pub const PROCESS: usize = 8;
/// The process before: id and number of the program.
pub const FROM: usize = 16;
/// How it began, and by which call of the process before.
pub const ORIGIN: usize = 24;
/// When it began.
pub const BEGAN: usize = 32;
/// How many bytes are in use; what is behind them is not written yet, or half.
pub const USED: usize = 40;
/// Which part of the process's log the file is, from 0 on.
pub const PART_NUMBER: usize = 48;
/// 1 where an `END` says that the process goes on without being captured.
pub const WENT_ON: usize = 56;
/// Bytes of records in the parts before, whether those are there or not.
pub const BEFORE: usize = 64;
/// When the part began: nanoseconds since the Unix epoch.
pub const PART_BEGAN: usize = 72;
/// The process that first shared memory with one that it made: id and number of the program; of all those that have it from there. 0: the process shares none.
pub const GROUP: usize = 80;
/// What the clock said that asked for the epoch which begins with the part; 0 where the part before was full. Without a list of memory, there was none.
pub const ASKED: usize = 88;

/// `ORIGIN`: `bugnet record` started it.
pub const STARTED: u32 = 0;
/// It is a fork.
pub const FORKED: u32 = 1;
/// It was executed by a process.
pub const EXECUTED: u32 = 2;
/// It was executed by a child of `vfork`.
pub const SPAWNED: u32 = 3;

/// Bytes of a file, unless a single record needs more. Longer logs go on in the next one, which begins with a header of its own.
pub const PART: usize = 64 << 20;

/// A record's head: its length in bytes with the head, a multiple of 8; its kind; a number that depends on that.
pub const HEAD: usize = 8;

/// What is executed: the path of its ELF file, its name, each followed by a zero byte, and the arguments, likewise.
pub const PROGRAM: u16 = 1;
/// Memory that is there at the start: address, length, protection and flags, source (a number), offset in the file, key of the file (device, inode, size, time of change in nanoseconds), bytes.
pub const MAP: u16 = 2;
/// The first instruction, the stack pointer, the break, state components (XGETBV), and which descriptors are standard output and error: length, text.
pub const START: u16 = 3;
/// A system call: number, six arguments, result, hash of what it sent; then pieces: address, length, bytes, up to a multiple of 8 of them. So many of them as
/// the head says ([`taken`]) are what it took, the others what it wrote.
pub const CALL: u16 = 4;
/// An instruction whose result comes from the processor: which in the head, its address, four results.
pub const SPECIAL: u16 = 5;
/// A signal is delivered: its number in the head; how; the registers of the handler's first instruction; the bytes from its stack pointer on.
pub const SIGNAL: u16 = 6;
/// The file that the next call maps: its key; what tells the memory from other one, in all processes that have it, or 0 where it is the process's alone, or nobody can write it; length and bytes
/// of its path.
pub const FILE: u16 = 7;
/// Nothing comes behind it: how the process ends in the head, a number, a sentence.
pub const END: u16 = 8;

/// A moment between two calls, at which the next record's signal was delivered: 18 registers, as in `SIGNAL`; the number of lines of memory; and for each
/// its address, and a digest of its 64 bytes.
pub const MOMENT: u16 = 9;

/// Another thread goes on: its id. What comes from here on is its own. A thread before its first one, which is that of the process, or of those that `clone`
/// made, is behind the call that made it.
pub const TURN: u16 = 10;

/// An epoch begins, as the first record of a part: the break; the number of the turn; that of the part; what of the program's threads there is (`THREAD`) follows, the one first that
/// goes on; which descriptors are standard output and error: length, text. An expansion can begin here, if the memory is there ([`SNAPSHOT`]).
pub const EPOCH: u16 = 11;
/// A thread where an epoch begins: whether it has begun, in the head; its id; bases of FS and GS; 18 registers, as in `SIGNAL`; x87 and vector state, [`STATE`] bytes as XSAVE puts them into memory.
pub const THREAD: u16 = 12;
/// `THREAD`: it has not begun yet.
pub const NEW: u16 = 1;
/// Bytes of x87 and vector state: what FXSAVE writes, a header of 64 bytes whose first word says which components are there, upper halves of YMM0 to YMM15.
pub const STATE: usize = 832;

/// In the log that is made of a light one, intervals of an epoch have numbers from so many times its part's on.
pub const INTERVALS: u64 = 10_000;
/// How the name of a file with the memory at an epoch ends, behind that of its part.
pub const SNAPSHOT: &str = ".memory";
/// How that of one ends that is not whole, behind that; it begins with the id of the process that writes it.
pub const UNFINISHED: &str = ".new";
/// How that of the file with the pages of all of a program's epochs ends.
pub const PAGES: &str = ".pages";
/// First 8 bytes of a file with memory. Then: bytes of regions; number of pages. Then regions: a word each for their first address, that behind them, protection
/// (1 read, 2 write, 4 execute) and kind ([`SHARED_REGION`], [`STACK_REGION`]), source ([`ZEROS`], [`OF_FILE`]), offset in the file, the file's key (4), bytes of its path; the path, up to a
/// multiple of 8. Then pages, by their addresses: that, and the page's number in the file with pages. What is no page here is as the source has it.
pub const MEMORY_MAGIC: u64 = u64::from_le_bytes(*b"BNMEMORY");
/// Bytes in front of the regions.
pub const MEMORY_HEADER: usize = 24;
/// Words of a region in front of its path.
pub const REGION_WORDS: usize = 10;
/// A region that forks share.
pub const SHARED_REGION: u64 = 8;
/// The source of such a region: memory whose key's first word is the same in all processes that have it. One of them, where they begin an epoch together, lists its pages.
pub const OF_GROUP: u64 = 4;
/// How the name of the folder ends, behind that of a light log that is expanded, in which such memory is, and [`TURNS`].
pub const GROUP_MEMORY: &str = ".shared";
/// Most bytes of memory that processes share: its file has that size from the beginning on, whoever makes it.
pub const MOST_SHARED: u64 = 1 << 36;
/// File in the folder, of processes that begin together: the number of the turn that goes on (u32), and whether one of them does not come to its end (a byte).
pub const TURNS: &str = "turns";
/// Where that byte is.
pub const TURNS_BROKEN: usize = 4;
/// Bytes of the file.
pub const TURNS_SIZE: usize = 4096;
/// The first thread's stack, which grows down.
pub const STACK_REGION: u64 = 16;
/// Bytes of a page.
pub const PAGE: usize = 4096;
/// File, in the folder of light logs, whose first word (u32) changes when processes are to begin an epoch. Without it, they begin none.
pub const CLOCK: &str = "clock";

/// `MAP`: zeros.
pub const ZEROS: u64 = 0;
/// `MAP`: what a file has.
pub const OF_FILE: u64 = 1;
/// `MAP`: the bytes in the record.
pub const BYTES: u64 = 2;
/// `MAP`: the stack, which grows down.
pub const STACK: u64 = 3;

/// `SPECIAL`: RDTSC.
pub const RDTSC: u16 = 0;
/// `SPECIAL`: RDTSCP.
pub const RDTSCP: u16 = 1;
/// `SPECIAL`: CPUID.
pub const CPUID: u16 = 2;

/// `SIGNAL`: at the end of the call before it.
pub const AT_CALL: u64 = 0;
/// `SIGNAL`: at the moment before it.
pub const AT_MOMENT: u64 = 2;
/// `SIGNAL`: by the instruction at which the thread is.
pub const BY_FAULT: u64 = 1;

/// `END`: by `exit_group` or `exit`, with this status; the call's number, and its arguments.
pub const EXITS: u16 = 0;
/// `END`: by a signal, which the instruction at which the thread is has raised.
pub const DIES: u16 = 1;
/// `END`: by executing another program, whose number this is; the call's number, its arguments, and pieces of what it takes.
pub const EXECUTES: u16 = 2;
/// `END`: the process goes on, and is not captured any more; the sentence says why.
pub const GOES_ON: u16 = 3;
/// `END`: the same, and what the thread did since the record before is not known.
pub const LOST: u16 = 6;

/// `END`: by a signal that comes to it at a call, which is not made or does not return: the signal's number and code; the call's number, its arguments,
/// and pieces of what it takes.
pub const DIES_IN_CALL: u16 = 4;

/// `END`: by a signal that somebody sends, behind the call, or at the moment, before: its number and code.
pub const KILLED: u16 = 5;

/// Most bytes of standard output and error that a program's log keeps; of what is more, only the starts of buffers.
pub const OUTPUT: u64 = 16 << 20;

/// The number in a `CALL`'s head: how many pieces are what the call took, and whether it wrote to standard output (1), error (2) or neither of them (0).
#[must_use]
pub const fn taken(pieces: u16, stream: u8) -> u16 {
    pieces << 2 | stream as u16
}

/// Both of them.
#[must_use]
pub const fn of_taken(number: u16) -> (u16, u8) {
    (number >> 2, (number & 3) as u8)
}

/// Result of a call that is made again behind a handler (`ERESTARTSYS`), which no program sees.
pub const MADE_AGAIN: i64 = -512;

/// Goes on with a hash of what a call sends: of bytes in pieces of 4096, each with the state behind the one before. Four lanes do not wait for each other.
#[must_use]
pub fn hash(state: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let (rows, others) = words.as_chunks::<4>();
    let mut lanes = [state, !state, state.rotate_left(16), !state.rotate_left(16)];
    for row in rows {
        for (lane, word) in lanes.iter_mut().zip(row) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let others = others.iter().map(|word| u64::from_le_bytes(*word)).chain(rest.iter().map(|byte| u64::from(*byte)));
    lanes[1..].iter().copied().chain(others).fold(lanes[0], mix) ^ bytes.len() as u64
}
