//! Threads that the kernel keeps in the middle of an access to memory, until somebody supplies what is there: another thread
//! that serves page faults (`userfaultfd`), or a file system of the program's own.
//!
//! Such a thread cannot leave its block of code. If the one that is to supply the memory needs what the waiting one has hold
//! of, the two would wait for each other for ever, as they do not natively. So the kernel is made to give up waiting, by a signal to the thread ([`call_back`]): as
//! if the instruction had faulted, the thread leaves its block before it, and executes it in one of its own, in which it has hold of nothing else. Where that does not
//! help, as both need the same memory, recording ends.

use crate::base::descriptors::read_text;
use crate::base::maps::{self, Region};
use bugnet_dr::space::is_tool;
use bugnet_format::types::Tid;
use std::time::{Duration, Instant};

/// So long a thread is waited for without a question.
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// So long after a look comes the next.
const PAUSE: Duration = Duration::from_millis(10);
/// A thread that was in the same place at so many looks is called back.
const CALLED_BACK: u32 = 2;
/// And again so many later.
const AGAIN: u32 = 20;
/// A thread that was there at so many is stuck.
const LOOKS: u32 = 200;
/// The code of the signal that calls a thread back, which no libc sends, with the address of the instruction.
const CODE: i32 = -0xb6;

/// Someone's patience with a thread that it waits for.
pub struct Patience {
    tid: Tid,
    next: Option<Instant>,
    place: String,
    looks: u32,
}

impl Patience {
    /// Waiting begins.
    pub fn new(tid: Tid) -> Self {
        Self { tid, next: None, place: String::new(), looks: 0 }
    }

    /// Whether the thread is stuck. To be asked again and again; it may be called back.
    pub fn is_lost(&mut self) -> bool {
        let now = Instant::now();
        if now < *self.next.get_or_insert(now + FIRST_LOOK) {
            return false;
        }
        self.next = Some(now + PAUSE);
        let place = place(self.tid).unwrap_or_default();
        if place != self.place || place.is_empty() {
            (self.place, self.looks) = (place, 0);
        }
        self.looks += 1;
        if self.looks % AGAIN == CALLED_BACK {
            call_back(self.tid, &self.place);
        }
        self.looks >= LOOKS && !self.place.is_empty()
    }
}

/// Stack pointer and program counter of a thread that waits in the kernel without a system call; none of others.
fn place(tid: Tid) -> Option<String> {
    let text = |file| read_text(format!("/proc/self/task/{}/{file}", tid.id())).ok();
    // `-1` in place of a system call's number.
    let place = text("syscall")?.strip_prefix("-1 ")?.to_owned();
    // A thread that is stopped waits for whoever stopped it.
    let waits = text("stat")?.rsplit_once(") ")?.1.starts_with(['S', 'D']);
    waits.then_some(place)
}

/// Calls a thread back that waits at this place, if that is in the code cache.
fn call_back(tid: Tid, place: &str) {
    let pc = place.split_whitespace().nth(1).and_then(|pc| u64::from_str_radix(pc.strip_prefix("0x")?, 16).ok());
    let Some(pc) = pc.filter(|pc| is_tool(*pc)) else { return };
    // DynamoRIO's own code and its client's is in files.
    let in_cache =
        |region: &Region| region.range.contains(&pc) && !region.named && region.protection & libc::PROT_EXEC != 0;
    if !maps::all().iter().any(in_cache) {
        return;
    }
    let mut info = [0_u64; 16];
    info[0] = libc::SIGSEGV as u64;
    info[1] = u64::from(CODE as u32);
    info[3] = pc;
    // SAFETY: a description of the kernel's size.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), tid.id(), libc::SIGSEGV, info.as_ptr()) };
}

/// Whether a signal calls the thread back that it interrupts: to which instruction.
///
/// # Safety
/// The kernel's description of a signal.
pub unsafe fn calls_back(info: *const u8) -> Option<u64> {
    // SAFETY: the caller's promise.
    let words = unsafe { info.cast::<[u64; 4]>().read() };
    (words[0] as i32 == libc::SIGSEGV && words[1] as i32 == CODE).then_some(words[3])
}

/// Makes it look as if that instruction had faulted.
///
/// # Safety
/// As for [`calls_back`]; nobody else refers to it.
pub unsafe fn make_fault(info: *mut u8) {
    const SEGV_MAPERR: u64 = 1;
    // SAFETY: the caller's promise.
    unsafe {
        info.cast::<u64>().add(1).write(SEGV_MAPERR);
        info.cast::<u64>().add(2).write(0);
    }
}
