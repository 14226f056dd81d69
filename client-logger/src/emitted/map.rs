//! Maps of blocks: what the instrumentation holds of the program's at each place in the code cache.
//!
//! While a block is built, the instrumentation notes which of its own instructions change that. Nobody tells where DynamoRIO puts a block,
//! but it says how far behind the block's start each instruction lies, just before it lets go of them: this is when a map is made. A map is
//! one of a block in the code cache if the address of the block's site is where the map says. No other block has that site.

use crate::base::fs_base::Guard;
use crate::base::lock::{Mutex, MutexGuard};
use crate::base::memory::read_memory;
use crate::base::process;
use crate::emitted::site::Site;
use bugnet_dr::events::Fragment;
use bugnet_dr::ir::{Emitted, Gpr, Instr};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// What changes at a place in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The program's value of a register is in the register's slot, from here on.
    Spilled(Gpr),
    /// It is back.
    Restored(Gpr),
    /// The program's arithmetic flags are in their slot, from here on.
    FlagsSaved,
    /// They are back, or the program has changed them since.
    FlagsBack,
    /// The block's instructions have been counted.
    Counted,
    /// A register holds the address of a shadow, from here on.
    Shadow(Gpr),
    /// None does.
    NoShadow,
}

/// What the instrumentation holds at a place.
#[derive(Default)]
pub struct Here {
    /// Registers whose program value is in their slot, as bits of [`Gpr::bit`].
    pub spilled: u16,
    /// Whether the program's arithmetic flags are in their slot.
    pub flags_saved: bool,
    /// The register that holds a shadow address.
    pub shadow: Option<Gpr>,
    /// Site of the block's callout for thresholds, if the block's instructions have been counted.
    pub limit: Option<&'static Site>,
}

/// A place in the instrumentation's code: so many bytes behind the start of one of its instructions.
#[derive(Clone, Copy)]
pub struct Place(pub Instr, pub u64);

impl Place {
    /// Where it is in the block that was emitted.
    fn offset(self) -> u32 {
        (self.0.offset() + self.1) as u32
    }

    /// So many bytes further.
    pub fn behind(self, bytes: usize) -> Self {
        Self(self.0, self.1 + bytes as u64)
    }
}

/// A map of a block that is being built.
#[derive(Default)]
pub struct Draft {
    tag: u64,
    /// Where in its callout for thresholds the site's address is, and that.
    site: Option<(Place, u64)>,
    changes: SmallVec<[(Place, Change); 8]>,
}

impl Draft {
    /// At a place, which is there, something changes.
    pub fn note(&mut self, place: Option<Place>, change: Change) {
        self.changes.extend(place.map(|place| (place, change)));
    }

    /// The address of the block's site is at a place.
    pub fn note_site(&mut self, place: Place, site: u64) {
        self.site = Some((place, site));
    }

    /// The block with this tag is about to be emitted.
    pub fn finish(mut self, tag: u64) -> Box<Self> {
        self.tag = tag;
        // A single thread is not in a block while it draws its map.
        if process::threaded() {
            with(|maps| *maps.coming.entry(tag).or_default() += 1);
        }
        Box::new(self)
    }
}

impl Emitted for Draft {
    fn emitted(self: Box<Self>) {
        let _own = Guard::new();
        // It goes before the guard does.
        let draft = self;
        with(|maps| {
            if let Some((place, site)) = draft.site {
                let changes = draft.changes.iter().map(|(place, change)| (place.offset(), *change));
                maps.current.add(draft.tag, (place.offset(), site), changes);
            }
            if let Some(coming) = maps.coming.get_mut(&draft.tag) {
                *coming -= 1;
                if *coming == 0 {
                    maps.coming.remove(&draft.tag);
                }
            }
        });
    }
}

/// A block that was emitted.
struct Map {
    tag: u64,
    /// Where the address of its site is, and that.
    site_at: u32,
    site: u64,
    /// Which of the changes are its own, in the order of their places.
    changes: Range<usize>,
}

impl Map {
    fn is_of(&self, fragment: Fragment) -> bool {
        let mut there = [0; size_of::<u64>()];
        read_memory(fragment.start + u64::from(self.site_at), &mut there) && u64::from_le_bytes(there) == self.site
    }
}

/// The maps of many blocks. Most are never looked at, and to draw one takes little.
#[derive(Default)]
struct Atlas {
    maps: Vec<Map>,
    /// What changes in these blocks, and how many bytes behind their starts.
    changes: Vec<(u32, Change)>,
    /// The first maps by the tags of their blocks: as many as were there when one was last looked for.
    by_tag: HashMap<u64, SmallVec<[u32; 2]>>,
    in_order: usize,
}

impl Atlas {
    fn add(&mut self, tag: u64, (site_at, site): (u32, u64), changes: impl Iterator<Item = (u32, Change)>) {
        let first = self.changes.len();
        self.changes.extend(changes);
        // At the same place, in the order in which they were noted.
        self.changes[first..].sort_by_key(|(offset, _)| *offset);
        self.maps.push(Map { tag, site_at, site, changes: first..self.changes.len() });
    }

    fn find(&mut self, fragment: Fragment) -> Option<&Map> {
        for number in self.in_order..self.maps.len() {
            self.by_tag.entry(self.maps[number].tag).or_default().push(number as u32);
        }
        self.in_order = self.maps.len();
        let numbers = self.by_tag.get(&fragment.tag)?.iter().rev();
        numbers.map(|number| &self.maps[*number as usize]).find(|map| map.is_of(fragment))
    }

    /// What is held so many bytes behind the start of a block.
    fn here(&self, site: u64, changes: Range<usize>, offset: u64) -> Here {
        let mut here = Here::default();
        for (_, change) in self.changes[changes].iter().take_while(|(at, _)| u64::from(*at) <= offset) {
            match *change {
                Change::Spilled(reg) => here.spilled |= reg.bit(),
                Change::Restored(reg) => here.spilled &= !reg.bit(),
                Change::FlagsSaved => here.flags_saved = true,
                Change::FlagsBack => here.flags_saved = false,
                // SAFETY: a site is kept as long as its block, which is being executed.
                Change::Counted => here.limit = unsafe { (site as *const Site).as_ref() },
                Change::Shadow(reg) => here.shadow = Some(reg),
                Change::NoShadow => here.shadow = None,
            }
        }
        here
    }

    /// The same, if the block is one of these.
    fn find_here(&mut self, fragment: Fragment, offset: u64) -> Option<Here> {
        let map = self.find(fragment)?;
        let (site, changes) = (map.site, map.changes.clone());
        Some(self.here(site, changes, offset))
    }
}

#[derive(Default)]
struct Maps {
    /// Of blocks that were built since the last time that all were asked to be thrown away.
    current: Atlas,
    /// Of those before, as long as that has not happened.
    old: Atlas,
    /// Tags of blocks that are about to be emitted, and how many these are.
    coming: HashMap<u64, u32>,
}

static MAPS: Mutex<Option<Maps>> = Mutex::new(None);

fn with<R>(f: impl FnOnce(&mut Maps) -> R) -> R {
    let mut maps: MutexGuard<'_, _> = MAPS.lock();
    f(maps.get_or_insert_default())
}

/// All blocks are asked to be thrown away.
pub fn grow_old() {
    with(|maps| maps.old = std::mem::take(&mut maps.current));
}

/// They have been.
pub fn forget_old() {
    let old = with(|maps| std::mem::take(&mut maps.old));
    drop(old);
}

/// What the instrumentation holds at `pc` in a block; nothing where a block is not one of the program's instructions.
pub fn here(fragment: Fragment, pc: u64) -> Here {
    let offset = pc.wrapping_sub(fragment.start);
    loop {
        let (found, comes) = with(|maps| {
            let found = maps.current.find_here(fragment, offset).or_else(|| maps.old.find_here(fragment, offset));
            (found, maps.coming.contains_key(&fragment.tag))
        });
        match found {
            Some(here) => return here,
            None if !comes => return Here::default(),
            // Another thread has just emitted it, and this one was there before that has drawn its map.
            None => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emitted::lies::Where;
    use crate::emitted::site::Kind;

    /// What a map says at each of 10 offsets: registers, flags, the shadow's register, and whether the block has been counted.
    fn all(changes: &[(u32, Change)]) -> Vec<(u16, bool, Option<u8>, bool)> {
        let site = Site { pc: 0, back: 3, kind: Kind::Limit { flags: 0, saved: false }, lies: Where::InBlock };
        let site = &raw const site as u64;
        let mut atlas = Atlas::default();
        // Another block's come first.
        atlas.add(1, (0, 0), [(0, Change::FlagsSaved)].into_iter());
        atlas.add(2, (0, site), changes.iter().copied());
        let of_block = atlas.maps[1].changes.clone();
        let at = |offset| {
            let here = atlas.here(site, of_block.clone(), offset);
            (
                here.spilled,
                here.flags_saved,
                here.shadow.map(|reg| reg.0),
                here.limit.is_some_and(|site| site.back == 3),
            )
        };
        (0..10).map(at).collect()
    }

    #[test]
    fn what_is_held_changes_from_place_to_place() {
        let (rax, rbx) = (Gpr::RAX, Gpr(3));
        let changes = [
            (1, Change::Spilled(rax)),
            (2, Change::Restored(rax)),
            (2, Change::Counted),
            (3, Change::Spilled(rbx)),
            (4, Change::FlagsSaved),
            (5, Change::Shadow(rbx)),
            (6, Change::NoShadow),
            (7, Change::FlagsBack),
            (8, Change::Restored(rbx)),
        ];
        let (a, b) = (rax.bit(), rbx.bit());
        let expected = [
            (0, false, None, false),
            (a, false, None, false),
            (0, false, None, true),
            (b, false, None, true),
            (b, true, None, true),
            (b, true, Some(3), true),
            (b, true, None, true),
            (b, false, None, true),
            (0, false, None, true),
            (0, false, None, true),
        ];
        assert_eq!(all(&changes), expected);
        assert_eq!(all(&[]), [(0, false, None, false); 10]);
    }
}
