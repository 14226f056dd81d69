//! Where values come from that nothing in the slice has made, in words.

use super::graph::{Node, Origin, Source, What};
use super::{Ended, Slice};
use crate::races::births::Births;
use crate::races::times::Times;
use bugnet_events::atoms::Atoms;
use bugnet_format::types::{Addr, IntervalNo, ProcessId, Tid};
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::syscall::{Listed, Wanted, call, list_recorded, result};
use bugnet_replay::{Result, signal};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// Longest string of the program's arguments and environment that is shown.
const LONGEST: usize = 60;
/// What is said of what was still wanted where the search ended early.
const UNFOLLOWED: &str = "which was not followed any further";
/// Most of these strings.
const STRINGS: usize = 4096;

/// Where something comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outside {
    /// Where it came in; none if it was there before.
    pub place: Option<Place>,
    /// In words.
    pub what: String,
    /// The same, for tools.
    #[serde(flatten)]
    pub origin: Origin,
    /// Memory that it came to: first bytes, and how many.
    pub bytes: Vec<(u64, u64)>,
    /// Parts of registers that it came to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub registers: String,
    /// Steps from what was asked about.
    pub depth: u32,
    /// How many that only differ in when and where they came in; the last one is shown.
    pub times: u64,
}

/// What can be told of where values come from.
pub struct Origins {
    /// Files, by the thread that opened them and their descriptors: where, and which.
    opened: HashMap<u64, Vec<(Place, String)>>,
    /// Strings and words that a program finds when it starts.
    start: Vec<(Range<u64>, String)>,
    /// Whether the log begins with the process.
    from_start: bool,
    /// Whether the search went back as far as anything was wanted: what it had not found by then may have been written before.
    is_whole: bool,
    /// The words by which the kernel says that a thread has ended, and which ones.
    ends: HashMap<u64, Vec<Tid>>,
}

impl Origins {
    /// Of a process.
    ///
    /// # Errors
    /// The log cannot be read, or the replay process is lost.
    pub fn new(log: &Log, cursor: &mut Cursor<'_>, asked: Place, slice: &Slice) -> Result<Self> {
        let pid = cursor.pid();
        let is_elsewhere =
            |node: &Node| matches!(&node.what, What::Source(Source { origin: Origin::Elsewhere { .. }, .. }));
        let ends =
            if slice.graph.nodes.iter().any(is_elsewhere) { ends_of_threads(log, cursor)? } else { HashMap::new() };
        let opened = opened(log, pid)?;
        cursor.seek(Seek::Start)?;
        let (place, stack) = (cursor.place(), cursor.regs().gpr[4]);
        let from_start = place.interval == IntervalNo(0) && place.tid.0 == pid.pid.0;
        // What is there is known once the program has looked at it.
        cursor.seek(Seek::Place(asked))?;
        let start = if from_start { at_start(cursor, stack)? } else { Vec::new() };
        let is_whole = matches!(slice.ended, Ended::Found | Ended::Start);
        Ok(Self { opened, start, from_start, is_whole, ends })
    }

    /// Of a source, in words.
    pub fn outside(&self, node: &Node, symbols: &mut Symbolizer) -> Option<Outside> {
        let What::Source(source) = &node.what else { return None };
        let place = node.places.map(|[last, _]| last);
        let what = match &source.origin {
            Origin::Call { number, args, result: value } => {
                let mut text = format!("{} = {}", call(*number, args, &[]), result(*number, *value));
                if let Some(file) = place.and_then(|place| self.file(place, *number, args)) {
                    text = format!("{text}, where {} is {file}", args[0]);
                }
                match (buffer(*number, args), &*source.bytes) {
                    (Some(buffer), [(addr, len)]) if *addr >= buffer => {
                        let first = addr - buffer;
                        let which = if *len == 1 {
                            format!("byte {first}")
                        } else {
                            format!("bytes {first} to {}", first + len - 1)
                        };
                        text = format!("{text}: {which} of what it gave");
                    }
                    (_, []) if source.atoms.meets(Atoms::gpr(0)) => text = format!("{text}: what it returned"),
                    _ => {}
                }
                text
            }
            Origin::Special { name } => format!("{name}: {}", source.atoms),
            Origin::Signal { number } => {
                format!("signal {}", signal::name(i32::try_from(*number).unwrap_or_default()))
            }
            Origin::Thread { tid } => format!("thread {tid}, which was to be left alone, wrote it"),
            Origin::Elsewhere { after } => self.elsewhere(source, *after),
            Origin::Before => self.before(source, symbols),
        };
        let (origin, bytes) = (source.origin.clone(), source.bytes.clone());
        let registers = if source.atoms.is_empty() { String::new() } else { source.atoms.to_string() };
        Some(Outside { place, what, origin, bytes, registers, depth: node.depth, times: 1 })
    }

    /// What one can tell of memory that something else has changed.
    fn elsewhere(&self, source: &Source, after: Place) -> String {
        let ended = source.bytes.first().and_then(|(addr, _)| self.ends.get(&(addr & !3)));
        if let Some([tid]) = ended.map(Vec::as_slice) {
            return format!("the kernel, which clears this word when thread {tid} has ended (CLONE_CHILD_CLEARTID)");
        }
        format!(
            "something else than this process's instructions and known system calls, after {after}: another process (by shared memory, \
             process_vm_writev(2) or ptrace(2)), or the kernel"
        )
    }

    fn before(&self, source: &Source, symbols: &mut Symbolizer) -> String {
        let Some((addr, _)) = source.bytes.first().copied() else {
            let tid = source.tid.unwrap_or(Tid(0));
            let why = if self.is_whole { "as it was when its recording began" } else { UNFOLLOWED };
            return format!("{} of thread {tid}, {why}", source.atoms);
        };
        self.region(addr, symbols).0
    }

    /// What an address that nothing has written belongs to, and where that begins.
    fn region(&self, addr: u64, symbols: &mut Symbolizer) -> (String, u64) {
        if let Some((range, what)) = self.start.iter().find(|(range, _)| self.is_whole && range.contains(&addr)) {
            return (what.clone(), range.start);
        }
        if let Some(module) = symbols.lookup(Addr(addr)).module {
            let (name, start) = match symbols.name_at(Addr(addr)) {
                Some((name, offset)) => (name, addr - offset),
                None => ("data".to_owned(), addr - module.offset),
            };
            let why = if self.is_whole { "as it was loaded" } else { UNFOLLOWED };
            return (format!("{name} in {}, {why}", module.path), start);
        }
        if !self.is_whole {
            return (format!("memory, {UNFOLLOWED}"), 0);
        }
        let whose = if self.from_start { "in this recording" } else { "since the recording begins" };
        (format!("memory that nothing {whose} wrote"), 0)
    }

    /// Which of it several such pieces are: addresses and bytes.
    pub fn pieces(&self, what: &str, bytes: &[(u64, u64)], symbols: &mut Symbolizer) -> String {
        let (Some((first, _)), Some(end)) =
            (bytes.iter().min(), bytes.iter().map(|(addr, len)| addr.saturating_add(*len)).max())
        else {
            return what.to_owned();
        };
        let count: u64 = bytes.iter().map(|(_, len)| len).sum();
        let start = self.region(*first, symbols).1;
        let (from, to) = (first - start, end - 1 - start);
        let number = |at: u64| if start == 0 { format!("{at:#x}") } else { at.to_string() };
        match (count, count == end - first) {
            (1, _) => format!("{what}: byte {}", number(from)),
            (_, true) => format!("{what}: bytes {} to {}", number(from), number(to)),
            _ => format!("{what}: {count} bytes from {} to {}", number(from), number(to)),
        }
    }

    /// The file that a call was about, if it was opened by this thread, or by one alone.
    fn file(&self, place: Place, number: u64, args: &[u64; 6]) -> Option<&str> {
        buffer(number, args)?;
        let all = self.opened.get(&args[0])?;
        let is_before = |opened: &Place| (opened.interval, opened.position) < (place.interval, place.position);
        let own = all.iter().rfind(|(opened, _)| opened.tid == place.tid && is_before(opened));
        let is_same = all.iter().all(|(_, file)| *file == all[0].1);
        own.or(all.first().filter(|_| is_same)).map(|(_, file)| file.as_str())
    }
}

/// Where a call puts what it reads.
fn buffer(number: u64, args: &[u64; 6]) -> Option<u64> {
    let reads = [libc::SYS_read, libc::SYS_pread64, libc::SYS_recvfrom, libc::SYS_getdents64, libc::SYS_fstat];
    reads.contains(&i64::try_from(number).ok()?).then_some(args[1])
}

/// The words that the kernel clears when threads end.
fn ends_of_threads(log: &Log, cursor: &mut Cursor<'_>) -> Result<HashMap<u64, Vec<Tid>>> {
    let times = Times::new(log, cursor.pid())?;
    let births = Births::new(log, &times, cursor)?;
    Ok(births.words().map(|word| (word, births.clear(word).map(|thread| times.id(thread).tid).collect())).collect())
}

/// The files that a process opened, by their descriptors.
fn opened(log: &Log, pid: ProcessId) -> Result<HashMap<u64, Vec<(Place, String)>>> {
    let numbers = [libc::SYS_open, libc::SYS_openat, libc::SYS_openat2, libc::SYS_creat];
    let wanted = Wanted { thread: None, numbers: numbers.into_iter().map(i64::cast_unsigned).collect() };
    let mut all: HashMap<u64, Vec<(Place, String)>> = HashMap::new();
    list_recorded(log, pid, &wanted, &mut |listed: Listed| {
        let path = listed.call.split('"').nth(1);
        let descriptor = listed.result.and_then(|result| u64::try_from(result).ok());
        if let (Some(path), Some(place), Some(descriptor)) = (path, listed.place, descriptor) {
            all.entry(descriptor).or_default().push((place, path.to_owned()));
        }
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// What the kernel puts on a program's stack: arguments, environment, auxiliary vector.
fn at_start(cursor: &mut Cursor<'_>, mut at: u64) -> Result<Vec<(Range<u64>, String)>> {
    let mut word = |at: u64| -> Result<Option<u64>> {
        let bytes = cursor.read_memory(Addr(at), 8)?;
        Ok(bytes.try_into().ok().map(u64::from_le_bytes))
    };
    let Some(count) = word(at)? else { return Ok(Vec::new()) };
    let mut found = vec![(at..at + 8, "argc".to_owned())];
    let mut pointers = Vec::new();
    at += 8;
    // A process that was forked has something else there.
    if word(at.wrapping_add(count.wrapping_mul(8)))? != Some(0) {
        return Ok(Vec::new());
    }
    for name in ["argv", "envp"] {
        for number in 0..STRINGS {
            let Some(value) = word(at)? else { return Ok(found) };
            found.push((at..at + 8, format!("{name}[{number}], a pointer")));
            at += 8;
            if value == 0 {
                break;
            }
            pointers.push((value, name, number));
        }
    }
    for _ in 0..64 {
        let Some(kind) = word(at)? else { break };
        found.push((at..at + 16, format!("the auxiliary vector's entry {kind}")));
        at += 16;
        if kind == 0 {
            break;
        }
    }
    for (number, (start, name, index)) in pointers.iter().enumerate() {
        // They lie one behind the other.
        let next = pointers.get(number + 1).map(|(next, ..)| *next).filter(|next| next > start);
        let len = next.map_or(256, |next| next - start);
        let bytes = cursor.read_known(Addr(*start), len)?;
        let text: Vec<u8> = bytes.iter().map_while(|byte| *byte).take_while(|byte| *byte != 0).collect();
        let is_whole = bytes.get(text.len()).copied().flatten() == Some(0);
        let shown: String = String::from_utf8_lossy(&text).chars().take(LONGEST).collect();
        let end = if is_whole { text.len() as u64 + 1 } else { len };
        let rest = if is_whole { "" } else { "..., not all of which is known" };
        found.push((*start..*start + end, format!("{name}[{index}] ({shown:?}{rest})")));
    }
    Ok(found)
}
