//! The picture of the replayer's memory.
//!
//! [`check_load`] is the one place that decides which loads are logged. It works on any [`Picture`]. The logger's is a flat shadow of the address
//! space, which never forgets anything within an interval. The paper's UserMemCache and UserMemHash (BugNet, section 4.3) are the reference model
//! that tests hold it against (`tests/picture`).

use crate::record::MAX_VALUE;
use crate::types::Addr;

/// What a replay would find in memory at this position if nothing were injected; zero where nothing is known.
///
/// Addresses wrap around at the top of the address space.
pub trait Picture {
    /// Fills `out` with the picture's bytes from `addr` on. By `&mut self`, as a cache may move blocks on a read.
    fn read(&mut self, addr: Addr, out: &mut [u8]);

    /// The thread itself, or a record, wrote `bytes` at `addr`.
    fn write(&mut self, addr: Addr, bytes: &[u8]);
}

/// A load of up to so many bytes is logged whole or not at all: a `LOAD` record of a whole operand has short forms.
pub const WHOLE: usize = 32;

/// In a longer load, so many equal bytes between two differing ones are cheaper than a `LOAD` record more.
const MERGE: usize = 8;

/// Bytes of a longer load that are compared at a time.
const CHUNK: usize = 256;

/// The thread loads `actual` from `addr`: hands to `sink` every piece of it, with its byte offset in `actual`, that a
/// replay could not know and that must be logged, and puts it into the picture.
///
/// Pieces ascend, do not overlap, and have at most [`MAX_VALUE`] bytes; each begins and ends with a byte that differs
/// unless it is a load of at most [`WHOLE`] bytes, which comes in one piece. `actual` must be what the program's
/// instruction itself loads: where others can write at the same time, take a copy first.
pub fn check_load<P: Picture + ?Sized>(picture: &mut P, addr: Addr, actual: &[u8], mut sink: impl FnMut(usize, &[u8])) {
    if actual.len() <= WHOLE {
        let known = &mut [0; WHOLE][..actual.len()];
        picture.read(addr, known);
        if known != actual {
            sink(0, actual);
            picture.write(addr, actual);
        }
        return;
    }
    let mut known = [0; CHUNK];
    // The differing bytes found last and not yet reported: `actual[piece]`.
    let mut piece = 0..0;
    let mut report = |piece: &std::ops::Range<usize>, picture: &mut P| {
        if !piece.is_empty() {
            sink(piece.start, &actual[piece.clone()]);
            picture.write(offset(addr, piece.start), &actual[piece.clone()]);
        }
    };
    for (chunk_no, chunk) in actual.chunks(CHUNK).enumerate() {
        let start = chunk_no * CHUNK;
        let known = &mut known[..chunk.len()];
        picture.read(offset(addr, start), known);
        if known == chunk {
            continue;
        }
        for at in (0..chunk.len()).filter(|i| known[*i] != chunk[*i]).map(|i| start + i) {
            let near = !piece.is_empty() && at - piece.end < MERGE && at - piece.start < MAX_VALUE;
            if !near {
                report(&piece, picture);
                piece.start = at;
            }
            piece.end = at + 1;
        }
    }
    report(&piece, picture);
}

fn offset(addr: Addr, by: usize) -> Addr {
    Addr(addr.0.wrapping_add(by as u64))
}
