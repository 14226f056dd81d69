//! Positions, as people type and paste them.

use bugnet_format::types::{IntervalNo, Position, Tid};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A place in a thread's execution: `4711/3/123`, the instruction number 123 of its interval 3 being the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// The thread.
    pub tid: Tid,
    /// The interval.
    pub interval: IntervalNo,
    /// Instructions since its start.
    pub position: Position,
}

/// Where to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Where the log of the process begins.
    Start,
    /// Where it ends.
    End,
    /// Where all threads together have executed so many instructions: `@123`.
    Time(u64),
    /// Where a thread is at this place.
    Place(Place),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tid, self.interval, self.position)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let [tid, interval, position] = parts[..] else { return Err(no_position(text)) };
        let number = |text: &str| digits(text).ok_or_else(|| no_position(text));
        let tid = tid.parse()?;
        Ok(Self { tid, interval: IntervalNo(number(interval)?), position: Position(number(position)?) })
    }
}

impl FromStr for Seek {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "start" => Ok(Self::Start),
            "end" => Ok(Self::End),
            _ => match text.strip_prefix('@') {
                Some(time) => digits(time).map(Self::Time).ok_or_else(|| no_position(text)),
                None => text.parse().map(Self::Place),
            },
        }
    }
}

/// A number of decimal digits, which commas may divide.
fn digits(text: &str) -> Option<u64> {
    let plain = text.replace(',', "");
    (!plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit())).then(|| plain.parse().ok())?
}

fn no_position(text: &str) -> String {
    format!(
        "{text} is no position: THREAD/INTERVAL/INSTRUCTION, as 4711/3/123, @TIME, the number of instructions that all \
         threads have executed, start and end are"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_typed() {
        let place = Place { tid: Tid::new(4711, 1).unwrap(), interval: IntervalNo(3), position: Position(123) };
        assert_eq!(place.to_string(), "4711.1/3/123");
        assert_eq!(place.to_string().parse(), Ok(place));
        assert_eq!("4711.1/3/123".parse(), Ok(Seek::Place(place)));
        assert_eq!("@1,234".parse(), Ok(Seek::Time(1234)));
        assert_eq!(("start".parse(), "end".parse()), (Ok(Seek::Start), Ok(Seek::End)));
        for wrong in ["", "@", "1", "1/2", "1/2/x", "1/2/-3", "@+1", "1/2/3/4", "4711.0/1/1"] {
            assert!(wrong.parse::<Seek>().is_err(), "{wrong}");
        }
    }
}
