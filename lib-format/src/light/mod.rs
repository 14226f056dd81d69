//! Light logs (FORMAT.md, "Light logs"): what a program got from outside while it ran natively. `bugnet expand` makes an ordinary log of one.
//!
//! Reading takes a file for a stranger's: each length is checked, and what does not fit is an error with its place.

mod groups;
pub mod layout;
mod memory;
mod parts;
pub mod reach;
mod ring;

pub use groups::{KEPT, begin_together};
pub use memory::{Region, pages, regions};
pub use parts::{Beginning, Parts, compress_full, is_compressed, part_header};
pub use ring::{Ring, is_written, size_of_memory};

use crate::process::Origin;
use crate::types::{Pid, ProcessId};
use layout as l;

/// Name of the folder of light logs in a log.
pub const LIGHT_FOLDER: &str = "light";
/// Name of the folder of mapped files in that.
pub const LIGHT_FILES: &str = "files";

/// What is wrong with a light log, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the light log is damaged at byte {at}: {what}")]
pub struct Damaged {
    /// Offset in the file, in bytes.
    pub at: usize,
    /// What does not fit.
    pub what: &'static str,
}

/// What the file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The process, and the how-many-eth program of its id.
    pub process: ProcessId,
    /// How it began.
    pub how: How,
    /// The process before, if there was one.
    pub from: ProcessId,
    /// Where in the log of the process before the call is that made this one.
    pub call: u32,
    /// When it began: nanoseconds since the Unix epoch.
    pub began: u64,
    /// Bytes in use.
    pub used: usize,
    /// Which part of the process's log the file is.
    pub part: u64,
    /// Bytes of records in the parts before it.
    pub before: usize,
    /// When the part began: nanoseconds since the Unix epoch.
    pub part_began: u64,
    /// Whether the process goes on behind it, without being captured.
    pub went_on: bool,
    /// The group of processes that share memory, by the one that began it.
    pub group: Option<ProcessId>,
    /// Which epoch the part was begun for, by what the clock said; 0 for none.
    pub asked: u64,
}

/// How a process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `bugnet record` started it.
    Started,
    /// It is a fork.
    Forked,
    /// A process executed it.
    Executed,
    /// A child of `vfork` executed it.
    Spawned,
}

impl Header {
    /// Reads it from the first bytes of a file with so many.
    ///
    /// # Errors
    /// It is no light log.
    pub fn read(bytes: &[u8], len: u64) -> Result<Self, Damaged> {
        let field = |at: usize| word(bytes, at).ok_or(Damaged { at, what: "the header is cut off" });
        if field(0)? != l::MAGIC {
            return Err(Damaged { at: 0, what: "this is no light log" });
        }
        let process = |at: usize| field(at).map(|w| ProcessId { pid: Pid(w as u32), program: (w >> 32) as u32 });
        let origin = field(l::ORIGIN)?;
        let how = match origin as u32 {
            l::STARTED => How::Started,
            l::FORKED => How::Forked,
            l::EXECUTED => How::Executed,
            l::SPAWNED => How::Spawned,
            _ => return Err(Damaged { at: l::ORIGIN, what: "no way to begin has this number" }),
        };
        let used = usize::try_from(field(l::USED)?).unwrap_or(usize::MAX);
        if used < l::HEADER || used as u64 > len {
            return Err(Damaged { at: l::USED, what: "more is in use than there is" });
        }
        let group = Some(process(l::GROUP)?).filter(|group| group.pid.0 != 0);
        let (process, from) = (process(l::PROCESS)?, process(l::FROM)?);
        Ok(Self {
            process,
            how,
            from,
            call: (origin >> 32) as u32,
            began: field(l::BEGAN)?,
            used,
            part: field(l::PART_NUMBER)?,
            before: usize::try_from(field(l::BEFORE)?).unwrap_or(usize::MAX),
            part_began: field(l::PART_BEGAN)?,
            went_on: field(l::WENT_ON)? != 0,
            group,
            asked: field(l::ASKED)?,
        })
    }

    /// The origin of the process in an ordinary log; `code_pages` of a fork are its own affair.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let from = self.from;
        match self.how {
            How::Started => Origin::Start,
            How::Forked => Origin::Fork { from, code_pages: 0 },
            How::Executed => Origin::Exec { from },
            How::Spawned => Origin::Spawn { from },
        }
    }
}

/// What tells a mapped file from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey(pub [u64; 4]);

impl FileKey {
    /// Its name in the folder of mapped files.
    #[must_use]
    pub fn name(&self) -> String {
        let [device, inode, size, changed] = self.0;
        format!("{device:x}-{inode:x}-{size:x}-{changed:x}")
    }
}

/// Memory that a call took, or that the kernel wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its address.
    pub address: u64,
    /// What was there when the call was over.
    pub bytes: &'a [u8],
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// Its result.
    pub result: i64,
    /// Hash of what it sent ([`layout::hash`]).
    pub sent: u64,
    /// Whether it wrote to standard output (1), error (2) or neither of them (0).
    pub stream: u8,
    /// What it took, where that is kept: what arguments point at, of long buffers the start. Of what went to standard output and error, all, as the
    /// first pieces. A byte of it that lies in `written`, too, is the kernel's.
    pub taken: Vec<Piece<'a>>,
    /// What the kernel wrote, in order.
    pub written: Vec<Piece<'a>>,
}

impl<'a> Call<'a> {
    /// Whether the log has all that it wrote to standard output or error.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.stream == 0 || self.output().map(<[u8]>::len).sum::<usize>() as i64 == self.result.max(0)
    }

    /// What it wrote to standard output or error.
    pub fn output(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut left = if self.stream == 0 { 0 } else { usize::try_from(self.result).unwrap_or(0) };
        self.taken.iter().map_while(move |piece| {
            let bytes = &piece.bytes[..piece.bytes.len().min(left)];
            left -= bytes.len();
            (!bytes.is_empty()).then_some(bytes)
        })
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// What is executed: path of its ELF file, its name, arguments.
    Program(Vec<&'a [u8]>),
    /// Memory that is there at the start.
    Map {
        /// Where.
        address: u64,
        /// How many bytes.
        len: u64,
        /// The file that is mapped there, and its path, if it is one.
        file: Option<(FileKey, &'a [u8])>,
    },
    /// The program begins.
    Start {
        /// At this instruction.
        entry: u64,
        /// With this stack pointer.
        stack: u64,
        /// Its break.
        heap: u64,
        /// State components that XGETBV tells it of.
        components: u64,
        /// Which descriptors are standard output and error, as `1=1,2=2,-`.
        streams: &'a [u8],
    },
    /// The file that the next call maps.
    File {
        /// The log's name of it.
        key: FileKey,
        /// What tells the memory from other one, in all processes that have it; 0 where it is the process's alone, or nobody can write it.
        memory: u64,
        /// Its path.
        path: &'a [u8],
    },
    /// A system call is over.
    Call(Call<'a>),
    /// An instruction whose result comes from the processor.
    Special {
        /// Which: [`layout::RDTSC`], [`layout::RDTSCP`], [`layout::CPUID`].
        kind: u16,
        /// Its address.
        at: u64,
        /// EAX, EBX, ECX, EDX.
        values: [u64; 4],
    },
    /// The moment at which the next record's signal is delivered.
    Moment {
        /// R8 to R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP, RIP, flags.
        registers: [u64; 18],
        /// Addresses of lines of memory, and digests of what they have ([`reach::digest`]).
        lines: Vec<(u64, u32)>,
    },
    /// A signal is delivered.
    Signal {
        /// Its number.
        number: u16,
        /// Whether the instruction at which the thread is has raised it.
        raised: bool,
        /// R8 to R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP, RIP, flags of the handler's first instruction.
        registers: [u64; 18],
        /// What the kernel puts on the handler's stack.
        frame: Piece<'a>,
    },
    /// Another thread goes on, with this id; it does what comes behind.
    Turn {
        /// Its id.
        thread: u32,
        /// The turn's number among those of the processes that share memory: each one has the next.
        number: u32,
    },
    /// An epoch begins, at which an expansion can. Its threads follow, the one first that goes on.
    Epoch {
        /// The break.
        heap: u64,
        /// The number of the turn.
        turn: u32,
        /// The number of the part that it begins.
        part: u64,
        /// Which descriptors are standard output and error, as in `Start`.
        streams: &'a [u8],
    },
    /// A thread where an epoch begins.
    Thread(Box<ThreadState<'a>>),
    /// Nothing comes behind it.
    End(End<'a>),
}

/// A thread's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadState<'a> {
    /// Its id.
    pub thread: u32,
    /// Whether it has not begun yet.
    pub is_new: bool,
    /// Base of FS.
    pub fs: u64,
    /// Base of GS.
    pub gs: u64,
    /// R8 to R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP, RIP, flags.
    pub registers: [u64; 18],
    /// x87 and vector state, as XSAVE has it ([`layout::STATE`]).
    pub state: &'a [u8],
}

/// A call that does not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished<'a> {
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// What it took, as [`Call::taken`].
    pub taken: Vec<Piece<'a>>,
}

/// How a light log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// The process exits by this call, whose first argument is the status.
    Exits(Unfinished<'a>),
    /// The instruction at which it is kills it, by this signal.
    Dies(u64),
    /// A signal comes to it at a call, which is not made or does not return.
    DiesInCall {
        /// The signal.
        signal: u64,
        /// How it was sent (`si_code`).
        code: i32,
        /// The call.
        call: Unfinished<'a>,
    },
    /// A signal kills it, behind the call, or at the moment, before.
    Killed {
        /// The signal.
        signal: u64,
        /// How it was sent (`si_code`).
        code: i32,
    },
    /// It executes another program, by this call.
    Executes(Unfinished<'a>),
    /// It goes on without being captured.
    GoesOn {
        /// For this reason.
        why: &'a [u8],
        /// Whether it is not known what the thread did since the record before.
        is_lost: bool,
    },
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
}

/// A record's body, read from its start.
struct Body<'a> {
    bytes: &'a [u8],
    at: usize,
    start: usize,
}

impl<'a> Body<'a> {
    fn wrong<T>(&self, what: &'static str) -> Result<T, Damaged> {
        Err(Damaged { at: self.start + self.at, what })
    }

    fn word(&mut self) -> Result<u64, Damaged> {
        let Some(found) = word(self.bytes, self.at) else { return self.wrong("a record is cut off") };
        self.at += 8;
        Ok(found)
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N], Damaged> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word()?;
        }
        Ok(words)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Damaged> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let Some(found) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return self.wrong("a record is shorter than it says");
        };
        self.at = (self.at + found.len()).next_multiple_of(8);
        Ok(found)
    }

    fn piece(&mut self) -> Result<Piece<'a>, Damaged> {
        let [address, len] = self.words()?;
        Ok(Piece { address, bytes: self.take(len)? })
    }

    /// All that come.
    fn pieces(&mut self) -> Result<Vec<Piece<'a>>, Damaged> {
        let mut pieces = Vec::new();
        while self.at < self.bytes.len() {
            pieces.push(self.piece()?);
        }
        Ok(pieces)
    }

    fn unfinished(&mut self) -> Result<Unfinished<'a>, Damaged> {
        Ok(Unfinished { number: self.word()?, args: self.words()?, taken: self.pieces()? })
    }

    fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }
}

/// Reads the record at an offset; returns it with the next one's. `None` at the end of what is in use.
///
/// # Errors
/// It is damaged.
pub fn record(bytes: &[u8], at: usize) -> Result<Option<(Record<'_>, usize)>, Damaged> {
    let Some(head) = word(bytes, at) else { return Ok(None) };
    let (len, kind, number_in_head) = (head as u32 as usize, (head >> 32) as u16, (head >> 48) as u16);
    let body =
        (len >= l::HEAD && len.is_multiple_of(8)).then(|| bytes.get(at + l::HEAD..at.checked_add(len)?)).flatten();
    let Some(body) = body else { return Err(Damaged { at, what: "a record has no such length" }) };
    let mut body = Body { bytes: body, at: 0, start: at + l::HEAD };
    let record = match kind {
        l::PROGRAM => {
            let mut texts: Vec<&[u8]> = body.rest().split(|b| *b == 0).collect();
            // Behind the last one's end, the record is filled up.
            while texts.last().is_some_and(|text| text.is_empty()) && texts.len() > 2 {
                texts.pop();
            }
            Record::Program(texts)
        }
        l::MAP => {
            let [address, len, _protection, source, _offset] = body.words()?;
            let key = FileKey(body.words()?);
            let path = body.rest();
            let path = path.split(|b| *b == 0).next().unwrap_or_default();
            Record::Map { address, len, file: (source == l::OF_FILE).then_some((key, path)) }
        }
        l::START => {
            let [entry, stack, heap, components] = body.words()?;
            let len = body.word()?;
            Record::Start { entry, stack, heap, components, streams: body.take(len)? }
        }
        l::FILE => {
            let key = FileKey(body.words()?);
            let [memory, len] = body.words()?;
            Record::File { key, memory, path: body.take(len)? }
        }
        l::CALL => {
            let number = body.word()?;
            let args = body.words()?;
            let [result, sent] = body.words()?;
            let (count, stream) = l::of_taken(number_in_head);
            let taken = (0..count).map(|_| body.piece()).collect::<Result<_, Damaged>>()?;
            let written = body.pieces()?;
            Record::Call(Call { number, args, result: result.cast_signed(), sent, stream, taken, written })
        }
        l::SPECIAL => {
            let at = body.word()?;
            Record::Special { kind: number_in_head, at, values: body.words()? }
        }
        l::MOMENT => {
            let registers = body.words()?;
            let count = body.word()?;
            if count > reach::MOST as u64 {
                return body.wrong("a moment has more lines than it can have");
            }
            let line = |body: &mut Body| Ok((body.word()?, body.word()? as u32));
            let lines = (0..count).map(|_| line(&mut body)).collect::<Result<_, Damaged>>()?;
            Record::Moment { registers, lines }
        }
        l::SIGNAL => {
            let raised = body.word()? == l::BY_FAULT;
            Record::Signal { number: number_in_head, raised, registers: body.words()?, frame: body.piece()? }
        }
        l::TURN => Record::Turn { thread: body.word()? as u32, number: body.word()? as u32 },
        l::EPOCH => {
            let [heap, turn, part, len] = body.words()?;
            Record::Epoch { heap, turn: turn as u32, part, streams: body.take(len)? }
        }
        l::THREAD => {
            let [thread, fs, gs] = body.words()?;
            let registers = body.words()?;
            let state = body.take(l::STATE as u64)?;
            let (thread, is_new) = (thread as u32, number_in_head == l::NEW);
            Record::Thread(Box::new(ThreadState { thread, is_new, fs, gs, registers, state }))
        }
        l::END => {
            let value = body.word()?;
            Record::End(match number_in_head {
                l::EXITS => End::Exits(body.unfinished()?),
                l::DIES => End::Dies(value),
                l::DIES_IN_CALL => {
                    End::DiesInCall { signal: value, code: body.word()? as i32, call: body.unfinished()? }
                }
                l::KILLED => End::Killed { signal: value, code: body.word()? as i32 },
                l::EXECUTES => End::Executes(body.unfinished()?),
                l::GOES_ON | l::LOST => End::GoesOn { why: body.take(value)?, is_lost: number_in_head == l::LOST },
                _ => return body.wrong("no end has this number"),
            })
        }
        _ => return Err(Damaged { at, what: "no record has this kind" }),
    };
    Ok(Some((record, at + len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(records: &[(u16, u16, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![0; l::HEADER];
        for (kind, number, body) in records {
            let len = (l::HEAD + body.len()).next_multiple_of(8);
            bytes.extend((len as u64 | u64::from(*kind) << 32 | u64::from(*number) << 48).to_le_bytes());
            bytes.extend(body);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let used = bytes.len() as u64;
        bytes[..8].copy_from_slice(&l::MAGIC.to_le_bytes());
        bytes[l::USED..l::USED + 8].copy_from_slice(&used.to_le_bytes());
        bytes
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn calls_have_what_was_written() {
        let mut body = words(&[0, 3, 0x1000, 5, 0, 0, 0, 5, 99, 0x2000, 2]);
        body.extend(b"/a\0\0\0\0\0\0");
        body.extend(words(&[0x1000, 5]));
        body.extend(b"hello");
        let bytes = file(&[(l::CALL, l::taken(1, 2), body), (l::END, l::EXITS, words(&[7, 231, 7, 0, 0, 0, 0, 0]))]);
        let (found, next) = record(&bytes, l::HEADER).unwrap().unwrap();
        let taken = vec![Piece { address: 0x2000, bytes: b"/a" }];
        let written = vec![Piece { address: 0x1000, bytes: b"hello" }];
        let call = Call { number: 0, args: [3, 0x1000, 5, 0, 0, 0], result: 5, sent: 99, stream: 2, taken, written };
        assert_eq!(found, Record::Call(call));
        let (found, next) = record(&bytes, next).unwrap().unwrap();
        let exit = Unfinished { number: 231, args: [7, 0, 0, 0, 0, 0], taken: Vec::new() };
        assert_eq!(found, Record::End(End::Exits(exit)));
        assert_eq!(record(&bytes, next), Ok(None));
    }

    /// Whatever is cut off or changed is an error or another record, and nothing else.
    #[test]
    fn damaged_logs_are_told() {
        let mut body = words(&[0, 3, 0x1000, 5, 0, 0, 0, 5, 99, 0x1000, 5]);
        body.extend(b"hello");
        let frame = [&words(&[0; 19])[..], &words(&[0x7000, 8, 1])].concat();
        let whole = file(&[
            (l::PROGRAM, 0, b"/bin/true\0true\0true\0".to_vec()),
            (l::MAP, 0, words(&[0; 9])),
            (l::START, 0, words(&[1, 2, 3, 4, 0])),
            (l::FILE, 0, words(&[1, 2, 3, 4, 7, 0])),
            (l::CALL, l::taken(1, 0), body),
            (l::SPECIAL, 1, words(&[0; 5])),
            (l::SIGNAL, 14, frame),
            (l::END, l::GOES_ON, words(&[0])),
        ]);
        let read = |bytes: &[u8]| {
            let mut at = l::HEADER;
            let mut count = 0;
            while let Ok(Some((_, next))) = record(bytes, at) {
                assert!(next > at);
                at = next;
                count += 1;
            }
            count
        };
        assert_eq!(read(&whole), 8);
        for len in 0..whole.len() {
            assert!(Header::read(&whole[..len], len as u64).is_err());
            assert!(read(&whole[..len]) < 8 || len == whole.len());
        }
        for at in 0..whole.len() {
            for bit in [0, 3, 7] {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                let _ = (Header::read(&changed, changed.len() as u64), read(&changed));
            }
        }
    }
}
