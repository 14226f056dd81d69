//! Descriptors that a system call has brought otherwise than as copies of the process's own: from another process, or by opening what is open already.

use crate::base::memory::{read_memory, read_word};
use crate::base::process::current_pid;
use crate::kernel::arguments::string;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Most bytes of control messages that are looked at: the kernel hands over no more than 253 descriptors at once.
const MOST_CONTROL: u64 = 4096;

/// A descriptor that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number.
    pub fd: u64,
    /// The number that the file has where it comes from, as far as the call says it.
    pub number: Option<u64>,
    /// Whether it was opened: it is no copy of another descriptor then, but may be of the same file.
    is_opened: bool,
}

/// Those that a call has brought, which has succeeded.
pub fn of(number: i64, args: &[u64; 6], result: i64) -> Vec<Arrival> {
    let path = match number {
        libc::SYS_pidfd_getfd => {
            return vec![Arrival { fd: result as u64, number: Some(args[1] & 0xffff_ffff), is_opened: false }];
        }
        libc::SYS_recvmsg => return handed_over(args[1]),
        libc::SYS_recvmmsg => return (0..result as u64).flat_map(|n| handed_over(args[1] + 64 * n)).collect(),
        libc::SYS_open => args[0],
        libc::SYS_openat | libc::SYS_openat2 => args[1],
        _ => return Vec::new(),
    };
    opened(path, result as u64).into_iter().collect()
}

/// Those that came with a message, by its header.
fn handed_over(header: u64) -> Vec<Arrival> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let (Some(control), Some(len)) = (read_word(header + 32), read_word(header + 40)) else { return Vec::new() };
    let mut bytes = vec![0; len.min(MOST_CONTROL) as usize];
    if bytes.len() < HEADER || !read_memory(control, &mut bytes) {
        return Vec::new();
    }
    let (mut found, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((head, _)) = rest.split_first_chunk::<HEADER>() {
        let word = |at: usize| i32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let len = word(0) as usize;
        if len < HEADER || len > rest.len() {
            break;
        }
        if (word(8), word(12)) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let (numbers, _) = rest[HEADER..len].as_chunks::<4>();
            let fd = |number: &[u8; 4]| u64::from(u32::from_le_bytes(*number));
            found.extend(numbers.iter().map(|number| Arrival { fd: fd(number), number: None, is_opened: false }));
        }
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    found
}

/// One that was opened by a path, if what it refers to may be open already: a pipe or terminal, or what has a name as a descriptor.
fn opened(path: u64, fd: u64) -> Option<Arrival> {
    let path = string(path)?;
    let is_of_descriptors = path.starts_with(b"/dev/") || path.starts_with(b"/proc/");
    let kind = status(fd)?.st_mode & libc::S_IFMT;
    // SAFETY: asks about a descriptor.
    let is_terminal = || kind == libc::S_IFCHR && unsafe { libc::isatty(fd as c_int) } == 1;
    if kind != libc::S_IFIFO && !(is_of_descriptors && kind == libc::S_IFREG) && !is_terminal() {
        return None;
    }
    let number = match path.rsplit(|byte| *byte == b'/').next()? {
        b"stdout" => Some(1),
        b"stderr" => Some(2),
        name => std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()),
    };
    Some(Arrival { fd, number, is_opened: true })
}

impl Arrival {
    /// Whether what it refers to is what a descriptor of the process refers to.
    pub fn is_like(&self, other: u64) -> bool {
        /// Compares open files.
        const KCMP_FILE: c_int = 0;
        if self.is_opened {
            let same = |one: libc::stat, other: libc::stat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
            return status(self.fd).zip(status(other)).is_some_and(|(one, other)| same(one, other));
        }
        let pid = current_pid();
        // SAFETY: compares two descriptors of the process.
        unsafe { libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_FILE, self.fd, other) == 0 }
    }
}

/// What the kernel says of an open file.
fn status(fd: u64) -> Option<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: has room for the answer, which is there if the call says so.
    unsafe { (libc::fstat(fd as c_int, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}
