//! An access as one sees it: where in the program and in the recording, by whom, and with which values.

use super::shadow::Made;
use super::watch::Watch;
use crate::runs::scene::Spot;
use bugnet_format::types::Addr;
use bugnet_replay::Result;
use bugnet_replay::backtrace::Frame;
use bugnet_replay::crash::scopes_at;
use bugnet_replay::cursor::{Cursor, Direction, Place, Seek};
use bugnet_replay::disassembly::next;
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};
use serde::Serialize;

/// Frames of a stack that are looked at.
const FRAMES: usize = 12;
/// Longest value that is shown as a number, in bytes.
const NUMBER: usize = 8;

/// An access.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// The next instruction there makes the access.
    pub place: Place,
    /// Instructions that all threads had executed before.
    pub time: u64,
    /// Whether it writes.
    pub writes: bool,
    /// The function and the line.
    pub spot: Spot,
    /// The text of the line.
    pub text: Option<String>,
    /// Who called it, innermost first, as far as it could be found out.
    pub callers: Vec<String>,
    /// What was in memory before; none where it is not known.
    pub before: Option<String>,
    /// And behind it.
    pub after: Option<String>,
    #[serde(skip)]
    pub(super) bytes: [Option<Vec<u8>>; 2],
    /// Whether the instruction, or the line by its text, adds to what is there or counts.
    #[serde(skip)]
    pub(super) counts: bool,
    /// Whether the text of the line speaks of something atomic.
    #[serde(skip)]
    pub(super) names_atomic: bool,
    /// Whether the instruction changes memory by what was there; and if so, whether it adds.
    #[serde(skip)]
    pub(super) changes: Option<bool>,
    #[serde(skip)]
    pub(super) frames: Vec<Frame>,
}

/// An access that was made, whether it wrote, and which bytes are of interest.
pub(super) type Wanted = (Made, bool, (u64, u64));

/// What accesses look like that were made; none of those whose place the log does not hold.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub(super) fn sides(
    (log, cursor, symbols): (&Log, &mut Cursor<'_>, &mut Symbolizer),
    watch: &Watch,
    all: &[Wanted],
) -> Result<Vec<Option<Side>>> {
    // In the order of time, so that replay goes forward once.
    let mut places = Vec::new();
    for (number, (made, ..)) in all.iter().enumerate() {
        let Some(place) = watch.times.place(made.epoch.thread(), made.epoch.count()) else { continue };
        places.push((cursor.time_of(place)?, number, place));
    }
    places.sort_unstable_by_key(|(time, number, _)| (*time, *number));
    let mut sides: Vec<Option<Side>> = all.iter().map(|_| None).collect();
    cursor.onward(|cursor| {
        for here in places.chunk_by(|one, other| one.0 == other.0) {
            cursor.seek(Seek::Time(here[0].0))?;
            let scene = Scene::of((log, cursor, symbols))?;
            for (_, number, place) in here {
                sides[*number] = Some(scene.side(cursor, *place, all[*number])?);
            }
            cursor.step(Direction::Forward)?;
            for (_, number, _) in here {
                if let Some(side) = &mut sides[*number] {
                    side.look_behind(cursor, all[*number])?;
                }
            }
        }
        Ok(sides)
    })
}

/// Where an instruction is that makes accesses, all of which look the same but for what they access.
struct Scene {
    spot: Spot,
    text: Option<String>,
    frames: Vec<Frame>,
    instruction: Instruction,
}

impl Scene {
    /// Before which instruction a cursor is.
    fn of((log, cursor, symbols): (&Log, &mut Cursor<'_>, &mut Symbolizer)) -> Result<Self> {
        let spot = Spot::of(symbols, cursor.regs().rip);
        let line = spot.file.as_ref().zip(spot.line);
        let text = line.and_then(|(file, line)| symbols.source_line(file, line)).map(|line| line.trim().to_owned());
        let frames = scopes_at(log, cursor, symbols, FRAMES)?;
        Ok(Self { spot, text, frames, instruction: next(cursor)?.unwrap_or_default() })
    }

    /// What an access of it looks like, before it is made.
    fn side(&self, cursor: &mut Cursor<'_>, place: Place, (_, writes, (addr, len)): Wanted) -> Result<Side> {
        let text = self.text.as_deref();
        let before = known(cursor, addr, len)?;
        Ok(Side {
            place,
            time: cursor.time(),
            writes,
            spot: self.spot.clone(),
            text: self.text.clone(),
            callers: self.frames.iter().skip(1).filter_map(|frame| frame.place.brief()).collect(),
            before: before.as_deref().map(shown),
            after: None,
            bytes: [before, None],
            counts: adds(&self.instruction) || text.is_some_and(counts),
            names_atomic: text.is_some_and(|text| text.to_lowercase().contains("atomic")),
            changes: changes(&self.instruction),
            frames: self.frames.clone(),
        })
    }
}

impl Side {
    /// The access has been made.
    fn look_behind(&mut self, cursor: &mut Cursor<'_>, (_, _, (addr, len)): Wanted) -> Result<()> {
        let after = known(cursor, addr, len)?;
        self.after = after.as_deref().map(shown);
        self.bytes[1] = after;
        Ok(())
    }
}

fn known(cursor: &mut Cursor<'_>, addr: u64, len: u64) -> Result<Option<Vec<u8>>> {
    let bytes: Option<Vec<u8>> = cursor.read_known(Addr(addr), len)?.into_iter().collect();
    Ok(bytes.filter(|bytes| bytes.len() as u64 == len))
}

/// Bytes as a number, if they are as many as one has.
fn shown(bytes: &[u8]) -> String {
    let number = bytes.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    match bytes.len() {
        0..=NUMBER if number < 1 << 24 => number.to_string(),
        0..=NUMBER => format!("{number:#x}"),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
    }
}

/// Whether an instruction writes to memory what follows from what was there; and if so, whether it adds.
fn changes(instruction: &Instruction) -> Option<bool> {
    let mut factory = InstructionInfoFactory::new();
    let is_changed = |access| matches!(access, OpAccess::ReadWrite | OpAccess::ReadCondWrite);
    let changes = factory.info(instruction).used_memory().iter().any(|used| is_changed(used.access()));
    changes.then(|| adds(instruction))
}

/// Whether an instruction adds to memory, or counts there.
fn adds(instruction: &Instruction) -> bool {
    let is_sum = matches!(instruction.mnemonic(), Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec);
    is_sum && instruction.op_count() > 0 && instruction.op_kind(0) == OpKind::Memory
}

/// Whether a line of source does nothing but that, by its text.
fn counts(text: &str) -> bool {
    let text = text.trim_end_matches(';').trim();
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_alphanumeric() || "_.*->[]() ".contains(c))
            && !name.ends_with('-')
            && name.matches('(').count() == name.matches(')').count()
    };
    let is_step = ["++", "--"]
        .iter()
        .any(|step| text.strip_prefix(step).is_some_and(is_name) || text.strip_suffix(step).is_some_and(is_name));
    let is_sum = |sign: &str| text.split_once(sign).is_some_and(|(name, _)| is_name(name.trim()));
    is_step || is_sum("+=") || is_sum("-=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_count() {
        for text in ["counter++;", "++s->hits;", "total += n;", "x[i] -= 2;", "(*p)++;"] {
            assert!(counts(text), "{text}");
        }
        for text in ["x = y;", "if (x++ > 3) return;", "for (i = 0; i < n; i++)", "return a + b;", "f(x += 2);"] {
            assert!(!counts(text), "{text}");
        }
    }

    #[test]
    fn values() {
        assert_eq!(shown(&[1, 1, 0, 0]), "257");
        assert_eq!(shown(&[0, 0, 0, 1]), "0x1000000");
        assert_eq!(shown(&[1; 9]), "01 01 01 01 01 01 01 01 01");
    }
}
