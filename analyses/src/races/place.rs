//! Where in the program's code a thread is: whether what it accesses there is the program's, or a library's own.
//!
//! What the C library does for itself (buffers, lists of free memory, its own locks) is not looked at. Functions of it that copy or compare
//! memory do so for their caller. Those that exclude or order threads are told apart from others by their names where they are entered.

pub use super::operations::Operation;
use super::operations::Operations;
use bugnet_events::code::Block;
use bugnet_events::effects::Control;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::Result;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::trace::TracedBlock;
use hashbrown::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Files of the C library, and of others that take its place as allocators, by how their names begin.
const LIBRARIES: [&str; 8] =
    ["libc.so", "libc-2", "libpthread", "ld-musl", "libjemalloc", "libtcmalloc", "libmimalloc", "librt.so"];
/// The dynamic loader's.
const LOADERS: [&str; 2] = ["ld-linux", "ld-2"];
/// Libraries that divide work among threads: what they access for themselves is not looked at, but orders threads as it does in a program.
const RUNTIMES: [&str; 3] = ["libgomp.so", "libomp.so", "libiomp5.so"];
/// Functions of the C library that work on their caller's memory, by how their names begin; those that allocate or convert are not among them.
const FOR_CALLER: [&str; 11] =
    ["mem", "str", "stp", "wcs", "wmem", "wcp", "bcopy", "bzero", "bcmp", "rawmemchr", "index"];
const NOT_FOR_CALLER: [&str; 12] = [
    "strdup",
    "strndup",
    "strerror",
    "strsignal",
    "strto",
    "strf",
    "strptime",
    "strcoll",
    "strxfrm",
    "wcsto",
    "wcsdup",
    "memalign",
];
/// Those that exclude threads from each other.
const EXCLUDE: [&str; 5] = ["pthread_mutex", "pthread_rwlock", "pthread_spin", "mtx_", "flockfile"];
/// Those that put threads into an order.
const ORDER: [&str; 8] =
    ["pthread_cond", "pthread_barrier", "pthread_once", "sem_", "new_sem_", "cnd_", "call_once", "futex"];
/// Those that wait for the end of a thread.
const JOIN: [&str; 5] = ["pthread_join", "pthread_timedjoin", "pthread_clockjoin", "pthread_tryjoin", "thrd_join"];

/// Functions for atomic variables, by how their names begin; debug information has some of these without what is before them.
const FOR_ATOMICS: [&str; 6] =
    ["std::atomic", "std::__atomic", "core::sync::atomic::", "__gnu_cxx::__atomic", "atomic_load<", "atomic_store<"];

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Code of the program, or of a library that is not the C library.
    Own,
    /// A function of the C library that works on its caller's memory.
    ForCaller,
    /// One that excludes other threads, or ends that.
    Excluding,
    /// One that puts threads into an order.
    Ordering,
    /// One that waits for the end of a thread.
    Joining,
    /// Something else in there. What it does to make threads, and at their end, orders nothing but what is made.
    Internal,
}

impl Doing {
    /// In a function of the C library with this name, or none.
    fn named(name: Option<&str>) -> Self {
        // A function of which several versions are there for several processors, and one was chosen, has no name that others can see.
        let Some(name) = name else { return Self::ForCaller };
        let name = name.trim_start_matches('_');
        let name = name.strip_prefix("GI_").map_or(name, |name| name.trim_start_matches('_'));
        let begins = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
        match () {
            () if begins(&FOR_CALLER) && !begins(&NOT_FOR_CALLER) => Self::ForCaller,
            () if begins(&EXCLUDE) => Self::Excluding,
            () if begins(&ORDER) => Self::Ordering,
            () if begins(&JOIN) => Self::Joining,
            () => Self::Internal,
        }
    }

    /// Whether accesses say nothing: of locks and ends of threads, calls tell.
    #[must_use]
    pub fn is_passed_over(self) -> bool {
        matches!(self, Self::Internal | Self::Excluding | Self::Joining)
    }

    /// Whether what is accessed is the program's.
    #[must_use]
    pub fn is_looked_at(self) -> bool {
        matches!(self, Self::Own | Self::ForCaller)
    }
}

/// Whose code it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Program,
    Runtime,
    Libc,
    Loader,
}

/// Where the C library and the dynamic loader are.
pub struct Modules(Vec<(Range<u64>, Owner)>);

impl Modules {
    /// Of a process.
    ///
    /// # Errors
    /// The list of modules cannot be read.
    pub fn new(log: &Log, pid: ProcessId) -> Result<Self> {
        let owner = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            let begins = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
            match () {
                () if begins(&LIBRARIES) => Owner::Libc,
                () if begins(&LOADERS) => Owner::Loader,
                () if begins(&RUNTIMES) => Owner::Runtime,
                () => Owner::Program,
            }
        };
        let of = |(base, size, path): (u64, u64, &str)| (base..base.saturating_add(size), owner(path));
        Ok(Self(log.modules(pid)?.iter().map(|module| of((module.base, module.size, &module.path))).collect()))
    }

    fn owner(&self, addr: u64) -> Owner {
        // Where one was mapped in place of another, it is the later one.
        let found = self.0.iter().rev().find(|(range, _)| range.contains(&addr));
        found.map_or(Owner::Program, |(_, owner)| *owner)
    }

    /// Where the code is that is not the program's own, from one address up to another.
    pub fn libraries(&self) -> impl Iterator<Item = (u64, u64)> {
        let of = |(range, owner): &(Range<u64>, Owner)| (*owner != Owner::Program).then_some((range.start, range.end));
        self.0.iter().filter_map(of)
    }

    /// Whether it is code of the dynamic loader.
    #[must_use]
    pub fn is_loader(&self, addr: u64) -> bool {
        self.owner(addr) == Owner::Loader
    }

    /// Whether it is code of the C library, or of the dynamic loader.
    #[must_use]
    pub fn is_libc(&self, addr: u64) -> bool {
        matches!(self.owner(addr), Owner::Libc | Owner::Loader)
    }
}

impl Known {
    /// What a thread does in this block that does something by and large.
    #[must_use]
    pub fn doing(&self, whereabouts: &Whereabouts) -> Doing {
        match self.owner {
            Owner::Loader => Doing::Internal,
            Owner::Runtime => Doing::Ordering,
            Owner::Program | Owner::Libc => whereabouts.now,
        }
    }
}

/// What is known of a block.
pub struct Known {
    owner: Owner,
    /// What a thread does that comes in here from outside the C library.
    entered: Doing,
    /// The number of the first of its instructions; the others follow.
    pub first_site: u32,
    /// How it ends.
    pub ends: Control,
    /// Of a library's block, whether what is executed behind it, up to the next block that is told, is of the library, too.
    stays: bool,
    /// So that its address stays its own.
    _block: Arc<TracedBlock>,
}

/// All blocks.
pub struct Code {
    modules: Modules,
    symbols: Symbolizer,
    operations: Operations,
    known: Vec<Known>,
    /// The numbers of blocks in that list, by their own addresses, and those that were asked about last.
    numbers: HashMap<usize, usize>,
    recent: Box<[(usize, usize); RECENT]>,
    /// Addresses of instructions, by their numbers, and what was found out of those that were asked about.
    pub sites: Vec<u64>,
    atomics: Vec<Option<Atomic>>,
}

/// Blocks of which it is remembered where they are.
const RECENT: usize = 1 << 12;

/// What an instruction is by the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Whether it is of a function for atomic variables of C++ or Rust, inlined or not: on x86-64, many loads and stores of these are plain ones.
    pub is_in_function: bool,
    /// Which operation of C on an atomic variable it belongs to.
    pub operation: Option<Operation>,
}

impl Code {
    /// Of a process.
    #[must_use]
    pub fn new(modules: Modules, symbols: Symbolizer) -> Self {
        Self {
            modules,
            symbols,
            operations: Operations::default(),
            known: Vec::new(),
            numbers: HashMap::new(),
            recent: Box::new([(0, 0); RECENT]),
            sites: Vec::new(),
            atomics: Vec::new(),
        }
    }

    /// What an instruction is by the source, by its number.
    #[inline]
    pub fn atomic(&mut self, site: u32) -> Atomic {
        match self.atomics.get(site as usize) {
            Some(Some(known)) => *known,
            _ => self.find_atomic(site),
        }
    }

    /// Whether it is known of an instruction that it is nothing of that.
    #[inline]
    pub fn is_plain(&self, site: u32) -> bool {
        matches!(self.atomics.get(site as usize), Some(Some(Atomic { is_in_function: false, operation: None })))
    }

    #[cold]
    fn find_atomic(&mut self, site: u32) -> Atomic {
        let at = self.sites[site as usize];
        let place = self.symbols.lookup(Addr(at));
        let names = place.source.iter().filter_map(|source| source.function.as_deref());
        let mut names = names.chain(place.symbol.iter().map(|symbol| symbol.name.as_str()));
        let is_in_function = names.any(|name| FOR_ATOMICS.iter().any(|start| name.starts_with(start)));
        let atomic = Atomic { is_in_function, operation: self.operations.of(&mut self.symbols, at) };
        self.atomics.resize(self.sites.len(), None);
        self.atomics[site as usize] = Some(atomic);
        atomic
    }

    /// What the function of the C library does in which an instruction is, by its number.
    pub fn function(&mut self, site: u32) -> Doing {
        let symbol = self.symbols.lookup(Addr(self.sites[site as usize])).symbol;
        Doing::named(symbol.as_ref().map(|symbol| symbol.name.as_str()))
    }

    /// What is known of a block.
    #[inline]
    pub fn of(&mut self, block: &Block) -> &Known {
        let own = Arc::as_ptr(&block.traced).addr();
        let slot = (own >> 4) % RECENT;
        if self.recent[slot].0 != own {
            self.recent[slot] = (own, self.find(block, own));
        }
        &self.known[self.recent[slot].1]
    }

    fn find(&mut self, block: &Block, own: usize) -> usize {
        let Self { modules, symbols, known, numbers, sites, .. } = self;
        *numbers.entry(own).or_insert_with(|| {
            let first_site = sites.len() as u32;
            sites.extend(block.instructions.iter().map(|decoded| decoded.instruction.ip()));
            let owner = modules.owner(block.traced.pc);
            let entered = if owner == Owner::Libc {
                let symbol = symbols.lookup(Addr(block.traced.pc)).symbol.filter(|symbol| symbol.offset == 0);
                Doing::named(symbol.as_ref().map(|symbol| symbol.name.as_str()))
            } else {
                Doing::Own
            };
            let stays = owner != Owner::Program && block.traced.entry.is_some_and(|entry| !entry.leaves);
            known.push(Known { owner, entered, first_site, ends: block.control, stays, _block: block.traced.clone() });
            known.len() - 1
        })
    }
}

/// The functions in which a thread is, as far as it matters.
#[derive(Debug)]
pub struct Whereabouts {
    now: Doing,
    /// How its last block ended.
    ended: Control,
    /// Whether that was outside the C library.
    was_own: bool,
    /// What it does behind the last block, up to the next one that is told, if that is of a library; else, it is in other code there.
    untold: Option<Doing>,
    /// What it does in the C library further out, from where its own code was called.
    outer: Vec<Doing>,
    /// What signals interrupted.
    interrupted: Vec<(Doing, Control, bool, usize)>,
    /// Whether it is where the log begins, in a call of which the beginning is not there; and the first instruction of the last block of a library.
    amid: Option<Option<u32>>,
}

impl Whereabouts {
    /// A thread begins: the first one in the program, others in the function that starts them.
    #[must_use]
    pub fn new(is_first: bool) -> Self {
        let now = if is_first { Doing::Own } else { Doing::Internal };
        let (outer, interrupted) = (Vec::new(), Vec::new());
        Self { now, ended: Control::Next, was_own: is_first, untold: None, outer, interrupted, amid: None }
    }

    /// The log begins when the thread did long ago: if it is in the C library, it may be in a function that orders it behind others.
    #[must_use]
    pub fn amid() -> Self {
        Self { now: Doing::Ordering, amid: Some(None), ..Self::new(false) }
    }

    /// Whether it is still in the call in which the log begins.
    #[must_use]
    #[inline]
    pub fn is_amid(&self) -> bool {
        self.amid.is_some()
    }

    /// Another block begins, or what is untold. The first instruction of the last block in the call in which the log begins, if that is behind it.
    pub fn left(&mut self, next: Option<&Known>) -> Option<u32> {
        let last = self.amid.as_mut()?;
        match next {
            Some(Known { owner: Owner::Libc, first_site, .. }) => *last = Some(*first_site),
            Some(Known { owner: Owner::Loader, .. }) => {}
            None if self.untold.is_some() => {}
            // A function of the program's, which the library calls.
            _ if self.ended == Control::Call => {}
            _ => return self.amid.take().flatten(),
        }
        None
    }

    /// What it does.
    #[must_use]
    pub fn now(&self) -> Doing {
        self.now
    }

    /// Another block begins. Returns whether a function of the C library is entered from outside.
    pub fn enter(&mut self, block: &Known) -> bool {
        let enters = self.enter_block(block);
        self.untold = block.stays.then(|| block.doing(self));
        enters
    }

    fn enter_block(&mut self, block: &Known) -> bool {
        let mut enters = false;
        match block.owner {
            // It looks up functions on the way to them.
            Owner::Loader => return false,
            Owner::Program | Owner::Runtime => {
                if !self.was_own && self.ended == Control::Call {
                    self.outer.push(self.now);
                }
                (self.now, self.was_own) = (Doing::Own, true);
            }
            Owner::Libc if self.was_own => {
                self.was_own = false;
                self.now = match self.ended {
                    Control::Return => self.outer.pop().unwrap_or(Doing::Internal),
                    _ => {
                        enters = true;
                        block.entered
                    }
                };
            }
            Owner::Libc => {}
        }
        self.ended = block.ends;
        enters
    }

    /// Code begins of which nothing but accesses is told: of a library, or else of other code, the last of which neither calls nor returns. What is done
    /// there.
    pub fn go_on(&mut self) -> Doing {
        if let Some(doing) = self.untold {
            return doing;
        }
        if !self.was_own && self.ended == Control::Call {
            self.outer.push(self.now);
        }
        (self.now, self.was_own, self.ended) = (Doing::Own, true, Control::Next);
        Doing::Own
    }

    /// A signal's handler begins.
    pub fn interrupt(&mut self) {
        self.interrupted.push((self.now, self.ended, self.was_own, self.outer.len()));
        (self.now, self.ended, self.was_own) = (Doing::Internal, Control::Call, false);
        self.untold = None;
    }

    /// It has ended.
    pub fn resume(&mut self) {
        if let Some((now, ended, was_own, outer)) = self.interrupted.pop() {
            (self.now, self.ended, self.was_own) = (now, ended, was_own);
            self.untold = None;
            self.outer.truncate(outer);
        }
    }

    /// Whether it is in a signal's handler.
    #[must_use]
    pub fn in_handler(&self) -> bool {
        !self.interrupted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_by_their_names() {
        assert_eq!(Doing::named(Some("__memmove_avx_unaligned_erms")), Doing::ForCaller);
        assert_eq!(Doing::named(None), Doing::ForCaller);
        assert_eq!(Doing::named(Some("strdup")), Doing::Internal);
        assert_eq!(Doing::named(Some("___pthread_mutex_lock")), Doing::Excluding);
        assert_eq!(Doing::named(Some("__GI___pthread_cond_wait")), Doing::Ordering);
        assert_eq!(Doing::named(Some("__pthread_clockjoin_ex")), Doing::Joining);
        assert_eq!(Doing::named(Some("pthread_create")), Doing::Internal);
        assert_eq!(Doing::named(Some("malloc")), Doing::Internal);
    }
}
