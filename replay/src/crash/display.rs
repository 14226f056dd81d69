//! A crash report as text. Its form is stable: a golden file in the tests holds an example.

use super::own::is_system;
use super::{CrashReport, Instruction, Output, Scope, Signal, SourceText, Waiting, WaitingKind};
use crate::backtrace::{Found, Frame};
use crate::symbols::SourceFrame;
use bugnet_debuginfo::demangle::brief;
use bugnet_format::record::OutputStream;
use bugnet_format::regs::{GPR_NAMES, RegisterFile};
use std::fmt::{Display, Formatter, Result};

/// Addresses below this are what one gets from a null pointer and a field's or element's offset.
const NEAR_NULL: u64 = 0x1_0000;

/// The flags of RFLAGS that programs can change, by bit.
const FLAGS: [(u32, &str); 7] = [(0, "CF"), (2, "PF"), (4, "AF"), (6, "ZF"), (7, "SF"), (10, "DF"), (11, "OF")];

impl Display for CrashReport {
    /// Names, paths and output stand in it as the log has them: they are not fit for a terminal as they are.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let report = self;
        let program = report.command.first().map_or("the program", String::as_str);
        writeln!(f, "{program}: {} killed by {}", report.thread, report.signal)?;
        let (interval, position) = (report.interval, report.position);
        writeln!(f, "after {} instructions (interval {interval}, instruction {position})", report.instructions)?;
        match &report.instruction {
            Some(instruction) => write!(f, "\n{instruction}")?,
            None => writeln!(f, "\ninstruction:\n  {:#018x}  no code was executed here", report.registers.rip)?,
        }
        if !report.before.is_empty() {
            writeln!(f, "\nlast instructions before it:")?;
        }
        for one in &report.before {
            let place = one.place.as_ref().map_or(String::new(), |place| format!("  in {place}"));
            writeln!(f, "  {:#018x}  {}{place}", one.address, one.text)?;
        }
        writeln!(f, "\nregisters:")?;
        registers(&report.registers, f)?;
        writeln!(f, "\nbacktrace:")?;
        let own = report.own.as_ref().filter(|own| own.frame > 0);
        for (number, frame) in report.backtrace.iter().enumerate() {
            self::frame(number, frame, own.is_some_and(|own| own.frame == number), f)?;
        }
        if let Some(own) = own {
            writeln!(f, "\n> the first frame of the user's own: in {}, {}", own.file, own.because)?;
            writeln!(
                f,
                "  before it: {}",
                if own.behind.is_empty() { "no known file".into() } else { own.behind.join(", ") }
            )?;
        }
        if let Some(source) = &report.source {
            self::source_text(source, f)?;
        }
        if let Some(waiting) = &report.waiting {
            writeln!(f, "\nwaits for {waiting}")?;
        }
        writeln!(f, "\nlast system calls:")?;
        if report.calls.is_empty() {
            writeln!(f, "  none in the log")?;
        }
        for call in &report.calls {
            writeln!(f, "  {call}")?;
        }
        for other in &report.others {
            writeln!(f, "\nmeanwhile, {}:", other.thread)?;
            if let Some(call) = &other.call {
                writeln!(f, "  {call} did not return")?;
            }
            if let Some(waiting) = &other.waiting {
                writeln!(f, "  waits for {waiting}")?;
            }
            for (number, frame) in other.backtrace.iter().enumerate() {
                self::frame(number, frame, false, f)?;
            }
        }
        if !report.output.is_empty() {
            writeln!(f, "\nlast output:")?;
            report.output.iter().try_for_each(|output| self::output(output, f))?;
        }
        if !report.missing.is_empty() {
            writeln!(f, "\nnot found out:")?;
        }
        report.missing.iter().try_for_each(|missing| writeln!(f, "  {missing}"))
    }
}

impl Display for Signal {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        match (self.code_name, self.meaning) {
            (Some(name), Some(meaning)) => write!(f, " ({name}: {meaning})")?,
            _ => write!(f, " (code {})", self.code)?,
        }
        match self.address {
            Some(0) => write!(f, " at address 0, the null pointer"),
            Some(address @ ..NEAR_NULL) => write!(f, " at address {address:#x}, just above the null pointer"),
            Some(address) => write!(f, " at address {address:#x}"),
            None => Ok(()),
        }
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "instruction:\n  {:#018x}  {}  {}", self.address, self.bytes, self.text)?;
        for access in &self.accesses {
            write!(f, "  would {} ", access.access)?;
            match access.size {
                0 => writeln!(f, "from {:#x} on", access.address)?,
                1 => writeln!(f, "1 byte at {:#x}", access.address)?,
                size => writeln!(f, "{size} bytes at {:#x}", access.address)?,
            }
        }
        Ok(())
    }
}

pub(super) fn registers(regs: &RegisterFile, f: &mut Formatter<'_>) -> Result {
    for row in 0..4 {
        // Four columns, read downwards.
        for column in 0..4 {
            let number = 4 * column + row;
            write!(f, "  {:<3} {:016x}", GPR_NAMES[number], regs.gpr[number])?;
        }
        writeln!(f)?;
    }
    let set = FLAGS.iter().filter(|(bit, _)| regs.rflags >> bit & 1 == 1).map(|(_, name)| *name);
    let set = set.collect::<Vec<_>>().join(" ");
    writeln!(f, "  rip {:016x}  rflags {:x} [{set}]", regs.rip, regs.rflags)?;
    writeln!(f, "  fs_base {:016x}  gs_base {:016x}  mxcsr {:x}", regs.fs_base, regs.gs_base, regs.mxcsr)
}

/// The source text around a line.
pub(super) fn source_text(source: &SourceText, f: &mut Formatter<'_>) -> Result {
    let note = match source.same {
        Some(true) => "",
        Some(false) => " (not the file that was compiled: its checksum differs)",
        None => " (as this machine has it: the program does not say which version it was compiled from)",
    };
    writeln!(f, "\n{}:{}{note}", source.file, source.line)?;
    for (number, text) in (source.first..).zip(&source.text) {
        let mark = if number == source.line { '>' } else { ' ' };
        writeln!(f, "{mark} {number:>5}  {text}")?;
    }
    Ok(())
}

impl Display for Waiting {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.kind.words())?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        write!(f, " at {:#x}", self.address)?;
        match self.holder {
            Some(holder) => write!(f, ", which thread {holder} holds"),
            None if self.kind == WaitingKind::Mutex => write!(f, "; who holds it is not known"),
            None => Ok(()),
        }
    }
}

pub(super) fn frame(number: usize, frame: &Frame, is_own: bool, f: &mut Formatter<'_>) -> Result {
    let guess = match frame.found {
        Found::Registers | Found::Tables => "",
        Found::FramePointer => " (by the frame pointer)",
        Found::StackTop => " (by the word at the stack's top)",
    };
    let mark = if is_own { '>' } else { ' ' };
    let module = frame.place.module.as_ref();
    let own_code = module.is_some_and(|module| !is_system(&module.path));
    let Some((outermost, inlined)) = frame.place.source.split_last() else {
        let what = match (&frame.place.symbol, module) {
            (Some(symbol), Some(module)) => {
                format!("{}+{:#x} in {}", brief(&symbol.name), symbol.offset, module.path)
            }
            (_, Some(module)) => format!("{}+{:#x}", module.path, module.offset),
            _ => "no known file".into(),
        };
        writeln!(f, "{mark} #{number:<3} {:#018x}  {what}{guess}", frame.pc)?;
        return frame.scopes.iter().try_for_each(|scope| variables(scope, own_code, f));
    };
    // What is in scope stands below its function.
    let mut scopes = frame.scopes.iter();
    let mut lead = format!("{mark} #{number:<3} {:#018x}", frame.pc);
    for source in inlined {
        writeln!(f, "{lead}  {}, inlined", self::source(source, None))?;
        scopes.next().map_or(Ok(()), |scope| variables(scope, own_code, f))?;
        lead = " ".repeat(lead.len());
    }
    let symbol = frame.place.symbol.as_ref().map(|symbol| symbol.name.as_str());
    writeln!(f, "{lead}  {}{guess}", self::source(outermost, symbol))?;
    scopes.next().map_or(Ok(()), |scope| variables(scope, own_code, f))
}

/// What is in scope of a function: arguments, then local variables; of a function of the system's libraries the arguments alone.
fn variables(scope: &Scope, own_code: bool, f: &mut Formatter<'_>) -> Result {
    for (what, list) in [("argument", &scope.arguments), ("local", &scope.locals)] {
        for variable in list.iter().filter(|_| own_code || what == "argument") {
            writeln!(f, "         {what:<8}  {} = {}", variable.name, variable.value)?;
        }
    }
    Ok(())
}

fn source(frame: &SourceFrame, symbol: Option<&str>) -> String {
    let function = frame.function.clone().or_else(|| symbol.map(brief)).unwrap_or_else(|| "?".to_owned());
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{function} at {file}:{line}"),
        (Some(file), None) => format!("{function} at {file}"),
        _ => function,
    }
}

fn output(output: &Output, f: &mut Formatter<'_>) -> Result {
    let mark = if output.stream == OutputStream::Stderr { "stderr" } else { "stdout" };
    for line in output.text.lines() {
        writeln!(f, "  {mark}: {line}")?;
    }
    Ok(())
}
