//! Accesses of what is wrong, by instructions and by the kernel: whether they are errors.

use super::below::Found;
use super::check::Checker;
use super::code::looks_through;
use super::found::{By, Error, Kind};
use bugnet_events::code::Block;
use bugnet_events::stretch::{Access, Ran};
use bugnet_format::types::{Addr, Tid};
use bugnet_heap::Wrong;
use bugnet_replay::cursor::Place;
use bugnet_replay::looked::Suspect;
use bugnet_replay::syscall::Made;
use iced_x86::{Instruction, Register};

/// Bytes of the smallest vector.
const VECTOR: u64 = 16;

impl Checker<'_, '_> {
    /// A block has accessed something that is wrong.
    pub(super) fn accessed(&mut self, place: Place, ran: &Ran<'_>, part: std::ops::Range<usize>) {
        for number in part.clone() {
            for access in ran.accesses(number) {
                let mut here = place;
                here.position.0 += (number - part.start) as u64;
                self.accesses(here, ran.block, number, &access);
            }
        }
    }

    /// An instruction of a block accesses something that may be wrong.
    fn accesses(&mut self, here: Place, block: &Block, number: usize, access: &Access) {
        let instruction = block.instructions[number].instruction;
        let Some((at, why)) = self.heap.shadow.first_wrong(access.addr, access.len) else { return };
        if !access.whole && !self.heap.shadow.all_wrong(access.addr, access.len)
            || self.may_access(here.tid, block, &instruction, access)
            || self.is_interpreters(instruction.ip(), (at, why))
            || !access.writes && self.was_told(here.tid, at, why)
        {
            return;
        }
        // Whoever has called may be an allocator.
        self.doubt();
        let kind = if access.writes { Kind::Write } else { Kind::Read };
        self.wrong(
            (kind, By::Instruction),
            (here, instruction.ip()),
            (access.addr, access.len),
            (at, why),
            Some(instruction),
        );
    }

    /// An instruction of a block accesses what a replay process takes for wrong.
    pub(super) fn suspect(&mut self, here: Place, suspect: &Suspect, block: &Block, number: usize) {
        let Suspect { addr, len, reads, writes, whole, shaded, pc, .. } = *suspect;
        let access = Access { addr, len, reads, writes, whole, is_over: false };
        if shaded {
            if !self.is_inside(here.tid) {
                self.accesses(here, block, number, &access);
            }
            return;
        }
        let instruction = block.instructions[number].instruction;
        // What is told from the stack pointer on is meant to be there.
        if instruction.memory_base() == Register::RSP {
            return;
        }
        self.doubt();
        if self.brief.is_none()
            && let Some(found) = self.below.accessed(here.tid, pc, access)
        {
            self.accessed_below(here, instruction, found);
        }
    }

    /// Whether it was told already that the function in which a thread is accesses the block wrongly that is at an address.
    fn was_told(&self, tid: Tid, at: u64, why: Wrong) -> bool {
        let Some(doing) = self.doing.get(&tid).filter(|doing| !doing.told.is_empty()) else { return false };
        let block = self.heap.near(at, why).map(|(block, _)| block.start);
        block.is_some_and(|block| doing.told.iter().any(|(_, start)| *start == block))
    }

    /// A block has accessed the frame of a function that has returned, unless another function does so than the one for which nothing lies there:
    /// one that it has jumped to.
    pub(super) fn accessed_below(&mut self, here: Place, instruction: Instruction, found: Found) {
        let mut function = |at: u64| self.symbols.lookup(Addr(at)).symbol.map(|symbol| at.wrapping_sub(symbol.offset));
        let own = function(instruction.ip());
        if own.is_none() || own != function(found.function) {
            return;
        }
        let kind = if found.access.writes { Kind::Write } else { Kind::Read };
        let stack = self.frames.stack(here.tid);
        let mut error = Error::new(kind, By::Instruction, here, instruction.ip(), stack);
        (error.addr, error.len, error.wrong_at) = (found.access.addr, found.access.len, found.access.addr);
        (error.instruction, error.gone) = (Some(instruction), Some(found.gone));
        self.errors.add(error, &self.frames);
    }

    pub(super) fn wrong(
        &mut self,
        (kind, by): (Kind, By),
        (place, ip): (Place, u64),
        (addr, len): (u64, u64),
        (at, why): (u64, Wrong),
        instruction: Option<Instruction>,
    ) {
        let stack = self.frames.stack(place.tid);
        let mut error = Error::new(kind, by, place, ip, stack);
        (error.addr, error.len, error.wrong_at, error.instruction) = (addr, len, at, instruction);
        error.block = self.heap.near(at, why).map(|(block, relation)| (block.clone(), relation));
        self.errors.add(error, &self.frames);
    }

    /// Whether code that a thread executes is an allocator's, or a C library's that an allocator has called: jemalloc's locks lie in memory
    /// that it has for itself.
    pub(super) fn is_allocators(&mut self, tid: Tid, ip: u64) -> bool {
        let Self { known, frames, .. } = self;
        if known.is_allocators(ip) {
            return true;
        }
        if self.brief.is_some() {
            return false;
        }
        let mut outwards = std::iter::once(ip).chain(frames.callers(tid));
        outwards.find(|at| !known.is_c_library(*at)).is_some_and(|at| known.is_allocators(at))
    }

    /// Whether an access is legal, though it is not of a block: allocators' own, and loads of more than is needed, which never reach a page of
    /// which nothing is needed.
    fn may_access(&mut self, tid: Tid, block: &Block, instruction: &Instruction, access: &Access) -> bool {
        if self.is_allocators(tid, instruction.ip()) {
            return true;
        }
        if access.writes {
            return false;
        }
        let is_vector = access.len >= VECTOR || instruction.op0_register().is_vector_register();
        let is_lane = access.len.is_power_of_two() && access.addr.is_multiple_of(access.len) && access.len >= 4;
        let is_partly_right = !self.heap.shadow.all_wrong(access.addr, access.len);
        if is_lane && is_vector && is_partly_right {
            return true;
        }
        let may_look = is_vector && (is_lane || looks_through(block)) || is_lane && is_partly_right;
        may_look && self.known.is_strings(instruction.ip(), &mut self.symbols)
    }

    /// A system call has read or written memory, as far as its arguments and its result tell.
    pub(super) fn accessed_by_kernel(&mut self, place: Place, ip: u64, made: Made) {
        const EXACT: [i64; 12] = [
            libc::SYS_read,
            libc::SYS_pread64,
            libc::SYS_recvfrom,
            libc::SYS_getrandom,
            libc::SYS_readlink,
            libc::SYS_getcwd,
            libc::SYS_stat,
            libc::SYS_fstat,
            libc::SYS_lstat,
            libc::SYS_newfstatat,
            libc::SYS_uname,
            libc::SYS_pipe2,
        ];
        let wrong = |checker: &Self, (addr, len): (u64, u64)| {
            let shadow = &checker.heap.shadow;
            shadow.may_know(addr, len).then(|| shadow.first_wrong(addr, len)).flatten()
        };
        if let Some(range) = made.read()
            && let Some(found) = wrong(self, range)
        {
            self.wrong((Kind::Read, By::System(made.number)), (place, ip), range, found, None);
        }
        if made.result < 0 || !EXACT.contains(&made.number.cast_signed()) || made.needs_memory() {
            return;
        }
        for range in made.written(None, &mut self.symbols).unwrap_or_default() {
            if let Some(found) = wrong(self, range) {
                self.wrong((Kind::Write, By::System(made.number)), (place, ip), range, found, None);
            }
        }
    }
}
