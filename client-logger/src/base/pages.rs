//! Memory that comes straight from the system. Only what is used of it is there; DynamoRIO's heap, of which thousands of threads
//! share what lies near, would give all of it.

use crate::base::own_memory;
use std::ops::{Deref, DerefMut};

/// Values that begin as zero bytes.
pub struct Pages<T> {
    start: *mut T,
    len: usize,
}

impl<T> Pages<T> {
    /// # Safety
    /// All-zero bytes are a value of the type, which needs nothing done when it is dropped.
    pub unsafe fn zeroed(len: usize) -> Self {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let bytes = len * size_of::<T>();
        // SAFETY: a new mapping that replaces nothing.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            crate::base::die("there is no memory for another thread");
        }
        own_memory::mapped(memory, bytes);
        Self { start: memory.cast(), len }
    }

    /// All of them become zero bytes again, where they are: other memory would change where the program's comes to lie.
    pub fn clear(&mut self) {
        let bytes = self.len * size_of::<T>();
        // SAFETY: a private, anonymous mapping of ours, whose pages the kernel replaces by zeros, which are values of the type.
        if unsafe { libc::madvise(self.start.cast(), bytes, libc::MADV_DONTNEED) } != 0 {
            crate::base::die("the recorder's memory cannot be cleared");
        }
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
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
