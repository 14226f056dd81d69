//! What a callout is about. A site is made when its block is instrumented, and is [kept](crate::emitted::reclaim) as long as that.

use crate::emitted::exchange::Routine;
use crate::emitted::lies::Where;
use bugnet_dr::access::{Access, Emulated, RepString};
use bugnet_dr::ir::{Gpr, MemoryParts, Segment};
use bugnet_format::record::SpecialKind;

/// Largest read that is checked inline, in bytes.
pub const INLINE: usize = 32;

/// Bytes of the inline part of a callout, without the address of its site.
pub const INLINE_PART: usize = 26;
/// Bytes of all of it.
pub const CALLOUT: usize = INLINE_PART + size_of::<u64>();

/// A place in a block from which the code cache calls out.
pub struct Site {
    /// Address of the program's instruction.
    pub pc: u64,
    /// Instructions from this one to the block's end, this one included: what the counter is ahead by.
    pub back: u64,
    /// What happens here.
    pub kind: Kind,
    /// Where the callout lies.
    pub lies: Where,
}

/// Where a read is, whose inline check calls out.
#[derive(Clone, Copy)]
pub enum Target {
    /// At the sum of these parts, whose registers are as they are at the callout.
    Parts(MemoryParts),
    /// Where the shadow is whose address a register holds.
    ShadowIn(Gpr),
}

/// What of the program's the instrumentation holds at a callout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Registers that are in their slots, as bits of [`Gpr::bit`].
    pub spilled: u16,
    /// Whether the arithmetic flags are in their slot.
    pub flags: bool,
    /// Registers that may have lost their value, as bits of [`Gpr::bit`]: the rest of the block overwrites them before it reads
    /// them.
    pub lost: u16,
}

/// What happens at a [`Site`].
pub enum Kind {
    /// Start of a block that crosses the next threshold.
    Limit {
        /// The arithmetic flags that are compared here, as bits of RFLAGS: those that the block reads. The others are
        /// the program's only if the block keeps any, and may be ones that an instruction left undefined.
        flags: u64,
        /// Whether the program's flags are in [`crate::base::slots::Slot::Flags`].
        saved: bool,
    },
    /// Start of a block that begins with a load of FS or GS: DynamoRIO has set a base of its own.
    Bases,
    /// Start of a block whose code another thread has put into the code picture, or one for threads that have their shadow at
    /// a distance; or another thread waits for this one: see [`crate::picture::peer`].
    CodeBehind {
        /// Whether it is one of those.
        by_fs: bool,
        /// As in [`Self::Limit`].
        saved: bool,
    },
    /// Before a block is counted: memory does not hold this code any more, from which it was translated.
    CodeChanged(Box<[u8]>),
    /// Before an instruction, the thread lacks the permission for some of these accesses, its own or later ones; `true` for
    /// those that write.
    Own(Box<[(Access, bool)]>, Held),
    /// Before a `rep` string instruction, if there are threads; `true` if it goes on while elements differ.
    OwnRepeat(RepString, bool, Held),
    /// In place of an instruction that reads and changes these bytes, which other processes may change, too; if so, sets
    /// [`crate::base::slots::Slot::Outcome`].
    Exchange(Access, Routine),
    /// Before an instruction that stores here, which other processes may do, too; if so, sets
    /// [`crate::base::slots::Slot::Outcome`].
    SharedAddress(Access),
    /// Behind it, if so.
    SharedStored,
    /// An inline check has found that a read differs from the picture.
    Differs {
        /// Ordinal of the read in its instruction.
        ordinal: u8,
        /// Bytes of the read.
        bytes: u32,
        /// Where it reads.
        target: Target,
        /// The register that the instruction has already loaded the value into; if none, it is still to be read.
        loaded: Option<Gpr>,
    },
    /// Reads of an instruction that is too unusual for inline checks, before it executes.
    Reads(Box<[Access]>),
    /// The addresses of its writes have to be taken before it executes.
    WriteAddresses(Box<[Access]>),
    /// Its writes have happened.
    Writes(Box<[Access]>),
    /// Before a `rep` string instruction.
    RepeatBefore(RepString),
    /// Behind it.
    RepeatAfter(RepString),
    /// Instead of an instruction with logged results; the destination register and its size, if it names one; and, as bits
    /// of [`Gpr::bit`], all that it writes. These are logged in any case: before the instruction they may be dead and hold
    /// anything.
    Special(SpecialKind, Option<(Gpr, u32)>, u16),
    /// Instead of `rdfsbase` or `rdgsbase`; the destination register and its size.
    SegmentBase(Segment, Gpr, u32),
    /// Instead of `wrfsbase` or `wrgsbase`; the source register and its size.
    SetSegmentBase(Segment, Gpr, u32),
    /// Instead of an instruction that the recorder executes itself; sets [`crate::base::slots::Slot::ReadFault`] and
    /// [`crate::base::slots::Slot::WriteFault`].
    Emulate {
        /// The instruction.
        what: Emulated,
        /// The address behind it.
        next: u64,
    },
    /// Before an instruction that runs and whose results are logged.
    ResultBefore,
    /// Behind it; the registers that it writes, as for [`Self::Special`].
    ResultAfter(SpecialKind, u16),
    /// Behind an opaque store, which has not faulted.
    OpaqueAfter(SpecialKind),
    /// Before an opaque store of the state components that EDX:EAX select: those are taken out that the program is not shown.
    HideComponents,
    /// In place of code that is not executable, before an instruction that reads at its address.
    NotExecutable,
    /// Before a block is counted, where a light log that is expanded has a moment: is it this one?
    Moment,
    /// Before an instruction that cannot be recorded exactly.
    Unsupported {
        /// Which one.
        why: &'static str,
        /// General purpose registers whose values are lost: nobody reads them any more.
        dead: u16,
    },
}
