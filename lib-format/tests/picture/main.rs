//! UserMemCache and UserMemHash against the paper's Figure 2, taken literally, and against a replayer.

mod user_mem_cache;
mod user_mem_hash;

use bugnet_format::picture::{Picture, WHOLE, check_load};
use bugnet_format::types::Addr;
use proptest::prelude::*;
use std::collections::HashMap;
use user_mem_cache::UserMemCache;
use user_mem_hash::UserMemHash;

/// What happens to memory.
#[derive(Clone, Debug)]
enum Event {
    /// The thread loads so many bytes.
    Load(u64, usize),
    /// The thread stores.
    Store(u64, Vec<u8>),
    /// Somebody else (the kernel, another thread) writes.
    External(u64, Vec<u8>),
}

/// Memory that is zero where nobody wrote.
#[derive(Default)]
struct Memory(HashMap<u64, u8>);

impl Memory {
    fn get(&self, addr: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| self.0.get(&addr.wrapping_add(i)).copied().unwrap_or(0)).collect()
    }

    fn set(&mut self, addr: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            self.0.insert(addr.wrapping_add(i as u64), *byte);
        }
    }
}

/// A picture that is a flat shadow of the address space.
impl Picture for Memory {
    fn read(&mut self, addr: Addr, out: &mut [u8]) {
        out.copy_from_slice(&self.get(addr.0, out.len()));
    }

    fn write(&mut self, addr: Addr, bytes: &[u8]) {
        self.set(addr.0, bytes);
    }
}

/// Figure 2 of the paper, for each byte: "Addr is found" is about one byte, blocks matter for replacement alone. A
/// miss in UserMemHash reads as zero, as the text beside the figure has it.
struct Figure2 {
    user_mem_cache: Vec<Option<(u64, HashMap<u64, u8>)>>,
    user_mem_hash: HashMap<u64, u8>,
}

impl Figure2 {
    const BLOCK: u64 = 64;

    fn new(lines: usize) -> Self {
        Self { user_mem_cache: vec![None; lines], user_mem_hash: HashMap::new() }
    }

    /// The values of the block at `addr`; what was in its place is replaced.
    fn update(&mut self, addr: u64, value: u8) {
        let block = addr / Self::BLOCK;
        let lines = self.user_mem_cache.len() as u64;
        let line = &mut self.user_mem_cache[(block % lines) as usize];
        match line {
            Some((found, values)) if *found == block => {
                values.insert(addr, value);
            }
            _ => {
                // While replacing an Addr in UserMemCache: update UserMemHash with values in replaced block.
                if let Some((_, replaced)) = line.replace((block, HashMap::from([(addr, value)]))) {
                    self.user_mem_hash.extend(replaced);
                }
            }
        }
    }

    fn find(&self, addr: u64) -> Option<u8> {
        let block = addr / Self::BLOCK;
        let (found, values) = self.user_mem_cache[(block % self.user_mem_cache.len() as u64) as usize].as_ref()?;
        if *found == block { values.get(&addr).copied() } else { None }
    }

    /// For every LOAD accessing the address; whether it is logged.
    fn load(&mut self, addr: u64, value: u8) -> bool {
        match self.find(addr) {
            Some(cached) if cached != value => {
                self.update(addr, value);
                true
            }
            Some(_) => false,
            None => {
                self.update(addr, value);
                let log = self.user_mem_hash.get(&addr).copied().unwrap_or(0) != value;
                if log {
                    self.user_mem_hash.insert(addr, value);
                }
                log
            }
        }
    }

    /// For every STORE accessing the address.
    fn store(&mut self, addr: u64, value: u8) {
        self.update(addr, value);
    }
}

/// A few regions that share lines of a small cache, at both ends of the address space too.
fn addr() -> impl Strategy<Value = u64> {
    (prop::sample::select(vec![0x1000u64, 0x1100, 0x2000, 0x7fff_0000_0000, 0u64.wrapping_sub(100)]), 0..200u64)
        .prop_map(|(base, offset)| base.wrapping_add(offset))
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    // Few values, so that equal ones meet, and zero among them.
    let value = || 0..3u8;
    prop_oneof![
        prop::collection::vec(value(), 1..9),
        prop::collection::vec(value(), 1..9),
        prop::collection::vec(value(), 1..300),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (addr(), prop_oneof![1..9usize, 1..9usize, 1..400usize]).prop_map(|(addr, len)| Event::Load(addr, len)),
        2 => (addr(), bytes()).prop_map(|(addr, bytes)| Event::Store(addr, bytes)),
        1 => (addr(), bytes()).prop_map(|(addr, bytes)| Event::External(addr, bytes)),
    ]
}

/// What replay is handed for a load: pieces with their offsets.
type Pieces = Vec<(usize, Vec<u8>)>;

/// Records: what each load logs, with a cache of so many lines.
fn record(events: &[Event], lines: usize) -> Vec<(Vec<u8>, Pieces)> {
    let (mut cache, mut hash) = (UserMemCache::with_lines(lines), UserMemHash::new());
    let mut memory = Memory::default();
    let mut loads = Vec::new();
    for event in events {
        match event {
            Event::Load(addr, len) => {
                let actual = memory.get(*addr, *len);
                let mut pieces = Vec::new();
                cache.load(Addr(*addr), &actual, &mut hash, |offset, bytes| pieces.push((offset, bytes.to_vec())));
                loads.push((actual, pieces));
            }
            Event::Store(addr, bytes) => {
                memory.set(*addr, bytes);
                cache.store(Addr(*addr), bytes, &mut hash);
            }
            Event::External(addr, bytes) => memory.set(*addr, bytes),
        }
    }
    loads
}

proptest! {
    #[test]
    fn replay_reproduces_every_load(events in prop::collection::vec(event(), 1..200), lines in 1..9usize) {
        let mut loads = record(&events, lines).into_iter();
        let mut memory = Memory::default();
        for event in &events {
            match event {
                Event::Load(addr, len) => {
                    let (actual, pieces) = loads.next().unwrap();
                    for (offset, bytes) in pieces {
                        memory.set(addr.wrapping_add(offset as u64), &bytes);
                    }
                    prop_assert_eq!(memory.get(*addr, *len), actual);
                }
                Event::Store(addr, bytes) => memory.set(*addr, bytes),
                Event::External(..) => {}
            }
        }
    }

    #[test]
    fn logs_what_figure_2_logs(events in prop::collection::vec(event(), 1..200), lines in 1..9usize) {
        let mut loads = record(&events, lines).into_iter();
        let mut model = Figure2::new(lines.next_power_of_two());
        let mut memory = Memory::default();
        for event in &events {
            match event {
                Event::Load(addr, len) => {
                    let (actual, pieces) = loads.next().unwrap();
                    prop_assert_eq!(&actual, &memory.get(*addr, *len));
                    let logged: Vec<_> = (0..*len).map(|i| model.load(addr.wrapping_add(i as u64), actual[i])).collect();
                    prop_assert_eq!(pieces.is_empty(), logged.iter().all(|l| !l));
                    // Every byte that must be logged is in a piece, and no piece is without one.
                    let mut end = 0;
                    for (offset, bytes) in &pieces {
                        let range = *offset..offset + bytes.len();
                        prop_assert!(*offset >= end && range.end <= *len);
                        prop_assert_eq!(&actual[range.clone()], &bytes[..]);
                        prop_assert!(logged[end..range.start].iter().all(|l| !l));
                        prop_assert!(logged[range.clone()].iter().any(|l| *l));
                        if *len > WHOLE {
                            prop_assert!(logged[range.start] && logged[range.end - 1]);
                        }
                        end = range.end;
                    }
                    prop_assert!(logged[end..].iter().all(|l| !l));
                }
                Event::Store(addr, bytes) => {
                    memory.set(*addr, bytes);
                    for (i, byte) in bytes.iter().enumerate() {
                        model.store(addr.wrapping_add(i as u64), *byte);
                    }
                }
                Event::External(addr, bytes) => memory.set(*addr, bytes),
            }
        }
    }

    #[test]
    fn a_cache_of_any_size_and_a_flat_shadow_log_the_same(events in prop::collection::vec(event(), 1..200)) {
        let small = record(&events, 1);
        prop_assert_eq!(&small, &record(&events, 1024));
        let mut shadow = Memory::default();
        let mut loads = small.into_iter();
        for event in &events {
            match event {
                Event::Load(addr, _) => {
                    let (actual, expected) = loads.next().unwrap();
                    let mut pieces = Vec::new();
                    check_load(&mut shadow, Addr(*addr), &actual, |offset, bytes| pieces.push((offset, bytes.to_vec())));
                    prop_assert_eq!(pieces, expected);
                }
                Event::Store(addr, bytes) => shadow.write(Addr(*addr), bytes),
                Event::External(..) => {}
            }
        }
    }
}

fn pieces_of(picture: &mut Memory, addr: u64, actual: &[u8]) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    check_load(picture, Addr(addr), actual, |offset, bytes| pieces.push((offset, bytes.len())));
    pieces
}

#[test]
fn a_first_load_of_zero_is_not_logged() {
    assert_eq!(pieces_of(&mut Memory::default(), 0x1000, &[0; 8]), []);
    assert_eq!(pieces_of(&mut Memory::default(), 0x1000, &[0; 10_000]), []);
}

#[test]
fn an_operand_is_logged_whole_and_a_long_read_in_pieces() {
    assert_eq!(pieces_of(&mut Memory::default(), 0x1000, &[0, 0, 1, 0, 0, 0, 0, 0]), [(0, 8)]);
    let mut long = vec![0; 10_000];
    for at in [100, 107, 120, 4095, 4096, 9999] {
        long[at] = 1;
    }
    let mut picture = Memory::default();
    assert_eq!(pieces_of(&mut picture, 0x1000, &long), [(100, 8), (120, 1), (4095, 2), (9999, 1)]);
    assert_eq!(pieces_of(&mut picture, 0x1000, &long), [], "it is in the picture now");
}

#[test]
fn no_piece_is_longer_than_a_record_can_hold() {
    let most = bugnet_format::record::MAX_VALUE;
    let mut cache = UserMemCache::default();
    let mut pieces = Vec::new();
    cache.load(Addr(0x10), &vec![1; most + 10], &mut UserMemHash::new(), |at, bytes| pieces.push((at, bytes.len())));
    assert_eq!(pieces, [(0, most), (most, 10)]);
}

#[test]
fn a_cleared_cache_and_hash_know_nothing() {
    let (mut cache, mut hash) = (UserMemCache::with_lines(2), UserMemHash::new());
    for addr in (0..1000).step_by(64) {
        cache.store(Addr(addr), &[1], &mut hash);
    }
    assert!(!hash.is_empty());
    cache.clear();
    hash.clear();
    let mut logged = 0;
    for addr in (0..1000).step_by(64) {
        cache.load(Addr(addr), &[1], &mut hash, |_, _| logged += 1);
        cache.load(Addr(addr + 1), &[0], &mut hash, |_, _| logged += 100);
    }
    assert_eq!(logged, 16);
}

#[test]
fn a_block_that_becomes_zero_takes_no_room() {
    let (mut cache, mut hash) = (UserMemCache::with_lines(1), UserMemHash::new());
    cache.store(Addr(0), &[1], &mut hash);
    cache.store(Addr(64), &[0], &mut hash);
    assert_eq!(hash.len(), 1);
    cache.store(Addr(0), &[0], &mut hash);
    cache.store(Addr(64), &[0], &mut hash);
    assert_eq!(hash.len(), 0);
}
