//! What a replay process says of a comparison of all reads with the memory of all threads.

use serde::{Deserialize, Serialize};

/// How it is found out where bytes come from that a thread has read, and that are not in the memory of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Explanation {
    /// Not at all: [`Request::Compared`](super::Request::Compared) tells nothing of them.
    #[default]
    None,
    /// By which threads have stored there, but not who was the last, and when: where that would have to be known, [`Comparison::is_open`]
    /// says that it takes [`Self::Full`].
    Quick,
    /// By who has stored there last. That is slow.
    Full,
}

/// What was found by comparing each read with the memory of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompareCounts {
    /// Segments run.
    pub segments: u64,
    /// `LOAD` records whose value the memory of all threads held already.
    pub explained: u64,
    /// Reads that found other bytes than that memory held, where no thread had written since the first interval.
    pub unwritten: u64,
    /// The same, where a system call had changed memory since a thread wrote there last.
    pub system: u64,
    /// The same, where no thread but the reading one had ever written: something else outside of the process wrote.
    pub outside: u64,
    /// The same, where another thread wrote, but the reading one had gone on from there behind what a log that was cut off does
    /// not hold: that may have written, too.
    pub unknown: u64,
    /// The same, where another thread wrote, and nothing else can: the order contradicts the recording.
    pub conflicts: u64,
}

/// A read that found bytes which the order of the threads does not explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Index of the reading thread.
    pub reader: usize,
    /// Instructions that it had executed since its recording began.
    pub reader_at: u64,
    /// Address of the first byte that differs.
    pub addr: u64,
    /// The recorded bytes from there on.
    pub recorded: Vec<u8>,
    /// What the memory of all threads held.
    pub found: Vec<u8>,
    /// Index of the thread that wrote there last.
    pub writer: usize,
    /// Instructions that this one had executed before it did.
    pub writer_at: u64,
}

/// What was compared so far, see [`Request::Compare`](super::Request::Compare).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Counters.
    pub counts: CompareCounts,
    /// The first conflicts, at most [`MAX_CONFLICTS`](super::MAX_CONFLICTS).
    pub conflicts: Vec<Conflict>,
    /// Whether a quick explanation does not do: nothing else here is of use then.
    pub is_open: bool,
}
