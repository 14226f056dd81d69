//! A thread's picture.

use crate::picture::shadow::Shadow;
use std::ops::Range;

/// Why recording ends where there is no room for a shadow.
pub const TOO_FAR_APART: &str = "the program's memory lies too far apart for the shadow of this thread";

/// A thread's picture of the replayer's memory.
pub struct OwnPicture {
    /// The picture.
    pub shadow: Shadow,
    /// Granules of the shadow that are known to be reserved.
    pub room: Vec<u64>,
    /// Whether the shadow has moved, so that the picture is empty and another interval has to begin.
    pub moved: bool,
    /// What shadows reached that the thread had earlier in the interval.
    pub reached: Vec<Range<u64>>,
}

impl OwnPicture {
    /// An empty one.
    pub fn new(shadow: Shadow) -> Self {
        Self { shadow, room: Vec::new(), moved: false, reached: Vec::new() }
    }
}
