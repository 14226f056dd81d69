//! What calls mean for the heap, whoever keeps it: which blocks are given out and taken back by a function of an allocator, and what a system call
//! maps.

use crate::heap::Heap;
use bugnet_format::allocator::{Does, Size};
use bugnet_format::types::Addr;

/// What a function of an allocator has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// It has taken back the block that begins here.
    pub taken: Option<u64>,
    /// It has given a block out.
    pub given: Option<Given>,
    /// The block that begins here may be used up to so many bytes.
    pub told: Option<(u64, u64)>,
}

/// A block that was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Where it begins, if that is known.
    pub start: Option<u64>,
    /// Bytes that were asked for, if they are known.
    pub size: Option<u64>,
    /// How many bytes have what the block had before that was made larger or smaller: all, where it is not known how many it had.
    pub keeps: u64,
}

impl Outcome {
    /// Of a function that has returned. `args`: its arguments, as far as they are known; `stored`: what it has stored where its first argument points.
    #[must_use]
    pub fn of<C>(
        does: Does,
        args: &[Option<u64>; 6],
        result: Option<u64>,
        stored: impl FnOnce() -> Option<u64>,
        heap: &Heap<C>,
    ) -> Self {
        let size = |size: Size| match size {
            Size::Arg(number) => args[usize::from(number)],
            Size::Product(one, other) => Some(args[usize::from(one)]?.wrapping_mul(args[usize::from(other)]?)),
        };
        let given = |start: Option<u64>, size: Option<u64>, keeps: u64| {
            (start != Some(0)).then_some(Given { start, size, keeps })
        };
        match does {
            Does::Allocate(bytes) => Self { given: given(result, size(bytes), 0), ..Self::default() },
            Does::Store(bytes) if result == Some(0) => {
                Self { given: given(stored(), size(bytes), 0), ..Self::default() }
            }
            Does::Resize(number, bytes) => {
                let (before, bytes) = (args[usize::from(number)].unwrap_or(0), size(bytes));
                let had = heap.block(before).map_or(u64::MAX, |block| block.size.unwrap_or(u64::MAX));
                let keeps = if before == 0 { 0 } else { had };
                let old = Some(before).filter(|before| *before != 0);
                match result {
                    Some(0) if bytes == Some(0) => Self { taken: old, ..Self::default() },
                    Some(0) => Self::default(),
                    _ => Self { taken: old.filter(|_| result != old), given: given(result, bytes, keeps), told: None },
                }
            }
            Does::Tell => {
                let told = args[0].zip(result).filter(|(start, size)| {
                    heap.block(*start).is_some_and(|block| block.size.is_some_and(|own| own < *size))
                });
                Self { told, ..Self::default() }
            }
            Does::Store(_) | Does::Release(_) => Self::default(),
        }
    }
}

/// Whether an address may be that of a block that was given out before the log begins.
#[must_use]
pub fn may_be_older<C>(heap: &Heap<C>, addr: u64) -> bool {
    heap.holding(addr).is_none() && heap.given_back(addr).is_none()
}

/// What a system call maps, by its number, its arguments and its result; `false` if it maps nothing. `is_inside`: an allocator makes it.
pub fn maps<C>(heap: &mut Heap<C>, (number, args, result): (u64, &[u64; 6], i64), is_inside: bool) -> bool {
    let page = |len: u64| len.next_multiple_of(Addr::PAGE);
    let Some(done) = u64::try_from(result).ok().filter(|result| *result < (1 << 47)) else { return false };
    match number.cast_signed() {
        libc::SYS_mmap => {
            let range = done..done + page(args[1]);
            if is_inside { heap.own(range) } else { heap.mapped(range) }
        }
        libc::SYS_munmap => heap.forget(args[0]..args[0].saturating_add(page(args[1]))),
        libc::SYS_mremap => {
            heap.forget(args[0]..args[0].saturating_add(page(args[1])));
            let range = done..done + page(args[2]);
            if is_inside { heap.own(range) } else { heap.mapped(range) }
        }
        libc::SYS_brk => heap.moved_break(done, is_inside),
        _ => return false,
    }
    true
}
