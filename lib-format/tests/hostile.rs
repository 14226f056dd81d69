//! Bytes from strangers: whatever they are, reading them neither panics nor takes memory without bound.

mod common;

use bugnet_format::check::check;
use bugnet_format::code::CodeStore;
use bugnet_format::control::{self, Request, Response};
use bugnet_format::folder::Recording;
use bugnet_format::frame::{
    FRAME_HEADER_SIZE, FRAME_MAGIC, FrameFault, HEADER_SIZE, Interval, IntervalHeader, MAX_FRAME, read_frames,
    read_tail,
};
use bugnet_format::package::{self, Package, Segment};
use bugnet_format::record::Records;
use bugnet_format::types::Tid;
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// More than the tests of this file may ever have allocated together, in megabytes: a few frames at their largest.
const MOST: f32 = 300.0;

/// Changes to a file.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Number(Index, u64),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Repeat(Index, Index),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let any_index = any::<Index>;
    let extreme = prop_oneof![Just(u64::MAX), Just(1 << 63), Just(1 << 47), any::<u64>(), 0..100u64];
    let change = prop_oneof![
        4 => (any_index(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        2 => (any_index(), extreme).prop_map(|(at, number)| Change::Number(at, number)),
        1 => any_index().prop_map(Change::Cut),
        1 => (any_index(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => (any_index(), any_index()).prop_map(|(a, b)| Change::Repeat(a, b)),
    ];
    prop::collection::vec(change, 1..6)
}

fn apply(changes: &[Change], bytes: &mut Vec<u8>) {
    for change in changes {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match change {
            Change::Set(at, byte) => {
                let at = place(at);
                if let Some(b) = bytes.get_mut(at) {
                    *b = *byte;
                }
            }
            Change::Number(at, number) => {
                let at = place(at);
                for (b, new) in bytes[at..].iter_mut().zip(number.to_le_bytes()) {
                    *b = new;
                }
            }
            Change::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
            Change::Insert(at, more) => {
                let at = place(at);
                bytes.splice(at..at, more.iter().copied()).for_each(drop);
            }
            Change::Repeat(a, b) => {
                let (a, b) = (place(a), place(b));
                let piece = bytes[a.min(b)..a.max(b)].to_vec();
                bytes.extend(piece);
            }
        }
    }
}

/// Makes the checksums of header and frames right again, so that what lies behind them is reached.
fn fix_checksums(file: &mut [u8], header: usize) {
    if header == HEADER_SIZE && file.len() >= header {
        let crc = crc32fast::hash(&file[..header - 4]);
        file[header - 4..header].copy_from_slice(&crc.to_le_bytes());
    }
    let mut at = header;
    while file.len() >= at + FRAME_HEADER_SIZE && file[at..at + 4] == FRAME_MAGIC {
        let packed = u32::from_le_bytes(file[at + 16..at + 20].try_into().unwrap()) as usize;
        let end = (at + FRAME_HEADER_SIZE).saturating_add(packed);
        let Some(body) = file.get(at + 8..end) else { break };
        let crc = crc32fast::hash(body);
        file[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}

fn read_records(stream: &[u8]) {
    let mut last = None;
    for placed in Records::new(stream) {
        let Ok(placed) = placed else { break };
        assert!(last.is_none_or(|last| last < placed.offset), "reading goes on");
        last = Some(placed.offset);
        // What was read can be written, and is then read as the same.
        let mut again = Vec::new();
        placed.record.encode(&mut again);
        assert_eq!(Records::new(&again).next().unwrap().unwrap().record, placed.record);
    }
}

fn read_as_everything(bytes: &[u8], tail: &[u8]) {
    let path = Path::new("hostile");
    read_records(bytes);
    let _ = IntervalHeader::decode(bytes, path);
    let _ = Interval::has_begun(bytes, &[tail], path);
    if let Ok(interval) = Interval::decode(bytes, &[tail], path) {
        assert!(interval.records().all(|placed| placed.is_ok()), "a decoded interval's records can be read");
        let _ = package::encode(Tid(1), &interval, &CodeStore::default());
    }
    if let Ok((_, records)) = read_tail(bytes, path) {
        assert!(Records::new(records).all(|placed| placed.is_ok()));
    }
    if let Ok(store) = CodeStore::decode(bytes, Vec::new(), path) {
        assert!(store.picture(bugnet_format::types::CodeSeq(u64::MAX)).len() <= store.pages.len());
    }
    if let Some(package) = Package::decode(bytes) {
        assert!(package.pages().all(|page| page.bytes.len() == 4096));
        assert!(package.segments().all(|segment| segment.thread < package.threads.len()));
        package.threads.iter().flat_map(|thread| &thread.intervals).for_each(|interval| {
            let _ = interval.records().count();
        });
    }
    let _ = control::receive::<Request>(&mut &bytes[..]);
    let _ = control::receive::<Response>(&mut &bytes[..]);
    assert!(ALLOCATED.peak_usage_as_mb() < MOST, "{} MB", ALLOCATED.peak_usage_as_mb());
}

/// A file of each kind, as it should be.
fn files() -> Vec<(usize, Vec<u8>)> {
    let log = common::sample();
    let code = common::code_file(&log.code);
    let store = CodeStore::decode(&code, Vec::new(), Path::new("code")).unwrap();
    let interval = &log.threads[0].intervals[0];
    let file = common::interval_file(&interval.header, &interval.frames);
    let decoded = Interval::decode(&file, common::NO_TAILS, Path::new("interval")).unwrap();
    let (tail, records) = log.threads[1].tail.clone().unwrap();
    let mut message = Vec::new();
    control::send(&mut message, &Response::Memory(vec![1; 50])).unwrap();
    vec![
        (0, decoded.stream.to_vec()),
        (HEADER_SIZE, file),
        (16, code),
        (0, package::encode(Tid(1), &decoded, &store)),
        (0, common::package(&[(Tid(1), vec![decoded.clone()])], &store, &[Segment { thread: 0, until: 1 }])),
        (0, common::tail_file(tail, &records)),
        (0, message),
    ]
}

proptest! {
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..500), tail in prop::collection::vec(any::<u8>(), 0..100)) {
        read_as_everything(&bytes, &tail);
    }

    #[test]
    fn changed_files(changes in changes(), which in any::<Index>(), fixed in any::<bool>()) {
        let files = files();
        let (header, mut file) = files[which.index(files.len())].clone();
        let tail = files[4].1.clone();
        apply(&changes, &mut file);
        if fixed {
            fix_checksums(&mut file, header);
        }
        read_as_everything(&file, &tail);
    }

    #[test]
    fn changed_streams_in_sound_frames(changes in changes(), which in 0..2usize) {
        let interval = &common::sample().threads[0].intervals[which];
        let mut stream: Vec<u8> = interval.frames.iter().flat_map(|frame| common::encode(frame)).collect();
        apply(&changes, &mut stream);
        let mut file = interval.header.encode().to_vec();
        bugnet_format::frame::encode_frame(0, &stream, common::LEVEL, &mut file).unwrap();
        read_as_everything(&file, &[]);
    }

    #[test]
    fn changed_folders(changes in changes(), which in any::<Index>(), fixed in any::<bool>()) {
        const FILES: [(&str, usize); 6] = [
            ("recording.json", 0),
            ("p4242/modules.jsonl", 0),
            ("p4242/code.bnc", 16),
            ("p4242/t4242/00000000.bni", HEADER_SIZE),
            ("p4242/t4242/00000001.bni", HEADER_SIZE),
            ("p4242/t4243/tail", 0),
        ];
        let folder = tempfile::tempdir().unwrap();
        common::sample().write(folder.path());
        let (name, header) = FILES[which.index(FILES.len())];
        let path = folder.path().join(name);
        let mut file = std::fs::read(&path).unwrap();
        apply(&changes, &mut file);
        if fixed {
            fix_checksums(&mut file, header);
        }
        std::fs::write(&path, file).unwrap();
        let Ok(recording) = Recording::open(folder.path()) else { return Ok(()) };
        let sound = check(&recording).unwrap().is_sound();
        let threads = recording.threads().unwrap();
        for thread in &threads {
            let _ = recording.modules(thread.pid).unwrap();
            let code = recording.code(thread.pid);
            for interval in &thread.intervals {
                let interval = thread.interval(*interval);
                // What the checker calls sound, can be read.
                prop_assert!(!sound || code.is_ok() && interval.is_ok_and(|interval| !interval.damaged));
            }
        }
        prop_assert!(ALLOCATED.peak_usage_as_mb() < MOST);
    }
}

#[test]
fn a_frame_that_unpacks_to_more_than_it_says_is_refused() {
    let mut file = vec![];
    bugnet_format::frame::encode_frame(0, &vec![0x80; MAX_FRAME], 1, &mut file).unwrap();
    assert_eq!(read_frames(&file, 0).stream.len(), MAX_FRAME, "as it is, it can be read");
    for (raw, fault) in
        [(100, FrameFault::Contents), (MAX_FRAME as u32 + 1, FrameFault::TooLarge), (u32::MAX, FrameFault::TooLarge)]
    {
        file[12..16].copy_from_slice(&raw.to_le_bytes());
        fix_checksums(&mut file, 0);
        let frames = read_frames(&file, 0);
        assert_eq!((frames.fault, frames.count, frames.stream.len()), (Some(fault), 0, 0));
    }
    assert!(ALLOCATED.peak_usage_as_mb() < MOST);
}

#[test]
fn lengths_of_records_are_not_believed() {
    // MEMORY at position 0, address 0x1000, of 2^20 bytes of which none is there.
    let mut stream = vec![0x13, 0];
    stream.extend(0x1000u64.to_le_bytes());
    stream.extend([0x80, 0x80, 0x40]);
    let error = Records::new(&stream).next().unwrap().unwrap_err();
    assert_eq!((error.offset, error.reason), (0, "ends in the middle"));
    *stream.last_mut().unwrap() += 1;
    assert_eq!(Records::new(&stream).next().unwrap().unwrap_err().reason, "length above the limit of its field");
}
