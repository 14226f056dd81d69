//! Something for each page of memory that is used, found fast.

use bugnet_format::types::Addr;
use hashbrown::HashMap;

/// Pages whose place is remembered, by the lowest bits of their numbers.
const RECENT: usize = 256;
/// What stands for none of them: no page begins there.
const NO_PAGE: u64 = u64::MAX;

/// A `T` for each page.
pub struct Pages<T> {
    places: HashMap<u64, u32>,
    pages: Vec<Box<T>>,
    recent: [(u64, u32); RECENT],
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { places: HashMap::new(), pages: Vec::new(), recent: [(NO_PAGE, 0); RECENT] }
    }
}

impl<T> Pages<T> {
    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// All, with their addresses.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let mut addresses = vec![0; self.pages.len()];
        for (address, place) in &self.places {
            addresses[*place as usize] = *address;
        }
        addresses.into_iter().zip(self.pages.iter_mut().map(|page| &mut **page))
    }

    /// That of the page at this address, if there is one.
    pub fn get(&self, page: u64) -> Option<&T> {
        self.places.get(&page).map(|place| &*self.pages[*place as usize])
    }

    /// That of the page at this address, if there is one.
    pub fn get_mut(&mut self, page: u64) -> Option<&mut T> {
        self.places.get(&page).map(|place| &mut *self.pages[*place as usize])
    }

    /// That of the page at this address; a new one if there is none.
    #[inline]
    pub fn get_or_insert(&mut self, page: u64, new: impl FnOnce() -> Box<T>) -> &mut T {
        let recent = &mut self.recent[(page / Addr::PAGE) as usize % RECENT];
        if recent.0 != page {
            let place = *self.places.entry(page).or_insert_with(|| {
                self.pages.push(new());
                self.pages.len() as u32 - 1
            });
            *recent = (page, place);
        }
        &mut self.pages[recent.1 as usize]
    }
}
