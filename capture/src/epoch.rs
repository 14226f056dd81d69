//! Epochs: every now and then, an expansion can begin anew. What there is of each thread stands in the log, at the beginning of a part, and a fork of the process writes the memory to
//! files beside it ([`crate::snapshot`]), while the program goes on. So what came before can go, and the log has the last stretch only.
//!
//! Who has the turn begins an epoch, before it makes a call, when a word has changed that `bugnet record` counts up in a file that all processes have mapped. All other threads wait: each is at
//! a call, which the log has when it is over, or between two instructions.

use crate::calls;
use crate::elf::PAGE;
use crate::folder::Entry;
use crate::hot::Frame;
use crate::layout::{CLOCK, EPOCH, NEW, OUTPUT, STATE, THREAD};
use crate::log::{self, Record};
use crate::members::words;
use crate::signals::Context;
use crate::snapshot;
use crate::stack::{AT_HWCAP2, FSGSBASE, Kernel};
use crate::state;
use crate::streams;
use crate::sys::{self, MAP_FIXED_NOREPLACE, MAP_SHARED, PROT_READ};
use crate::text::Text;
use crate::thread::{self, Thread};
use crate::threads;
use crate::turn;
use core::arch::asm;
use core::sync::atomic::Ordering;

/// Where the word lies.
const AT: u64 = 0x1103_0000_0000;
const BRK: u64 = 12;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
/// Components of the state that XSAVE is to save: x87, SSE, AVX.
const COMPONENTS: u32 = 7;
const SSE: u64 = 2;
/// Where in it the vector registers are, what is there, and how many bytes come behind the part that all processors have.
const VECTORS: usize = 160;
const IN_USE: usize = 512;
const LEGACY: usize = 512;

/// What a process knows of epochs.
pub struct Epochs {
    /// The word when it has last looked; none where nobody asks for epochs.
    seen: Option<u32>,
    /// Which epoch it has last begun, or could not, of those that processes begin together which share memory.
    common: u32,
    /// The fork that writes the memory of the last one.
    fork: Option<u32>,
    /// Whether forks have not all memory of the program's.
    is_off: bool,
    /// Whether there are instructions that read the bases of FS and GS.
    reads_bases: bool,
}

impl Epochs {
    pub const fn new() -> Self {
        Self { seen: None, common: 0, fork: None, is_off: false, reads_bases: false }
    }
}

/// Where in the program a thread is that waits.
#[derive(Clone, Copy)]
pub enum Place {
    /// At the call that it makes, behind whose instruction this frame of the kernel's is.
    Call(u64),
    /// Where this frame of the kernel's is.
    Between(u64),
    /// The same, and has not begun.
    Beginning(u64),
    /// At the call that a site makes which jumps, with this frame ([`crate::hot`]).
    Jump(u64),
}

/// The state of x87 and vector registers, as XSAVE writes it.
#[repr(C, align(64))]
struct Saved([u8; STATE]);

/// Where a thread is in the program, and what others cannot see of it.
pub struct Stand {
    place: Option<Place>,
    /// Bases of FS and GS.
    bases: [u64; 2],
    saved: Saved,
}

impl Stand {
    pub const fn new() -> Self {
        Self { place: None, bases: [0; 2], saved: Saved([0; STATE]) }
    }

    /// The thread is there.
    pub fn is_at(&mut self, place: Place) {
        self.place = Some(place);
    }

    /// A new thread begins with this frame, and base of FS, if that is not its parent's, which is the calling one.
    pub fn begins(&mut self, frame: u64, base: Option<u64>) {
        let [fs, gs] = bases();
        (self.place, self.bases) = (Some(Place::Beginning(frame)), [base.unwrap_or(fs), gs]);
    }

    /// Whether it has begun.
    fn is_amid(&self) -> bool {
        !matches!(self.place, None | Some(Place::Beginning(_)))
    }

    fn see(&mut self) {
        self.bases = bases();
        if matches!(self.place, Some(Place::Jump(_))) {
            self.saved.0[LEGACY..].fill(0);
            // SAFETY: room for the components, aligned, whose header is zero.
            unsafe {
                asm!("xsave [{}]", in(reg) self.saved.0.as_mut_ptr(), in("eax") COMPONENTS, in("edx") 0, options(nostack))
            };
        }
    }

    /// The registers in the order of a signal's, and the state of the others.
    fn registers(&self) -> Option<([u64; 18], Saved)> {
        let mut saved = Saved([0; STATE]);
        match self.place? {
            Place::Jump(frame) => {
                // SAFETY: the thread waits in the call, and the frame is on its stack.
                let frame = unsafe { &*(frame as *const Frame) };
                saved.0.copy_from_slice(&self.saved.0);
                for (at, word) in frame.vectors().iter().flatten().enumerate() {
                    saved.0[VECTORS + 8 * at..][..8].copy_from_slice(&word.to_le_bytes());
                }
                let in_use = u64::from_le_bytes(core::array::from_fn(|i| saved.0[IN_USE + i])) | SSE;
                saved.0[IN_USE..][..8].copy_from_slice(&in_use.to_le_bytes());
                Some((frame.registers(), saved))
            }
            Place::Call(frame) | Place::Between(frame) | Place::Beginning(frame) => {
                let context = Context::at(frame);
                let (at, bytes) = context.vectors();
                // SAFETY: room for so many bytes.
                unsafe { sys::copy(saved.0.as_mut_ptr(), at, STATE.min(bytes as usize)) };
                let mut registers: [u64; 18] = core::array::from_fn(|n| context.register(n));
                if matches!(self.place, Some(Place::Call(_))) {
                    registers[16] -= calls::BYTES;
                }
                Some((registers, saved))
            }
        }
    }
}

/// The calling thread's bases of FS and GS.
fn bases() -> [u64; 2] {
    if state::get().epochs.reads_bases {
        let (fs, gs): (u64, u64);
        // SAFETY: the kernel has said that programs may do so.
        unsafe {
            asm!("rdfsbase {}", "rdgsbase {}", out(reg) fs, out(reg) gs, options(nomem, nostack, preserves_flags))
        };
        return [fs, gs];
    }
    [ARCH_GET_FS, ARCH_GET_GS].map(|which| {
        let mut base = 0u64;
        // SAFETY: room for an address.
        unsafe { sys::call3(sys::ARCH_PRCTL, which, &raw mut base as u64, 0) };
        base
    })
}

/// The calling thread is about to wait, or may: others may begin an epoch meanwhile, and do not see all that it has.
pub fn wait() {
    if state::get().epochs.seen.is_some() {
        thread::get().stand.see();
    }
}

fn word() -> u32 {
    // SAFETY: `begin` has found it mapped.
    unsafe { (AT as *const u32).read_volatile() }
}

/// The program begins: whether somebody asks for epochs. Then a part of the log has nothing but how it begins, and stays.
pub fn begin(kernel: &Kernel) {
    let file = Entry::of(format_args!("{CLOCK}")).open(0);
    if file < 0 {
        return;
    }
    // SAFETY: replaces nothing; this program's own descriptor.
    let mapped = unsafe {
        let args = [AT, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, file as u64, 0];
        let mapped = sys::call(sys::MMAP, args);
        sys::call3(sys::CLOSE, file as u64, 0, 0);
        mapped
    };
    if mapped == AT as i64 {
        let epochs = &mut state::get().epochs;
        epochs.seen = Some(word());
        epochs.reads_bases = kernel.auxiliary_of(AT_HWCAP2).is_some_and(|features| features & FSGSBASE != 0);
        log::begin_part(0);
    }
}

/// In a forked child: what writes memory is its parent's.
pub fn forked() {
    let epochs = &mut state::get().epochs;
    epochs.fork = None;
    epochs.seen = epochs.seen.map(|_| word());
}

/// Forks have not all memory of the program's from here on (`MADV_DONTFORK`, `MADV_WIPEONFORK`): no epoch begins any more.
pub fn turn_off() {
    state::get().epochs.is_off = true;
}

/// Begins an epoch, if it is time, and can be: the calling thread has the turn, and is at a call.
pub fn begin_if_due() {
    if state::get().epochs.seen.is_some_and(|seen| seen != word()) {
        begin_one();
    }
}

#[cold]
fn begin_one() {
    let asked = word();
    state::get().epochs.seen = Some(asked);
    if can_begin() {
        if turn::is_with_others() {
            words().epoch.store(asked, Ordering::SeqCst);
            state::get().epochs.common = asked;
        }
        thread::get().stand.see();
        begin_with(asked);
    }
}

/// The calling thread has the turn again, and goes on from where it has told that it waits: if another process has begun an epoch with which this one shares memory, this one does so
/// now, before it changes any. If it cannot, its log says that it lacks this epoch.
pub fn follow() {
    let asked = words().epoch.load(Ordering::SeqCst);
    let epochs = &mut state::get().epochs;
    if epochs.seen.is_none() || epochs.common == asked {
        return;
    }
    (epochs.common, epochs.seen) = (asked, Some(asked));
    if can_begin() && thread::get().stand.is_amid() {
        begin_with(asked);
    } else {
        log::begin_part(asked);
    }
}

/// What processes know of each other that share memory begins anew.
pub fn begin_with_others() {
    state::get().epochs.common = words().epoch.load(Ordering::SeqCst);
}

fn can_begin() -> bool {
    let state = state::get();
    let is_captured = state.on && !state.full && state.ends.is_none() && state.lent == 0;
    is_captured && !state.epochs.is_off && !turn::is_lost() && !is_writing()
}

fn begin_with(asked: u32) {
    let state = state::get();
    state.output = OUTPUT;
    let Some(part) = log::begin_part(asked) else { return };
    if note(thread::get(), part) {
        state.epochs.fork = snapshot::take(part);
    }
}

/// Whether the fork still writes that was made last.
fn is_writing() -> bool {
    let Some(fork) = state::get().epochs.fork else { return false };
    let is_over = snapshot::is_over(fork);
    if is_over {
        state::get().epochs.fork = None;
    }
    !is_over
}

/// The process executes another program: nobody writes its memory any more.
pub fn end() {
    let state = state::get();
    if state.lent == 0
        && let Some(fork) = state.epochs.fork.take()
    {
        snapshot::stop(fork);
    }
}

/// Tells the log what there is of each thread; whether there was room.
fn note(me: &Thread, part: u32) -> bool {
    let mut text = Text::<4096>::new();
    streams::encode(&mut text);
    let text = text.bytes();
    // SAFETY: asks for the break.
    let heap = unsafe { sys::call3(BRK, 0, 0, 0) } as u64;
    let Some(mut record) = Record::begin(EPOCH, 0, 32 + text.len()) else { return false };
    record.word(heap);
    record.word(turn::number().into());
    record.word(part.into());
    record.word(text.len() as u64);
    record.bytes(text);
    record.end();
    threads::living().all(|index| note_thread(if index == me.index { me } else { thread::of(index) }))
}

fn note_thread(thread: &Thread) -> bool {
    let Some((registers, saved)) = thread.stand.registers() else { return false };
    let kind = if matches!(thread.stand.place, Some(Place::Beginning(_))) { NEW } else { 0 };
    let Some(mut record) = Record::begin(THREAD, kind, (3 + 18) * 8 + STATE) else { return false };
    record.word(thread.tid.into());
    thread.stand.bases.into_iter().chain(registers).for_each(|word| record.word(word));
    record.bytes(&saved.0);
    record.end();
    true
}
