//! What a block jumps to: slow paths, and checks that are made precisely. They are placed when all else is.

use bugnet_dr::access::Access;
use bugnet_dr::ir::{Gpr, Instr};

/// A slow path that still has to be placed.
pub(super) struct Slow {
    /// The callout.
    pub(super) entry: Instr,
    /// Where it returns to.
    pub(super) back: Back,
}

/// Where a slow path returns to.
#[derive(Clone, Copy)]
pub(super) enum Back {
    To(Instr),
    /// To what comes behind this jump.
    Behind(Instr),
}

/// A range whose permissions are looked at precisely, out of the way.
pub(super) struct Precisely {
    pub(super) entry: Instr,
    pub(super) back: Instr,
    pub(super) access: Access,
    pub(super) writes: bool,
    pub(super) scratch: Gpr,
    /// Where the callout is.
    pub(super) own: Instr,
}
