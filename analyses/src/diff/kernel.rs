//! Values that differ because the kernel returned something else: inferred from system calls whose results are these very values.

use super::Number;
use crate::runs::both::{BAD, GOOD};
use crate::runs::side::Recorded;
use bugnet_format::record::Record;
use bugnet_format::types::Tid;
use bugnet_replay::Result;
use bugnet_replay::syscall;
use serde::Serialize;

/// A system call that returned something else in the two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Returned {
    /// Its name.
    pub call: String,
    /// What it returned in the right run, as strace would write it.
    pub good: String,
    /// In the wrong one.
    pub bad: String,
    /// Where the right run made it.
    pub good_position: String,
    /// Where the wrong one did.
    pub bad_position: String,
}

/// A system call: its number, its result, and the instructions before it.
type Call = (u64, i64, u64);

fn calls(recorded: &Recorded<'_>, tid: Tid, until: u64) -> Result<Vec<Call>> {
    let mut all = Vec::new();
    for &(id, before) in recorded.intervals(tid).iter().take_while(|(_, before)| *before < until) {
        for placed in recorded.log.interval(id)?.records().flatten() {
            if let Record::Syscall { number, result, .. } = placed.record
                && before + placed.position.0 < until
            {
                all.push((number, result, before + placed.position.0));
            }
        }
    }
    Ok(all)
}

/// The last system call before so many instructions that returned these values, which differ, as long as both threads make the same calls.
///
/// # Errors
/// A log cannot be read.
pub fn returned(
    runs: [&Recorded<'_>; 2],
    threads: [Tid; 2],
    until: [u64; 2],
    values: [Number; 2],
) -> Result<Option<Returned>> {
    let good = calls(runs[GOOD], threads[GOOD], until[GOOD])?;
    let bad = calls(runs[BAD], threads[BAD], until[BAD])?;
    let same = good.iter().zip(&bad).take_while(|((one, ..), (other, ..))| one == other);
    let is_it = |value: Number, result: i64| value == Number { value: result.cast_unsigned(), ..value }.cut();
    let are_they =
        |((_, one, _), (_, other, _)): &(&Call, &Call)| is_it(values[GOOD], *one) && is_it(values[BAD], *other);
    let told = |((number, good, at), (_, bad, there)): (&Call, &Call)| {
        Ok(Returned {
            call: syscall::name(*number),
            good: syscall::result(*number, *good),
            bad: syscall::result(*number, *bad),
            good_position: runs[GOOD].place(threads[GOOD], *at)?.to_string(),
            bad_position: runs[BAD].place(threads[BAD], *there)?.to_string(),
        })
    };
    same.filter(are_they).last().map(told).transpose()
}
