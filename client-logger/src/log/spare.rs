//! Tails of threads that have ended, for those that begin: a file system takes longer to make one, and to take it away, than all else
//! that a short thread costs the recorder.
//!
//! A tail that is kept is empty. It stays in the folder of the thread that had it until it is moved to that of another one, and is gone
//! when the process ends. What kills the process before leaves an empty tail there, in which nothing is to be read.

use crate::base::lock::{Mutex, MutexGuard};
use crate::log::tail::Tail;
use std::path::Path;

/// Most tails that are kept.
const MOST: usize = 32;

static SPARE: Mutex<Vec<Tail>> = Mutex::new(Vec::new());

fn spare() -> MutexGuard<'static, Vec<Tail>> {
    SPARE.lock()
}

/// A thread has ended, and all that is in its tail is in its interval files, too. `over`: whether nothing is recorded any more.
pub fn keep(mut tail: Tail, over: impl FnOnce() -> bool) {
    let mut kept = spare();
    // Whoever ends recording says so first, and then comes here.
    if over() || kept.len() >= MOST {
        drop(kept);
        tail.remove();
    } else {
        tail.empty();
        kept.push(tail);
    }
}

/// One of the tails, as that with this number of the thread with this folder. It is empty.
pub fn take(folder: &Path, number: usize) -> Option<Tail> {
    let mut tail = spare().pop()?;
    if tail.move_to(folder, number).is_err() {
        tail.remove();
        return None;
    }
    Some(tail)
}

/// Takes all of them away. Whether that makes room where the log is.
pub fn remove_all() -> bool {
    let all = std::mem::take(&mut *spare());
    let any = !all.is_empty();
    all.into_iter().for_each(|mut tail| tail.remove());
    any
}

/// Takes those in a folder away, which is about to go.
pub fn remove_in(folder: &Path) {
    let there: Vec<Tail> = spare().extract_if(.., |tail| tail.lies_in(folder)).collect();
    there.into_iter().for_each(|mut tail| tail.remove());
}

/// In a child that was just forked: they are the parent's.
pub fn forget() {
    std::mem::take(&mut *spare()).into_iter().for_each(|mut tail| tail.unmap());
}
