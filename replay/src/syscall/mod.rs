//! System calls for people: name, arguments, result.

mod captured;
mod changes;
mod left;
mod list;
mod names;
mod pointed;
mod shapes;
mod wrote;

pub use changes::Made;
pub use left::left;
pub use list::{Listed, Wanted, list, list_recorded};
pub use wrote::Inferred;
pub(crate) use wrote::{Traces, who_wrote};

use crate::crash::code_bytes;
use crate::error::Result;
use crate::log::{Log, ThreadId};
use bugnet_format::code::CodeStore;
use bugnet_format::frame::Interval;
use bugnet_format::light::layout::MADE_AGAIN;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::{GPR_UNKNOWN, NOTHING_KNOWN, RAX, RegisterFile};
use bugnet_format::types::{Addr, CodeSeq, IntervalNo, Position};
use bugnet_system_calls::{Arg, Returns};
use serde::Serialize;
use shapes::{Context, Pointed};
use std::collections::VecDeque;
use std::fmt;
use syscalls::{Errno, Sysno};

/// The largest number of an error; results from minus this to -1 are errors.
const MAX_ERRNO: i64 = 4095;
/// Longest path, in bytes (the kernel's PATH_MAX).
const MAX_PATH: u64 = 4096;

/// A system call that the program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The interval in which it was made.
    pub interval: IntervalNo,
    /// Instructions since the interval's start.
    pub position: Position,
    /// Name and arguments.
    pub call: String,
    /// What it returned; none if it never did.
    pub result: Option<String>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.result {
            Some(result) => write!(f, "{} = {result}", self.call),
            None => write!(f, "{} did not return", self.call),
        }
    }
}

/// A system call's name; its number if it has none.
#[must_use]
pub fn name(number: u64) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("syscall_{number}"), |call| call.name().to_owned())
}

/// Name and arguments of a system call, as strace would write them. `data` holds what arguments point to.
#[must_use]
pub fn call(number: u64, args: &[u64; 6], data: &[(u8, &[u8])]) -> String {
    written_out(number, &mut Context { args, result: None, memory: &mut Recorded(data) })
}

/// The result of a system call: a number, an address, or an error by name.
#[must_use]
pub fn result(number: u64, result: i64) -> String {
    if result == MADE_AGAIN {
        return "? ERESTARTSYS (made again behind a handler)".to_owned();
    }
    if (-MAX_ERRNO..0).contains(&result) {
        let error = Errno::new(-result as i32);
        return match (error.name(), error.description()) {
            (Some(name), Some(description)) => format!("-1 {name} ({description})"),
            _ => format!("{result}"),
        };
    }
    match bugnet_system_calls::of(number).map_or(Returns::Number, |call| call.returns) {
        Returns::Number => result.to_string(),
        Returns::Address => format!("{result:#x}"),
        Returns::Octal => octal(result.cast_unsigned()),
    }
}

/// The last `count` system calls of a thread up to the end of an interval, oldest first; looks at the intervals
/// before it for as long as it needs to.
///
/// # Errors
/// An interval cannot be read.
pub fn last_calls(log: &Log, thread: ThreadId, interval: IntervalNo, count: usize) -> Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    let before = log.intervals(thread)?.iter().rev().filter(|no| **no <= interval);
    for &interval in before {
        if calls.len() >= count {
            break;
        }
        let read = log.interval(crate::log::IntervalId { thread, interval })?;
        let mut earlier = calls_in(&read, &*log.code(thread.pid)?, count - calls.len());
        earlier.append(&mut calls);
        calls = earlier;
    }
    Ok(calls)
}

fn calls_in(interval: &Interval, code: &CodeStore, count: usize) -> Vec<Call> {
    let mut calls = VecDeque::new();
    let mut code_seq = interval.header.code_seq;
    let mut data: Vec<(u8, &[u8])> = Vec::new();
    for placed in interval.records().flatten() {
        match placed.record {
            Record::SyscallData { arg, bytes } => data.push((arg, bytes)),
            // It came before the call, which was then made anew or not at all.
            Record::Signal { .. } => data.clear(),
            Record::Code { seq, .. } => code_seq = seq,
            Record::Syscall { number, args, result, .. } => {
                calls.push_back(Call {
                    interval: interval.header.interval,
                    position: placed.position,
                    call: call(number, &args, &data),
                    result: Some(self::result(number, result)),
                });
                data.clear();
            }
            Record::End { reason: EndReason::Signal { .. } | EndReason::Terminated, regs, .. } => {
                calls.extend(unfinished(&regs, code, code_seq).map(|(number, args)| Call {
                    interval: interval.header.interval,
                    position: placed.position,
                    call: call(number, &args, &data),
                    result: None,
                }));
            }
            _ => {}
        }
        if calls.len() > count {
            calls.pop_front();
        }
    }
    calls.into()
}

/// Number and arguments of the system call in which a thread was at its end, if it was in one.
///
/// # Errors
/// The log cannot be read.
pub fn at_the_end(log: &Log, thread: ThreadId) -> Result<Option<(u64, [u64; 6])>> {
    let Some(&last) = log.intervals(thread)?.last() else { return Ok(None) };
    let call = list::calls_of(log, thread, last)?.into_iter().next_back().map(|(_, call, _)| call);
    Ok(call.filter(|call| call.result.is_none()).map(|call| (call.number, call.args)))
}

/// Number and arguments of the system call at which a thread with these registers stands, if it is at one.
fn unfinished(regs: &RegisterFile, code: &CodeStore, seq: CodeSeq) -> Option<(u64, [u64; 6])> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    const NUMBER: usize = RAX;
    const ARGUMENTS: [usize; 6] = [7, 6, 2, 10, 8, 9];
    let unknown = |reg: &usize| regs.rflags_known & (GPR_UNKNOWN << reg | NOTHING_KNOWN) != 0;
    if ARGUMENTS.iter().chain([&NUMBER]).any(unknown)
        || code_bytes(code, seq, Addr(regs.rip)).get(..2) != Some(&SYSCALL)
    {
        return None;
    }
    Some((regs.gpr[NUMBER], ARGUMENTS.map(|reg| regs.gpr[reg])))
}

/// What the arguments of a system call are, if that is known.
fn kinds(number: u64) -> Option<&'static [Arg]> {
    bugnet_system_calls::of(number)?.args
}

/// What is known of the memory of a call from its records alone: what some arguments point at.
struct Recorded<'a>(&'a [(u8, &'a [u8])]);

impl Pointed for Recorded<'_> {
    fn before(&mut self, arg: usize, _: u64, len: u64) -> Vec<Option<u8>> {
        let data = self.0.iter().find(|(of, _)| usize::from(*of) == arg).map_or(&[][..], |(_, bytes)| *bytes);
        data.iter().take(usize::try_from(len).unwrap_or(usize::MAX)).copied().map(Some).collect()
    }

    fn after(&mut self, _: usize, _: u64, _: u64) -> Vec<Option<u8>> {
        Vec::new()
    }
}

/// Name and arguments of a system call.
fn written_out(number: u64, context: &mut Context<'_>) -> String {
    let name = name(number);
    let kinds = kinds(number).unwrap_or(&[Arg::Hex; 6]);
    let kinds = match (kinds, name.as_str()) {
        // Without these flags, no mode is looked at.
        ([fewer @ .., Arg::Octal], "open" | "openat") => {
            let flags = context.args[fewer.len() - 1];
            if flags & (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u64 == 0 { fewer } else { kinds }
        }
        _ => kinds,
    };
    let args: Vec<String> = kinds.iter().enumerate().map(|(number, kind)| argument(*kind, number, context)).collect();
    format!("{name}({})", args.join(", "))
}

fn argument(kind: Arg, number: usize, context: &mut Context<'_>) -> String {
    let value = context.args[number];
    let int = value as u32 as i32;
    match kind {
        Arg::DirFd if int == libc::AT_FDCWD => "AT_FDCWD".into(),
        Arg::Fd | Arg::DirFd | Arg::Int => int.to_string(),
        Arg::Text | Arg::Pointer if value == 0 => "NULL".into(),
        Arg::Text => path(number, value, context.memory),
        Arg::In(shape) => context.pointed(number, shape, true, false),
        Arg::Out(shape) => context.pointed(number, shape, false, true),
        Arg::InOut(shape) => context.pointed(number, shape, true, true),
        Arg::Unsigned => value.to_string(),
        Arg::Signed => value.cast_signed().to_string(),
        Arg::Hex | Arg::Pointer => format!("{value:#x}"),
        Arg::Octal => octal(value),
        Arg::Signal => crate::signal::name(int),
        Arg::Bits(names) => names::bits(names, value),
        Arg::Choice(names) => names::number(names, value),
        Arg::ChoiceAndBits(names, flags, mask) => {
            let mask = u64::from(mask.cast_unsigned());
            let choice = names::number(names, value & mask);
            if value & !mask == 0 {
                return choice;
            }
            // As strace has it.
            format!("{choice}|{}", names::bits(flags, value & !mask)).replace("|FUTEX_PRIVATE_FLAG", "_PRIVATE")
        }
    }
}

/// A text that ends with a zero byte, in full: paths are what one looks for.
fn path(arg: usize, addr: u64, memory: &mut dyn Pointed) -> String {
    let bytes = memory.before(arg, addr, MAX_PATH);
    let known: Vec<u8> = bytes.iter().map_while(|byte| *byte).take_while(|byte| *byte != 0).collect();
    let is_whole = bytes.get(known.len()) == Some(&Some(0)) || bytes.len() == known.len();
    match known.is_empty() && !is_whole || bytes.is_empty() {
        true => format!("{addr:#x}"),
        false => format!("\"{}\"{}", known.escape_ascii(), if is_whole { "" } else { "?" }),
    }
}

fn octal(value: u64) -> String {
    format!("0{value:o}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str) -> u64 {
        name.parse::<Sysno>().unwrap().id() as u64
    }

    #[test]
    fn calls_read_as_in_strace() {
        let text = |name: &str, args: &[u64], data: &[(u8, &[u8])]| {
            let mut all = [0; 6];
            all[..args.len()].copy_from_slice(args);
            call(number(name), &all, data)
        };
        assert_eq!(
            text("openat", &[-100i64 as u64, 0x1000, 0o2000001, 0o644], &[(1, b"/etc/x\0")]),
            r#"openat(AT_FDCWD, "/etc/x", O_WRONLY|O_CLOEXEC)"#
        );
        assert_eq!(text("open", &[0x1000, 0], &[]), "open(0x1000, O_RDONLY)");
        assert_eq!(text("write", &[2, 0x2000, 4], &[(1, b"hi\xff\n")]), r#"write(2, "hi\xff\n", 4)"#);
        assert_eq!(
            text("mmap", &[0, 4096, 3, 0x22, u64::MAX, 0], &[]),
            "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0)"
        );
        assert_eq!(text("mprotect", &[0x1000, 1, 0x8000], &[]), "mprotect(0x1000, 1, 0x8000)");
        assert_eq!(text("tgkill", &[5, 6, 11], &[]), "tgkill(5, 6, SIGSEGV)");
        assert_eq!(text("lseek", &[3, -2i64 as u64, 1], &[]), "lseek(3, -2, SEEK_CUR)");
        assert_eq!(text("getpid", &[1, 2, 3], &[]), "getpid()");
        assert_eq!(text("keyctl", &[1, 2], &[]), "keyctl(0x1, 0x2, 0x0, 0x0, 0x0, 0x0)");
        assert_eq!(call(99_999, &[0; 6], &[]), "syscall_99999(0x0, 0x0, 0x0, 0x0, 0x0, 0x0)");
    }

    #[test]
    fn results_are_numbers_addresses_or_errors() {
        assert_eq!(result(number("read"), 17), "17");
        assert_eq!(result(number("mmap"), 0x7000), "0x7000");
        assert_eq!(result(number("umask"), 0o22), "022");
        assert_eq!(result(number("open"), -2), "-1 ENOENT (No such file or directory)");
        assert_eq!(result(number("lseek"), -4095), "-4095");
        assert_eq!(result(number("lseek"), -4096), "-4096");
        assert_eq!(result(number("read"), -512), "? ERESTARTSYS (made again behind a handler)");
    }
}
