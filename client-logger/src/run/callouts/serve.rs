//! What happens at callouts within a block.

use crate::base::light;
use crate::base::memory::read_memory;
use crate::base::options;
use crate::base::slots::set_segment_base;
use crate::emitted::site::{Kind, Site};
use crate::picture::protections::PROTECTIONS;
use crate::run::special;
use crate::run::thread::Thread;
use bugnet_dr::access::RegisterValues;
use bugnet_dr::fragments;
use bugnet_dr::ir::{Gpr, Segment};
use bugnet_dr::thread::segment_base;
use bugnet_format::record::{EndReason, Record, RegisterUpdates, SpecialKind, register_number};
use bugnet_format::regs::{COMPARED_FLAGS, GPR_UNKNOWN};
use bugnet_format::types::Addr;
use std::ffi::c_void;

/// Changes the protection of a page of the program's.
fn protect(page: u64, protection: i32) {
    // SAFETY: a page of the program's, which is given its own protection back before anything else happens to it.
    if unsafe { libc::mprotect(page as *mut c_void, Addr::PAGE as usize, protection) } != 0 {
        let why = std::io::Error::last_os_error();
        crate::base::failure::fail(&format!(
            "the protection of the page at {page:#x}, where the program jumped to, cannot be changed: {why}"
        ));
    }
}

impl Thread {
    fn emulate(&mut self, kind: SpecialKind, reg: Option<(Gpr, u32)>) {
        special::emulate(kind, reg, &mut self.callouts.saved, options::get().cpu);
    }

    fn special(&mut self, position: u64, pc: u64, kind: SpecialKind, reg: Option<(Gpr, u32)>, written: u16) {
        let before = (self.callouts.saved.gpr, self.callouts.saved.rflags);
        if light::expands() {
            self.emulate_as_kept(position, pc, kind);
        } else {
            self.emulate(kind, reg);
        }
        self.results(position, kind, before, special::writes_flags(kind), written);
    }

    /// Instead of `rdfsbase` or `rdgsbase`.
    fn read_segment_base(&mut self, site: &Site, segment: Segment, reg: Gpr, bytes: u32) {
        let before = (self.callouts.saved.gpr, self.callouts.saved.rflags);
        special::set(&mut self.callouts.saved, reg, bytes, segment_base(segment));
        if self.recording() {
            self.results(self.counted() - site.back, SpecialKind::SegmentBase, before, false, reg.bit());
        }
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
        self.segments.bases[segment as usize] = value;
    }

    /// Logs what an instruction has done to registers and flags since `before`, and the registers that are `written`.
    fn results(&mut self, position: u64, kind: SpecialKind, before: ([u64; 16], u64), flags: bool, written: u16) {
        let mut updates = RegisterUpdates::default();
        for (number, (new, old)) in self.callouts.saved.gpr.iter().zip(before.0).enumerate() {
            if *new != old || written & Gpr(number as u8).bit() != 0 {
                updates.values.push((number as u8, *new));
            }
        }
        if flags || (self.callouts.saved.rflags ^ before.1) & COMPARED_FLAGS != 0 {
            let flags = self.callouts.saved.rflags & COMPARED_FLAGS | 0x202;
            updates.values.push((register_number::RFLAGS, flags));
        }
        self.record(position, |delta| Record::Special { delta, kind, updates });
    }

    /// An opaque store has happened, where [`Kind::WriteAddresses`] said before.
    fn stored_opaquely(&mut self, position: u64, kind: SpecialKind) {
        let updates = RegisterUpdates::default();
        self.record(position, |delta| Record::Special { delta, kind, updates });
        for (address, len) in std::mem::take(&mut self.begun.pending) {
            self.supply(position + 1, address, len.into());
        }
    }

    /// The program has jumped to memory that is not executable. The instruction behind the callout, which reads at `pc`,
    /// faults as the jump would.
    fn forbid(&mut self, pc: u64) {
        let page = Addr(pc).page().0;
        let protection = PROTECTIONS.get().of(pc);
        if protection & libc::PROT_EXEC != 0 {
            // It has become executable since the block was built.
            fragments::flush_later(page, Addr::PAGE as usize);
            self.signals.leave.go(&self.callouts.saved, pc);
        }
        self.begun.forbidden = Some((page, protection));
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
        fragments::flush_later(pc, code.len());
        self.signals.leave.go(&self.callouts.saved, pc);
    }

    /// Gives the page of [`Self::forbid`] back, once it has faulted.
    pub fn allow(&mut self) {
        if let Some((page, protection)) = self.begun.forbidden.take() {
            protect(page, protection);
        }
    }

    /// Does what a callout within a block is for.
    pub(super) fn serve(&mut self, site: &Site) {
        if self.serve_any(site) {
            return;
        }
        if self.recording() {
            self.serve_recorded(site);
        } else if let Kind::Differs { bytes, target, .. } = site.kind {
            // Nothing is logged, but the instruction may read the shadow in place of the memory.
            self.mirror(self.address(target), bytes.into());
        }
    }

    /// What is done for a thread whether it is recorded or not; `false` for a site that is not one of those.
    fn serve_any(&mut self, site: &Site) -> bool {
        match &site.kind {
            Kind::NotExecutable => self.forbid(site.pc),
            Kind::CodeChanged(code) => self.translate_anew(site.pc, code),
            Kind::Moment => self.at_moment(site.pc),
            Kind::Exchange(access, routine) => self.exchange(self.begins_at(site), access, *routine),
            Kind::SharedAddress(access) => self.shared_address(access),
            Kind::Own(accesses, held) => {
                self.make_room_for(site, *held, accesses);
                self.own(self.begins_at(site), accesses);
            }
            Kind::OwnRepeat(op, while_different, held) => {
                self.make_room_for_repeat(site, *held, *op, *while_different);
                self.own_repeat(self.begins_at(site), *op, *while_different);
            }
            Kind::CodeBehind { by_fs, saved } => self.stopped_at_start(site, *by_fs, *saved),
            Kind::SegmentBase(segment, reg, bytes) => self.read_segment_base(site, *segment, *reg, *bytes),
            Kind::SetSegmentBase(segment, reg, bytes) => self.change_segment_base(site, *segment, *reg, *bytes),
            Kind::Bases => {
                set_segment_base(Segment::Fs, self.segments.bases[0]);
                set_segment_base(Segment::Gs, self.segments.bases[1]);
            }
            Kind::HideComponents => special::hide_components(&mut self.callouts.saved, options::get().cpu),
            Kind::Emulate { what, next } => self.emulate_instruction(site, *what, *next),
            Kind::Special(kind, reg, written) if self.recording() => {
                self.special(self.begins_at(site), site.pc, *kind, *reg, *written);
            }
            Kind::Special(kind, reg, _) => self.emulate(*kind, *reg),
            _ => return false,
        }
        true
    }

    /// The position of a site's instruction.
    fn begins_at(&self, site: &Site) -> u64 {
        self.counted().wrapping_sub(site.back)
    }

    /// What is done for a thread that is recorded only.
    fn serve_recorded(&mut self, site: &Site) {
        let position = self.counted() - site.back;
        match &site.kind {
            Kind::Reads(accesses) => self.reads(position, accesses),
            Kind::WriteAddresses(accesses) => self.write_addresses(accesses),
            Kind::Writes(accesses) => self.writes(position, accesses),
            Kind::SharedStored => self.shared_stored(position),
            Kind::RepeatBefore(op) => self.repeat_before(position, *op),
            Kind::RepeatAfter(op) => self.repeat_after(position, *op),
            Kind::ResultBefore => self.begun.before = (self.callouts.saved.gpr, self.callouts.saved.rflags),
            Kind::ResultAfter(kind, written) => self.results(position, *kind, self.begun.before, true, *written),
            Kind::OpaqueAfter(kind) => self.stored_opaquely(position, *kind),
            Kind::Unsupported { why, dead } => {
                let mut regs = self.registers(site.pc, 0);
                regs.rflags_known |= u64::from(*dead) * GPR_UNKNOWN;
                let why = format!("{why} at {:#x} cannot be recorded exactly", site.pc);
                self.stop(position, EndReason::Unsupported { why }, regs);
            }
            // The others have been served already.
            _ => {}
        }
    }
}
