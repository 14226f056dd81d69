//! System calls of this program's own, and copies of memory that may not be there.

use core::arch::{asm, global_asm};

pub const WRITE: u64 = 1;
pub const OPEN: u64 = 2;
pub const CLOSE: u64 = 3;
pub const FSTAT: u64 = 5;
pub const MMAP: u64 = 9;
pub const MADVISE: u64 = 28;
pub const MPROTECT: u64 = 10;
pub const MUNMAP: u64 = 11;
pub const RT_SIGACTION: u64 = 13;
pub const RT_SIGPROCMASK: u64 = 14;
pub const PREAD: u64 = 17;
pub const PWRITE: u64 = 18;
pub const GETPID: u64 = 39;
pub const FORK: u64 = 57;
pub const VFORK: u64 = 58;
pub const EXECVE: u64 = 59;
pub const EXIT: u64 = 60;
pub const IOCTL: u64 = 16;
pub const KILL: u64 = 62;
pub const FCNTL: u64 = 72;
pub const FTRUNCATE: u64 = 77;
pub const READLINK: u64 = 89;
pub const SIGALTSTACK: u64 = 131;
pub const PERSONALITY: u64 = 135;
pub const PRCTL: u64 = 157;
pub const ARCH_PRCTL: u64 = 158;
pub const CLOCK_GETTIME: u64 = 228;
pub const EXIT_GROUP: u64 = 231;
pub const TGKILL: u64 = 234;
pub const PRLIMIT: u64 = 302;
pub const FACCESSAT2: u64 = 439;
pub const COPY_FILE_RANGE: u64 = 326;
pub const GETTID: u64 = 186;

pub const FUTEX: u64 = 202;

pub const EINTR: i64 = 4;
pub const EAGAIN: i64 = 11;
pub const EFAULT: i64 = 14;
pub const EINVAL: i64 = 22;
pub const ENOSYS: i64 = 38;

pub const PROT_READ: u64 = 1;
pub const PROT_WRITE: u64 = 2;
pub const PROT_EXEC: u64 = 4;
pub const MAP_SHARED: u64 = 1;
pub const MAP_PRIVATE: u64 = 2;
pub const MAP_FIXED: u64 = 0x10;
pub const MAP_ANONYMOUS: u64 = 0x20;
pub const MAP_GROWSDOWN: u64 = 0x100;
pub const MAP_STACK: u64 = 0x2_0000;
pub const MAP_NORESERVE: u64 = 0x4000;
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

pub const O_RDWR: u64 = 2;
pub const O_CREAT: u64 = 0o100;
pub const O_EXCL: u64 = 0o200;
pub const O_DIRECTORY: u64 = 0o200_000;
pub const O_CLOEXEC: u64 = 0o2_000_000;

/// Makes a system call.
///
/// # Safety
/// As the call demands.
pub unsafe fn call(number: u64, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the kernel preserves all registers but these; what the call does is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as i64 => result,
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
    result
}

/// One with up to three arguments.
///
/// # Safety
/// As the call demands.
pub unsafe fn call3(number: u64, a: u64, b: u64, c: u64) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { call(number, [a, b, c, 0, 0, 0]) }
}

// `bugnet_wait(number and arguments, whether a signal has come)`: makes a call during which signals may come, unless one has come. The handler of signals
// sees where between the labels it has interrupted the thread (`signals`).
global_asm!(
    ".globl bugnet_wait, bugnet_wait_begin, bugnet_wait_call, bugnet_wait_given_up",
    "bugnet_wait:",
    "push rbx",
    "mov rbx, rsi",
    "mov rax, [rdi]",
    "mov rsi, [rdi + 16]",
    "mov rdx, [rdi + 24]",
    "mov r10, [rdi + 32]",
    "mov r8, [rdi + 40]",
    "mov r9, [rdi + 48]",
    "mov rdi, [rdi + 8]",
    "bugnet_wait_begin:",
    "cmp byte ptr [rbx], 0",
    "jne bugnet_wait_given_up",
    "bugnet_wait_call:",
    "syscall",
    "pop rbx",
    "ret",
    "bugnet_wait_given_up:",
    "mov rax, -512",
    "pop rbx",
    "ret",
    // `bugnet_copy(to, from, bytes)`: how many were not copied, as the memory is not there. A fault goes on at the label.
    ".globl bugnet_copy, bugnet_copy_at, bugnet_copy_over",
    "bugnet_copy:",
    "mov rcx, rdx",
    "bugnet_copy_at:",
    "rep movsb",
    "bugnet_copy_over:",
    "mov rax, rcx",
    "ret",
);

unsafe extern "C" {
    fn bugnet_wait(call: *const [u64; 7], come: *const u8) -> i64;
    fn bugnet_copy(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn bugnet_wait_begin();
    fn bugnet_wait_call();
    fn bugnet_wait_given_up();
    fn bugnet_copy_at();
    fn bugnet_copy_over();
}

/// Where a call with signals is not made yet, and where it is given up.
pub fn waiting() -> (core::ops::RangeInclusive<u64>, u64) {
    (
        bugnet_wait_begin as *const () as u64..=bugnet_wait_call as *const () as u64,
        bugnet_wait_given_up as *const () as u64,
    )
}

/// Where memory is copied that may not be there, and where a fault goes on.
pub fn copying() -> (u64, u64) {
    (bugnet_copy_at as *const () as u64, bugnet_copy_over as *const () as u64)
}

/// Makes a call during which signals may come; -512 if it was not made, since one has.
///
/// # Safety
/// As the call demands.
pub unsafe fn wait(number: u64, args: &[u64; 6], come: *const u8) -> i64 {
    let [a, b, c, d, e, f] = *args;
    // SAFETY: the caller's promise.
    unsafe { bugnet_wait(&[number, a, b, c, d, e, f], come) }
}

/// Copies the program's memory; how many bytes were there.
///
/// # Safety
/// `to` has room for so many.
pub unsafe fn copy(to: *mut u8, from: u64, bytes: usize) -> usize {
    // SAFETY: the caller's promise; where the program has no memory, the handler of faults goes on.
    bytes - unsafe { bugnet_copy(to, from as *const u8, bytes) }
}

/// Reads the program's memory.
pub fn read<const N: usize>(from: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: room for N bytes.
    (unsafe { copy(bytes.as_mut_ptr(), from, N) } == N).then_some(bytes)
}

/// Reads a number of 8 bytes of the program's.
pub fn read_word(from: u64) -> Option<u64> {
    read(from).map(u64::from_le_bytes)
}

/// Writes the program's memory; whether it was there.
pub fn write(to: u64, bytes: &[u8]) -> bool {
    // SAFETY: the program's memory, which it has asked to have written; where there is none, the handler of faults goes on.
    unsafe { bugnet_copy(to as *mut u8, bytes.as_ptr(), bytes.len()) == 0 }
}

/// Hands over the pieces of a text of the program's up to its end, which is a zero byte and among at most so many; how long it is without that. None where it has no end, or the memory is not there.
fn text(from: u64, most: usize, mut see: impl FnMut(usize, &[u8])) -> Option<usize> {
    // No line goes over the end of a page.
    const LINE: usize = 64;
    let mut done = 0;
    while done < most {
        let at = from.wrapping_add(done as u64);
        let len = (LINE - at as usize % LINE).min(most - done);
        let mut room = [0; LINE];
        // SAFETY: room for a line.
        if unsafe { copy(room.as_mut_ptr(), at, len) } < len {
            return None;
        }
        let end = room[..len].iter().position(|byte| *byte == 0);
        see(done, &room[..end.unwrap_or(len)]);
        if let Some(end) = end {
            return Some(done + end);
        }
        done += len;
    }
    None
}

/// The length of a text of the program's, of which the end is among so many bytes.
pub fn text_len(from: u64, most: usize) -> Option<usize> {
    text(from, most, |_, _| {})
}

/// Reads the program's text, up to its end, which is a zero byte; `room` has that behind it.
pub fn read_text(from: u64, room: &mut [u8]) -> Option<usize> {
    let len = text(from, room.len(), |at, bytes| room[at..at + bytes.len()].copy_from_slice(bytes))?;
    room[len] = 0;
    Some(len)
}
