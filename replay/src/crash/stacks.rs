//! The stacks of the threads of a process, with what is in scope of their frames, and what is learned on the way.

use super::{locks, variables};
use crate::backtrace::{Frame, Unwound, unwind};
use crate::error::Result;
use crate::log::{Log, ThreadId};
use crate::memory::Memory;
use crate::symbols::Symbolizer;
use bugnet_debuginfo::frame::Stack;
use bugnet_format::code::CodeStore;
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, IntervalNo, ProcessId, Tid};
use std::collections::HashMap;
use std::sync::Arc;

/// Looks at stacks.
pub(super) struct Stacks {
    code: Arc<CodeStore>,
    pub symbols: Symbolizer,
    /// Which thread waits for which word.
    pub words: Vec<(ThreadId, u64)>,
    /// The variables at these words, as far as they were found.
    pub names: HashMap<u64, String>,
    /// Which threads hold the mutexes there, as far as it was found.
    pub holders: HashMap<u64, Tid>,
}

impl Stacks {
    pub fn new(log: &Log, process: ProcessId) -> Result<Self> {
        let (code, symbols) = (log.code(process)?, Symbolizer::new(log, process)?);
        let (words, names, holders) = (Vec::new(), HashMap::new(), HashMap::new());
        Ok(Self { code, symbols, words, names, holders })
    }

    /// Takes note of the word that a thread waits for, if it does.
    pub fn add_waiting(&mut self, log: &Log, thread: ThreadId, interval: IntervalNo) -> Result<()> {
        if let Some(word) = locks::futex(log, thread, interval)? {
            self.words.push((thread, word));
            let file = self.symbols.file_at(Addr(word));
            if let Some(name) = file.and_then(|(image, address)| image.describe(address)) {
                self.names.insert(word, name);
            }
        }
        Ok(())
    }

    /// The stack of a thread that is stopped, with what is in scope.
    pub fn look(&mut self, thread: ThreadId, regs: &RegisterFile, memory: &mut dyn Memory) -> Result<Vec<Frame>> {
        let unwound = self.unwind(regs, memory)?;
        self.look_for_locks(thread, &unwound, regs.fs_base, memory);
        Ok(unwound.frames)
    }

    /// The same, with the registers of each frame.
    pub fn unwind(&mut self, regs: &RegisterFile, memory: &mut dyn Memory) -> Result<Unwound> {
        let mut unwound = unwind(regs, memory, &mut self.symbols, &self.code)?;
        variables::add(&mut unwound, regs.fs_base, memory, &mut self.symbols);
        Ok(unwound)
    }

    fn look_for_locks(&mut self, thread: ThreadId, unwound: &Unwound, fs_base: u64, memory: &mut dyn Memory) {
        let words: Vec<u64> = self.words.iter().map(|(_, word)| *word).collect();
        for word in words {
            if locks::holds(thread, word, memory) {
                self.holders.insert(word, thread.tid);
            }
            if self.names.contains_key(&word) {
                continue;
            }
            let stack = Stack { frames: &unwound.states, fs_base: Some(fs_base) };
            let mut seen = variables::Seen { memory: &mut *memory, symbols: &mut self.symbols };
            let local = (0..unwound.states.len()).find_map(|frame| stack.describe_local(frame, word, &mut seen));
            if let Some(local) = local {
                self.names.insert(word, local);
            }
        }
    }
}
