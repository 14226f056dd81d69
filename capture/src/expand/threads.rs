//! Threads where an epoch begins: as many as there were go to where they were; what they have in their registers, the logger knows.

use super::word;
use crate::layout::THREAD;
use crate::sys::{self, MAP_ANONYMOUS, MAP_PRIVATE};
use crate::text::fail;
use crate::threads::{CLONE_SETTLS, bugnet_clone};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `clone`: memory, folders, descriptors, handlers and undo lists are shared, by a thread.
const FLAGS: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000 | CLONE_SETTLS;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
/// Bytes of the stack on which one waits, until all are there.
const STACK: u64 = 16 << 10;

/// Where the one that is being made goes, and its base of GS.
static TO: AtomicU64 = AtomicU64::new(0);
static GS: AtomicU64 = AtomicU64::new(0);
/// How many are there; and whether all go on.
static READY: AtomicU32 = AtomicU32::new(0);
static GOES_ON: AtomicU32 = AtomicU32::new(0);

fn set(which: u64, base: u64) {
    // SAFETY: a segment that none of this program's code uses.
    if base != 0 && unsafe { sys::call3(sys::ARCH_PRCTL, which, base, 0) } < 0 {
        fail("a thread has no such segment here", 0);
    }
}

/// Goes to where the thread was.
fn go(to: u64) -> ! {
    // SAFETY: the logger has the thread go on there with registers of its own.
    unsafe { asm!("jmp {to}", to = in(reg) to, options(noreturn)) }
}

unsafe extern "C" fn wait() -> ! {
    let to = TO.load(Ordering::SeqCst);
    set(ARCH_SET_GS, GS.load(Ordering::SeqCst));
    READY.fetch_add(1, Ordering::SeqCst);
    while GOES_ON.load(Ordering::SeqCst) == 0 {
        core::hint::spin_loop();
    }
    go(to)
}

/// Makes a thread, which waits: the one with this number.
fn make(number: u32, fs: u64, gs: u64, to: u64) {
    let room = [0, STACK, sys::PROT_READ | sys::PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, u64::MAX, 0];
    TO.store(to, Ordering::SeqCst);
    GS.store(gs, Ordering::SeqCst);
    // SAFETY: new memory, which stays; and a thread that uses it.
    let made = unsafe {
        let room = sys::call(sys::MMAP, room);
        if room < 0 {
            fail("a thread has no room", room);
        }
        bugnet_clone(FLAGS, room as u64 + STACK, 0, 0, fs, wait)
    };
    if made < 0 {
        fail("a thread cannot be made", made);
    }
    while READY.load(Ordering::SeqCst) < number {
        core::hint::spin_loop();
    }
}

/// Begins those that stand in the log from an address on: the first one is the calling thread.
pub fn begin(mut at: u64, end: u64) -> ! {
    let (mut first, mut count) = (None, 0);
    while at < end && (word(at) >> 32) as u16 == THREAD {
        let [fs, gs, to] = [2, 3, 3 + 17].map(|field| word(at + 8 * field));
        at += (word(at) & 0xffff_ffff).max(8);
        if first.is_none() {
            first = Some((fs, gs, to));
        } else {
            count += 1;
            make(count, fs, gs, to);
        }
    }
    let Some((fs, gs, to)) = first else { fail("the light log has no threads", 0) };
    set(ARCH_SET_FS, fs);
    set(ARCH_SET_GS, gs);
    GOES_ON.store(1, Ordering::SeqCst);
    go(to)
}
