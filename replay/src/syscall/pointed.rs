//! What calls write whose arguments alone do not say it: behind further pointers, or as a request's number has it.

use crate::memory::Memory;
use bugnet_format::types::Addr;

/// Bytes of `struct termios` as the kernel has it.
const TERMIOS: u64 = 36;
/// Requests without a direction in their number that give so many bytes, and those that give none.
const GIVES: [(u64, u64); 5] =
    [(libc::TCGETS, TERMIOS), (libc::TIOCGWINSZ, 8), (libc::FIONREAD, 4), (libc::TIOCGPGRP, 4), (libc::TIOCGSID, 4)];
const TAKES: [u64; 10] = [
    libc::TCSETS,
    libc::TCSETSW,
    libc::TCSETSF,
    libc::TIOCSWINSZ,
    libc::TIOCSPGRP,
    libc::TIOCSCTTY,
    libc::FIONBIO,
    libc::FIOASYNC,
    libc::FIOCLEX,
    libc::FIONCLEX,
];
/// Options of `prctl` that only take.
const SETS: [i32; 6] = [
    libc::PR_SET_NAME,
    libc::PR_SET_VMA,
    libc::PR_SET_PDEATHSIG,
    libc::PR_SET_DUMPABLE,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_CAPBSET_READ,
];
/// Vectors of a message that are looked at.
const VECTORS: u64 = 1024;

type Ranges = Option<Vec<(u64, u64)>>;

/// Whether a call takes memory to know what it writes.
pub fn needs_memory(number: i64) -> bool {
    matches!(number, libc::SYS_recvmsg | libc::SYS_clone3)
}

/// What a successful `ioctl` writes (`asm-generic/ioctl.h`).
pub fn ioctl(args: &[u64; 6]) -> Ranges {
    let (request, argument) = (args[1] & u64::from(u32::MAX), args[2]);
    if let Some((_, len)) = GIVES.iter().find(|(known, _)| *known == request) {
        return Some(vec![(argument, *len)]);
    }
    if TAKES.contains(&request) {
        return Some(Vec::new());
    }
    let (direction, size) = (request >> 30, request >> 16 & 0x3fff);
    match direction {
        1 => Some(Vec::new()),
        2 | 3 => Some(vec![(argument, size)]),
        _ => None,
    }
}

/// What a successful `prctl` writes.
pub fn prctl(args: &[u64; 6]) -> Ranges {
    let option = args[0] as i32;
    match option {
        libc::PR_GET_NAME => Some(vec![(args[1], 16)]),
        _ if SETS.contains(&option) => Some(Vec::new()),
        _ => None,
    }
}

fn words(memory: &mut dyn Memory, addr: u64, count: u64) -> Option<Vec<u64>> {
    let bytes = memory.read_memory(Addr(addr), 8 * count).ok()?;
    let words: Vec<u64> =
        bytes.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?))).collect();
    (words.len() as u64 == count).then_some(words)
}

/// What `clone3` writes: `struct clone_args` says where.
pub fn clone3(args: &[u64; 6], memory: &mut dyn Memory) -> Ranges {
    let words = words(memory, args[0], 4)?;
    let [flags, descriptor, child, parent] = words[..] else { return None };
    let given =
        [(libc::CLONE_PIDFD, descriptor), (libc::CLONE_CHILD_SETTID, child), (libc::CLONE_PARENT_SETTID, parent)];
    Some(given.iter().filter(|(flag, _)| flags & *flag as u64 != 0).map(|(_, addr)| (*addr, 4)).collect())
}

/// What `recvmsg` writes, that received so many bytes: `struct msghdr` says where, and is written to.
pub fn recvmsg(args: &[u64; 6], received: u64, memory: &mut dyn Memory) -> Ranges {
    let words = words(memory, args[1], 7)?;
    let [name, name_len, vectors, count, control, control_len, _] = words[..] else { return None };
    let header = args[1];
    let mut all = vec![(header + 8, 4), (header + 40, 8), (header + 48, 4)];
    all.extend([(name, name_len & u64::from(u32::MAX)), (control, control_len)]);
    let mut left = received;
    for number in 0..count.min(VECTORS) {
        let vector = self::words(memory, vectors + 16 * number, 2)?;
        let len = vector[1].min(left);
        all.push((vector[0], len));
        left -= len;
    }
    all.retain(|(addr, len)| *addr != 0 && *len > 0);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_say_what_they_write() {
        let asked = |request: u64| ioctl(&[3, request, 0x1000, 0, 0, 0]);
        assert_eq!(asked(libc::TCGETS), Some(vec![(0x1000, 36)]));
        assert_eq!(asked(libc::TCSETS), Some(Vec::new()));
        // EVIOCGID, of 8 bytes; EVIOCSREP, which takes 8
        assert_eq!(asked(0x8008_4502), Some(vec![(0x1000, 8)]));
        assert_eq!(asked(0x4008_4503), Some(Vec::new()));
        assert_eq!(asked(0x5490), None);
    }
}
