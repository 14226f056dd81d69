//! Regions of the address space, one for each thread, in which the code cache finds the planes of [`super::Pictures`].

use super::{PAGE, Page};
use crate::marks::{LINE, take_line};
use crate::places::{Owners, PIECE, Places, Plane, joined};
use bugnet_dr::zeroing::{self, Used};
use bugnet_format::types::Addr;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

/// Bytes of a room.
pub const ROOM: u64 = 1 << 35;
/// Most bytes of a region that stay in memory from one interval to the next.
const MOST_KEPT: usize = 128 << 20;

/// Parts of the address space, of [`ROOM`] bytes each, in which the program has nothing, by their addresses. The host has reserved them.
#[derive(Default)]
pub struct Rooms(Vec<u64>);

impl Rooms {
    /// These ones.
    ///
    /// # Safety
    /// Nobody else uses memory there.
    pub unsafe fn new(rooms: Vec<u64>) -> Self {
        Self(rooms)
    }
}

/// The regions.
pub struct Regions {
    owners: Owners,
    planes: &'static [Plane],
    /// Memory that has a place, in the order in which it got it.
    pieces: Vec<u64>,
    /// The memory for each.
    own: Vec<u64>,
    /// Whether there may be marks in them.
    marked: Vec<bool>,
    /// The rooms in which they lie.
    rooms: Vec<u64>,
    /// How often some were made zero.
    turn: u64,
}

impl Regions {
    /// New ones for so many threads, for memory in these pieces. `None` where the places do not tell it apart, or there is no room.
    pub fn new(
        places: Places,
        planes: &'static [Plane],
        pieces: &[u64],
        threads: usize,
        rooms: &mut Rooms,
    ) -> Option<Self> {
        let owners = Owners::new(places, planes, pieces.iter().copied())?;
        let size = places.room().next_multiple_of(PIECE);
        let in_room = (ROOM / size) as usize;
        let needed = threads.div_ceil(in_room);
        if rooms.0.len() < needed {
            return None;
        }
        let rooms_of_all = rooms.0.len() - needed;
        let taken = rooms.0.split_off(rooms_of_all);
        let own = (0..threads).map(|thread| taken[thread / in_room] + (thread % in_room) as u64 * size).collect();
        let marked = vec![false; threads];
        let regions = Self { owners, planes, marked, pieces: pieces.to_vec(), own, rooms: taken, turn: 0 };
        if regions.own.iter().all(|own| map(*own, places.room(), ProtFlags::READ | ProtFlags::WRITE)) {
            return Some(regions);
        }
        regions.give_back(rooms);
        None
    }

    /// Lets their memory go.
    pub fn give_back(mut self, rooms: &mut Rooms) {
        rooms.0.append(&mut self.rooms);
    }

    /// How they are found.
    pub fn places(&self) -> Places {
        self.owners.places()
    }

    /// Where a thread's begins.
    fn start(&self, thread: usize) -> u64 {
        self.places().start(self.own[thread])
    }

    /// What FS has to have for its base while a thread runs.
    pub fn base(&self, thread: usize) -> u64 {
        self.start(thread) + self.places().base()
    }

    /// Gives the memory of a piece its places; `false` if one of them is other memory's: nothing here is of use then but what was there.
    pub fn claim(&mut self, piece: u64) -> bool {
        if !self.owners.has(piece) {
            if !self.owners.claim(piece) {
                return false;
            }
            self.pieces.push(piece);
        }
        true
    }

    /// Memory that has a place, in the order in which it got it.
    pub fn pieces(&self) -> &[u64] {
        &self.pieces
    }

    /// Whether the memory at an address has a place.
    pub fn has(&self, addr: u64) -> bool {
        self.owners.has(addr)
    }

    /// The pages with places that lie in a range.
    pub fn pages(&self, start: u64, end: u64) -> impl Iterator<Item = u64> {
        self.owners.pages(start, end)
    }

    /// Where a page of memory with a place has one of a thread's planes. It is there as long as this is.
    pub fn at(&self, thread: usize, page: u64, plane: Plane) -> *mut Page {
        (self.start(thread) + self.places().of(page, plane)) as *mut Page
    }

    /// A thread is going to run.
    pub fn runs(&mut self, thread: usize) {
        self.marked[thread] = true;
    }

    /// Takes all that others have of these threads, whose memory is a part of what these are for.
    pub fn take_over(&mut self, old: &Self, threads: &[usize]) {
        self.marked.clone_from(&old.marked);
        for (thread, plane) in threads.iter().flat_map(|thread| self.planes.iter().map(move |plane| (*thread, *plane)))
        {
            for page in old.used(thread, plane) {
                // SAFETY: pages of two regions, which are these types' and to which nobody has a reference; the code cache does not run.
                unsafe { self.at(thread, page, plane).write(*old.at(thread, page, plane)) };
            }
        }
    }

    /// The pages of memory of which there is something in a thread's plane.
    pub fn used(&self, thread: usize, plane: Plane) -> Vec<u64> {
        let start = self.start(thread);
        let place = |piece: &u64| (start + self.places().of(*piece, plane), *piece);
        let mut places: Vec<(u64, u64)> = self.pieces.iter().map(place).collect();
        places.sort_unstable();
        let ranges = joined(places.iter().map(|(place, _)| *place));
        let mut pages: Vec<u64> = match Used::find(ranges.into_iter()) {
            // The places of a page lie in two pages.
            Some(used) => {
                let ends = used.pages().flat_map(|at| [at, at + Addr::PAGE - 1]);
                let page = |at: u64| {
                    let (place, piece) = places[places.partition_point(|(place, _)| *place <= at).checked_sub(1)?];
                    (at - place < PIECE).then_some(piece + ((at - place) & !(Addr::PAGE - 1)))
                };
                ends.filter_map(page).collect()
            }
            // The kernel does not tell.
            None => self.pieces.iter().flat_map(|piece| (*piece..piece + PIECE).step_by(PAGE)).collect(),
        };
        pages.sort_unstable();
        pages.dedup();
        // SAFETY: pages of a region, to which nobody has a reference; the code cache does not run.
        pages.retain(|page| unsafe { &*self.at(thread, *page, plane) } != &[0; PAGE]);
        pages
    }

    /// Puts what a thread has stored, and its marks, to those of another one: both, byte by byte. It has none any more.
    ///
    /// # Errors
    /// As for [`Self::reset`].
    pub fn join(&mut self, thread: usize, other: usize, of_both: impl Fn(u8, u8) -> u8) -> Result<(), u64> {
        for plane in self.planes.iter().copied().filter(|plane| *plane != Plane::First) {
            for page in self.used(thread, plane) {
                // SAFETY: pages of two regions, to which nobody has a reference; the code cache does not run.
                let (to, from) = unsafe { (&mut *self.at(other, page, plane), &*self.at(thread, page, plane)) };
                to.iter_mut().zip(from).for_each(|(to, from)| *to = of_both(*to, *from));
            }
        }
        self.marked[other] |= std::mem::take(&mut self.marked[thread]);
        // It does not run again.
        let own = self.own[thread];
        map(own, self.places().room(), ProtFlags::READ | ProtFlags::WRITE).then_some(()).ok_or(own)
    }

    /// Takes the marks of a line of memory with a place, of all threads: the bytes that were accessed, a bit each, and those that were
    /// written.
    fn take(&self, addr: u64) -> (u64, u64) {
        let (mut read, mut written) = (0, 0);
        for thread in (0..self.own.len()).filter(|thread| self.marked[*thread]) {
            let start = self.start(thread);
            // SAFETY: lines of a region, as above.
            unsafe {
                read |= take_line(start + self.places().of(addr, Plane::Read));
                written |= take_line(start + self.places().of(addr, Plane::Written));
            }
        }
        (read | written, written)
    }

    /// Makes zero what a thread would find.
    ///
    /// # Errors
    /// An address at which the kernel refuses to.
    pub fn reset(&mut self, thread: usize) -> Result<(), u64> {
        let start = self.start(thread);
        let mut places: Vec<u64> =
            self.pieces.iter().map(|piece| start + self.places().of(*piece, Plane::First)).collect();
        places.sort_unstable();
        self.turn += 1;
        // SAFETY: a part of a region, to which nobody has a reference; the code cache does not run.
        unsafe { zeroing::zero_again(joined(places.into_iter()), self.turn, MOST_KEPT) }
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        // The address space stays reserved.
        let size = self.places().room();
        for own in &self.own {
            let _ = map(*own, size, ProtFlags::empty());
        }
    }
}

/// The regions, if there are some, for all who need them.
#[derive(Clone, Default)]
pub struct Shared(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    now: Option<Regions>,
    /// Those that there were before, as long as nobody has taken their marks.
    before: Option<Regions>,
}

impl Shared {
    /// Does something with the regions, if there are some.
    pub fn with<T>(&self, what: impl FnOnce(&mut Regions) -> T) -> Option<T> {
        self.0.borrow_mut().now.as_mut().map(what)
    }

    /// There are others from here on, or none; the ones before.
    pub fn replace(&self, new: Option<Regions>) -> Option<Regions> {
        std::mem::replace(&mut self.0.borrow_mut().now, new)
    }

    /// These are no regions any more, but their marks are of use.
    pub fn set_aside(&self, old: Regions) {
        self.0.borrow_mut().before = Some(old);
    }

    /// All marks have been taken.
    pub fn are_taken(&self) {
        self.0.borrow_mut().before = None;
    }

    /// Takes the marks of all lines that lie in a range, and says for each which it is, which of its bytes were accessed, and which written.
    pub fn take(&self, start: u64, end: u64, mut each: impl FnMut(u64, u64, u64)) {
        let mut inner = self.0.borrow_mut();
        let Inner { now, before } = &mut *inner;
        for regions in [now, before].into_iter().flatten() {
            let mut line = |at| match regions.take(at) {
                (0, _) => {}
                (accessed, written) => each(at, accessed, written),
            };
            let start = start & !(LINE as u64 - 1);
            if end.saturating_sub(start) <= Addr::PAGE {
                (start..end).step_by(LINE).filter(|at| regions.has(*at)).for_each(&mut line);
                continue;
            }
            for page in regions.pages(start, end) {
                (page.max(start)..end.min(page + Addr::PAGE)).step_by(LINE).for_each(&mut line);
            }
            if (start, end) == (0, u64::MAX) {
                regions.marked.fill(false);
            }
        }
    }
}

/// Maps fresh memory over a part of a room; `false` if the kernel refuses.
fn map(start: u64, len: u64, prot: ProtFlags) -> bool {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: a part of a room, where nobody else has memory, by contract; nobody has a reference to what was there.
    let mapped = unsafe { mmap_anonymous(start as *mut c_void, len as usize, prot, flags) };
    if mapped.is_ok() && !prot.is_empty() {
        // SAFETY: advice on what was just mapped; what is used there lies far apart.
        let _ = unsafe { madvise(start as *mut c_void, len as usize, Advice::LinuxNoHugepage) };
    }
    mapped.is_ok()
}
