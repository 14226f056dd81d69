//! A slice for people: source lines, the last one first, with the values that they computed, and where these come from.

use super::ask::Asked;
use super::graph::{ASKED, Dependence, What};
use super::origins::{Origins, Outside};
use super::{Ended, Slice, Touched};
use crate::runs::scene::Spot;
use bugnet_events::effects::{Control, Decoding};
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::Addr;
use bugnet_replay::backtrace::{Frame, backtrace};
use bugnet_replay::crash::{Sources, is_system, is_system_source, scopes_at};
use bugnet_replay::cursor::{Cursor, Direction, Place, Seek};
use bugnet_replay::log::Log;
use bugnet_replay::mappings::{Mapping, Mappings};
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::{SourceFrame, Symbolizer};
use bugnet_replay::{Result, disassembly, syscall};
use iced_x86::Instruction;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A slice, as it is reported.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The values that were asked about, in words.
    pub asked: String,
    /// Where.
    pub place: Place,
    /// Whether addresses and decisions were followed, too.
    pub full: bool,
    /// Whether it is what the values influenced: then, lines and calls come in the order in which that began.
    pub forward: bool,
    /// What takes part in it itself: lines by their place in the list, and sources by theirs.
    pub from: Vec<From>,
    /// Source lines, or functions without any, the last one first.
    pub lines: Vec<Line>,
    /// Where values come from that nothing in the slice has made.
    pub outside: Vec<Outside>,
    /// How much there is.
    pub counts: Counts,
    /// Why the search ended.
    pub ended: String,
    /// What whoever asked should know.
    pub notes: Vec<String>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Instructions that were executed for the slice.
    pub executed: u64,
    /// Instructions of all threads through which the search went.
    pub walked: u64,
    /// Instructions of the program that are in the slice.
    pub instructions: u64,
    /// Bytes of memory that were accessed, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
}

/// A source line; or a function, if it has no lines.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Where its last instruction in the slice was executed, the last time.
    pub place: Place,
    /// The function, as far as known.
    pub function: Option<String>,
    /// The functions into which that is inlined, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inlined_into: Vec<String>,
    /// The file, if the line is known.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// Its text, if the log or this machine has the file.
    pub text: Option<String>,
    /// The ELF file.
    pub module: Option<String>,
    /// Whether that is a library of the system's, or the line is one of its sources.
    pub is_system: bool,
    /// Where the program's own code called the library, of the first of several such lines that follow each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_from: Option<Spot>,
    /// How often it was executed for the slice, by its most frequent instruction.
    pub times: u64,
    /// Steps from what was asked about, on the shortest way.
    pub depth: u32,
    /// Instructions that all threads executed between there and where one asked; none where that was not looked up.
    pub before: Option<u64>,
    /// Variables that its text names, as they were then.
    pub with: Vec<Value>,
    /// What it computed the last time.
    pub values: Vec<Value>,
    /// Its instructions in the slice: addresses, and text.
    pub instructions: Vec<(Addr, String)>,
    /// The lines that it takes values from, by their place in the list, and in which way; and sources by theirs.
    pub from: Vec<From>,
}

/// A value that a line computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Value {
    /// A variable's name, or a register's, or an address.
    pub name: String,
    /// Its value as text.
    pub value: String,
}

/// Something that a line takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct From {
    /// The line, by its place in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Or the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<usize>,
    /// For what.
    pub by: Dependence,
}

/// What identifies a line.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    module: Option<String>,
    function: Option<String>,
    line: Option<(String, u32)>,
    /// Code of which nothing is known.
    page: u64,
}

/// How much to find out.
#[derive(Clone, Copy, Debug)]
pub struct Detail {
    /// Whether addresses and decisions were followed, too.
    pub is_full: bool,
    /// Whether it is what the values influenced.
    pub is_forward: bool,
    /// Lines whose values are looked up, of those that are not folded.
    pub values: usize,
    /// Whether lines of libraries are folded.
    pub folds: bool,
}

impl Line {
    /// Whether it is a step within a library, of which nobody knows the lines: such steps that follow each other are shown as one.
    #[must_use]
    pub fn is_librarys(&self) -> bool {
        self.is_system && self.text.is_none()
    }
}

/// Reports on a slice.
///
/// # Errors
/// The log cannot be read, or the replay process is lost.
pub fn report(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    asked: &Asked,
    slice: &Slice,
    detail: Detail,
) -> Result<Report> {
    let graph = &slice.graph;
    let (mut lines, mut known): (Vec<Line>, HashMap<Key, usize>) = (Vec::new(), HashMap::new());
    let mut sources = Sources::default();
    let mut of_node: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for (number, node) in graph.nodes.iter().enumerate() {
        let (What::Instruction(instruction), Some([place, _])) = (&node.what, node.places) else { continue };
        let at = line_of(instruction, place, &mut lines, &mut known, symbols, &mut sources);
        of_node[number] = Some(at);
        let line = &mut lines[at];
        line.times = line.times.max(node.count);
        line.depth = line.depth.min(node.depth);
        line.instructions.push((Addr(instruction.ip()), disassembly::text(instruction)));
    }
    let (outside, source_of_node) = outsides(log, cursor, symbols, slice, asked.criterion.place)?;
    // What was asked about is no line.
    let mut from: BTreeMap<Option<usize>, Vec<From>> = BTreeMap::new();
    for (wanting, by, node) in graph.edges.keys() {
        let line = of_node[*wanting as usize];
        let (other, source) = (of_node[*node as usize], source_of_node.get(node).copied());
        let is_known = other.is_some() || source.is_some();
        let is_itself = other.is_some() && other == line;
        if is_known && !is_itself && (line.is_some() || *wanting == ASKED) {
            from.entry(line).or_default().push(From { line: other, outside: source, by: *by });
        }
    }
    for all in from.values_mut() {
        all.sort_unstable();
        all.dedup();
    }
    let asked_from = from.remove(&None).unwrap_or_default();
    for (line, from) in from {
        line.into_iter().for_each(|line| lines[line].from.clone_from(&from));
    }
    cursor.seek(Seek::Place(asked.criterion.place))?;
    let end = cursor.time();
    let (mut left, mut is_inside) = (detail.values, false);
    for line in &mut lines {
        if left == 0 {
            break;
        }
        if detail.folds && line.is_system && !is_inside {
            cursor.seek(Seek::Place(line.place))?;
            line.called_from = caller(log, cursor, symbols)?;
        }
        is_inside = line.is_librarys();
        if detail.folds && line.is_librarys() {
            continue;
        }
        cursor.seek(Seek::Place(line.place))?;
        line.before = Some(end.abs_diff(cursor.time()));
        let text = line.text.clone().unwrap_or_default();
        (line.with, line.values) = values(log, cursor, symbols, &text)?;
        left -= 1;
    }
    let is_instruction = |node: &&super::Node| matches!(node.what, What::Instruction(_));
    let instructions = graph.nodes.iter().filter(is_instruction).count() as u64;
    let mut notes = notes(slice);
    cursor.seek(Seek::Place(asked.criterion.place))?;
    notes.extend(shared(slice, &cursor.mappings()?));
    let counts = Counts { executed: graph.count, walked: slice.walked, instructions, touched: slice.touched };
    Ok(Report {
        asked: asked.what.clone(),
        place: asked.criterion.place,
        full: detail.is_full,
        forward: detail.is_forward,
        from: asked_from,
        lines,
        outside,
        counts,
        ended: match &slice.ended {
            Ended::Found if detail.is_forward => "nothing of it is left then".to_owned(),
            Ended::Found => "everything is found".to_owned(),
            Ended::Start if detail.is_forward => "the recording ends then".to_owned(),
            Ended::Start => "there is nothing recorded before".to_owned(),
            Ended::Until => "it was not to go further".to_owned(),
            Ended::Enough => "it was not to find more".to_owned(),
            Ended::Over(why) => why.to_string(),
        },
        notes,
    })
}

/// What is not known of memory that others can change, too: what is taken from there is what this process has stored last, at this address.
fn shared(slice: &Slice, mappings: &Mappings) -> Option<String> {
    let is_meant = |mapping: &&Mapping| {
        let mut pages = slice.pages.iter();
        let holds = |page: &u64| (mapping.start / Addr::PAGE..mapping.end.div_ceil(Addr::PAGE)).contains(page);
        mapping.is_shared && pages.any(holds)
    };
    let name = |mapping: &Mapping| match &*mapping.name {
        "" => format!("{:#x}", mapping.start),
        name => format!("{name} at {:#x}", mapping.start),
    };
    let names: Vec<String> = mappings.all.iter().filter(is_meant).map(name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Values are taken from memory that is mapped as shared ({}). Where another process has changed them, or this one by another \
             address, that is told by the values; where it has put the same bytes there, it is not known.",
            names.join(", ")
        )
    })
}

fn notes(slice: &Slice) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((last, _)) = slice.doubtful.first() {
        let names: BTreeSet<String> = slice.doubtful.iter().map(|(_, number)| syscall::name(*number)).collect();
        notes.push(format!(
            "Of {} system calls ({}), the last of them at {last}, nobody knows what memory they wrote: they count as if they had written \
             none of what is in the slice.",
            slice.doubts,
            names.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    let cut = slice.graph.nodes.iter().filter(|node| node.is_cut).count();
    if cut > 0 {
        notes.push(format!("What lies behind {cut} of the instructions is further away than was to be looked."));
    }
    let is_over = matches!(slice.ended, Ended::Over(_));
    if !is_over && slice.graph.count == 0 && slice.graph.nodes.len() as u32 == ASKED + 1 {
        notes.push("Nothing that was executed in this recording yields it.".into());
    }
    notes
}

/// The line of an instruction that was executed last at a place, by its number: of the user's own function into which others are inlined, if
/// there is one.
fn line_of(
    instruction: &Instruction,
    place: Place,
    lines: &mut Vec<Line>,
    known: &mut HashMap<Key, usize>,
    symbols: &mut Symbolizer,
    sources: &mut Sources,
) -> usize {
    let found = symbols.lookup(Addr(instruction.ip()));
    let is_users = |source: &SourceFrame| source.file.as_ref().is_some_and(|file| !is_system_source(file));
    let own = found.source.iter().position(is_users).unwrap_or(0);
    let source = found.source.get(own);
    let function = source.and_then(|source| source.function.clone());
    let function = function.or_else(|| found.symbol.as_ref().map(|symbol| symbol.name.clone()));
    let line = source.and_then(|source| Some((source.file.clone()?, source.line.filter(|line| *line > 0)?)));
    let module = found.module.map(|module| module.path);
    let page = if function.is_none() && line.is_none() { instruction.ip() >> 12 } else { 0 };
    let key = Key { module: module.clone(), function: function.clone(), line: line.clone(), page };
    *known.entry(key).or_insert_with(|| {
        let outer = found.source.iter().skip(own + 1);
        let is_of_system = line.as_ref().map(|(file, _)| is_system_source(file));
        let text = line.as_ref().and_then(|(file, line)| sources.line(symbols, file, *line));
        let text = text.map(|text| text.trim().to_owned());
        let (file, line) = line.unzip();
        lines.push(Line {
            place,
            function,
            inlined_into: outer.filter_map(|source| source.function.clone()).collect(),
            file,
            line,
            text,
            is_system: is_of_system.unwrap_or(false) || module.as_deref().is_some_and(is_system),
            module,
            called_from: None,
            times: 0,
            depth: u32::MAX,
            before: None,
            with: Vec::new(),
            values: Vec::new(),
            instructions: Vec::new(),
            from: Vec::new(),
        });
        lines.len() - 1
    })
}

/// The sources, those that are alike once; which one each node is.
fn outsides(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    slice: &Slice,
    asked: Place,
) -> Result<(Vec<Outside>, HashMap<u32, usize>)> {
    let nodes = slice.graph.nodes.iter().enumerate().filter(|(_, node)| matches!(node.what, What::Source(_)));
    let nodes: Vec<_> = nodes.collect();
    let (mut all, mut of_node): (Vec<Outside>, HashMap<u32, usize>) = (Vec::new(), HashMap::new());
    if nodes.is_empty() {
        return Ok((all, of_node));
    }
    let origins = Origins::new(log, cursor, asked, slice)?;
    let mut known: HashMap<String, usize> = HashMap::new();
    for (number, node) in nodes {
        let Some(outside) = origins.outside(node, symbols) else { continue };
        let at = *known.entry(outside.what.clone()).or_insert_with(|| {
            all.push(Outside { times: 0, ..outside.clone() });
            all.len() - 1
        });
        all[at].times += 1;
        all[at].depth = all[at].depth.min(outside.depth);
        if all[at].times > 1 {
            all[at].bytes.extend(outside.bytes);
        }
        of_node.insert(number as u32, at);
    }
    for one in all.iter_mut().filter(|one| one.place.is_none() && !one.bytes.is_empty()) {
        one.what = origins.pieces(&one.what, &one.bytes, symbols);
        one.times = 1;
    }
    Ok((all, of_node))
}

/// Where the program's own code called the function of a library in which a cursor is; none if it did not.
fn caller(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<Option<Spot>> {
    let (regs, code) = (cursor.regs().clone(), log.code(cursor.pid())?);
    let frames = backtrace(&regs, cursor, symbols, &code)?;
    let is_own = |frame: &Frame| frame.place.module.as_ref().is_some_and(|module| !is_system(&module.path));
    let outer = frames.into_iter().skip(1).filter(is_own);
    Ok(outer.map(|frame| Spot::in_place(frame.place, |_| false)).find(|spot| !spot.is_systems()))
}

/// The variables of the innermost function, and of those that are inlined into it.
fn variables(log: &Log, cursor: &mut Cursor<'_>, symbols: &mut Symbolizer) -> Result<Vec<(String, String)>> {
    let frames = scopes_at(log, cursor, symbols, 1)?;
    let scopes = frames.into_iter().flat_map(|frame| frame.scopes);
    let all = scopes.flat_map(|scope| scope.arguments.into_iter().chain(scope.locals));
    Ok(all.map(|variable| (variable.name, variable.value)).collect())
}

/// Whether a line of source text names a variable.
fn names(text: &str, variable: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == variable)
}

/// The variables that the line names, and what the next instruction computes: variables that change, else what it writes. The cursor is
/// behind it then.
fn values(
    log: &Log,
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    text: &str,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let before = variables(log, cursor, symbols)?;
    let (regs, rip) = (cursor.regs().clone(), cursor.regs().rip);
    cursor.step(Direction::Forward)?;
    let after = cursor.regs().clone();
    let mut changed: Vec<Value> = Vec::new();
    for (name, value) in variables(log, cursor, symbols)? {
        let known = before.iter().find(|(other, _)| *other == name);
        if known.is_some_and(|(_, before)| *before != value) && !value.starts_with('<') {
            changed.push(Value { name, value });
        }
    }
    if changed.is_empty() {
        changed = written(cursor, symbols, rip, &regs, &after)?;
    }
    let is_with = |(name, value): &(String, String)| names(text, name) && !value.starts_with('<');
    let with = before.into_iter().filter(is_with).map(|(name, value)| Value { name, value });
    Ok((with.collect(), changed))
}

/// Registers and memory that an instruction wrote.
fn written(
    cursor: &mut Cursor<'_>,
    symbols: &mut Symbolizer,
    rip: u64,
    before: &RegisterFile,
    after: &RegisterFile,
) -> Result<Vec<Value>> {
    const NAMES: [&str; 16] =
        ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    let bytes = cursor.read_memory(Addr(rip), 15)?;
    let instruction = iced_x86::Decoder::with_ip(64, &bytes, rip, iced_x86::DecoderOptions::NONE).decode();
    let effects = Decoding::default().effects(&instruction);
    if instruction.is_invalid() || effects.control == Control::Call {
        return Ok(Vec::new());
    }
    let writes = effects.writes();
    let mut all = Vec::new();
    for (number, name) in NAMES.iter().enumerate().filter(|(number, _)| *number != 4) {
        if writes.meets(bugnet_events::atoms::Atoms::gpr(number)) {
            all.push(Value { name: (*name).to_owned(), value: format!("{:#x}", after.gpr[number]) });
        }
    }
    let mut factory = iced_x86::InstructionInfoFactory::new();
    let stores: Vec<(u64, u64)> = factory
        .info(&instruction)
        .used_memory()
        .iter()
        .filter(|used| matches!(used.access(), iced_x86::OpAccess::Write | iced_x86::OpAccess::ReadWrite))
        .filter_map(|used| {
            let at = used.virtual_address(0, |register, _, _| match register {
                iced_x86::Register::FS => Some(before.fs_base),
                iced_x86::Register::GS => Some(before.gs_base),
                _ if register.is_segment_register() => Some(0),
                _ if register.is_gpr64() => Some(before.gpr[register.number()]),
                _ => None,
            })?;
            Some((at, used.memory_size().size() as u64))
        })
        .filter(|(_, len)| (1..=32).contains(len))
        .collect();
    for (at, len) in stores {
        let bytes = cursor.read_memory(Addr(at), len)?;
        if bytes.len() as u64 != len {
            continue;
        }
        let value = match bytes.len() {
            1 | 2 | 4 | 8 => format!("{:#x}", bytes.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte))),
            _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
        };
        let name = match symbols.name_at(Addr(at)) {
            Some((name, 0)) => name,
            Some((name, offset)) => format!("{name}+{offset:#x}"),
            None => format!("[{at:#x}]"),
        };
        all.push(Value { name, value });
    }
    Ok(all)
}
