//! Room for the shadows of threads: where they go, and whether blocks may expect them at a distance.

use crate::base::light;
use crate::base::process::{has_begun, threaded};
use crate::log::recording;
use crate::picture::claims::Claim;
use crate::picture::shadow::Shadow;
use crate::picture::shadow::layout::Steps;
use crate::picture::shadow::mapping::Kind;
use bugnet_dr::fragments;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether blocks expect a shadow at a distance, with the FS base as distance.
static BY_FS: AtomicBool = AtomicBool::new(true);

/// Whether the initial stack is moved before the program's first instruction.
static STACK_MOVES: AtomicBool = AtomicBool::new(false);

/// Whether blocks expect a shadow at a distance, with the FS base as distance.
pub fn by_fs() -> bool {
    BY_FS.load(Ordering::Relaxed)
}

/// Whether the initial stack is moved before the program's first instruction.
pub fn stack_moves() -> bool {
    STACK_MOVES.load(Ordering::Relaxed)
}

/// Finds room for the shadow of a thread that begins, or of a process that shares the program's memory. It may hold what another thread has
/// left, up to the first interval.
pub fn first_shadow(foreign: bool) -> Shadow {
    if recording::over() {
        return Shadow::none();
    }
    if threaded() && !foreign {
        return lazy_shadow(&[]).unwrap_or_else(no_room_for_thread);
    }
    if by_fs() {
        let steps = if has_begun() { Steps::Any } else { Steps::Wide };
        if let Some(shadow) = Shadow::at_distance(stack_moves(), steps, None, false) {
            return shadow;
        }
        if threaded() {
            return shadow_with_key();
        }
        // In an expansion, everything stays where it was.
        if !light::expands()
            && let Some(shadow) = Shadow::at_distance(true, Steps::Any, None, false)
        {
            STACK_MOVES.store(true, Ordering::Relaxed);
            return shadow;
        }
        if has_begun() {
            recording::end("there is no room for the shadow of a process that shares the program's memory");
            return Shadow::none();
        }
        // No block has been built yet.
        BY_FS.store(false, Ordering::SeqCst);
    }
    shadow_with_key()
}

fn shadow_with_key() -> Shadow {
    leave_fs();
    Shadow::with_key(None, false).unwrap_or_else(no_room_for_thread)
}

fn no_room_for_thread() -> Shadow {
    recording::end("there is no address space left for the shadow of another thread");
    Shadow::none()
}

/// Finds room for the shadow of a thread among others, which is going to access these ranges, and asks for the room of
/// others before it accesses them.
fn lazy_shadow(needs: &[Range<u64>]) -> Option<Shadow> {
    if by_fs()
        && let Some(shadow) = Shadow::lazy(at_distance(), needs)
    {
        return Some(shadow);
    }
    leave_fs();
    Shadow::lazy(Kind::Key, needs)
}

fn at_distance() -> Kind {
    Kind::Distance { stack_moves: stack_moves() }
}

/// Blocks that are built from now on expect no shadow at a distance. With threads, each of those that are there asks
/// whether the thread has one, and is built anew if not; until then, it is right for those that have one.
fn leave_fs() {
    BY_FS.store(false, Ordering::SeqCst);
}

/// The same, for a thread in a system call.
fn leave_fs_in_call() {
    if BY_FS.swap(false, Ordering::SeqCst) && !threaded() {
        // SAFETY: in an event of a system call, with no lock held; the whole address space.
        unsafe { fragments::flush_all() };
    }
}

/// The calling thread is about to start another one, which begins with this stack pointer, or, without one, a process that
/// shares its memory, in a system call. If there is no room at a distance for the shadow of that, blocks expect none there any
/// more.
pub fn make_room_for_child(stack: Option<u64>) {
    if !by_fs() {
        return;
    }
    let room = match stack {
        Some(stack) => {
            let last = stack.saturating_sub(1);
            Shadow::prepare(at_distance(), std::slice::from_ref(&(last..last + 1)))
        }
        None => {
            let shadow = Shadow::at_distance(stack_moves(), Steps::Any, None, false);
            shadow.inspect(|shadow| shadow.release()).is_some()
        }
    };
    if !room {
        leave_fs_in_call();
    }
}

/// Whether there is room for the shadow of everything, also behind what is about to come.
pub fn has_room(coming: &Claim) -> bool {
    Shadow::has_room(coming)
}

/// Finds other room for a thread's shadow, also for when what is about to come is there, and for what the thread `needs`. It is empty. None
/// if there is no room. The thread is in a system call, or, if there are others, not going to return to its block of code.
pub fn place_shadow(coming: Option<&Claim>, needs: &[Range<u64>]) -> Option<Shadow> {
    find_place(coming, needs).inspect(|shadow| shadow.clear())
}

fn find_place(coming: Option<&Claim>, needs: &[Range<u64>]) -> Option<Shadow> {
    if threaded() && coming.is_none() {
        return lazy_shadow(needs);
    }
    let beside = |kind| coming.filter(|_| threaded()).and_then(|coming| Shadow::lazy_beside(kind, needs, coming));
    if by_fs()
        && let Some(shadow) =
            Shadow::at_distance(stack_moves(), Steps::Any, coming, threaded()).or_else(|| beside(at_distance()))
    {
        return Some(shadow);
    }
    leave_fs_in_call();
    Shadow::with_key(coming, threaded()).or_else(|| beside(Kind::Key))
}
