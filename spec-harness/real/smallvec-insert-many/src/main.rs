//! Inserts what an iterator gives, of which the hint says too little, before the
//! end of a vector on the heap.

use smallvec::SmallVec;

fn main() {
    let good = std::env::args().nth(1).as_deref() == Some("good");
    let mut numbers: SmallVec<[u64; 1]> = SmallVec::new();
    numbers.extend([1000, 2000]);
    let neighbour = vec![7u64; 2];
    // A filter's lower bound is nought.
    let even = (0..40u64).filter(|number| number % 2 == 0);
    if good {
        numbers.insert_many(0, even.collect::<Vec<_>>());
    } else {
        numbers.insert_many(0, even);
    }
    println!("{} numbers, the last {:?}", numbers.len(), numbers.last());
    println!("neighbour {neighbour:?}");
}
