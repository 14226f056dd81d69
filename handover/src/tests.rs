use super::*;
use std::thread;

/// Longer than any test.
const EVER: Duration = Duration::from_secs(3600);

/// Both sides of a file, each mapped for itself.
fn sides() -> (tempfile::TempDir, Handover, Handover) {
    let log = tempfile::tempdir().unwrap();
    let bugnet = Handover::create(log.path()).unwrap();
    let thread = Handover::open(log.path()).unwrap();
    (log, bugnet, thread)
}

fn job(number: u32) -> Job {
    Job {
        process: ProcessId { pid: Pid(number), program: 2 },
        tid: Tid(3),
        tail: 1,
        interval: IntervalNo(1 << 40),
        frame: 6,
        bytes: 7,
        offset: 1 << 33,
    }
}

#[test]
fn a_job_arrives_as_it_was_and_is_waited_for() {
    let (_log, bugnet, thread) = sides();
    for number in 1..200 {
        let worker = thread::spawn(move || {
            let mut taken = bugnet.next().unwrap();
            assert_eq!(taken.job, job(number));
            assert!(taken.begin_writing());
            taken.written();
        });
        let ticket = thread.offer(&job(number)).unwrap();
        // Once it is taken, the answer is waited for.
        while bugnet.any_waiting() {
            thread::yield_now();
        }
        assert_eq!(thread.settle(ticket, EVER), Settled::Written);
        worker.join().unwrap();
    }
}

#[test]
fn what_nobody_has_begun_is_taken_back() {
    let (_log, bugnet, thread) = sides();
    let ticket = thread.offer(&job(1)).unwrap();
    assert_eq!(thread.settle(ticket, EVER), Settled::TakenBack);
    assert!(bugnet.take().is_none());
}

#[test]
fn what_failed_is_said_to_have() {
    let (_log, bugnet, thread) = sides();
    for writing in [false, true] {
        let ticket = thread.offer(&job(1)).unwrap();
        let mut taken = bugnet.take().unwrap();
        assert!(!writing || taken.begin_writing());
        let waits = thread::spawn(move || thread.settle(ticket, EVER));
        drop(taken);
        assert_eq!(waits.join().unwrap(), Settled::Failed);
    }
}

#[test]
fn who_does_not_answer_loses_the_frame() {
    let (_log, bugnet, thread) = sides();
    for (writing, late) in [(false, false), (true, false), (true, true)] {
        let ticket = thread.offer(&job(1)).unwrap();
        let mut taken = bugnet.take().unwrap();
        assert!(!writing || taken.begin_writing());
        assert_eq!(thread.settle(ticket, Duration::from_millis(2)), Settled::TakenBack);
        // The slot has another frame when the answer comes, which says nothing about that one.
        let other = thread.offer(&job(2)).unwrap();
        match (writing, late) {
            (false, _) => assert!(!taken.begin_writing()),
            (true, false) => drop(taken),
            (true, true) => taken.written(),
        }
        let taken = bugnet.take().unwrap();
        assert_eq!(taken.job, job(2));
        drop(taken);
        assert_eq!(thread.settle(other, EVER), Settled::Failed);
    }
}

#[test]
fn slots_run_out_and_come_back() {
    let (_log, bugnet, thread) = sides();
    for _ in 0..3 {
        let tickets: Vec<_> = (0..SLOTS).map(|n| thread.offer(&job(n as u32)).unwrap()).collect();
        assert!(thread.offer(&job(0)).is_none());
        // Written frames free their slots without their threads, which may be gone.
        let mut taken = bugnet.take().unwrap();
        assert!(taken.begin_writing());
        taken.written();
        assert!(thread.offer(&job(0)).is_some());
        let mut taken = bugnet.take().unwrap();
        assert!(taken.begin_writing());
        taken.written();
        let written = |settled: &Settled| *settled == Settled::Written;
        let settled: Vec<_> = tickets.into_iter().map(|ticket| thread.settle(ticket, EVER)).collect();
        assert_eq!(settled.iter().filter(|s| written(s)).count(), 1);
        assert!(!bugnet.any_waiting());
    }
}

#[test]
fn generations_wrap() {
    let (_log, bugnet, thread) = sides();
    thread.0.slots[0].word.store(Word(u32::MAX).to(State::Free).0, Ordering::Release);
    let ticket = thread.offer(&job(1)).unwrap();
    assert_eq!((ticket.slot, ticket.generation), (0, u32::MAX >> STATE_BITS));
    let mut taken = bugnet.take().unwrap();
    assert!(taken.begin_writing());
    taken.written();
    assert_eq!(bugnet.0.slots[0].word(), Word(0));
    assert_eq!(thread.settle(ticket, EVER), Settled::Written);
}

#[test]
fn a_closed_one_takes_nothing_and_keeps_nobody() {
    let (_log, bugnet, thread) = sides();
    let ticket = thread.offer(&job(1)).unwrap();
    assert_eq!(thread.settle(ticket, EVER), Settled::TakenBack);
    let waits = thread::spawn(move || bugnet.next().is_none());
    bugnet.close();
    assert!(waits.join().unwrap());
    assert!(thread.offer(&job(2)).is_none());
}

/// Threads that offer, take back and wait, against others that take, write and fail: whatever happens, a frame is written
/// by whoever is said to have written it.
#[test]
fn nobody_is_told_what_is_not_so() {
    const FRAMES: u32 = 20_000;
    let (_log, bugnet, thread) = sides();
    let written: Vec<AtomicU32> = (0..2 * FRAMES).map(|_| AtomicU32::new(0)).collect();
    let written = &written;
    thread::scope(|scope| {
        for worker in 0..2 {
            scope.spawn(move || {
                let mut turn = worker;
                while let Some(mut taken) = bugnet.next() {
                    turn += 1;
                    if turn % 7 != 0 && taken.begin_writing() {
                        written[taken.job.process.pid.0 as usize].fetch_add(1, Ordering::Relaxed);
                        taken.written();
                    }
                }
            });
        }
        let threads = [0, 1].map(|number| {
            scope.spawn(move || {
                for frame in number * FRAMES..(number + 1) * FRAMES {
                    let Some(ticket) = thread.offer(&job(frame)) else { continue };
                    if frame % 3 == 0 {
                        thread::yield_now();
                    }
                    let patience = if frame % 5 == 0 { Duration::ZERO } else { EVER };
                    let settled = thread.settle(ticket, patience);
                    let times = written[frame as usize].load(Ordering::Relaxed);
                    match settled {
                        Settled::Written => assert_eq!(times, 1),
                        Settled::Failed => assert_eq!(times, 0),
                        // It may have been under way.
                        Settled::TakenBack => assert!(times <= 1),
                    }
                }
            })
        });
        let ends = threads.map(|thread| thread.join());
        bugnet.close();
        ends.into_iter().for_each(|end| end.unwrap());
    });
}

#[test]
fn another_file_is_refused() {
    let (log, _bugnet, _thread) = sides();
    let path = log.path().join(FILE);
    let whole = std::fs::read(&path).unwrap();
    let mut other = whole.clone();
    other[0] ^= 1;
    for bytes in [&other, &whole[1..]] {
        std::fs::write(&path, bytes).unwrap();
        assert!(Handover::open(log.path()).is_err());
    }
    std::fs::remove_file(&path).unwrap();
    assert!(Handover::open(log.path()).is_err());
}
