// built: parked
// deadlock: parked::COUNT, parked::LIST
//! A program with threads to record: two threads that each want a lock of `parking_lot` that the other holds. `alarm` ends it.

use parking_lot::{Mutex, RwLock};
use std::sync::Barrier;

static COUNT: Mutex<i32> = Mutex::new(1);
static LIST: RwLock<Vec<i32>> = RwLock::new(Vec::new());

fn main() {
    // SAFETY: it ends the process.
    unsafe { libc::alarm(2) };
    // Who had a lock before holds nothing.
    LIST.write().push(*COUNT.lock());
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(LIST.read());
            let mut count = COUNT.lock(); /* HOLDS */
            both.wait();
            LIST.write().push(*count); /* WAITS */
            *count += 1;
        });
        let list = LIST.read(); /* HOLDS */
        both.wait();
        *COUNT.lock() += list.len() as i32; /* WAITS */
    });
}
