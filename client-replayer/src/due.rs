//! What is done on a call from the code cache without DynamoRIO: records of data, and finding the way to them.
//!
//! Nearly all records are `LOAD`s or `MEMORY`, so this is where replay's time between blocks goes. Whatever else is due, or does
//! not fit, is left to the clean call.

use crate::block;
use crate::engine::{Engine, Trouble, Wanted};
use crate::instruction::Instruction;
use crate::light;
use crate::site::{Built, Site, Span, SpanId, SplitId};
use bugnet_format::record::Record;

impl Engine {
    /// Called from the code cache, with the registers saved; returns where in it, or in the clean call, to go on.
    pub fn called(&mut self) -> u64 {
        let (site, resume) = (self.stub.shared().site, self.stub.shared().resume);
        match self.sites.get(site) {
            Site::Crossing(span) => {
                let count = self.sites.span(span).count;
                let left = self.stub.shared().left.wrapping_add(u64::from(count));
                self.stub.shared().left = left;
                self.enter_split(span, left as u32)
            }
            Site::Entry(split) => {
                self.sites.split(split).entry = Some(resume);
                resume
            }
            Site::Due(split) => {
                let rest = self.sites.split(split).rest;
                self.unknown_flags = self.sites.span(rest).unknown_flags;
                self.position = self.due;
                self.stub.shared().left = 0;
                self.note_stored();
                if self.apply_data(split) {
                    self.run_on(rest, resume)
                } else {
                    let pc = self.sites.span(rest).start;
                    self.clean_call(Wanted::Event(pc))
                }
            }
            Site::Access(id) if self.tells_shaded() => {
                self.tell_access(id);
                resume
            }
            Site::Access(id) if self.shades.is_some() => {
                self.look_at(id);
                if self.traces_closely(id) {
                    self.trace_access(id);
                }
                resume
            }
            Site::Access(id) if self.marks_lines() => {
                self.note_lines(id);
                resume
            }
            Site::Access(id) => {
                self.glance_at_access(id);
                let Self { sites, memory, .. } = self;
                if let Some(touched) = &mut memory.touched {
                    let access = sites.access(id);
                    match &access.plain {
                        Some(plain) => touched.know(plain.address(light::saved()), plain.bytes, plain.writes),
                        None => touched.accessed(&access.instruction, light::saved()),
                    }
                }
                self.trace_access(id);
                if self.compare.is_none() && !self.watching.has_ranges() {
                    return resume;
                }
                self.confirm();
                let met = match self.note_access(id) {
                    Ok(()) if self.has_conflict() => Err(self.again_at(id)),
                    Ok(()) if self.watching.has_ranges() => self.meet_access(id),
                    noted => noted,
                };
                let pc = self.sites.access(id).pc;
                self.go_on_unless(met, pc, resume)
            }
            Site::Allocator(pc) => {
                self.allocator_begins(pc);
                resume
            }
            Site::Leaves => {
                self.allocator_returns();
                resume
            }
            Site::Address(id) => {
                let (met, (pc, _)) = (self.meet_address(id), self.sites.address(id));
                self.go_on_unless(met, pc, resume)
            }
            // There was no code when the block was built, and now there is: behind the call, the block goes on to it.
            Site::Instead(pc) if self.stub.shared().left != 0 && self.executes(pc) => resume,
            Site::Instead(pc) => {
                // At a block's end, all flags are the program's.
                self.unknown_flags = 0;
                self.clean_call(Wanted::Event(pc))
            }
        }
    }

    /// Whether there is a block at this address that begins with an instruction which is executed.
    fn executes(&self, pc: u64) -> bool {
        match self.sites.built(pc) {
            Some(Built::Plain(span)) => self.sites.span(span).count > 0,
            _ => false,
        }
    }

    /// Goes on at `resume`, or does what is to be done instead before the instruction at `pc`.
    fn go_on_unless(&mut self, met: Result<(), (u64, Trouble)>, pc: u64, resume: u64) -> u64 {
        match met {
            Ok(()) => resume,
            Err(trouble) => {
                self.trouble = Some(trouble);
                self.clean_call(Wanted::Event(pc))
            }
        }
    }

    fn clean_call(&mut self, wanted: Wanted) -> u64 {
        self.wanted = wanted;
        self.stub.heavy()
    }

    /// Goes on at `resume`, behind which `span` is executed, if nothing is due in it; else in its split copy.
    fn run_on(&mut self, span: SpanId, resume: u64) -> u64 {
        let left = self.stub.shared().left;
        match left.checked_sub(u64::from(self.sites.span(span).count)) {
            Some(behind) => {
                self.stub.shared().left = behind;
                resume
            }
            None => self.enter_split(span, left as u32),
        }
    }

    /// Goes on in the copy of `span` that calls the client behind `before` instructions.
    fn enter_split(&mut self, span: SpanId, before: u32) -> u64 {
        if block::splits_gone() {
            self.sites.forget_entries();
        }
        let split = match self.sites.find_split(span, before) {
            Some(split) => split,
            None => match self.new_split(span, before) {
                Some(split) => split,
                None => crate::state::die("there is no memory left for copies of code"),
            },
        };
        let split = self.sites.split(split);
        match (split.entry, split.tag) {
            (Some(entry), _) => entry,
            (None, tag) => self.clean_call(Wanted::Split(tag)),
        }
    }

    fn new_split(&mut self, span: SpanId, before: u32) -> Option<SplitId> {
        let tag = self.tags.take()?;
        let Span { start, .. } = *self.sites.span(span);
        let mut pc = start;
        for _ in 0..before {
            pc += Instruction::decode(pc, &self.code)?.len();
        }
        let split = self.sites.add_split(span, before, tag, pc);
        let instruction = Instruction::decode(pc, &self.code);
        let description = self.sites.split(split);
        description.plain_read = instruction.as_ref().and_then(Instruction::plain_read);
        description.instruction = instruction;
        Some(split)
    }

    /// Applies the `LOAD` and `MEMORY` records of the position, and arms `left`; `false` if there is anything else to do,
    /// all of which is left as it is.
    fn apply_data(&mut self, split: SplitId) -> bool {
        let position = self.position;
        if position >= self.until {
            return false;
        }
        while let Some(next) = self.context().due(position) {
            let written = match &next.record {
                Record::Load { ordinal, offset, value, .. } => {
                    let (regs, len) = (light::saved(), value.len() as u64);
                    let split = self.sites.split(split);
                    let addr = match split.plain_read {
                        Some((place, bytes)) if *ordinal == 0 && *offset == 0 && len <= bytes => {
                            Some(place.address(regs))
                        }
                        _ => split.instruction.as_ref().and_then(|i| i.read_address(*ordinal, *offset, len, regs)),
                    };
                    addr.is_some_and(|addr| self.load(addr, value).is_ok())
                }
                Record::Memory { addr, bytes, .. } => self.put(addr.0, bytes).is_ok(),
                _ => false,
            };
            let context = self.context();
            if !written {
                context.next = Some(next);
                return false;
            }
            context.read();
        }
        let context = self.context();
        let other = context.next.is_none() || context.code_behind(position).is_some();
        let other = other || self.patches.as_ref().is_some_and(|patches| patches.next_at(self.running) <= position);
        if other || self.awaits_places() || self.has_conflict() || self.is_target() || self.stops() || self.looks() {
            return false;
        }
        self.arm();
        true
    }
}
