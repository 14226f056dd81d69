//! System calls backwards.

use super::graph::{Origin, Source};
use super::walker::Walker;
use super::wants::Want;
use bugnet_events::atoms::Atoms;
use bugnet_format::types::Tid;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::memory::Memory;
use bugnet_replay::syscall::Made;

/// Places of calls of which nobody knows what they wrote that are kept.
const DOUBTFUL: usize = 100;

impl Walker<'_> {
    /// A system call that set these registers.
    pub fn called(&mut self, place: Place, made: Made, changed: Atoms) -> Result<()> {
        let origin = Origin::Call { number: made.number, args: made.args, result: made.result };
        if matches!(i64::try_from(made.number), Ok(libc::SYS_clone | libc::SYS_clone3)) {
            self.born(place, made, &origin);
        }
        self.set_from_outside(place, origin.clone(), changed, &[]);
        let [addr, len, protection, ..] = made.args;
        let opens = made.number.cast_signed() == libc::SYS_mprotect && protection & libc::PROT_WRITE as u64 != 0;
        let constant = &self.state.constant;
        if opens && constant.iter().any(|range| range.start < addr.saturating_add(len) && addr < range.end) {
            self.doubt(place, made.number);
        }
        if self.state.live.needs_no_memory() {
            return Ok(());
        }
        if made.number.cast_signed() == libc::SYS_mremap && made.result >= 0 {
            self.moved(made.args[0], made.args[1].min(made.args[2]), made.result.cast_unsigned());
        }
        if made.number.cast_signed() == libc::SYS_mremap {
            return Ok(());
        }
        let written = if made.needs_memory() {
            let cursor = match &mut self.cursor {
                Some(cursor) => cursor,
                none => none.insert(Cursor::open(self.tools, self.log, self.pid)?),
            };
            cursor.seek(Seek::Place(place))?;
            made.written(Some(cursor as &mut dyn Memory), &mut self.symbols)
        } else {
            made.written(None, &mut self.symbols)
        };
        match written {
            Some(ranges) => self.set_from_outside(place, origin, Atoms::NONE, &ranges),
            None => self.doubt(place, made.number),
        }
        Ok(())
    }

    fn doubt(&mut self, place: Place, number: u64) {
        self.doubts += 1;
        if self.doubtful.len() < DOUBTFUL {
            self.doubtful.push((place, number));
        }
    }

    /// A thread began with the registers of the one that made the call, but for some.
    fn born(&mut self, place: Place, made: Made, origin: &Origin) {
        let Some(tid) = u32::try_from(made.result).ok().filter(|tid| *tid > 0).map(Tid) else { return };
        // The call's result, its stack, and its thread-local storage.
        let own = Atoms::gpr(0) | Atoms::gpr(1) | Atoms::gpr(11) | Atoms::RSP | Atoms::FS_BASE;
        let child = Place { tid, ..place };
        self.set_from_outside_of(child, place, origin.clone(), own, &[]);
        let taken: Vec<(usize, Want)> = self.state.live.registers(tid).wanted(!Atoms::NONE).collect();
        for (number, want) in taken {
            let atom = Atoms::numbered(number);
            self.state.live.registers(tid).remove(atom);
            self.state.live.registers(place.tid).add(atom, want, &mut self.state.sets);
        }
        if let Some(frames) = &mut self.state.frames {
            let waited = frames.born(tid, &mut self.state.sets);
            let source = Source { origin: origin.clone(), atoms: Atoms::NONE, tid: None, bytes: Vec::new() };
            self.source(source, Some(place), waited.as_slice());
        }
    }

    /// Pages have moved.
    fn moved(&mut self, from: u64, len: u64, to: u64) {
        let wanted = self.state.live.wanted(to, len);
        for (at, _) in &wanted {
            self.state.live.remove(*at);
        }
        for (at, want) in wanted {
            self.state.live.add(from.wrapping_add(at - to), 1, want, &mut self.state.sets);
        }
    }

    /// Something outside has set these registers and bytes.
    pub fn set_from_outside(&mut self, place: Place, origin: Origin, atoms: Atoms, ranges: &[(u64, u64)]) {
        self.set_from_outside_of(place, place, origin, atoms, ranges);
    }

    fn set_from_outside_of(&mut self, of: Place, place: Place, origin: Origin, atoms: Atoms, ranges: &[(u64, u64)]) {
        let registers = self.state.live.registers(of.tid);
        let mut wants: Vec<Want> = registers.wanted(atoms).map(|(_, want)| want).collect();
        let wanted = registers.atoms & atoms;
        registers.remove(wanted);
        let mut bytes: Vec<(u64, u64)> = Vec::new();
        for (addr, len) in ranges {
            for (at, want) in self.state.live.wanted(*addr, *len) {
                self.state.live.remove(at);
                wants.push(want);
                match bytes.last_mut() {
                    Some((first, len)) if *first + *len == at => *len += 1,
                    _ => bytes.push((at, 1)),
                }
            }
        }
        let tid = (!wanted.is_empty()).then_some(of.tid);
        self.source(Source { origin, atoms: wanted, tid, bytes }, Some(place), &wants);
    }

    /// A source of what these want; nothing if there are none.
    pub fn source(&mut self, source: Source, place: Option<Place>, wants: &[Want]) {
        let Some(depth) = wants.iter().map(|want| want.depth).min() else { return };
        let state = &mut self.state;
        let node = state.graph.source(source, place, depth);
        let who = wants.iter().map(|want| want.who).reduce(|one, other| state.sets.union(one, other));
        if let Some(who) = who {
            state.graph.yields(node, who, &state.sets);
        }
    }
}
