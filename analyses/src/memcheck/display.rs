//! Memory errors as text.

use super::found::Kind;
use super::leaks::Loss;
use super::report::{BlockReport, CallReport, ErrorReport, FrameReport, Leak, OriginReport, Report, Where};
use crate::names::brief;
use indicatif::HumanCount;
use std::fmt::{Display, Formatter, Result};

/// Frames that are shown of a stack, and of an allocation's.
const FRAMES: usize = 16;
const CALLERS: usize = 8;

/// What was found, for people.
pub struct Shown<'a> {
    /// What was found.
    pub report: &'a Report,
    /// How many errors and leaks are shown.
    pub top: usize,
    /// Whether blocks are shown, too, at which something points at the end.
    pub reachable: bool,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Report { errors, others, counts, unfollowed, notes, .. } = self.report;
        unfollowed.iter().try_for_each(|what| writeln!(f, "Not followed: {what}.\n"))?;
        for (number, one) in (1..).zip(errors.iter().take(self.top)) {
            error(f, number, one)?;
        }
        if errors.len() > self.top {
            writeln!(f, "... {} errors in all; --top shows more\n", errors.len())?;
        }
        self.leaks(f)?;
        let times: u64 = errors.iter().map(|error| error.times).sum::<u64>() + others;
        let found = match errors.len() {
            0 if !unfollowed.is_empty() => "No memory errors in what is followed".to_owned(),
            0 => "No memory errors".to_owned(),
            1 => "1 memory error".to_owned(),
            count => format!("{count} memory errors"),
        };
        let often = if times > errors.len() as u64 { format!(", {} times", HumanCount(times)) } else { String::new() };
        writeln!(
            f,
            "{found}{often}, in {} instructions; {} blocks of {} bytes were given out, {} given back.",
            HumanCount(counts.instructions),
            HumanCount(counts.allocations),
            HumanCount(counts.allocated),
            HumanCount(counts.releases)
        )?;
        notes.iter().try_for_each(|note| writeln!(f, "Note: {note}."))
    }
}

impl Shown<'_> {
    fn leaks(&self, f: &mut Formatter<'_>) -> Result {
        let Some(leaks) = &self.report.leaks else { return Ok(()) };
        let is_shown = |leak: &&Leak| self.reachable || matches!(leak.loss, Loss::Definite | Loss::Possible);
        let shown: Vec<&Leak> = leaks.iter().filter(is_shown).collect();
        for leak in shown.iter().take(self.top) {
            let how = match leak.loss {
                Loss::Definite => "lost: nothing points at",
                Loss::Possible => "maybe lost: something points into, but not at the start of",
                Loss::Indirect => "lost, with others that point at",
                Loss::Reachable => "not given back: something points at",
            };
            let which = if leak.blocks == 1 { "it".to_owned() } else { "them".to_owned() };
            writeln!(f, "{} {how} {which}", blocks(leak.blocks, leak.bytes))?;
            call(f, "allocated", &leak.allocated)?;
            writeln!(f)?;
        }
        if shown.len() > self.top {
            writeln!(f, "... {} places in all where blocks were got that are lost; --top shows more\n", shown.len())?;
        }
        for (loss, what) in [
            (Loss::Definite, "lost"),
            (Loss::Indirect, "lost with others"),
            (Loss::Possible, "maybe lost"),
            (Loss::Reachable, "not given back, but still known"),
        ] {
            let all = leaks.iter().filter(|leak| leak.loss == loss);
            let (count, bytes) = all.fold((0, 0), |(count, bytes), leak| (count + leak.blocks, bytes + leak.bytes));
            if count > 0 {
                writeln!(f, "At the end, {what}: {}.", blocks(count, bytes))?;
            }
        }
        Ok(())
    }
}

fn blocks(count: u64, bytes: u64) -> String {
    if count == 1 {
        format!("1 block of {} bytes", HumanCount(bytes))
    } else {
        format!("{} blocks of {} bytes together", HumanCount(count), HumanCount(bytes))
    }
}

fn error(f: &mut Formatter<'_>, number: usize, error: &ErrorReport) -> Result {
    let times = if error.times > 1 { format!(" ({} times)", HumanCount(error.times)) } else { String::new() };
    let at = error
        .addr
        .filter(|_| matches!(error.kind, Kind::Read | Kind::Write | Kind::Return | Kind::Canary | Kind::InvalidFree));
    let at = at.map_or_else(String::new, |addr| format!(" at {addr}"));
    writeln!(f, "{number}. {}{at}{times}", error.what)?;
    if let Some(block) = error.block.as_ref().filter(|_| error.origin.is_none()) {
        writeln!(f, "   {}", relation(block))?;
    }
    if let Some(frame) = &error.frame {
        writeln!(f, "   {}", of_frame(frame))?;
    }
    let instruction = error.instruction.as_ref().map_or_else(String::new, |text| format!("  {text}"));
    writeln!(f, "   at {}{instruction}", error.place)?;
    stack(f, &error.stack, FRAMES)?;
    if let Some(from) = &error.origin {
        origin(f, error, from)?;
    } else if let Some(block) = &error.block {
        match &block.allocated {
            Some(allocated) => call(f, "allocated", allocated)?,
            None => writeln!(f, "   allocated before the log begins")?,
        }
        block.freed.iter().try_for_each(|freed| call(f, "given back", freed))?;
    }
    if let Some(frame) = &error.frame {
        writeln!(f, "   returned at {}", frame.place)?;
        stack(f, std::slice::from_ref(&frame.returned), 1)?;
    }
    writeln!(f)
}

/// Of which frame a wrong access is, in words.
pub fn of_frame(frame: &FrameReport) -> String {
    let function = frame.returned.function.as_deref().unwrap_or("a function");
    let what = match &frame.variable {
        Some((name, 0)) => format!("that is {name}, a variable of {function}"),
        Some((name, distance)) => format!("that is {distance} bytes inside {name}, a variable of {function}"),
        None => {
            format!("that is below the stack pointer, {} bytes below the return address of {function}", frame.depth)
        }
    };
    format!("{what}, which has returned")
}

/// Where an undefined value comes from.
fn origin(f: &mut Formatter<'_>, error: &ErrorReport, origin: &OriginReport) -> Result {
    match (&origin.allocated, &origin.frame) {
        (Some(allocated), _) => {
            match &error.block {
                Some(block) => {
                    let size = block.size.map_or_else(String::new, |size| format!(" of {size} bytes"));
                    writeln!(f, "   it comes from byte {} of a block{size}, which nothing has set", block.distance)?;
                }
                None => writeln!(f, "   it comes from a block, in which nothing has set it")?,
            }
            call(f, "allocated", allocated)?;
        }
        (_, Some(frame)) => {
            let function = frame.function.as_deref().unwrap_or("?");
            let variable = origin.variable.as_ref().map_or_else(String::new, |name| format!(", variable {name}"));
            let at = error.addr.map_or_else(String::new, |addr| format!(", at {addr}"));
            writeln!(f, "   it comes from the stack, the frame of {function}{variable}{at}, which nothing has set")?;
        }
        _ => writeln!(f, "   where it comes from is not known")?,
    }
    origin.loaded.iter().try_for_each(|loaded| writeln!(f, "   loaded first at {loaded}"))
}

/// How the place of an error lies to a block, in words.
pub fn relation(block: &BlockReport) -> String {
    let size =
        block.size.map_or_else(|| "a block of unknown size".to_owned(), |size| format!("a block of {size} bytes"));
    let freed = if block.freed.is_some() { " that was given back" } else { "" };
    let bytes = |count: u64| if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") };
    let place = match (block.side, block.distance) {
        ("inside", 0) => format!("that is {size}{freed}, from its start on"),
        ("inside", distance) => format!("that is {} inside {size}{freed}", bytes(distance)),
        ("behind", distance) => format!("the first wrong byte is {} behind the end of {size}{freed}", bytes(distance)),
        (_, distance) => format!("the first wrong byte is {} before the start of {size}{freed}", bytes(distance)),
    };
    let named = block.variables.iter().map(|(name, distance)| match distance {
        0 => format!("{name} points at it"),
        distance => format!("{name} points {} behind its start", bytes(*distance)),
    });
    let part = block.part.as_ref().map(|part| format!("{part} is accessed"));
    let named: Vec<String> = named.chain(part).collect();
    if named.is_empty() { place } else { format!("{place} ({})", named.join(", ")) }
}

fn call(f: &mut Formatter<'_>, what: &str, call: &CallReport) -> Result {
    writeln!(f, "   {what} by {}, at {}", call.function, call.place)?;
    stack(f, &call.callers, CALLERS)
}

fn stack(f: &mut Formatter<'_>, frames: &[Where], most: usize) -> Result {
    // Between functions without names, nobody can tell.
    let mut has_text = false;
    for frame in frames.iter().take(most) {
        let module = frame.module.as_ref().map(|path| path.rsplit('/').next().unwrap_or(path));
        let function = frame.function.as_deref().map_or_else(|| "?".to_owned(), brief);
        match (&frame.file, frame.line, module) {
            (Some(file), Some(line), _) => {
                let inlined = if frame.is_inlined { ", inlined" } else { "" };
                writeln!(f, "     {function} at {file}:{line}{inlined}")?;
            }
            (_, _, Some(module)) => writeln!(f, "     {function} in {module}, {}", frame.address)?,
            _ => writeln!(f, "     {function}, {}", frame.address)?,
        }
        // The first line that there is says most.
        if let Some(text) = frame.text.as_ref().filter(|_| !has_text) {
            writeln!(f, "         {text}")?;
            has_text = true;
        }
    }
    Ok(())
}
