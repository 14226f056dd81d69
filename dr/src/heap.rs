//! The clients' heap.
//!
//! DynamoRIO's loader redirects `malloc`, `calloc`, `realloc` and `free` of a client to DynamoRIO's own heap, but not
//! `posix_memalign`, which Rust calls for large alignments. That would end in a second libc's heap, which was never set
//! up (older glibc crashes there) and grows by moving the program's break, and DynamoRIO's `free` cannot take back what
//! came from there. So large alignments are made here from plain `malloc`.

use std::alloc::{GlobalAlloc, Layout, System};

/// What `malloc` aligns to.
const MALLOC_ALIGN: usize = 16;

/// An allocator that never calls anything but `malloc`, `calloc`, `realloc` and `free`.
///
/// A block whose alignment is above `MALLOC_ALIGN` lies within a larger one, whose address stands right before it.
#[derive(Debug)]
pub struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

/// The layout to ask [`System`] for: it calls `malloc` for every alignment that is not above the size, and all that
/// `malloc` returns has [`MALLOC_ALIGN`].
fn plain(layout: Layout) -> Option<Layout> {
    let room = if layout.align() > MALLOC_ALIGN { layout.align() } else { 0 };
    Layout::from_size_align(layout.size().checked_add(room)?, 1).ok()
}

// SAFETY: blocks come from `malloc` and are disjoint as its blocks are. Where the alignment is larger, the block begins
// at the next multiple of it in one that is larger by that, so it ends within; there are at least 16 bytes before it,
// since `malloc` returns multiples of 16, and in these stands the address that goes back to `free`.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(outer) = plain(layout) else { return std::ptr::null_mut() };
        // SAFETY: a caller's layout has a size above 0, and this one is no smaller.
        let start = unsafe { System.alloc(outer) };
        if layout.align() <= MALLOC_ALIGN || start.is_null() {
            return start;
        }
        let skip = layout.align() - start.addr() % layout.align();
        // SAFETY: see above; `skip` is between 16 and the alignment, both included, and a multiple of 16.
        unsafe {
            let block = start.add(skip);
            block.cast::<*mut u8>().sub(1).write(start);
            block
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            let Some(outer) = plain(layout) else { return std::ptr::null_mut() };
            // SAFETY: as in `alloc`.
            return unsafe { System.alloc_zeroed(outer) };
        }
        // SAFETY: the caller's promise is that of `alloc`, which returns room for the layout.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` is from `alloc` with this layout, which was possible then, so the outer one is again, and above
        // 16 the start of the outer block stands before it.
        unsafe {
            let outer = plain(layout).unwrap_unchecked();
            let start = if layout.align() <= MALLOC_ALIGN { block } else { block.cast::<*mut u8>().sub(1).read() };
            System.dealloc(start, outer);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: as in `dealloc`; the caller promises that `size` is a possible one.
            return unsafe { System.realloc(block, plain(layout).unwrap_unchecked(), size) };
        }
        // SAFETY: the caller promises that `size` is a possible one for this alignment, and that the old block is valid.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_disjoint_and_keep_their_bytes() {
        let mut blocks = Vec::new();
        for align in (0..13).map(|bit| 1 << bit) {
            for size in [1, 7, 16, 100, 5000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the size is not 0.
                let block = unsafe { HEAP.alloc_zeroed(layout) };
                assert!(!block.is_null() && block.addr() % align == 0, "{layout:?} at {block:?}");
                // SAFETY: the block has room for `size` bytes.
                let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
                assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}");
                bytes.fill(blocks.len() as u8);
                blocks.push((block, layout));
            }
        }
        for (number, (block, layout)) in blocks.into_iter().enumerate() {
            let size = 2 * layout.size() + 33;
            // SAFETY: block and layout belong together, and the new block has room for `size` bytes of which the first
            // `layout.size()` are set.
            unsafe {
                let grown = HEAP.realloc(block, layout, size);
                assert!(!grown.is_null() && grown.addr() % layout.align() == 0, "{layout:?} at {grown:?}");
                let bytes = std::slice::from_raw_parts(grown, layout.size());
                assert!(bytes.iter().all(|&byte| byte == number as u8), "{layout:?}");
                HEAP.dealloc(grown, Layout::from_size_align(size, layout.align()).unwrap());
            }
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let layout = Layout::from_size_align(isize::MAX as usize - 4095, 4096).unwrap();
        // SAFETY: the size is not 0.
        assert!(unsafe { HEAP.alloc(layout) }.is_null());
    }
}
