//! What `access` and `liveness` know of instructions, compared with what iced-x86 knows, for every instruction that a
//! recorded program can execute.

mod dynamorio;
mod encodings;
mod expected;
mod iced;

use bugnet_dr::access::{Access, Action, classify};
use bugnet_dr::displaced::displaced;
use bugnet_dr::ir::Instr;
use bugnet_dr::liveness::{Effects, effects, flags_read_first};
use bugnet_format::regs::RegisterFile;
use expected::{EXCEPTIONS, Outcome};
use iced::Ranges;
use iced_x86::{
    Code, Decoder, DecoderOptions, EncodingKind, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpKind,
};
use std::collections::{BTreeMap, HashSet};

/// Where the instructions are taken to be: far from 0, so that addresses relative to it have more than 32 bits.
const PC: u64 = 0x5555_0000_1000;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Check {
    /// DynamoRIO knows the instruction.
    Known,
    /// Its length.
    Length,
    /// What is to be done with it.
    Outcome,
    /// The memory that it reads, byte by byte.
    Reads,
    /// The memory that it writes, byte by byte.
    Writes,
    /// That only few read more than one place, and these in the order of the ordinals.
    Order,
    /// All general purpose registers that it uses are in its operands.
    GprsNamed,
    /// All that it writes are operands of their own.
    GprsWritten,
    /// No register that it reads is taken for dead.
    GprsRead,
    /// No register is taken for dead that may keep its value.
    GprsOverwritten,
    /// No flag that it reads is taken for dead.
    FlagsRead,
    /// No flag is taken for read that is not.
    FlagsOnlyRead,
    /// No flag is taken for dead that may keep its value.
    FlagsOverwritten,
    /// With another displacement, it is the same but for that.
    Displaced,
}

/// Disagreements, each with its first example.
#[derive(Default)]
struct Findings {
    all: BTreeMap<(Check, String), String>,
    excepted: HashSet<usize>,
}

impl Findings {
    fn add(&mut self, check: Check, instr: &Instruction, detail: impl FnOnce() -> String) {
        let excepts = |(checks, mnemonics, _): &(&[Check], &[_], _)| {
            checks.contains(&check) && mnemonics.contains(&instr.mnemonic())
        };
        if let Some(at) = EXCEPTIONS.iter().position(excepts) {
            self.excepted.insert(at);
            return;
        }
        let key = (check, format!("{:?}", instr.code()));
        self.all.entry(key).or_insert_with(|| format!("{instr}: {}", detail()));
    }

    fn same<T: PartialEq + std::fmt::LowerHex>(&mut self, check: Check, instr: &Instruction, ours: T, theirs: T) {
        if ours != theirs {
            self.add(check, instr, || format!("{ours:#x}, not {theirs:#x}"));
        }
    }
}

/// Registers with arbitrary values.
fn registers() -> RegisterFile {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut regs = RegisterFile::default();
    regs.gpr.iter_mut().for_each(|reg| *reg = next());
    regs.ymm.as_flattened_mut().iter_mut().for_each(|byte| *byte = next() as u8);
    (regs.fs_base, regs.gs_base) = (next(), next());
    regs
}

fn ranges(accesses: &[Access], regs: &RegisterFile) -> Ranges {
    accesses.iter().filter_map(|a| Some((a.address(regs)?, a.bytes.into()))).collect()
}

/// What iced-x86 says of one instruction, next to DynamoRIO's decoding of it.
struct Pair<'a> {
    iced: &'a Instruction,
    info: &'a InstructionInfo,
    dr: Instr,
    regs: &'a RegisterFile,
}

impl Pair<'_> {
    fn check(&self, findings: &mut Findings) {
        let action = classify(self.dr);
        let outcome = expected::outcome(self.iced, self.info);
        let found = Outcome::of(&action);
        if found == Outcome::Unsupported && expected::has_odd_address(self.iced) {
            return;
        }
        if found != outcome {
            findings.add(Check::Outcome, self.iced, || format!("{found:?}, not {outcome:?}"));
            return;
        }
        self.memory(&action, findings);
        if outcome != Outcome::Unsupported {
            // What is emulated counts as reading all.
            self.registers(findings, outcome != Outcome::Emulate);
            self.flags(findings);
        }
    }

    fn memory(&self, action: &Action, findings: &mut Findings) {
        let [mut read, mut written] =
            [iced::reads, iced::writes].map(|of| iced::memory(self.iced, self.info, self.regs, of));
        let (our_reads, our_writes) = match action {
            Action::Execute { reads, writes } => (ranges(reads, self.regs), ranges(writes, self.regs)),
            Action::Repeat(op) => {
                // The first element.
                for (_, len) in read.iter_mut().chain(&mut written) {
                    *len = self.iced.memory_size().size() as u64;
                }
                let element = |reg: &bugnet_dr::ir::Gpr| (self.regs.gpr[usize::from(reg.0)], u64::from(op.element));
                let reads = op.kind.reads().iter().map(element).collect();
                (reads, op.kind.writes().then(|| element(&bugnet_dr::ir::Gpr::RDI)).into_iter().collect())
            }
            Action::OpaqueStore { target, .. } => (Vec::new(), ranges(&[*target], self.regs)),
            _ => return,
        };
        if our_reads.len() > 1 && our_reads != read {
            findings.add(Check::Order, self.iced, || format!("{our_reads:x?}, not {read:x?}"));
        }
        for (check, ours, theirs) in [(Check::Reads, our_reads, read), (Check::Writes, our_writes, written)] {
            if iced::merge(ours.clone()) != iced::merge(theirs.clone()) {
                findings.add(check, self.iced, || format!("{ours:x?}, not {theirs:x?}"));
            }
        }
    }

    fn registers(&self, findings: &mut Findings, named_all: bool) {
        let named = self.dr.srcs().chain(self.dr.dsts()).fold(0, |mask, o| mask | o.gprs());
        let written = self.dr.dsts().filter(|o| o.is_reg()).fold(0, |mask, o| mask | o.gprs());
        let Effects { read, overwritten } = effects(self.dr);
        let all = iced::gprs(self.info, |_| true);
        let written_all = iced::gprs(self.info, iced::writes);
        if named_all {
            findings.same(Check::GprsNamed, self.iced, named & all, all);
            findings.same(Check::GprsWritten, self.iced, written & written_all, written_all);
        }
        let all = iced::gprs(self.info, iced::reads);
        findings.same(Check::GprsRead, self.iced, read.gprs & all, all);
        let most = iced::killed_gprs(self.info);
        findings.same(Check::GprsOverwritten, self.iced, overwritten.gprs | most, most);
    }

    fn flags(&self, findings: &mut Findings) {
        let Effects { read, overwritten } = effects(self.dr);
        let theirs = iced::flags(self.iced.rflags_read());
        findings.same(Check::FlagsRead, self.iced, read.flags & theirs, theirs);
        findings.same(Check::FlagsOnlyRead, self.iced, flags_read_first(&[self.dr]) | theirs, theirs);
        let most = iced::killed_flags(self.iced);
        findings.same(Check::FlagsOverwritten, self.iced, overwritten.flags | most, most);
    }
}

/// Whether the machine code of the instruction with another displacement, if it has one, is that. `None` if it accesses no memory.
fn displace(instr: &Instruction, bytes: &[u8], findings: &mut Findings) -> Option<bool> {
    const MORE: i32 = 0x140;
    let ops = || (0..instr.op_count()).map(|number| instr.op_kind(number));
    ops().any(|kind| !matches!(kind, OpKind::Register) && format!("{kind:?}").starts_with("Memory")).then_some(())?;
    let Some(moved) = displaced(bytes, MORE) else { return Some(false) };
    let found = Decoder::with_ip(64, &moved, PC, DecoderOptions::NONE).decode();
    let mut expected = *instr;
    expected.set_memory_displacement64(instr.memory_displacement64().wrapping_add_signed(MORE.into()));
    expected.set_memory_displ_size(found.memory_displ_size());
    expected.set_len(found.len());
    expected.set_next_ip(found.next_ip());
    if found != expected || found.len() != moved.len() || !ops().any(|kind| kind == OpKind::Memory) {
        findings.add(Check::Displaced, instr, || format!("{bytes:02x?} became {found}: {moved:02x?}"));
    }
    Some(true)
}

/// Instructions that a program can execute in 64-bit mode, as far as they are encoded in ways that are checked here.
fn in_reach(code: Code) -> bool {
    let op = code.op_code();
    let encoding = matches!(op.encoding(), EncodingKind::Legacy | EncodingKind::VEX | EncodingKind::EVEX);
    let permitted = op.cpl3() && !op.is_privileged() && !op.is_input_output();
    // Forms of branches and `ud0` that only AMD's processors have are of no use; Intel's say what the others mean.
    let common = op.is_instruction() && op.intel_decoder64() && op.decoder_option() == DecoderOptions::NONE;
    encoding && permitted && common && !op.fwait() && !expected::out_of_reach(code)
}

#[test]
fn every_instruction_is_known_as_iced_knows_it() {
    let regs = registers();
    let mut dr = dynamorio::Decoder::new();
    let mut factory = InstructionInfoFactory::new();
    let mut findings = Findings::default();
    let mut seen = HashSet::new();
    let mut without_length = HashSet::new();
    let mut moved = (0, 0);
    encodings::each(|bytes| {
        let instr = Decoder::with_ip(64, bytes, PC, DecoderOptions::NONE).decode();
        if instr.is_invalid() {
            return None;
        }
        if in_reach(instr.code()) {
            seen.insert(instr.code());
            match displace(&instr, &bytes[..instr.len()], &mut findings) {
                Some(true) => moved.0 += 1,
                Some(false) => moved.1 += 1,
                None => {}
            }
            match dynamorio::length(bytes) {
                Some(len) => findings.same(Check::Length, &instr, len, instr.len()),
                None => drop(without_length.insert(instr.mnemonic())),
            }
            match dr.decode(PC, bytes) {
                // AVX-512 is not for recorded programs.
                None if instr.op_code().encoding() == EncodingKind::EVEX => {}
                None => findings.add(Check::Known, &instr, || format!("{:02x?}", &bytes[..instr.len()])),
                Some((_, len)) if len != instr.len() => findings.same(Check::Length, &instr, len, instr.len()),
                Some((dr, _)) => {
                    Pair { iced: &instr, info: factory.info(&instr), dr, regs: &regs }.check(&mut findings);
                }
            }
        }
        Some(instr.len())
    });
    let report: Vec<String> =
        findings.all.iter().map(|((check, code), detail)| format!("{check:?} {code}: {detail}")).collect();
    assert!(report.is_empty(), "{} disagreements\n{}", report.len(), report.join("\n"));
    let stale = (0..EXCEPTIONS.len()).filter(|at| !findings.excepted.contains(at)).map(|at| EXCEPTIONS[at].2);
    assert_eq!(stale.collect::<Vec<_>>(), [""; 0], "exceptions that nothing needs");
    // Not those with segments, without registers, with `lock`, and of EVEX.
    assert!(moved.0 > 10_000 && moved.1 > 10_000, "{moved:?}");
    let few = [Mnemonic::Test, Mnemonic::Extrq, Mnemonic::Insertq, Mnemonic::Ud0, Mnemonic::Jmp].into();
    assert!(without_length.is_subset(&few), "{without_length:?}");
    let missing = Code::values()
        .filter(|code| code.op_code().encoding() != EncodingKind::EVEX && in_reach(*code) && !seen.contains(code));
    assert_eq!(missing.collect::<Vec<_>>(), [], "instructions that the encodings leave out");
}
