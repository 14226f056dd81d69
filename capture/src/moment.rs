//! A signal that comes between two calls waits for the next one, but not for long: then it is delivered where the thread is, and the log has that moment, by
//! registers and memory.

use crate::cpuid;
use crate::elf::PAGE;
use crate::hot;
use crate::layout::MOMENT;
use crate::log::Record;
use crate::reach::{LINE, Reach, digest};
use crate::signals::{Context, OURS};
use crate::snapshot;
use crate::state;
use crate::sys;
use crate::thread;

const TIMER_CREATE: u64 = 222;
const TIMER_SETTIME: u64 = 223;
const CLOCK_MONOTONIC: u64 = 1;
const SIGEV_THREAD_ID: u64 = 4;
/// How long a signal waits, in nanoseconds.
const PATIENCE: u64 = 3_000_000;
/// `si_code` of a timer's signal.
const SI_TIMER: i32 = -2;

/// What is looked at for a moment.
struct Looks {
    reach: Reach,
    pages: Pages,
}

/// Pages that have been asked for, each with [`IS_THERE`] if there is memory: what is taken for an address is often none, and a fault takes some microseconds.
struct Pages([u64; PAGES]);

/// How many pages are known at a time, each in the place that its number gives it.
const PAGES: usize = 512;
const IS_THERE: u64 = 1;
const MINCORE: u64 = 27;

impl Pages {
    /// Whether memory is mapped at an address.
    fn has(&mut self, address: u64) -> bool {
        let page = address & !(PAGE - 1);
        let known = &mut self.0[(page / PAGE) as usize % PAGES];
        if *known & !IS_THERE != page {
            let mut byte = 0u8;
            // SAFETY: a byte for one page.
            let found = unsafe { sys::call3(MINCORE, page, PAGE, &raw mut byte as u64) };
            *known = page | if found == 0 { IS_THERE } else { 0 };
        }
        *known & IS_THERE != 0
    }
}

struct Room(core::cell::UnsafeCell<Looks>);

// SAFETY: one thread uses it, the one that has the turn, in a handler that no other one interrupts.
unsafe impl Sync for Room {}

static ROOM: Room = Room(core::cell::UnsafeCell::new(Looks { reach: Reach::new(), pages: Pages([0; PAGES]) }));

/// A signal has come, and waits: not for ever.
pub fn wait() {
    let me = thread::get();
    if me.timer.is_none() {
        // `struct sigevent`: value, signal, to the thread with this id.
        let mut event = [0u64; 8];
        event[1] = OURS as u64 | SIGEV_THREAD_ID << 32;
        event[2] = me.tid.into();
        let mut id = 0u32;
        // SAFETY: structures of the kernel's.
        let made = unsafe { sys::call3(TIMER_CREATE, CLOCK_MONOTONIC, event.as_ptr() as u64, &raw mut id as u64) };
        me.timer = (made == 0).then_some(id);
    }
    set(PATIENCE);
}

/// It has been delivered.
pub fn over() {
    set(0);
}

fn set(nanoseconds: u64) {
    let Some(timer) = thread::get().timer else { return };
    // Again and again: where it comes while a call is being served, it is too early.
    let time = [0, nanoseconds, 0, nanoseconds];
    // SAFETY: a structure of the kernel's.
    unsafe { sys::call(TIMER_SETTIME, [timer.into(), 0, time.as_ptr() as u64, 0, 0, 0]) };
}

/// Whether a signal that is ours has come from the thread's timer; its `si_code`, and the timer's number.
pub fn is_timer(code: i32, timer: u32) -> bool {
    code == SI_TIMER && thread::get().timer == Some(timer)
}

/// Whether there is no moment at an address. Where in its rounds a string instruction with a repeat prefix is, no position says; and the dynamic linker puts the state of
/// vector registers on the stack where it looks up a function that is called for the first time: that differs from run to run, and is reachable from there.
pub fn cannot_be(rip: u64) -> bool {
    let linker = state::get().linker;
    (linker.0..linker.1).contains(&rip) || is_repeated(rip)
}

fn is_repeated(rip: u64) -> bool {
    let Some(bytes) = sys::read::<5>(rip) else { return false };
    let prefix = |byte: &u8| matches!(byte, 0xf2 | 0xf3 | 0x66 | 0x67 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65);
    let prefixes = bytes.iter().take_while(|byte| prefix(byte)).count();
    let rex = bytes.get(prefixes).is_some_and(|byte| byte & 0xf0 == 0x40);
    let repeats = bytes[..prefixes].iter().any(|byte| matches!(byte, 0xf2 | 0xf3));
    let opcode = bytes.get(prefixes + usize::from(rex));
    repeats && opcode.is_some_and(|opcode| matches!(opcode, 0xa4..=0xa7 | 0xaa..=0xaf))
}

/// A line as it would be without us.
fn line(at: u64) -> Option<[u8; LINE]> {
    // What looks like an address of ours is none: nothing of the program's leads here.
    if snapshot::OWN.contains(&at) {
        return None;
    }
    let mut bytes = sys::read(at)?;
    hot::original(at, &mut bytes);
    cpuid::original(at, &mut bytes);
    Some(bytes)
}

/// Tells the log where the thread is.
pub fn note(context: &Context) {
    let registers: [u64; 18] = core::array::from_fn(|n| context.register(n));
    // SAFETY: one thread uses it.
    let Looks { reach, pages } = unsafe { &mut *ROOM.0.get() };
    pages.0.fill(0);
    reach.find(&registers[..16], context.rsp(), state::get().data, |at| if pages.has(at) { line(at) } else { None });
    let Some(mut record) = Record::begin(MOMENT, 0, 19 * 8 + reach.count * 16) else {
        state::get().full = true;
        return;
    };
    registers.into_iter().for_each(|value| record.word(value));
    record.word(reach.count as u64);
    for at in &reach.lines[..reach.count] {
        record.word(*at);
        record.word(line(*at).map_or(0, |bytes| digest(&bytes).into()));
    }
    record.end();
}
