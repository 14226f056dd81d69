//! The package that is being replayed, in memory.

use bugnet_format::control::PACKAGE_FD;
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io::Read;

/// Largest package that is accepted.
const MAX_PACKAGE: u64 = 1 << 40;

/// A package, mapped where the kernel found room.
pub struct Loaded {
    at: *mut c_void,
    len: usize,
    /// Bytes that a package may have in place of this one.
    room: usize,
}

impl Loaded {
    /// Maps the package with which the process was started.
    pub fn first() -> Result<Self, String> {
        // SAFETY: the descriptor is inherited by contract and stays open; a wrong one makes the calls fail.
        let fd = unsafe { BorrowedFd::borrow_raw(PACKAGE_FD) };
        let failed = |e| format!("cannot map the package, descriptor {PACKAGE_FD}: {e}");
        let len = Self::check(u64::try_from(rustix::fs::fstat(fd).map_err(failed)?.st_size).unwrap_or(0))?;
        // SAFETY: a new private mapping at a place of the kernel's choice. Whoever starts the replay process seals the
        // package, or has put it into a file without a name: nobody changes or truncates it under us.
        let at = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, fd, 0) };
        // What is mapped can only be read.
        Ok(Self { at: at.map_err(failed)?, len, room: 0 })
    }

    fn check(len: u64) -> Result<usize, String> {
        if len == 0 || len > MAX_PACKAGE {
            return Err(format!("the package has {len} bytes"));
        }
        Ok(len as usize)
    }

    /// The bytes; they stay until [`Self::replace`].
    pub fn bytes(&self) -> &'static [u8] {
        // SAFETY: mapped, readable, and written by nobody; `replace` has the caller vouch that they are used no more.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.len) }
    }

    /// Reads another package of `len` bytes in place of this one.
    ///
    /// # Safety
    /// Nothing that [`Self::bytes`] returned is used any more.
    pub unsafe fn replace(&mut self, from: &mut impl Read, len: u64) -> Result<(), String> {
        let len = Self::check(len)?;
        let failed = |e: rustix::io::Errno| format!("cannot take up a package of {len} bytes: {e}");
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        if len > self.room {
            // SAFETY: the old mapping is this type's and not used any more, as the caller vouches; the new one is fresh.
            unsafe {
                munmap(self.at, self.len.max(self.room)).map_err(failed)?;
                self.at = mmap_anonymous(std::ptr::null_mut(), len, prot, MapFlags::PRIVATE).map_err(failed)?;
            }
            self.room = len;
        }
        self.len = len;
        // SAFETY: the mapping has room for them, and no other reference to it exists while it is written.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.at.cast::<u8>(), len) };
        from.read_exact(bytes).map_err(|e| format!("cannot receive the package: {e}"))
    }
}
