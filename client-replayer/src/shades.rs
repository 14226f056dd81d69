//! Which memory must not be accessed ([`bugnet_format::shade`]), byte by byte in a plane of a region to which FS points ([`crate::places`]), so that
//! the code cache looks there itself; and what it has found.
//!
//! Only memory of which something was said has places that are its own. What has the same place as such memory is told as wrong where that is, and
//! whoever asks finds out that it is not.

use crate::accesses::Accesses;
use crate::code::Code;
use crate::engine::Engine;
use crate::fs_base;
use crate::instruction::Instruction;
use crate::light;
use crate::places::{Owners, PIECE, Places, Plane};
use crate::site::AccessId;
use bugnet_dr::access::Action;
use bugnet_dr::fs_base::can_be_set;
use bugnet_format::control::Response;
use bugnet_format::shade::{LEFT_REACH, Looked, MAX_SUSPECTS, Shade, Suspect, SuspectBlock};
use bugnet_heap::Set;
use hashbrown::HashMap;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Most bytes of a range: what is larger would take as much memory.
const MOST: u64 = 1 << 30;
const PLANES: &[Plane] = &[Plane::First];

/// The region.
struct Region {
    room: u64,
    owners: Owners,
}

impl Region {
    fn new(window: &Range<u64>, places: Places, pieces: &BTreeSet<u64>) -> Option<Self> {
        let owners = Owners::new(places, PLANES, pieces.iter().copied())?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let len = places.room();
        // SAFETY: asks for fresh memory.
        let room = unsafe { mmap_anonymous(std::ptr::null_mut(), len as usize, prot, flags) }.ok()? as u64;
        let region = Self { room, owners };
        (window.contains(&room) && window.contains(&(room + len))).then_some(region)
    }

    fn places(&self) -> Places {
        self.owners.places()
    }

    /// What FS has to have for its base.
    fn base(&self) -> u64 {
        self.places().start(self.room) + self.places().base()
    }

    /// The bytes of the plane for memory in one piece that has a place.
    fn plane(&mut self, addr: u64, len: u64) -> &mut [u8] {
        let place = self.places().start(self.room) + self.places().of(addr, Plane::First);
        // SAFETY: the places of one piece lie together in the region, which lives as long as this; the code cache does not run.
        unsafe { std::slice::from_raw_parts_mut(place as *mut u8, len as usize) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is this type's; whoever drops it has taken it from FS.
        let _ = unsafe { munmap(self.room as *mut _, self.places().room() as usize) };
    }
}

/// What is looked at, and what was found.
pub struct Shades {
    trusted: Vec<(u64, u64)>,
    window: Range<u64>,
    region: Region,
    /// Memory that has a place.
    pieces: BTreeSet<u64>,
    /// Memory that had none when blocks were built that access it at addresses which no register changes: they do not look there.
    passed: BTreeSet<u64>,
    /// What is to be wrong or right later, in that order.
    pending: VecDeque<Shade>,
    suspects: Vec<Suspect>,
    /// The blocks of these and of earlier ones, and the numbers of those that begin at an address.
    blocks: Vec<SuspectBlock>,
    numbers: HashMap<u64, Vec<u32>>,
    accesses: Accesses,
}

/// The parts of a range that lie in one piece each: start and length.
fn in_pieces(addr: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = addr.saturating_add(len);
    let mut at = addr;
    std::iter::from_fn(move || {
        let next = (at | (PIECE - 1)).saturating_add(1).min(end);
        let start = std::mem::replace(&mut at, next);
        (start < next).then_some((start, next - start))
    })
}

impl Shades {
    fn new(window: &Range<u64>, looked: Looked) -> Option<Self> {
        let pieces = BTreeSet::new();
        let region = Places::all().find_map(|places| Region::new(window, places, &pieces))?;
        Some(Self {
            trusted: looked.trusted,
            window: window.clone(),
            region,
            pieces,
            passed: BTreeSet::new(),
            pending: VecDeque::new(),
            suspects: Vec::new(),
            blocks: Vec::new(),
            numbers: HashMap::new(),
            accesses: Accesses::default(),
        })
    }

    /// The number of a block.
    fn number(&mut self, range: &Range<u64>, code: &Code) -> u32 {
        let bytes = code.read(range.start, (range.end - range.start) as usize);
        let known = self.numbers.entry(range.start).or_default();
        if let Some(number) = known.iter().find(|number| self.blocks[**number as usize].code == bytes) {
            return *number;
        }
        let number = self.blocks.len() as u32;
        known.push(number);
        self.blocks.push(SuspectBlock { pc: range.start, code: bytes });
        number
    }

    /// How the bytes of the plane are found.
    pub fn places(&self) -> Places {
        self.region.places()
    }

    /// What FS has to have for its base while the code cache runs.
    pub fn base(&self) -> u64 {
        self.region.base()
    }

    /// Where in FS it is kept where the frame ends that was left last, with all bits the other way; 0 where there is none.
    pub fn left_slot(places: Places) -> i32 {
        // No byte has its place there.
        if places == Places::Narrow { -8 } else { 8 }
    }

    fn left(&self) -> *mut u64 {
        self.base().wrapping_add_signed(Self::left_slot(self.places()).into()) as *mut u64
    }

    /// What is kept there.
    fn left_end(&self) -> u64 {
        // SAFETY: a word of the region's memory that is nobody's place; the code cache does not run.
        unsafe { self.left().read() }
    }

    fn set_left_end(&mut self, end: u64) {
        // SAFETY: as above.
        unsafe { self.left().write(end) };
    }

    /// Whether the code at an address may access anything.
    pub fn trusts(&self, pc: u64) -> bool {
        let before = self.trusted.partition_point(|(start, _)| *start <= pc);
        self.trusted[..before].last().is_some_and(|(_, end)| pc < *end)
    }

    /// Whether memory at an address may come to be wrong.
    fn has(&self, addr: u64) -> bool {
        self.region.owners.has(addr)
    }

    /// Whether any of these bytes may come to be wrong. If not, the block that asks does not look at them.
    fn comes(&mut self, addr: u64, len: u64) -> bool {
        let pieces = || in_pieces(addr, len).map(|(start, _)| start & !(PIECE - 1));
        let comes = pieces().any(|piece| self.has(piece));
        if !comes {
            self.passed.extend(pieces());
        }
        comes
    }

    /// After how many instructions of the package the next one is due.
    fn next_at(&self) -> u64 {
        self.pending.front().map_or(u64::MAX, |shade| shade.at)
    }

    /// Gives memory of a range places; whether others were taken for that, or blocks do not look there.
    fn claim(&mut self, addr: u64, len: u64) -> Result<bool, String> {
        let mut moved = false;
        for (start, _) in in_pieces(addr, len) {
            let piece = start & !(PIECE - 1);
            if !self.pieces.insert(piece) {
                continue;
            }
            moved |= self.passed.contains(&piece);
            if self.region.owners.claim(piece) {
                continue;
            }
            let others = || Places::all().find_map(|places| Region::new(&self.window, places, &self.pieces));
            let Some(mut region) = others() else {
                return Err("there is no way to tell all memory apart that must not be accessed".into());
            };
            for known in self.pieces.iter().filter(|known| **known != piece) {
                region.plane(*known, PIECE).copy_from_slice(self.region.plane(*known, PIECE));
            }
            let left = self.left_end();
            self.region = region;
            self.set_left_end(left);
            moved = true;
        }
        Ok(moved)
    }

    /// Does what is due when so many instructions have been executed.
    pub fn apply(&mut self, time: u64) {
        while let Some(shade) = self.pending.pop_front_if(|shade| shade.at <= time) {
            let byte = if shade.wrong { u8::MAX } else { 0 };
            for (start, len) in in_pieces(shade.addr, shade.len) {
                self.region.plane(start, len).fill(byte);
            }
        }
    }

    /// Memory must not be accessed from here on, or may be; `false`, and nothing has changed: others would have to be given other places, or blocks be
    /// built anew.
    pub fn change(&mut self, set: &Set) -> bool {
        let len = set.end - set.start;
        if !set.wrong {
            self.clear(set);
            return true;
        }
        if len > MOST {
            return false;
        }
        for (start, _) in in_pieces(set.start, len) {
            let piece = start & !(PIECE - 1);
            if self.pieces.contains(&piece) {
                continue;
            }
            if self.passed.contains(&piece) || !self.region.owners.claim(piece) {
                return false;
            }
            self.pieces.insert(piece);
        }
        in_pieces(set.start, len).for_each(|(start, len)| self.region.plane(start, len).fill(u8::MAX));
        true
    }

    /// The same; others are given other places.
    ///
    /// # Errors
    /// There are none.
    pub fn change_anyway(&mut self, set: &Set) -> Result<(), String> {
        let len = set.end - set.start;
        if set.wrong && len > MOST {
            return Err("more memory must not be accessed than can be told apart".into());
        }
        if set.wrong {
            self.claim(set.start, len)?;
        }
        self.change(set);
        Ok(())
    }

    fn clear(&mut self, set: &Set) {
        let mut at = set.start & !(PIECE - 1);
        while at < set.end {
            if self.has(at) {
                let (start, end) = (at.max(set.start), (at + PIECE).min(set.end));
                self.region.plane(start, end - start).fill(0);
                at += PIECE;
            } else {
                at = self.pieces.range(at + PIECE..).next().copied().unwrap_or(u64::MAX);
            }
        }
    }

    fn is_wrong(&mut self, addr: u64, len: u64) -> bool {
        in_pieces(addr, len.min(MOST)).any(|(start, len)| {
            self.region.owners.has(start) && self.region.plane(start, len).iter().any(|byte| *byte != 0)
        })
    }

    /// Whether an access is of a frame that was left.
    fn is_left(&self, addr: u64) -> bool {
        let end = !self.left_end();
        end != u64::MAX && addr < end && end - addr < LEFT_REACH
    }
}

impl Engine {
    /// Looks at each access from here on.
    ///
    /// # Errors
    /// It cannot, which the other side is to know.
    pub fn begin_looking(&mut self, looked: Looked) -> Result<(), String> {
        if !can_be_set() || !std::arch::is_x86_feature_detected!("bmi2") {
            return Err("this machine's processor or kernel lacks what it takes to look at each access".into());
        }
        if self.contexts.len() > 1
            || self.tracing.is_some()
            || self.memory.touched.is_some()
            || self.memory.watch.is_some()
        {
            return Err("only a thread's own interval is looked at, without anything else that observes it".into());
        }
        let shades = Shades::new(self.memory.window(), looked).ok_or("there is no room to look at each access")?;
        self.shades = Some(Box::new(shades));
        self.point_fs();
        self.drop_all_blocks();
        Ok(())
    }

    /// Tells accesses of this memory from here on, in an outline ([`crate::trace`]).
    ///
    /// # Errors
    /// It cannot, which the other side is to know.
    pub fn begin_telling(&mut self, shaded: &[(u64, u64)]) -> Result<(), String> {
        self.begin_looking(Looked::default())?;
        let at = self.time_at(self.position);
        let shade = |(addr, len): &(u64, u64)| Shade { at, addr: *addr, len: *len, wrong: true };
        self.take_shades(shaded.iter().map(shade).collect())
    }

    /// Whether memory of an access is shaded, or other memory that has its places.
    pub fn is_shaded(&mut self, addr: u64, len: u64) -> bool {
        self.shades.as_mut().is_some_and(|shades| shades.is_wrong(addr, len))
    }

    /// Whether the code at an address may access anything.
    pub fn trusts(&self, pc: u64) -> bool {
        self.shades.as_ref().is_some_and(|shades| shades.trusts(pc))
    }

    /// Whether any of these bytes may come to be wrong, as far as that is known: a block is built that looks at them, or does not.
    pub fn comes_to_be_wrong(&mut self, addr: u64, len: u64) -> bool {
        self.shades.as_mut().is_some_and(|shades| shades.comes(addr, len))
    }

    /// Takes what is to be wrong or right later.
    ///
    /// # Errors
    /// It makes no sense, or cannot be done.
    pub fn take_shades(&mut self, news: Vec<Shade>) -> Result<(), String> {
        let time = self.time_at(self.position);
        let Some(shades) = &mut self.shades else { return Err("nothing is looked at".into()) };
        let last = shades.pending.back().map_or(time, |last| last.at);
        let order = std::iter::once(last).chain(news.iter().map(|shade| shade.at));
        if !order.is_sorted() || news.iter().any(|shade| shade.len > MOST || shade.addr >> 47 != 0) {
            return Err("shades that make no sense".into());
        }
        let mut moved = false;
        for shade in &news {
            moved |= shades.claim(shade.addr, shade.len)?;
        }
        shades.pending.extend(news);
        if moved {
            self.point_fs();
            self.drop_all_blocks();
        }
        Ok(())
    }

    /// A run begins: what was found has been asked for.
    pub fn forget_suspects(&mut self) {
        if let Some(shades) = &mut self.shades {
            shades.suspects.clear();
        }
    }

    /// Another package begins, in which all holds that was to hold by the end of the one before.
    pub fn begin_shades(&mut self) {
        if let Some(shades) = &mut self.shades {
            shades.apply(u64::MAX);
            shades.set_left_end(0);
        }
    }

    /// What was found, without so many, and their blocks, without so many.
    pub fn suspects(&self, from: usize, blocks: usize) -> Response {
        let found = self.shades.iter().flat_map(|shades| &shades.suspects);
        let known = self.shades.iter().flat_map(|shades| &shades.blocks);
        let suspects = found.skip(from).take(MAX_SUSPECTS).copied().collect();
        Response::Suspects { suspects, blocks: known.skip(blocks).take(MAX_SUSPECTS).cloned().collect() }
    }

    /// Does what is due of memory that must not be accessed.
    pub fn apply_shades(&mut self) {
        let time = self.time_at(self.position);
        if let Some(shades) = &mut self.shades {
            shades.apply(time);
        }
    }

    /// The running thread's instruction count at which more is due.
    pub fn shades_due(&self) -> u64 {
        let (time, position) = (self.time_at(self.position), self.position);
        let next = self.shades.as_ref().map_or(u64::MAX, |shades| shades.next_at());
        if next == u64::MAX { u64::MAX } else { position.saturating_add(next.saturating_sub(time)) }
    }

    /// FS is to point at the plane.
    pub fn point_at_shades(&self) {
        if let Some(shades) = &self.shades {
            // SAFETY: it can be set, or there would be none.
            unsafe { fs_base::begin(shades.base()) };
        }
    }

    /// The thread goes elsewhere than instructions tell: it may be on another stack.
    pub fn leave_stack(&mut self) {
        if let Some(shades) = &mut self.shades {
            shades.set_left_end(0);
        }
    }

    /// Notes what of an instruction's accesses may be wrong, before it is executed.
    pub fn look_at(&mut self, id: AccessId) {
        let at = self.time_at(self.position_ahead(self.sites.access(id).ahead));
        let Self { shades: Some(shades), keeper, sites, memory, code, .. } = self else { return };
        let site = sites.access(id);
        if let Some((plain, keeper)) = site.plain.as_ref().zip(keeper.as_ref()) {
            let addr = plain.address(light::saved());
            if !shades.is_left(addr) && keeper.excuses(addr, plain.bytes, plain.writes) {
                return;
            }
        }
        let mut accesses = std::mem::take(&mut shades.accesses);
        // What makes no sense is found out when it is executed.
        accesses.find(&site.instruction, &site.bytes, light::saved(), &mut |addr, len| memory.element(addr, len));
        for (addr, len, reads, writes) in merged(&accesses) {
            let is_excused = || keeper.as_ref().is_some_and(|keeper| keeper.excuses(addr, len, writes));
            let (shaded, left) = (shades.is_wrong(addr, len) && !is_excused(), shades.is_left(addr));
            if !shaded && !left {
                continue;
            }
            let whole = is_whole(&site.instruction);
            for shaded in [(shaded, true), (left, false)].into_iter().filter(|(is, _)| *is).map(|(_, shaded)| shaded) {
                let block = shades.number(&site.block, code);
                shades.suspects.push(Suspect { at, pc: site.pc, block, addr, len, writes, reads, whole, shaded });
            }
        }
        shades.accesses = accesses;
    }
}

/// Ranges of memory, and whether they are read, and written.
fn merged(accesses: &Accesses) -> Vec<(u64, u64, bool, bool)> {
    let mut all: Vec<(u64, u64, bool, bool)> =
        accesses.reads.iter().map(|(addr, len)| (*addr, *len, true, false)).collect();
    for (addr, len) in &accesses.writes {
        match all.iter_mut().find(|(other, bytes, ..)| (*other, *bytes) == (*addr, *len)) {
            Some((.., writes)) => *writes = true,
            None => all.push((*addr, *len, false, true)),
        }
    }
    all
}

/// Whether all bytes are accessed for sure that an instruction may access.
pub fn is_whole(instruction: &Instruction) -> bool {
    match instruction.action() {
        Action::Execute { reads, writes } => !reads.iter().chain(writes).any(|access| access.masked),
        _ => true,
    }
}
