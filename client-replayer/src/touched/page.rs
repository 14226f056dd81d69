//! What is known of a page.

use crate::marks::LINE;
use crate::ranges::Ranges;
use bugnet_format::types::Addr;
use hashbrown::HashMap;

pub const PAGE: u64 = Addr::PAGE;
/// Lines of a page.
const LINES: usize = PAGE as usize / LINE;
/// Pages that are found fast.
const RECENT: usize = 256;

/// The bytes of a page, a bit each: a word for each line.
pub type Bits = [u64; LINES];

/// A page that was accessed.
pub struct Page {
    pub known: Bits,
    /// The lines of which something was accessed, a bit each.
    pub accessed: u64,
    /// The lines of which something was written: by an instruction, or from outside after something else had been seen there.
    pub written: u64,
    /// The bytes of which that is true.
    pub stored: Bits,
    /// What was there in the beginning, as far as it is kept: see [`Page::find`].
    pub found: Option<Box<Found>>,
}

/// What a page was.
pub struct Found {
    pub known: Bits,
    pub bytes: [u8; PAGE as usize],
}

impl Page {
    fn new() -> Self {
        Self { known: [0; LINES], accessed: 0, written: 0, stored: [0; LINES], found: None }
    }

    /// The bytes of a line that were read and not written, nor changed otherwise before, so that they are what they were in the beginning; without
    /// those of which that is kept already. The page begins at `start`.
    fn as_before(&self, start: u64, line: usize, changed: &Ranges) -> u64 {
        let found = self.found.as_ref().map_or(0, |found| found.known[line]);
        match self.known[line] & !self.stored[line] & !found {
            0 => 0,
            seen => seen & !changed.bits(start + (line * LINE) as u64),
        }
    }

    /// These bytes of a line were there in the beginning.
    fn find(&mut self, line: usize, bits: u64, byte: impl Fn(usize) -> u8) {
        if bits == 0 {
            return;
        }
        let found = self.found.get_or_insert_with(|| Box::new(Found { known: [0; LINES], bytes: [0; PAGE as usize] }));
        found.known[line] |= bits;
        for_each(bits, |bit| found.bytes[line * LINE + bit] = byte(line * LINE + bit));
    }

    /// Keeps what is now as it was in the beginning, of these bytes of a line. `read`: the line's bytes.
    pub fn keep(&mut self, start: u64, line: usize, mask: u64, changed: &Ranges, read: impl FnOnce() -> Vec<u8>) {
        let seen = self.as_before(start, line, changed) & mask;
        if seen != 0 {
            let bytes = read();
            self.find(line, seen, |at| bytes.get(at % LINE).copied().unwrap_or_default());
        }
    }

    /// A record puts bytes into a line, where `now` is what it has so far.
    pub fn put(
        &mut self,
        start: u64,
        (line, mask): (usize, u64),
        changed: Option<&Ranges>,
        new: impl Fn(usize) -> u8,
        now: impl Fn(usize) -> u8,
    ) {
        let mut others = 0;
        for_each(mask & self.known[line], |bit| {
            let at = line * LINE + bit;
            others |= u64::from(new(at) != now(at)) << bit;
        });
        if let Some(changed) = changed {
            let open = mask & !self.known[line] & !self.stored[line];
            let open = if open == 0 { 0 } else { open & !changed.bits(start + (line * LINE) as u64) };
            self.find(line, open, new);
            let before = if others == 0 { 0 } else { others & self.as_before(start, line, changed) };
            self.find(line, before, now);
        }
        // What was seen there before was something else.
        self.stored[line] |= others;
        self.written |= u64::from(others != 0) << line;
        self.known[line] |= mask;
        self.accessed |= 1 << line;
    }
}

/// Each bit that is set, by its number.
fn for_each(mut bits: u64, mut f: impl FnMut(usize)) {
    while bits != 0 {
        f(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// Pages that were accessed, by address.
pub struct Pages {
    pub all: Vec<Page>,
    pub numbers: HashMap<u64, u32>,
    /// Pages that were accessed lately and their numbers, by the lowest bits of their address.
    recent: [(u64, u32); RECENT],
}

impl Default for Pages {
    fn default() -> Self {
        // No page begins there.
        Self { all: Vec::new(), numbers: HashMap::new(), recent: [(u64::MAX, 0); RECENT] }
    }
}

impl Pages {
    pub fn get(&self, page: u64) -> Option<&Page> {
        self.numbers.get(&page).map(|number| &self.all[*number as usize])
    }

    pub fn get_mut(&mut self, page: u64) -> Option<&mut Page> {
        self.numbers.get(&page).map(|number| &mut self.all[*number as usize])
    }

    /// The page, new if there is none.
    #[inline]
    pub fn make(&mut self, page: u64) -> &mut Page {
        let slot = (page / PAGE) as usize % RECENT;
        if self.recent[slot].0 != page {
            let number = *self.numbers.entry(page).or_insert_with(|| {
                self.all.push(Page::new());
                (self.all.len() - 1) as u32
            });
            self.recent[slot] = (page, number);
        }
        &mut self.all[self.recent[slot].1 as usize]
    }
}

/// The pages of a range, each with the first of its bytes that are in it and the first one behind.
pub fn pieces(at: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = at.saturating_add(len);
    let mut from = at;
    std::iter::from_fn(move || {
        let page = from - from % PAGE;
        let to = end.min(page.saturating_add(PAGE));
        let piece = (page, (from - page) as usize, (to.max(page) - page) as usize);
        let any = from < to;
        from = to;
        any.then_some(piece)
    })
}

/// The lines of a page in which bytes `first..end` lie, each with a bit for each of these bytes.
pub fn lines(first: usize, end: usize) -> impl Iterator<Item = (usize, u64)> {
    (first / LINE..end.div_ceil(LINE)).map(move |line| {
        let low = first.saturating_sub(LINE * line);
        let high = (end - LINE * line).min(LINE);
        (line, (u64::MAX >> (LINE - (high - low))) << low)
    })
}
