//! Which descriptor is what: from the calls that give, copy and close them.

use super::moments::Moment;
use hashbrown::HashMap;

/// What reading from a descriptor takes from, and what writing to it gives to, by the numbers of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub reads: Option<usize>,
    pub writes: Option<usize>,
}

/// A descriptor from where it was given to where it was closed.
#[derive(Debug)]
pub struct Instance {
    pub end: End,
    /// None of one that was there before.
    opened: Option<Moment>,
    pub closed: Option<Moment>,
}

/// What a descriptor is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// This.
    One(End),
    /// It was never given.
    None,
    /// It may be one of several, or may not be there yet.
    Several,
}

/// All descriptors of a process.
#[derive(Debug, Default)]
pub struct Descriptors(HashMap<i32, Vec<Instance>>);

impl Descriptors {
    /// One is given.
    pub fn open(&mut self, fd: i32, end: End, moment: &Moment) {
        // If one with this number was not closed, nobody has seen it closed.
        self.0.entry(fd).or_default().push(Instance { end, opened: Some(moment.clone()), closed: None });
    }

    /// One that was there at the beginning.
    pub fn inherit(&mut self, fd: i32, end: End) {
        self.0.entry(fd).or_default().insert(0, Instance { end, opened: None, closed: None });
    }

    /// Those that are not closed, of these.
    pub fn open_ones(&self, fds: std::ops::RangeInclusive<i32>) -> Vec<i32> {
        let is_open = |all: &[Instance]| all.iter().any(|one| one.closed.is_none());
        self.0.iter().filter(|(fd, all)| fds.contains(fd) && is_open(all)).map(|(fd, _)| *fd).collect()
    }

    /// One is closed. What it was, as far as that is known.
    pub fn close(&mut self, fd: i32, moment: &Moment) -> Option<End> {
        let last = self.0.get_mut(&fd)?.iter_mut().rfind(|one| one.closed.is_none())?;
        last.closed = Some(moment.clone());
        Some(last.end)
    }

    /// What one is for a call.
    pub fn resolve(&self, fd: i32, at: &Moment) -> Resolved {
        let mut found = Resolved::None;
        for one in self.0.get(&fd).into_iter().flatten() {
            let is_later = one.opened.as_ref().is_some_and(|opened| opened.is_behind(at));
            let is_over = one.closed.as_ref().is_some_and(|closed| at.is_behind(closed));
            if is_later || is_over {
                continue;
            }
            let is_there = one.opened.as_ref().is_none_or(|opened| at.is_behind(opened));
            if !is_there || found != Resolved::None {
                return Resolved::Several;
            }
            found = Resolved::One(one.end);
        }
        found
    }

    /// Those that may be open at a moment.
    pub fn at(&self, at: &Moment) -> impl Iterator<Item = End> {
        let is_open = |one: &&Instance| {
            !one.opened.as_ref().is_some_and(|opened| opened.is_behind(at))
                && !one.closed.as_ref().is_some_and(|closed| at.is_behind(closed))
        };
        self.0.values().flatten().filter(is_open).map(|one| one.end)
    }

    /// All that there ever were.
    pub fn all(&self) -> impl Iterator<Item = End> {
        self.0.values().flatten().map(|one| one.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(thread: usize, count: u64, other: u64) -> Moment {
        Moment { thread, count, before: [other, other].into() }
    }

    #[test]
    fn a_number_that_is_used_again_is_another_descriptor() {
        let mut all = Descriptors::default();
        let end = |number| End { reads: Some(number), writes: None };
        all.open(5, end(0), &at(0, 10, 0));
        all.close(5, &at(0, 20, 0));
        all.open(5, end(1), &at(0, 30, 0));
        assert_eq!(all.resolve(5, &at(0, 15, 0)), Resolved::One(end(0)));
        assert_eq!(all.resolve(5, &at(0, 35, 0)), Resolved::One(end(1)));
        assert_eq!(all.resolve(6, &at(0, 35, 0)), Resolved::None);
        // Another thread that has seen the first one opened, and closed, and one that has seen nothing.
        assert_eq!(all.resolve(5, &at(1, 5, 31)), Resolved::One(end(1)));
        assert_eq!(all.resolve(5, &at(1, 5, 15)), Resolved::Several);
        assert_eq!(all.resolve(5, &at(1, 5, 0)), Resolved::Several);
        assert_eq!(all.at(&at(0, 15, 0)).count(), 1);
    }
}
