//! One run, to its end.

use crate::calls::Answers;
use crate::confine::ADVICE;
use crate::host::Host;
use crate::set::Set;
use crate::watch::{Then, Watch};
use bugnet_replay::Result;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use std::time::{Duration, Instant};

/// Most bytes of one call to write.
const MOST_WRITTEN: u64 = 16 << 20;
/// Most pieces of one call, as the kernel has it, and most bytes that a run may write in all.
const MOST_PIECES: u64 = libc::UIO_MAXIOV as u64;
const MOST_OUTPUT: usize = 64 << 20;
/// What `mmap` may be told.
const MAP_FLAGS: i32 = libc::MAP_ANONYMOUS
    | libc::MAP_FIXED
    | libc::MAP_FIXED_NOREPLACE
    | libc::MAP_32BIT
    | libc::MAP_GROWSDOWN
    | libc::MAP_STACK;
const PROTECTION: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
/// The bytes of the instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// How often a run may stop, beyond twice the calls that the recorded one made: for a system call, or where it is watched.
const STOPS: u64 = 4_000;
const PAGE: u64 = 4096;

/// What is different in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// Nothing.
    Nothing,
    /// Code, in these places.
    Changes(Vec<Change>),
    /// The way of a jump, once.
    Turn(Turn),
    /// What memory holds.
    Set(Set),
}

/// Code that is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes are others.
    Code {
        /// Where.
        addr: u64,
        /// Those that are there.
        bytes: Vec<u8>,
    },
    /// An instruction that makes a sum makes a difference.
    Difference {
        /// Where it is.
        addr: u64,
        /// How many bytes of instructions before it, of the same line, make room for a jump.
        behind: u8,
    },
}

impl Change {
    /// Where it is.
    #[must_use]
    pub fn addr(&self) -> u64 {
        let (Self::Code { addr, .. } | Self::Difference { addr, .. }) = self;
        *addr
    }
}

/// A conditional jump that goes the other way, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The jump.
    pub addr: u64,
    /// Which of its executions, from 0.
    pub nth: u64,
}

/// How far a run may go, which otherwise goes on to the program's end.
#[derive(Clone, Debug)]
pub struct Until {
    /// For how long it may execute instructions of its own, in processor time.
    pub time: Duration,
    /// It goes on as long as what it writes to its standard output is a beginning of this, if there is this.
    pub output: Option<Vec<u8>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this status.
    Exited(i32),
    /// This signal would kill it, or its handler would run.
    Signal(i32),
    /// It made a system call of which the log has no answer: its number.
    Asked(u64),
    /// It took too long, stopped too often, or wrote too much.
    Late,
    /// It wrote something else than it should have.
    Stopped,
    /// What was to be changed made no difference.
    Same,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// How it ended.
    pub ended: Ended,
    /// The processor time that it took, with what the kernel did for it; where the system does not tell, all time.
    pub took: Duration,
    /// How often it stopped: for a system call, or where it was watched.
    pub stops: u64,
    /// How often what is turned, or before which memory is set, was executed while it was watched.
    pub executions: u64,
}

/// What a system call does here.
enum Does {
    Returns(i64),
    Ends(Ended),
}

struct Run<'a> {
    host: &'a Host,
    watch: Option<&'a mut Watch>,
    answers: Answers,
    heap_end: Option<u64>,
    stdout: Vec<u8>,
}

/// Runs a process on that was made to be what it is at the place.
pub(crate) fn run(
    (host, watch): (&Host, Option<&mut Watch>),
    answers: Answers,
    heap_end: Option<u64>,
    output: Option<&[u8]>,
) -> Result<Outcome> {
    let (begun, most) = (Instant::now(), STOPS + 2 * answers.count());
    let (mut run, mut stops) = (Run { host, watch, answers, heap_end, stdout: Vec::new() }, 0);
    let ended = loop {
        let Some(status) = host.run_to_call()?.filter(|_| stops < most) else { break Ended::Late };
        stops += 1;
        match status {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Stopped(_, signal) => match run.stopped(signal)? {
                Then::GoesOn => continue,
                Then::IsSame => break Ended::Same,
                Then::IsOther => break Ended::Signal(signal as i32),
            },
            WaitStatus::Signaled(_, signal, _) => break Ended::Signal(signal as i32),
            _ => break Ended::Stopped,
        }
        let before = run.stdout.len();
        let mut registers = host.registers()?;
        // Another instruction has other numbers.
        if !registers.rip.checked_sub(2).is_some_and(|at| host.read(at, 2).is_ok_and(|bytes| bytes == SYSCALL)) {
            break Ended::Asked(registers.orig_rax);
        }
        let args = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
        match run.call(registers.orig_rax, &args)? {
            Does::Ends(ended) => break ended,
            Does::Returns(result) => {
                registers.orig_rax = u64::MAX;
                registers.rax = result.cast_unsigned();
                (registers.rcx, registers.r11) = (registers.rip, registers.eflags);
                host.set_registers(registers)?;
            }
        }
        if run.stdout.len() > before && output.is_some_and(|output| !output.starts_with(&run.stdout)) {
            break Ended::Stopped;
        }
        if run.stdout.len() > MOST_OUTPUT {
            break Ended::Late;
        }
    };
    let executions = run.watch.map_or(0, |watch| watch.count());
    let took = host.used().unwrap_or_else(|| begun.elapsed());
    Ok(Outcome { stdout: run.stdout, ended, took, stops, executions })
}

impl Run<'_> {
    /// Does what is to be done where the process has stopped, if that is what stopped it.
    fn stopped(&mut self, signal: Signal) -> Result<Then> {
        match &mut self.watch {
            Some(watch) if signal == Signal::SIGTRAP => watch.stopped(self.host),
            _ => Ok(Then::IsOther),
        }
    }

    fn call(&mut self, number: u64, args: &[u64; 6]) -> Result<Does> {
        let returns = |result: i64| Ok(Does::Returns(result));
        match number.cast_signed() {
            libc::SYS_exit | libc::SYS_exit_group => Ok(Does::Ends(Ended::Exited(args[0] as u8 as i32))),
            libc::SYS_tgkill => Ok(Does::Ends(Ended::Signal(args[2] as i32))),
            libc::SYS_kill => Ok(Does::Ends(Ended::Signal(args[1] as i32))),
            libc::SYS_write if args[0] <= 2 => {
                let bytes = self.bytes(args[1], args[2]);
                Ok(self.writes(number, args, bytes))
            }
            libc::SYS_writev if args[0] <= 2 => {
                let bytes = self.gathered(args[1], args[2]);
                Ok(self.writes(number, args, bytes))
            }
            libc::SYS_brk => {
                let Some(end) = self.heap_end else { return Ok(Does::Ends(Ended::Asked(number))) };
                returns(self.set_break(end, args[0])?)
            }
            libc::SYS_mmap if args[3] & libc::MAP_ANONYMOUS as u64 != 0 => returns(self.map(args)?),
            libc::SYS_munmap => returns(self.changes(libc::SYS_munmap, *args, &[(args[0], args[1])])?),
            libc::SYS_mprotect => {
                let mut args = *args;
                args[2] &= PROTECTION as u64;
                returns(self.changes(libc::SYS_mprotect, args, &[(args[0], args[1])])?)
            }
            libc::SYS_mremap => {
                let is_fixed = args[3] & libc::MREMAP_FIXED as u64 != 0;
                let to = is_fixed.then_some((args[4], args[2]));
                let ranges: Vec<_> = [(args[0], args[1])].into_iter().chain(to).collect();
                returns(self.changes(libc::SYS_mremap, *args, &ranges)?)
            }
            libc::SYS_madvise if ADVICE.contains(&(args[2] as i32)) => {
                returns(self.changes(libc::SYS_madvise, *args, &[(args[0], args[1])])?)
            }
            libc::SYS_madvise => returns(self.answers.next(number, args).map_or(0, |answer| answer.result)),
            libc::SYS_futex => returns(0),
            _ => Ok(match self.answers.next(number, args) {
                Some(answer) => {
                    // A buffer that is not mapped is one that the kernel would have refused.
                    let is_written = answer.written.iter().all(|(addr, bytes)| {
                        !self.host.is_own(*addr, bytes.len() as u64) && self.host.write(*addr, bytes).is_ok()
                    });
                    Does::Returns(if is_written { answer.result } else { -i64::from(libc::EFAULT) })
                }
                None => Does::Ends(Ended::Asked(number)),
            }),
        }
    }

    fn bytes(&self, addr: u64, len: u64) -> Option<Vec<u8>> {
        self.host.read(addr, usize::try_from(len).ok().filter(|_| len <= MOST_WRITTEN)?).ok()
    }

    fn gathered(&self, vector: u64, count: u64) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for pair in self.bytes(vector, Some(count).filter(|count| *count <= MOST_PIECES)? * 16)?.chunks(16) {
            let word = |at: usize| u64::from_le_bytes(pair[at..at + 8].try_into().unwrap_or_default());
            all.extend(self.bytes(word(0), word(8))?);
            if all.len() as u64 > MOST_WRITTEN {
                return None;
            }
        }
        Some(all)
    }

    fn writes(&mut self, number: u64, args: &[u64; 6], bytes: Option<Vec<u8>>) -> Does {
        let Some(bytes) = bytes else { return Does::Returns(-i64::from(libc::EFAULT)) };
        // What it answered in the recorded run is of no use: it may be the number of other bytes.
        let _ = self.answers.next(number, args);
        let len = bytes.len() as i64;
        if args[0] == 1 {
            self.stdout.extend(bytes);
        }
        Does::Returns(len)
    }

    /// Makes a call in the process, which has its own registers again afterwards.
    fn in_host(&self, number: libc::c_long, args: [u64; 6]) -> Result<i64> {
        let registers = self.host.registers()?;
        let result = self.host.call(number, args)?;
        self.host.set_registers(registers)?;
        Ok(result)
    }

    /// Makes a call that changes what these ranges are, unless one of them has what is not the program's.
    fn changes(&self, number: libc::c_long, args: [u64; 6], ranges: &[(u64, u64)]) -> Result<i64> {
        if ranges.iter().any(|(addr, len)| self.host.is_own(*addr, *len)) {
            return Ok(-i64::from(libc::ENOMEM));
        }
        self.in_host(number, args)
    }

    fn map(&mut self, args: &[u64; 6]) -> Result<i64> {
        let [mut addr, len, prot, flags, ..] = *args;
        let is_fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64 != 0;
        if let Some(at) = self.answers.next_map(len).filter(|_| !is_fixed) {
            addr = at;
        }
        // The process has room, or has not: it is not to take what others need. Of memory that it would share with children it has none.
        let flags = flags & MAP_FLAGS as u64 | (libc::MAP_NORESERVE | libc::MAP_PRIVATE) as u64;
        let args = [addr, len, prot & PROTECTION as u64, flags, u64::MAX, 0];
        let fixed = is_fixed.then_some((addr, len));
        self.changes(libc::SYS_mmap, args, fixed.as_slice())
    }

    fn set_break(&mut self, end: u64, wanted: u64) -> Result<i64> {
        let up = |addr: u64| addr.saturating_add(PAGE - 1) & !(PAGE - 1);
        if wanted > end && up(wanted) > up(end) {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let args = [up(end), up(wanted) - up(end), prot as u64, flags as u64, u64::MAX, 0];
            if self.in_host(libc::SYS_mmap, args)? < 0 {
                return Ok(end.cast_signed());
            }
        }
        if wanted != 0 {
            self.heap_end = Some(wanted);
        }
        Ok(self.heap_end.unwrap_or(end).cast_signed())
    }
}
