//! Threads that are being created: what their parents had done by then.

use crate::base::lock::{Mutex, MutexGuard};
use crate::picture::moment::{Index, Moment};
use hashbrown::HashMap;

/// By the stack pointer that the child begins with.
static BIRTHS: Mutex<Option<HashMap<u64, (Index, Moment)>>> = Mutex::new(None);

fn births() -> MutexGuard<'static, Option<HashMap<u64, (Index, Moment)>>> {
    BIRTHS.lock()
}

/// A thread is about to create another one, which will begin with this stack pointer.
pub fn announce(stack: u64, parent: Index, moment: Moment) {
    births().get_or_insert_with(HashMap::new).insert(stack, (parent, moment));
}

/// In a forked child: no thread is being created.
pub fn forget() {
    *births() = None;
}

/// The parent of a thread that begins with this stack pointer.
pub fn parent(stack: u64) -> Option<(Index, Moment)> {
    births().as_mut()?.remove(&stack)
}
