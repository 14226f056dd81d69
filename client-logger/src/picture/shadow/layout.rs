//! The address space as it is when a shadow is to be placed, and where in it there is room for one.
//!
//! As long as there is room, a shadow is placed where all of the program's memory can have its shadow. Thousands of threads, of
//! which each brings a stack along, leave no room for that. From then on, a shadow is placed where there is room for what any
//! thread accesses, and for what is known that this one will access. What else it accesses may turn out to have its shadow where
//! another one lies: it then moves.

use super::all::Shadows;
use super::mapping::{Kind, Mapping};
use super::reserved;
use super::sizes::{ADDRESS_BITS, COLOUR, GRANULE, LOWEST, STEP_SHIFT, UNIT_SHIFT, UNITS, units};
use crate::base::chosen;
use crate::base::fs_base;
use crate::base::light;
use crate::base::lock::Mutex;
use crate::base::maps;
use crate::picture::claims::Claim;
use crate::picture::stack_move;
use hashbrown::HashSet;
use std::ops::Range;

/// Distances from 2 to the power of this on are far.
const FAR: u32 = 45;
/// Those below 2 to the power of this are near: in the usual layout of a process, memory that is mapped later comes to lie there.
const NEAR: u32 = 38;
/// How far the initial stack grows, usually.
const STACK_GROWTH: u64 = 8 << 20;
/// Units that are left free on both sides of the first shadow: its thread usually accesses what all the others have.
const AROUND_FIRST: u64 = 16;

/// Memory of the process, as `/proc/self/maps` has it.
struct Mapped {
    range: Range<u64>,
    stack: bool,
    /// Whether it can be accessed at all.
    accessible: bool,
    /// Whether any thread may access it: a part of a program or a library, or their data.
    common: bool,
}

fn mapped() -> Vec<Mapped> {
    let inside = |range: &Range<u64>| range.start >> ADDRESS_BITS == 0;
    let regions = maps::all().into_iter().filter(|region| inside(&region.range));
    let mapped = |region: maps::Region| {
        let accessible = region.protection != libc::PROT_NONE;
        let ranges = if accessible { vec![region.range] } else { reserved::without(&region.range) };
        let (stack, common) = (region.stack, region.named && !region.shared);
        ranges.into_iter().map(move |range| Mapped { range, stack, accessible, common })
    };
    regions.flat_map(mapped).collect()
}

/// Those of the ranges joined that come one after the other and lie in the same part of this size, a power of two.
fn join(ranges: &[Range<u64>], shift: u32) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if (last.end - 1) >> shift == range.start >> shift => {
                *last = last.start.min(range.start)..last.end.max(range.end);
            }
            _ => joined.push(range.clone()),
        }
    }
    joined
}

/// Which distances will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Multiples of 64 GiB.
    Wide,
    /// Smaller ones, too: the program may soon map memory where the shadow is.
    Any,
}

/// The address space as it is when a shadow is to be placed.
pub(super) struct Layout {
    /// Units in which there is, or will be, something else than shadows.
    foreign: HashSet<u64>,
    /// Units in which there is something, or in which the shadow of another thread may grow.
    taken: HashSet<u64>,
    /// Those that the program has reserved for nothing: there is room if there is none elsewhere, as it may soon make something of them.
    spare: HashSet<u64>,
    /// What needs a shadow, joined.
    program: Vec<Range<u64>>,
    /// The same, piece by piece, and where the stack may grow to.
    pub pieces: Vec<Range<u64>>,
    /// What any thread may access, joined.
    common: Vec<Range<u64>>,
}

impl Layout {
    /// With `stack_moves`, the initial stack is looked at where [`stack_move::place`] puts it. What is about to come is looked
    /// at as if it were there.
    pub fn now(all: &Shadows, stack_moves: bool, coming: Option<&Claim>) -> Self {
        let mut memory = mapped();
        if light::expands() {
            memory.iter_mut().filter(|m| !chosen::is_programs(m.range.start)).for_each(|m| m.accessible = false);
        }
        for memory in memory.iter_mut().filter(|m| m.stack) {
            if stack_moves {
                memory.range = stack_move::place(&memory.range);
            }
            memory.range.start = memory.range.start.saturating_sub(STACK_GROWTH);
        }
        if let Some(claim) = coming {
            let range = claim.range.start..claim.range.end.min(1 << ADDRESS_BITS);
            let claimed = Mapped { range, stack: false, accessible: claim.accessible, common: false };
            memory.extend((!claimed.range.is_empty()).then_some(claimed));
        }
        memory.sort_by_key(|memory| memory.range.start);
        let mut taken: HashSet<u64> = memory.iter().flat_map(|m| units(&m.range)).collect();
        memory.retain(|m| !all.has(m.range.start));
        let mut foreign: HashSet<u64> = memory.iter().flat_map(|m| units(&m.range)).collect();
        taken.extend(all.coming_tables());
        foreign.extend(all.coming_tables());
        // Programs reserve terabytes, of which they make little accessible.
        memory.retain(|m| m.accessible);
        let pieces: Vec<Range<u64>> = memory.iter().map(|m| m.range.clone()).collect();
        let program = join(&pieces, UNIT_SHIFT);
        let common: Vec<Range<u64>> = memory.into_iter().filter(|m| m.common).map(|m| m.range).collect();
        let common = join(&common, GRANULE.trailing_zeros());
        for mapping in all.all.keys() {
            taken.extend(program.iter().filter_map(|range| mapping.units_of(range)).flatten());
        }
        taken.extend(all.claims.keys().map(|start| start >> UNIT_SHIFT));
        for units in program.iter().filter_map(|range| all.first?.units_of(range)) {
            let around = |unit: u64| unit.saturating_sub(AROUND_FIRST)..=unit + AROUND_FIRST;
            foreign.extend(units.first().into_iter().chain(units.last()).flat_map(|unit| around(*unit)));
        }
        let spare = reserved::all().iter().flat_map(units).filter(|unit| !taken.contains(unit)).collect();
        Self { foreign, taken, spare, program, pieces, common }
    }

    /// From here on, there is room in what the program has reserved for nothing. `false` if there was before.
    fn use_spare(&mut self) -> bool {
        !std::mem::take(&mut self.spare).is_empty()
    }

    /// Whether there is room for the shadow of everything.
    fn fits(&self, mapping: Mapping) -> bool {
        // Nothing can be mapped at the very bottom.
        let is_free = |unit: &u64| *unit != 0 && !self.taken.contains(unit) && !self.spare.contains(unit);
        let free = |units: Vec<u64>| units.iter().all(is_free);
        self.program.iter().all(|range| mapping.units_of(range).is_some_and(free))
    }

    /// Whether there is room for the shadow of what any thread accesses, and of what this one `needs`.
    fn fits_in_part(&self, all: &Shadows, mapping: Mapping, needs: &[Range<u64>]) -> bool {
        let mut granules = self.common.iter().chain(needs).flat_map(|range| mapping.granules_of(range));
        let is_free = |unit: u64| !self.foreign.contains(&unit) && !self.spare.contains(&unit);
        granules.all(|start| all.can_have(mapping, start) && is_free(start >> UNIT_SHIFT))
    }

    /// Mappings at a distance, in the order in which they are tried.
    fn distances(&self, steps: Steps) -> impl Iterator<Item = Mapping> + use<> {
        let lowest = self.program.iter().map(|range| range.start).min().unwrap_or_default();
        let highest = self.program.iter().map(|range| range.end).max().unwrap_or_default();
        let stepping = move |shift: u32, bits: Range<u32>| {
            let steps = (1u64 << bits.start.saturating_sub(shift))..1u64 << (bits.end - shift);
            let far = bits.start == FAR;
            let distances = steps.clone().map(move |n| if far { n } else { steps.end - 1 - (n - steps.start) });
            let distances = distances.map(move |n| (n << shift) + COLOUR);
            let upwards = distances.clone().filter(move |by| (highest + by + GRANULE) >> ADDRESS_BITS == 0);
            let downwards = distances.filter(move |by| lowest >= by + LOWEST).map(u64::wrapping_neg);
            upwards.chain(downwards).map(Mapping::Plus)
        };
        // Those of 2^45 and more first, where the usual layout of a process leaves most room; last those where memory grows.
        let shifts = if steps == Steps::Any { &[STEP_SHIFT, UNIT_SHIFT][..] } else { &[STEP_SHIFT] };
        let far = shifts.iter().flat_map(|shift| [(*shift, FAR..ADDRESS_BITS), (*shift, NEAR..FAR)]);
        let near = shifts.iter().map(|shift| (*shift, 0..NEAR));
        far.chain(near).flat_map(move |(shift, bits)| stepping(shift, bits))
    }

    /// Mappings with a key.
    fn keys() -> impl Iterator<Item = Mapping> {
        // Those first between which mappings can grow.
        let all = || (UNITS / 4..UNITS).chain((1..UNITS / 4).rev());
        let far = 1 << (STEP_SHIFT - UNIT_SHIFT);
        all().filter(move |n| n % far == 0).chain(all()).map(|n| Mapping::Xor(n << UNIT_SHIFT))
    }

    pub fn plus(&mut self, steps: Steps) -> Option<Mapping> {
        let find = |layout: &Self| layout.distances(steps).find(|mapping| layout.fits(*mapping));
        find(self).or_else(|| if self.use_spare() { find(self) } else { None })
    }

    pub fn xor(&mut self) -> Option<Mapping> {
        let find = |layout: &Self| Self::keys().find(|mapping| layout.fits(*mapping));
        find(self).or_else(|| if self.use_spare() { find(self) } else { None })
    }
}

type Candidates = Box<dyn Iterator<Item = Mapping> + Send>;

/// Room for the shadows of threads that are still to come. To look at the address space takes the longer the more threads there
/// are, so what was found is used for several. Where it is out of date, a shadow moves.
pub(super) struct Room {
    kind: Kind,
    layout: Layout,
    /// How many more are placed by it.
    left: usize,
    /// What has not been tried yet: for the shadow of everything, and of a part.
    whole: Candidates,
    part: Candidates,
}

/// Where shadows of further threads are to be. Locked behind [`Shadows`].
static COMING: Mutex<Option<Room>> = Mutex::new(None);

impl Room {
    fn now(all: &Shadows, kind: Kind) -> Self {
        // The more there are, the less one more changes.
        Self::new(kind, Layout::now(all, kind == Kind::Distance { stack_moves: true }, None), all.all.len() / 4)
    }

    /// For one shadow, with what is about to come.
    pub fn beside(all: &Shadows, kind: Kind, coming: &Claim) -> Self {
        Self::new(kind, Layout::now(all, kind == Kind::Distance { stack_moves: true }, Some(coming)), 1)
    }

    fn new(kind: Kind, layout: Layout, left: usize) -> Self {
        let (whole, part) = (Self::candidates(kind, &layout), Self::candidates(kind, &layout));
        Self { kind, layout, left, whole, part }
    }

    fn candidates(kind: Kind, layout: &Layout) -> Candidates {
        match kind {
            Kind::Distance { .. } => Box::new(layout.distances(Steps::Any)),
            Kind::Key => Box::new(Layout::keys()),
        }
    }

    /// Places a shadow by what is known here.
    pub fn place_next(&mut self, all: &mut Shadows, needs: &[Range<u64>]) -> Option<Mapping> {
        let mapping = self.next(all, needs)?;
        all.all.entry(mapping).or_default();
        all.claim(mapping, self.layout.common.iter().chain(needs));
        Some(mapping)
    }

    /// Places the shadow of a thread, which needs that of these ranges soon.
    pub fn place(all: &mut Shadows, kind: Kind, needs: &[Range<u64>]) -> Option<Mapping> {
        if kind != Kind::Key && !fs_base::can_be_set() {
            return None;
        }
        let mut coming = COMING.lock();
        let known = coming.take().filter(|room| room.kind == kind && room.left > 0);
        let is_new = known.is_none();
        let mut room = known.unwrap_or_else(|| Self::now(all, kind));
        let found = room.place_next(all, needs);
        if found.is_some() || is_new {
            *coming = Some(room);
            return found;
        }
        drop(coming);
        Self::place(all, kind, needs)
    }

    fn next(&mut self, all: &Shadows, needs: &[Range<u64>]) -> Option<Mapping> {
        self.left = self.left.saturating_sub(1);
        let layout = &mut self.layout;
        let is_new = |mapping: &Mapping| !all.all.contains_key(mapping);
        if let Some(mapping) = self.whole.find(|mapping| is_new(mapping) && layout.fits(*mapping)) {
            layout.taken.extend(layout.program.iter().filter_map(|range| mapping.units_of(range)).flatten());
            return Some(mapping);
        }
        if let found @ Some(_) = self.part.find(|mapping| is_new(mapping) && layout.fits_in_part(all, *mapping, needs))
        {
            return found;
        }
        if !layout.use_spare() {
            return None;
        }
        (self.whole, self.part) = (Self::candidates(self.kind, layout), Self::candidates(self.kind, layout));
        self.next(all, needs)
    }
}
