//! An instruction that a thread has begun.

/// What has to be known of an instruction that has begun, until it is over.
pub struct Begun {
    /// Addresses of its writes, taken before it executes.
    pub pending: Vec<(u64, u32)>,
    /// Registers and flags before an instruction whose results are logged.
    pub before: ([u64; 16], u64),
    /// RCX, RSI, RDI before a `rep` string instruction, and its direction: true for down.
    pub repeat: (u64, u64, u64, bool),
    /// The position of a `rep` string instruction that has begun and not ended.
    pub repeat_position: u64,
    /// A page that the program has jumped to and must not execute: its address and protection. It is not accessible.
    pub forbidden: Option<(u64, i32)>,
}

impl Begun {
    /// None.
    pub fn none() -> Self {
        let (pending, before, repeat) = (Vec::new(), ([0; 16], 0), (0, 0, 0, false));
        Self { pending, before, repeat, repeat_position: u64::MAX, forbidden: None }
    }
}
