//! What a system call has left in memory, as far as the program has looked.

use crate::cursor::{Conditions, Cursor, Direction, Event, Place, Seek, Stopped, WatchedRange};
use crate::error::Result;
use crate::memory::Memory;
use bugnet_format::types::Addr;

/// So many calls of all threads further on, nobody waits any more for somebody to look.
const PATIENCE: usize = 256;

/// The bytes of a range behind a system call at a place that writes there: the program's first look at them tells. `None` for one at which it
/// does not look before something else is written there, or within the next calls.
///
/// # Errors
/// The log does not hold the place, or the replay process is lost.
pub fn left(cursor: &mut Cursor<'_>, place: Place, addr: u64, len: u64) -> Result<Vec<Option<u8>>> {
    cursor.seek(Seek::Place(place))?;
    cursor.pass()?;
    let mut found: Vec<Option<u8>> = vec![None; len as usize];
    let mut lost = vec![false; len as usize];
    let range = WatchedRange { addr, len, reads: true, writes: true, changes: false };
    let conditions = Conditions { all_calls: true, ranges: vec![range], ..Conditions::default() };
    let mut calls = 0;
    while calls < PATIENCE && found.iter().zip(&lost).any(|(byte, lost)| byte.is_none() && !lost) {
        match cursor.run(Direction::Forward, &conditions)? {
            Stopped::Condition(Event::Access { addr: at, len, write: true, .. }) => {
                for (byte, lost) in (addr..).zip(&mut lost) {
                    *lost |= byte.wrapping_sub(at) < len;
                }
            }
            Stopped::Condition(Event::Call(_)) => calls += 1,
            Stopped::Condition(_) => {}
            Stopped::Interrupted | Stopped::There | Stopped::Start | Stopped::End => break,
        }
        let now = cursor.read_known(Addr(addr), len)?;
        for (number, byte) in now.into_iter().enumerate() {
            if found[number].is_none() && !lost[number] {
                found[number] = byte;
            }
        }
    }
    Ok(found)
}
