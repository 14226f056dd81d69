//! Patches: where memory has to be changed for what a thread reads, beside what the records say. A comparison finds them; a replay that
//! has them applies them where they belong, and compares nothing.
//!
//! Both put the value of a `LOAD` into memory before the instruction that reads it. What a `MEMORY` says, one thread knows, and
//! nothing orders it with what others store: both put it where nobody knows anything yet, by [`crate::touched`], and say no more
//! about these bytes than before. Where a read finds other bytes than the thread's picture has, although no `LOAD` says so, the comparison puts
//! those into memory, and that is the patch: the thread, its instruction, the address, and the bytes before and after. Between patches,
//! memory is changed by the same instructions and records in the same order in both, so it is the same at every moment. Where execution
//! stops before an instruction, that has got its patches already, as it has its `LOAD`s.

use super::pictures::{Pictures, ROOM, Rooms};
use super::{AccessError, Compare};
use crate::engine::{Engine, Trouble, divergence};
use crate::fs_base;
use crate::instruction::Instruction;
use crate::memory::{Memory, MemoryError};
use bugnet_format::control::{ByteState, Explanation, Target};
use bugnet_format::patch::{MAX_PATCH, MAX_PATCHES, MOST_ROOM, Patch};

/// The patches that a comparison has found.
#[derive(Default)]
pub struct Found {
    patches: Vec<Patch>,
    room: usize,
    too_many: bool,
}

impl Found {
    /// The thread is to find other bytes than there are, from this address on: of as many as both have, those from the first that
    /// differs to the last. Puts them into memory.
    pub fn apply(
        &mut self,
        memory: &mut Memory,
        (thread, at): (usize, u64),
        addr: u64,
        found: &[u8],
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        let differs = |(old, new): (&u8, &u8)| old != new;
        let mut pairs = found.iter().zip(bytes);
        let Some(first) = pairs.clone().position(differs) else { return Ok(()) };
        let last = pairs.rposition(differs).unwrap_or(first);
        for from in (first..=last).step_by(MAX_PATCH) {
            let part = from..(from + MAX_PATCH).min(last + 1);
            let (addr, found, bytes) = (addr + from as u64, found[part.clone()].to_vec(), bytes[part].to_vec());
            memory.write(addr, &bytes)?;
            if !self.too_many {
                let patch = Patch { thread: thread as u32, at, addr, found, bytes };
                self.room += patch.room();
                self.patches.push(patch);
            }
            if self.room > MOST_ROOM {
                (self.patches, self.too_many) = (Vec::new(), true);
            }
        }
        Ok(())
    }

    /// The next ones behind so many; nothing if there are too many.
    pub fn from(&self, from: u64) -> Option<Vec<Patch>> {
        let next = || self.patches.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)).take(MAX_PATCHES);
        (!self.too_many).then(|| next().cloned().collect())
    }
}

/// The patches that are to be applied.
pub struct Patches {
    /// Those of each thread, and how many of them have been applied.
    threads: Vec<(Vec<Patch>, usize)>,
    /// Instructions of each thread before which memory had got its patches when these began to be applied.
    done: Vec<u64>,
    /// The time up to which they are all there.
    until: u64,
}

impl Patches {
    /// The instruction count at which a thread's next one is due; `u64::MAX` if there is none.
    pub fn next_at(&self, thread: usize) -> u64 {
        let (patches, applied) = &self.threads[thread];
        patches.get(*applied).map_or(u64::MAX, |patch| patch.at)
    }

    /// Whether a run may go so far.
    pub fn reach(&self, target: Target) -> bool {
        match target {
            Target::Time(time) => time <= self.until,
            Target::Place { .. } | Target::End => self.until == u64::MAX,
        }
    }
}

impl Engine {
    /// Whether all threads run on one memory in which records and patches, or comparisons, put what they find.
    pub fn is_merged(&self) -> bool {
        self.compare.is_some() || self.patches.is_some()
    }

    /// From here on, reads are compared; what differs is explained, if that is asked for.
    ///
    /// # Errors
    /// Something has been run.
    pub fn begin_comparing(&mut self, explain: Explanation, rooms: &[u64]) -> Result<(), String> {
        if !self.is_new || self.is_merged() {
            return Err("that reads are compared must be said before anything is run".into());
        }
        // Traces have FS for themselves, and where it is known who stored last, the client has been told of each store.
        let inside = self.tracing.is_none() && self.memory.watch.is_none() && explain != Explanation::Full;
        let rooms = if inside { self.memory.take_rooms(rooms, ROOM) } else { Vec::new() };
        // SAFETY: these are no part of the program's memory from here on, nor of anything else.
        let rooms = unsafe { Rooms::new(rooms) };
        let pieces = self.memory.announce();
        let seqs = self.contexts.iter().map(|context| context.code_seq);
        let pictures = Pictures::new(seqs, rooms, &pieces, self.memory.touched.is_some());
        if let Some(touched) = &mut self.memory.touched {
            touched.mark_by(pictures.regions());
        }
        self.compare = Some(Box::new(Compare::new(&self.contexts, explain, pictures)));
        Ok(())
    }

    /// Reads are not compared any more; what the comparison was.
    pub(crate) fn end_comparing(&mut self) -> Option<Box<Compare>> {
        let compare = self.compare.take()?;
        if compare.places().is_some() {
            fs_base::end();
        }
        if let Some(touched) = &mut self.memory.touched {
            touched.mark(None);
        }
        self.memory.end_announcing();
        Some(compare)
    }

    /// Whether the code cache does not find what it looks for any more, since memory has come that cannot be told from other memory; nothing
    /// may be executed before [`Self::settle_conflict`].
    pub(crate) fn has_conflict(&mut self) -> bool {
        let came = self.memory.take_came();
        if let Some(compare) = &mut self.compare {
            came.into_iter().for_each(|piece| compare.pictures.claim(piece));
            compare.pictures.fill(&self.code, self.running);
            if compare.pictures.have_moved() {
                return true;
            }
        }
        self.memory.has_conflict()
    }

    /// FS has, in the code cache, the base that the running thread's picture asks for, if any is there.
    pub(crate) fn point_at_picture(&mut self) {
        let Some(compare) = self.compare.as_ref().filter(|compare| compare.places().is_some()) else { return };
        if let Some(base) = compare.pictures.base(self.running) {
            // SAFETY: there are places only where the base can be set; the client runs.
            unsafe { fs_base::begin(base) };
        }
    }

    /// From here on, patches are applied; these are the next ones.
    ///
    /// # Errors
    /// They make no sense here.
    pub fn take_patches(&mut self, until: u64, patches: Vec<Patch>) -> Result<(), String> {
        let all = match &mut self.patches {
            Some(all) => all,
            None => {
                if self.compare.is_none() && !self.is_new {
                    return Err("patches must come before anything is run, or after a comparison".into());
                }
                let mut done: Vec<u64> = self.contexts.iter().map(|context| context.at).collect();
                let looked = self.end_comparing().and_then(|compare| compare.looked_at);
                done[self.running] = self.position + u64::from(looked == Some((self.running, self.position)));
                let threads = self.contexts.iter().map(|_| (Vec::new(), 0)).collect();
                self.patches.insert(Box::new(Patches { threads, done, until: 0 }))
            }
        };
        for patch in patches {
            let thread = patch.thread as usize;
            let Some((queue, _)) = all.threads.get_mut(thread) else {
                return Err(format!("a patch of a thread {thread}"));
            };
            if !patch.is_sound() || queue.last().is_some_and(|last| last.at > patch.at) {
                return Err(format!("a patch at {:#x} that makes no sense", patch.addr));
            }
            if patch.at >= all.done[thread] {
                queue.push(patch);
            }
        }
        all.until = all.until.max(until);
        Ok(())
    }

    /// One thread knows these bytes: puts them where nothing is known of memory. So its reads find them, mostly, without a patch.
    pub(crate) fn supply(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Trouble> {
        let Some(touched) = &mut self.memory.touched else { return Ok(()) };
        let open = |state: ByteState| !matches!(state, ByteState::Known | ByteState::Code);
        let states = touched.states(addr, bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            let len = states[at..].iter().take_while(|state| open(**state)).count();
            if len > 0 {
                self.memory.lend(addr + at as u64, &bytes[at..at + len])?;
            }
            at += len.max(1);
        }
        Ok(())
    }

    /// Puts the patches into memory that belong to the next instruction. Whether there were any.
    pub(crate) fn apply_patches(&mut self) -> Result<bool, Trouble> {
        let (thread, position) = (self.running, self.position);
        if self.patches.as_ref().is_none_or(|patches| patches.next_at(thread) > position) {
            return Ok(false);
        }
        self.confirm();
        let Some(all) = &mut self.patches else { return Ok(false) };
        let (patches, applied) = &mut all.threads[thread];
        let before = *applied;
        while let Some(Patch { at, addr, found, bytes, .. }) = patches.get(*applied).filter(|next| next.at <= position)
        {
            *applied += 1;
            let len = bytes.len() as u64;
            self.memory.ensure_readable(*addr, len)?;
            if *at < position || self.memory.read(*addr, len) != *found {
                let what = format!("the patch at {addr:#x} before instruction {at} of thread {thread} does not fit");
                return Err(divergence(what));
            }
            self.memory.write(*addr, bytes)?;
        }
        Ok(*applied > before)
    }

    /// Execution stops: memory gets what the next instruction is to find there, if that is certain to be executed.
    pub(crate) fn settle_next(&mut self) -> Result<(), Trouble> {
        let position = self.position;
        let until = self.until;
        self.note_stored_before(position);
        let context = self.context();
        if context.over || position >= until || context.next.is_none() || context.next_at <= position {
            return Ok(());
        }
        self.apply_patches()?;
        let pc = self.machine.pc;
        if self.compare.is_none() || !self.code.has(pc, 1) {
            return Ok(());
        }
        self.machine.complete();
        let Some(instruction) = Instruction::decode(pc, &self.code) else { return Ok(()) };
        let bytes = self.code.instruction(pc);
        let Self { compare, memory, code, machine, running, .. } = self;
        let Some(compare) = compare else { return Ok(()) };
        // What makes no sense is found out when it is executed.
        compare.look(memory, code, (&instruction, &bytes), &*machine, (*running, position)).or_else(|error| match error
        {
            AccessError::Senseless => Ok(()),
            AccessError::Memory(error) => Err(error.into()),
        })
    }
}
