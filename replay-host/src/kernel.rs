//! The few system calls that are needed.

use crate::report::Failure;
use core::arch::asm;
use core::ffi::CStr;

const READ: usize = 0;
const WRITE: usize = 1;
const OPEN: usize = 2;
const MMAP: usize = 9;
const MPROTECT: usize = 10;
const EXIT_GROUP: usize = 231;

/// Page may be read.
pub const PROT_READ: usize = 1;
/// Page may be written.
pub const PROT_WRITE: usize = 2;
/// Page may be executed.
pub const PROT_EXEC: usize = 4;
/// Replace what is mapped there.
pub const MAP_FIXED: usize = 0x10;
/// Fail if something is mapped there.
pub const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;
const O_CLOEXEC: usize = 0o2_000_000;

/// # Safety
/// As the system call demands.
unsafe fn call(number: usize, args: [usize; 6]) -> Result<usize, i32> {
    let result: isize;
    // SAFETY: the kernel preserves all registers but these; what the call does is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

/// An open file; it stays open until the process replaces itself.
#[derive(Clone, Copy)]
pub struct File(usize);

/// Opens a file for reading.
pub fn open(path: &CStr, what: &'static str) -> Result<File, Failure> {
    // SAFETY: a path that ends with a zero byte; no flag that creates anything.
    let fd = unsafe { call(OPEN, [path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0, 0]) };
    fd.map(File).map_err(|e| Failure::new(what, e))
}

/// Reads from the start of a freshly opened file.
pub fn read(file: File, buffer: &mut [u8], what: &'static str) -> Result<usize, Failure> {
    // SAFETY: the buffer is writable and as long as stated.
    let read = unsafe { call(READ, [file.0, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) };
    read.map_err(|e| Failure::new(what, e))
}

/// Writes to standard error, as far as that works.
pub fn write_error(text: &[u8]) {
    // SAFETY: the text is readable and as long as stated.
    let _ = unsafe { call(WRITE, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
}

/// Maps a part of a file at `address`.
///
/// # Safety
/// With [`MAP_FIXED`], nothing that is in use lies there.
pub unsafe fn map_file(
    address: usize,
    len: usize,
    protection: usize,
    flags: usize,
    file: File,
    offset: usize,
    what: &'static str,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let at = unsafe { call(MMAP, [address, len, protection, flags | MAP_PRIVATE, file.0, offset]) };
    placed(at, address, what)
}

/// Maps zeros at `address`, without reserving memory for them.
///
/// # Safety
/// With [`MAP_FIXED`], nothing that is in use lies there.
pub unsafe fn map_zeros(
    address: usize,
    len: usize,
    protection: usize,
    flags: usize,
    what: &'static str,
) -> Result<(), Failure> {
    let flags = flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: the caller's promise.
    let at = unsafe { call(MMAP, [address, len, protection, flags, usize::MAX, 0]) };
    placed(at, address, what)
}

/// A kernel that does not know [`MAP_FIXED_NOREPLACE`] may choose another place.
fn placed(at: Result<usize, i32>, wanted: usize, what: &'static str) -> Result<(), Failure> {
    match at {
        Ok(at) if at == wanted => Ok(()),
        Ok(_) => Err(Failure::new(what, 0)),
        Err(e) => Err(Failure::new(what, e)),
    }
}

/// Changes the protection of mapped pages.
///
/// # Safety
/// Nothing uses them in a way that the protection forbids.
pub unsafe fn protect(address: usize, len: usize, protection: usize, what: &'static str) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let done = unsafe { call(MPROTECT, [address, len, protection, 0, 0, 0]) };
    done.map(|_| ()).map_err(|e| Failure::new(what, e))
}

/// Ends the process.
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: takes any status and does not return.
        let _ = unsafe { call(EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}
