//! Children of `vfork` in another namespace of process ids.
//!
//! DynamoRIO tells threads of a memory apart by their ids, and such a child may have its parent's: 1, where the parent is the first one of a
//! namespace, too. So it gets a copy of the memory. The parent waits for it all the same, but does not find what it has stored.

use crate::base::maps;
use crate::base::memory::read_memory;
use crate::kernel::substitute::Substitution;
use std::ffi::c_void;

const FORK: u64 = (libc::CLONE_VFORK | libc::SIGCHLD) as u64;

/// A call that the kernel gets in the place of one that lends memory.
pub struct Apart {
    /// Its number and arguments.
    pub call: (i64, [u64; 6]),
    /// What the arguments point to.
    _structure: Vec<u8>,
}

impl Apart {
    /// Before a call that lends memory: with what it is replaced, if it has to be; in the pre-syscall event.
    pub fn instead(drcontext: *mut c_void, number: i64, args: &[u64; 6]) -> Option<(Self, Option<Substitution>)> {
        const VM: u64 = libc::CLONE_VM as u64;
        if !maps::children_are_elsewhere() {
            return None;
        }
        let (mut new, mut structure) = (*args, Vec::new());
        let number = match number {
            libc::SYS_vfork => {
                new = [FORK, 0, 0, 0, 0, 0];
                libc::SYS_clone
            }
            libc::SYS_clone3 => {
                structure = vec![0; usize::try_from(args[1]).ok().filter(|size| (8..=4096).contains(size))?];
                if !read_memory(args[0], &mut structure) {
                    return None;
                }
                // The flags are its first word.
                structure[..4].iter_mut().zip((VM as u32).to_le_bytes()).for_each(|(flags, vm)| *flags &= !vm);
                new[0] = structure.as_ptr() as u64;
                number
            }
            _ => {
                new[0] &= !VM;
                number
            }
        };
        let changed: Vec<(usize, u64)> = new.into_iter().enumerate().filter(|(n, new)| *new != args[*n]).collect();
        let substitution = Substitution::make(drcontext, number, &changed);
        Some((Self { call: (number, new), _structure: structure }, substitution))
    }
}
