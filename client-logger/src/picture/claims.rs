//! System calls on a fixed part of the address space: shadows lie where, for the program, there is nothing. What it wants
//! to map there must find room, and what it would change of nothing must not be changed for the shadow.

use std::ops::Range;

/// A part of the address space that a system call is about to replace, change or take away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whole pages.
    pub range: Range<u64>,
    /// Whether the program will have accessible memory there.
    pub accessible: bool,
    /// Whether the call does without, where it finds that something is there.
    pub yields: bool,
}

/// `mseal`, which the system's headers do not name yet.
const SYS_MSEAL: i64 = 462;

fn pages(start: u64, len: u64) -> Range<u64> {
    const IN_PAGE: u64 = 4095;
    start & !IN_PAGE..start.saturating_add(len).saturating_add(IN_PAGE) & !IN_PAGE
}

fn changes(start: u64, len: u64) -> Claim {
    Claim { range: pages(start, len), accessible: false, yields: false }
}

/// Size of a segment of System V shared memory.
fn segment_size(id: u64) -> u64 {
    // SAFETY: all-zero bytes are a valid structure.
    let mut about: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: a structure of ours.
    let known = unsafe { libc::shmctl(id as i32, libc::IPC_STAT, &raw mut about) } == 0;
    if known { about.shm_segsz as u64 } else { 0 }
}

/// The parts that a system call claims.
pub fn of(number: i64, args: &[u64; 6]) -> Vec<Claim> {
    let mut claims = match number {
        libc::SYS_mmap => {
            let flags = args[3] as i32;
            if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) == 0 {
                return Vec::new();
            }
            let accessible = args[2] as i32 != libc::PROT_NONE;
            let yields = flags & libc::MAP_FIXED == 0;
            vec![Claim { range: pages(args[0], args[1]), accessible, yields }]
        }
        libc::SYS_mremap => {
            let mut claims = vec![changes(args[0], args[1])];
            if args[3] as i32 & libc::MREMAP_FIXED != 0 {
                claims.push(Claim { range: pages(args[4], args[2]), accessible: true, yields: false });
            }
            claims
        }
        libc::SYS_shmat if args[2] as i32 & libc::SHM_REMAP != 0 => {
            vec![Claim { range: pages(args[1], segment_size(args[0])), accessible: true, yields: false }]
        }
        libc::SYS_munmap
        | libc::SYS_mprotect
        | libc::SYS_pkey_mprotect
        | libc::SYS_madvise
        | libc::SYS_mlock
        | libc::SYS_mlock2
        | libc::SYS_remap_file_pages
        | SYS_MSEAL => vec![changes(args[0], args[1])],
        _ => return Vec::new(),
    };
    claims.retain(|claim| !claim.range.is_empty());
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_at_fixed_addresses_claim_whole_pages() {
        let map = |flags: i32, protection: i32| {
            of(libc::SYS_mmap, &[0x10_0000, 5000, protection as u64, flags as u64, u64::MAX, 0])
        };
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        assert_eq!(map(private, libc::PROT_READ), []);
        let range = 0x10_0000..0x10_2000;
        let claims = map(private | libc::MAP_FIXED, libc::PROT_READ);
        assert_eq!(claims, [Claim { range: range.clone(), accessible: true, yields: false }]);
        let claims = map(private | libc::MAP_FIXED_NOREPLACE, libc::PROT_NONE);
        assert_eq!(claims, [Claim { range, accessible: false, yields: true }]);
    }

    #[test]
    fn moving_a_mapping_claims_both_places() {
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let claims = of(libc::SYS_mremap, &[0x1000, 0x1000, 0x2000, flags, 0x9000, 0]);
        let ranges: Vec<_> = claims.into_iter().map(|claim| claim.range).collect();
        assert_eq!(ranges, [0x1000..0x2000, 0x9000..0xb000]);
        assert_eq!(of(libc::SYS_munmap, &[0x1000, 0, 0, 0, 0, 0]), []);
    }
}
