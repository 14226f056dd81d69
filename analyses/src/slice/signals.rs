//! Signals backwards: out of a handler, and back to what it interrupted.
//!
//! The kernel saves the interrupted registers in a frame on the stack, and restores them from there: between, they are followed as memory, since
//! the handler may have changed them. Vector and x87 registers are put aside instead, until the handler's beginning.

use super::back::State;
use super::graph::{Origin, Source};
use super::live::Registers;
use super::walker::Walker;
use super::wants::Want;
use bugnet_events::atoms::Atoms;
use bugnet_events::code::Decoded;
use bugnet_events::effects::Control;
use bugnet_events::stretch::Access;
use bugnet_format::types::Tid;
use bugnet_replay::cursor::Place;
use bugnet_replay::syscall::Made;
use std::ops::Range;

/// Where a frame has the general purpose registers, which are in this order (`struct rt_sigframe`, `struct sigcontext_64` of Linux).
const REGISTERS: u64 = 48;
const ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4];
/// Return address, context and information; what is behind that, with vector registers, is of no fixed length.
const FRAME: u64 = 440;
/// Instructions between a handler's return and the system call, at most.
const PATIENCE: u32 = 8;

/// What was wanted behind a handler that one is in.
pub struct Aside {
    tid: Tid,
    /// Where its frame is, as far as that is known.
    frame: Frame,
    registers: Registers,
}

enum Frame {
    Known(u64),
    /// It has not been found out in so many instructions.
    Sought(u32),
    /// There is none: a child of `vfork` has the thread.
    Lent,
}

/// The bytes of a register in a frame.
fn saved(frame: u64) -> impl Iterator<Item = (Range<u64>, Atoms)> {
    ORDER.into_iter().zip(0..).map(move |(number, slot)| {
        let first = frame.wrapping_add(REGISTERS + 8 * slot);
        (first..first.wrapping_add(8), Atoms::gpr(number))
    })
}

impl Aside {
    /// Its registers are wanted again.
    pub fn give_back(self, state: &mut State) {
        for (number, want) in self.registers.wanted(!Atoms::NONE).collect::<Vec<_>>() {
            state.live.registers(self.tid).add(Atoms::numbered(number), want, &mut state.sets);
        }
    }
}

impl Walker<'_> {
    /// A handler is over.
    pub fn returned(&mut self, place: Place) {
        let registers = std::mem::take(self.state.live.registers(place.tid));
        self.asides.push(Aside { tid: place.tid, frame: Frame::Sought(0), registers });
    }

    /// A child of `vfork` has had the thread: its parent has the registers that it had before the call.
    pub fn resumed(&mut self, place: Place) {
        let registers = std::mem::take(self.state.live.registers(place.tid));
        self.asides.push(Aside { tid: place.tid, frame: Frame::Lent, registers });
    }

    /// A system call, which may be the one by which the child began: its parent's registers are wanted again, of which the call changed some.
    pub fn lent(&mut self, tid: Tid, made: &Made) {
        let forks = matches!(made.number.cast_signed(), libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3);
        let is_lent = |aside: &Aside| aside.tid == tid && matches!(aside.frame, Frame::Lent);
        if forks
            && made.result == 0
            && let Some(at) = self.asides.iter().rposition(is_lent)
        {
            self.asides.remove(at).give_back(&mut self.state);
        }
    }

    /// Whether an instruction of a thread may tell where a frame is.
    pub fn seeks_frame(&self, tid: Tid) -> bool {
        self.asides.iter().any(|aside| aside.tid == tid && matches!(aside.frame, Frame::Sought(n) if n < PATIENCE))
    }

    /// The handler returns to where its frame begins.
    pub fn look_for_frame(&mut self, tid: Tid, decoded: &Decoded, accesses: &[Access]) {
        let last = self.asides.iter_mut().rfind(|aside| aside.tid == tid);
        let Some(Aside { frame, registers, .. }) = last else { return };
        let Frame::Sought(count) = frame else { return };
        *count += 1;
        if decoded.control != Control::Return {
            return;
        }
        let Some(at) = accesses.iter().find(|access| access.reads).map(|access| access.addr) else { return };
        *frame = Frame::Known(at);
        for (bytes, atoms) in saved(at) {
            let wanted: Vec<(usize, Want)> = registers.wanted(atoms).collect();
            registers.remove(atoms);
            let first = atoms.numbers().next().unwrap_or_default();
            for (number, want) in wanted {
                self.state.live.add(bytes.start + (number - first) as u64, 1, want, &mut self.state.sets);
            }
        }
    }

    /// A handler begins.
    pub fn delivered(&mut self, place: Place, signal: u64, frame: u64) {
        // What the handler finds that was not there before: its arguments, flags, and what the kernel clears.
        let kept = [1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15].into_iter().map(Atoms::gpr).collect::<Atoms>();
        let kept = kept | Atoms::FS_BASE | Atoms::GS_BASE;
        self.set_from_outside(place, Origin::Signal { number: signal }, !kept, &[]);
        for (bytes, atoms) in saved(frame) {
            let first = atoms.numbers().next().unwrap_or_default();
            for (at, want) in self.state.live.wanted(bytes.start, 8) {
                self.state.live.remove(at);
                let atom = Atoms::numbered(first + (at - bytes.start) as usize);
                self.state.live.registers(place.tid).add(atom, want, &mut self.state.sets);
            }
        }
        self.set_from_outside(place, Origin::Signal { number: signal }, Atoms::NONE, &[(frame, FRAME)]);
        if let Some(frames) = &mut self.state.frames {
            let waited = frames.delivered(place.tid, frame, &mut self.state.sets);
            let origin = Origin::Signal { number: signal };
            let source = Source { origin, atoms: Atoms::NONE, tid: None, bytes: Vec::new() };
            self.source(source, Some(place), waited.as_slice());
        }
        // Handlers that were left by a jump have no return, and nothing aside.
        let is_its = |aside: &Aside| {
            aside.tid == place.tid
                && match aside.frame {
                    Frame::Known(at) => at == frame,
                    Frame::Sought(_) => true,
                    Frame::Lent => false,
                }
        };
        if let Some(at) = self.asides.iter().rposition(is_its) {
            self.asides.remove(at).give_back(&mut self.state);
        }
    }
}
