//! Entries of an outline for accesses of shaded memory ([`Wanted::shaded`]).
//!
//! [`Wanted::shaded`]: bugnet_format::trace::Wanted::shaded

use crate::engine::Engine;
use crate::instruction::PlainAccess;
use crate::light;
use crate::lines::is_atomic;
use crate::shades::is_whole;
use crate::site::AccessId;
use bugnet_dr::ir::Instr;
use bugnet_format::trace::{Entry, MAX_KEYS, Told, TracedBlock};

impl Engine {
    /// Whether accesses of shaded memory are told.
    pub fn tells_shaded(&self) -> bool {
        self.shades.is_some() && self.tracing.as_ref().is_some_and(|tracing| !tracing.wanted.shaded.is_empty())
    }

    /// What stands in the first word of entries for an access of an instruction whose position is so far ahead of what the counter says, and whether they
    /// are as [`Told::again`] says.
    pub fn tell(&mut self, instr: Instr, access: &PlainAccess, ahead: i64) -> (u32, bool) {
        let PlainAccess { reads, writes, bytes, .. } = *access;
        let pc = instr.pc();
        let again = self.tracing.as_ref().is_some_and(|tracing| {
            tracing.blocks.len() < MAX_KEYS && !tracing.wanted.is_in_library(pc) && !is_atomic(instr, &self.code)
        });
        let told = Told { ahead: ahead as i16, reads, writes, bytes: Some(bytes as u16), whole: true, again };
        (self.add_told(pc, told), again)
    }

    fn add_told(&mut self, pc: u64, told: Told) -> u32 {
        let code = self.code.instruction(pc);
        let len = crate::instruction::Instruction::decode(pc, &self.code).map_or(0, |instruction| instruction.len());
        let code = code[..code.len().min(len as usize)].to_vec();
        let (words, told) = (told.words(), Some(told));
        let entry = Some(Entry { words, counted: 0, returned: None, stack: None, told, leaves: false });
        let Some(tracing) = &mut self.tracing else { return 0 };
        let (accesses, registers) = (Vec::new(), Vec::new());
        tracing.add(TracedBlock { pc, count: 1, code, accesses, skipped: false, registers, entry })
    }

    /// Tells which accesses of an instruction are of shaded memory, before it is executed, where the code cache does not look.
    pub fn tell_access(&mut self, id: AccessId) {
        for (which, (addr, len, reads, writes, whole)) in self.accesses_at(id).into_iter().enumerate() {
            if !self.is_shaded(addr, len) {
                continue;
            }
            let site = self.sites.access(id);
            let (pc, ahead) = (site.pc, site.ahead as i16);
            // Of accesses with several ranges, the number says whether this one is read or written.
            let key = (id, which << 2 | usize::from(reads) << 1 | usize::from(writes));
            let known = self.tracing.as_ref().and_then(|tracing| tracing.told.get(&key).copied());
            let tag = known
                .unwrap_or_else(|| self.add_told(pc, Told { ahead, reads, writes, bytes: None, whole, again: false }));
            if let Some(tracing) = &mut self.tracing {
                tracing.told.insert(key, tag);
            }
            let left = self.stub.shared().left;
            [u64::from(tag) | left << 32, addr, len].into_iter().for_each(|word| self.put_outline(word));
        }
    }

    /// What an instruction is going to access, as a trace tells it: first byte, bytes, whether it reads, writes, and all of these bytes for sure.
    fn accesses_at(&mut self, id: AccessId) -> Vec<(u64, u64, bool, bool, bool)> {
        let Self { tracing: Some(tracing), sites, memory, .. } = self else { return Vec::new() };
        let (site, regs) = (sites.access(id), light::saved());
        if let Some(plain) = PlainAccess::all(site.instruction.action()) {
            let of = |one: &PlainAccess| (one.address(regs), one.bytes, one.reads, one.writes, true);
            return plain.iter().map(of).collect();
        }
        let accesses = &mut tracing.accesses;
        // What makes no sense is found out when it is executed.
        accesses.find(&site.instruction, &site.bytes, regs, &mut |addr, len| memory.element(addr, len));
        let whole = is_whole(&site.instruction);
        let reads = accesses.reads.iter().map(|(addr, len)| (*addr, *len, true, false, whole));
        reads.chain(accesses.writes.iter().map(|(addr, len)| (*addr, *len, false, true, whole))).collect()
    }
}
