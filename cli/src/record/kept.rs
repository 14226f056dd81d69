//! How much of a recording is kept (`--keep`): all of it, its last intervals or epochs, or the last stretch of time.

use crate::number;
use std::time::Duration;

/// How long an epoch of a light log is, unless a stretch of time asks for shorter ones.
const EPOCH: Duration = Duration::from_secs(5);
/// A stretch of time has about so many epochs, none of which is shorter than a second.
const EPOCHS: u32 = 6;
/// Intervals that stand for a second where there are no epochs.
const INTERVALS_A_SECOND: u64 = 4;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// So many intervals, or epochs; 0 for all.
    Last(u64),
    /// What the program did in the last stretch of this length.
    For(Duration),
}

impl Kept {
    /// Parses a count, or a number of seconds, minutes or hours: `10`, `30s`, `5m`, `2h`.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (digits, seconds) = match text.as_bytes().last() {
            Some(b's') => (&text[..text.len() - 1], 1),
            Some(b'm') => (&text[..text.len() - 1], 60),
            Some(b'h') => (&text[..text.len() - 1], 3600),
            _ => {
                return number::count(text)
                    .map(Self::Last)
                    .map_err(|why| format!("{why}; or a time, such as 30s, 5m or 2h"));
            }
        };
        let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u32>().ok()).flatten();
        match number {
            Some(0) => Err("must be at least 1s".into()),
            Some(number) => Ok(Self::For(Duration::from_secs(u64::from(number) * seconds))),
            None => Err("expected a number, or a time, such as 30s, 5m or 2h".into()),
        }
    }

    /// How long an epoch is; none where all is kept.
    pub fn epoch(self) -> Option<Duration> {
        match self {
            Self::Last(0) => None,
            Self::Last(_) => Some(EPOCH),
            Self::For(time) => Some((time / EPOCHS).clamp(Duration::from_secs(1), EPOCH)),
        }
    }

    /// How many epochs are kept, at least; 0 for all.
    pub fn epochs(self) -> u64 {
        match (self, self.epoch()) {
            (Self::For(time), Some(epoch)) => time.as_millis().div_ceil(epoch.as_millis()) as u64,
            (Self::Last(count), _) => count,
            (Self::For(_), None) => 0,
        }
    }

    /// How many intervals are kept where there are no epochs; 0 for all.
    pub fn intervals(self) -> u64 {
        match self {
            Self::Last(count) => count,
            Self::For(time) => time.as_secs().saturating_mul(INTERVALS_A_SECOND),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_times() {
        assert_eq!(Kept::parse("0"), Ok(Kept::Last(0)));
        assert_eq!(Kept::parse("2k"), Ok(Kept::Last(2000)));
        assert_eq!(Kept::parse("30s"), Ok(Kept::For(Duration::from_secs(30))));
        assert_eq!(Kept::parse("5m"), Ok(Kept::For(Duration::from_secs(300))));
        assert_eq!(Kept::parse("2h"), Ok(Kept::For(Duration::from_secs(7200))));
        for wrong in ["", "s", "0s", "-1s", "1.5s", "+3s", "3 s", "99999999999s", "3d"] {
            assert!(Kept::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn epochs() {
        let epoch = |text: &str| Kept::parse(text).unwrap().epoch();
        assert_eq!(epoch("0"), None);
        assert_eq!(epoch("3"), Some(EPOCH));
        assert_eq!(epoch("2s"), Some(Duration::from_secs(1)));
        assert_eq!(epoch("12s"), Some(Duration::from_secs(2)));
        assert_eq!(epoch("1h"), Some(EPOCH));
    }
}
