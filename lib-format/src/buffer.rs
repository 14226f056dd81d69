//! Memory for what is read of a log, which is used again.
//!
//! An interval may take tens of megabytes, and is read several times. Pages that the kernel has to make anew for that take longer than to
//! fill them.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Most buffers that are kept for whoever needs the next one.
const MOST: usize = 4;
/// Sizes of which they are kept, in bytes: memory for smaller ones is made quickly.
const SMALLEST: usize = 1 << 18;
const LARGEST: usize = 1 << 27;

static KEPT: Kept = Kept(Mutex::new(Vec::new()));

/// Memory that nobody uses.
struct Kept(Mutex<Vec<Vec<u8>>>);

impl Kept {
    /// The memory that was used last, without any bytes, or none.
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn keep(&self, mut bytes: Vec<u8>) {
        if (SMALLEST..=LARGEST).contains(&bytes.capacity()) {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < MOST {
                bytes.clear();
                kept.push(bytes);
            }
        }
    }
}

/// Bytes whose memory is kept for the next ones when they are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// Without any bytes, for about so many.
    #[must_use]
    pub fn for_about(bytes: u64) -> Self {
        Self(if bytes < SMALLEST as u64 { Vec::new() } else { KEPT.take() })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        KEPT.keep(std::mem::take(&mut self.0));
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<Buffer> for Vec<u8> {
    fn from(mut buffer: Buffer) -> Self {
        std::mem::take(&mut buffer.0)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_is_used_again() {
        let kept = Kept(Mutex::new(Vec::new()));
        let large = || vec![7; SMALLEST];
        [vec![7; SMALLEST - 1], Vec::with_capacity(LARGEST + 1)].into_iter().for_each(|other| kept.keep(other));
        assert_eq!(kept.take().capacity(), 0);
        (0..MOST + 1).for_each(|_| kept.keep(large()));
        for _ in 0..MOST {
            let taken = kept.take();
            assert!(taken.is_empty() && taken.capacity() >= SMALLEST);
        }
        assert_eq!(kept.take().capacity(), 0);
    }
}
