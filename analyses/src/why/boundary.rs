//! Checks that let a value pass which was just the bound: what is compared for its order was equal. A bound that is off by one shows only there, so that
//! such a check is more suspect than one that was far from its bound (boundary value analysis, turned round).

use super::near::ordering;
use super::rank::Table;
use crate::slice::Graph;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::symbols::Symbolizer;

/// Checks of a slice that are looked at, those executed last.
const MOST: usize = 48;
/// The zero flag.
const ZERO: u64 = 1 << 6;

/// Notes lines with such checks in a slice; whether there are any.
///
/// # Errors
/// The log cannot be replayed.
pub fn find(cursor: &mut Cursor<'_>, symbols: &mut Symbolizer, graph: &Graph, table: &mut Table) -> Result<bool> {
    let mut any = false;
    for (line, place) in ordering(graph, symbols).into_iter().take(MOST) {
        cursor.seek(Seek::Place(place))?;
        if cursor.regs().rflags & ZERO != 0 {
            table.clues(line).is_edge = true;
            any = true;
        }
    }
    Ok(any)
}
