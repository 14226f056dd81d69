//! Who uses a recording: whoever writes or reads one holds a lock on its folder, and whoever removes it holds it alone.
//!
//! A lock (flock) ends with the process that holds it, however that ends. Where the file system has none, the folder cannot be
//! opened, or the process may open hardly another file, things are as without: nobody is kept from anything.

use bugnet_handover::FILE as HANDOVER;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Holds a lock as long as it lives.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "closed when it is dropped")] Option<OwnedFd>);

/// Files that a process that holds a lock can open beside it.
const ROOM: usize = 2;

/// Whether the lock leaves its process room for others: recording under `ulimit -n 4` needs what there is.
fn leaves_room(held: &OwnedFd) -> bool {
    (0..ROOM).map(|_| held.try_clone()).collect::<Result<Vec<_>, _>>().is_ok()
}

/// Uses a recording, which nobody removes meanwhile. Waits for somebody who is just removing it.
pub fn using(recording: &Path) -> Lock {
    let locked = |folder: &OwnedFd| leaves_room(folder) && flock(folder, FlockOperation::LockShared).is_ok();
    Lock(open_folder(recording).filter(locked))
}

/// Uses a recording alone; none if somebody else uses it.
pub fn alone(recording: &Path) -> Option<Lock> {
    let Some(folder) = open_folder(recording) else { return Some(Lock(None)) };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => None,
        _ => Some(Lock(Some(folder))),
    }
}

/// Says that this process writes a recording, in which it has made the file that it shares with the recorded threads.
pub fn writing(recording: &Path) -> Lock {
    let locked = |file: &OwnedFd| leaves_room(file) && flock(file, FlockOperation::LockExclusive).is_ok();
    Lock(open_handover(recording).filter(locked))
}

/// Whether a `bugnet record` that lives writes a recording.
pub fn is_written(recording: &Path) -> bool {
    let locked = |file: OwnedFd| flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK);
    open_handover(recording).is_some_and(locked)
}

/// Opens the folder itself, and not what a link leads to.
fn open_folder(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok()
}

fn open_handover(recording: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(recording.join(HANDOVER), flags, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_removes_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let (one, other) = (using(path), using(path));
        assert!(alone(path).is_none());
        drop(one);
        assert!(alone(path).is_none());
        drop(other);
        let lock = alone(path).unwrap();
        assert!(alone(path).is_none());
        drop(lock);
        assert!(alone(path).is_some());
    }

    #[test]
    fn a_writer_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(!is_written(path));
        std::fs::write(path.join(HANDOVER), "").unwrap();
        assert!(!is_written(path));
        let lock = writing(path);
        assert!(is_written(path) && is_written(path));
        drop(lock);
        assert!(!is_written(path));
    }
}
