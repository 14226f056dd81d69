//! A place in the execution of a thread, to be ordered behind.

/// A number for each thread that the process ever had; never used twice.
pub type Index = u32;

/// A place in a thread's execution: what comes before it has been executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Number of an interval.
    pub interval: u64,
    /// Instructions executed in it.
    pub position: u64,
}
