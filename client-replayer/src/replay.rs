//! What is due at a position: applies the records, compares registers, stops where asked to, answers requests.
//!
//! The code cache counts `left` down (see [`crate::block`]); at zero, or where execution cannot go on, it calls
//! [`Replay::event`], which does everything that is due at the position, sets `left` to the distance to the next thing
//! that will be due, and goes on.

mod apply;

use crate::confine;
use crate::counter::COUNTER;
use crate::instruction::Instruction;
use crate::loaded::Loaded;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::site::Sites;
use crate::state::die;
use crate::stub::Stub;
use crate::tags::Tags;
use crate::watch::{self, Watch};
use bugnet_dr::ir::Segment;
use bugnet_dr::{fpu, liveness, sys};
use bugnet_format::control::{self, Counts, Request, Response, Stop};
use bugnet_format::package::{Package, PageRef};
use bugnet_format::record::{Placed, Record, Records, SignalStep};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::{HashMap, HashSet};
use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;

/// Largest value of `left`: the code cache takes one with a bit of the upper half set for negative.
const MAX_LEFT: u64 = 1 << 31;
/// What the host program's gate is being used for.
enum Errand {
    /// The process has just started.
    Begin,
    /// A signal stopped execution in the recorded program; [`Replay::machine`] holds the registers.
    Trap(String),
}

/// What the clean call is for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// Something is due, or execution cannot go on, at this address.
    Event(u64),
    /// A split copy with this tag is to be made and gone on in.
    Split(u64),
}

/// Why execution does not go on at a position.
enum Trouble {
    /// Execution stops here.
    Stop(Box<Stop>),
    /// It cannot, which is neither the log's fault nor the replay's outcome.
    Failed(String),
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        Self::Stop(Box::new(stop))
    }
}

fn divergence(what: impl Into<String>) -> Trouble {
    Stop::Divergence { what: what.into(), expected: None }.into()
}

/// Makes DynamoRIO forget a block. A flush of its code would take along whatever lies near.
fn drop_block(tag: u64) {
    // SAFETY: within a clean call, holding no lock, in the only thread, whose blocks are its own (`-thread_private`).
    // The block in which it was called may be the one; it is not returned to, since a clean call ends in a redirection.
    unsafe { sys::dr_delete_fragment(sys::dr_get_current_drcontext(), tag as *mut c_void) };
}

/// The replay of one interval.
pub struct Replay {
    control: File,
    records: Records<'static>,
    /// The next record to be applied.
    pub next: Option<Placed<'static>>,
    /// What is wrong with the log behind the last record that could be read.
    damage: Option<String>,
    /// The code picture that is in force.
    pub code_seq: CodeSeq,
    /// Code pages that are not in force yet, ascending by sequence number.
    pages: Vec<PageRef<'static>>,
    pages_used: usize,
    /// The registers, during an event.
    pub machine: Machine,
    /// The program's memory.
    pub memory: Memory,
    instructions: HashMap<u64, Instruction>,
    /// How the code cache and this share the count.
    pub stub: Stub,
    /// From where the code cache calls.
    pub sites: Sites,
    /// Names for split copies.
    pub tags: Tags,
    /// What the clean call is for.
    pub wanted: Wanted,
    gate: u64,
    errand: Errand,
    /// Position at which `left` is zero.
    pub due: u64,
    /// Position of the event that is being handled.
    pub position: u64,
    /// Arithmetic flags, bits of [`bugnet_dr::ir::ARITHMETIC`], that may not be the program's there.
    pub unknown_flags: u32,
    /// Whether all flags have to be the program's everywhere: execution may stop at any instruction.
    exact_flags: bool,
    /// Code pages that change in the interval.
    changing: HashSet<u64>,
    /// The x87 status word before an instruction behind which DynamoRIO may find no code, although some is due.
    x87_status: u16,
    /// Where execution is to stop.
    pub target: u64,
    output: bool,
    /// Counters.
    pub counts: Counts,
    /// Why execution cannot go on, once it cannot.
    over: Option<Stop>,
    package: Loaded,
}

impl Replay {
    /// A replay of the package, which is not looked at before control comes to the gate.
    pub fn new(package: Loaded, control: File, window: Range<u64>, gate: u64, stub: Stub) -> Self {
        Self {
            control,
            records: Records::new(&[]),
            next: None,
            damage: None,
            code_seq: CodeSeq(0),
            pages: Vec::new(),
            pages_used: 0,
            machine: Machine::new(),
            memory: Memory::new(window),
            instructions: HashMap::new(),
            stub,
            sites: Sites::default(),
            tags: Tags::default(),
            wanted: Wanted::Event(0),
            gate,
            errand: Errand::Begin,
            due: 0,
            position: 0,
            unknown_flags: 0,
            exact_flags: false,
            changing: HashSet::new(),
            x87_status: 0,
            target: 0,
            output: false,
            counts: Counts::default(),
            over: None,
            package,
        }
    }

    /// Reads the package, puts the code in place, and loads the registers.
    fn open(&mut self) -> Result<(), String> {
        let package = Package::decode(self.package.bytes()).ok_or("the package is damaged, or of another version")?;
        self.records = package.records();
        self.code_seq = package.code_seq;
        let mut at_start = Vec::new();
        for page in package.pages() {
            if page.seq <= package.code_seq { at_start.push(page) } else { self.pages.push(page) }
        }
        // The newest version of each page, ascending by address. The sort is stable, and `pages` ascend by number.
        at_start.sort_by_key(|page| page.addr);
        at_start.reverse();
        at_start.dedup_by_key(|page| page.addr);
        at_start.reverse();
        let changed: Vec<u64> =
            at_start.iter().map(|page| page.addr.0).filter(|at| self.memory.is_code(*at, 1)).collect();
        self.memory.install_code(&at_start).map_err(|e| e.to_string())?;
        changed.into_iter().for_each(|page| self.drop_blocks(page));
        let mut new = HashSet::new();
        let again = self.pages.iter().map(|page| page.addr.page().0);
        self.changing = again.filter(|page| !new.insert(*page) || self.memory.is_code(*page, 1)).collect();
        // Those were built as if it did not change.
        self.changing.clone().into_iter().for_each(|page| self.drop_blocks(page));
        for page in &self.pages {
            self.memory.anticipate_code(page.addr.page().0).map_err(|e| e.to_string())?;
        }
        match self.records.next() {
            Some(Ok(Placed { record: Record::Checkpoint { regs, .. }, .. })) => self.machine.load(&regs),
            _ => return Err("the interval does not begin with a checkpoint".into()),
        }
        Ok(())
    }

    /// Takes up another interval, whose package of `len` bytes follows on the socket.
    fn take_up(&mut self, len: u64) -> Result<(), String> {
        // Pages that belong to the last interval's end are in force at the start of any later one.
        if let Some(last) = self.pages.last().map(|page| page.seq) {
            self.change_code(last).map_err(|e| e.to_string())?;
        }
        self.memory.reset().map_err(|e| e.to_string())?;
        self.instructions.clear();
        (self.records, self.next, self.damage) = (Records::new(&[]), None, None);
        self.pages.clear();
        (self.pages_used, self.due, self.position, self.target) = (0, 0, 0, 0);
        (self.counts, self.over) = (Counts::default(), None);
        // SAFETY: nothing refers to the package any more: records and pages do, and are gone.
        unsafe { self.package.replace(&mut self.control, len)? };
        self.open()?;
        self.read_record();
        Ok(())
    }

    /// The clean call.
    pub fn event(&mut self) -> &mut Self {
        let Wanted::Event(pc) = self.wanted else { return self };
        if pc == self.gate {
            self.arrive();
        } else {
            self.fetch(pc);
            self.position = self.due.wrapping_sub(self.stub.shared().left);
            let reached = match self.stub.shared().left {
                0 => self.advance(),
                _ => self.unexpected(),
            };
            self.settle(reached);
        }
        self
    }

    /// Takes the registers from DynamoRIO.
    pub fn fetch(&mut self, pc: u64) {
        self.machine.fetch(pc);
        self.machine.correct(COUNTER.0.into(), self.stub.shared().lent);
    }

    /// Whether counting must leave all flags as they are where code at these addresses is what makes them dead.
    pub fn keeps_flags(&self, code: &[u64]) -> bool {
        self.exact_flags || code.iter().any(|at| self.changing.contains(&Addr(*at).page().0))
    }

    /// A block was built when the instruction could not be executed, and no record is due.
    fn unexpected(&mut self) -> Result<(), Trouble> {
        let pc = self.machine.pc;
        if !self.memory.is_code(pc, 1) {
            return Err(divergence(format!("execution reached {pc:#x}, of which the log has no code")));
        }
        let instruction = self.instruction(pc)?;
        if instruction.runs() {
            // Its page, or that of its second part, came later than the block.
            drop_block(pc);
            return Ok(());
        }
        Err(divergence(format!("the log has no record for the instruction at {pc:#x}, which replay does not execute")))
    }

    /// Control came to the gate.
    fn arrive(&mut self) {
        match std::mem::replace(&mut self.errand, Errand::Begin) {
            Errand::Begin => self.begin(),
            Errand::Trap(what) => {
                let reached = if self.position == self.due {
                    fpu::raise_flags(std::mem::take(&mut self.x87_status));
                    self.advance()
                } else {
                    Err(divergence(what))
                };
                self.settle(reached);
            }
        }
    }

    fn begin(&mut self) {
        if let Err(why) = self.open() {
            self.fail(why);
        }
        self.read_record();
        if let Err(why) = confine::confine() {
            self.fail(why);
        }
        self.send(&Response::Ready);
        self.serve();
    }

    /// Reports why there is no going on, and ends the process.
    fn fail(&mut self, why: String) -> ! {
        self.send(&Response::Failed(why));
        // SAFETY: ends the process.
        unsafe { sys::dr_abort_with_code(0) };
        die("the process did not end")
    }

    fn send(&mut self, response: &Response) {
        if control::send(&mut self.control, response).is_err() {
            die("the other side of the control socket is gone");
        }
    }

    /// Handles the outcome of [`Self::advance`]: answers, and serves requests, until there is something to execute.
    fn settle(&mut self, reached: Result<(), Trouble>) {
        match reached {
            Ok(()) => return,
            Err(Trouble::Failed(why)) => self.fail(why),
            Err(Trouble::Stop(stop)) => self.report(*stop),
        }
        self.serve();
    }

    fn report(&mut self, stop: Stop) {
        if stop != Stop::Reached {
            self.over = Some(stop.clone());
        }
        self.counts.instructions = self.position;
        let regs = Box::new(self.registers());
        let (position, counts) = (self.position, self.counts);
        self.send(&Response::Stopped { stop, position, regs, counts });
    }

    /// Every register, as far as it is known.
    fn registers(&mut self) -> RegisterFile {
        let mut regs = self.machine.registers();
        regs.rflags_known &= !liveness::rflags_bits(self.unknown_flags);
        regs
    }

    /// From here on, all flags are the program's at each instruction.
    fn keep_flags(&mut self) {
        if !std::mem::replace(&mut self.exact_flags, true) {
            self.sites.plain_blocks().into_iter().for_each(drop_block);
        }
    }

    /// Answers requests until one makes execution go on.
    fn serve(&mut self) {
        loop {
            let Ok(request) = control::receive(&mut self.control) else {
                // The other side has gone: nobody wants to know any more.
                // SAFETY: ends the process.
                unsafe { sys::dr_abort_with_code(0) };
                die("the process did not end")
            };
            match request {
                Request::Quit => {
                    // SAFETY: ends the process.
                    unsafe { sys::dr_abort_with_code(0) };
                }
                Request::Next { len } => match self.take_up(len) {
                    Ok(()) => self.send(&Response::Ready),
                    Err(why) => self.fail(why),
                },
                Request::ReadMemory { addr, len } => {
                    let bytes = self.memory.read(addr, len.min(control::MAX_READ));
                    self.send(&Response::Memory(bytes));
                }
                Request::RunMerged => self.fail("this is one interval, not a merged replay".into()),
                Request::Watch { addr, len } => {
                    if self.position != 0 || !self.sites.is_empty() {
                        self.fail("what is watched must be said before anything is run".into());
                    }
                    self.memory.watch = Some(Watch::new(addr, len.min(control::MAX_WATCH), &self.memory));
                    self.send(&Response::Watching);
                }
                Request::Writers => {
                    let writers = self.memory.watch.as_ref().map_or(Vec::new(), |watch| watch.writers().to_vec());
                    self.send(&Response::Writers(writers));
                }
                Request::RunTo { position, output } => {
                    if let Some(stop) = self.over.clone() {
                        self.report(stop);
                        continue;
                    }
                    if position < self.position {
                        let (asked, at) = (position, self.position);
                        self.fail(format!("cannot run to position {asked}: replay is at {at} already"));
                    }
                    if position != u64::MAX {
                        self.keep_flags();
                    }
                    self.target = position;
                    self.output = output;
                    match self.advance() {
                        Ok(()) => return,
                        Err(Trouble::Failed(why)) => self.fail(why),
                        Err(Trouble::Stop(stop)) => self.report(*stop),
                    }
                }
            }
        }
    }

    /// Reads the next record; `next` is `None` behind the last, and where there is damage.
    pub fn read_record(&mut self) {
        self.next = match self.records.next() {
            Some(Ok(placed)) => Some(placed),
            Some(Err(e)) => {
                self.damage = Some(format!("damaged record at byte {} of the interval: {}", e.offset, e.reason));
                None
            }
            None => None,
        };
    }

    /// Does everything that is due at the position, and arms `left` for what is due next.
    fn advance(&mut self) -> Result<(), Trouble> {
        while let Some(next) = self.next.take_if(|next| next.position.0 <= self.position) {
            let skips = matches!(
                next.record,
                Record::Syscall { .. } | Record::Special { .. } | Record::Signal { step: SignalStep::Return, .. }
            );
            if skips && self.position >= self.target {
                self.next = Some(next);
                return Err(Stop::Reached.into());
            }
            self.apply(&next)?;
            self.read_record();
        }
        if self.next.is_none() {
            return Err(self.damage.clone().map_or(Stop::CutOff.into(), divergence));
        }
        if self.position >= self.target {
            return Err(Stop::Reached.into());
        }
        while let Some(seq) = self.code_behind_this() {
            if !self.leaves_code_alone(seq) {
                self.x87_status = fpu::status();
                break;
            }
            self.change_code(seq).map_err(|e| Trouble::Failed(e.to_string()))?;
            self.read_record();
        }
        self.arm();
        Ok(())
    }

    /// The code picture that comes into force behind the next instruction, if one does.
    ///
    /// It is put in place before that instruction: when that has been executed, DynamoRIO looks at what is there before
    /// the client is asked. Where that is no code, it makes it a signal, and x87 exception flags are lost on the way.
    pub fn code_behind_this(&self) -> Option<CodeSeq> {
        match self.next.as_ref()? {
            Placed { record: Record::Code { seq, .. }, position, .. } if position.0 == self.position + 1 => Some(*seq),
            _ => None,
        }
    }

    /// Whether the next instruction has nothing to do with the code pages up to `seq` that are not in force yet.
    fn leaves_code_alone(&mut self, seq: CodeSeq) -> bool {
        let pc = self.machine.pc;
        let Some(instruction) = Instruction::decode(pc, &self.memory) else { return false };
        self.machine.complete();
        let pages = self.pages[self.pages_used..].iter().take_while(|page| page.seq <= seq);
        instruction.leaves_alone(pc, pages.map(|page| page.addr.page().0), &self.machine)
    }

    /// Sets `left` to the distance to the next thing that will be due.
    pub fn arm(&mut self) {
        let early = |next: &Placed<'_>| {
            u64::from(matches!(next.record, Record::Code { .. }) && next.position.0 > self.position + 1)
        };
        let next = self.next.as_ref().map_or(self.position, |next| next.position.0 - early(next));
        self.due = next.min(self.target).min(self.position.saturating_add(MAX_LEFT));
        self.stub.shared().left = self.due - self.position;
    }

    /// Makes DynamoRIO forget the blocks that have bytes on a page.
    fn drop_blocks(&mut self, page: u64) {
        self.sites.take_blocks(page).into_iter().for_each(drop_block);
    }

    /// The instruction at `pc` is run: says so if it is watched, and has other bytes than the last time.
    pub fn watch_run(&mut self, pc: u64, position: u64) {
        if let Some(ran) = watch::run(&mut self.memory, pc, position, self.code_seq) {
            self.send(&Response::Ran(ran));
        }
    }

    /// The position of an instruction that is so far ahead of what the counter says.
    pub fn position_ahead(&self, ahead: i64) -> u64 {
        self.due.wrapping_sub(self.stub.shared().left).wrapping_add_signed(ahead)
    }

    /// Takes note of a signal that replay cannot resolve. [`Self::machine`] holds the recorded program's registers, and
    /// execution is at `position`. Returns the address at which execution
    /// must go on: the gate.
    pub fn trap(&mut self, what: String, position: u64) -> u64 {
        self.position = position;
        self.errand = Errand::Trap(what);
        self.gate
    }

    /// Whether this is the instruction of the host program at which the client gets control.
    pub fn is_gate(&self, pc: u64) -> bool {
        pc == self.gate
    }

    /// Goes on behind the clean call.
    pub fn go_on(&mut self) -> ! {
        if let Wanted::Split(tag) = self.wanted {
            // With the count in R11, where it is.
            self.machine.fetch(tag);
            self.machine.redirect(tag);
        }
        self.stub.set_segment_base(Segment::Fs, self.machine.fs_base);
        self.stub.set_segment_base(Segment::Gs, self.machine.gs_base);
        let shared = self.stub.shared();
        shared.lent = self.machine.get(COUNTER.0.into());
        self.machine.complete();
        self.machine.correct(COUNTER.0.into(), shared.left);
        self.machine.redirect(self.machine.pc)
    }
}
