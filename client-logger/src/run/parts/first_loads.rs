//! What a thread knows of its first loads.

use crate::picture::density::Density;
use crate::picture::populate::Populated;

/// What is known of a thread's first loads in its interval.
pub struct FirstLoads {
    /// Where the last one ended, and how many before it each began where the one before ended.
    pub expected: u64,
    pub streak: u32,
    pub density: Density,
    pub populated: Populated,
    /// What is read to be compared.
    pub buffer: Vec<u8>,
}

impl FirstLoads {
    pub fn new() -> Self {
        let (density, populated) = (Density::new(), Populated::new());
        Self { expected: 0, streak: 0, density, populated, buffer: Vec::new() }
    }
}
