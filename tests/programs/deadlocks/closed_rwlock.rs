// deadlock: closed_rwlock::A.inner.state.v.value, closed_rwlock::B.inner.state.v.value
//! Two threads that each want what the other holds: one reads what the other wants to write, and the other way round.

use std::sync::{Barrier, RwLock};

static A: RwLock<i32> = RwLock::new(1);
static B: RwLock<i32> = RwLock::new(2);

unsafe extern "C" {
    fn alarm(seconds: u32) -> u32;
}

fn main() {
    // SAFETY: it ends the process.
    unsafe { alarm(2) };
    // Who read before, and does not any more, holds nothing.
    let before = *A.read().unwrap() + *B.read().unwrap();
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(A.read().unwrap());
            let mut held = B.write().unwrap(); /* HOLDS */
            both.wait();
            let mut other = A.write().unwrap(); /* WAITS */
            *held += *other;
            *other += before;
        });
        let held = A.read().unwrap(); /* HOLDS */
        drop(A.read().unwrap());
        both.wait();
        println!("{}", *held + *B.read().unwrap()); /* WAITS */
    });
}
