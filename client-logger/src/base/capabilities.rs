//! What the process may do beyond what its user may.

/// May access files whatever their mode says.
const DAC_OVERRIDE: u32 = 1;
/// May read them.
const DAC_READ_SEARCH: u32 = 2;
/// May raise hard limits.
const SYS_RESOURCE: u32 = 24;

/// The three sets of the calling thread, in two halves: what is in effect, what may be, what is inherited.
type Sets = [[u32; 3]; 2];

const VERSION_3: u32 = 0x2008_0522;

fn get() -> Option<Sets> {
    let (mut header, mut sets) = ([VERSION_3, 0], Sets::default());
    // SAFETY: structures of ours, as large as the version has them.
    let done = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) } == 0;
    done.then_some(sets)
}

fn set(sets: &Sets) {
    let mut header = [VERSION_3, 0];
    // SAFETY: structures of ours, as large as the version has them.
    unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) };
}

/// Whether the process may raise hard limits.
pub fn may_raise_limits() -> bool {
    get().is_some_and(|sets| sets[0][0] & 1 << SYS_RESOURCE != 0)
}

/// Does something with what the calling thread may do to files, as it will be once it has executed a program: who has given up
/// being root, but not yet what root may do, loses that.
pub fn as_once_executed<R>(ask: impl FnOnce() -> R) -> R {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    let lost = [DAC_OVERRIDE, DAC_READ_SEARCH].into_iter().filter(|capability| {
        // SAFETY: numbers only.
        let kept = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET, *capability, 0, 0) };
        !root && kept != 1
    });
    let lost: u32 = lost.map(|capability| 1 << capability).sum();
    let Some(before) = get().filter(|sets| sets[0][0] & lost != 0) else { return ask() };
    let mut now = before;
    now[0][0] &= !lost;
    // Of this thread alone.
    set(&now);
    let answer = ask();
    set(&before);
    answer
}
