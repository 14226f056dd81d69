//! Memory that a program whose light log is expanded has at addresses of its own choice, where otherwise nothing of it is.

use crate::base::lock::Mutex;
use std::ops::Range;

/// Where memory of programs ends that are captured, but for what they map at addresses of their own choice. What DynamoRIO and the logger have lies above.
pub const HIGHEST: u64 = 0x4000_0000_0000;

/// What the program has made accessible above.
static CHOSEN: Mutex<Vec<Range<u64>>> = Mutex::new(Vec::new());

/// The program makes memory accessible.
pub fn maps(range: Range<u64>) {
    if range.start >= HIGHEST {
        let mut chosen = CHOSEN.lock();
        if !chosen.iter().any(|known| known.start <= range.start && range.end <= known.end) {
            chosen.push(range);
        }
    }
}

/// Whether memory that begins at an address is the program's.
pub fn is_programs(start: u64) -> bool {
    start < HIGHEST || CHOSEN.lock().iter().any(|range| range.contains(&start))
}
