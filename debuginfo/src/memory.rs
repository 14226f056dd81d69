//! The program's memory, of which some may not be known.

/// Something that can be asked for memory, and says of each byte whether it knows it.
pub trait Memory {
    /// `len` bytes from `addr` on; `None` for each one that is not known. A shorter answer means that what is behind it is
    /// not known.
    fn read(&mut self, addr: u64, len: usize) -> Vec<Option<u8>>;

    /// `len` bytes from `addr` on, if all are known.
    fn known(&mut self, addr: u64, len: usize) -> Option<Vec<u8>> {
        let bytes: Option<Vec<u8>> = self.read(addr, len).into_iter().collect();
        bytes.filter(|bytes| bytes.len() == len)
    }

    /// The function or variable that holds an address of the process, and how far behind its start that is.
    fn symbol(&mut self, _addr: u64) -> Option<(String, u64)> {
        None
    }

    /// An unsigned integer of at most 8 bytes (little-endian) at `addr`, if all of it is known.
    fn unsigned(&mut self, addr: u64, len: usize) -> Option<u64> {
        let bytes = (len <= 8).then(|| self.known(addr, len))??;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

/// No memory is known at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Memory for Nothing {
    fn read(&mut self, _: u64, len: usize) -> Vec<Option<u8>> {
        vec![None; len]
    }
}
