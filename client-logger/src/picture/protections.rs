//! What the program may do with its memory where it runs code, without asking for each block: that takes reading a file.

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::maps;
use crate::base::process::OfProcess;
use bugnet_format::types::Addr;
use rangemap::RangeMap;

/// Beyond a program's break, so much may have been its heap.
const HEAP: u64 = 1 << 30;

/// Executable parts of mappings, and their protection. Only these are remembered: where there is nothing, or something
/// else, new memory may appear at any time, at an address that the kernel chooses.
#[derive(Default)]
pub struct Protections(Mutex<RangeMap<u64, i32>>);

/// What the program may do with its code.
pub static PROTECTIONS: OfProcess<Protections> = OfProcess::none();

impl Protections {
    fn executable(&self) -> MutexGuard<'_, RangeMap<u64, i32>> {
        self.0.lock()
    }

    /// Those of a forked child, whose memory is the same.
    pub fn fork(&self) -> Self {
        Self(Mutex::new(self.executable().clone()))
    }

    /// What the program may do with the page of an address: bits of `PROT_*`.
    pub fn of(&self, address: u64) -> i32 {
        if let Some(protection) = self.executable().get(&address) {
            return *protection;
        }
        let Some(maps::Region { range, protection, .. }) = maps::region_of(address) else { return 0 };
        if protection & libc::PROT_EXEC != 0 && range.contains(&address) {
            self.executable().insert(range, protection);
        }
        protection
    }

    /// Whether the program can write to the page of an address.
    pub fn writable(&self, address: u64) -> bool {
        self.of(address) & libc::PROT_WRITE != 0
    }

    fn forget(&self, address: u64, len: u64) {
        let page = Addr(address).page().0;
        let end = address.saturating_add(len.saturating_add(Addr::PAGE));
        if len > 0 {
            self.executable().remove(page..end);
        }
    }

    /// The program is about to make a system call that may map, unmap or protect memory.
    pub fn follow(&self, number: i64, args: &[u64; 6]) {
        match number {
            libc::SYS_mmap if args[3] as i32 & libc::MAP_FIXED != 0 => self.forget(args[0], args[1]),
            libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => self.forget(args[0], args[1]),
            libc::SYS_mremap => {
                self.forget(args[0], args[1]);
                self.forget(args[4], args[2]);
            }
            libc::SYS_brk => self.forget(args[0], HEAP),
            libc::SYS_shmat => self.executable().clear(),
            _ => {}
        }
    }
}
