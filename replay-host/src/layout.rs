//! Where things lie. Everything of the replay process is inside the window; everything else is the recorded program's.

use crate::report::Failure;

/// End of the address space that programs can use.
pub const USER_END: usize = (1 << 47) - 4096;
/// The kernel gives nothing below this address to unprivileged programs.
pub const USER_START: usize = 0x1_0000;
/// Bytes of the window.
pub const WINDOW_SIZE: usize = 1 << 35;
/// Start of the window where nothing else is asked for: Linux and sanitizers place nothing here of themselves, and it
/// is above where the kernel begins to look for room in the legacy layout.
pub const DEFAULT_WINDOW: usize = 0x3000_0000_0000;
/// Bytes of the stack on which DynamoRIO starts.
pub const STACK_SIZE: usize = 8 << 20;

/// Addresses inside the window. What is not listed is for the kernel to hand out.
pub struct Layout {
    /// Start of the window, and of the page from which [`crate::depart`] runs.
    pub window: usize,
    /// `libdynamorio.so`
    pub library: usize,
    /// The stack.
    pub stack: usize,
    /// DynamoRIO's heap and code cache.
    pub heap: usize,
}

impl Layout {
    /// The layout of a window.
    pub fn new(window: usize) -> Self {
        Self { window, library: window + (1 << 28), stack: window + (1 << 32), heap: window + (1 << 33) }
    }

    /// End of the window.
    pub fn end(&self) -> usize {
        self.window + WINDOW_SIZE
    }
}

/// Reads the start of the window from hexadecimal digits.
pub fn parse_window(hex: &[u8]) -> Result<usize, Failure> {
    core::str::from_utf8(hex)
        .ok()
        .and_then(|hex| usize::from_str_radix(hex.trim_start_matches("0x"), 16).ok())
        .filter(|start| start.is_multiple_of(WINDOW_SIZE) && (WINDOW_SIZE..=USER_END - 2 * WINDOW_SIZE).contains(start))
        .ok_or(Failure::new("window= takes a hexadecimal multiple of 2^35, from 2^35 to 2^47 - 3 * 2^35", 0))
}
