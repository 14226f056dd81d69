//! `$BUGNET_MAX_SIZE`: how large the default folder may become. Old recordings make room for new ones.

use super::remove::{remove, tidy};
use super::{Entry, SHARED_CAPTURED, SHARED_ELF, State, Usage, Writers, list, together};
use crate::number;
use indicatif::HumanBytes;
use std::ffi::OsString;
use std::path::Path;

/// Name of the variable.
const VARIABLE: &str = "BUGNET_MAX_SIZE";

/// How large the default folder may become, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(u64);

/// The variable says no size.
#[derive(Debug, thiserror::Error)]
#[error("BUGNET_MAX_SIZE is {value:?}: {why}")]
pub struct WrongLimit {
    value: OsString,
    why: String,
}

/// What was done to keep to the limit.
#[derive(Debug, Default)]
pub struct Trimmed {
    /// The recordings that were removed.
    pub removed: Vec<OsString>,
    /// How much room that made.
    pub freed: u64,
    /// How much too much is left, and cannot go.
    pub excess: u64,
}

impl Trimmed {
    /// What is to be told; nothing where nothing was done, and nothing was to be.
    pub fn message(&self) -> Option<String> {
        let names: Vec<_> = self.removed.iter().map(|name| name.display().to_string()).collect();
        let removed = match &names[..] {
            [] => String::new(),
            [one] => format!("removed {one} ({})", HumanBytes(self.freed)),
            all => format!("removed {} old recordings ({}): {}", all.len(), HumanBytes(self.freed), all.join(", ")),
        };
        match (self.excess, removed.is_empty()) {
            (0, true) => None,
            (0, false) => Some(format!("{removed}, to keep to {VARIABLE}")),
            (excess, true) => {
                Some(format!("{} more than {VARIABLE} allows, and nothing that can go", HumanBytes(excess)))
            }
            (excess, false) => {
                Some(format!("{removed}; that is still {} more than {VARIABLE} allows", HumanBytes(excess)))
            }
        }
    }
}

impl Limit {
    /// What the variable says; none if it is not set.
    ///
    /// # Errors
    /// It is no size.
    pub fn wanted(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, WrongLimit> {
        let Some(value) = variable(VARIABLE).filter(|value| !value.is_empty()) else { return Ok(None) };
        let size = value.to_str().ok_or_else(|| "it is no text".to_owned()).and_then(number::size);
        size.map(|size| Some(Self(size))).map_err(|why| WrongLimit { value, why })
    }

    /// Removes the oldest recordings that have ended and that nobody uses, but not `newest`, until the folder keeps to the limit.
    ///
    /// # Errors
    /// The folder cannot be read, or its `latest` not be set.
    pub fn keep(self, folder: &Path, newest: &Path) -> std::io::Result<Trimmed> {
        let entries = list(folder, &Writers::default())?;
        // Copies that no recording has count, too: they go along.
        let shared = [SHARED_ELF, SHARED_CAPTURED].map(|name| Usage::of(&folder.join(name)));
        let all = |entries: &[Entry]| together(entries.iter().map(|entry| &entry.usage).chain(&shared));
        let before = all(&entries);
        let mut trimmed = Trimmed::default();
        if before <= self.0 {
            return Ok(trimmed);
        }
        let sum = |entries: &[Entry]| together(entries.iter().map(|entry| &entry.usage));
        let mut left = entries;
        // The newest come first.
        let mut at = left.len();
        while at > 0 && sum(&left) > self.0 {
            at -= 1;
            let entry = &left[at];
            let has_ended = matches!(entry.state, State::Ended(_) | State::CutOff);
            if entry.packed || !has_ended || entry.path == newest {
                continue;
            }
            if let Ok(removed) = remove(entry.clone(), Some(folder)) {
                trimmed.removed.push(removed.name);
                left.remove(at);
            }
        }
        tidy(folder)?;
        trimmed.freed = before.saturating_sub(sum(&left));
        trimmed.excess = sum(&left).saturating_sub(self.0);
        Ok(trimmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        let trimmed = |names: &[&str], excess| {
            Trimmed { removed: names.iter().map(OsString::from).collect(), freed: 1 << 20, excess }.message()
        };
        assert_eq!(trimmed(&[], 0), None);
        assert_eq!(trimmed(&["a"], 0).unwrap(), "removed a (1.00 MiB), to keep to BUGNET_MAX_SIZE");
        let both = "removed 2 old recordings (1.00 MiB): a, b; that is still 1.00 KiB more than BUGNET_MAX_SIZE allows";
        assert_eq!(trimmed(&["a", "b"], 1024).unwrap(), both);
        assert!(trimmed(&[], 1).unwrap().contains("nothing that can go"));
    }

    #[test]
    fn what_the_variable_says() {
        let wanted = |value: &str| Limit::wanted(|name| (name == VARIABLE).then(|| value.into()));
        assert_eq!(wanted("20G").unwrap(), Some(Limit(20 << 30)));
        assert_eq!(wanted("").unwrap(), None);
        assert_eq!(Limit::wanted(|_| None).unwrap(), None);
        for wrong in ["much", "-1", "1.5G", "20 G"] {
            let error = wanted(wrong).unwrap_err().to_string();
            assert!(error.contains("BUGNET_MAX_SIZE") && error.contains("20G"), "{error}");
        }
    }
}
