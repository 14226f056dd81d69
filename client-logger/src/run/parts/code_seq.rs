//! Where blocks look for the code picture that the thread's log has.

use crate::base::slots::Slot;
use crate::picture::peer::Bells;
use bugnet_format::types::CodeSeq;

/// No block asks for a later one.
pub const ANY: CodeSeq = CodeSeq(u32::MAX as u64);

/// What blocks compare at their start: [`Slot::CodeSeq`] and [`Slot::CodeSeqByFs`].
pub fn bells() -> Bells {
    Bells([Slot::CodeSeq, Slot::CodeSeqByFs].map(|slot| slot.address().cast()))
}
