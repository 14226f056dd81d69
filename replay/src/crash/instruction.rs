//! The instruction at which a thread stands, taken from the log's code picture.

use super::Signal;
use crate::disassembly::{self, LONGEST};
use bugnet_format::code::CodeStore;
use bugnet_format::frame::Interval;
use bugnet_format::record::Record;
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, CodeSeq};
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use serde::Serialize;

/// An instruction, disassembled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its bytes, hexadecimal.
    pub bytes: String,
    /// In Intel's syntax.
    pub text: String,
    /// The memory that it would access with the registers as they are.
    pub accesses: Vec<Access>,
    /// For a division by a register: the register's value.
    #[serde(skip)]
    pub(super) divisor: Option<u64>,
}

impl Instruction {
    /// Whether a signal says that it could not be fetched: the fault is at its own address, where it accesses nothing.
    pub(super) fn is_refused(&self, signal: &Signal) -> bool {
        let is_fault = matches!(signal.number, libc::SIGSEGV | libc::SIGBUS) && !signal.is_sent();
        is_fault && signal.address.is_some_and(|address| is_fetch(address, self.address, &self.accesses))
    }
}

/// Whether a fault at an address tells that the instruction there could not be fetched, and not what it accesses.
#[must_use]
pub fn is_fetch(address: u64, rip: u64, accesses: &[Access]) -> bool {
    let touches = |access: &Access| address.wrapping_sub(access.address) < access.size.max(1) as u64;
    address == rip && !accesses.iter().any(touches)
}

/// A memory operand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    /// `read`, `write`, or both.
    pub access: &'static str,
    /// Address of the first byte.
    pub address: u64,
    /// Bytes; 0 where that depends on registers (string instructions).
    pub size: usize,
}

/// The code picture in force at the end of an interval.
pub(super) fn code_seq_at_end(interval: &Interval) -> CodeSeq {
    let seqs = interval.records().flatten().map(|placed| match placed.record {
        Record::Code { seq, .. } => seq,
        _ => interval.header.code_seq,
    });
    seqs.fold(interval.header.code_seq, CodeSeq::max)
}

/// The instruction at `regs.rip`; `None` where the picture has no code, or none that decodes.
pub(super) fn at(regs: &RegisterFile, code: &CodeStore, seq: CodeSeq) -> Option<Instruction> {
    let bytes = code_bytes(code, seq, Addr(regs.rip));
    let mut decoder = Decoder::with_ip(64, &bytes, regs.rip, DecoderOptions::NONE);
    let decoded = decoder.decode();
    if decoded.is_invalid() {
        return None;
    }
    let text = disassembly::text(&decoded);
    let mut factory = InstructionInfoFactory::new();
    let accesses = factory.info(&decoded).used_memory().iter().filter_map(|memory| {
        let access = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => "read",
            OpAccess::Write | OpAccess::CondWrite => "write",
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => "read and write",
            _ => return None,
        };
        let address = memory.virtual_address(0, |register, _, _| register_value(regs, register))?;
        Some(Access { access, address, size: memory.memory_size().size() })
    });
    let bytes = disassembly::hex(&bytes[..decoded.len()]);
    let divides = matches!(decoded.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
    let divisor =
        (divides && decoded.op0_kind() == OpKind::Register).then(|| register_value(regs, decoded.op0_register()));
    let divisor = divisor.flatten();
    Some(Instruction { address: regs.rip, bytes, text, accesses: accesses.collect(), divisor })
}

/// The code from `addr` on, as far as the picture has it, up to the longest instruction.
pub(crate) fn code_bytes(code: &CodeStore, seq: CodeSeq, addr: Addr) -> Vec<u8> {
    let mut out = Vec::new();
    let pages = code.up_to(seq);
    while (out.len() as u64) < LONGEST {
        let Some(at) = addr.0.checked_add(out.len() as u64).map(Addr) else { break };
        let Some(page) = pages.iter().rfind(|page| page.addr == at.page()) else { break };
        let from = (at.0 - page.addr.0) as usize;
        let take = (LONGEST as usize - out.len()).min(page.bytes.len() - from);
        out.extend_from_slice(&page.bytes[from..from + take]);
    }
    out
}

/// The value of a general purpose register or a segment's base; `None` for vector indices.
#[must_use]
pub fn register_value(regs: &RegisterFile, register: Register) -> Option<u64> {
    match register {
        Register::FS => Some(regs.fs_base),
        Register::GS => Some(regs.gs_base),
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        _ if register.is_gpr() => {
            let value = *regs.gpr.get(register.full_register().number())?;
            match register.size() {
                8 => Some(value),
                4 => Some(value & u64::from(u32::MAX)),
                _ => None,
            }
        }
        _ => None,
    }
}
