//! The thread's shadow: where it is, and what it does when it has to make way.

use super::Thread;
use crate::base::memory::read_memory;
use crate::base::process;
use crate::base::slots::Slot;
use crate::emitted::flush;
use crate::emitted::site::{Held, Site};
use crate::log::code;
use crate::picture::claims::{self, Claim};
use crate::picture::placement;
use crate::picture::shadow::mapping::Mapping;
use crate::picture::shadow::sizes::{BIAS, GRANULE, granule};
use crate::picture::shadow::{self, Shadow, reserved};
use crate::run::parts::picture::TOO_FAR_APART;
use crate::run::parts::readable::for_readable;
use bugnet_dr::access::Access;
use bugnet_dr::fragments;
use bugnet_dr::ir::Gpr;
use bugnet_format::record::{EndReason, Record, RegisterUpdates};
use bugnet_format::regs::{ARITHMETIC_FLAGS, RegisterFile};
use smallvec::SmallVec;
use std::ops::Range;

/// The pages of code of the process.
fn all_code() -> Vec<Range<u64>> {
    code::of_process().pages().map(|(address, bytes)| address..address + bytes.len() as u64).collect()
}

impl Thread {
    /// The parts of the address space in which the interval may have accessed memory.
    pub(in crate::run) fn reach(&mut self) -> Vec<Range<u64>> {
        let mut reach = std::mem::take(&mut self.picture.reached);
        reach.extend(self.picture.shadow.reach());
        reach
    }

    /// Before a system call: what it claims of the address space is cleared of shadows. `false` if it must not be made, since
    /// something of ours lies there that cannot move.
    pub fn make_way(&mut self, number: i64, args: &[u64; 6]) -> bool {
        claims::of(number, args).into_iter().all(|claim| {
            if claim.accessible && Shadow::is_large(claim.range.end - claim.range.start) {
                self.ask_before_access(&claim);
            }
            if self.picture.shadow.overlaps(&claim.range) {
                let position = self.counted() - 1;
                self.move_shadow(position, position, Some(&claim), None);
            }
            let made = shadow::make_room(&claim.range);
            if made {
                reserved::forget(&claim.range);
            }
            made || claim.yields
        })
    }

    /// The program is about to make so much memory accessible that there may be no room for the shadow of all of it: where that is so, the thread asks for
    /// room from here on before it accesses memory, as threads do among others. Returns whether it does. In an event of a system call.
    fn ask_before_access(&mut self, claim: &Claim) -> bool {
        if !process::threaded() && !placement::has_room(claim) {
            self.share();
            flush::become_threaded();
        }
        process::threaded()
    }

    /// The program has mapped memory: sees to it that there is room for its shadow before the program touches it.
    pub fn mapped(&mut self, address: u64, len: u64) {
        if process::threaded() && Shadow::is_large(len) {
            // Of so much memory, it asks for the room of what it accesses.
            return;
        }
        if !self.picture.shadow.reserve_range(address, len) {
            let range = address..address.saturating_add(len);
            if Shadow::is_large(len) && self.ask_before_access(&Claim { range, accessible: true, yields: false }) {
                return;
            }
            let counted = self.counted();
            self.move_shadow(counted - 1, counted, None, Some(address..address.saturating_add(len)));
        }
    }

    /// Another shadow takes the place of the thread's, out of the way of what is about to come, with room for what the interval has
    /// accessed, and for a range that it is going to access. The picture is empty from here on, and a new interval begins before anything is compared with it. All before `position` has been executed, and
    /// if there is no room, recording ends at `end`.
    fn move_shadow(
        &mut self,
        position: u64,
        end: u64,
        coming: Option<&Claim>,
        wanted: impl IntoIterator<Item = Range<u64>>,
    ) {
        self.picture.reached.extend(self.picture.shadow.reach());
        let needs: Vec<Range<u64>> = self.picture.reached.iter().cloned().chain(wanted).collect();
        let counted = self.counted();
        if self.replace_shadow(coming, &needs) {
            self.picture.moved = true;
            self.set_counter(position, counted, 0);
        } else {
            self.stop(end, EndReason::Unsupported { why: TOO_FAR_APART.to_owned() }, RegisterFile::unknown());
        }
    }

    /// Another shadow, with room for what is needed, takes the place of the thread's. `false` if there is no room.
    fn replace_shadow(&mut self, coming: Option<&Claim>, needs: &[Range<u64>]) -> bool {
        self.picture.shadow.discard();
        self.picture.room.clear();
        // For whatever it accesses, the thread asks for room once more.
        if let Some(peer) = self.peer() {
            peer.revoke();
        }
        let shadow = placement::place_shadow(coming, needs);
        self.use_shadow(shadow.unwrap_or(Shadow::none()));
        shadow.is_some()
    }

    /// The picture has no room for code that has come: the thread gets another shadow, and an interval begins before it executes
    /// anything. Only where there are other threads, whose shadows may be in the way.
    pub(in crate::run) fn make_room_for_code(&mut self, position: u64) {
        self.move_shadow(position, position, None, all_code());
    }

    /// An interval begins, with the code in its picture. `false` if there is no room for it, also at another place.
    pub(in crate::run) fn picture_code(&mut self) -> bool {
        let written = |shadow: &mut Shadow| code::of_process().pages().all(|(at, bytes)| shadow.try_write(at, bytes));
        written(&mut self.picture.shadow)
            || process::threaded() && self.replace_shadow(None, &all_code()) && written(&mut self.picture.shadow)
    }

    /// In a system call, which is not over: the shadow is to have room for what the call is going to read.
    pub fn make_room_in_call(&mut self, address: u64, len: u64) {
        if self.picture.shadow.reserve_range(address, len) {
            return;
        }
        // What is not there needs no room.
        let mut readable = Vec::new();
        for_readable(&mut Vec::new(), address, len, |at, now| {
            readable.push(address + at..address + at + now.len() as u64);
        });
        if !readable.iter().all(|range| self.picture.shadow.reserve_range(range.start, range.end - range.start)) {
            let position = self.counted() - 1;
            self.move_shadow(position, position, None, readable);
        }
    }

    /// Sees to it that there is room for the shadow of accesses: another thread may have mapped their memory. The caller's frame
    /// is not returned to if the thread has to get another shadow for that.
    pub(in crate::run) fn make_room_for(&mut self, site: &Site, held: Held, accesses: &[(Access, bool)]) {
        let addresses: SmallVec<[u64; 4]> = accesses.iter().filter_map(|(access, _)| access.address(self)).collect();
        for address in addresses {
            self.make_room(site, held, address..address + 1);
        }
    }

    /// The same for a range.
    pub(in crate::run) fn make_room(&mut self, site: &Site, held: Held, range: Range<u64>) {
        if !self.recording() {
            return;
        }
        for address in range.clone().step_by(GRANULE as usize).chain([range.end - 1]) {
            let granule = granule(self.picture.shadow.of(address));
            if self.picture.room.contains(&granule) {
                continue;
            }
            if self.picture.shadow.reserve(granule) {
                self.picture.room.push(granule);
            } else if read_memory(address, &mut [0; 1]) {
                self.begin_elsewhere(site, held, range);
            }
            // Otherwise, an access to what is not there faults anyway.
        }
    }

    /// Gets another shadow, in a callout before an instruction, with which a new interval begins. The caller's frame is never
    /// returned to.
    fn begin_elsewhere(&mut self, site: &Site, held: Held, wanted: Range<u64>) -> ! {
        for n in (0..16).filter(|n| held.spilled >> n & 1 != 0) {
            self.callouts.saved.gpr[n] = Slot::Spill(Gpr(n as u8)).read();
        }
        if held.flags {
            self.callouts.saved.rflags = self.callouts.saved.rflags & !ARITHMETIC_FLAGS | Slot::read_flags();
        }
        let position = self.counted() - site.back;
        // An interval begins and ends with all registers, also with those that no instruction reads any more.
        let values: Vec<_> = (0..16)
            .filter(|n| held.lost >> n & 1 != 0)
            .map(|n: u8| (n, self.callouts.saved.gpr[usize::from(n)]))
            .collect();
        if !values.is_empty() {
            self.record(position, |delta| Record::Registers { delta, updates: RegisterUpdates { values } });
        }
        self.recount(position);
        self.move_shadow(position, position, None, Some(wanted));
        self.signals.leave.go(&self.callouts.saved, site.pc)
    }

    /// Built for a shadow at a distance, which the thread does not have, the block that it has just begun is built anew.
    /// `flags`: whether the program's arithmetic flags are in their slot. The caller's frame is never returned to.
    pub(in crate::run) fn begin_by_key(&mut self, site: &Site, flags: bool) -> ! {
        if flags {
            self.callouts.saved.rflags = self.callouts.saved.rflags & !ARITHMETIC_FLAGS | Slot::read_flags();
        }
        if !self.log.ended {
            // The block will be counted when it begins again.
            self.recount(self.counted() - site.back);
        }
        // Should another thread be about to do it, this one comes here again.
        fragments::flush_later(site.pc, 1);
        self.signals.leave.go(&self.callouts.saved, site.pc)
    }

    /// The thread's shadow is this from now on.
    pub(in crate::run) fn use_shadow(&mut self, shadow: Shadow) {
        self.picture.shadow = shadow;
        let (key, distance) = match shadow.mapping {
            Mapping::Plus(by) => (0, by),
            Mapping::Xor(key) => (key, 0),
        };
        self.callouts.bases.running =
            if distance == 0 { self.callouts.bases.own } else { distance.wrapping_sub(BIAS as u64) };
        // SAFETY: the thread's own slots.
        unsafe {
            *Slot::Key.address() = key;
            *Slot::Distance.address() = distance;
        }
        self.show_code_seq();
    }
}
