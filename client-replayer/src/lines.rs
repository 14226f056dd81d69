//! Which lines of memory instructions access ([`bugnet_format::lines`]): marks tell ([`crate::marks`]), and for what cannot be marked, and for atomic
//! instructions, the client is called.

use crate::accesses::Accesses;
use crate::code::Code;
use crate::engine::Engine;
use crate::instruction::PlainAccess;
use crate::light;
use crate::marks::LINE;
use crate::site::{self, AccessId};
use bugnet_dr::fs_base::can_be_set;
use bugnet_dr::ir::Instr;
use bugnet_dr::opcode;
use bugnet_format::control::Response;
use bugnet_format::lines::{AtomicAccess, MAX_ACCESSES, PageAccesses};
use bugnet_format::types::Addr;
use hashbrown::{HashMap, HashSet};

const PAGE: u64 = Addr::PAGE;
/// Longest range that is believed.
const MOST: u64 = 1 << 30;

/// Granules of a page, a bit each: those that were accessed, and those that were written.
type Bits = [[u64; 8]; 2];

/// The lines that were accessed since somebody asked last.
#[derive(Default)]
pub struct Lines {
    pages: HashMap<u64, Bits>,
    /// What instructions have accessed atomically.
    atomic: HashSet<AtomicAccess>,
    /// Whether marks were taken for those of other memory, or an access was too long to be believed.
    pub doubtful: bool,
    /// What is handed over.
    handed: (Vec<PageAccesses>, Vec<AtomicAccess>),
}

impl Lines {
    /// Bytes of the line at this address were accessed, and written, a bit each.
    #[inline]
    pub fn line(&mut self, addr: u64, accessed: u64, written: u64) {
        // Eight lines are a number.
        let line = (addr % PAGE) as usize / LINE;
        let page = self.pages.entry(addr & !(PAGE - 1)).or_default();
        for (granules, bytes) in page.iter_mut().zip([accessed, written]) {
            granules[line / 8] |= granules_of(bytes) << (line % 8 * 8);
        }
    }

    fn range(&mut self, addr: u64, len: u64, writes: bool) {
        // Nobody goes through all lines of such a one.
        self.doubtful |= len > MOST;
        let (line, end) = (LINE as u64, addr.saturating_add(len.min(MOST)));
        let mut at = addr;
        while at < end {
            let next = (at | (line - 1)).saturating_add(1);
            let bytes = u64::MAX >> (line - (end.min(next) - at)) << (at % line);
            self.line(at, bytes, if writes { bytes } else { 0 });
            at = next;
        }
    }

    /// What there is becomes what is handed over.
    pub fn hand_over(&mut self) {
        let page = |(addr, [accessed, written]): (u64, Bits)| PageAccesses { addr, accessed, written };
        self.handed = (self.pages.drain().map(page).collect(), self.atomic.drain().collect());
    }

    fn handed(&self, from: usize) -> Response {
        let (pages, atomic) = &self.handed;
        let pages = pages.iter().skip(from).take(MAX_ACCESSES).copied().collect();
        let atomic = atomic.iter().skip(from).take(MAX_ACCESSES).copied().collect();
        Response::Lines { pages, atomic, doubtful: self.doubtful }
    }

    fn access(&mut self, access: &site::Access, element: &mut impl FnMut(u64, u32) -> u64) {
        let (regs, instruction) = (light::saved(), &access.instruction);
        if let Some(plain) = PlainAccess::all(instruction.action()) {
            for one in plain {
                let addr = one.address(regs);
                self.range(addr, one.bytes, one.writes);
                if access.is_atomic {
                    self.atomic.insert(AtomicAccess { pc: access.pc, addr, len: one.bytes });
                }
            }
            return;
        }
        let mut accesses = Accesses::default();
        // What makes no sense is found out when it is executed.
        accesses.find(instruction, &access.bytes, regs, element);
        accesses.reads.iter().for_each(|(addr, len)| self.range(*addr, *len, false));
        accesses.writes.iter().for_each(|(addr, len)| self.range(*addr, *len, true));
    }
}

/// The granules of 8 bytes of which some bytes of a line are, a bit each.
fn granules_of(bytes: u64) -> u64 {
    let halves = (bytes | bytes >> 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let quarters = (halves | halves >> 2) & 0x0303_0303_0303_0303;
    let any = (quarters | quarters >> 1) & 0x0101_0101_0101_0101;
    any.wrapping_mul(0x0102_0408_1020_4080) >> 56
}

impl Engine {
    /// Keeps track of lines from here on, and of nothing else.
    ///
    /// # Errors
    /// It cannot, which the other side is to know.
    pub fn begin_marking(&mut self) -> Result<(), String> {
        if !can_be_set() {
            return Err("this machine's processor or kernel keeps the FS base to itself".into());
        }
        let is_observed = self.memory.touched.is_some() || self.memory.watch.is_some() || self.shades.is_some();
        if self.contexts.len() > 1 || is_observed || self.tracing.is_some() || self.compare.is_some() {
            return Err("only a thread's own interval is marked, without anything else that observes it".into());
        }
        self.memory.track_lines();
        Ok(())
    }

    /// Whether it is kept track of lines.
    pub fn marks_lines(&self) -> bool {
        self.memory.touched.as_ref().is_some_and(|touched| touched.has_only_lines())
    }

    /// What was marked, without so many.
    pub fn lines(&mut self, from: usize) -> Option<Response> {
        let touched = self.memory.touched.as_mut()?;
        if from == 0 {
            touched.take_lines();
        }
        touched.lines().map(|lines| lines.handed(from))
    }

    /// Notes what an instruction accesses, before it is executed.
    pub fn note_lines(&mut self, id: AccessId) {
        let Some(mut touched) = self.memory.touched.take() else { return };
        let memory = &self.memory;
        if let Some(lines) = touched.lines() {
            lines.access(self.sites.access(id), &mut |addr, len| memory.element(addr, len));
        }
        self.memory.touched = Some(touched);
    }
}

/// Whether an instruction accesses memory atomically.
pub fn is_atomic(instr: Instr, code: &Code) -> bool {
    let is_prefix = |byte: &&u8| matches!(**byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let is_locked = || code.instruction(instr.pc()).iter().take_while(is_prefix).any(|byte| *byte == 0xf0);
    let has_memory = || instr.dsts().chain(instr.srcs()).any(|opnd| opnd.is_memory());
    has_memory() && (instr.opcode() == opcode::OP_xchg || is_locked())
}
