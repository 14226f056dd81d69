//! What happens at callouts within a block.

use super::{Thread, segment_base, set_segment_base};
use crate::code::read_memory;
use crate::process;
use crate::site::{Kind, Site};
use crate::special;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::sys;
use bugnet_format::record::{EndReason, Record, RegisterUpdates, SpecialKind, register_number};
use bugnet_format::regs::{COMPARED_FLAGS, GPR_UNKNOWN};
use bugnet_format::types::Addr;
use std::ffi::c_void;

/// Changes the protection of a page of the program's.
fn protect(page: u64, protection: i32) {
    // SAFETY: a page of the program's, which is given its own protection back before anything else happens to it.
    if unsafe { libc::mprotect(page as *mut c_void, Addr::PAGE as usize, protection) } != 0 {
        let why = std::io::Error::last_os_error();
        crate::die(&format!(
            "the protection of the page at {page:#x}, where the program jumped to, cannot be changed: {why}"
        ));
    }
}

impl Thread {
    fn emulate(&mut self, kind: SpecialKind, reg: Option<(Gpr, u32)>) {
        special::emulate(kind, reg, &mut self.saved, process::get().options.cpu);
    }

    fn special(&mut self, position: u64, kind: SpecialKind, reg: Option<(Gpr, u32)>, written: u16) {
        let before = (self.saved.gpr, self.saved.rflags);
        self.emulate(kind, reg);
        self.results(position, kind, before, special::writes_flags(kind), written);
    }

    /// Instead of `wrfsbase` or `wrgsbase`.
    fn change_segment_base(&mut self, site: &Site, segment: Segment, reg: Gpr, bytes: u32) {
        let value = if bytes == 4 { self.gpr(reg) & 0xffff_ffff } else { self.gpr(reg) };
        let position = self.counted().wrapping_sub(site.back);
        if !matches!(value >> 47, 0 | 0x1_ffff) || !set_segment_base(segment, value) {
            if self.recording() {
                let why = format!("the base of a segment at {value:#x}, which is no address, set at {:#x}", site.pc);
                let regs = self.registers(site.pc, 0);
                self.stop(position, EndReason::Unsupported { why }, regs);
            }
            return;
        }
        if self.recording() {
            let number = match segment {
                Segment::Fs => register_number::FS_BASE,
                Segment::Gs => register_number::GS_BASE,
            };
            let (kind, updates) = (SpecialKind::SegmentBase, RegisterUpdates { values: vec![(number, value)] });
            self.record(position, |delta| Record::Special { delta, kind, updates });
        }
        self.segments[segment as usize] = value;
    }

    /// Logs what an instruction has done to registers and flags since `before`, and the registers that are `written`.
    fn results(&mut self, position: u64, kind: SpecialKind, before: ([u64; 16], u64), flags: bool, written: u16) {
        let mut updates = RegisterUpdates::default();
        for (number, (new, old)) in self.saved.gpr.iter().zip(before.0).enumerate() {
            if *new != old || written & Gpr(number as u8).bit() != 0 {
                updates.values.push((number as u8, *new));
            }
        }
        if flags || (self.saved.rflags ^ before.1) & COMPARED_FLAGS != 0 {
            let flags = self.saved.rflags & COMPARED_FLAGS | 0x202;
            updates.values.push((bugnet_format::record::register_number::RFLAGS, flags));
        }
        self.record(position, |delta| Record::Special { delta, kind, updates });
    }

    /// The program has jumped to memory that is not executable. The instruction behind the callout, which reads at `pc`,
    /// faults as the jump would.
    fn forbid(&mut self, pc: u64) {
        let page = Addr(pc).page().0;
        let protection = process::get().protections.of(pc);
        if protection & libc::PROT_EXEC != 0 {
            // It has become executable since the block was built.
            // SAFETY: may be asked for anywhere.
            unsafe { sys::dr_delay_flush_region(page as *mut u8, Addr::PAGE as usize, 0, None) };
            self.leave.go(&self.saved, pc);
        }
        self.forbidden = Some((page, protection));
        protect(page, libc::PROT_NONE);
    }

    /// Drops what was translated from code that has changed, and goes on at its start.
    ///
    /// The range is flushed when DynamoRIO's dispatcher next enters the code cache, on the way there, and other threads leave
    /// what they execute of it at a block's end. A flush at once would move them to their instruction, in the middle of a
    /// block that they have counted as a whole.
    fn translate_anew(&mut self, pc: u64, code: &[u8]) {
        let mut now = vec![0; code.len()];
        if read_memory(pc, &mut now) && now == code {
            return;
        }
        drop(now);
        // SAFETY: may be asked for anywhere; the block that made the callout is not returned to.
        unsafe { sys::dr_delay_flush_region(pc as sys::app_pc, code.len(), 0, None) };
        self.leave.go(&self.saved, pc);
    }

    /// Gives the page of [`Self::forbid`] back, once it has faulted.
    pub fn allow(&mut self) {
        if let Some((page, protection)) = self.forbidden.take() {
            protect(page, protection);
        }
    }

    pub(super) fn serve(&mut self, site: &Site) {
        if let Kind::NotExecutable = site.kind {
            self.forbid(site.pc);
            return;
        }
        match &site.kind {
            Kind::CodeChanged(code) => {
                self.translate_anew(site.pc, code);
                return;
            }
            Kind::Exchange(access, routine) => {
                self.exchange(self.counted().wrapping_sub(site.back), access, *routine);
                return;
            }
            Kind::SharedAddress(access) => {
                self.shared_address(access);
                return;
            }
            Kind::Own(accesses, held) => {
                self.make_room_for(site, *held, accesses);
                self.own(self.counted().wrapping_sub(site.back), accesses);
                return;
            }
            Kind::OwnRepeat(op, while_different, held) => {
                self.make_room_for_repeat(site, *held, *op, *while_different);
                self.own_repeat(self.counted().wrapping_sub(site.back), *op, *while_different);
                return;
            }
            _ => {}
        }
        if let Kind::CodeBehind { by_fs, saved } = site.kind {
            self.stopped_at_start(site, by_fs, saved);
            return;
        }
        if let Kind::SegmentBase(segment, reg, bytes) = site.kind {
            let before = (self.saved.gpr, self.saved.rflags);
            special::set(&mut self.saved, reg, bytes, segment_base(segment));
            if self.recording() {
                let position = self.counted() - site.back;
                self.results(position, SpecialKind::SegmentBase, before, false, reg.bit());
            }
            return;
        }
        if let Kind::Bases = site.kind {
            set_segment_base(Segment::Fs, self.segments[0]);
            set_segment_base(Segment::Gs, self.segments[1]);
            return;
        }
        if let Kind::HideComponents = site.kind {
            special::hide_components(&mut self.saved, process::get().options.cpu);
            return;
        }
        if let Kind::Emulate { what, next } = site.kind {
            self.emulate_instruction(site, what, next);
            return;
        }
        if let Kind::SetSegmentBase(segment, reg, bytes) = site.kind {
            self.change_segment_base(site, segment, reg, bytes);
            return;
        }
        if let Kind::Special(kind, reg, written) = &site.kind {
            let position = self.counted().wrapping_sub(site.back);
            if !self.recording() {
                self.emulate(*kind, *reg);
                return;
            }
            self.special(position, *kind, *reg, *written);
            return;
        }
        if !self.recording() {
            // Nothing is logged, but the instruction may read the shadow in place of the memory.
            if let Kind::Differs { bytes, target, .. } = site.kind {
                self.mirror(self.address(target), bytes.into());
            }
            return;
        }
        let position = self.counted() - site.back;
        match &site.kind {
            Kind::Reads(accesses) => self.reads(position, accesses),
            Kind::WriteAddresses(accesses) => self.write_addresses(accesses),
            Kind::Writes(accesses) => self.writes(position, accesses),
            Kind::SharedStored => self.shared_stored(position),
            Kind::RepeatBefore(op) => self.repeat_before(position, *op),
            Kind::RepeatAfter(op) => self.repeat_after(position, *op),
            Kind::ResultBefore => self.before = (self.saved.gpr, self.saved.rflags),
            Kind::ResultAfter(kind, written) => self.results(position, *kind, self.before, true, *written),
            Kind::OpaqueAfter(kind) => {
                let updates = RegisterUpdates::default();
                self.record(position, |delta| Record::Special { delta, kind: *kind, updates });
                for (address, len) in std::mem::take(&mut self.pending) {
                    self.supply(position + 1, address, len.into());
                }
            }
            Kind::Unsupported { why, dead } => {
                let mut regs = self.registers(site.pc, 0);
                regs.rflags_known |= u64::from(*dead) * GPR_UNKNOWN;
                let why = format!("{why} at {:#x} cannot be recorded exactly", site.pc);
                self.stop(position, EndReason::Unsupported { why }, regs);
            }
            Kind::Differs { .. }
            | Kind::NotExecutable
            | Kind::CodeChanged(_)
            | Kind::Limit { .. }
            | Kind::Bases
            | Kind::HideComponents
            | Kind::CodeBehind { .. }
            | Kind::Own(..)
            | Kind::OwnRepeat(..)
            | Kind::Exchange(..)
            | Kind::SharedAddress(..)
            | Kind::Special(..)
            | Kind::Emulate { .. }
            | Kind::SegmentBase(..)
            | Kind::SetSegmentBase(..) => {}
        }
    }
}
