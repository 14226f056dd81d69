//! Who called whom: unwinds a stopped thread from its registers and memory.

use crate::crash::Scope;
use crate::error::{ReplayError, Result};
use crate::memory::Memory;
use crate::symbols::{Place, Symbolizer};
use bugnet_debuginfo::frame::Frame as FrameState;
use bugnet_debuginfo::memory::Memory as KnownMemory;
use bugnet_debuginfo::registers::{GENERAL, Held, Home, RBP, RIP, RSP, Registers};
use bugnet_format::code::CodeStore;
use bugnet_format::regs::{GPR_NAMES, RegisterFile};
use bugnet_format::types::Addr;
use serde::Serialize;
use std::collections::HashSet;

/// Most frames of a backtrace; an endless recursion has more.
pub const MAX_FRAMES: usize = 128;
/// Largest distance in bytes between a frame's stack pointer and its frame pointer that is believed.
const MAX_FRAME_SIZE: u64 = 16 << 20;

/// A frame of the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Where it goes on: the next instruction of the innermost frame, the return address of others.
    pub pc: u64,
    /// How it was found.
    pub found: Found,
    /// What code that is; for a return address, the place of the call.
    #[serde(flatten)]
    pub place: Place,
    /// The functions of the frame, innermost first, with what is in scope; empty where that was not asked for or is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Scope>,
}

/// How a frame was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// It is the innermost: from the registers.
    Registers,
    /// By the unwinding tables of the frame inside it.
    Tables,
    /// By the frame pointer, since there are no tables; may be wrong, or leave a frame out.
    FramePointer,
    /// The word at the stack's top, since the innermost frame is no code: a call to nowhere.
    StackTop,
}

/// DWARF's numbers of the registers in the order of [`GPR_NAMES`].
pub(crate) const DWARF_NUMBERS: [usize; GPR_NAMES.len()] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

fn registers(regs: &RegisterFile) -> Registers {
    let mut general = [0; GENERAL];
    for (value, number) in regs.gpr.iter().zip(DWARF_NUMBERS) {
        general[number] = *value;
    }
    general[RIP] = regs.rip;
    Registers::present(general, Box::new(regs.ymm))
}

/// A stack as it was unwound.
#[derive(Clone, Debug)]
pub struct Unwound {
    /// The frames, for people.
    pub frames: Vec<Frame>,
    /// What is known of each: as many.
    pub states: Vec<FrameState>,
}

impl Unwound {
    /// The stack pointers of the frames, the innermost first, as far as tables lead to them.
    #[must_use]
    pub fn stack_pointers(&self) -> Vec<u64> {
        let is_sure = |frame: &Frame| matches!(frame.found, Found::Registers | Found::Tables);
        let sure = self.frames.iter().zip(&self.states).take_while(|(frame, _)| is_sure(frame));
        sure.filter_map(|(_, state)| state.registers.get(RSP)).collect()
    }
}

/// The frame outside another one.
struct Caller {
    regs: Registers,
    found: Found,
    /// The inner frame is one that the kernel pushed: its caller was interrupted, and did not call.
    interrupted: bool,
}

/// Unwinds the stack of a thread that is stopped with `regs`, innermost frame first; the list has that one at least.
///
/// Ends where the outermost frame is marked, where memory is not known, or where nothing plausible is found.
///
/// # Errors
/// The memory cannot be read any more.
pub fn backtrace(
    regs: &RegisterFile,
    memory: &mut dyn Memory,
    symbols: &mut Symbolizer,
    code: &CodeStore,
) -> Result<Vec<Frame>> {
    Ok(unwind(regs, memory, symbols, code)?.frames)
}

/// As [`backtrace`], with the registers of each frame as far as they are known.
///
/// # Errors
/// As [`backtrace`].
pub fn unwind(
    regs: &RegisterFile,
    memory: &mut dyn Memory,
    symbols: &mut Symbolizer,
    code: &CodeStore,
) -> Result<Unwound> {
    unwind_some(regs, memory, symbols, code, MAX_FRAMES)
}

/// As [`unwind`], no more than so many frames.
///
/// # Errors
/// As [`backtrace`].
pub fn unwind_some(
    regs: &RegisterFile,
    memory: &mut dyn Memory,
    symbols: &mut Symbolizer,
    code: &CodeStore,
    most: usize,
) -> Result<Unwound> {
    let code_pages: HashSet<Addr> = code.pages.iter().map(|page| page.addr).collect();
    let mut regs = registers(regs);
    let mut found = Found::Registers;
    let mut exact_pc = true;
    let mut out = Unwound { frames: Vec::new(), states: Vec::new() };
    while let Some(pc) = regs.get(RIP).filter(|pc| *pc != 0 || out.frames.is_empty()) {
        // A call may be its function's last instruction: the return address then belongs to another one.
        let at = Addr(if exact_pc { pc } else { pc.wrapping_sub(1) });
        out.frames.push(Frame { pc, found, place: symbols.lookup(at), scopes: Vec::new() });
        let (image, address) = symbols.file_at(at).map_or((None, at.0), |(image, address)| (Some(image), address));
        let bias = at.0.wrapping_sub(address);
        out.states.push(FrameState { image, pc, address, bias, registers: regs.clone(), cfa: None });
        let is_code =
            |symbols: &Symbolizer, addr: Addr| symbols.module_at(addr).is_some() || code_pages.contains(&addr.page());
        let caller = match by_tables(&out.states, memory)? {
            Some(caller) => Some(caller),
            None if out.frames.len() == 1 && !is_code(symbols, at) => from_stack_top(&regs, memory)?,
            None => by_frame_pointer(&regs, memory)?,
        };
        if let (Some(Caller { found: Found::Tables, regs, .. }), Some(state)) = (&caller, out.states.last_mut()) {
            state.cfa = regs.get(RSP);
        }
        let Some(caller) = caller.filter(|_| out.frames.len() < most.min(MAX_FRAMES)) else { break };
        let guessed = caller.found != Found::Tables;
        let plausible = |pc: u64| is_code(symbols, Addr(pc.wrapping_sub(1)));
        // A caller's frame lies above the frame that it called, unless a signal changed the stack.
        let above = caller.interrupted || caller.regs.get(RSP) > regs.get(RSP);
        if !above || (guessed && !caller.regs.get(RIP).is_some_and(plausible)) {
            break;
        }
        (regs, found, exact_pc) = (caller.regs, caller.found, caller.interrupted);
    }
    Ok(out)
}

/// Memory for the unwinder; remembers why it could not be read.
struct Unwinding<'a> {
    memory: &'a mut dyn Memory,
    failed: Option<ReplayError>,
}

impl KnownMemory for Unwinding<'_> {
    fn read(&mut self, addr: u64, len: usize) -> Vec<Option<u8>> {
        match self.memory.read_memory(Addr(addr), len as u64) {
            Ok(bytes) => bytes.into_iter().map(Some).collect(),
            Err(error) => {
                self.failed.get_or_insert(error);
                Vec::new()
            }
        }
    }
}

/// The caller of the last frame by the module's tables, without RIP if they mark it as the outermost; `None` without tables.
fn by_tables(states: &[FrameState], memory: &mut dyn Memory) -> Result<Option<Caller>> {
    let Some(FrameState { image: Some(image), address, bias, registers, .. }) = states.last() else { return Ok(None) };
    let mut memory = Unwinding { memory, failed: None };
    let step = image.unwind(*address, *bias, registers, &mut memory);
    if let Some(error) = memory.failed {
        return Err(error);
    }
    Ok(step.map(|step| Caller { regs: step.registers, found: Found::Tables, interrupted: step.signal_frame }))
}

fn by_frame_pointer(regs: &Registers, memory: &mut dyn Memory) -> Result<Option<Caller>> {
    let (Some(rbp), Some(rsp)) = (regs.get(RBP), regs.get(RSP)) else { return Ok(None) };
    if rbp < rsp || rbp - rsp > MAX_FRAME_SIZE || rbp % 8 != 0 {
        return Ok(None);
    }
    let (outer, back) = (read_u64(memory, rbp)?, read_u64(memory, rbp.wrapping_add(8))?);
    let mut next = [None; GENERAL];
    (next[RBP], next[RIP], next[RSP]) = (outer, back, rbp.checked_add(16).map(Held::computed));
    Ok(Some(Caller {
        regs: Registers { general: next, vectors: None },
        found: Found::FramePointer,
        interrupted: false,
    }))
}

fn from_stack_top(regs: &Registers, memory: &mut dyn Memory) -> Result<Option<Caller>> {
    let Some(rsp) = regs.get(RSP) else { return Ok(None) };
    let mut next = regs.clone();
    (next.general[RIP], next.general[RSP]) = (read_u64(memory, rsp)?, rsp.checked_add(8).map(Held::computed));
    Ok(Some(Caller { regs: next, found: Found::StackTop, interrupted: false }))
}

fn read_u64(memory: &mut dyn Memory, addr: u64) -> Result<Option<Held>> {
    let bytes: Option<[u8; 8]> = memory.read_memory(Addr(addr), 8)?.try_into().ok();
    Ok(bytes.map(|bytes| Held { value: u64::from_le_bytes(bytes), home: Some(Home::Memory(addr)) }))
}

#[cfg(test)]
mod tests;
