// deadlock: closed_rust::A.inner.futex.v.value, closed_rust::B.inner.futex.v.value
//! Two threads that each want what the other holds: locks of Rust's standard library, which are taken without a call.

use std::sync::{Barrier, Mutex};

static A: Mutex<i32> = Mutex::new(1);
static B: Mutex<i32> = Mutex::new(2);

unsafe extern "C" {
    fn alarm(seconds: u32) -> u32;
}

fn main() {
    // SAFETY: it ends the process.
    unsafe { alarm(2) };
    // Each was free again in between.
    *A.lock().unwrap() += 1;
    *B.lock().unwrap() += 1;
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let held = B.lock().unwrap(); /* HOLDS */
            both.wait();
            *A.lock().unwrap() += *held; /* WAITS */
        });
        let held = A.lock().unwrap(); /* HOLDS */
        both.wait();
        *B.lock().unwrap() += *held; /* WAITS */
    });
}
