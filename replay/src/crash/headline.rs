//! A crash in one line: "SIGSEGV reading 0x8 at list.c:42 in list_pop".

use super::{Instruction, Signal};
use crate::backtrace::Frame;
use crate::symbols::Place;
use bugnet_format::regs::{RSP, RegisterFile};
use bugnet_format::types::Addr;
use nix::sys::signal::Signal as Number;

/// What it says where the stack is used up.
pub(super) const STACK_OVERFLOW: &str = ", stack overflow";

/// So far from the stack pointer an address still counts as one of the stack.
const NEAR_STACK: u64 = 0x1_0000;
/// No stack is larger.
const LARGEST_STACK: u64 = 1 << 40;
/// Addresses from here on up to the kernel's half are no addresses at all.
const NON_CANONICAL: u64 = Addr::USER_END;

/// Functions through which abort() gets to its signal, or somebody to abort(), in the C library.
const ABORTING: [&str; 10] = [
    "abort",
    "raise",
    "pthread_kill",
    "__pthread_kill_implementation",
    "__pthread_kill_internal",
    "__assert_fail",
    "__assert_fail_base",
    "__libc_message",
    "__fortify_fail",
    "__chk_fail",
];

/// What a headline is made of.
pub(super) struct Facts<'a> {
    pub signal: &'a Signal,
    pub instruction: Option<&'a Instruction>,
    pub regs: &'a RegisterFile,
    /// The stack pointer at the start of the thread's last interval.
    pub stack_before: u64,
    pub backtrace: &'a [Frame],
}

/// What happened, and where.
pub(super) fn headline(facts: &Facts<'_>) -> String {
    let name = &facts.signal.name;
    let here = facts.backtrace.first().map(|frame| &frame.place);
    let is = |number: Number| facts.signal.number == number as i32;
    let what = if is(Number::SIGSEGV) || is(Number::SIGBUS) {
        memory_fault(facts)
    } else if is(Number::SIGFPE) {
        format!("{name}, {}", arithmetic(facts))
    } else if is(Number::SIGILL) && facts.signal.code > 0 {
        format!("{name}, illegal instruction")
    } else if is(Number::SIGTRAP) && facts.signal.code > 0 {
        format!("{name}, breakpoint")
    } else if let Some(caller) = is(Number::SIGABRT).then(|| abort_caller(facts.backtrace)).flatten() {
        return format!("{name}, abort() called from {}", caller.brief().unwrap_or_else(|| "unknown code".into()));
    } else {
        format!("killed by {name}")
    };
    format!("{what}{}", here.map_or(String::new(), place))
}

/// Where that was, as the end of a sentence.
fn place(place: &Place) -> String {
    let Some(source) = place.source.first() else {
        return place.brief().map_or(String::new(), |brief| format!(" in {brief}"));
    };
    let symbol = place.symbol.as_ref().map(|symbol| symbol.name.as_str());
    let function = source.function.as_deref().or(symbol).map_or(String::new(), |function| format!(" in {function}"));
    let file = source.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
    match (file, source.line) {
        (Some(file), Some(line)) => format!(" at {file}:{line}{function}"),
        _ => function,
    }
}

fn memory_fault(facts: &Facts<'_>) -> String {
    let Signal { name, address, .. } = facts.signal;
    let accesses = facts.instruction.map_or(&[][..], |instruction| &instruction.accesses[..]);
    let verb = |access: &str| if access == "read" { "reading" } else { "writing" };
    if facts.instruction.is_none() {
        return format!("{name} executing {:#x}", facts.regs.rip);
    }
    let Some(address) = *address else {
        let wild = accesses.iter().find(|access| access.address >= NON_CANONICAL);
        if let Some(branching) = wild.is_none().then(|| branching(facts)).flatten() {
            return format!("{name} {branching} what is no address,");
        }
        return match wild.or(accesses.first()) {
            Some(access) => format!("{name} {} {:#x}, which is no address,", verb(access.access), access.address),
            None => name.clone(),
        };
    };
    let rsp = facts.regs.gpr[RSP];
    let on_stack = address.abs_diff(rsp) < NEAR_STACK;
    if on_stack
        && (rsp..rsp.saturating_add(LARGEST_STACK)).contains(&facts.stack_before)
        && address < facts.stack_before
    {
        return format!("{name}{STACK_OVERFLOW}");
    }
    let touches = |size: usize, start: u64| (start..start.saturating_add(size.max(1) as u64)).contains(&address);
    let access = accesses.iter().find(|access| touches(access.size, access.address));
    // The range of a string instruction; else an operand that cannot be computed.
    match access.or(accesses.iter().find(|access| access.size == 0)).or(accesses.first()) {
        Some(access) if address >= NON_CANONICAL => {
            format!("{name} {} {address:#x}, which is no address,", verb(access.access))
        }
        Some(access) => format!("{name} {} {address:#x}", verb(access.access)),
        None => format!("{name} accessing {address:#x}"),
    }
}

/// What a branch does, if the thread stands at one whose target is not in the instruction itself.
fn branching(facts: &Facts<'_>) -> Option<&'static str> {
    let text = &facts.instruction?.text;
    let mnemonics = text.split(' ').find(|word| !["rep", "repne", "bnd", "notrack"].contains(word));
    match mnemonics? {
        "ret" => Some("returning to"),
        "call" => Some("calling"),
        "jmp" => Some("jumping to"),
        _ => None,
    }
}

/// What was wrong with a calculation. The processor has one exception for a zero divisor and for too large a quotient.
fn arithmetic(facts: &Facts<'_>) -> &'static str {
    let Some(instruction) = facts.instruction else { return "arithmetic fault" };
    let mnemonic = instruction.text.split(' ').next().unwrap_or_default();
    match (mnemonic, instruction.divisor) {
        ("div" | "idiv", Some(1..)) => "the quotient does not fit",
        ("div" | "idiv", _) => "divide by zero",
        _ => "floating-point exception",
    }
}

/// Where abort() was called, if it was.
fn abort_caller(backtrace: &[Frame]) -> Option<&Place> {
    let is_one = |frame: &Frame, names: &[&str]| {
        let functions = frame.place.source.iter().filter_map(|source| source.function.as_deref());
        let symbols = frame.place.symbol.iter().map(|symbol| symbol.name.as_str());
        // `abort@@GLIBC_2.2.5`, `__assert_fail_base.cold`, `__GI_abort`
        let plain = |name: &str| {
            let name = name.split(['@', '.']).next().unwrap_or(name);
            names.contains(&name.strip_prefix("__GI_").unwrap_or(name))
        };
        functions.chain(symbols).any(plain)
    };
    let abort = backtrace.iter().position(|frame| is_one(frame, &["abort"]))?;
    backtrace[abort..].iter().find(|frame| !is_one(frame, &ABORTING)).map(|frame| &frame.place)
}
