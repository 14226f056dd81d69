//! What is executed is written down in memory that the library shares ([`bugnet_format::trace`]): the number of each block, and the values
//! of registers from which the addresses of its accesses follow.
//!
//! R11 counts down to the next thing that is due, so it is the place to write to: `mov fs:[r11*8 + distance], register`, in which the
//! FS base is chosen where the count is ([`Engine::place_trace`]). That takes neither a register nor a flag. Which registers a block has
//! to write, [`plan`] finds out; [`emit`] makes the code. Of an outline, few blocks write anything, one behind the other. Accesses that no sum of registers tells call the client.

mod again;
mod emit;
mod plan;
mod telling;

use again::Again;
pub use again::told_again;
use bugnet_dr::ir::Instr;
pub use emit::{Counted, outline, pair, write_down};
pub use plan::{Inside, Pair, Plan, is_in_outline};
use plan::{is_odd, takes_back};

use crate::accesses::Accesses;
use crate::engine::Engine;
use crate::fork;
use crate::fs_base;
use crate::light;
use crate::site::AccessId;
use crate::state;
use bugnet_dr::access::Action;
use bugnet_dr::fs_base::can_be_set;
use bugnet_format::control::Response;
use bugnet_format::trace::{
    BYTES, CAPACITY, DUE, Entry, MAX_BLOCKS, MAX_INSTRUCTIONS, MAX_TRACED, NO_ADDRESS, OddAccess, TRACE_FD,
    TracedBlock, WORDS_EACH, Wanted, Written, index, tag, untag,
};
use hashbrown::HashMap;
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Words of an outline that an instruction may need, with those for what it accesses: a gather accesses eight places.
const MOST_TOLD: u64 = 32;
/// Words of an outline that an instruction may need: with one more, if it is a function's only one.
const MOST_EACH: u64 = WORDS_EACH as u64 + 1;
/// Words of an outline that are left free: a few things may happen at once.
const LEAST_ROOM: u64 = 1 << 12;

/// The shared memory, and what goes with it.
pub struct Tracing {
    /// Its address.
    buffer: u64,
    /// Instructions of the package that were executed before the first one in it.
    begin: u64,
    blocks: Vec<TracedBlock>,
    /// First words of accesses that the client tells: by the site, and which of its accesses it is.
    told: HashMap<(AccessId, usize), u32>,
    /// Where accesses are told: those that were.
    again: Option<Again>,
    /// First words of instructions that are not executed, by their address.
    skipped: HashMap<u64, u32>,
    odd: Vec<OddAccess>,
    accesses: Accesses,
    /// What is written down beside blocks and addresses.
    pub wanted: Wanted,
}

impl Tracing {
    /// Maps the memory whose descriptor comes.
    ///
    /// # Errors
    /// There is none, or there is no room for it.
    fn new(control: &std::fs::File, begin: u64, wanted: Wanted) -> Result<Self, String> {
        fork::receive_as(control, TRACE_FD).map_err(|e| format!("no memory came for a trace: {e}"))?;
        // SAFETY: received just now; a wrong one makes the call fail.
        let memory = unsafe { BorrowedFd::borrow_raw(TRACE_FD) };
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice. Whoever made the memory has sealed its size.
        let mapped = unsafe { mmap(std::ptr::null_mut(), BYTES, prot, MapFlags::SHARED, memory, 0) };
        let buffer = mapped.map_err(|e| format!("there is no room for a trace: {e}"))? as u64;
        let (blocks, odd, accesses) = (Vec::new(), Vec::new(), Accesses::default());
        let (told, skipped) = (HashMap::new(), HashMap::new());
        let again = if wanted.shaded.is_empty() { None } else { Some(Again::new()?) };
        Ok(Self { buffer, begin, blocks, told, again, skipped, odd, accesses, wanted })
    }

    /// What stands in the first word of a new block.
    pub fn add(&mut self, block: TracedBlock) -> u32 {
        if self.blocks.len() + 1 == MAX_BLOCKS || usize::from(block.count) > MAX_INSTRUCTIONS {
            state::die("there are more blocks than a trace has numbers for");
        }
        let tag = tag(self.blocks.len() as u32, block.count);
        self.blocks.push(block);
        tag
    }

    /// The last word of the memory, where an outline begins.
    fn outline(&self) -> u64 {
        self.buffer + BYTES as u64 - 8
    }

    /// Puts a block's first word where its first instruction's word is.
    fn put(&mut self, word: usize, tag: u32) {
        let at = self.buffer + index(0, word) as u64 * 8;
        // SAFETY: a word of the buffer, which nobody refers to.
        unsafe { (at as *mut u64).write_volatile(tag.into()) };
    }

    /// What was executed before is not looked at any more.
    fn empty(&mut self, begin: u64) {
        self.begin = begin;
        self.odd.clear();
    }
}

impl Engine {
    /// What is executed from here on is written down.
    ///
    /// # Errors
    /// It cannot be, which the other side is to know.
    pub fn begin_tracing(&mut self, wanted: Wanted) -> Result<(), String> {
        let begin = self.time_at(self.position);
        let tracing = Tracing::new(&self.control, begin, wanted)?;
        let Wanted { outline, shaded, open, heap, .. } = &tracing.wanted;
        if !outline && !can_be_set() {
            return Err(
                "this machine's processor or kernel keeps the FS base to itself, without which there is no trace"
                    .into(),
            );
        }
        let is_observed = self.memory.touched.is_some() || self.memory.watch.is_some() || self.shades.is_some();
        if self.contexts.len() > 1 || is_observed {
            return Err("only a thread's own interval is traced, without anything else that observes it".into());
        }
        if !shaded.is_empty() {
            if !outline {
                return Err("accesses are told in an outline alone".into());
            }
            self.begin_telling(shaded)?;
        }
        if *open && !(*outline && shaded.is_empty()) {
            return Err("open calls are told in an outline without shaded memory alone".into());
        }
        if let Some(allocators) = heap {
            if !open {
                return Err("a heap is kept along with an outline of open calls alone".into());
            }
            self.begin_keeping(allocators)?;
        }
        self.tracing = Some(Box::new(tracing));
        self.drop_all_blocks();
        Ok(())
    }

    /// Whether the client is called for an instruction of a block that begins at an address, to write down what it accesses.
    pub fn traces_odd(&self, block: u64, instr: Instr) -> bool {
        self.tracing.as_ref().is_some_and(|tracing| tracing.wanted.tells_accesses(block)) && is_odd(instr)
    }

    /// Whether all is told of the block of an access, where the client is called to look at that, too.
    pub fn traces_closely(&self, id: AccessId) -> bool {
        let block = self.sites.access(id).block.start;
        self.tracing.as_ref().is_some_and(|tracing| tracing.wanted.tells_accesses(block))
    }

    /// Whether the buffer has to be emptied before anything more is executed.
    pub fn is_trace_full(&self) -> bool {
        self.trace_room() == 0
    }

    /// How many instructions there is room for.
    fn trace_room(&self) -> u64 {
        if let Some(tracing) = self.tracing.as_ref().filter(|tracing| tracing.wanted.outline) {
            let used = (tracing.outline() - self.stub.shared().outline) / 8;
            let executed = self.time_at(self.position).wrapping_sub(tracing.begin);
            let all = BYTES as u64 / 8;
            let room = match self.tells_shaded() {
                // Nearly full, there would be room for fewer and fewer instructions at a time.
                true if used > all / 2 => 0,
                true => (all - used) / MOST_TOLD,
                false => all.saturating_sub(used + LEAST_ROOM) / MOST_EACH,
            };
            return room.min(u64::from(u32::MAX / 4).saturating_sub(executed));
        }
        let word = |tracing: &Tracing| self.time_at(self.position).wrapping_sub(tracing.begin);
        self.tracing.as_ref().map_or(u64::MAX, |tracing| (CAPACITY as u64).saturating_sub(word(tracing)))
    }

    /// Chooses how far execution may go, and the FS base by which the count is the place in the buffer.
    pub fn place_trace(&mut self) {
        let room = self.trace_room();
        let Some(tracing) = &self.tracing else { return };
        self.due = self.due.min(self.position.saturating_add(room));
        if tracing.wanted.outline {
            let due = self.time_at(self.due).wrapping_sub(tracing.begin);
            self.stub.shared().due = due.wrapping_neg();
            self.put_due(due, self.position);
            return;
        }
        let left_free = room - (self.due - self.position);
        // SAFETY: it can be set, or tracing would not have begun.
        unsafe { fs_base::begin(tracing.buffer + left_free * 8) };
    }

    /// The next thing is due behind the last instruction of a block, before which the client was called: that is told where the block is not, yet.
    pub fn make_due(&mut self) {
        let left = std::mem::take(&mut self.stub.shared().left);
        self.due = self.due.wrapping_sub(left);
        if let Some(tracing) = self.tracing.as_ref().filter(|tracing| tracing.wanted.outline) {
            self.put_due(self.time_at(self.due).wrapping_sub(tracing.begin), self.due - 1);
        }
    }

    /// Says in an outline that the next thing is due after so many instructions, and at which position that is said.
    fn put_due(&self, due: u64, at: u64) {
        let Some(tracing) = &self.tracing else { return };
        let now = self.time_at(at).wrapping_sub(tracing.begin);
        self.put_outline(u64::from(tag(DUE, 0)) | due << 32);
        self.put_outline(NO_ADDRESS | now);
    }

    /// The thread goes on elsewhere than its code says: if that is in a library, it is told.
    pub fn goes_elsewhere(&mut self) {
        self.stub.shared().inside = 0;
    }

    /// Puts a word into an outline.
    pub(crate) fn put_outline(&self, word: u64) {
        let outline = &mut self.stub.shared().outline;
        // SAFETY: a word of the buffer, which nobody refers to, and there is room for it.
        unsafe { (*outline as *mut u64).write_volatile(word) };
        *outline -= 8;
    }

    /// A run begins: what was written down has been looked at.
    pub fn empty_trace(&mut self) {
        let begin = self.time_at(self.position);
        if let Some(tracing) = &mut self.tracing {
            tracing.empty(begin);
            if tracing.wanted.outline {
                self.stub.shared().outline = tracing.outline();
            }
            self.begin_told();
            self.goes_elsewhere();
        }
    }

    /// The instruction at the position is not executed, but a record says what it did.
    pub fn trace_skipped(&mut self) {
        let (pc, word) = (self.machine.pc, self.time_at(self.position));
        let Self { tracing: Some(tracing), code, .. } = self else { return };
        let bytes = code.instruction(pc);
        let len = crate::instruction::Instruction::decode(pc, code).map_or(0, |instruction| instruction.len());
        let bytes = &bytes[..bytes.len().min(len as usize)];
        let fits = |tag: &u32| tracing.blocks[untag((*tag).into()).0 as usize].code == bytes;
        let known = tracing.skipped.get(&pc).copied().filter(fits);
        let tag = known.unwrap_or_else(|| {
            let (code, accesses, registers) = (bytes.to_vec(), Vec::new(), Vec::new());
            let words = if takes_back(&tracing.wanted) { 2 } else { 1 };
            let entry = Entry { words, counted: 0, returned: None, stack: None, told: None, leaves: false };
            let entry = tracing.wanted.outline.then_some(entry);
            tracing.add(TracedBlock { pc, count: 1, code, accesses, skipped: true, registers, entry })
        });
        tracing.skipped.insert(pc, tag);
        if tracing.wanted.outline {
            // Where a run begins here, nothing else has said yet what is due.
            let at = word.wrapping_sub(tracing.begin);
            // What ends so is no call that a return may take back.
            let end = takes_back(&tracing.wanted).then_some(0);
            self.put_due(at, self.position);
            std::iter::once(tag.into()).chain(end).for_each(|word| self.put_outline(word));
        } else {
            tracing.put((word - tracing.begin) as usize, tag);
        }
    }

    /// Notes what the instruction is going to access, of which words cannot tell it.
    pub fn trace_access(&mut self, id: AccessId) {
        let at = self.position_ahead(self.sites.access(id).ahead);
        let word = self.time_at(at);
        let Self { tracing: Some(tracing), sites, memory, .. } = self else { return };
        let (site, word) = (sites.access(id), (word - tracing.begin) as u32);
        let mut element = |addr, len: u32| {
            memory.read(addr, len.into()).iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        let Tracing { accesses, odd, .. } = &mut **tracing;
        // What makes no sense is found out when it is executed.
        accesses.find(&site.instruction, &site.bytes, light::saved(), &mut element);
        let whole = match site.instruction.action() {
            Action::Execute { reads, writes } => !reads.iter().chain(writes).any(|access| access.masked),
            _ => true,
        };
        for (ranges, writes) in [(&accesses.reads, false), (&accesses.writes, true)] {
            odd.extend(ranges.iter().map(|&(addr, len)| OddAccess { word, addr, len, writes, whole }));
        }
    }

    /// How much was written down in the last run, if anything is.
    pub fn written(&self) -> Option<Written> {
        let tracing = self.tracing.as_ref()?;
        let words = self.time_at(self.position).wrapping_sub(tracing.begin) as u32;
        let (blocks, odd) = (tracing.blocks.len() as u32, tracing.odd.len() as u32);
        let start = tracing.outline();
        let used = if tracing.wanted.outline { (start - self.stub.shared().outline) / 8 } else { 0 };
        Some(Written { words, used: used as u32, start, blocks, odd })
    }

    /// What goes with the buffer: blocks and accesses, without so many that are known already.
    ///
    /// # Errors
    /// Nothing is traced.
    pub fn traced(&self, blocks: usize, odd: usize) -> Result<Response, String> {
        let Some(tracing) = &self.tracing else { return Err("nothing is traced".into()) };
        let odd = tracing.odd.iter().skip(odd).take(MAX_TRACED).copied().collect();
        let blocks = tracing.blocks.iter().skip(blocks).take(MAX_TRACED).cloned().collect();
        Ok(Response::Traced { blocks, odd })
    }
}
