//! The window as text.

use super::{Begin, By, MOST, PIECE, Window};
use crate::diff::{ended, parted, runs, stored};
use indicatif::HumanCount;
use std::fmt::{Display, Formatter, Result};

impl Display for Window {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { good, bad, by, first, value, control, deviation, stores, differing, .. } = self;
        runs(f, good, bad)?;
        let (Some(by), Some(Begin { moment, length })) = (by, first) else {
            return writeln!(f, "\nNothing differs: the same way through the program's own code, and the same values.");
        };
        let what = match by {
            By::Value => "a value differs first",
            By::Control => "the way of control differs first",
            By::Code => "the first store is that the other build does not have there",
        };
        writeln!(f, "\nReplay window: {} instructions", HumanCount(*length))?;
        writeln!(f, "  from {} of BAD on, where {what}, to its end ({})", moment.position, ended(bad))?;
        match deviation {
            Some(Begin { moment, length }) => writeln!(
                f,
                "  {} instructions from {} on, the first {PIECE} in which more than {MOST} stores differ",
                HumanCount(*length),
                moment.position
            )?,
            None => writeln!(f, "  There are no {PIECE} instructions in which more than {MOST} stores differ.")?,
        }
        writeln!(f, "  {} of {} stores differ", HumanCount(*differing), HumanCount(*stores))?;
        if let Some(value) = value {
            writeln!(f, "\nThe first store of another value, in what both do:")?;
            stored(f, value)?;
        }
        if let Some(control) = control {
            writeln!(f, "\nThe first other way of control: {}", control.spot)?;
            let ends = [ended(good), ended(bad)].map(|end| format!("ends: {end}"));
            parted(f, control, ends.each_ref().map(String::as_str), false)?;
        }
        Ok(())
    }
}
