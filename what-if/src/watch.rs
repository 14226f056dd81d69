//! Instructions at which a run stops, and what is done there.

use crate::host::Host;
use crate::set::Setting;
use crate::switch::Switch;
use bugnet_replay::Result;

/// What stops a process.
pub(crate) const STOP: u8 = 0xcc;

/// What is watched.
#[derive(Debug)]
pub(crate) enum Watch {
    /// A conditional jump.
    Jump(Switch),
    /// An instruction before which memory is set.
    Set(Setting),
}

/// What becomes of a process that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It goes on.
    GoesOn,
    /// What was to be done makes no difference: it need not go on.
    IsSame,
    /// It has not stopped for this.
    IsOther,
}

impl Watch {
    /// Has a process stop there.
    pub(crate) fn begin(&self, host: &Host) -> Result<()> {
        let (Self::Jump(Switch { addr, .. }) | Self::Set(Setting { at: addr, .. })) = self;
        host.write(*addr, &[STOP])
    }

    /// How often the instruction was executed, while it was watched.
    pub(crate) fn count(&self) -> u64 {
        let (Self::Jump(Switch { count, .. }) | Self::Set(Setting { count, .. })) = self;
        *count
    }

    /// Does what is to be done, if it is there that the process has stopped.
    pub(crate) fn stopped(&mut self, host: &Host) -> Result<Then> {
        match self {
            Self::Jump(switch) => switch.jumps(host),
            Self::Set(setting) => setting.sets(host),
        }
    }
}
