//! The parts of records that are more than a number: kinds, reasons and register updates.

use super::MAX_TEXT;
use crate::regs::RegisterFile;
use crate::types::Addr;
use crate::wire::{Reader, WireError, put_bytes, put_varint};

/// Which instruction a [`Record::Special`](super::Record::Special) stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum SpecialKind {
    /// `rdtsc`
    Rdtsc = 1,
    /// `rdtscp`
    Rdtscp = 2,
    /// `rdpid`
    Rdpid = 3,
    /// `cpuid`
    Cpuid = 4,
    /// `rdrand`
    Rdrand = 5,
    /// `rdseed`
    Rdseed = 6,
    /// `xgetbv`
    Xgetbv = 7,
    /// `rdpmc`
    Rdpmc = 8,
    /// What descriptor tables hold: `sgdt`, `sidt`, `sldt`, `str`, `smsw`, `lsl`, `lar`, `verr`, `verw`
    SystemTable = 9,
    /// An instruction whose stores depend on more than recorded state (`fxsave`, `xsave`, `fnstenv`, ...): what it
    /// stored stands in [`Record::Memory`](super::Record::Memory) records one position later, where it differs from what replay has there.
    OpaqueStore = 10,
    /// `rdfsbase`, `rdgsbase`, `wrfsbase`, `wrgsbase`
    SegmentBase = 11,
    /// An instruction that the recorder executed itself; what it stored follows as for [`Self::OpaqueStore`].
    Emulated = 12,
}

impl SpecialKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Rdtsc,
        Self::Rdtscp,
        Self::Rdpid,
        Self::Cpuid,
        Self::Rdrand,
        Self::Rdseed,
        Self::Xgetbv,
        Self::Rdpmc,
        Self::SystemTable,
        Self::OpaqueStore,
        Self::SegmentBase,
        Self::Emulated,
    ];

    pub(super) fn from_number(n: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| *k as u8 == n)
    }
}

/// Where a write went that the recorded program made: its original standard output, standard error, or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum OutputStream {
    /// Not one of the two.
    None = 0,
    /// The open file that was descriptor 1 when recording began.
    Stdout = 1,
    /// The open file that was descriptor 2 when recording began.
    Stderr = 2,
}

impl OutputStream {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::None, Self::Stdout, Self::Stderr];

    pub(super) fn from_number(n: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| *s as u8 == n)
    }
}

/// Which way a [`Record::Signal`](super::Record::Signal) goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum SignalStep {
    /// Into a handler, before the instruction at the position, which is not executed now.
    Delivery = 0,
    /// Out of a handler: the instruction at the position is the system call `rt_sigreturn`, which counts as executed.
    Return = 1,
    /// No signal: a child of `vfork` has had the thread (light logs), and its parent goes on in its place, before the instruction at the position, which is not
    /// executed now.
    Resume = 2,
}

impl SignalStep {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Delivery, Self::Return, Self::Resume];

    pub(super) fn from_number(n: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| *s as u8 == n)
    }
}

/// Which accesses a [`Record::Dependency`](super::Record::Dependency) orders: the other thread's, then this thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum DependencyKind {
    /// Read after write.
    Raw = 0,
    /// Write after write.
    Waw = 1,
    /// Write after read.
    War = 2,
    /// This thread's first instruction, after the other thread's system call that created it.
    Birth = 3,
}

impl DependencyKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Waw, Self::War, Self::Birth];

    pub(super) fn from_number(n: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| *k as u8 == n)
    }
}

/// Why an interval ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum EndReason {
    /// The interval is full; the thread's next interval goes on.
    Full,
    /// The thread ended by `exit`, or the process by `exit_group`, with this argument.
    Exit {
        /// The status given to the system call.
        status: i32,
    },
    /// A signal killed the process at this position.
    Signal {
        /// Signal number.
        signo: u32,
        /// `si_code`.
        code: i32,
        /// `si_addr` for faults, else 0.
        addr: Addr,
    },
    /// Exact replay of the thread ends here; the note says why.
    Unsupported {
        /// What could not be recorded.
        why: String,
    },
    /// The log could not be written any further (disk full, for example); the program went on.
    LogStopped {
        /// What went wrong.
        why: String,
    },
    /// The process calls `execve` at this position. If that fails, the thread's next interval begins behind the call.
    Exec,
    /// Another thread ended the process, by `exit_group` or `execve`, or a signal did.
    Terminated,
}

/// New values for some registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RegisterUpdates {
    /// `(register number, value)`, ascending by number: 0 to 15 general purpose in the order of
    /// [`crate::regs::GPR_NAMES`], then the numbers of [`register_number`].
    pub values: Vec<(u8, u64)>,
}

/// Numbers of the registers beside the general purpose ones in [`RegisterUpdates`].
pub mod register_number {
    /// RIP
    pub const RIP: u8 = 16;
    /// RFLAGS
    pub const RFLAGS: u8 = 17;
    /// Base of FS
    pub const FS_BASE: u8 = 18;
    /// Base of GS
    pub const GS_BASE: u8 = 19;
    /// One above the highest register number.
    pub const COUNT: u8 = 20;
}

impl RegisterUpdates {
    /// Sets the listed registers in `regs`.
    pub fn apply(&self, regs: &mut RegisterFile) {
        for &(number, value) in &self.values {
            match number {
                0..16 => regs.gpr[usize::from(number)] = value,
                register_number::RIP => regs.rip = value,
                register_number::RFLAGS => regs.rflags = value,
                register_number::FS_BASE => regs.fs_base = value,
                register_number::GS_BASE => regs.gs_base = value,
                _ => {}
            }
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.values.is_sorted_by(|a, b| a.0 < b.0), "register updates must ascend by number");
        let mask = self.values.iter().fold(0u64, |m, (n, _)| m | 1 << n);
        put_varint(out, mask);
        for (_, value) in &self.values {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let mask = r.varint()?;
        if mask >> register_number::COUNT != 0 {
            return Err(WireError("unknown register number"));
        }
        let mut values = Vec::new();
        for number in 0..register_number::COUNT {
            if mask >> number & 1 == 1 {
                values.push((number, r.u64()?));
            }
        }
        Ok(Self { values })
    }
}

/// Numbers of the reasons, as FORMAT.md lists them.
mod reason {
    pub const FULL: u8 = 0;
    pub const EXIT: u8 = 1;
    pub const SIGNAL: u8 = 2;
    pub const UNSUPPORTED: u8 = 3;
    pub const LOG_STOPPED: u8 = 4;
    pub const EXEC: u8 = 5;
    pub const TERMINATED: u8 = 6;
}

impl EndReason {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Full => out.push(reason::FULL),
            Self::Exit { status } => {
                out.push(reason::EXIT);
                out.extend_from_slice(&status.to_le_bytes());
            }
            Self::Signal { signo, code, addr } => {
                out.push(reason::SIGNAL);
                out.extend_from_slice(&signo.to_le_bytes());
                out.extend_from_slice(&code.to_le_bytes());
                out.extend_from_slice(&addr.0.to_le_bytes());
            }
            Self::Unsupported { why } => {
                out.push(reason::UNSUPPORTED);
                put_bytes(out, why.as_bytes());
            }
            Self::LogStopped { why } => {
                out.push(reason::LOG_STOPPED);
                put_bytes(out, why.as_bytes());
            }
            Self::Exec => out.push(reason::EXEC),
            Self::Terminated => out.push(reason::TERMINATED),
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match r.u8()? {
            reason::FULL => Self::Full,
            reason::EXIT => Self::Exit { status: r.u32()?.cast_signed() },
            reason::SIGNAL => Self::Signal { signo: r.u32()?, code: r.u32()?.cast_signed(), addr: Addr(r.u64()?) },
            reason::UNSUPPORTED => Self::Unsupported { why: text(r)?.to_owned() },
            reason::LOG_STOPPED => Self::LogStopped { why: text(r)?.to_owned() },
            reason::EXEC => Self::Exec,
            reason::TERMINATED => Self::Terminated,
            _ => return Err(WireError("unknown reason of an END")),
        })
    }
}

/// A text of at most [`MAX_TEXT`] bytes.
pub(super) fn text<'a>(r: &mut Reader<'a>) -> Result<&'a str, WireError> {
    std::str::from_utf8(r.bytes(MAX_TEXT)?).map_err(|_| WireError("text is not UTF-8"))
}
