//! The way back, from what was asked about to where it came from.

use super::back::{Pages, State};
use super::branches::Branches;
use super::elsewhere::{Changes, Comparison, Run};
use super::frames::Frames;
use super::given::Given;
use super::graph::{ASKED, Dependence, Graph, Origin, Source, Wanting};
use super::live::{Live, Seen};
use super::loads::Loads;
use super::signals::Aside;
use super::wants::{Sets, Want};
use super::{Criterion, Ended, Options, Share, Slice};
use crate::touched::Touched;
use bugnet_events::atoms::Atoms;
use bugnet_events::stretch::{Access, Ran};
use bugnet_events::walk::{Did, Visit, Visitor, walk_back_with};
use bugnet_format::types::{IntervalNo, Position, ProcessId, Tid};
use bugnet_replay::code_text::CodeText;
use bugnet_replay::cursor::{Cursor, Place};
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::symbols::{Symbolizer, constant_memory};
use bugnet_replay::syscall::Made;
use bugnet_replay::tools::Tools;
use bugnet_replay::{ReplayError, Result};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

/// Lines of 64 bytes.
type Lines = Touched<6>;

const WALKED: usize = 0;
const SLICE: usize = 1;

/// What goes back.
pub struct Walker<'a> {
    pub tools: &'a Tools,
    pub log: &'a Log,
    pub pid: ProcessId,
    options: &'a Options,
    pub state: State,
    /// What was wanted behind signal handlers.
    pub asides: Vec<Aside>,
    /// To look at memory, once that is needed.
    pub cursor: Option<Cursor<'a>>,
    pub symbols: Symbolizer,
    pub doubtful: Vec<(Place, u64)>,
    pub doubts: u64,
    /// Bytes that all accessed, and those of the slice, if they are counted.
    touched: Option<[Touched<0>; 2]>,
    /// By interval, executions that are in the slice, and the lines that they accessed, if they are counted.
    shares: Option<BTreeMap<(Tid, IntervalNo), (u64, Lines)>>,
    /// Whether each instruction counts, wanted or not.
    looks_at_all: bool,
    walked: u64,
    /// What something else has changed, as far as one knows.
    changes: &'a Changes,
    /// Of each thread, the records of first loads to which one has not come.
    loads: Vec<(Tid, Loads)>,
    /// What of stores is to be compared with what was seen later.
    comparison: Comparison,
    /// Changes that were found on the way.
    found: Changes,
    run: Option<Run>,
    /// Behind the last record of a first load in the present run's interval to which one has not come.
    behind_load: u64,
}

/// A walker on its way, and how that ended.
struct Walking<'w, 'a> {
    walker: &'w mut Walker<'a>,
    result: Result<Ended>,
}

impl Visitor for Walking<'_, '_> {
    #[inline]
    fn passes(&mut self, tid: Tid, ran: &Ran<'_>) -> bool {
        self.walker.passes(tid, ran)
    }

    fn visit(&mut self, visit: Visit<'_>) -> ControlFlow<()> {
        let ended = match self.walker.visit(visit) {
            Ok(ControlFlow::Continue(())) => return ControlFlow::Continue(()),
            Ok(ControlFlow::Break(why)) => Ok(why),
            Err(error) => Err(error),
        };
        self.result = ended;
        ControlFlow::Break(())
    }
}

impl<'a> Walker<'a> {
    /// At what is asked about.
    pub fn new(
        tools: &'a Tools,
        log: &'a Log,
        pid: ProcessId,
        criterion: &Criterion,
        options: &'a Options,
        changes: &'a Changes,
    ) -> Result<Self> {
        let bases = Atoms::RSP | Atoms::FS_BASE | Atoms::GS_BASE;
        let ignored = if options.addresses || options.control { bases } else { bases | Atoms::MODES };
        let frames = |code| Frames::new(Branches::new(code), options.control);
        let has_frames = options.control || criterion.call.is_some() || criterion.here.is_some();
        let frames = has_frames.then(|| CodeText::new(log, pid).map(frames)).transpose()?;
        let state = State {
            live: Live::default(),
            sets: Sets::default(),
            graph: Graph::new(options.keep),
            ignored: ignored - criterion.atoms,
            with_addresses: options.addresses,
            constant: if options.tables { constant_memory(log, pid)? } else { Vec::new() },
            given: options.given.then(|| Given::new(log, pid)).transpose()?,
            depth: options.depth,
            frames,
            pages: Pages::default(),
            stored: Vec::new(),
        };
        let symbols = Symbolizer::new(log, pid)?;
        let (asides, doubtful) = (Vec::new(), Vec::new());
        let touched = options.touched.then(Default::default);
        Ok(Self {
            tools,
            log,
            pid,
            options,
            state,
            asides,
            cursor: None,
            symbols,
            doubtful,
            doubts: 0,
            walked: 0,
            looks_at_all: touched.is_some() || options.until.is_some(),
            touched,
            shares: options.shares.then(BTreeMap::new),
            changes,
            loads: Vec::new(),
            comparison: Comparison::default(),
            found: Changes::default(),
            run: None,
            behind_load: 0,
        })
    }

    /// All the way. Also, what is to be compared to know that nothing else has changed memory, and where it is known that something has.
    pub fn all(mut self, criterion: &Criterion) -> Result<(Slice, Comparison, Changes)> {
        self.state.want(criterion.place, criterion.atoms, ASKED, Dependence::Data, 0);
        for (addr, len) in &criterion.memory {
            self.state.want_memory(*addr, *len, ASKED, 0);
        }
        if let Some(frames) = &mut self.state.frames {
            let wanting = Wanting { node: ASKED, by: Dependence::Control };
            let want = Want { who: self.state.sets.one(wanting.packed()), depth: 1 };
            if let Some(returns) = criterion.call {
                frames.seek(criterion.place.tid, returns, want);
            }
            if let Some(here) = criterion.here {
                frames.wait(criterion.place.tid, here, want, &mut self.state.sets);
            }
        }
        let (tools, log, pid) = (self.tools, self.log, self.pid);
        let mut walking = Walking { walker: &mut self, result: Ok(Ended::Start) };
        let walked = walk_back_with(tools, log, pid, criterion.place, &mut walking);
        let ended = match walked.and(walking.result) {
            // What was found by then is told.
            Err(ReplayError::Over(why)) => Ended::Over(why),
            ended => ended?,
        };
        if let Ended::Over(_) = ended {
            tools.work.resume();
        }
        self.rest();
        let Self { mut state, doubtful, doubts, walked, touched, shares, comparison, found, .. } = self;
        state.graph.finish(&state.sets);
        let touched = touched.map(|all| super::Touched { walked: all[WALKED].count(), slice: all[SLICE].count() });
        let share = |(instructions, lines): (u64, Lines)| Share { instructions, lines: lines.count() };
        let shares = shares.into_iter().flatten().map(|(interval, counted)| (interval, share(counted))).collect();
        let (graph, pages) = (state.graph, state.pages.all);
        let slice = Slice { graph, walked, ended, doubtful, doubts, touched, shares, pages };
        Ok((slice, comparison, found))
    }

    /// Whether there is nothing to do for a whole block. Most that was executed is such blocks.
    #[inline]
    fn passes(&mut self, tid: Tid, ran: &Ran<'_>) -> bool {
        let State { live, frames, .. } = &mut self.state;
        let (start, count) = (ran.position, ran.block.instructions.len() as u64);
        let Some(run) = self.run.as_mut().filter(|run| run.tid == tid && run.start.0 == start.0 + count) else {
            return false;
        };
        let is_needed = !self.asides.is_empty() || self.looks_at_all || self.behind_load > start.0;
        if is_needed
            || live.registers(tid).atoms.meets(ran.block.writes())
            || ran.stores_any(|addr, len| live.may_want(addr, len))
            || frames.as_mut().is_some_and(|frames| !frames.passes(tid, ran.block))
        {
            return false;
        }
        run.start = start;
        self.walked += count;
        true
    }

    fn visit(&mut self, visit: Visit<'_>) -> Result<ControlFlow<Ended>> {
        match visit {
            Visit::Ran { mut place, ran, mut instructions } => {
                let before = self.too_early(place, instructions.len());
                instructions.start += before;
                place.position.0 += before as u64;
                self.walked += instructions.len() as u64;
                self.touch(ran, instructions.clone());
                self.goes_on(place, instructions.len())?;
                let has_changed = self.ran(place, ran, instructions);
                if before > 0 {
                    return Ok(ControlFlow::Break(Ended::Until));
                }
                if !has_changed {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            Visit::Skipped { place, ran, did } => {
                if self.too_early(place, 1) > 0 {
                    return Ok(ControlFlow::Break(Ended::Until));
                }
                self.walked += 1;
                self.goes_on(place, 1)?;
                self.began(place.tid, ran, 0);
                match did {
                    Did::Call { number, args, result, changed } => {
                        let made = Made { number: *number, args: *args, result: *result };
                        self.lent(place.tid, &made);
                        self.called(place, made, *changed)?;
                    }
                    Did::Special { changed, .. } => self.special(place, ran, *changed),
                    Did::Return => self.returned(place),
                }
            }
            Visit::Delivered { place, signal, frame } => self.delivered(place, signal, frame),
            Visit::Resumed { place } => self.resumed(place),
        }
        let frames = self.state.frames.as_ref();
        let is_done = self.state.live.is_empty() && self.asides.is_empty() && frames.is_none_or(Frames::is_empty);
        if !is_done && self.options.most.is_some_and(|most| self.state.graph.count >= most) {
            return Ok(ControlFlow::Break(Ended::Enough));
        }
        let goes_on = self.touched.is_some() && self.options.until.is_some();
        Ok(if is_done && !goes_on { ControlFlow::Break(Ended::Found) } else { ControlFlow::Continue(()) })
    }

    /// How many of the instructions from a place on come before the one at which the search is to end.
    fn too_early(&self, place: Place, count: usize) -> usize {
        let Some(until) = self.options.until.filter(|until| until.tid == place.tid) else { return 0 };
        match place.interval.cmp(&until.interval) {
            Ordering::Less => count,
            Ordering::Equal => until.position.0.saturating_sub(place.position.0).min(count as u64) as usize,
            Ordering::Greater => 0,
        }
    }

    /// Instructions that were executed; whether any is in the slice.
    fn ran(&mut self, place: Place, ran: &Ran<'_>, instructions: Range<usize>) -> bool {
        let seeks_frame = !self.asides.is_empty() && self.seeks_frame(place.tid);
        let State { live, frames, .. } = &mut self.state;
        let controls = frames.is_some() && ran.block.instructions[instructions.clone()].iter().any(Frames::concerns);
        if !controls
            && !live.registers(place.tid).atoms.meets(ran.block.writes())
            && !ran.stores_any(|addr, len| live.may_want(addr, len))
            && !seeks_frame
        {
            self.began(place.tid, ran, instructions.start);
            self.see(place, ran, instructions);
            return false;
        }
        let first = instructions.start;
        let mut has_changed = false;
        for number in instructions.rev() {
            let mut place = place;
            place.position.0 += (number - first) as u64;
            has_changed |= self.executed(place, ran, number, controls, seeks_frame);
            self.see(place, ran, number..number + 1);
        }
        self.began(place.tid, ran, first);
        has_changed
    }

    /// One instruction of a block, in which there may be some that control or that lead to a handler's frame; whether it is in the slice.
    fn executed(&mut self, place: Place, ran: &Ran<'_>, number: usize, controls: bool, seeks_frame: bool) -> bool {
        let decoded = &ran.block.instructions[number];
        let live = &mut self.state.live;
        let concerns = (controls && Frames::concerns(decoded))
            || seeks_frame
            || live.registers(place.tid).atoms.meets(decoded.writes())
            || decoded.stores() && ran.accesses(number).any(|access| live.may_want(access.addr, access.len));
        if !concerns {
            return false;
        }
        let accesses: SmallVec<[Access; 4]> = ran.accesses(number).collect();
        if seeks_frame {
            self.look_for_frame(place.tid, decoded, &accesses);
        }
        if self.is_left_alone(place.tid) {
            let stores = accesses.iter().filter(|access| access.writes);
            let ranges: Vec<(u64, u64)> = stores.map(|access| (access.addr, access.len)).collect();
            self.set_from_outside(place, Origin::Thread { tid: place.tid }, Atoms::NONE, &ranges);
            return true;
        }
        let is_in_slice = self.state.instruction(place, decoded, &accesses);
        if let Some(run) = self.run {
            self.state.stored.drain(..).for_each(|stored| self.comparison.add(stored, run));
        }
        if let Some(touched) = self.touched.as_mut().filter(|_| is_in_slice) {
            accesses.iter().for_each(|access| touched[SLICE].touch(access.addr, access.len));
        }
        if let Some(shares) = self.shares.as_mut().filter(|_| is_in_slice) {
            let (count, lines) = shares.entry((place.tid, place.interval)).or_default();
            *count += 1;
            accesses.iter().for_each(|access| lines.touch(access.addr, access.len));
        }
        is_in_slice
    }

    /// So many instructions of a thread from a place on are visited.
    fn goes_on(&mut self, place: Place, count: usize) -> Result<()> {
        let Place { tid, interval, position: start } = place;
        let end = Position(start.0 + count as u64);
        match &mut self.run {
            Some(run) if (run.tid, run.interval, run.start) == (tid, interval, end) => {
                run.start = start;
                return Ok(());
            }
            run => *run = Some(Run { tid, interval, end, start }),
        }
        let at = self.loads.iter().position(|(known, _)| *known == tid);
        let at = match at {
            Some(at) if self.loads[at].1.interval == interval => at,
            at => {
                let id = IntervalId { thread: ThreadId { pid: self.pid, tid }, interval };
                let mut loads = Loads::of(interval, &self.log.interval(id)?);
                loads.skip_to(end);
                at.inspect(|at| drop(self.loads.remove(*at)));
                self.loads.push((tid, loads));
                self.loads.len() - 1
            }
        };
        self.behind_load = self.loads[at].1.behind_last();
        Ok(())
    }

    /// What these instructions, of which the first is at a place, found in wanted memory by first loads.
    fn see(&mut self, first: Place, ran: &Ran<'_>, instructions: Range<usize>) {
        if self.behind_load <= first.position.0 {
            return;
        }
        let Some((_, loads)) = self.loads.iter_mut().find(|(tid, _)| *tid == first.tid) else { return };
        let mut outside: SmallVec<[(Place, u64, u64, Origin); 0]> = SmallVec::new();
        while let Some(position) = loads.last().filter(|position| *position >= first.position) {
            let place = Place { position, ..first };
            let number = instructions.start + (position.0 - first.position.0) as usize;
            let accesses: SmallVec<[Access; 4]> = ran.accesses(number).collect();
            loads.take(&accesses, &mut |addr, bytes| {
                let len = bytes.len() as u64;
                let wanted = self.state.live.wanted(addr, len);
                if wanted.is_empty() {
                    return;
                }
                let changed = self.changes.at(place, addr, len).into_iter();
                outside.extend(changed.map(|(addr, len, origin)| (place, addr, len, origin)));
                for (at, _) in wanted {
                    let value = bytes[(at - addr) as usize];
                    let later = self.state.live.see(at, Seen { value, place });
                    if let Some(later) = later.filter(|later| later.value != value) {
                        self.found.add(at, later.place, place);
                    }
                }
            });
        }
        self.behind_load = loads.behind_last();
        for (place, addr, len, origin) in outside {
            self.set_from_outside(place, origin, Atoms::NONE, &[(addr, len)]);
        }
    }

    /// Counts what instructions accessed, if that is wanted.
    fn touch(&mut self, ran: &Ran<'_>, instructions: Range<usize>) {
        let Some(touched) = &mut self.touched else { return };
        let accesses = instructions.flat_map(|number| ran.accesses(number));
        accesses.for_each(|access| touched[WALKED].touch(access.addr, access.len));
    }

    /// One has come to an instruction of a block; if it is the first, it is known what followed the block before.
    fn began(&mut self, tid: Tid, ran: &Ran<'_>, first: usize) {
        if let Some(frames) = self.state.frames.as_mut().filter(|_| first == 0) {
            frames.began(tid, ran.block.traced.pc);
        }
    }

    fn is_left_alone(&self, tid: Tid) -> bool {
        self.options.thread.is_some_and(|thread| thread != tid)
    }

    /// An instruction that replay does not execute, which set these registers.
    fn special(&mut self, place: Place, ran: &Ran<'_>, changed: Atoms) {
        let Some(decoded) = ran.block.instructions.first() else { return };
        let name = format!("{:?}", decoded.instruction.mnemonic()).to_lowercase();
        let stores: Vec<(u64, u64)> = ran.stores().collect();
        self.set_from_outside(place, Origin::Special { name }, changed | decoded.effects().writes(), &stores);
    }

    /// What is still wanted was there before.
    fn rest(&mut self) {
        for aside in std::mem::take(&mut self.asides) {
            aside.give_back(&mut self.state);
        }
        let (registers, memory) = (self.state.live.all_registers(), self.state.live.all_memory());
        let mut of_threads: Vec<(Tid, Atoms, Vec<Want>)> = Vec::new();
        for (tid, number, want) in registers {
            let known = of_threads.iter().position(|(known, ..)| *known == tid);
            let known = known.unwrap_or_else(|| {
                of_threads.push((tid, Atoms::NONE, Vec::new()));
                of_threads.len() - 1
            });
            of_threads[known].1 |= Atoms::numbered(number);
            of_threads[known].2.push(want);
        }
        for (tid, atoms, wants) in of_threads {
            let source = Source { origin: Origin::Before, atoms, tid: Some(tid), bytes: Vec::new() };
            self.source(source, None, &wants);
        }
        let mut ranges: Vec<(u64, u64, Vec<Want>)> = Vec::new();
        for (at, want) in memory {
            self.state.pages.add(at);
            match ranges.last_mut() {
                // What is wanted by the same ones, side by side, is one thing.
                Some((addr, len, wants)) if *addr + *len == at && wants[0].who == want.who => {
                    *len += 1;
                    wants.push(want);
                }
                _ => ranges.push((at, 1, vec![want])),
            }
        }
        for (addr, len, wants) in ranges {
            let source = Source { origin: Origin::Before, atoms: Atoms::NONE, tid: None, bytes: vec![(addr, len)] };
            self.source(source, None, &wants);
        }
    }
}
