//! Patches of an epoch with several threads: what its replay puts into memory beside what the records say.
//!
//! A replay process that compares what threads read with the memory of all of them finds them, up to where it has come. One that is given
//! them need not compare, which is much faster, as far as they reach.

use crate::error::{ReplayError, Result};
use crate::process::Process;
use bugnet_format::control::{Explanation, Request, Response, Target};
use bugnet_format::patch::{MAX_PATCHES, MOST_ROOM, Patch};

/// How a replay process with several threads knows what each of them reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Merging {
    /// It was not said yet, and it is at the start; or there is one thread.
    #[default]
    Undecided,
    /// It compares.
    Compares,
    /// It has patches.
    Patched {
        /// How many.
        patches: usize,
        /// Up to which time they are all there.
        until: u64,
    },
}

/// The patches of an epoch, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Patches {
    list: Vec<Patch>,
    room: usize,
    /// Up to this time in the epoch; `u64::MAX` if all are known.
    until: u64,
    /// Whether there are too many, or they are wrong.
    useless: bool,
}

impl Patches {
    /// All of an epoch.
    pub fn whole(list: Vec<Patch>) -> Self {
        let room = list.iter().map(Patch::room).sum();
        Self { list, room, until: u64::MAX, useless: false }
    }

    /// Those that must not be used: the epoch is always compared.
    pub fn useless() -> Self {
        Self { useless: true, ..Self::default() }
    }

    /// Another one comes before them.
    pub fn spoil(&mut self, patch: Patch) {
        self.list.insert(0, patch);
        self.until = u64::MAX;
    }

    /// Whether they must not be used.
    pub fn are_useless(&self) -> bool {
        self.useless
    }

    /// Whether all of the epoch are known.
    pub fn are_whole(&self) -> bool {
        !self.useless && self.until == u64::MAX
    }

    /// About how many bytes they take.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Whether a replay that has them can run so far.
    pub fn reach(&self, target: Target) -> bool {
        let to = match target {
            Target::Time(time) => time,
            Target::Place { .. } | Target::End => u64::MAX,
        };
        !self.useless && self.until > 0 && to <= self.until
    }

    /// Takes those that a process which compares has found up to a time, to which it has come; to the end, if it is over.
    pub fn learn(&mut self, process: &mut Process, time: u64, is_over: bool) -> Result<()> {
        let until = if is_over { u64::MAX } else { time };
        if self.useless || until <= self.until {
            return Ok(());
        }
        while let Some(new) = found(process, self.list.len())? {
            if new.is_empty() {
                self.until = until;
                return Ok(());
            }
            self.room += new.iter().map(Patch::room).sum::<usize>();
            self.list.extend(new);
            if self.room > 2 * MOST_ROOM {
                break;
            }
        }
        *self = Self::useless();
        Ok(())
    }

    /// Lets a process have all that it has not got.
    pub fn give(&self, process: &mut Process) -> Result<()> {
        let has = match process.merging {
            Merging::Patched { until, .. } if until == self.until => return Ok(()),
            Merging::Patched { patches, .. } => patches.min(self.list.len()),
            Merging::Undecided | Merging::Compares => 0,
        };
        let (all, until) = (self.list.len(), self.until);
        let mut rest = self.list[has..].chunks(MAX_PATCHES).peekable();
        loop {
            let patches = rest.next().unwrap_or_default().to_vec();
            let is_last = rest.peek().is_none();
            process.send(&Request::Patch { patches, until: if is_last { until } else { 0 } })?;
            match process.receive()? {
                Response::Ready => process.merging = Merging::Patched { patches: all, until },
                other => return Err(process.unexpected(&other)),
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

/// The next patches that a process has found by comparing; nothing if there are too many.
fn found(process: &mut Process, from: usize) -> Result<Option<Vec<Patch>>> {
    process.send(&Request::Patches { from: from as u64 })?;
    match process.receive()? {
        Response::Patches(Some(new)) if new.len() <= MAX_PATCHES && new.iter().all(Patch::is_sound) => Ok(Some(new)),
        Response::Patches(None) => Ok(None),
        other => Err(process.unexpected(&other)),
    }
}

/// All patches that a process which has compared all of an epoch has found; nothing if there are too many.
///
/// # Errors
/// The process is lost.
pub(crate) fn all(process: &mut Process) -> Result<Option<Vec<Patch>>> {
    if process.merging != Merging::Compares {
        return Ok(None);
    }
    let mut patches = Patches::default();
    patches.learn(process, 0, true)?;
    Ok(patches.are_whole().then_some(patches.list))
}

/// Lets a process that is at its start compare, and explain what differs as is asked for. `rooms`: see [`Request::Compare`].
///
/// # Errors
/// The process is lost.
pub(crate) fn compare(process: &mut Process, explain: Explanation, rooms: Vec<u64>) -> Result<()> {
    process.send(&Request::Compare { explain, rooms })?;
    match process.receive()? {
        Response::Ready => {
            process.merging = Merging::Compares;
            Ok(())
        }
        Response::Refused(why) => Err(ReplayError::OutOfRange(why)),
        other => Err(process.unexpected(&other)),
    }
}
