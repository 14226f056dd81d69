//! What is done about an access of memory that threads share.

use super::{At, Watch};
use crate::races::atomicity::Local;
use crate::races::clock::Epoch;
use crate::races::first::words;
use crate::races::found::Pair;
use crate::races::order::{Meaning, Object};
use crate::races::place::{Doing, Operation};
use crate::races::shadow::{Access, Made, granules};
use crate::races::tenure::{Actor, Standing};
use bugnet_events::code::is_atomic;
use bugnet_events::stretch::{Access as Touched, Ran, Untold};
use std::ops::Range;

impl Watch {
    /// What instructions of a block access of lines that threads share. The first of the instructions is at this count of its thread, and the
    /// block's first site is this.
    pub(super) fn accesses(
        &mut self,
        thread: usize,
        (count, first_site): (u64, u32),
        ran: &Ran<'_>,
        instructions: Range<usize>,
        doing: Doing,
    ) {
        let has_atomic = ran.block.has_atomic;
        let made = |number: usize| {
            let epoch = Epoch::new(thread, count + (number - instructions.start) as u64);
            Made { epoch, site: first_site + number as u32 }
        };
        let at = |number: usize| {
            let instruction = &ran.block.instructions[number].instruction;
            (At { thread, made: made(number), ip: instruction.ip() }, has_atomic && is_atomic(instruction))
        };
        if self.told && doing.is_passed_over() {
            let told = ran.told().filter(|(number, _)| instructions.contains(number));
            told.for_each(|(_, access)| self.passes_over(&access));
        } else if self.told {
            let mut actor = self.actor(thread);
            for (number, access) in ran.told().filter(|(number, _)| instructions.contains(number)) {
                let actor_then = self.then(&actor, &access);
                if (!has_atomic || !at(number).1) && self.repeats(&actor_then, made(number), &access, doing) {
                    self.found.looked.accesses += 1;
                } else if self.shared.lines.has(access.addr, access.len) {
                    let (at, is_atomic) = at(number);
                    self.accessed(at, &access, doing, is_atomic);
                    actor = self.actor(thread);
                }
            }
        } else if ran.is_odd() {
            for number in instructions.clone() {
                let (at, is_atomic) = at(number);
                for access in ran.accesses(number) {
                    if self.shared.lines.has(access.addr, access.len) {
                        self.accessed(at, &access, doing, is_atomic);
                    }
                }
            }
        } else {
            for (number, access) in ran.plain_accesses() {
                if self.shared.lines.has(access.addr, access.len) && instructions.contains(&number) {
                    let (at, is_atomic) = at(number);
                    self.accessed(at, &access, doing, is_atomic);
                }
            }
        }
    }

    /// What instructions access of such lines, of whose blocks nothing else is told. The first one is at this count of its thread.
    pub(super) fn accesses_untold(&mut self, (thread, count): (usize, u64), untold: &Untold<'_>, doing: Doing) {
        if doing.is_passed_over() {
            untold.told().for_each(|(_, _, access)| self.passes_over(&access));
            return;
        }
        let mut actor = self.actor(thread);
        for (number, block, access) in untold.told() {
            let made = Made { epoch: Epoch::new(thread, count + number), site: self.code.of(block).first_site };
            let instruction = &block.instructions[0].instruction;
            let is_atomic = block.has_atomic && is_atomic(instruction);
            let actor_then = self.then(&actor, &access);
            if !is_atomic && self.repeats(&actor_then, made, &access, doing) {
                self.found.looked.accesses += 1;
            } else if self.shared.lines.has(access.addr, access.len) {
                let at = At { thread, made, ip: instruction.ip() };
                self.accessed(at, &access, doing, is_atomic);
                actor = self.actor(thread);
            }
        }
    }

    /// An access of the C library's own.
    fn passes_over(&mut self, access: &Touched) {
        if self.shared.lines.has(access.addr, access.len) {
            self.found.looked.accesses += 1;
            self.found.looked.internal += 1;
        }
    }

    fn actor(&mut self, thread: usize) -> Actor {
        let version = self.order.thread(thread).version;
        let state = &self.threads[thread];
        Actor::new((thread, state.whereabouts.in_handler()), version, state.calls.innermost(), state.waits)
    }

    /// Who makes an access: of a call that is over, no other one is known, nor will there be one.
    #[inline]
    fn then(&mut self, actor: &Actor, access: &Touched) -> Actor {
        if !access.is_over {
            return *actor;
        }
        self.calls += 1;
        actor.in_call(self.calls)
    }

    /// Whether an access that is not atomic by its instruction belongs to a tenure: it is one that is looked at then, as those were before it.
    #[inline]
    fn repeats(&mut self, actor: &Actor, made: Made, access: &Touched, doing: Doing) -> bool {
        (doing == Doing::ForCaller || doing == Doing::Own && self.code.is_plain(made.site))
            && self.tenures.repeat((access.addr, access.len), actor, made, access.writes)
    }

    fn accessed(&mut self, at: At, access: &Touched, doing: Doing, is_atomic: bool) {
        self.found.looked.accesses += 1;
        if access.reads && doing == Doing::Own && self.births.may_clear(access.addr) {
            for ended in self.births.ended_by(access.addr, &self.times) {
                self.order.outlive(at.thread, ended, self.times.end(ended));
            }
        }
        if doing.is_passed_over() {
            self.found.looked.internal += 1;
            return;
        }
        let words_of = &mut self.shared.words;
        if is_atomic
            || words_of.of_others.has(access.addr, access.len)
            || !doing.is_looked_at() && words_of.of_libc.has(access.addr, access.len)
        {
            self.found.looked.atomic += 1;
            self.synchronised(at, access, is_atomic);
        } else if doing == Doing::Own && self.code.atomic(at.made.site).is_in_function {
            self.found.looked.atomic += 1;
            self.order_by(access);
            self.synchronised(at, access, false);
        } else if let Some(operation) = self.operation(at, access, doing) {
            self.found.looked.atomic += 1;
            if operation == Operation::Store {
                // In C, such a variable may be read without naming an operation.
                self.order_by(access);
            }
            self.synchronised(at, access, false);
        } else if doing.is_looked_at() {
            self.look(at, access);
        } else {
            self.found.looked.internal += 1;
        }
    }

    /// From here on, what is accessed there orders threads.
    fn order_by(&mut self, access: &Touched) {
        self.shared.words.of_others.touch(access.addr, access.len);
        self.end_tenures(access.addr & !3, access.len.saturating_add(6));
    }

    /// Tenures of memory end.
    pub(super) fn end_tenures(&mut self, addr: u64, len: u64) {
        self.tenures.tell((addr, len), &mut self.shadow, &mut self.pairs);
        granules(addr, len).for_each(|(start, _)| self.tenures.end(start));
    }

    /// The operation of C on an atomic variable that an access is.
    fn operation(&mut self, at: At, access: &Touched, doing: Doing) -> Option<Operation> {
        let operation = if doing == Doing::Own { self.code.atomic(at.made.site).operation? } else { return None };
        operation.is(access.reads, access.writes).then_some(operation)
    }

    /// An atomic access, or another one of a word that others access atomically: reads acquire, writes release, on x86-64.
    fn synchronised(&mut self, at: At, access: &Touched, is_atomic: bool) {
        let (thread, count) = (at.thread, at.made.epoch.count());
        for word in words(access.addr, access.len).take(4) {
            if access.reads || is_atomic {
                self.order.take(thread, Object::Word(word), Meaning::Program);
            }
            if access.writes && !is_atomic && !access.reads {
                self.order.replace(thread, count, Object::Word(word), Meaning::Program);
            } else if access.writes {
                self.order.give(thread, count, Object::Word(word), Meaning::Program);
            }
        }
    }

    /// Whether earlier accesses are ordered before this one. Returns what [`Shadow::access`] does.
    ///
    /// [`Shadow::access`]: crate::races::shadow::Shadow::access
    pub(super) fn race(&mut self, at: At, access: &Touched) -> [bool; 2] {
        let clock = &self.order.thread(at.thread).all;
        let (addr, len, writes) = (access.addr, access.len, access.writes);
        let free = self.shadow.access(&Access { addr, len, writes, made: at.made, clock }, &mut self.unordered);
        for one in self.unordered.drain(..) {
            let key = ([self.code.sites[one.earlier.site as usize], at.ip], [one.wrote, writes]);
            let via = self.order.may_be_behind(one.earlier.epoch, at.thread);
            let (made, writes, turn) = ([one.earlier, at.made], [one.wrote, writes], self.turn.1);
            let pair = Pair { made, writes, bytes: one.bytes, times: 1, turn, via };
            self.found.race(key, pair);
        }
        free
    }

    fn look(&mut self, at: At, access: &Touched) {
        let (thread, made, writes) = (at.thread, at.made, access.writes);
        if self.told {
            self.tenures.tell((access.addr, access.len), &mut self.shadow, &mut self.pairs);
        }
        let free = self.race(at, access);
        let actor = self.actor(thread);
        let state = &self.threads[thread];
        // That of a call which is over got its number last.
        let call = if access.is_over { self.calls } else { state.calls.innermost() };
        let doing_it = actor.in_call(call);
        let (actor, waits) = ((thread, state.whereabouts.in_handler()), state.waits);
        let local = Local { actor, call, made, ip: at.ip, writes, waits };
        let Self { order, code, pairs, tenures, births, told, .. } = self;
        let clocks = order.thread(thread);
        let is_wanted = |earlier: Epoch| clocks.is_wanted(thread, earlier);
        let ip = |site: u32| code.sites[site as usize];
        let torn = pairs.access((access.addr, access.len), local, is_wanted, ip, |bytes, (is_one, is_alone)| {
            // Where the kernel clears a word when a thread ends, each access says something.
            if *told && !births.may_clear(bytes.0) {
                tenures.begin(bytes, &doing_it, (made, writes), Standing { free, is_one, is_alone });
            }
        });
        if let Some(torn) = torn {
            let key = torn.made.map(|made| self.code.sites[made.site as usize]);
            self.found.torn(key, torn);
        }
    }
}
