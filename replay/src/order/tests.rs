//! Hand-made dependencies.

use super::*;
use crate::log::ThreadId;
use bugnet_format::record::DependencyKind;
use bugnet_format::types::{Addr, Epoch, Pid};

/// Threads of so many instructions, in intervals of 10.
fn threads(lengths: &[u64]) -> Threads {
    let thread = |(i, length): (usize, &u64)| OrderedThread {
        id: ThreadId { pid: Pid(1).into(), tid: Tid(1 + i as u32) },
        intervals: (0..length.div_ceil(10))
            .map(|n| {
                let (number, instructions) = (IntervalNo(n), 10.min(length - 10 * n));
                OrderedInterval { number, epoch: Epoch(0), before: 10 * n, instructions }
            })
            .collect(),
        waits: Vec::new(),
        implied: 0,
        outside: 0,
        lost_from: u64::MAX,
        end: None,
        loans: Vec::new(),
        calls: Vec::new(),
    };
    Threads { threads: lengths.iter().enumerate().map(thread).collect() }
}

fn wait(threads: &mut Threads, thread: usize, at: u64, other: usize, until: u64) {
    let wait = Wait { at, other, until, kind: DependencyKind::Raw, block: Addr(0x1000), cut_off: false };
    threads.threads[thread].waits.push(wait);
    threads.threads[thread].waits.sort_by_key(|wait| wait.at);
}

/// That an order runs everything, and nothing before what it waits for.
fn assert_order(threads: &Threads, order: &[Segment]) {
    let mut at = vec![0; threads.threads.len()];
    for segment in order {
        let thread = &threads.threads[segment.thread];
        for wait in &thread.waits {
            let crossed = (at[segment.thread]..segment.until).contains(&wait.at);
            assert!(!crossed || at[wait.other] >= wait.until, "{segment:?} breaks {wait:?}");
        }
        assert!(segment.until > at[segment.thread], "{segment:?} does nothing");
        at[segment.thread] = segment.until;
    }
    assert!(at.iter().all(|at| *at == u64::MAX), "{at:?}");
}

#[test]
fn independent_threads_run_one_after_the_other() {
    let threads = threads(&[30, 5]);
    let order = schedule(&threads).unwrap();
    assert_eq!(order, [Segment { thread: 0, until: u64::MAX }, Segment { thread: 1, until: u64::MAX }]);
    let places: Vec<_> =
        stretches(&threads, &order).iter().map(|s| (s.tid.0, s.interval.0, s.from.0, s.to.0)).collect();
    assert_eq!(places, [(1, 0, 0, 10), (1, 1, 0, 10), (1, 2, 0, 10), (2, 0, 0, 5)]);
}

#[test]
fn a_thread_runs_as_far_as_it_can_before_another_does() {
    let mut threads = threads(&[30, 30]);
    wait(&mut threads, 0, 4, 1, 6);
    wait(&mut threads, 0, 8, 1, 9);
    wait(&mut threads, 1, 20, 0, 12);
    let order = schedule(&threads).unwrap();
    assert_order(&threads, &order);
    let expected = [(0, 4), (1, 20), (0, u64::MAX), (1, u64::MAX)];
    assert_eq!(order.iter().map(|s| (s.thread, s.until)).collect::<Vec<_>>(), expected);
}

#[test]
fn chains_and_many_threads() {
    let mut rng = 12345u64;
    let mut random = |below: u64| {
        rng = rng.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (rng >> 33) % below
    };
    for _ in 0..200 {
        let mut threads = threads(&[40, 40, 40, 40]);
        // Dependencies that a run in rounds of one instruction each satisfies.
        for _ in 0..30 {
            let (thread, other, at) = (random(4) as usize, random(4) as usize, random(40));
            if thread != other {
                wait(&mut threads, thread, at, other, random(at + 1));
            }
        }
        let order = schedule(&threads).unwrap();
        assert_order(&threads, &order);
    }
}

#[test]
fn a_cycle_is_told() {
    let mut threads = threads(&[30, 30, 30]);
    wait(&mut threads, 0, 4, 1, 9);
    wait(&mut threads, 1, 8, 2, 9);
    wait(&mut threads, 2, 3, 1, 9);
    let cycle = schedule(&threads).unwrap_err().to_string();
    assert_eq!(
        cycle,
        "the threads' dependencies contradict each other; process 1 thread 2 interval 0 instruction 8 comes after \
         process 1 thread 3 interval 0 instruction 9; process 1 thread 3 interval 0 instruction 3 comes after process 1 \
         thread 2 interval 0 instruction 9"
    );
}

#[test]
fn what_comes_after_a_cut_end_is_known_to() {
    let mut threads = threads(&[30, 20, 40, 10]);
    wait(&mut threads, 1, 5, 0, 3);
    // The first thread was further than its log when the second came here.
    wait(&mut threads, 1, 12, 0, 30);
    threads.threads[1].waits[1].cut_off = true;
    // Another one comes after that, and two do not.
    wait(&mut threads, 2, 25, 1, 14);
    wait(&mut threads, 3, 2, 1, 11);
    wait(&mut threads, 0, 7, 2, 20);
    assert_order(&threads, &schedule(&threads).unwrap());
    assert_eq!(unknown_from(&threads), [u64::MAX, 12, 25, u64::MAX]);
}

/// The lost instructions may be all that orders it behind what the others did.
#[test]
fn what_comes_after_a_cut_end_comes_last() {
    let mut threads = threads(&[30, 20, 30, 10]);
    wait(&mut threads, 0, 4, 2, 6);
    threads.threads[0].waits[0].cut_off = true;
    threads.threads[3].lost_from = 5;
    wait(&mut threads, 1, 9, 2, 12);
    let order = schedule(&threads).unwrap();
    assert_order(&threads, &order);
    let expected = [(0, 4), (1, 9), (2, u64::MAX), (1, u64::MAX), (3, 5), (0, u64::MAX), (3, u64::MAX)];
    assert_eq!(order.iter().map(|s| (s.thread, s.until)).collect::<Vec<_>>(), expected);
}

#[test]
fn an_order_goes_epoch_by_epoch() {
    let mut threads = threads(&[30, 20, 20]);
    // The third thread is idle in epoch 1.
    for (thread, epochs) in threads.threads.iter_mut().zip([&[0, 1, 2][..], &[0, 2], &[0, 2]]) {
        for (interval, epoch) in thread.intervals.iter_mut().zip(epochs) {
            interval.epoch = Epoch(*epoch);
        }
    }
    wait(&mut threads, 0, 4, 1, 6);
    let order = schedule(&threads).unwrap();
    assert_order(&threads, &order);
    let places: Vec<_> = stretches(&threads, &order).iter().map(|s| (s.epoch.0, s.tid.0, s.from.0, s.to.0)).collect();
    let (first, second) = ([(0, 1, 0, 4), (0, 2, 0, 10), (0, 1, 4, 10), (0, 3, 0, 10)], [(1, 1, 0, 10)]);
    assert_eq!(places, [&first[..], &second, &[(2, 1, 0, 10), (2, 2, 0, 10), (2, 3, 0, 10)]].concat());
}

/// An order goes by the dependencies first: a log that breaks the rule of epochs has one all the same.
#[test]
fn dependencies_count_more_than_epochs() {
    let mut threads = threads(&[20, 20]);
    for thread in &mut threads.threads {
        thread.intervals[1].epoch = Epoch(1);
    }
    wait(&mut threads, 0, 4, 1, 16);
    assert_order(&threads, &schedule(&threads).unwrap());
}

#[test]
fn system_calls_come_in_their_order() {
    let mut threads = threads(&[30, 30, 30]);
    let call = |at, order| OrderedCall { at, order };
    threads.threads[0].calls = vec![call(5, 2), call(12, 7)];
    threads.threads[1].calls = vec![call(8, 1), call(9, 5), call(25, 6)];
    threads.threads[2].calls = vec![call(0, 3), call(29, 4)];
    // The first thread's first call comes after something that the third one has done before its own.
    threads.threads[2].calls[0].at = 3;
    wait(&mut threads, 0, 4, 2, 2);
    let order = schedule(&threads).unwrap();
    assert_order(&threads, &order);
    let expected = [(1, 9), (0, 4), (2, 3), (0, 6), (2, 30), (1, 26), (0, u64::MAX), (1, u64::MAX), (2, u64::MAX)];
    assert_eq!(order.iter().map(|s| (s.thread, s.until)).collect::<Vec<_>>(), expected);
}

/// What no recorder writes: a call has a place before what it comes after.
#[test]
fn dependencies_count_more_than_the_order_of_system_calls() {
    let mut threads = threads(&[20, 20]);
    threads.threads[0].calls = vec![OrderedCall { at: 5, order: 1 }];
    threads.threads[1].calls = vec![OrderedCall { at: 5, order: 2 }];
    wait(&mut threads, 0, 4, 1, 16);
    assert_order(&threads, &schedule(&threads).unwrap());
}

#[test]
fn a_child_may_have_written_where_nothing_orders_its_parent() {
    let mut threads = threads(&[30, 30, 30]);
    assert!(!threads.may_be_of_child((0, 3), (0, 20)), "there is no child");
    threads.threads[1].loans = vec![Loan { at: 10, child: 99 }];
    assert!(threads.may_be_of_child((0, 3), (0, 20)), "nothing orders the two threads");
    // The third thread passes on what the first one has done: the loan comes behind the read of instruction 5, not that of 6.
    wait(&mut threads, 2, 4, 0, 6);
    wait(&mut threads, 1, 10, 2, 5);
    assert!(!threads.may_be_of_child((0, 3), (0, 5)));
    assert!(threads.may_be_of_child((0, 3), (0, 6)));
    // And what comes behind the loan, first by one instruction too few.
    wait(&mut threads, 0, 15, 1, 10);
    assert!(threads.may_be_of_child((0, 16), (0, 20)));
    wait(&mut threads, 0, 17, 1, 11);
    assert!(threads.may_be_of_child((0, 16), (0, 20)));
    assert!(!threads.may_be_of_child((0, 17), (0, 20)));
    // The parent's own accesses.
    assert!(threads.may_be_of_child((1, 9), (1, 11)));
    assert!(!threads.may_be_of_child((1, 11), (1, 12)) && !threads.may_be_of_child((1, 8), (1, 9)));
}
