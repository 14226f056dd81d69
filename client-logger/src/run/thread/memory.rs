//! What a thread's instructions do to memory: compared with the picture, mirrored in it, logged where it differs.

use super::Thread;
use crate::base::memory::read_memory;
use crate::emitted::site::{INLINE, Kind, Site, Target};
use crate::picture::shared_code::SHARED;
use crate::run::parts::readable::for_readable;
use bugnet_dr::access::{Access, RegisterValues, RepString, StringKind};
use bugnet_dr::ir::Gpr;
use bugnet_format::picture::{Picture, check_load};
use bugnet_format::record::{Record, RegisterUpdates};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::Addr;
use std::ops::Range;

/// So many first loads in a row are a streak.
const STREAK: u32 = 8;

/// From this position on, crowds of first loads are looked for: shorter intervals than that see most of their memory
/// once only.
const SETTLED: u64 = 1 << 14;

/// Bytes that are logged ahead of a streak.
const LOOK_AHEAD: u64 = 512;

/// Bytes that are compared at a time.
const WORD: usize = 8;

/// In memory that is logged ahead, so many equal bytes between differing ones are cheaper than another record.
const GAP: usize = 8;

/// Bytes that are logged together, `start..end` of the range that they lie in.
struct Piece {
    start: usize,
    end: usize,
    bytes: [u8; 512],
}

impl Default for Piece {
    fn default() -> Self {
        Self { start: 0, end: 0, bytes: [0; 512] }
    }
}

impl Piece {
    fn push(&mut self, bytes: &[u8]) {
        let at = self.end - self.start;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }
}

/// Copies up to [`INLINE`] bytes; the usual sizes without a call.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len {
            1 => to.write(from.read()),
            2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

impl Thread {
    /// Compares memory with the picture and logs what differs, as the read `ordinal` of the instruction at `position`.
    pub(in crate::run) fn check_range(&mut self, position: u64, ordinal: u8, address: u64, len: u64) {
        let mut shadow = self.picture.shadow;
        let mut buffer = std::mem::take(&mut self.loads.buffer);
        for_readable(&mut buffer, address, len, |at, now| {
            check_load(&mut shadow, Addr(address + at), now, |offset, bytes| {
                self.load(position, ordinal, at + offset as u64, bytes);
            });
        });
        self.loads.buffer = buffer;
    }

    /// The picture takes what is in memory, which the instruction has just stored.
    pub(in crate::run) fn mirror(&mut self, address: u64, len: u64) {
        let mut shadow = self.picture.shadow;
        for_readable(&mut self.loads.buffer, address, len, |at, now| shadow.write(Addr(address + at), now));
    }

    /// Memory that the kernel or an opaque instruction has written or is about to read: makes the picture fit, with
    /// `MEMORY` records at `position`.
    pub fn supply(&mut self, position: u64, address: u64, len: u64) {
        let mut shadow = self.picture.shadow;
        let mut buffer = std::mem::take(&mut self.loads.buffer);
        for_readable(&mut buffer, address, len, |at, now| {
            check_load(&mut shadow, Addr(address + at), now, |offset, bytes| {
                let addr = Addr(address + at + offset as u64);
                self.record(position, |delta| Record::Memory { delta, addr, bytes });
            });
        });
        self.loads.buffer = buffer;
    }

    /// As [`Self::supply`], for memory in a page that the program has just read.
    fn supply_near(&mut self, position: u64, range: Range<u64>) {
        let shadow = self.picture.shadow.of(range.start);
        let len = (range.end - range.start) as usize;
        if !self.picture.shadow.reserve(shadow) || !self.picture.shadow.reserve(shadow + len as u64 - 1) {
            return;
        }
        let (memory, shadow) = (range.start as *const u8, shadow as *mut u8);
        let mut piece = Piece::default();
        let mut at = 0;
        while at < len {
            let bytes = if len - at >= WORD { WORD } else { 1 };
            let (mut now, mut known) = ([0; WORD], [0; WORD]);
            // SAFETY: a page that the program has just read cannot be unreadable, and the page of the shadow is reserved;
            // nobody refers to either. Others may write to the memory meanwhile, which is read once.
            unsafe {
                copy(memory.add(at), now.as_mut_ptr(), bytes);
                copy(shadow.add(at), known.as_mut_ptr(), bytes);
            }
            if now != known {
                let full = at + bytes - piece.start > piece.bytes.len();
                if piece.start == piece.end || at - piece.end > GAP || full {
                    self.supply_piece(position, range.start, &piece);
                    (piece.start, piece.end) = (at, at);
                }
                // What is equal between two words that differ goes along.
                while piece.end < at {
                    // SAFETY: as above; the picture has what the log says.
                    let equal = unsafe { shadow.add(piece.end).read() };
                    piece.push(&[equal]);
                }
                piece.push(&now[..bytes]);
                // SAFETY: as above.
                unsafe { copy(now.as_ptr(), shadow.add(at), bytes) };
            }
            at += bytes;
        }
        self.supply_piece(position, range.start, &piece);
    }

    fn supply_piece(&mut self, position: u64, start: u64, piece: &Piece) {
        let (addr, bytes) = (Addr(start + piece.start as u64), &piece.bytes[..piece.end - piece.start]);
        if !bytes.is_empty() {
            self.record(position, |delta| Record::Memory { delta, addr, bytes });
        }
    }

    /// The address of a read that an inline check has found to differ.
    pub(in crate::run) fn address(&self, target: Target) -> u64 {
        match target {
            Target::Parts(parts) => parts.address(self),
            Target::ShadowIn(reg) => self.picture.shadow.address(self.gpr(reg)),
        }
    }

    pub(in crate::run) fn differs(&mut self, position: u64, site: &Site) {
        let Kind::Differs { ordinal, bytes, target, loaded } = site.kind else { return };
        let address = self.address(target);
        let shadow = self.picture.shadow.of(address);
        let len = bytes as usize;
        let mut value = [0; INLINE];
        match loaded {
            Some(reg) => value[..8].copy_from_slice(&self.gpr(reg).to_le_bytes()),
            // SAFETY: the inline code has just read these bytes.
            None => unsafe { copy(address as *const u8, value.as_mut_ptr(), len) },
        }
        self.load(position, ordinal, 0, &value[..len]);
        // SAFETY: the inline code has just read these bytes of the shadow, which is writable and the thread's own.
        unsafe { copy(value.as_ptr(), shadow as *mut u8, len) };
        if self.ownership.is_some()
            && let Some(around) = self.loads.populated.note(address)
        {
            self.picture.shadow.make(around);
        }
        self.look_ahead(position, address, bytes.into());
        if position >= SETTLED
            && let Some(around) = self.loads.density.note(address)
        {
            // With threads, nothing is read that the thread does not have hold of.
            let around = self.held_around(address, around);
            // Not what the instruction itself gets: somebody else may have written there since.
            if !around.contains(&address) {
                return;
            }
            let (before, behind) = (around.start..address, address + len as u64..around.end);
            for range in [before, behind].into_iter().filter(|range| !range.is_empty()) {
                self.supply_near(position, range);
            }
        }
    }

    /// After a number of first loads that each began where the one before ended, what follows in the page is probably
    /// going to be loaded, too: it is logged at once.
    pub(in crate::run) fn look_ahead(&mut self, position: u64, address: u64, len: u64) {
        self.loads.streak = if address == self.loads.expected { self.loads.streak + 1 } else { 0 };
        self.loads.expected = address + len;
        if self.loads.streak < STREAK {
            return;
        }
        let ahead = LOOK_AHEAD.min(Addr::PAGE - self.loads.expected % Addr::PAGE);
        // With threads, nothing is read that the thread does not have hold of.
        let held = self.held_around(self.loads.expected, self.loads.expected..self.loads.expected + ahead);
        if held.is_empty() {
            return;
        }
        self.loads.expected = held.end;
        if held.start.is_multiple_of(Addr::PAGE) {
            // Another page, of which nothing is known.
            self.supply(position, held.start, held.end - held.start);
        } else {
            self.supply_near(position, held);
        }
    }

    pub(in crate::run) fn reads(&mut self, position: u64, accesses: &[Access]) {
        for (ordinal, access) in accesses.iter().enumerate() {
            let Some(address) = access.address(self) else { continue };
            if access.masked {
                let mut shadow = self.picture.shadow;
                // What the mask leaves out may not be mapped: element by element.
                for at in (0..access.bytes).step_by(4) {
                    let mut element = [0; 4];
                    if read_memory(address + u64::from(at), &mut element) {
                        check_load(&mut shadow, Addr(address + u64::from(at)), &element, |offset, bytes| {
                            self.load(position, ordinal as u8, u64::from(at) + offset as u64, bytes);
                        });
                    }
                }
            } else {
                self.check_range(position, ordinal as u8, address, access.bytes.into());
            }
        }
    }

    pub(in crate::run) fn write_addresses(&mut self, accesses: &[Access]) {
        let addresses = accesses.iter().filter_map(|a| Some((a.address(self)?, a.bytes))).collect();
        self.begun.pending = addresses;
    }

    pub(in crate::run) fn writes(&mut self, position: u64, accesses: &[Access]) {
        let masked = accesses.iter().any(|a| a.masked);
        for (address, len) in std::mem::take(&mut self.begun.pending) {
            let step = if masked { 4 } else { len };
            for at in (0..len).step_by(step.max(1) as usize) {
                self.mirror_stored(position, address + u64::from(at), (len - at).min(step).into());
            }
        }
    }

    /// The range that a `rep` string instruction touches from `start` on, with `count` elements: lowest address, bytes.
    pub(in crate::run) fn repeat_range(&self, op: RepString, start: u64, count: u64) -> (u64, u64) {
        let bytes = count.saturating_mul(op.element.into());
        let lowest = if self.begun.repeat.3 && count > 0 { start - (bytes - u64::from(op.element)) } else { start };
        (lowest, bytes)
    }

    /// Takes the registers that say what a `rep` string instruction accesses.
    pub(in crate::run) fn begin_repeat(&mut self) {
        let down = self.callouts.saved.rflags & 0x400 != 0;
        self.begun.repeat = (self.gpr(Gpr::RCX), self.gpr(Gpr::RSI), self.gpr(Gpr::RDI), down);
    }

    /// Whether it goes from higher to lower addresses.
    pub(in crate::run) fn repeats_down(&self) -> bool {
        self.begun.repeat.3
    }

    pub(in crate::run) fn repeat_before(&mut self, position: u64, op: RepString) {
        self.begin_repeat();
        self.begun.repeat_position = position;
        // How far cmps and scas get is known afterwards only; they change no memory, so that can wait.
        if op.kind == StringKind::Move || op.kind == StringKind::Load {
            let (address, len) = self.repeat_range(op, self.begun.repeat.1, self.begun.repeat.0);
            if op.kind == StringKind::Move && self.copy_shared(position, op, address, len) {
                return;
            }
            self.check_range(position, 0, address, len);
        }
    }

    /// The recording ends at `position` with these registers: where that is in the middle of a `rep` string instruction,
    /// replay, which does not begin it, is told how far it came.
    pub fn interrupt_repeat(&mut self, position: u64, regs: &RegisterFile) {
        if self.begun.repeat_position == position {
            // RCX, RSI, RDI.
            let values = [1, 6, 7].map(|reg: u8| (reg, regs.gpr[usize::from(reg)])).to_vec();
            self.record(position, |delta| Record::Registers { delta, updates: RegisterUpdates { values } });
        }
    }

    pub(in crate::run) fn repeat_after(&mut self, position: u64, op: RepString) {
        self.begun.repeat_position = u64::MAX;
        let (count, rsi, rdi, _) = self.begun.repeat;
        let done = count.wrapping_sub(self.gpr(Gpr::RCX));
        match op.kind {
            StringKind::Move | StringKind::Store => {
                let (address, len) = self.repeat_range(op, rdi, done);
                let (source, _) = self.repeat_range(op, rsi, done);
                let copies = op.kind == StringKind::Move && source.abs_diff(address) >= len;
                if copies && SHARED.get().overlap(address, len) {
                    self.mirror_copy(source, address, len);
                } else {
                    self.mirror_stored(position, address, len);
                }
            }
            StringKind::Load => {}
            StringKind::Compare | StringKind::Scan => {
                for (ordinal, reg) in op.kind.reads().iter().enumerate() {
                    let start = if *reg == Gpr::RSI { rsi } else { rdi };
                    let (address, len) = self.repeat_range(op, start, done);
                    self.check_range(position, ordinal as u8, address, len);
                }
            }
        }
    }
}
