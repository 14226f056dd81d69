//! What threads hand each other through the kernel: pipes, sockets, eventfds, files.
//!
//! The kernel's part of that is in no record, and the dependencies between threads know nothing of it: what was read may stand before what was
//! written in an order of the threads that agrees with them. So the records of all calls are looked at beforehand. Which descriptor is what
//! follows from the calls that give, copy and close descriptors. What a read came behind follows from amounts: bytes come out of a pipe
//! as they went in. If there could not have been so much to read without a write, the write had begun before the read was over. That
//! is certain; what only may be so is kept apart, and a race that it may order is told as one that may be none.

mod calls;
mod collect;
mod descriptors;
mod moments;
mod objects;

use super::times::Times;
use bugnet_events::onward::Behind;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory as _;
use bugnet_replay::order::{Threads, Window};
use bugnet_replay::syscall;
use collect::{Collected, Memory};
use hashbrown::HashMap;
use moments::Moment;
use objects::{Found, Object};

/// Bytes from the start of `struct msghdr` to `msg_controllen`.
const CONTROL_LENGTH: u64 = 40;
/// Names that are told apart; others have the last one.
const NAMES: usize = 64;

/// A place of a thread: its number, and the instructions before.
pub type At = (usize, u64);

/// What calls that read come behind.
#[derive(Clone, Default)]
pub struct Channels {
    certain: HashMap<At, Vec<At>>,
    /// And the number of the name of what they may come behind it by.
    possible: HashMap<At, Vec<(At, usize)>>,
    /// How many reads come behind each call for sure.
    sources: HashMap<At, u32>,
    names: Vec<String>,
}

impl Channels {
    /// Of a process.
    ///
    /// # Errors
    /// The log cannot be read or replayed, or contradicts itself.
    pub fn new(log: &Log, times: &Times, cursor: &mut Cursor<'_>) -> Result<Self> {
        let is_wanted = |number: u64| calls::is_known(number);
        let (threads, made) = moments::calls(log, cursor.pid(), is_wanted)?;
        if made.iter().all(|call| call.moment.thread == made[0].moment.thread) {
            return Ok(Self::default());
        }
        let begins_late = Window::of(log, cursor.pid())?.first.0 > 0;
        let is_thread = |id: i64| threads.threads.iter().any(|thread| i64::from(thread.id.tid.id()) == id);
        let mut memory = Looked { cursor, threads: &threads };
        let mut collected = Collected::of(&made, is_thread, &mut memory)?;
        collected.listens |= begins_late;
        let numbers: Vec<Option<usize>> = threads.threads.iter().map(|thread| times.number(thread.id.tid)).collect();
        let mut all = Self::default();
        all.add_all(&collected, |thread| numbers[thread]);
        Ok(all)
    }

    fn add_all(&mut self, collected: &Collected, number: impl Fn(usize) -> Option<usize>) {
        let of_interest = |object: &&Object| collected.listens || !object.is_of_sockets;
        let objects = || collected.objects.iter().filter(of_interest);
        for object in objects().filter(|object| object.connects()) {
            let name = self.name(&object.name);
            object.found(|read, found| self.add(read, found, collected.clouds.is_empty(), name, &number));
        }
        let mut waited_for = Object::default();
        for object in objects().filter(|object| object.is_waited_for) {
            object.written().for_each(|moment| waited_for.add(moment.clone()));
        }
        let mut clouded = Object::default();
        if !collected.clouds.is_empty() {
            for object in &collected.objects {
                object.written().for_each(|moment| clouded.add(moment.clone()));
                object.read_at().for_each(|moment| clouded.wait(moment.clone()));
            }
        }
        collected.waits.iter().for_each(|moment| waited_for.wait(moment.clone()));
        let clouds = collected.clouds.join(", ");
        for (mut object, name) in [(waited_for, "what poll, select and epoll wait for"), (clouded, clouds.as_str())] {
            object.sort();
            if object.connects() {
                let name = self.name(name);
                object.found(|read, found| self.add(read, found, false, name, &number));
            }
        }
    }

    fn name(&mut self, name: &str) -> usize {
        if let Some(known) = self.names.iter().position(|known| known == name) {
            return known;
        }
        self.names.push(if self.names.len() == NAMES - 1 { "other descriptors".into() } else { name.into() });
        self.names.truncate(NAMES);
        self.names.len() - 1
    }

    fn add(
        &mut self,
        read: &Moment,
        found: Found,
        is_certain: bool,
        name: usize,
        number: &impl Fn(usize) -> Option<usize>,
    ) {
        let at = |(thread, count): At| Some((number(thread)?, count));
        let Some(read) = at((read.thread, read.count)) else { return };
        let Found { certain, possible } = found;
        let (certain, doubtful) = if is_certain { (certain, Vec::new()) } else { (Vec::new(), certain) };
        for from in certain.into_iter().filter_map(at) {
            *self.sources.entry(from).or_default() += 1;
            self.certain.entry(read).or_default().push(from);
        }
        for from in doubtful.into_iter().chain(possible).filter_map(at) {
            *self.sources.entry(from).or_default() += 1;
            self.possible.entry(read).or_default().push((from, name));
        }
    }

    /// What each read comes behind for sure, for whoever puts the threads into an order.
    pub fn behind(&self, times: &Times) -> Vec<Behind> {
        let tid = |thread: usize| times.id(thread).tid;
        let edges = self.certain.iter().flat_map(|(read, from)| from.iter().map(move |from| (read, from)));
        // What comes behind the read is the next instruction, and of the write, that it began.
        edges
            .map(|(read, from)| Behind { tid: tid(read.0), at: read.1 + 1, other: tid(from.0), until: from.1 + 1 })
            .collect()
    }

    /// How many reads come behind a call for sure.
    pub fn takers(&self, at: At) -> u32 {
        self.sources.get(&at).copied().unwrap_or(0)
    }

    /// Whether a call comes behind anything, or may.
    pub fn takes(&self, at: At) -> bool {
        self.certain.contains_key(&at) || self.possible.contains_key(&at)
    }

    /// What a call comes behind for sure.
    pub fn certain(&self, at: At) -> &[At] {
        self.certain.get(&at).map_or(&[], |all| all)
    }

    /// What it may come behind, and the numbers of the names by what.
    pub fn possible(&self, at: At) -> &[(At, usize)] {
        self.possible.get(&at).map_or(&[], |all| all)
    }

    /// The names whose bits are set.
    pub fn names(&self, bits: u64) -> Vec<String> {
        (0..).zip(&self.names).filter(|(number, _)| bits >> number & 1 != 0).map(|(_, name)| name.clone()).collect()
    }
}

/// Memory as a cursor has it.
struct Looked<'a, 'c> {
    cursor: &'a mut Cursor<'c>,
    threads: &'a Threads,
}

impl Looked<'_, '_> {
    fn place(&self, at: &Moment) -> Place {
        let thread = &self.threads.threads[at.thread];
        let (interval, position) = thread.place(at.count);
        Place { tid: thread.id.tid, interval, position }
    }
}

impl Memory for Looked<'_, '_> {
    fn pair(&mut self, at: &Moment, addr: u64) -> Result<Option<[i32; 2]>> {
        let bytes = syscall::left(self.cursor, self.place(at), addr, 8)?;
        let bytes: Option<Vec<u8>> = bytes.into_iter().collect();
        let both = bytes.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()).map(u64::from_le_bytes);
        Ok(both.map(|both| [both as u32 as i32, (both >> 32) as u32 as i32]))
    }

    fn has_more(&mut self, at: &Moment, addr: u64) -> Result<bool> {
        self.cursor.seek(Seek::Place(self.place(at)))?;
        let bytes = self.cursor.read_memory(Addr(addr.wrapping_add(CONTROL_LENGTH)), 8)?;
        Ok(bytes.len() < 8 || bytes.iter().any(|byte| *byte != 0))
    }
}
