//! What is written is read back as it was, and every prefix of a file as a prefix of it.

mod common;

use bugnet_format::code::{CodeStore, PAGE, encode_header, encode_page};
use bugnet_format::control::{self, Counts, Event, Hit, Hits, Request, Response, Stop, Target};
use bugnet_format::frame::{Interval, IntervalHeader, TAIL_HEADER_SIZE, TailHeader, encode_frame, read_tail};
use bugnet_format::package::{self, Package, Segment};
use bugnet_format::record::{
    DependencyKind, EndReason, LOAD_FORMS, LoadValue, MAX_ORDINAL, OutputStream, Placed, Record, Records,
    RegisterUpdates, SignalStep, SpecialKind, register_number,
};
use bugnet_format::regs::{NOTHING_KNOWN, RegisterFile};
use bugnet_format::trace::Written;
use bugnet_format::types::{Addr, CodeSeq, Epoch, IntervalNo, Pid, Position, Tid};
use proptest::prelude::*;
use std::path::Path;

/// A record with bytes and text of its own, to make [`Record`]s that borrow from it.
#[derive(Clone, Debug)]
enum Owned {
    Plain(Record<'static>),
    Load(u64, u8, u64, Vec<u8>),
    Memory(u64, u64, Vec<u8>),
    SyscallData(u8, Vec<u8>),
    Snapshot(u64, Vec<u8>),
    Zeros(u64, u64),
    Omitted(u64, u64),
    Reach(u64, u64),
    Note(String),
}

impl Owned {
    fn record(&self) -> Record<'_> {
        match self {
            Self::Plain(record) => record.clone(),
            Self::Load(delta, ordinal, offset, bytes) => {
                Record::Load { delta: *delta, ordinal: *ordinal, offset: *offset, value: LoadValue::new(bytes) }
            }
            Self::Memory(delta, addr, bytes) => Record::Memory { delta: *delta, addr: Addr(*addr), bytes },
            Self::SyscallData(arg, bytes) => Record::SyscallData { arg: *arg, bytes },
            Self::Snapshot(addr, bytes) => Record::Snapshot { addr: Addr(*addr), bytes },
            Self::Zeros(addr, len) => Record::Zeros { addr: Addr(*addr), len: *len },
            Self::Omitted(addr, len) => Record::Omitted { addr: Addr(*addr), len: *len },
            Self::Reach(addr, len) => Record::Reach { addr: Addr(*addr), len: *len },
            Self::Note(text) => Record::Note { text },
        }
    }
}

/// Numbers of all magnitudes.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(n, shift)| n >> shift)
}

/// Deltas small enough that a stream of them does not overflow its position.
fn delta() -> impl Strategy<Value = u64> {
    prop_oneof![0..3u64, number().prop_map(|n| n >> 16)]
}

/// A part of the address space.
fn part() -> impl Strategy<Value = (u64, u64)> {
    (0..1u64 << 47, 1..=u64::from(u32::MAX))
}

fn registers() -> impl Strategy<Value = Box<RegisterFile>> {
    (
        any::<[u64; 16]>(),
        any::<[u64; 5]>(),
        any::<[u16; 3]>(),
        any::<u8>(),
        any::<[[u8; 10]; 8]>(),
        any::<[[u8; 32]; 16]>(),
    )
        .prop_map(|(gpr, [rip, rflags, rflags_known, fs_base, gs_base], [mxcsr, fcw, fsw], ftw, st, ymm)| {
            let mxcsr = mxcsr.into();
            // That nothing is known is rare.
            let rflags_known = if fcw % 8 == 0 { rflags_known } else { rflags_known & !NOTHING_KNOWN };
            Box::new(RegisterFile { gpr, rip, rflags, rflags_known, fs_base, gs_base, mxcsr, fcw, fsw, ftw, st, ymm })
        })
}

fn updates() -> impl Strategy<Value = RegisterUpdates> {
    prop::collection::btree_map(0..register_number::COUNT, any::<u64>(), 0..5)
        .prop_map(|values| RegisterUpdates { values: values.into_iter().collect() })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 1..80)
}

/// An address with room for [`bytes`] above it.
fn place() -> impl Strategy<Value = u64> {
    any::<u64>().prop_map(|addr| addr.min(u64::MAX - 80))
}

fn reason() -> impl Strategy<Value = EndReason> {
    prop_oneof![
        Just(EndReason::Full),
        any::<i32>().prop_map(|status| EndReason::Exit { status }),
        (any::<u32>(), any::<i32>(), any::<u64>()).prop_map(|(signo, code, addr)| EndReason::Signal {
            signo,
            code,
            addr: Addr(addr)
        }),
        ".{0,40}".prop_map(|why| EndReason::Unsupported { why }),
        ".{0,40}".prop_map(|why| EndReason::LogStopped { why }),
        Just(EndReason::Exec),
        Just(EndReason::Terminated),
    ]
}

/// Any record but CHECKPOINT and END.
fn inner() -> impl Strategy<Value = Owned> {
    let plain = prop_oneof![
        (delta(), any::<u64>(), any::<u64>()).prop_map(|(delta, rflags_known, hash)| Record::Check {
            delta,
            rflags_known,
            hash
        }),
        (delta(), updates()).prop_map(|(delta, updates)| Record::Registers { delta, updates }),
        (delta(), 0..DependencyKind::ALL.len(), number(), any::<u32>(), number(), number(), number()).prop_map(
            |(delta, kind, block, other, interval, position, implied)| Record::Dependency {
                delta,
                kind: DependencyKind::ALL[kind],
                block: Addr(block),
                other: Tid(other),
                other_interval: IntervalNo(interval),
                other_position: Position(position),
                implied,
            }
        ),
        (delta(), 0..SignalStep::ALL.len(), number()).prop_map(|(delta, step, number)| Record::Signal {
            delta,
            step: SignalStep::ALL[step],
            number,
            regs: Box::default(),
        }),
        (
            delta(),
            number(),
            any::<i64>(),
            [number(), number(), number(), number(), number(), number()],
            updates(),
            0..3usize,
            number()
        )
            .prop_map(|(delta, number, result, args, updates, stream, order)| Record::Syscall {
                delta,
                number,
                result,
                args,
                stream: OutputStream::ALL[stream],
                order,
                updates,
            }),
        (delta(), 0..SpecialKind::ALL.len(), updates()).prop_map(|(delta, kind, updates)| Record::Special {
            delta,
            kind: SpecialKind::ALL[kind],
            updates
        }),
        (delta(), number()).prop_map(|(delta, seq)| Record::Code { delta, seq: CodeSeq(seq) }),
    ];
    prop_oneof![
        3 => plain.prop_map(Owned::Plain),
        4 => (delta(), 0..=MAX_ORDINAL, prop_oneof![Just(0), number().prop_map(|n| n >> 1)], bytes())
            .prop_map(|(delta, ordinal, offset, bytes)| Owned::Load(delta, ordinal, offset, bytes)),
        1 => (delta(), place(), bytes()).prop_map(|(delta, addr, bytes)| Owned::Memory(delta, addr, bytes)),
        1 => (any::<u8>(), bytes()).prop_map(|(arg, bytes)| Owned::SyscallData(arg, bytes)),
        1 => (place(), bytes()).prop_map(|(addr, bytes)| Owned::Snapshot(addr, bytes)),
        1 => part().prop_map(|(addr, len)| Owned::Zeros(addr, len)),
        1 => part().prop_map(|(addr, len)| Owned::Omitted(addr, len)),
        1 => part().prop_map(|(addr, len)| Owned::Reach(addr, len)),
        1 => ".{0,40}".prop_map(Owned::Note),
    ]
}

/// The records of an interval: a CHECKPOINT, others, and an END.
fn stream() -> impl Strategy<Value = Vec<Owned>> {
    let first = (any::<u64>(), any::<u64>(), registers()).prop_map(|(tsc, unix_nanos, regs)| Record::Checkpoint {
        tsc,
        unix_nanos,
        regs,
    });
    let last = (delta(), reason(), registers()).prop_map(|(delta, reason, regs)| Record::End { delta, reason, regs });
    (first, prop::collection::vec(inner(), 0..16), last).prop_map(|(first, mut inner, last)| {
        inner.insert(0, Owned::Plain(first));
        inner.push(Owned::Plain(last));
        inner
    })
}

fn header() -> impl Strategy<Value = IntervalHeader> {
    (any::<[u32; 2]>(), any::<[u64; 6]>()).prop_map(
        |([pid, tid], [interval, sequence, code_seq, before, epoch, epoch_before])| IntervalHeader {
            pid: Pid(pid),
            tid: Tid(tid),
            interval: IntervalNo(interval),
            sequence,
            code_seq: CodeSeq(code_seq),
            instructions_before: before,
            epoch: Epoch(epoch),
            epoch_before: Epoch(epoch_before),
        },
    )
}

fn read(stream: &[u8]) -> Vec<Record<'_>> {
    Records::new(stream).map(|placed| placed.unwrap().record).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records(owned in stream()) {
        let records: Vec<_> = owned.iter().map(Owned::record).collect();
        let bytes = common::encode(&records);
        prop_assert_eq!(&read(&bytes), &records);
        // Positions are sums of deltas, and reading can go on from any record.
        let placed: Vec<_> = Records::new(&bytes).map(|placed| placed.unwrap()).collect();
        let mut position = 0;
        for (i, placed) in placed.iter().enumerate() {
            let resumed = Records::resume(&bytes, placed.offset, Position(position)).next().unwrap().unwrap();
            prop_assert_eq!(&resumed, placed);
            position += records[i].delta();
            prop_assert_eq!(placed.position, Position(position));
        }
    }

    #[test]
    fn every_prefix_of_an_interval_file_is_a_prefix_of_the_interval(
        header in header(), owned in stream(), split in 1..5usize,
    ) {
        let records: Vec<_> = owned.iter().map(Owned::record).collect();
        let frames: Vec<Vec<_>> = records.chunks(records.len().div_ceil(split)).map(<[_]>::to_vec).collect();
        let file = common::interval_file(&header, &frames);
        let path = Path::new("interval");
        let whole = Interval::decode(&file, common::NO_TAILS, path).unwrap();
        prop_assert_eq!(&read(&whole.stream), &records);
        prop_assert!(whole.complete && whole.broken.is_none() && !whole.damaged);
        prop_assert_eq!(whole.header, header);
        for len in 0..file.len() {
            let prefix = &file[..len];
            match Interval::decode(prefix, common::NO_TAILS, path) {
                Ok(read) => {
                    prop_assert!(whole.stream.starts_with(&read.stream));
                    prop_assert!(!read.complete && !read.damaged);
                    prop_assert!(Interval::has_begun(prefix, common::NO_TAILS, path));
                }
                Err(_) => prop_assert!(!Interval::has_begun(prefix, common::NO_TAILS, path)),
            }
        }
    }

    #[test]
    fn a_tail_goes_on_where_the_file_ends(header in header(), owned in stream(), split in 0..20usize, cut in any::<prop::sample::Index>()) {
        let records: Vec<_> = owned.iter().map(Owned::record).collect();
        let (in_file, in_tail) = records.split_at(split.min(records.len()));
        let frames = if in_file.is_empty() { vec![] } else { vec![in_file.to_vec()] };
        let file = common::interval_file(&header, &frames);
        let path = Path::new("interval");
        let place = TailHeader { interval: header.interval, frame: frames.len() as u32 };
        let tail = common::tail_file(place, in_tail);
        let whole = Interval::decode(&file, &[tail], path).unwrap();
        prop_assert_eq!(&read(&whole.stream), &records);
        prop_assert!(whole.complete);
        // An old tail, or that of another interval, adds nothing.
        for other in [TailHeader { frame: place.frame.wrapping_sub(1), ..place }, TailHeader { interval: IntervalNo(header.interval.0 ^ 1), ..place }] {
            let old = common::tail_file(other, in_tail);
            match Interval::decode(&file, &[old], path) {
                Ok(read_old) => prop_assert_eq!(read(&read_old.stream), in_file),
                Err(_) => prop_assert!(in_file.is_empty()),
            }
        }
        // Two tails: one is for the frame that comes next, the other for the one after that, in either file.
        let (one, two) = in_tail.split_at(cut.index(in_tail.len().max(1)));
        let after = TailHeader { frame: place.frame + 1, ..place };
        let mut tails = [common::tail_file(place, one), common::tail_file(after, two)];
        for _ in 0..2 {
            tails.reverse();
            let expected = if one.is_empty() { in_file } else { &records };
            match Interval::decode(&file, &tails, path) {
                Ok(both) => prop_assert_eq!(read(&both.stream), expected),
                Err(_) => prop_assert!(expected.is_empty()),
            }
        }
        // The logger writes a record's first byte last: killed in the middle of a record, the tail ends before it.
        let torn = cut.index(in_tail.len() + 1);
        let kept = common::encode(&in_tail[..torn]);
        let mut tail = common::tail_file(place, in_tail);
        if torn < in_tail.len() {
            tail[TAIL_HEADER_SIZE + kept.len()] = 0;
        }
        prop_assert_eq!(read_tail(&tail, path).unwrap(), (place, &kept[..]));
    }

    #[test]
    fn register_files_hash_and_compare_alike(
        a in registers(), b in registers(), places in prop::collection::vec(0..48usize, 0..3),
    ) {
        prop_assert!(a.differences(&a).is_empty());
        // `b` is `a` but for a few registers, so that both cases come up.
        let mut mixed = a.clone();
        for place in places {
            match place {
                0..16 => mixed.gpr[place] = b.gpr[place],
                16..32 => mixed.ymm[place - 16] = b.ymm[place - 16],
                32..40 => mixed.st[place - 32] = b.st[place - 32],
                40 => mixed.rflags = b.rflags,
                41 => mixed.mxcsr = b.mxcsr,
                42 => mixed.ftw = b.ftw,
                43 => mixed.fsw = b.fsw,
                44 => mixed.fcw = b.fcw,
                45 => mixed.rip = b.rip,
                46 => mixed.fs_base = b.fs_base,
                _ => mixed.gs_base = b.gs_base,
            }
        }
        prop_assert_eq!(a.differences(&mixed).is_empty(), a.hash(a.rflags_known) == mixed.hash(a.rflags_known));
        let json = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Box<RegisterFile>>(&json).unwrap(), &a);
    }

    #[test]
    fn control_messages(regs in registers(), what in ".{0,40}", bytes in bytes(), n in any::<[u64; 4]>()) {
        let stop = Stop::Divergence { what: what.clone(), expected: Some(regs.clone()) };
        let counts = Counts { instructions: n[0], loads: n[1], checks: n[2] };
        let hit = Hit { thread: n[0] as u32, at: n[1], time: n[2], what: Event::Call(n[3]) };
        let (words, used) = (n[0] as u32, n[1] as u32);
        let written = Some(Written { words, used, start: n[2], blocks: n[3] as u32, odd: words });
        let responses = [
            Response::Ready,
            Response::Failed(what),
            Response::Stopped { stop, thread: n[2] as u32, at: n[3], time: n[1], hit: Some(hit), regs, counts, written },
            Response::Memory(bytes.clone()),
            Response::Output { stream: OutputStream::Stderr, bytes },
        ];
        let mut wire = Vec::new();
        for response in &responses {
            control::send(&mut wire, response).unwrap();
        }
        let mut from = wire.as_slice();
        for response in &responses {
            prop_assert_eq!(&control::receive::<Response>(&mut from).unwrap(), response);
        }
        for request in [Request::RunTo { target: Target::Place { thread: n[1] as u32, at: n[0] }, hits: Hits::Last, output: true }, Request::ReadMemory { addr: n[1], len: n[2] }, Request::Quit] {
            let mut wire = Vec::new();
            control::send(&mut wire, &request).unwrap();
            prop_assert_eq!(control::receive::<Request>(&mut wire.as_slice()).unwrap(), request);
        }
    }
}

#[test]
fn every_load_form_is_used_where_it_is_the_shortest() {
    for (form, stored, len) in LOAD_FORMS {
        let mut value = vec![0; len];
        value[..stored].fill(0xee);
        for ordinal in 0..4 {
            let bytes = common::load_bytes(5, ordinal, 0, &value);
            assert_eq!(bytes[0], 0x80 | ordinal << 5 | form);
            assert_eq!(bytes.len(), 2 + stored);
            let [Record::Load { delta: 5, ordinal: o, offset: 0, value: v }] = &read(&bytes)[..] else { panic!() };
            assert_eq!((*o, v.to_vec()), (ordinal, value.clone()));
        }
    }
}

#[test]
fn a_message_too_long_is_refused_on_both_sides() {
    let long = Response::Memory(vec![0; control::MAX_MESSAGE]);
    assert!(control::send(&mut Vec::new(), &long).is_err());
    let mut wire = ((control::MAX_MESSAGE + 1) as u32).to_le_bytes().to_vec();
    wire.resize(100, 0);
    assert!(control::receive::<Response>(&mut wire.as_slice()).is_err());
}

#[test]
fn code_pictures_and_packages() {
    let log = common::sample();
    let store = CodeStore::decode(&common::code_file(&log.code), Vec::new(), Path::new("code")).unwrap();
    let addrs = |seq| store.picture(CodeSeq(seq)).iter().map(|p| (p.seq.0, p.addr.0)).collect::<Vec<_>>();
    assert_eq!(addrs(0), []);
    assert_eq!(addrs(2), [(1, 0x40_1000), (2, 0x40_2000)]);
    assert_eq!(addrs(3), [(3, 0x40_1000), (2, 0x40_2000)]);
    assert_eq!(addrs(u64::MAX), addrs(3));
    assert!(store.covers(CodeSeq(3)) && !store.covers(CodeSeq(4)));

    for made in &log.threads[0].intervals {
        let file = common::interval_file(&made.header, &made.frames);
        let interval = Interval::decode(&file, common::NO_TAILS, Path::new("interval")).unwrap();
        let bytes = package::encode(log.threads[0].tid, &interval, &store);
        let package = Package::decode(&bytes).unwrap();
        let [thread] = &package.threads[..] else { panic!("{} threads", package.threads.len()) };
        let [read] = &thread.intervals[..] else { panic!("{} intervals", thread.intervals.len()) };
        assert_eq!((thread.tid, read.code_seq), (log.threads[0].tid, made.header.code_seq));
        assert_eq!(package.segments().collect::<Vec<_>>(), [Segment { thread: 0, until: u64::MAX }]);
        assert_eq!(read.records().count(), made.frames.concat().iter().filter(|record| !record.is_of_ending()).count());
        let last = interval.last_code_seq();
        let pages: Vec<_> = package.pages().map(|page| page.seq.0).collect();
        assert_eq!(pages, (1..=last.0).collect::<Vec<_>>());
        for page in package.pages() {
            assert_eq!(page.bytes, [page.seq.0 as u8; PAGE]);
        }
        for len in 0..bytes.len() {
            assert!(Package::decode(&bytes[..len]).is_none(), "cut to {len} bytes");
        }
    }
}

#[test]
fn a_code_store_cut_anywhere_has_the_pages_before() {
    let log = common::sample();
    let file = common::code_file(&log.code);
    let whole = CodeStore::decode(&file, Vec::new(), Path::new("code")).unwrap();
    assert_eq!((whole.pages.len(), &whole.broken), (3, &None));
    for len in 0..file.len() {
        let cut = CodeStore::decode(&file[..len], Vec::new(), Path::new("code")).unwrap();
        assert!(whole.pages.starts_with(&cut.pages) && cut.pages.len() < 3);
    }
}

#[test]
fn a_code_store_without_pages_that_nobody_needs() {
    let mut file = encode_header().to_vec();
    for (frame, seq) in [4, 9, 11].into_iter().enumerate() {
        let mut bytes = Vec::new();
        encode_page(CodeSeq(seq), Addr(0x1000 * (1 + seq % 2)), &common::page(seq as usize), &mut bytes);
        encode_frame(frame as u32, &bytes, common::LEVEL, &mut file).unwrap();
    }
    let store = CodeStore::decode(&file, Vec::new(), Path::new("code")).unwrap();
    let picture = |seq| store.picture(CodeSeq(seq)).iter().map(|page| page.seq.0).collect::<Vec<_>>();
    assert_eq!((picture(8), picture(9), picture(20)), (vec![4], vec![4, 9], vec![4, 11]));
    assert!(store.covers(CodeSeq(11)) && !store.covers(CodeSeq(12)));
    let inherited = store.pages.clone();
    assert!(CodeStore::decode(&file, inherited, Path::new("code")).is_err(), "numbers ascend");
}

#[test]
fn packages_of_threads() {
    let log = common::sample();
    let store = CodeStore::decode(&common::code_file(&log.code), Vec::new(), Path::new("code")).unwrap();
    let threads: Vec<_> = log
        .threads
        .iter()
        .map(|thread| {
            let decode = |made: &common::Interval| {
                Interval::decode(
                    &common::interval_file(&made.header, &made.frames),
                    common::NO_TAILS,
                    Path::new("interval"),
                )
                .ok()
            };
            (thread.tid, thread.intervals.iter().filter_map(decode).collect::<Vec<_>>())
        })
        .collect();
    let segments = [Segment { thread: 1, until: 5 }, Segment { thread: 0, until: u64::MAX }];
    let bytes = common::package(&threads, &store, &segments);
    let package = Package::decode(&bytes).unwrap();
    assert_eq!(package.segments().collect::<Vec<_>>(), segments);
    assert_eq!(package.pages().map(|page| page.seq.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(package.threads.len(), threads.len());
    for (read, (tid, intervals)) in package.threads.iter().zip(&threads) {
        assert_eq!(
            (read.tid, read.unknown_from, read.intervals.len()),
            (*tid, u64::from(tid.0) + 1000, intervals.len())
        );
        for (read, made) in read.intervals.iter().zip(intervals) {
            let header = &made.header;
            assert_eq!(
                (read.interval, read.code_seq, read.before),
                (header.interval, header.code_seq, header.instructions_before)
            );
            // What is about the end stays behind.
            let placed = |placed: Placed<'_>| (placed.position, format!("{:?}", placed.record));
            let made = made.records().flatten().filter(|placed| !placed.record.is_of_ending());
            assert!(read.records().flatten().map(placed).eq(made.map(placed)));
        }
    }
    for len in 0..bytes.len() {
        assert!(Package::decode(&bytes[..len]).is_none(), "cut to {len} bytes");
    }
    let wrong = common::package(&threads, &store, &[Segment { thread: threads.len(), until: 5 }]);
    assert!(Package::decode(&wrong).is_none(), "a segment of a thread that there is not");
}
