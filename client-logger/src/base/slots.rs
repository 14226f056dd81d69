//! Thread-local words that instrumented code and the client share.

use bugnet_dr::ir::{Gpr, Opnd, Segment};
use bugnet_dr::thread::Slots;
use std::sync::OnceLock;

/// Slots of raw thread-local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Value of a general purpose register while the instrumentation uses the register.
    Spill(Gpr),
    /// RAX with the arithmetic flags in AH and AL, as `lahf; seto al` make it.
    Flags,
    /// RAX while flags are moved.
    Rax,
    /// One of the [counters](crate::emitted::counter) of instructions until the next threshold, by its number.
    Left(u8),
    /// The calling thread, which begins with its [`Bases`](crate::base::fs_base::Bases).
    Thread,
    /// Address of the system call instruction that is being executed.
    SyscallPc,
    /// Key of a shadow at `address xor key`, or zero.
    Key,
    /// Distance of a shadow at a distance, or zero.
    Distance,
    /// The code picture that the thread's log has, as a [`bugnet_format::types::CodeSeq`]; 4 bytes. 0 while blocks are to stop at
    /// their start: see [`crate::picture::peer`].
    CodeSeq,
    /// The same if the thread's shadow is at a distance, else 0; 4 bytes.
    CodeSeqByFs,
    /// A difference while its sign is looked at.
    Difference,
    /// Start of the thread's [`crate::picture::coherence::Permissions`].
    Permissions,
    /// What a callout has to tell the code behind it.
    Outcome,
    /// Address at which all callouts go on.
    Entry,
    /// Where the code cache goes on behind a callout.
    Return,
    /// Behind an instruction that was executed in a callout: the complement of the address that could not be read, or 0.
    ReadFault,
    /// The same of one that could not be written.
    WriteFault,
    /// What signal handlers need of the calling thread.
    Signals,
    /// What the thread is to [locks](crate::base::lock).
    #[cfg_attr(test, expect(dead_code, reason = "tests have no slots"))]
    Holder,
    /// Where the thread goes on if the recorder fails; null in a callout. See [`crate::base::failure`].
    Refuge,
}

/// Sets the base of the program's FS or GS in the calling thread, in the word from which instrumented code, DynamoRIO's own and ours, takes it.
/// `false` if there is no such word.
pub fn set_segment_base(segment: Segment, base: u64) -> bool {
    let Some(word) = slots().base_of(segment) else { return false };
    // SAFETY: a word of the calling thread's, as DynamoRIO says.
    unsafe { *word = base };
    true
}

/// How many counters there are.
pub const COUNTERS: usize = 8;
/// How many there are.
pub const SLOTS: u32 = SIGNALS + 3;
/// The counters come behind what blocks use.
const FIRST_COUNTER: u32 = 31;
const SIGNALS: u32 = FIRST_COUNTER + COUNTERS as u32;

impl Slot {
    /// The first of all.
    pub const FIRST: Self = Self::Spill(Gpr::RAX);

    /// Whether there are any yet. In tests there are none.
    pub fn are_there() -> bool {
        !cfg!(test) && SLOTS_OF_THREADS.get().is_some()
    }

    fn index(self) -> u32 {
        match self {
            Self::Spill(reg) => u32::from(reg.0),
            Self::Flags => 16,
            Self::Rax => 17,
            Self::CodeSeqByFs => 18,
            Self::Thread => 19,
            Self::SyscallPc => 20,
            Self::Key => 21,
            Self::CodeSeq => 22,
            Self::Difference => 23,
            Self::Permissions => 24,
            Self::Outcome => 25,
            Self::Entry => 26,
            Self::Return => 27,
            Self::ReadFault => 28,
            Self::WriteFault => 29,
            Self::Distance => 30,
            Self::Signals => SIGNALS,
            Self::Holder => SIGNALS + 1,
            Self::Refuge => SIGNALS + 2,
            Self::Left(number) => FIRST_COUNTER + u32::from(number),
        }
    }

    /// Offset from the segment's base.
    pub fn offset(self) -> u32 {
        slots().offset() + 8 * self.index()
    }

    /// The arithmetic flags that the calling thread's [`Self::Flags`] holds, as bits of RFLAGS.
    pub fn read_flags() -> u64 {
        let [overflow, others, ..] = Self::Flags.read().to_le_bytes();
        u64::from(others) & 0xd5 | u64::from(overflow) << 11
    }

    /// The slot as a memory operand of `bytes`.
    pub fn opnd(self, bytes: u32) -> Opnd {
        slots().opnd(self.offset(), bytes)
    }

    /// Where blocks put the [number](crate::emitted::branches::number) of the indirect branch that they end with: beside
    /// [`Self::CodeSeqByFs`], which has 4 bytes.
    pub fn branch() -> Opnd {
        Self::CodeSeqByFs.upper_half()
    }

    /// The number of the calling thread's last indirect branch.
    pub fn last_branch() -> u32 {
        (Self::CodeSeqByFs.read() >> 32) as u32
    }

    /// The upper 4 bytes of the slot.
    pub fn upper_half(self) -> Opnd {
        slots().opnd(self.offset() + 4, 4)
    }

    /// The calling thread's value.
    pub fn read(self) -> u64 {
        let value;
        // SAFETY: a word of the calling thread's, relative to the segment that DynamoRIO keeps for such words.
        unsafe {
            std::arch::asm!(
                "mov {value}, gs:[{offset}]",
                value = out(reg) value,
                offset = in(reg) u64::from(self.offset()),
                options(nostack, preserves_flags, readonly),
            );
        }
        value
    }

    /// Sets the calling thread's value.
    ///
    /// # Safety
    /// Whoever uses the slot expects it.
    pub unsafe fn write(self, value: u64) {
        // SAFETY: as for `read`, and the caller's promise.
        unsafe {
            std::arch::asm!(
                "mov gs:[{offset}], {value}",
                value = in(reg) value,
                offset = in(reg) u64::from(self.offset()),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Address of the calling thread's slot. Takes a system call.
    pub fn address(self) -> *mut u64 {
        slots().base().wrapping_add(self.offset() as usize).cast()
    }
}

static SLOTS_OF_THREADS: OnceLock<Slots> = OnceLock::new();

fn slots() -> Slots {
    *SLOTS_OF_THREADS.get().unwrap_or_else(|| crate::base::die("thread-local slots are used before they are there"))
}

/// For tests of code that names slots and is not executed.
#[cfg(test)]
pub fn pretend_slots() {
    let _ = SLOTS_OF_THREADS.set(Slots::pretended(0x100));
}

/// Takes the slots.
pub fn start() {
    match Slots::take(SLOTS, 0) {
        Some(slots) => drop(SLOTS_OF_THREADS.set(slots)),
        None => crate::base::die("DynamoRIO has no thread-local slots left"),
    }
}
