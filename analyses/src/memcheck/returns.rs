//! Return addresses and canaries that were overwritten: which store did it first, by going back to it.

use super::check::Checker;
use super::found::{By, Error, Kind};
use super::frames::Astray;
use bugnet_format::regs::RSP;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::cursor::{Cursor, Direction, LastWrite, Place, Seek};
use bugnet_replay::disassembly::next;
use bugnet_replay::memory::Memory;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Most of them that are looked into; each takes a search backwards.
const MOST: usize = 20;
/// Stores to a slot that are looked at: a text that runs over into it writes each byte.
const STORES: usize = 16;
/// Instructions before a call of [`super::code::CANARY`] among which the comparison is.
const COMPARISON: usize = 6;
/// Bytes behind a store in which a `ret` is made to go where the store says, as a way to jump (retpolines).
const TRAMPOLINE: u64 = 32;
/// Where a thread keeps what canaries are compared with, from its FS base on (x86-64 psABI's `tcbhead_t::stack_guard`).
const CANARY_OFFSET: u64 = 0x28;

impl Checker<'_, '_> {
    /// Finds out which stores have led returns astray, and makes errors of them. `ends`: the process may end before a `ret`.
    ///
    /// # Errors
    /// The replay process is lost.
    pub fn judge_returns(&mut self, ends: bool) -> Result<()> {
        let mut astray = std::mem::take(&mut self.astray);
        astray.extend(self.frames.last_returns());
        if ends {
            astray.extend(self.last_instruction()?);
        }
        let canaries: Vec<usize> =
            (0..self.errors.all.len()).filter(|at| self.errors.all[*at].kind == Kind::Canary).collect();
        astray.retain(|astray| !self.is_unwinder(astray.ip));
        for astray in astray.into_iter().take(MOST) {
            if let Some(mut error) = self.judge(&astray)? {
                error.from = Some(astray.slot);
                self.errors.all.push(error);
            }
        }
        for at in canaries.into_iter().take(MOST) {
            let place = self.errors.all[at].place;
            if let Some(mut error) = self.canary(place)? {
                error.times = self.errors.all[at].times;
                self.errors.all[at] = error;
            }
        }
        Ok(())
    }

    /// Where the process ends at a `ret`: what it finds may be no address at all, so that it was not executed.
    fn last_instruction(&mut self) -> Result<Option<Astray>> {
        self.cursor.seek(Seek::End)?;
        let (place, ip, slot) = (self.cursor.place(), self.cursor.regs().rip, self.cursor.regs().gpr[RSP]);
        let is_return = next(self.cursor)?.is_some_and(|instruction| instruction.mnemonic() == Mnemonic::Ret);
        let expected = self.frames.expected(place.tid, slot).filter(|_| is_return);
        Ok(expected.map(|expected| Astray { place, ip, slot, expected }))
    }

    /// Exceptions go where their handlers are by changing the address of a return.
    fn is_unwinder(&mut self, ip: u64) -> bool {
        let in_library = self.known.module_at(ip).is_some_and(|module| module.path.contains("/libgcc_s.so"));
        let symbol = self.symbols.lookup(Addr(ip)).symbol;
        in_library || symbol.is_some_and(|symbol| symbol.name.starts_with("_Unwind_"))
    }

    fn judge(&mut self, astray: &Astray) -> Result<Option<Error>> {
        self.cursor.seek(Seek::Place(astray.place))?;
        let found = self.cursor.read_memory(Addr(astray.slot), 8)?.try_into().ok().map(u64::from_le_bytes);
        if found.is_none_or(|found| found == astray.expected) {
            return Ok(None);
        }
        let right = astray.expected.to_le_bytes();
        let Some((place, instruction)) = first_store(self.cursor, astray.slot, &right)? else { return Ok(None) };
        let is_jump = matches!(instruction.mnemonic(), Mnemonic::Call | Mnemonic::Push)
            || astray.ip.wrapping_sub(instruction.ip()) < TRAMPOLINE;
        Ok((!is_jump).then(|| self.overwritten(Kind::Return, place, instruction, astray.slot)))
    }

    /// The error of the store that the cursor is before.
    fn overwritten(&mut self, kind: Kind, place: Place, instruction: Instruction, slot: u64) -> Error {
        let mut error = Error::new(kind, By::Instruction, place, instruction.ip(), super::frames::StackId::default());
        (error.addr, error.len, error.instruction) = (slot, 8, Some(instruction));
        error
    }

    /// What has overwritten the canary which the function found changed that called libc here.
    fn canary(&mut self, place: Place) -> Result<Option<Error>> {
        self.cursor.seek(Seek::Place(place))?;
        for _ in 0..COMPARISON {
            self.cursor.step(Direction::Backward)?;
            let Some(instruction) = next(self.cursor)? else { return Ok(None) };
            let base = instruction.memory_base();
            let is_of_frame =
                matches!(base, Register::RSP | Register::RBP) && instruction.memory_index() == Register::None;
            let loads = instruction.op0_kind() == OpKind::Register && instruction.mnemonic() != Mnemonic::Lea;
            if !is_of_frame || !loads || instruction.memory_size().size() != 8 {
                continue;
            }
            let number = if base == Register::RSP { 4 } else { 5 };
            let slot = self.cursor.regs().gpr[number].wrapping_add(instruction.memory_displacement64());
            let canary = self.cursor.regs().fs_base.wrapping_add(CANARY_OFFSET);
            let right = self.cursor.read_memory(Addr(canary), 8)?;
            if right == self.cursor.read_memory(Addr(slot), 8)? {
                return Ok(None);
            }
            let found = first_store(self.cursor, slot, &right)?;
            return Ok(found.map(|(place, instruction)| {
                let mut error = self.overwritten(Kind::Canary, place, instruction, slot);
                error.from = Some(slot);
                error
            }));
        }
        Ok(None)
    }
}

/// What first wrote something else to 8 bytes than what was right there, of the last stores before where the cursor is.
fn first_store(cursor: &mut Cursor<'_>, slot: u64, right: &[u8]) -> Result<Option<(Place, Instruction)>> {
    let mut first = None;
    for _ in 0..STORES {
        let LastWrite::Instruction { place, .. } = cursor.last_write(Addr(slot), 8)? else { break };
        let Some(instruction) = next(cursor)? else { break };
        first = Some((place, instruction));
        if cursor.read_memory(Addr(slot), 8)? == right {
            break;
        }
    }
    Ok(first)
}
