//! Copies of the process, conditions, several threads, and interrupts.

use crate::common::{CODE, DATA, Interval, Replay, STACK, Stopped, assemble, start, target};
use crate::{RAX, RBX, RCX, RDX, assert_end};
use bugnet_format::control::{
    self, ByteState, Conditions, Event, Explanation, Hit, Hits, Request, Response, Stop, Target, WatchedRange,
};
use bugnet_format::record::OutputStream;
use bugnet_format::regs::RegisterFile;
use iced_x86::code_asm::*;
use std::collections::BTreeMap;
use std::time::Duration;

/// Rounds of [`looping`].
const ROUNDS: u64 = 300;

/// Counts in memory, and leaves a trail there: code, registers at the start, and positions.
fn looping() -> (Vec<u8>, RegisterFile, u64) {
    let code = assemble(CODE, |a| {
        let mut again = a.create_label();
        a.mov(rcx, ROUNDS)?;
        a.set_label(&mut again)?;
        a.inc(qword_ptr(rbx))?;
        a.mov(qword_ptr(rbx + rcx * 8 + 64), rcx)?;
        a.lea(r11, qword_ptr(r11 + rcx))?;
        a.dec(rcx)?;
        a.jnz(again)?;
        a.nop()
    });
    let mut regs = start();
    regs.gpr[RBX] = DATA;
    (code, regs, 2 + 5 * ROUNDS)
}

fn open(package: &[u8]) -> Replay {
    let mut replay = Replay::start(package);
    assert_eq!(replay.receive(), Response::Ready);
    replay
}

/// A looping interval without an end.
fn loops() -> (Replay, u64) {
    let (code, regs, positions) = looping();
    let mut interval = Interval::new(&code, &regs);
    (open(&interval.syscall(positions, 39, 1, [0; 6], OutputStream::None, &[]).package()), positions)
}

fn watch(replay: &mut Replay, conditions: Conditions) {
    replay.send(&Request::Conditions(conditions));
    assert_eq!(replay.receive(), Response::Ready);
}

/// What a debugger sees.
fn state(replay: &mut Replay, run: &Stopped) -> (u64, RegisterFile, Vec<u8>) {
    (run.position, run.regs.clone(), replay.read(DATA, 64 + 8 * (ROUNDS + 1)))
}

#[test]
fn copies_go_on_by_themselves_wherever_they_are_made() {
    let (mut straight, positions) = loops();
    let mut states = Vec::new();
    for position in 0..positions {
        let run = straight.run_to(position);
        assert_eq!((&run.stop, run.position, run.time), (&Stop::Reached, position, position));
        states.push(state(&mut straight, &run));
    }
    let mut first = loops().0;
    first.run_to(0);
    let mut copies = BTreeMap::from([(0, first)]);
    let mut random = 12345_u64;
    for _ in 0..300 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let position = (random >> 33) % positions;
        let (at, nearest) = copies.range_mut(..=position).next_back().expect("the first one");
        let mut copy = nearest.fork();
        assert!(*at <= position);
        let run = copy.run_to(position);
        assert!(state(&mut copy, &run) == states[position as usize], "{run:?}");
        // Copies of copies, a few of which stay.
        if copies.len() < 20 {
            copies.insert(position, copy);
        }
    }
}

#[test]
fn watched_instructions_stop_a_run_or_say_where_they_were_last() {
    let (mut replay, positions) = loops();
    let decrement = CODE + 10 + 3 + 5 + 4;
    watch(&mut replay, Conditions { addresses: vec![decrement, CODE + 3], ..Conditions::default() });
    let mut copy = replay.fork();
    for round in 0..3 {
        let run = replay.run_until(Target::End, Hits::Stop);
        let at = 4 + 5 * round;
        assert_eq!((&run.stop, run.position, run.regs.rip), (&Stop::Hit, at, decrement));
        assert_eq!(run.hit, Some(Hit { thread: 0, at, time: at, what: Event::Address(decrement) }));
        assert_eq!(run.regs.gpr[RCX], ROUNDS - round);
    }
    // Up to, but not including.
    for (until, last) in
        [(0, None), (4, None), (5, Some(4)), (9, Some(4)), (10, Some(9)), (positions - 1, Some(positions - 3))]
    {
        let mut run = copy.fork();
        let run = run.run_until(target(until), Hits::Last);
        assert_eq!((&run.stop, run.position), (&Stop::Reached, until));
        assert_eq!(run.hit.map(|hit| hit.at), last, "{until}");
    }
    // None any more.
    watch(&mut replay, Conditions::default());
    assert_eq!(replay.run_until(target(positions - 1), Hits::Stop).stop, Stop::Reached);
}

#[test]
fn watched_memory_stops_a_run_behind_the_access() {
    let (mut replay, positions) = loops();
    // The trail's entry of the round with RCX 100, of which two bytes are watched, and the counter's reads.
    let (entry, round) = (DATA + 64 + 800, ROUNDS - 100);
    let range = |addr, reads, writes| WatchedRange { addr, len: 2, reads, writes, changes: false };
    watch(&mut replay, Conditions { ranges: vec![range(entry + 3, false, true)], ..Conditions::default() });
    let mut copy = replay.fork();
    let at = 1 + 5 * round + 1;
    let hit = Hit { thread: 0, at, time: at, what: Event::Access { range: 0, addr: entry, len: 8, write: true } };
    assert!(replay.read(entry, 8).iter().all(|byte| *byte == 0));
    let run = replay.run_until(Target::End, Hits::Stop);
    assert_eq!((&run.stop, run.position, run.hit), (&Stop::Hit, at + 1, Some(hit)));
    assert_eq!(replay.read(entry, 8), 100_u64.to_le_bytes());
    let run = replay.run_until(target(positions - 1), Hits::Stop);
    assert_eq!((&run.stop, run.hit), (&Stop::Reached, None));
    let run = copy.fork().run_until(target(positions - 1), Hits::Last);
    assert_eq!((&run.stop, run.hit), (&Stop::Reached, Some(hit)));
    assert_eq!(copy.fork().run_until(target(at), Hits::Last).hit, None);
    // Reads, of what is read and written at once.
    watch(&mut copy, Conditions { ranges: vec![range(DATA + 6, true, false)], ..Conditions::default() });
    let run = copy.run_until(Target::End, Hits::Stop);
    assert_eq!((&run.stop, run.position), (&Stop::Hit, 2));
    let run = copy.run_until(target(20), Hits::Last);
    assert_eq!((run.position, run.hit.map(|hit| hit.at)), (20, Some(16)));
}

#[test]
fn what_comes_from_outside_into_watched_memory_is_seen() {
    let code = assemble(CODE, |a| {
        a.mov(qword_ptr(rbx), rcx)?;
        a.mov(rax, qword_ptr(rbx))?;
        a.mov(rdx, qword_ptr(rbx))?;
        a.nop()
    });
    let mut regs = start();
    (regs.gpr[RBX], regs.gpr[RCX]) = (DATA, 7);
    let mut end = regs.clone();
    (end.gpr[RAX], end.gpr[RDX], end.rip) = (7, 9, CODE + code.len() as u64);
    let mut replay = open(&Interval::new(&code, &regs).load(2, 0, &9_u64.to_le_bytes()).end(4, &end).package());
    let range = WatchedRange { addr: DATA, len: 1, reads: false, writes: true, changes: false };
    watch(&mut replay, Conditions { ranges: vec![range], ..Conditions::default() });
    assert_eq!(replay.run_until(Target::End, Hits::Stop).position, 1);
    let run = replay.run_until(Target::End, Hits::Stop);
    assert_eq!((&run.stop, run.position), (&Stop::Hit, 2));
    assert_eq!(run.hit.map(|hit| hit.what), Some(Event::Outside { range: 0, addr: DATA, len: 8 }));
    assert_end(&replay.run());
}

#[test]
fn system_calls_stop_a_run_before_they_are_made() {
    let code = assemble(CODE, |a| {
        a.syscall()?;
        a.syscall()?;
        a.syscall()
    });
    let regs = start();
    let mut interval = Interval::new(&code, &regs);
    for (position, number) in [(0, 39), (1, 1), (2, 39)] {
        interval.syscall(position, number, 5, [0; 6], OutputStream::None, &[]);
    }
    let mut replay = open(&interval.package());
    watch(&mut replay, Conditions { calls: vec![39], ..Conditions::default() });
    for at in [0, 2] {
        let run = replay.run_until(Target::End, Hits::Stop);
        assert_eq!((&run.stop, run.position), (&Stop::Hit, at));
        assert_eq!(run.hit.map(|hit| hit.what), Some(Event::Call(39)));
        assert_eq!(run.regs.rip, CODE + 2 * at);
    }
    assert_eq!(replay.run_until(Target::End, Hits::Stop).stop, Stop::CutOff);
}

#[test]
fn threads_run_in_their_order_on_one_memory() {
    let code = assemble(CODE, |a| {
        let mut again = a.create_label();
        a.set_label(&mut again)?;
        a.add(qword_ptr(rbx), rcx)?;
        a.mov(rax, qword_ptr(rbx))?;
        a.jmp(again)
    });
    let with = |value| {
        let mut regs = start();
        (regs.gpr[RBX], regs.gpr[RCX]) = (DATA, value);
        regs
    };
    let ends = |value, sum| {
        let mut regs = with(value);
        regs.gpr[RAX] = sum;
        regs.rflags_known = 0;
        regs
    };
    let [mut one, mut ten] = [1, 10].map(|value| Interval::new(&code, &with(value)));
    one.end(9, &ends(1, 23));
    ten.end(6, &ends(10, 22));
    let segments = [(0, 3), (1, 2), (0, 4), (1, 5), (0, 4), (0, 5), (1, u64::MAX), (0, u64::MAX)];
    // 0: 1 1. 1: 11 11. 0: 12. 1: (loop) 22. 0: reads 22, not what it added.
    let package = Interval::package_of(&[&one, &ten], &segments);
    let mut replay = open(&package);
    let run = replay.run_until(Target::Time(6), Hits::Ignore);
    assert_eq!((run.thread, run.position, run.time), (1, 2, 6));
    let Response::Registers { at, over, regs, counts } = ({
        replay.send(&Request::Registers { thread: 0 });
        replay.receive()
    }) else {
        panic!("no registers")
    };
    assert_eq!((at, over, regs.gpr[RAX]), (4, false, 1));
    assert_eq!((counts.instructions, counts.checks), (4, 0));
    assert_eq!(replay.read(DATA, 8), 12_u64.to_le_bytes());
    let run = replay.run_until(Target::Place { thread: 0, at: 5 }, Hits::Ignore);
    assert_eq!((run.thread, run.position, run.time, run.regs.gpr[RAX]), (0, 5, 11, 22));
    replay.send(&Request::RunTo { target: Target::Place { thread: 1, at: 3 }, hits: Hits::Ignore, output: false });
    let Response::Refused(why) = replay.receive() else { panic!("went back") };
    assert!(why.contains("is at 6 already"), "{why}");
    assert_end(&replay.run());

    // Each change of threads.
    let mut replay = open(&package);
    watch(&mut replay, Conditions { threads: true, ..Conditions::default() });
    let mut changes = Vec::new();
    loop {
        let run = replay.run_until(Target::End, Hits::Stop);
        if run.stop == Stop::End {
            break;
        }
        assert_eq!(run.hit.map(|hit| hit.what), Some(Event::Thread));
        changes.push((run.thread, run.position, run.time));
    }
    assert_eq!(changes, [(1, 0, 3), (0, 3, 5), (1, 2, 6), (0, 4, 9), (1, 5, 10), (0, 5, 11)]);
}

#[test]
fn a_long_run_can_be_interrupted_and_gone_on_with() {
    let code = assemble(CODE, |a| {
        let mut again = a.create_label();
        a.set_label(&mut again)?;
        a.inc(rcx)?;
        a.jmp(again)
    });
    let mut replay = open(&Interval::new(&code, &start()).end(1 << 50, &start()).package());
    let mut control = replay.control();
    let caller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        control::send(&mut control, &Request::Interrupt).expect("takes requests");
    });
    let run = replay.run_until(Target::End, Hits::Stop);
    caller.join().expect("no panic");
    assert_eq!(run.stop, Stop::Interrupted);
    // One that comes too late is no harm.
    replay.send(&Request::Interrupt);
    let next = replay.run_to(run.position + 1);
    assert_eq!((&next.stop, next.position), (&Stop::Reached, run.position + 1));
}

#[test]
fn what_cannot_be_is_refused() {
    let (mut replay, positions) = loops();
    replay.run_to(10);
    let refused = |replay: &mut Replay, request: &Request| {
        replay.send(request);
        let Response::Refused(why) = replay.receive() else { panic!("{request:?} is done") };
        why
    };
    let run_to = |target| Request::RunTo { target, hits: Hits::Ignore, output: false };
    assert!(refused(&mut replay, &run_to(target(9))).contains("is at 10 already"));
    assert!(refused(&mut replay, &run_to(Target::Time(3))).contains("is at 10 already"));
    assert!(refused(&mut replay, &run_to(Target::Place { thread: 1, at: 11 })).contains("no thread 1"));
    assert!(refused(&mut replay, &Request::Registers { thread: 7 }).contains("no thread 7"));
    assert!(
        refused(&mut replay, &Request::Compare { explain: Explanation::None, rooms: Vec::new() })
            .contains("before anything is run")
    );
    assert!(refused(&mut replay, &Request::Compared).contains("nothing was compared"));
    let addresses = vec![0; control::MAX_CONDITIONS + 1];
    assert!(
        refused(&mut replay, &Request::Conditions(Conditions { addresses, ..Conditions::default() }))
            .contains("more than")
    );
    // And it lives on.
    assert_eq!(replay.run_to(positions - 1).position, positions - 1);
}

#[test]
fn a_glance_sees_what_a_watch_would_meet() {
    let code = assemble(CODE, |a| {
        a.mov(qword_ptr(rbx), rcx)?;
        a.mov(rax, qword_ptr(rbx))?;
        a.mov(rdx, qword_ptr(rbx))?;
        a.lea(rdi, qword_ptr(rbx + 64))?;
        a.rep().stosb()?;
        a.nop()
    });
    let mut regs = start();
    (regs.gpr[RBX], regs.gpr[RCX]) = (DATA, 7);
    let mut interval = Interval::new(&code, &regs);
    interval.load(2, 0, &9_u64.to_le_bytes()).syscall(6, 39, 1, [0; 6], OutputStream::None, &[]);
    let mut replay = Replay::start(&interval.package());
    assert_eq!(replay.receive(), Response::Ready);
    replay.send(&Request::Track);
    assert_eq!(replay.receive(), Response::Watching);
    let range = |addr, reads| WatchedRange { addr, len: 1, reads, writes: !reads, changes: false };
    let glance = |replay: &mut Replay, ranges: &[WatchedRange]| {
        replay.send(&Request::Glance { ranges: ranges.to_vec() });
        match replay.receive() {
            Response::Glanced(noticed) => noticed,
            other => panic!("unexpected response {other:?}"),
        }
    };
    replay.run_to(0);
    if glance(&mut replay, &[]).is_none() {
        // This machine cannot do it.
        return;
    }
    // At each position, what was done before it since the one before: to the first byte, to one that the record changes, by reads, and
    // by the string instruction.
    let ranges = [range(DATA, false), range(DATA + 8, false), range(DATA, true), range(DATA + 70, false)];
    let expected = [
        // Written. The record that is about to be read comes with the position behind that.
        [true, false, false, false],
        [true, false, true, false],
        [false, false, true, false],
        [false, false, false, false],
        [false, false, false, true],
    ];
    for (number, range) in ranges.iter().enumerate() {
        let mut copy = replay.fork();
        glance(&mut copy, &[*range]);
        for (position, expected) in (1..).zip(&expected) {
            assert_eq!(copy.run_to(position).stop, Stop::Reached);
            let noticed = glance(&mut copy, &[*range]);
            // A mark of a write is one of an access, too.
            let may_be = expected[number] || range.reads && position == 1;
            assert!(
                noticed == Some(expected[number]) || noticed == Some(may_be),
                "{range:x?} before {position}: {noticed:?}"
            );
        }
    }
    // All in one go, and what was seen before somebody asked is not seen again.
    for range in [ranges[0], ranges[2], ranges[3]] {
        let mut copy = replay.fork();
        glance(&mut copy, &[range]);
        copy.run_to(5);
        assert_eq!(glance(&mut copy, &[range]), Some(true));
        assert_eq!(glance(&mut copy, &[range]), Some(false));
    }
}

/// What instructions access by FS and GS is known, and nothing else, wherever their operands' registers stand.
#[test]
fn what_is_accessed_by_segments_is_known() {
    const GS: u64 = DATA + 0x1000;
    let code = assemble(CODE, |a| {
        a.mov(rax, qword_ptr(0x8).fs())?;
        a.mov(dword_ptr(rbp + 0x10).fs(), ecx)?;
        a.mov(rdi, qword_ptr(rdi + rsi * 4 + 0x20).fs())?;
        a.movzx(r11d, word_ptr(r11 + 0x100).fs())?;
        a.add(byte_ptr(r12 + r13).fs(), bl)?;
        a.movups(xmm3, xmmword_ptr(r13 + 0x200).fs())?;
        a.mov(qword_ptr(rsp + 0x300).gs(), rbx)?;
        a.mov(rdx, qword_ptr(rsp + rcx * 8 + 0x310).gs())?;
        a.mov(rcx, qword_ptr(rcx + 0x3f0).fs())?;
        a.call(qword_ptr(0x400).fs())?;
        a.nop()?;
        a.push(qword_ptr(0x500).fs())?;
        a.nop()
    });
    let mut regs = start();
    (regs.fs_base, regs.gs_base) = (DATA, GS.wrapping_sub(STACK));
    for (reg, value) in [(1, 2), (5, 0x40), (6, 4), (7, 0x80), (11, 1), (12, 0x600), (13, 0x10)] {
        regs.gpr[reg] = value;
    }
    // The call goes to the instruction behind the `nop` that follows it.
    let target = CODE + code.len() as u64 - 1 - 8;
    let mut interval = Interval::new(&code, &regs);
    interval.load(9, 0, &target.to_le_bytes()).syscall(12, 39, 1, [0; 6], OutputStream::None, &[]);
    let accessed = [
        (DATA + 0x8, 8),
        (DATA + 0x50, 4),
        (DATA + 0x80 + 0x10 + 0x20, 8),
        (DATA + 0x101, 2),
        (DATA + 0x610, 1),
        (DATA + 0x210, 16),
        (GS + 0x300, 8),
        (GS + 0x310 + 0x10, 8),
        (DATA + 0x3f2, 8),
        (DATA + 0x400, 8),
        (DATA + 0x500, 8),
    ];
    let mut replay = Replay::start(&interval.package());
    assert_eq!(replay.receive(), Response::Ready);
    replay.send(&Request::Track);
    assert_eq!(replay.receive(), Response::Watching);
    // All at once, and one after the other, where instructions stand alone in blocks.
    let copy = replay.fork();
    for (mut replay, stops) in [(replay, vec![11]), (copy, (1..=11).collect())] {
        stops.into_iter().for_each(|stop| assert_eq!(replay.run_to(stop).stop, Stop::Reached));
        replay.send(&Request::ReadKnown { addr: DATA, len: 0x2000 });
        let Response::Known { states, .. } = replay.receive() else { panic!("nothing is known") };
        let is_accessed = |at: u64| accessed.iter().any(|(start, len)| (*start..start + len).contains(&at));
        for (at, state) in (DATA..).zip(states) {
            assert_eq!(state == ByteState::Known, is_accessed(at), "{:#x} is {state:?}", at - DATA);
        }
        assert_eq!(replay.read(GS + 0x300, 8), regs.gpr[3].to_le_bytes());
    }
}

/// Memory that comes by an access, and has the same marks as other memory: of neither is more known than was accessed, and what the marks
/// had said is not lost, but for what the access has marked itself.
#[test]
fn memory_that_marks_cannot_tell_apart_comes() {
    const OTHER: u64 = DATA - (1 << 32);
    let code = assemble(CODE, |a| {
        a.mov(rax, qword_ptr(rbx))?;
        a.mov(rcx, qword_ptr(rbx + 8))?;
        a.mov(qword_ptr(rdi + 8), rax)?;
        a.mov(rdi, qword_ptr(rdi + 32))?;
        a.nop()
    });
    let mut regs = start();
    (regs.gpr[RBX], regs.gpr[7]) = (DATA, OTHER);
    let mut interval = Interval::new(&code, &regs);
    interval.load(0, 0, &[5; 8]).syscall(5, 39, 1, [0; 6], OutputStream::None, &[]);
    let mut replay = Replay::start(&interval.package());
    assert_eq!(replay.receive(), Response::Ready);
    replay.send(&Request::Track);
    assert_eq!(replay.receive(), Response::Watching);
    assert_eq!(replay.run_to(4).stop, Stop::Reached);
    let mut known = |addr| {
        replay.send(&Request::ReadKnown { addr, len: 64 });
        let Response::Known { states, .. } = replay.receive() else { panic!("nothing is known") };
        let known: Vec<bool> = states.into_iter().map(|state| state == ByteState::Known).collect();
        known.chunks(8).map(|bytes| bytes.iter().filter(|known| **known).count()).collect::<Vec<_>>()
    };
    let (data, other) = (known(DATA), known(OTHER));
    assert_eq!((data[0], &data[2..]), (8, &[0; 6][..]));
    assert!([0, 8].contains(&data[1]), "{data:?}");
    assert_eq!(other, [0, 8, 0, 0, 8, 0, 0, 0]);
    assert_eq!(replay.read(OTHER + 8, 8), [5; 8]);
    // A search has to look into what may have been accessed, and written.
    replay.send(&Request::Left { from: DATA });
    let Response::Left { pages, .. } = replay.receive() else { panic!("nothing is left") };
    assert_eq!(pages[0].addr, DATA);
    assert!(pages[0].accessed & 1 == 1 && (data[1] == 8 || pages[0].written & 1 == 1), "{:?}", pages[0]);
}

#[test]
fn what_holds_at_the_ends_of_a_run_counts_if_that_is_wanted() {
    let (mut replay, _) = loops();
    watch(&mut replay, Conditions { addresses: vec![CODE + 10], ..Conditions::default() });
    replay.run_to(1);
    assert_eq!(replay.fork().run_until(target(7), Hits::Stop).position, 6);
    assert_eq!(replay.fork().run_until(target(5), Hits::Stop).stop, Stop::Reached);
    let run = replay.fork().run_until(target(5), Hits::StopHere);
    assert_eq!((run.stop, run.position), (Stop::Hit, 1));
    // A record that comes before the next instruction, behind another write.
    let code = assemble(CODE, |a| {
        a.mov(qword_ptr(rbx), rcx)?;
        a.mov(rax, qword_ptr(rbx))?;
        a.nop()
    });
    let mut regs = start();
    (regs.gpr[RBX], regs.gpr[RCX]) = (DATA, 7);
    let mut replay = open(&Interval::new(&code, &regs).load(1, 0, &9_u64.to_le_bytes()).package());
    let range = WatchedRange { addr: DATA, len: 1, reads: false, writes: true, changes: false };
    watch(&mut replay, Conditions { ranges: vec![range], ..Conditions::default() });
    let hit = |hits| replay.fork().run_until(Target::Time(1), hits).hit.map(|hit| hit.time);
    let mut hit = hit;
    assert_eq!(hit(Hits::Last), Some(1));
    assert_eq!(hit(Hits::LastBefore), Some(0));
}
