//! Memory that comes straight from the system. Only what is used of it is there; DynamoRIO's heap, of which thousands of threads
//! share what lies near, would give all of it.

use crate::base::failure::fail;
use crate::base::own_memory;
use bugnet_format::types::Addr;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};

/// Values that begin as zero bytes.
pub struct Pages<T> {
    start: *mut T,
    len: usize,
    /// In DynamoRIO's heap, which has what it has taken long ago, as the system gives none.
    heap: Option<Layout>,
}

impl<T> Pages<T> {
    /// # Safety
    /// All-zero bytes are a value of the type, which needs nothing done when it is dropped.
    pub unsafe fn zeroed(len: usize) -> Self {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let bytes = len * size_of::<T>();
        // SAFETY: a new mapping that replaces nothing.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if memory != libc::MAP_FAILED {
            own_memory::mapped(memory, bytes);
            return Self { start: memory.cast(), len, heap: None };
        }
        let heap = Layout::from_size_align(bytes, Addr::PAGE as usize).ok().filter(|layout| layout.size() > 0);
        // SAFETY: the layout has a size.
        match heap.map(|layout| unsafe { alloc_zeroed(layout) }) {
            Some(memory) if !memory.is_null() => Self { start: memory.cast(), len, heap },
            _ => fail("there is no memory for another thread"),
        }
    }

    /// All of them become zero bytes again, where they are: other memory would change where the program's comes to lie.
    pub fn clear(&mut self) {
        let bytes = self.len * size_of::<T>();
        if self.heap.is_some() {
            // SAFETY: the memory is ours, and zeros are values of the type.
            unsafe { self.start.cast::<u8>().write_bytes(0, bytes) };
            return;
        }
        // SAFETY: a private, anonymous mapping of ours, whose pages the kernel replaces by zeros, which are values of the type.
        if unsafe { libc::madvise(self.start.cast(), bytes, libc::MADV_DONTNEED) } != 0 {
            fail("the recorder's memory cannot be cleared");
        }
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        if let Some(layout) = self.heap {
            // SAFETY: it was allocated with this layout, and nobody refers to it.
            unsafe { dealloc(self.start.cast(), layout) };
            return;
        }
        own_memory::unmapped(self.start.cast());
        // SAFETY: the mapping is ours, and nobody refers to it.
        unsafe { libc::munmap(self.start.cast(), self.len * size_of::<T>()) };
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds so many values, and is aligned to pages.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl<T> DerefMut for Pages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
