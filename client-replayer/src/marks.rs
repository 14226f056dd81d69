//! Marks: which bytes instructions have accessed, and which they have written, put down by the code cache itself.
//!
//! Each byte of the program's memory has two in a region to which FS points: one that is not zero once the byte was read, and some 2 GiB
//! before it one for writes ([`crate::places`]). Where places are narrow, an instruction is marked by `mov fs:[operand + constant], -1`, the
//! operand being its own.
//!
//! Memory that has the same place in the region as other memory ([`Owners::claim`]) cannot be told from it. Behind a mark, the memory is
//! accessed, and where that is new, it comes by a fault: there it is found out, what the mark may have spoilt is in doubt
//! ([`Marks::doubt`]), and other places are taken that tell all memory apart that there is. Where there are none, the client is called at
//! each access from then on ([`crate::touched`]).

use crate::places::{Owners, Places, Plane};
use bugnet_dr::zeroing::{self, Used};
use bugnet_format::types::Addr;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::Range;

/// Most bytes of marks that stay in memory from one package to the next.
const MOST_KEPT: usize = 128 << 20;
/// Most bytes of an access that is marked.
pub const MOST: u64 = 64;
const PLANES: [Plane; 2] = [Plane::First, Plane::Written];
/// Bytes of a line.
pub const LINE: usize = Addr::PAGE as usize / 64;

/// The region.
pub struct Marks {
    /// The memory for it.
    room: u64,
    owners: Owners,
    /// How often the marks were cleared.
    turn: u64,
}

impl Marks {
    /// New ones, without any mark, of memory in these pieces. `window` is the replay process's own.
    ///
    /// `None` where these places do not tell the memory apart, or the machine cannot do it: its processor or kernel keeps FS to itself or
    /// has no `pext`, or there is not as much address space.
    pub fn new(window: &Range<u64>, places: Places, pieces: impl Iterator<Item = u64>) -> Option<Self> {
        let owners = Owners::new(places, &PLANES, pieces)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let len = places.room();
        // SAFETY: asks for fresh memory.
        let region = unsafe { mmap_anonymous(std::ptr::null_mut(), len as usize, prot, flags) }.ok()?;
        let room = region as u64;
        let marks = Self { room, owners, turn: 0 };
        // SAFETY: advice on what was just mapped; marks lie far apart.
        let _ = unsafe { madvise(region, len as usize, Advice::LinuxNoHugepage) };
        (window.contains(&room) && window.contains(&(room + len))).then_some(marks)
    }

    /// How they are found.
    pub fn places(&self) -> Places {
        self.owners.places()
    }

    /// Its address.
    fn start(&self) -> u64 {
        self.places().start(self.room)
    }

    /// What FS has to have for its base.
    pub fn base(&self) -> u64 {
        self.start() + self.places().base()
    }

    /// Gives the memory of a piece its places; `false` if one of them is other memory's.
    pub fn claim(&mut self, piece: u64) -> bool {
        self.owners.claim(piece)
    }

    /// Pages of memory with places that have any marks and of which some is in a range, in ascending order. Most have none when one looks often.
    pub fn marked_pages(&self, start: u64, end: u64) -> Vec<u64> {
        let Some(used) = Used::find(self.region()) else {
            return self.owners.pages(start, end).filter(|page| self.has_any(*page)).collect();
        };
        let is_zero = |at: u64| {
            // SAFETY: a page of the kernel's in the region, which lives as long as this; the code cache does not run.
            let words = unsafe { &*(at as *const [u64; Addr::PAGE as usize / 8]) };
            words.iter().fold(0, |all, word| all | word) == 0
        };
        // The places of a page of memory begin somewhere in a page of the kernel's.
        let places = used.pages().filter(|at| !is_zero(*at)).flat_map(|at| [at, at + Addr::PAGE - 1]);
        let owners = places.filter_map(|at| self.owners.owner(at.checked_sub(self.start())?));
        let first = start & !(Addr::PAGE - 1);
        let mut pages: Vec<u64> =
            owners.map(|addr| addr & !(Addr::PAGE - 1)).filter(|page| (first..end).contains(page)).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// What of the region is somebody's.
    fn region(&self) -> impl Iterator<Item = Range<u64>> {
        let start = self.start();
        self.owners.owned().iter().map(move |range| start + range.start..start + range.end)
    }

    /// Whether the memory at an address has a place.
    pub fn has(&self, addr: u64) -> bool {
        self.owners.has(addr)
    }

    /// Takes the marks of a line of memory with a place: the bytes that were accessed, a bit each, and those that were written.
    pub fn take(&mut self, addr: u64) -> (u64, u64) {
        let at = |plane| self.start() + self.places().of(addr, plane);
        // SAFETY: lines of the region, which lives as long as this; the code cache does not run.
        let [read, written] = PLANES.map(|plane| unsafe { take_line(at(plane)) });
        (read | written, written)
    }

    /// Whether a page of memory with places has any marks.
    fn has_any(&self, page: u64) -> bool {
        PLANES.into_iter().any(|plane| {
            let at = self.start() + self.places().of(page, plane);
            // SAFETY: the places of a page lie together in the region, which lives as long as this; the code cache does not run.
            let words = unsafe { &*(at as *const [u64; Addr::PAGE as usize / 8]) };
            words.iter().fold(0, |all, word| all | word) != 0
        })
    }

    /// Takes the marks of an access away whose memory has the same places as other memory, and says of which bytes of that they may have been.
    pub fn doubt(&mut self, addr: u64, len: u64) -> Vec<u64> {
        let mut others = Vec::new();
        for at in addr..addr.saturating_add(len.min(MOST)) {
            for plane in PLANES {
                let place = self.places().of(at, plane);
                if let Some(other) = self.owners.owner(place).filter(|other| *other != at) {
                    // SAFETY: a byte of the region, which lives as long as this; the code cache does not run.
                    unsafe { ((self.start() + place) as *mut u8).write(0) };
                    others.push(other);
                }
            }
        }
        others
    }

    /// Takes all marks away.
    ///
    /// # Errors
    /// An address at which the kernel refuses to.
    pub fn clear(&mut self) -> Result<(), u64> {
        self.turn += 1;
        // SAFETY: the region is this type's, to which nobody has a reference, and the code cache does not run.
        unsafe { zeroing::zero_again(self.region(), self.turn, MOST_KEPT) }
    }
}

/// Takes the marks of a line, a bit each.
///
/// # Safety
/// Nobody else uses the [`LINE`] bytes at this address, a multiple of that.
pub unsafe fn take_line(at: u64) -> u64 {
    // SAFETY: the caller's promise.
    let line = unsafe { &mut *(at as *mut [u64; LINE / 8]) };
    if line.iter().fold(0, |all, word| all | word) == 0 {
        return 0;
    }
    // The lowest bits of eight bytes, as bits of one.
    let bits = |word: u64| (word & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let all = line.iter().rev().fold(0, |all, word| all << 8 | bits(*word));
    *line = [0; LINE / 8];
    all
}

impl Drop for Marks {
    fn drop(&mut self) {
        // SAFETY: the region is this type's; whoever drops it has taken it from FS.
        let _ = unsafe { munmap(self.room as *mut _, self.places().room() as usize) };
    }
}
