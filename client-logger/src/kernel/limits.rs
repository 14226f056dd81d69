//! Resource limits of which the recorder needs more than the program may have: descriptors, address space, data.
//!
//! The kernel's limits are raised as far as it goes. The program's own ones are kept here: what it asks and sets is answered, and
//! calls that would exceed them fail as they would natively.

use crate::base::capabilities::may_raise_limits;
use crate::base::memory::{read_memory, write_memory};
use crate::base::process;
use crate::kernel::descriptor_limit;
use crate::kernel::memory_limit;
use crate::kernel::results::error;
use rustix::process::{Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is limited, in the order in which [`Limits`] are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// `RLIMIT_NOFILE`
    Descriptors,
    /// `RLIMIT_AS`
    AddressSpace,
    /// `RLIMIT_DATA`
    Data,
}

/// How many there are.
const COUNT: usize = 3;

impl Resource {
    const ALL: [Self; COUNT] = [Self::Descriptors, Self::AddressSpace, Self::Data];

    /// The kernel's number.
    fn number(self) -> u32 {
        match self {
            Self::Descriptors => libc::RLIMIT_NOFILE,
            Self::AddressSpace => libc::RLIMIT_AS,
            Self::Data => libc::RLIMIT_DATA,
        }
    }

    fn named(self) -> rustix::process::Resource {
        match self {
            Self::Descriptors => rustix::process::Resource::Nofile,
            Self::AddressSpace => rustix::process::Resource::As,
            Self::Data => rustix::process::Resource::Data,
        }
    }

    fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| u64::from(resource.number()) == number & 0xffff_ffff)
    }
}

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What counts.
    pub soft: u64,
    /// How far that can be raised.
    pub hard: u64,
}

impl Limit {
    fn read(address: u64) -> Option<Self> {
        let mut bytes = [[0; 8]; 2];
        read_memory(address, bytes.as_flattened_mut()).then(|| {
            let [soft, hard] = bytes.map(u64::from_le_bytes);
            Self { soft, hard }
        })
    }

    fn write(self, address: u64) -> bool {
        let bytes = [self.soft, self.hard].map(u64::to_le_bytes);
        write_memory(address, bytes.as_flattened())
    }

    fn parse(text: &str) -> Option<Self> {
        let (soft, hard) = text.split_once(':')?;
        Some(Self { soft: soft.parse().ok()?, hard: hard.parse().ok()? })
    }

    /// The limit that the kernel knows.
    fn of_kernel(resource: Resource) -> Self {
        let Rlimit { current, maximum } = getrlimit(resource.named());
        let [soft, hard] = [current, maximum].map(|limit| limit.unwrap_or(libc::RLIM_INFINITY));
        Self { soft, hard }
    }

    fn set_kernels(self, resource: Resource) -> bool {
        let [current, maximum] = [self.soft, self.hard].map(|limit| (limit != libc::RLIM_INFINITY).then_some(limit));
        setrlimit(resource.named(), Rlimit { current, maximum }).is_ok()
    }
}

/// The limits of a process as it sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits([Limit; COUNT]);

/// Those of the process: soft and hard.
static LIMITS: [[AtomicU64; 2]; COUNT] = [const { [const { AtomicU64::new(0) }; 2] }; COUNT];

impl Limits {
    /// Those of the process.
    pub fn of_process() -> Self {
        Self(LIMITS.each_ref().map(|limit| {
            let [soft, hard] = limit.each_ref().map(|limit| limit.load(Ordering::Relaxed));
            Limit { soft, hard }
        }))
    }

    /// Those of a thread's process: `own` for a child of `vfork`.
    pub fn of(own: Option<Self>) -> Self {
        own.unwrap_or_else(Self::of_process)
    }

    /// One of them.
    pub fn get(&self, resource: Resource) -> Limit {
        self.0[resource as usize]
    }

    /// What [`start`] takes in a program that this process executes.
    pub fn encode(&self) -> String {
        self.0.map(|limit| format!("{}:{}", limit.soft, limit.hard)).join(" ")
    }
}

fn keep(own: &mut Option<Limits>, resource: Resource, limit: Limit) {
    match own {
        Some(own) => own.0[resource as usize] = limit,
        None => set(resource, limit),
    }
}

fn set(resource: Resource, limit: Limit) {
    let [soft, hard] = &LIMITS[resource as usize];
    soft.store(limit.soft, Ordering::Relaxed);
    hard.store(limit.hard, Ordering::Relaxed);
}

/// A process begins: with the limits that it would have natively, as whoever started it says.
pub fn start(inherited: &str) {
    let mut inherited = inherited.split(' ').map(Limit::parse);
    for resource in Resource::ALL {
        set(resource, inherited.next().flatten().unwrap_or_else(|| Limit::of_kernel(resource)));
    }
}

/// A program is about to be executed that is not recorded: the kernel's limits become these. If that fails against expectation, a hard limit of
/// descriptors that was lowered stays so in the kernel, unless the process is privileged, and the recorder may run out of them, which ends its log.
pub fn hand_over(limits: &Limits) {
    for resource in Resource::ALL {
        let (limit, kernels) = (limits.get(resource), Limit::of_kernel(resource));
        let hard = limit.hard.min(kernels.hard);
        let limit = Limit { soft: limit.soft.min(hard), hard };
        if limit != kernels {
            limit.set_kernels(resource);
        }
    }
}

/// It has not been executed.
pub fn take_back() {
    for resource in Resource::ALL {
        let hard = Limit::of_kernel(resource).hard;
        let highest = if resource == Resource::Descriptors { hard } else { libc::RLIM_INFINITY };
        if !(Limit { soft: highest, hard: highest }.set_kernels(resource)) {
            Limit { soft: hard, hard }.set_kernels(resource);
        }
    }
}

/// The answer to a system call that asks for a limit, sets it, or meets it; none if the kernel is to make the call. `limits`: those of a child of
/// `vfork`.
pub fn instead(limits: &mut Option<Limits>, number: i64, args: &[u64; 6]) -> Option<i64> {
    let own = |pid: u64| pid as u32 == 0 || pid as u32 == process::current_pid();
    match number {
        libc::SYS_getrlimit => return Some(change(limits, Resource::of(args[0])?, 0, args[1])),
        libc::SYS_setrlimit => {
            let resource = Resource::of(args[0])?;
            return Some(if args[1] == 0 { error(libc::EFAULT) } else { change(limits, resource, args[1], 0) });
        }
        libc::SYS_prlimit64 if own(args[0]) => {
            return Some(change(limits, Resource::of(args[1])?, args[2], args[3]));
        }
        _ => {}
    }
    let limits = Limits::of(*limits);
    descriptor_limit::meets(limits.get(Resource::Descriptors).soft, number, args).or_else(|| {
        memory_limit::meets(limits.get(Resource::AddressSpace).soft, limits.get(Resource::Data).soft, number, args)
    })
}

/// `prlimit64` of the own process, with pointers that may be null.
fn change(limits: &mut Option<Limits>, resource: Resource, new: u64, old: u64) -> i64 {
    let before = Limits::of(*limits).get(resource);
    if new != 0 {
        let Some(new) = Limit::read(new) else { return error(libc::EFAULT) };
        if new.soft > new.hard {
            return error(libc::EINVAL);
        }
        if new.hard > before.hard && !may_raise_limits() {
            return error(libc::EPERM);
        }
        let most = Limit::of_kernel(resource).hard;
        if new.hard > most && !(Limit { soft: new.hard, hard: new.hard }.set_kernels(resource)) {
            return error(libc::EPERM);
        }
        keep(limits, resource, new);
        memory_limit::forget();
    }
    if old != 0 && !before.write(old) { error(libc::EFAULT) } else { 0 }
}
