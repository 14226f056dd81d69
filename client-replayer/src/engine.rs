//! The engine: threads on one memory, one after the other in the package's order, and what is due at a position.
//!
//! The code cache counts `left` down (see [`crate::block`]); at zero, or where execution cannot go on, it calls
//! [`Engine::event`], which does everything that is due at the position (applies records, compares registers, changes
//! threads, stops where asked to), sets `left` to the distance to the next thing that will be due, and goes on.

mod apply;
mod package;
mod serve;

use crate::code::Code;
use crate::compare::{Compare, Patches};
use crate::conditions::Watching;
use crate::context::Context;
use crate::counter::COUNTER;
use crate::executed::Executed;
use crate::fork::{self, LOOK_EVERY};
use crate::fs_base;
use crate::instruction::Instruction;
use crate::keeper::Keeper;
use crate::loaded::Loaded;
use crate::machine::Machine;
use crate::memory::{Memory, MemoryError};
use crate::places::Places;
use crate::shades::Shades;
use crate::site::Sites;
use crate::state::die;
use crate::stub::Stub;
use crate::tags::Tags;
use crate::trace::Tracing;
use crate::watch;
use bugnet_dr::fpu;
use bugnet_dr::ir::Segment as Base;
use bugnet_format::control::{Response, Stop, Target};
use bugnet_format::package::Segment;
use bugnet_format::record::{Record, SignalStep};
use bugnet_format::types::{Addr, CodeSeq};
use hashbrown::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;

/// Largest value of `left`. The code cache takes one with a bit of the upper half set for negative.
const MAX_LEFT: u64 = LOOK_EVERY;

/// What the host program's gate is being used for.
enum Errand {
    /// The process has just started.
    Begin,
    /// A signal stopped execution in the recorded program; [`Engine::machine`] holds the registers.
    Trap(String),
    /// The same, and it can go on.
    GoOn,
    /// DynamoRIO has forgotten some of the blocks that it is to forget.
    Forget,
}

/// What blocks do about accesses to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Nothing.
    Plain,
    /// They call the client at each.
    Calls,
    /// They mark them.
    Marks(Places),
    /// They compare what they find, and mark reads, too, if that is said.
    Compares(Places, bool),
    /// They look whether they may be wrong.
    Shades(Places),
    /// They look whether they are of shaded memory, and tell those.
    Tells(Places),
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
pub enum Trouble {
    /// Execution stops here.
    Stop(Box<Stop>),
    /// It does, but something new is due soon.
    Rearm,
    /// It cannot, which is neither the log's fault nor the replay's outcome.
    Failed(String),
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        Self::Stop(Box::new(stop))
    }
}

impl From<MemoryError> for Trouble {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Range(_) => divergence(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Replay goes another way than the recording.
pub fn divergence(what: impl Into<String>) -> Trouble {
    Stop::Divergence { what: what.into(), expected: None }.into()
}

/// The replay of a package.
pub struct Engine {
    /// The socket on which requests come.
    pub control: File,
    package: Loaded,
    /// The threads.
    pub contexts: Vec<Context>,
    /// Index of the thread that runs.
    pub running: usize,
    /// Instruction count up to which it runs before another one does.
    pub until: u64,
    segments: Box<dyn Iterator<Item = Segment>>,
    /// The code.
    pub code: Code,
    /// The code picture that memory has.
    memory_seq: CodeSeq,
    /// The registers of the thread that runs, during an event.
    pub machine: Machine,
    /// The memory of all threads.
    pub memory: Memory,
    instructions: HashMap<u64, Instruction>,
    /// How the code cache and this share the count.
    pub stub: Stub,
    /// From where the code cache calls.
    pub sites: Sites,
    /// Blocks that DynamoRIO is to forget before anything is executed, by their tags.
    forgotten: Vec<u64>,
    /// Names for split copies.
    pub tags: Tags,
    /// What the clean call is for.
    pub wanted: Wanted,
    /// What a light call found, and at which position, for the clean call behind it.
    pub trouble: Option<(u64, Trouble)>,
    gate: u64,
    errand: Errand,
    /// Position at which `left` is zero.
    pub due: u64,
    /// Instructions that the running thread has executed at the event that is being handled.
    pub position: u64,
    /// Arithmetic flags, bits of [`bugnet_dr::ir::ARITHMETIC`], that may not be the program's there.
    pub unknown_flags: u32,
    /// Whether all flags have to be the program's everywhere: execution may stop at any instruction, or go over to another
    /// thread.
    exact_flags: bool,
    /// Code pages that change in the package.
    changing: HashSet<u64>,
    /// Code that was put over what memory holds until DynamoRIO has seen it, and what memory holds.
    shown: Option<(u64, Vec<u8>)>,
    /// Where execution is to stop.
    target: Target,
    /// What has to be added to the running thread's instruction count for that of all threads in the package.
    time_base: u64,
    /// The time at which the control socket was looked at.
    looked: u64,
    /// What the execution is watched for.
    pub watching: Watching,
    output: bool,
    /// Whether the log of a thread was cut off.
    cut_off: bool,
    /// How the blocks that there are look at accesses, and those that are built.
    style: Style,
    /// Why execution cannot go on, once it cannot.
    over: Option<Stop>,
    /// What is compared, if that was asked for.
    pub compare: Option<Box<Compare>>,
    /// What is put into memory beside what records say, in place of comparing.
    pub patches: Option<Box<Patches>>,
    /// Whether nothing has been run of the package.
    pub is_new: bool,
    /// Where it is written down what is executed, if it is.
    pub tracing: Option<Box<Tracing>>,
    /// Which accesses may be wrong, if that is looked at.
    pub shades: Option<Box<Shades>>,
    /// The heap, where it is kept.
    pub keeper: Option<Box<Keeper>>,
    /// Which code was executed, where that is kept track of.
    pub executed: Executed,
    /// What [`Self::code`] was copied to for a block that DynamoRIO makes.
    pub copy: Vec<u8>,
}

impl Engine {
    /// A replay of the package, which is not looked at before control comes to the gate.
    pub fn new(package: Loaded, control: File, window: Range<u64>, gate: u64, stub: Stub) -> Self {
        Self {
            control,
            package,
            contexts: Vec::new(),
            running: 0,
            until: 0,
            segments: Box::new(std::iter::empty()),
            code: Code::default(),
            memory_seq: CodeSeq(0),
            machine: Machine::new(),
            memory: Memory::new(window),
            instructions: HashMap::new(),
            stub,
            sites: Sites::default(),
            forgotten: Vec::new(),
            tags: Tags::default(),
            wanted: Wanted::Event(0),
            trouble: None,
            gate,
            errand: Errand::Begin,
            due: 0,
            position: 0,
            unknown_flags: 0,
            exact_flags: false,
            changing: HashSet::new(),
            shown: None,
            target: Target::End,
            time_base: 0,
            looked: 0,
            watching: Watching::default(),
            output: false,
            cut_off: false,
            style: Style::Plain,
            over: None,
            compare: None,
            patches: None,
            is_new: true,
            tracing: None,
            shades: None,
            keeper: None,
            executed: Executed::default(),
            copy: Vec::new(),
        }
    }

    /// The thread that runs.
    pub fn context(&mut self) -> &mut Context {
        &mut self.contexts[self.running]
    }

    /// The clean call.
    pub fn event(&mut self) -> &mut Self {
        let Wanted::Event(pc) = self.wanted else { return self };
        if pc == self.gate {
            self.arrive();
            return self;
        }
        self.fetch(pc);
        let left = self.stub.shared().left;
        self.position = self.due.wrapping_sub(left);
        let reached = match self.trouble.take() {
            Some((position, trouble)) => {
                self.position = position;
                if matches!(trouble, Trouble::Rearm) { self.advance() } else { Err(trouble) }
            }
            None => {
                self.note_stored();
                if left == 0 { self.advance() } else { self.unexpected() }
            }
        };
        self.settle(reached);
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
        if !self.code.has(pc, 1) {
            return Err(divergence(format!("execution reached {pc:#x}, of which the log has no code")));
        }
        let instruction = self.instruction(pc)?;
        if instruction.runs() {
            // Its page, or that of its second part, came later than the block.
            self.forgotten.push(pc);
            return Ok(());
        }
        Err(divergence(format!("the log has no record for the instruction at {pc:#x}, which replay does not execute")))
    }

    /// Control came to the gate.
    fn arrive(&mut self) {
        let reached = match std::mem::replace(&mut self.errand, Errand::Begin) {
            Errand::Begin => return self.begin(),
            Errand::Forget => {
                // On the way here, the count was lost.
                self.arm();
                return;
            }
            Errand::Trap(what) => self.resolve(what),
            Errand::GoOn => {
                fpu::raise_flags(self.stub.shared().x87_status as u16);
                self.settle_conflict();
                self.arm();
                Ok(())
            }
        };
        self.settle(reached);
    }

    /// A signal came: DynamoRIO has found no code where something is due, or where the thread has some, or it is a divergence.
    fn resolve(&mut self, what: String) -> Result<(), Trouble> {
        // On its way here, DynamoRIO has cleared the exception flags.
        fpu::raise_flags(self.stub.shared().x87_status as u16);
        if self.position == self.due {
            return self.advance();
        }
        if !self.show_code()? {
            return Err(divergence(what));
        }
        self.settle_conflict();
        Ok(())
    }

    /// Puts the instruction that the running thread comes to into memory, where threads have stored something else that
    /// DynamoRIO takes for none, up to the next block event. `false` if it is there, or the thread has none.
    fn show_code(&mut self) -> Result<bool, Trouble> {
        let pc = self.machine.pc;
        let Some(len) = Instruction::decode(pc, &self.code).map(|instruction| instruction.len()) else {
            return Ok(false);
        };
        let (own, found) = (self.code.read(pc, len as usize), self.memory.read(pc, len));
        if own == found {
            return Ok(false);
        }
        self.memory.lend(pc, &own)?;
        self.shown = Some((pc, found));
        Ok(true)
    }

    /// DynamoRIO has seen the code that [`Self::show_code`] has put into memory.
    pub fn hide_code(&mut self) {
        if let Some((pc, bytes)) = self.shown.take()
            && let Err(why) = self.memory.lend(pc, &bytes)
        {
            die(&why.to_string());
        }
    }

    /// Whether the client must be called before each instruction that accesses memory.
    pub fn observes_accesses(&self) -> bool {
        self.watching.has_ranges() || self.calls_at_accesses()
    }

    /// The same, whatever is watched.
    pub fn calls_at_accesses(&self) -> bool {
        match &self.compare {
            Some(compare) => compare.places().is_none(),
            None => self.memory.touched.is_some() && self.memory.marks().is_none(),
        }
    }

    /// How blocks that are built in this run look at accesses.
    pub fn style(&self) -> Style {
        self.style
    }

    /// From here on, all flags are the program's at each instruction.
    fn keep_flags(&mut self) {
        if !std::mem::replace(&mut self.exact_flags, true) {
            self.drop_all_blocks();
        }
    }

    /// Whether execution is to stop where it is.
    pub fn is_target(&self) -> bool {
        self.is_trace_full()
            || match self.target {
                Target::Place { thread, at } => thread as usize == self.running && self.position >= at,
                Target::Time(time) => self.time_at(self.position) >= time,
                Target::End => false,
            }
    }

    /// Whether execution is to stop where it is for a condition that was met.
    pub fn stops(&self) -> bool {
        self.watching.stop == Some((self.running, self.position))
    }

    /// Does everything that is due at the position, and arms `left` for what is due next.
    fn advance(&mut self) -> Result<(), Trouble> {
        loop {
            let position = self.position;
            if self.stops() && self.has_met() {
                return Err(Stop::Hit.into());
            }
            let is_target = self.is_target();
            let until = self.until;
            let context = self.context();
            if context.over || position >= until {
                self.change_thread()?;
            } else if let Some(next) = context.due(position) {
                let skips = matches!(
                    next.record,
                    Record::Syscall { .. } | Record::Special { .. } | Record::Signal { step: SignalStep::Return, .. }
                );
                if skips && is_target {
                    context.next = Some(next);
                    return Err(Stop::Reached.into());
                }
                if let Err(stop) = self.meet_record(&next) {
                    self.context().next = Some(next);
                    return Err(stop);
                }
                self.apply(&next)?;
            } else if context.next.is_none() {
                if let Some(damage) = context.damage.clone() {
                    return Err(divergence(damage));
                }
                (context.over, self.cut_off) = (true, true);
            } else if self.apply_patches()? {
                // And whatever else is due.
            } else if is_target {
                return Err(Stop::Reached.into());
            } else if !self.take_code_early()? {
                self.look()?;
                self.settle_conflict();
                self.arm();
                return Ok(());
            }
        }
    }

    /// Whether it is time to look whether the other side wants execution to stop.
    pub fn looks(&self) -> bool {
        self.time_at(self.position).wrapping_sub(self.looked) >= LOOK_EVERY
    }

    /// Looks now and then.
    fn look(&mut self) -> Result<(), Trouble> {
        if !self.looks() {
            return Ok(());
        }
        self.looked = self.time_at(self.position);
        if fork::is_called() { self.take_interrupt() } else { Ok(()) }
    }

    /// Instructions that all threads have executed of the package, when the running one has executed so many.
    pub fn time_at(&self, at: u64) -> u64 {
        at.wrapping_add(self.time_base)
    }

    /// The running thread's instruction count is this, without an instruction being executed.
    pub fn move_to(&mut self, at: u64) {
        let time = self.time_at(self.position);
        self.position = at;
        self.time_base = time.wrapping_sub(at);
    }

    /// Takes the code that comes behind the next instruction, if that has nothing to do with it; see [`Context::code_behind`].
    fn take_code_early(&mut self) -> Result<bool, Trouble> {
        let position = self.position;
        let Some(seq) = self.context().code_behind(position) else { return Ok(false) };
        if !self.leaves_code_alone(seq) {
            return Ok(false);
        }
        self.take_code(seq)?;
        self.context().read();
        Ok(true)
    }

    /// Whether the next instruction has nothing to do with the code pages that the running thread or memory take with `seq`.
    fn leaves_code_alone(&mut self, seq: CodeSeq) -> bool {
        let pc = self.machine.pc;
        let Some(instruction) = Instruction::decode(pc, &self.code) else { return false };
        self.machine.complete();
        let pages = self.code.between(self.code.seq().min(self.memory_seq), seq);
        instruction.leaves_alone(pc, pages, &self.machine)
    }

    /// Goes over to the thread of the next segment.
    fn change_thread(&mut self) -> Result<(), Trouble> {
        self.note_waiting();
        let position = self.position;
        self.context().at = position;
        loop {
            let Some(next) = self.segments.next() else {
                return Err(if self.cut_off { Stop::CutOff } else { Stop::End }.into());
            };
            if let Some(compare) = &mut self.compare {
                compare.count_segment();
            }
            if self.contexts[next.thread].over {
                continue;
            }
            self.until = next.until;
            if next.thread != self.running {
                self.context().regs = self.machine.registers();
                self.run(next.thread)?;
                self.meet_thread()?;
            }
            return Ok(());
        }
    }

    /// The thread with this index runs from here on.
    fn run(&mut self, thread: usize) -> Result<(), Trouble> {
        self.running = thread;
        let Context { at, code_seq, .. } = self.contexts[thread];
        self.move_to(at);
        self.point_at_picture();
        self.machine.load(&self.contexts[thread].regs);
        // It may begin with code that nobody else has executed in this order up to now.
        self.show_picture(code_seq)?;
        self.fit_blocks(code_seq);
        Ok(())
    }

    /// Sets `left` to the distance to the next thing that will be due.
    pub fn arm(&mut self) {
        if let Some(compare) = &mut self.compare {
            compare.take_changes();
            compare.pictures.runs(self.running);
        }
        let position = self.position;
        let next = self.context().wanted_at(position);
        let target = match self.target {
            Target::Place { thread, at } if thread as usize == self.running => at,
            Target::Time(time) => position.saturating_add(time.saturating_sub(self.time_at(position))),
            _ => u64::MAX,
        };
        let stop = self.watching.stop.filter(|(thread, _)| *thread == self.running).map_or(u64::MAX, |(_, at)| at);
        self.apply_shades();
        let shade = self.shades_due();
        self.begin_turn();
        let turn = self.next_turn();
        let patch = self.patches.as_ref().map_or(u64::MAX, |patches| patches.next_at(self.running));
        self.due = next
            .min(patch)
            .min(target)
            .min(stop)
            .min(shade)
            .min(turn)
            .min(self.until)
            .min(position.saturating_add(MAX_LEFT));
        self.place_trace();
        self.stub.shared().left = self.due - position;
    }

    /// The instruction at `pc` is run: says so if it is watched, and has other bytes than the last time.
    pub fn watch_run(&mut self, pc: u64, position: u64) {
        if let Some(ran) = watch::run(&mut self.memory, &self.code, pc, position) {
            self.send(&Response::Ran(ran));
        }
    }

    /// The position of an instruction that is so far ahead of what the counter says.
    pub fn position_ahead(&self, ahead: i64) -> u64 {
        self.due.wrapping_sub(self.stub.shared().left).wrapping_add_signed(ahead)
    }

    /// Takes note of a signal that replay cannot resolve. [`Self::machine`] holds the recorded program's registers, and
    /// execution is at `position`. Returns the address at which execution
    /// must go on: the gate. `None`: it can go on.
    pub fn trap(&mut self, what: Option<String>, position: u64) -> u64 {
        self.position = position;
        self.note_stored_before(position);
        self.errand = what.map_or(Errand::GoOn, Errand::Trap);
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
            self.machine.complete();
            fs_base::leave();
            self.machine.redirect(tag);
        }
        if !self.forget_blocks() {
            // DynamoRIO does it on the way there.
            self.errand = Errand::Forget;
            self.machine.complete();
            fs_base::leave();
            self.machine.redirect(self.gate);
        }
        self.stub.set_segment_base(Base::Fs, self.machine.fs_base);
        self.stub.set_segment_base(Base::Gs, self.machine.gs_base);
        let shared = self.stub.shared();
        shared.lent = self.machine.get(COUNTER.0.into());
        shared.x87_status = fpu::status().into();
        self.machine.complete();
        self.machine.correct(COUNTER.0.into(), shared.left);
        fs_base::leave();
        self.machine.redirect(self.machine.pc)
    }
}
