//! Undefined values that are used: which of these uses are reported.

use super::check::Checker;
use super::found::{By, Error, Kind};
use super::frames::StackId;
use super::heap::Block;
use super::texts;
use super::undefined::{Undefined, Use, Used};
use bugnet_events::calls::Entered;
use bugnet_events::stretch::Ran;
use bugnet_events::walk::Did;
use bugnet_heap::Relation;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Place, Seek};
use bugnet_replay::disassembly::next;
use bugnet_replay::syscall::Made;
use iced_x86::Mnemonic;

impl Checker<'_, '_> {
    /// An instruction that replay does not execute, and undefined values.
    pub fn skipped(&mut self, place: Place, ran: &Ran<'_>, did: &Did) {
        let Some(undefined) = &mut self.undefined else { return };
        match did {
            Did::Call { number, args, result, changed } => {
                let made = Made { number: *number, args: *args, result: *result };
                undefined.called(place, ran, (made, *changed), &self.heap, &mut self.symbols);
            }
            Did::Special { changed, .. } => undefined.set(place, ran, *changed),
            Did::Return => undefined.returned(place.tid),
        }
        if undefined.has_found() {
            self.used_undefined();
        }
    }

    /// Whether the status with which the process exits is undefined.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn judge_exit(&mut self) -> Result<()> {
        if self.undefined.is_none() {
            return Ok(());
        }
        self.cursor.seek(Seek::End)?;
        let (place, number) = (self.cursor.place(), self.cursor.regs().gpr[0].cast_signed());
        let is_exit = [libc::SYS_exit, libc::SYS_exit_group].contains(&number);
        let last = next(self.cursor)?.filter(|last| is_exit && last.mnemonic() == Mnemonic::Syscall);
        if let (Some(undefined), Some(last)) = (&mut self.undefined, last) {
            undefined.exits(place, last);
            self.used_undefined();
        }
        Ok(())
    }

    /// A function for texts is over: what it has needed is to be defined.
    pub fn text_left(&mut self, call: &Entered, index: usize, returned: Option<(Option<u64>, Place)>) {
        let Some(doing) = self.doing.get_mut(&call.place.tid) else { return };
        let Some(at) = doing.texts.iter().position(|(slot, _)| *slot == call.slot) else { return };
        let used = doing.texts.drain(at..).find_map(|(_, used)| used);
        let (Some(undefined), Some((result, place))) = (&mut self.undefined, returned) else { return };
        undefined.define_result(call.place.tid);
        let Some((used, stack)) = used else { return };
        let mut read = |addr: u64, len: u64| undefined.bytes(place, addr, len);
        match texts::ranges(texts::needs(index), &call.args, result, &mut read) {
            Some(ranges) => {
                if let Some(used) = undefined.needed(&ranges, used, &self.heap) {
                    self.report_undefined(used, stack);
                }
            }
            None => undefined.count_unknown(),
        }
    }

    /// Undefined values were used. What allocators do with them is their own affair.
    pub fn used_undefined(&mut self) {
        let found = self.undefined.as_mut().map(Undefined::found).unwrap_or_default();
        for used in found {
            let is_own = self.is_allocators(used.place.tid, used.ip) || self.known.is_loader(used.ip);
            if is_own || self.is_inside(used.place.tid) {
                continue;
            }
            let stack = self.frames.stack(used.place.tid);
            let inside = self.doing.get_mut(&used.place.tid).and_then(|doing| doing.texts.last_mut());
            match inside {
                Some((_, first)) => drop(first.get_or_insert((used, stack))),
                None => self.report_undefined(used, stack),
            }
        }
    }

    fn report_undefined(&mut self, used: Used, stack: StackId) {
        let Some(undefined) = self.undefined.as_mut() else { return };
        if !undefined.is_first(&used) {
            return;
        }
        let kind = match used.what {
            Use::Branch => Kind::UndefinedBranch,
            Use::Jump => Kind::UndefinedJump,
            Use::Address => Kind::UndefinedAddress,
            Use::Argument(_) | Use::Taken(_) => Kind::UndefinedArgument,
        };
        let mut error = Error::new(kind, By::Instruction, used.place, used.ip, stack);
        let origin = undefined.origin(used.origin).cloned();
        if let Some(loaded) = origin.as_ref().and_then(|origin| origin.loaded.as_ref()) {
            (error.addr, error.wrong_at) = (loaded.addr, loaded.addr);
            let relation = |block: Block| {
                let distance = loaded.addr - block.start;
                (block, Relation::Inside(distance))
            };
            error.block = loaded.block.clone().map(relation);
        }
        error.instruction = Some(used.instruction);
        error.undefined = Some((used.what, origin));
        self.errors.add(error, &self.frames);
    }
}
