//! Something for each granule of memory: in pages, of which the ones that were used last are found without a search.

use hashbrown::HashMap;

/// Bytes of a granule.
pub const GRANULE: u64 = 8;
/// Granules of a page, as a power of two.
const PAGE: u32 = 9;
/// Pages that are remembered.
const REMEMBERED: usize = 64;

/// In place of a page: there is none.
const NONE: u32 = u32::MAX;

/// One `T` for each 8 bytes.
pub struct Paged<T> {
    pages: Vec<Box<[T]>>,
    /// By number, where it is in `pages`.
    found: HashMap<u64, u32>,
    /// The pages that were used last, by the lowest bits of their numbers.
    last: Box<[(u64, u32); REMEMBERED]>,
}

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), found: HashMap::new(), last: Box::new([(u64::MAX, 0); REMEMBERED]) }
    }
}

impl<T: Default> Paged<T> {
    /// That of the granule in which an address lies.
    #[inline]
    pub fn at(&mut self, addr: u64) -> &mut T {
        let granule = addr / GRANULE;
        let number = granule >> PAGE;
        let remembered = self.last[number as usize % REMEMBERED];
        let page = if remembered.0 == number && remembered.1 != NONE { remembered.1 } else { self.find(number) };
        &mut self.pages[page as usize][(granule & ((1 << PAGE) - 1)) as usize]
    }

    /// The same, unless there is nothing yet near it.
    #[inline]
    pub fn get(&mut self, addr: u64) -> Option<&mut T> {
        let granule = addr / GRANULE;
        let number = granule >> PAGE;
        let mut remembered = self.last[number as usize % REMEMBERED];
        if remembered.0 != number {
            remembered = (number, self.found.get(&number).copied().unwrap_or(NONE));
            self.last[number as usize % REMEMBERED] = remembered;
        }
        let page = self.pages.get_mut(remembered.1 as usize)?;
        Some(&mut page[(granule & ((1 << PAGE) - 1)) as usize])
    }

    #[cold]
    fn find(&mut self, number: u64) -> u32 {
        let pages = &mut self.pages;
        let page = *self.found.entry(number).or_insert_with(|| {
            pages.push((0..1 << PAGE).map(|_| T::default()).collect());
            (pages.len() - 1) as u32
        });
        self.last[number as usize % REMEMBERED] = (number, page);
        page
    }

    /// Those of all granules that these bytes touch become as they were at the beginning.
    pub fn forget(&mut self, addr: u64, len: u64) {
        let (first, end) = (addr / GRANULE, addr.saturating_add(len).div_ceil(GRANULE));
        let numbers = first >> PAGE..(end >> PAGE) + 1;
        let pages = &mut self.pages;
        let mut clear = |number: u64, page: u32| {
            let from = first.max(number << PAGE) - (number << PAGE);
            let until = end.min((number + 1) << PAGE).saturating_sub(number << PAGE);
            let of_page = &mut pages[page as usize];
            of_page.iter_mut().take(until as usize).skip(from as usize).for_each(|one| *one = T::default());
        };
        if numbers.end - numbers.start > self.found.len() as u64 {
            self.found.iter().filter(|(number, _)| numbers.contains(number)).for_each(|(n, page)| clear(*n, *page));
        } else {
            for number in numbers {
                self.found.get(&number).into_iter().for_each(|page| clear(number, *page));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_granule_has_its_own() {
        let mut all = Paged::<u32>::default();
        for addr in [0, 8, 4096, 1 << 40, (1 << 40) + (64 << 12)] {
            *all.at(addr) += 1;
        }
        assert_eq!([*all.at(7), *all.at(8), *all.at(4100), *all.at(16), *all.at(1 << 40)], [1, 1, 1, 0, 1]);
        assert!(all.get(1 << 30).is_none() && all.get(12).is_some_and(|one| *one == 1));
        *all.at(1 << 30) += 1;
        assert!(all.get(1 << 30).is_some_and(|one| *one == 1));
        all.forget(4, 8);
        assert_eq!([*all.at(0), *all.at(8), *all.at(4096)], [0, 0, 1]);
        all.forget(0, u64::MAX);
        assert_eq!([*all.at(4096), *all.at((1 << 40) + (64 << 12))], [0, 0]);
    }
}
