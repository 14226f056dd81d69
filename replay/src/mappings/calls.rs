//! What system calls make of an address space.

use super::layout::{Layout, Region, page_up};
use bugnet_format::folder::Module;
use bugnet_format::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `MREMAP_DONTUNMAP`: what is moved stays where it was, too.
const DONT_UNMAP: u64 = 4;
/// `CLOSE_RANGE_CLOEXEC`: nothing is closed before the next program.
const CLOSE_LATER: u64 = 4;
/// A result is an error from minus this to -1.
const MAX_ERRNO: i64 = 4095;

/// The system calls that have to do with what is mapped, each with the argument that is a path, if one is.
const CALLS: [(i64, Option<u8>); 23] = [
    (libc::SYS_mmap, None),
    (libc::SYS_munmap, None),
    (libc::SYS_mprotect, None),
    (libc::SYS_brk, None),
    (libc::SYS_mremap, None),
    (libc::SYS_pkey_mprotect, None),
    (libc::SYS_shmget, None),
    (libc::SYS_shmat, None),
    (libc::SYS_shmdt, None),
    // Which file a descriptor is.
    (libc::SYS_openat, Some(1)),
    (libc::SYS_open, Some(0)),
    (libc::SYS_openat2, Some(1)),
    (libc::SYS_creat, Some(0)),
    (libc::SYS_memfd_create, Some(0)),
    (libc::SYS_dup, None),
    (libc::SYS_dup2, None),
    (libc::SYS_dup3, None),
    (libc::SYS_fcntl, None),
    (libc::SYS_close, None),
    (libc::SYS_close_range, None),
    // Children have what their parents have.
    (libc::SYS_fork, None),
    (libc::SYS_clone, None),
    (libc::SYS_clone3, None),
];

/// Whether a system call, by its number, has to do with what is mapped.
pub(crate) fn counts(number: u64) -> bool {
    CALLS.iter().any(|(of, _)| of.cast_unsigned() == number)
}

/// A system call that has to do with what is mapped.
#[derive(Clone, Debug)]
pub(super) struct Call {
    number: i64,
    args: [u64; 6],
    result: i64,
    /// The path that it was given.
    path: Option<Arc<str>>,
}

/// An address space, and what decides what the next calls make of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(super) layout: Layout,
    /// The paths of open files.
    files: BTreeMap<i32, Arc<str>>,
    /// Where the heap begins and ends, once that is known.
    heap: Option<(u64, u64)>,
    /// The sizes of shared memory, by its id.
    shared: BTreeMap<u64, u64>,
}

impl Call {
    /// What a record tells, if it is a call of this kind that succeeded. `data` has what its arguments point at.
    pub fn of(record: &Record<'_>, data: &[(u8, &[u8])]) -> Option<Self> {
        let Record::Syscall { number, args, result, .. } = record else { return None };
        let of = CALLS.iter().find(|(of, _)| of.cast_unsigned() == *number)?;
        let counts = match of.0 {
            libc::SYS_fcntl => [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(args[1] as i32)),
            libc::SYS_clone => args[0] & libc::CLONE_VM as u64 == 0,
            _ => true,
        };
        let text = |arg: u8| {
            let (_, bytes) = data.iter().find(|(of, _)| *of == arg)?;
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            Some(Arc::from(String::from_utf8_lossy(text)))
        };
        let is_error = (-MAX_ERRNO..0).contains(result);
        (counts && !is_error).then(|| Self { number: of.0, args: *args, result: *result, path: of.1.and_then(text) })
    }

    /// The process that it made, if it made one or a thread.
    pub fn child(&self) -> Option<u32> {
        let makes = matches!(self.number, libc::SYS_fork | libc::SYS_clone | libc::SYS_clone3);
        u32::try_from(self.result).ok().filter(|child| makes && *child > 0)
    }
}

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

impl State {
    /// Start and end of what others may write to.
    pub fn shared(&self) -> Vec<(u64, u64)> {
        self.layout
            .regions()
            .filter(|(_, region)| region.is_shared)
            .map(|(start, region)| (start, region.end))
            .collect()
    }

    /// Applies a call. `mapped` is told which of the modules is mapped, by its index.
    pub(super) fn apply(&mut self, call: &Call, modules: &[Module], mut mapped: impl FnMut(usize)) {
        let Call { number, args, result, path } = call;
        let start = result.cast_unsigned();
        let end = |start: u64, len: u64| page_up(start.saturating_add(len));
        match *number {
            libc::SYS_mmap => {
                let region = self.mapped(start, end(start, args[1]), args, modules);
                region.module.into_iter().for_each(&mut mapped);
                self.layout.map(start, region);
            }
            libc::SYS_munmap => self.layout.unmap(args[0], end(args[0], args[1])),
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                self.layout.protect(args[0], end(args[0], args[1]), args[2]);
            }
            libc::SYS_mremap => {
                // Of length 0, it is a second mapping of what is shared.
                let is_moved = args[1] > 0 && args[3] & DONT_UNMAP == 0;
                self.layout.copy(args[0], end(args[0], args[1]), start, end(start, args[2]), is_moved);
            }
            libc::SYS_brk => self.heap_ends(page_up(start)),
            libc::SYS_shmget => {
                self.shared.insert(start, args[1]);
            }
            libc::SYS_shmat => {
                // Memory that another process made has a size that no record tells.
                if let Some(size) = self.shared.get(&args[0]) {
                    let name = format!("/SYSV{:08x} (deleted)", args[0]).into();
                    let prot =
                        libc::PROT_READ | if args[2] as i32 & libc::SHM_RDONLY == 0 { libc::PROT_WRITE } else { 0 };
                    let region = Region::anonymous(end(start, *size), prot as u64);
                    self.layout.map(start, Region { is_shared: true, name, ..region });
                }
            }
            libc::SYS_shmdt => {
                if let Some((start, region)) = self.layout.at(args[0]) {
                    let end = region.end;
                    self.layout.unmap(start, end);
                }
            }
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_fcntl => {
                let path = self.files.get(&(args[0] as i32)).cloned();
                self.opened(*result, path);
            }
            // What has the number next may come from anywhere.
            libc::SYS_close => self.opened(args[0] as i64, None),
            libc::SYS_close_range if args[2] & CLOSE_LATER == 0 => {
                self.files
                    .retain(|descriptor, _| !(args[0]..=args[1]).contains(&u64::from(descriptor.cast_unsigned())));
            }
            libc::SYS_memfd_create => {
                self.opened(*result, path.as_ref().map(|name| format!("/memfd:{name} (deleted)").into()));
            }
            libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => {
                self.opened(*result, path.clone());
            }
            _ => {}
        }
    }

    /// A descriptor is of this file from here on.
    fn opened(&mut self, descriptor: i64, path: Option<Arc<str>>) {
        let Ok(descriptor) = i32::try_from(descriptor) else { return };
        match path {
            Some(path) => self.files.insert(descriptor, path),
            None => self.files.remove(&descriptor),
        };
    }

    /// What a call of `mmap` has mapped.
    fn mapped(&self, start: u64, end: u64, args: &[u64; 6], modules: &[Module]) -> Region {
        let [_, _, prot, flags, descriptor, offset] = *args;
        let flags = flags as i32;
        let is_shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let region = Region { is_shared, ..Region::anonymous(end, prot) };
        if flags & libc::MAP_ANONYMOUS != 0 {
            return region;
        }
        let path = self.files.get(&(descriptor as i32));
        // The list has the file by the path to which links lead, so that it is told by where it was mapped.
        let holds = |(_, module): &(usize, &Module)| {
            (module.base..module.base.saturating_add(module.size)).contains(&start) && module.base <= start
        };
        let there: Vec<(usize, &Module)> = modules.iter().enumerate().filter(holds).collect();
        let is_named =
            |module: &&(usize, &Module)| path.is_some_and(|path| name(&module.1.path).starts_with(name(path)));
        let module = there.iter().find(is_named).or(there.first().filter(|_| there.len() == 1));
        match module {
            Some((index, module)) => Region { offset, name: (&*module.path).into(), module: Some(*index), ..region },
            None => Region { offset, name: path.cloned().unwrap_or_else(|| "[a file]".into()), ..region },
        }
    }

    fn heap_ends(&mut self, end: u64) {
        let (start, before) = self.heap.unwrap_or((end, end));
        if end > before {
            let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            self.layout.map(before, Region { name: "[heap]".into(), ..Region::anonymous(end, prot) });
        } else {
            self.layout.unmap(end, before);
        }
        self.heap = Some((start.min(end), end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_format::record::{OutputStream, RegisterUpdates};

    const RW: u64 = 3;
    const PRIVATE: u64 = libc::MAP_PRIVATE as u64;
    const ANONYMOUS: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;

    fn call(number: i64, args: &[u64], result: i64, path: Option<(u8, &str)>) -> Option<Call> {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let data: Vec<(u8, &[u8])> = path.iter().map(|(arg, path)| (*arg, path.as_bytes())).collect();
        let (number, updates, stream) = (number.cast_unsigned(), RegisterUpdates::default(), OutputStream::None);
        Call::of(&Record::Syscall { delta: 0, number, args: all, result, updates, stream, order: 0 }, &data)
    }

    fn listed(state: &State) -> Vec<(u64, u64, u64, String)> {
        let regions = state.layout.joined();
        regions.iter().map(|(start, region)| (*start, region.end, region.prot, region.name.to_string())).collect()
    }

    fn module(base: u64, path: &str) -> Module {
        Module { base, size: 0x4000, path: path.into(), build_id: String::new() }
    }

    /// What calls make of nothing, with the modules that they have mapped.
    fn made(modules: &[Module], calls: &[Option<Call>]) -> (State, Vec<usize>) {
        let (mut state, mut mapped) = (State::default(), Vec::new());
        calls.iter().flatten().for_each(|call| state.apply(call, modules, |module| mapped.push(module)));
        (state, mapped)
    }

    #[test]
    fn libraries_have_their_names_from_the_list() {
        // One was unloaded, and another one loaded in its place.
        let modules = [module(0x10000, "/lib/liba.so.1.2"), module(0x10000, "/lib/libb.so.3")];
        let open = |path| call(libc::SYS_openat, &[0, 1, 0], 3, Some((1, path)));
        let map = |at: u64, offset| call(libc::SYS_mmap, &[0, 0x1234, 1, PRIVATE, 3, offset], at as i64, None);
        let (state, mapped) = made(&modules, &[open("/lib/libb.so"), map(0x10000, 0)]);
        assert_eq!((listed(&state), mapped), (vec![(0x10000, 0x12000, 1, "/lib/libb.so.3".into())], vec![1]));
        let (state, mapped) = made(&modules, &[open("/etc/cache\0"), map(0x10000, 0), map(0x80000, 0x1000)]);
        assert_eq!(
            (listed(&state), mapped),
            (vec![(0x10000, 0x12000, 1, "/etc/cache".into()), (0x80000, 0x82000, 1, "/etc/cache".into())], vec![])
        );
    }

    #[test]
    fn a_file_that_was_closed_says_nothing_of_its_number() {
        let open = call(libc::SYS_openat, &[0, 1, 0], 3, Some((1, "/etc/cache")));
        let map = call(libc::SYS_mmap, &[0, 0x1000, 1, PRIVATE, 3, 0], 0x10000, None);
        let name_after = |between| listed(&made(&[], &[open.clone(), between, map.clone()]).0)[0].3.clone();
        assert_eq!(name_after(None), "/etc/cache");
        assert_eq!(name_after(call(libc::SYS_close, &[3], 0, None)), "[a file]");
        assert_eq!(name_after(call(libc::SYS_close_range, &[3, 0xffff_ffff, 0], 0, None)), "[a file]");
        assert_eq!(name_after(call(libc::SYS_close_range, &[3, 0xffff_ffff, CLOSE_LATER], 0, None)), "/etc/cache");
        assert_eq!(name_after(call(libc::SYS_close_range, &[4, 9, 0], 0, None)), "/etc/cache");
    }

    #[test]
    fn the_heap_grows_and_shrinks() {
        let to = |end: i64| call(libc::SYS_brk, &[0], end, None);
        let (state, _) = made(&[], &[to(0x5000), to(0x9000), to(0x7000)]);
        assert_eq!(listed(&state), [(0x5000, 0x7000, RW, "[heap]".into())]);
    }

    #[test]
    fn shared_memory_has_the_size_that_it_was_made_with() {
        let made_of = call(libc::SYS_shmget, &[0, 0x1800, 0], 7, None);
        let attached = |id| call(libc::SYS_shmat, &[id, 0, 0], 0x30000, None);
        let (state, _) = made(&[], &[made_of.clone(), attached(7)]);
        assert_eq!(listed(&state), [(0x30000, 0x32000, RW, "/SYSV00000007 (deleted)".into())]);
        let (state, _) = made(&[], &[made_of, attached(7), call(libc::SYS_shmdt, &[0x30000], 0, None), attached(8)]);
        assert_eq!(listed(&state), []);
    }

    #[test]
    fn what_fails_changes_nothing() {
        assert!(call(libc::SYS_mmap, &[0, 0x1000, RW, ANONYMOUS], -12, None).is_none());
        assert!(call(libc::SYS_fcntl, &[3, libc::F_GETFD as u64], 0, None).is_none());
        assert!(call(libc::SYS_clone, &[libc::CLONE_VM as u64], 77, None).is_none());
        assert_eq!(call(libc::SYS_fork, &[], 77, None).and_then(|call| call.child()), Some(77));
        assert!(call(libc::SYS_read, &[], 1, None).is_none() && !counts(0) && counts(9));
    }
}
