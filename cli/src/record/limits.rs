//! Resource limits: those with which this process was started are the program's, and the recorder needs more.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

/// The limits that this process raises for itself and for the recorder in the program's process, which holds the program to its
/// own: in the order in which the logger is told of them.
const RAISED: [Resource; 3] = [Resource::RLIMIT_NOFILE, Resource::RLIMIT_AS, Resource::RLIMIT_DATA];

/// Limits as this process inherited them, soft and hard.
#[derive(Clone, Copy, Debug)]
pub struct Limits([(u64, u64); RAISED.len()]);

impl Limits {
    /// Raises this process's own limits as far as it goes; those from before are in the result.
    pub fn raise() -> nix::Result<Self> {
        let mut before = [(0, 0); RAISED.len()];
        for (resource, before) in RAISED.into_iter().zip(&mut before) {
            let (soft, hard) = getrlimit(resource)?;
            *before = (soft, hard);
            let memory = resource != Resource::RLIMIT_NOFILE;
            // Only who is privileged raises a hard limit.
            if !memory || setrlimit(resource, RLIM_INFINITY, RLIM_INFINITY).is_err() {
                setrlimit(resource, hard, hard)?;
            }
        }
        Ok(Self(before))
    }

    /// What the logger is told.
    pub fn encode(&self) -> String {
        self.0.map(|(soft, hard)| format!("{soft}:{hard}")).join(" ")
    }

    /// Sets them as they were; those of memory only for a program that is not recorded.
    pub fn restore(&self, recorded: bool) -> nix::Result<()> {
        let all = RAISED.into_iter().zip(self.0);
        let wanted = all.filter(|(resource, _)| !recorded || *resource == Resource::RLIMIT_NOFILE);
        wanted.into_iter().try_for_each(|(resource, (soft, hard))| setrlimit(resource, soft, hard))
    }
}
