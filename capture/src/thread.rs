//! What this program knows of each thread: a slot of memory, which begins with this, and has behind it the stacks on which the thread is served. What runs there
//! finds it by the stack pointer.
//!
//! ```text
//! slot: | Thread | stack of calls that do not trap | stack of handlers |    SLOT bytes, at a multiple of them
//! ```

use crate::borrowed::Borrowed;
use crate::epoch::Stand;
use crate::members;
use crate::signals::Own;
use crate::sys::{self, MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a slot.
const SLOT: u64 = 256 << 10;
/// Where the slots lie.
const AT: u64 = 0x1102_0000_0000;
/// Most threads that a process has at a time: as many as Linux gives ids to, where nobody has asked for more.
pub const MOST: usize = 1 << 15;
/// Bytes of the stack of handlers: the kernel's frames, with all registers that there are, and what they call.
const HANDLER_STACK: u64 = 128 << 10;
/// Where in a slot the stack of calls that do not trap ends.
pub const CALLS_END: u64 = SLOT - HANDLER_STACK;

/// A thread of the program's.
#[repr(C)]
pub struct Thread {
    /// The base of FS, by which a site that jumps finds it; 0 if that is not known ([`crate::hot`]).
    pub base: u64,
    /// The slot's number.
    pub index: u32,
    /// Its id.
    pub tid: u32,
    /// Not 0 as long as it lives: the kernel makes it 0.
    pub alive: AtomicU32,
    /// Its place among those that have turns ([`crate::members`]).
    pub place: u32,
    pub signals: Own,
    /// The timer of signals that wait.
    pub timer: Option<u32>,
    /// Where it goes on once a signal is delivered at a site that jumps.
    pub back: u64,
    /// What it has asked the kernel to make 0 at its end, and its list of robust futexes.
    pub cleared: u64,
    pub robust: u64,
    /// Whether the light part has ended for it.
    pub has_left: bool,
    /// The file that it is about to open, which several processes have mapped.
    opens: Option<&'static members::MappedFile>,
    /// Whether it tries to lock a priority-inheriting futex again.
    pub tries_again: bool,
    /// The descriptor for which it has waited last, while others had the turn ([`crate::ready`]).
    pub waited_for: Option<u64>,
    /// The frame that it begins with.
    pub frame: u64,
    /// How many accesses of memory it still makes step by step ([`crate::chaos`]).
    pub steps: u32,
    /// Where it is in the program.
    pub stand: Stand,
    /// Memory for what the kernel writes while others have the turn.
    pub borrowed: Borrowed,
}

impl Thread {
    /// It is about to open such a file, or no longer.
    pub fn opens(&mut self, file: Option<&'static members::MappedFile>) {
        if let Some(before) = core::mem::replace(&mut self.opens, file) {
            before.opening.fetch_sub(1, Ordering::SeqCst);
        }
        if let Some(file) = file {
            file.opening.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub fn is_opening(&self) -> bool {
        self.opens.is_some()
    }

    fn slot(&self) -> u64 {
        at(self.index as usize)
    }

    /// Where the stack of calls that do not trap ends.
    pub fn calls_end(&self) -> u64 {
        self.slot() + CALLS_END
    }

    /// The stack of handlers: where it begins, and its bytes.
    pub fn handlers(&self) -> (u64, u64) {
        (self.calls_end(), HANDLER_STACK)
    }

    /// Whether a stack pointer is on that: a trapped call is being served, at whose end a signal is delivered.
    pub fn is_handling(&self, rsp: u64) -> bool {
        let (start, size) = self.handlers();
        (start..=start + size).contains(&rsp)
    }
}

/// Where a slot lies.
fn at(index: usize) -> u64 {
    AT + index as u64 * SLOT
}

/// The calling thread.
pub fn get() -> &'static mut Thread {
    let rsp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) rsp, options(nomem, nostack, preserves_flags)) };
    // SAFETY: all of this program runs on stacks in slots; handlers that interrupt others read and write single fields, which nobody holds a reference to.
    unsafe { &mut *((rsp & !(SLOT - 1)) as *mut Thread) }
}

/// The thread in a slot that is in use.
pub fn of(index: u32) -> &'static Thread {
    // SAFETY: the slot is there as long as the process, and others read only what is atomic, or set before they could know of the thread.
    unsafe { &*(at(index as usize) as *const Thread) }
}

/// Makes a slot, or makes it anew.
pub fn make(index: usize) -> Option<&'static mut Thread> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    // SAFETY: nothing else lies there, or nobody uses it any more.
    let made = unsafe { sys::call(sys::MMAP, [at(index), SLOT, PROT_READ | PROT_WRITE, flags, u64::MAX, 0]) };
    if made != at(index) as i64 {
        return None;
    }
    let thread = at(index) as *mut Thread;
    let new = Thread {
        base: 0,
        index: index as u32,
        tid: 0,
        alive: AtomicU32::new(1),
        place: 0,
        signals: Own::new(),
        timer: None,
        back: 0,
        cleared: 0,
        robust: 0,
        has_left: false,
        opens: None,
        tries_again: false,
        waited_for: None,
        frame: 0,
        steps: 0,
        stand: Stand::new(),
        borrowed: Borrowed::new(),
    };
    // SAFETY: memory that was made just now.
    unsafe {
        thread.write(new);
        Some(&mut *thread)
    }
}
