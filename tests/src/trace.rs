//! Which instructions a program executes, found by single-stepping it natively.

use anyhow::{Context, Result, bail};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Longest instruction, in bytes.
const MAX_INSTRUCTION: u64 = 15;

/// One executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its address.
    pub pc: u64,
    /// For a system call: its number.
    pub syscall: Option<u64>,
}

/// Runs a program (no arguments, no input, empty environment) to its end, one instruction at a time. A `rep` string
/// instruction is one step.
///
/// # Errors
/// It cannot be started or traced, or it does not exit with status 0.
pub fn trace(program: &Path) -> Result<Vec<Step>> {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: `ptrace(PTRACE_TRACEME)` is one system call: safe between fork and exec.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().with_context(|| format!("starting {} under ptrace", program.display()))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut steps = Vec::new();
    let mut status = waitpid(pid, None)?;
    loop {
        match status {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Exited(_, 0) => return Ok(steps),
            other => bail!("{} ended natively with {other:?}", program.display()),
        }
        let regs = ptrace::getregs(pid)?;
        let instruction = instruction_at(pid, regs.rip)?;
        let syscall = (instruction.code() == Code::Syscall).then_some(regs.rax);
        steps.push(Step { pc: regs.rip, syscall });
        status = match many_or_no_traps(&instruction) {
            true => run_to(pid, instruction.next_ip())?,
            false => {
                ptrace::step(pid, None)?;
                waitpid(pid, None)?
            }
        };
    }
}

/// Whether an instruction traps more than once or not at all when it is stepped: `rep` string instructions trap once a
/// repetition, and those that the kernel emulates (UMIP) run on into the next instruction.
fn many_or_no_traps(instruction: &Instruction) -> bool {
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let emulated = [Mnemonic::Sgdt, Mnemonic::Sidt, Mnemonic::Sldt, Mnemonic::Smsw, Mnemonic::Str];
    repeats && instruction.is_string_instruction() || emulated.contains(&instruction.mnemonic())
}

fn instruction_at(pid: Pid, pc: u64) -> Result<Instruction> {
    let first = pc & !7;
    let mut bytes = Vec::new();
    for word in (first..pc + MAX_INSTRUCTION).step_by(8) {
        // The instruction may be the last before unmapped memory.
        let Ok(value) = ptrace::read(pid, word as ptrace::AddressType) else { break };
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    let bytes = bytes.get((pc - first) as usize..).unwrap_or_default();
    let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
    match instruction.is_invalid() {
        true => bail!("no instruction at {pc:#x}"),
        false => Ok(instruction),
    }
}

/// Lets the program run to a breakpoint at `pc`: a million repetitions at once instead of a million steps.
fn run_to(pid: Pid, pc: u64) -> Result<WaitStatus> {
    let at = pc as ptrace::AddressType;
    let original = ptrace::read(pid, at)?;
    ptrace::write(pid, at, original & !0xff | 0xcc)?;
    ptrace::cont(pid, None)?;
    let status = waitpid(pid, None)?;
    if let WaitStatus::Stopped(_, Signal::SIGTRAP) = status {
        ptrace::write(pid, at, original)?;
        let mut regs = ptrace::getregs(pid)?;
        regs.rip = pc;
        ptrace::setregs(pid, regs)?;
    }
    Ok(status)
}
