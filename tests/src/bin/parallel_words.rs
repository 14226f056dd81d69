//! A program with threads to record: `parallel_words THREADS COUNT` sorts and counts words with rayon.

use rayon::prelude::*;
use std::collections::BTreeMap;

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let &[threads, count] = &arguments[..] else {
        eprintln!("usage: parallel_words THREADS COUNT");
        std::process::exit(2);
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| {
        let word = |number: usize| format!("w{:05}", number.wrapping_mul(2_654_435_761) % 10_007);
        let mut words: Vec<String> = (0..count).into_par_iter().map(word).collect();
        words.par_sort();
        let counts = words.par_iter().fold(BTreeMap::<&str, usize>::new, |mut counts, word| {
            *counts.entry(word).or_default() += 1;
            counts
        });
        let counts = counts.reduce(BTreeMap::new, |mut a, b| {
            for (word, count) in b {
                *a.entry(word).or_default() += count;
            }
            a
        });
        println!("{} words, {} of them differ", words.len(), counts.len());
        println!("{:?}", counts.iter().max_by_key(|(word, count)| (**count, **word)));
    });
}
