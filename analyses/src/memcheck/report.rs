//! What was found, in terms of the source.

use super::below::Gone;
use super::check::{Checker, Counts};
use super::found::{By, Error, Kind};
use super::frames::StackId;
use super::functions::Family;
use super::heap::{Block, Call};
use super::leaks::{Loss, Lost};
use super::undefined::{Maker, Origin, Undefined, UndefinedCounts, Use};
use super::{Options, code::CANARY};
use crate::go;
use bugnet_format::types::Addr;
use bugnet_heap::Relation;
use bugnet_replay::Result;
use bugnet_replay::backtrace::Frame;
use bugnet_replay::crash::{is_system, moment, pointed_at};
use bugnet_replay::cursor::{Place, Seek};
use bugnet_replay::disassembly;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Place as Code;
use bugnet_replay::syscall;
use bugnet_replay::work::Over;
use serde::Serialize;

/// Innermost frames among which a variable is looked for that points at a block.
const FRAMES: usize = 6;

/// What was found in a process.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What is wrong, the first one first.
    pub errors: Vec<ErrorReport>,
    /// How often more was wrong, of which nothing is told.
    pub others: u64,
    /// Blocks that nobody gave back, if that was looked for: the worst first.
    pub leaks: Option<Vec<Leak>>,
    /// How much was looked at.
    pub counts: Counts,
    /// How much of it had to do with undefined values, if these were followed.
    pub undefined: Option<UndefinedCounts>,
    /// Functions of allocators that were found.
    pub allocators: Vec<String>,
    /// What could not be followed, so that errors of it are not among these, as sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfollowed: Vec<String>,
    /// Why not all was looked at, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<Over>,
    /// What is not known, as sentences.
    pub notes: Vec<String>,
}

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Where {
    /// The instruction, or the one behind the call.
    pub address: Addr,
    /// The function; none where it has no name.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The text of the line, where this machine or the log has it.
    pub text: Option<String>,
    /// The mapped file.
    pub module: Option<String>,
    /// Whether the function is inlined into the next one, and has no frame of its own.
    pub is_inlined: bool,
}

/// A call of an allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallReport {
    /// Where in the recording: the function's first instruction.
    pub place: Place,
    /// Its name.
    pub function: String,
    /// Who called it, the innermost first.
    pub callers: Vec<Where>,
}

/// A block that has to do with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockReport {
    /// First byte.
    pub start: Addr,
    /// Bytes that were asked for; none where that is not known.
    pub size: Option<u64>,
    /// Where the address is: `inside`, `behind` or `before`.
    pub side: &'static str,
    /// How many bytes from the block's first byte, the first one behind it, or its first one.
    pub distance: u64,
    /// Who gave it out; none: that was before the log begins.
    pub allocated: Option<CallReport>,
    /// Who gave it back.
    pub freed: Option<CallReport>,
    /// Variables in scope that point into it: their names, and how many bytes from its start.
    pub variables: Vec<(String, u64)>,
    /// What the source may call the first byte that is accessed, by the type of such a variable: `pointer->field`.
    pub part: Option<String>,
}

/// Where a value comes from that is undefined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginReport {
    /// `heap`, of a block; `stack`, of a function's frame; `unknown`.
    pub kind: &'static str,
    /// Who got the memory, of a block: the first call from there, where the block itself is not known any more.
    pub allocated: Option<CallReport>,
    /// Where the stack grew.
    pub frame: Option<Where>,
    /// The variable, where debug information says which one.
    pub variable: Option<String>,
    /// Where the undefined bytes were loaded first.
    pub loaded: Option<Place>,
}

/// The frame of a function that has returned, of which memory is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameReport {
    /// Its function's return.
    pub place: Place,
    /// The same in the code.
    pub returned: Where,
    /// The variable, where debug information says which one, and how many bytes behind its start.
    pub variable: Option<(String, u64)>,
    /// How many bytes below the return address it lies.
    pub depth: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// What.
    pub kind: Kind,
    /// In words.
    pub what: String,
    /// Where, the first time.
    pub place: Place,
    /// The instruction, where it is one that accesses.
    pub instruction: Option<String>,
    /// First byte, where it is about memory.
    pub addr: Option<Addr>,
    /// Bytes.
    pub len: u64,
    /// Where in the code, the innermost first.
    pub stack: Vec<Where>,
    /// The block that has to do with it.
    pub block: Option<BlockReport>,
    /// The frame that it is of, whose function has returned.
    pub frame: Option<FrameReport>,
    /// Where the value comes from, if it is undefined.
    pub origin: Option<OriginReport>,
    /// How often, at the same instruction called from the same places.
    pub times: u64,
}

/// Blocks that were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// In which way.
    pub loss: Loss,
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Where the first one was got.
    pub allocated: CallReport,
}

/// Makes a report.
///
/// # Errors
/// The replay process is lost.
pub fn report(
    log: &Log,
    mut checker: Checker<'_, '_>,
    lost: Option<Vec<Lost>>,
    (options, over): (&Options, Option<Over>),
    has_exited: bool,
) -> Result<Report> {
    let mut errors = std::mem::take(&mut checker.errors.all);
    order(&mut checker, &mut errors)?;
    let mut reports = Vec::new();
    for error in &errors {
        let frame = error.gone.as_ref().map(|gone| checker.frame(log, gone, error.addr)).transpose()?;
        // What lies below the frames for sure may be anything else.
        if error.gone.is_some_and(|gone| !gone.is_sure) && frame.as_ref().is_none_or(|frame| frame.variable.is_none()) {
            continue;
        }
        let with_variables = reports.len() < options.variables;
        reports.push(ErrorReport { frame, ..checker.error(log, error, with_variables)? });
    }
    let leaks = lost.map(|lost| {
        let leak = |lost: &Lost| Leak {
            loss: lost.loss,
            blocks: lost.blocks,
            bytes: lost.bytes,
            allocated: checker.call(&lost.first),
        };
        lost.iter().map(leak).collect()
    });
    let is_go = go::is_there(log, checker.cursor.pid())?;
    if is_go {
        reports.retain(|error| error.stack.first().is_some_and(|first| !go::is_runtimes(first.function.as_deref())));
    }
    let mut allocators: Vec<String> = checker.known.found().map(|function| function.shown()).collect();
    allocators.sort();
    allocators.dedup();
    let mut notes = notes(&checker, options, has_exited || over.is_some());
    if let Some(over) = over {
        let what = "what lies behind these instructions was not looked at, nor what is lost at the end";
        notes.insert(0, format!("{over}: {what}"));
    }
    let undefined = checker.undefined.as_ref().map(Undefined::counts);
    let (others, counts) = (checker.errors.others, checker.counts);
    let unfollowed = unfollowed(&checker, is_go);
    Ok(Report { errors: reports, others, leaks, counts, undefined, allocators, unfollowed, over, notes })
}

/// Those that were found by going back come where they happened.
fn order(checker: &mut Checker<'_, '_>, errors: &mut Vec<Error>) -> Result<()> {
    if !errors.iter().any(|error| matches!(error.kind, Kind::Return | Kind::Canary)) {
        return Ok(());
    }
    let mut timed = Vec::new();
    for error in std::mem::take(errors) {
        checker.cursor.seek(Seek::Place(error.place))?;
        timed.push((checker.cursor.time(), error));
    }
    timed.sort_by_key(|(time, _)| *time);
    errors.extend(timed.into_iter().map(|(_, error)| error));
    Ok(())
}

/// What could not be followed.
fn unfollowed(checker: &Checker<'_, '_>, is_go: bool) -> Vec<String> {
    let mut all = Vec::new();
    if checker.gives_python {
        all.push(
            "Python's own allocator: of its blocks, those are followed that extensions ask for, and what is up to 15 bytes behind them; not those of \
             the interpreter, nor what was given back. In a recording with PYTHONMALLOC=malloc, all are"
                .to_owned(),
        );
    }
    if is_go {
        all.push(go::UNFOLLOWED.to_owned());
    }
    all
}

fn notes(checker: &Checker<'_, '_>, options: &Options, has_exited: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |is_so: bool, text: String| notes.extend(is_so.then_some(text));
    note(
        !checker.known.can_allocate(),
        "no function of an allocator was found by its name: nothing is known of the heap; --allocator names others"
            .to_owned(),
    );
    note(
        !checker.is_whole,
        "the log does not have the beginning of the process: of blocks that were given out before, and of what the allocator had then, nothing \
         is known until they are given back"
            .to_owned(),
    );
    let counts = &checker.counts;
    note(
        counts.unknown_releases > 0 && checker.is_whole,
        format!("{} blocks were given back that no known function gave out", counts.unknown_releases),
    );
    note(
        counts.unknown_allocations > 0,
        format!(
            "of {} blocks it is not known where they are; memory that nobody got was not checked from there on",
            counts.unknown_allocations
        ),
    );
    note(
        counts.unchecked_copies > 0,
        format!(
            "whether {} copies overlap was not looked at, since it is not known where their functions are",
            counts.unchecked_copies
        ),
    );
    let unknown = checker.undefined.as_ref().map_or(0, |undefined| undefined.counts().unknown);
    note(
        unknown > 0,
        format!(
            "of the results of {unknown} instructions it is not known whether they are defined, which counts as so"
        ),
    );
    note(
        options.leaks && !has_exited,
        "blocks that are lost were not looked for, since the process did not exit by itself".to_owned(),
    );
    notes
}

impl Checker<'_, '_> {
    fn place_of(&mut self, address: u64, of: u64) -> Where {
        self.places_of(address, of).swap_remove(0)
    }

    /// The functions of a frame, the innermost first: all but the last are inlined. At least one.
    fn places_of(&mut self, address: u64, of: u64) -> Vec<Where> {
        let code = self.symbols.lookup(Addr(of));
        self.shown(address, code)
    }

    fn shown(&mut self, address: u64, code: Code) -> Vec<Where> {
        let Code { source, symbol, module } = code;
        let (symbol, module) = (symbol.map(|symbol| symbol.name), module.map(|module| module.path));
        let mut all = Vec::new();
        for source in &source {
            let (file, line) = (source.file.clone(), source.line);
            let text = file.as_ref().zip(line).and_then(|(file, line)| self.symbols.source_line(file, line));
            let (function, text) = (source.function.clone(), text.map(|text| text.trim().to_owned()));
            let module = module.clone();
            all.push(Where { address: Addr(address), function, file, line, text, module, is_inlined: true });
        }
        if all.is_empty() {
            let (function, file, line, text) = (None, None, None, None);
            all.push(Where { address: Addr(address), function, file, line, text, module, is_inlined: true });
        }
        if let Some(last) = all.last_mut() {
            last.is_inlined = false;
            last.function = last.function.take().or(symbol);
        }
        all
    }

    fn callers(&mut self, stack: StackId) -> Vec<Where> {
        let stack = self.frames.kept(stack).to_vec();
        stack.into_iter().flat_map(|address| self.places_of(address, address.wrapping_sub(1))).collect()
    }

    fn call(&mut self, call: &Call) -> CallReport {
        let function = self.known.allocators[call.function].shown();
        CallReport { place: call.place, function, callers: self.callers(call.stack) }
    }

    fn error(&mut self, log: &Log, error: &Error, with_variables: bool) -> Result<ErrorReport> {
        let block = error.block.as_ref().map(|(block, relation)| self.block(block, *relation));
        let mut stack = self.places_of(error.ip, error.ip);
        let own = stack.len();
        stack.extend(self.callers(error.stack));
        // A stub is none of the program's functions.
        if matches!(error.by, By::Library(_)) && stack.len() > own {
            stack.drain(..own);
        }
        let (mut variables, mut part) = (Vec::new(), None);
        if with_variables || stack.len() == own {
            self.cursor.seek(Seek::Place(error.place))?;
            let frames = moment(log, self.cursor)?.backtrace;
            if let Some((block, _)) = error.block.as_ref().filter(|_| with_variables) {
                variables = pointing(&frames, block);
                if matches!(error.kind, Kind::Read | Kind::Write) && error.by == By::Instruction {
                    let whole = block.start..block.start.saturating_add(block.size.unwrap_or(0));
                    part = pointed_at(log, self.cursor, &mut self.symbols, (error.addr, whole), FRAMES)?;
                }
            }
            if stack.len() == own {
                stack = frames.into_iter().flat_map(|frame| self.shown(frame.pc, frame.place)).collect();
            }
        }
        let block = block.map(|block| BlockReport { variables, part, ..block });
        let origin = match &error.undefined {
            Some((_, origin)) => Some(self.origin(log, origin.as_ref(), with_variables)?),
            None => None,
        };
        let is_about_memory = error.kind != Kind::Canary || error.from.is_some();
        Ok(ErrorReport {
            kind: error.kind,
            what: self.what(error),
            place: error.place,
            instruction: error.instruction.as_ref().map(disassembly::text),
            addr: is_about_memory.then_some(Addr(error.addr)),
            len: error.len,
            stack,
            block,
            frame: None,
            origin,
            times: error.times,
        })
    }

    /// Where an undefined value comes from.
    fn origin(&mut self, log: &Log, origin: Option<&Origin>, with_variables: bool) -> Result<OriginReport> {
        let loaded = origin.and_then(|origin| origin.loaded.as_ref());
        let mut report = OriginReport {
            kind: "unknown",
            allocated: None,
            frame: None,
            variable: None,
            loaded: loaded.map(|loaded| loaded.place),
        };
        match origin.map(|origin| &origin.maker) {
            Some(Maker::Heap(call)) => {
                let own = loaded.and_then(|loaded| loaded.block.as_ref()).and_then(|block| block.allocated);
                (report.kind, report.allocated) = ("heap", Some(self.call(&own.unwrap_or(*call))));
            }
            Some(Maker::Stack { ip, is_call }) => {
                // What a function has below its frame is its own, without an instruction that says so.
                let of = loaded.filter(|_| *is_call).map_or(*ip, |loaded| loaded.ip);
                (report.kind, report.frame) = ("stack", Some(self.place_of(of, of)));
                if let Some(loaded) = loaded.filter(|_| with_variables) {
                    self.cursor.seek(Seek::Place(loaded.place))?;
                    let frames = moment(log, self.cursor)?.backtrace;
                    report.variable = holding(&frames, loaded.addr).map(|(name, _)| name);
                }
            }
            None => {}
        }
        Ok(report)
    }

    /// The frame of a function that has returned, as it was then.
    fn frame(&mut self, log: &Log, gone: &Gone, addr: u64) -> Result<FrameReport> {
        self.cursor.seek(Seek::Place(gone.place))?;
        let ip = self.cursor.regs().rip;
        let frames = moment(log, self.cursor)?.backtrace;
        let returned = self.place_of(ip, ip);
        let variable = holding(&frames, addr);
        Ok(FrameReport { place: gone.place, returned, variable, depth: gone.slot.saturating_sub(addr) })
    }

    fn block(&mut self, block: &Block, relation: Relation) -> BlockReport {
        let (side, distance) = match relation {
            Relation::Inside(distance) => ("inside", distance),
            Relation::Behind(distance) => ("behind", distance),
            Relation::Before(distance) => ("before", distance),
        };
        BlockReport {
            start: Addr(block.start),
            size: block.size,
            side,
            distance,
            allocated: block.allocated.as_ref().map(|call| self.call(call)),
            freed: block.freed.as_ref().map(|call| self.call(call)),
            variables: Vec::new(),
            part: None,
        }
    }

    /// What is wrong, in words.
    fn what(&self, error: &Error) -> String {
        let by = match error.by {
            By::Instruction => String::new(),
            By::System(number) => format!(" by {}", syscall::name(number)),
            By::Function(index) => format!(" by {}", self.known.allocators[index].shown()),
            By::Library(index) => format!(" by {}", self.known.library(index).0),
        };
        let function = by.strip_prefix(" by ").unwrap_or_default();
        let bytes = |len: u64| if len == 1 { "1 byte".to_owned() } else { format!("{len} bytes") };
        match error.kind {
            Kind::Read => format!("invalid read of {}{by}", bytes(error.len)),
            Kind::Write => format!("invalid write of {}{by}", bytes(error.len)),
            Kind::DoubleFree => format!("double free{by}"),
            Kind::InvalidFree => format!("{function} of what is no block"),
            Kind::Mismatch => {
                let family = error.block.as_ref().and_then(|(block, _)| block.family.as_ref());
                format!("{function} of a block that {} gave out", family.map_or("another allocator", family_name))
            }
            Kind::Overlap => {
                let (from, to) = (Addr(error.from.unwrap_or(0)), Addr(error.addr));
                format!("{} are copied{by} from {from} to {to}, which overlap", bytes(error.len))
            }
            Kind::UndefinedBranch => "a branch goes by an undefined value".to_owned(),
            Kind::UndefinedJump => "a jump goes where an undefined value says".to_owned(),
            Kind::UndefinedAddress => "memory is accessed where an undefined value says".to_owned(),
            Kind::UndefinedArgument => argument(error),
            Kind::Return => "a return address is overwritten".to_owned(),
            Kind::Canary if error.from.is_some() => "the canary before a return address is overwritten".to_owned(),
            Kind::Canary => format!("a canary was overwritten, as {CANARY} found; by what is not known"),
        }
    }
}

fn family_name(family: &Family) -> &str {
    match family {
        Family::C => "malloc",
        Family::New => "operator new",
        Family::NewArray => "operator new[]",
        Family::Named(name) => name,
    }
}

/// Which argument of a system call is undefined.
fn argument(error: &Error) -> String {
    let number = ["first", "second", "third", "fourth", "fifth", "sixth"];
    match &error.undefined {
        Some((Use::Argument(index), _)) => match number.get(usize::from(*index)) {
            Some(number) => format!("a system call's {number} argument is undefined"),
            None => "a system call's number is undefined".to_owned(),
        },
        Some((Use::Taken(addr), _)) => format!("a system call reads undefined bytes from {} on", Addr(*addr)),
        _ => "a system call gets an undefined value".to_owned(),
    }
}

/// The variable in which an address is, and how many bytes behind its start.
fn holding(frames: &[Frame], addr: u64) -> Option<(String, u64)> {
    let scopes = frames.iter().flat_map(|frame| &frame.scopes);
    let mut variables = scopes.flat_map(|scope| scope.arguments.iter().chain(&scope.locals));
    let found = variables
        .find(|variable| variable.address.is_some_and(|start| addr.wrapping_sub(start) < variable.size.unwrap_or(1)))?;
    Some((found.name.clone(), addr - found.address?))
}

/// Variables of the first frame that is not of the system's that point into a block, by their values.
fn pointing(frames: &[Frame], block: &Block) -> Vec<(String, u64)> {
    let is_own = |frame: &&Frame| frame.place.module.as_ref().is_none_or(|module| !is_system(&module.path));
    let scopes = frames.iter().find(is_own).map_or(&[][..], |frame| &frame.scopes);
    let variables = scopes.iter().flat_map(|scope| scope.arguments.iter().chain(&scope.locals));
    let distance = |value: &str| {
        let digits = value.strip_prefix("0x")?.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        let distance = u64::from_str_radix(digits, 16).ok()?.checked_sub(block.start)?;
        (distance <= block.size.unwrap_or(0)).then_some(distance)
    };
    let mut found: Vec<(String, u64)> =
        variables.filter_map(|variable| Some((variable.name.clone(), distance(&variable.value)?))).collect();
    // The same one may be seen from an inlined function and from the one around it.
    found.sort();
    found.dedup();
    found
}
