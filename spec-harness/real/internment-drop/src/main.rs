//! Three threads intern the same value and let it go, over and over.

use internment::ArcIntern;
use std::hash::{Hash, Hasher};
use std::thread;

const WORDS: usize = 128;
const MARK: u64 = 0x5eed_5eed_5eed_5eed;

/// A value that says when it is no more.
struct Value([u64; WORDS]);

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        for word in &mut self.0 {
            // SAFETY: it is this value's own; the write must not be left out.
            unsafe { std::ptr::write_volatile(word, 0) };
        }
    }
}

fn worker(rounds: u32) {
    for _ in 0..rounds {
        let value = ArcIntern::new(Value([MARK; WORDS]));
        for word in &value.0 {
            // SAFETY: a reference is valid; the read must not be left out.
            if unsafe { std::ptr::read_volatile(word) } != MARK {
                println!("an interned value went away while it was in use");
                std::process::exit(3);
            }
        }
    }
}

fn main() {
    let good = std::env::args().nth(1).as_deref() == Some("good");
    let rounds = 200_000;
    let threads = if good { 1 } else { 3 };
    let handles: Vec<_> = (0..threads).map(|_| thread::spawn(move || worker(rounds))).collect();
    for handle in handles {
        handle.join().unwrap();
    }
    println!("every value stayed");
}
