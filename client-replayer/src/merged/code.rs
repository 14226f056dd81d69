//! The code that threads execute: of each the code that its own picture has.
//!
//! Code pictures are numbered for all threads of a process, but nothing orders a thread that still executes the code of
//! one with another thread that changes it. So what a thread executes may be older than what memory has: its blocks are
//! made of its picture, and those in the code cache are dropped that the thread that runs next must not find.

use super::picture::pieces;
use super::{Merged, Trouble};
use crate::instruction::{self, Instruction};
use crate::memory::MemoryError;
use bugnet_dr::access::classify;
use bugnet_dr::decode::MAX_LEN;
use bugnet_dr::ir::{Block, Instr, Instrs};
use bugnet_dr::sys;
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::HashMap;
use std::ffi::c_void;
use std::rc::Rc;

/// Most instructions of a block that is made of a picture.
const LONGEST_BLOCK: usize = 64;

/// The code that the code cache was made from: for each page, where pieces begin, and their bytes.
#[derive(Default)]
pub(super) struct Cached {
    pages: HashMap<u64, Vec<(usize, Vec<u8>)>>,
    /// The code picture of the thread that ran last, with which all of it agrees.
    seq: CodeSeq,
    /// What the block that is being made is decoded from.
    copy: Vec<u8>,
}

impl Merged {
    /// `len` bytes of the picture of the running thread, or of another one's if none runs.
    pub(super) fn picture(&mut self, address: u64, len: usize) -> Vec<u8> {
        let index = self.segment.map_or(0, |segment| segment.thread);
        let mut bytes = Vec::with_capacity(len);
        if let Some(thread) = self.threads.get_mut(index) {
            for (page, range) in pieces(address, len as u64) {
                bytes.extend_from_slice(&thread.picture.page(page)[range]);
            }
        }
        bytes
    }

    /// The instruction of the running thread at `pc`; `None` if there is no code.
    pub(super) fn decode(&mut self, pc: u64) -> Option<Instruction> {
        let bytes = self.memory.is_code(pc, 1).then(|| self.picture(pc, MAX_LEN))?;
        Instruction::of(pc, &bytes, &self.memory)
    }

    /// The instruction at `pc`, decoded once.
    pub(super) fn instruction(&mut self, pc: u64) -> Result<Rc<Instruction>, Trouble> {
        if let Some(known) = self.instructions.get(&pc) {
            return Ok(Rc::clone(known));
        }
        let found = self.decode(pc).ok_or_else(|| format!("the log has no instruction at {pc:#x}"))?;
        let found = Rc::new(found);
        self.instructions.insert(pc, Rc::clone(&found));
        Ok(found)
    }

    /// Whether memory has the instruction that the running thread has.
    fn is_own(&mut self, block: &Block, instr: Instr) -> bool {
        let len = instr.len(block);
        self.picture(instr.pc(), len as usize) == self.memory.read(instr.pc(), len)
    }

    /// The instructions of a block that begins, which DynamoRIO has found in memory: those of the running thread.
    pub(super) fn own_instructions(&mut self, block: &Block, mut instrs: Instrs) -> Instrs {
        let code = instrs.iter().take_while(|instr| self.memory.is_code(instr.pc(), instr.len(block))).count();
        let start = instrs[0].pc();
        if !instrs[..code].iter().all(|instr| self.is_own(block, *instr)) && self.decode(start).is_some() {
            instrs.iter().for_each(|instr| block.remove(*instr));
            self.cached.copy = self.picture(start, LONGEST_BLOCK * MAX_LEN);
            let runs =
                |instr: Instr| self.memory.is_code(instr.pc(), instr.len(block)) && instruction::runs(&classify(instr));
            // SAFETY: the copy stays until the next block begins.
            instrs = unsafe { block.decode_apps(start, &self.cached.copy, runs) };
        }
        instrs
    }

    /// The code cache is to have an instruction of the running thread.
    pub(super) fn note_cached(&mut self, pc: u64, len: u64) {
        for (page, range) in pieces(pc, len) {
            let bytes = self.picture(page + range.start as u64, range.len());
            let known = self.cached.pages.entry(page).or_default();
            match known.last_mut() {
                // Most follow each other.
                Some((start, before)) if *start + before.len() == range.start => before.extend_from_slice(&bytes),
                _ => known.push((range.start, bytes)),
            }
        }
    }

    /// A thread runs with the code picture `seq`: drops what was made from other code.
    pub(super) fn fit_cache(&mut self, seq: CodeSeq) {
        let before = std::mem::replace(&mut self.cached.seq, seq);
        let Some(segment) = self.segment else { return };
        let code = Rc::clone(&self.code);
        for page in code.between(before.min(seq), before.max(seq)) {
            let start = page.addr.page().0;
            let Some(cached) = self.cached.pages.get(&start) else { continue };
            let now = self.threads[segment.thread].picture.page(start);
            if cached.iter().any(|(at, bytes)| now[*at..*at + bytes.len()] != bytes[..]) {
                self.drop_page(start);
                self.instructions.clear();
            }
        }
    }

    /// Whether the next instruction of the running thread has nothing to do with the code pages that its picture takes with
    /// `seq`, nor with those that memory takes.
    pub(super) fn leaves_code_alone(&mut self, seq: CodeSeq) -> bool {
        let pc = self.machine.pc;
        let Ok(instruction) = self.instruction(pc) else { return false };
        let Some(segment) = self.segment else { return false };
        self.machine.complete();
        let from = self.threads[segment.thread].picture.seq().min(self.code_seq);
        let pages = self.code.between(from, seq).iter().map(|page| page.addr.page().0);
        instruction.leaves_alone(pc, pages, &self.machine)
    }

    /// Puts the instruction that the running thread comes to into memory, where other threads have stored something else that
    /// DynamoRIO takes for none. `false` if it is there, or the thread has none.
    pub(super) fn show_code(&mut self) -> Result<bool, MemoryError> {
        let pc = self.machine.pc;
        let Some(len) = self.decode(pc).map(|instruction| instruction.len()) else { return Ok(false) };
        let (own, found) = (self.picture(pc, len as usize), self.memory.read(pc, len));
        if own == found {
            return Ok(false);
        }
        self.memory.write(pc, &own)?;
        self.origins.system(pc, len);
        Ok(true)
    }

    /// Puts the code pages up to `seq` into memory, unless they are, and drops what was translated from others.
    pub(super) fn change_code(&mut self, seq: CodeSeq) -> Result<(), MemoryError> {
        if seq <= self.code_seq {
            return Ok(());
        }
        let code = Rc::clone(&self.code);
        for page in code.between(self.code_seq, seq) {
            let start = page.addr.page().0;
            let known = self.memory.is_code(start, 1);
            // The picture was taken while other threads may have been writing there, and nothing orders it with what they
            // wrote: where it changes what they have stored here, it says nothing about what others are to find.
            self.memory.ensure_readable(start, Addr::PAGE)?;
            let before = self.memory.read(start, Addr::PAGE);
            for (at, _) in (start..).zip(before.iter().zip(page.bytes)).filter(|(_, (old, new))| old != new) {
                self.origins.system(at, 1);
            }
            self.memory.install_code(&[*page])?;
            if known {
                self.drop_page(start);
            }
        }
        self.code_seq = seq;
        self.instructions.clear();
        Ok(())
    }

    /// Makes DynamoRIO forget the blocks of a page.
    fn drop_page(&mut self, page: u64) {
        self.cached.pages.remove(&page);
        self.drop_blocks(page, Addr::PAGE);
    }

    /// Makes DynamoRIO forget the blocks of a piece of code.
    pub(super) fn drop_blocks(&mut self, start: u64, len: u64) {
        unsafe extern "C" fn dropped(_: *mut c_void) {}
        // SAFETY: within a clean call, holding no lock. The block in which it was called may be among those that are
        // dropped, and must not be returned to: `jump` marks the registers as changed, so execution is redirected.
        unsafe { sys::dr_flush_region_ex(start as sys::app_pc, len as usize, Some(dropped), std::ptr::null_mut()) };
        self.machine.jump(self.machine.pc);
    }
}
