//! What there is to say about a crash, from the log alone.

mod display;
mod headline;
mod instruction;
mod jump;
mod locks;
mod moment;
mod own;
mod pointers;
mod source;
mod stacks;
mod threads;
mod variables;

pub(crate) use instruction::code_bytes;
pub use instruction::{Access, Instruction, register_value};
pub use jump::Executed;
pub use locks::{Kind as WaitingKind, Waiting};
pub use moment::{Brief, Moment, moment, moment_of};
pub use own::{OwnFrame, is_system, is_system_source};
pub use pointers::Pointer;
pub use source::{SourceText, Sources};
pub use threads::OtherThread;
pub(crate) use variables::{LIMITS, Seen, add as add_variables, add_constants};
pub use variables::{Scope, Variable, local_at, pointed_at, scopes_at};

use crate::backtrace::Frame;
use crate::error::Result;
use crate::log::{IntervalId, Log, Selection, ThreadId};
use crate::memory::Snapshots;
use crate::output::{Piece, output_tail};
use crate::session::{Session, Stop};
use crate::signal;
use crate::syscall::{Call, last_calls};
use crate::tools::Tools;
use bugnet_format::frame::Interval;
use bugnet_format::record::{EndReason, OutputStream, Record};
use bugnet_format::regs::{RSP, RegisterFile};
use bugnet_format::types::{IntervalNo, Position};
use serde::Serialize;
use stacks::Stacks;
use std::collections::BTreeMap;

/// How much a [`CrashReport`] holds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// System calls before the crash.
    pub calls: usize,
    /// Bytes of output before the crash.
    pub output: usize,
    /// Other threads of the process.
    pub threads: usize,
    /// Instructions of the longest interval of which it is kept track which bytes are known, which takes some 20 times longer. Of
    /// others, zeros in memory beside the stack are not known.
    pub tracked: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { calls: 10, output: 2048, threads: 8, tracked: 100_000_000 }
    }
}

/// A thread that a signal killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashReport {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The thread.
    #[serde(flatten)]
    pub thread: ThreadId,
    /// Its last interval.
    pub interval: IntervalNo,
    /// Instructions since the interval's start.
    pub position: Position,
    /// Instructions that the thread executed since recording began.
    pub instructions: u64,
    /// What happened and where, in one line.
    pub headline: String,
    /// What killed it.
    pub signal: Signal,
    /// The instruction at which it stands; `None` where no code was ever executed.
    pub instruction: Option<Instruction>,
    /// Every register.
    pub registers: RegisterFile,
    /// The stack, innermost frame first.
    pub backtrace: Vec<Frame>,
    /// The first frame in the user's own code.
    pub own: Option<OwnFrame>,
    /// The source text around that frame's line, if this machine has it.
    pub source: Option<SourceText>,
    /// Where control went to what is no code: the last instructions before that, oldest first.
    pub before: Vec<Executed>,
    /// What the thread waits for, if that is known to be a lock or its like.
    pub waiting: Option<Waiting>,
    /// The last system calls, oldest first.
    pub calls: Vec<Call>,
    /// The process's other threads that had not ended.
    pub others: Vec<OtherThread>,
    /// The end of what the process wrote to its standard output and error, in order.
    pub output: Vec<Output>,
    /// What could not be found out, and why.
    pub missing: Vec<String>,
}

/// A signal, as it was delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Its name.
    pub name: String,
    /// `si_code`.
    pub code: i32,
    /// The code's name.
    pub code_name: Option<&'static str>,
    /// What the code means.
    pub meaning: Option<&'static str>,
    /// The address that the fault was about.
    pub address: Option<u64>,
}

impl CrashReport {
    /// Whether the thread had no stack left.
    #[must_use]
    pub fn is_stack_overflow(&self) -> bool {
        self.headline.contains(headline::STACK_OVERFLOW)
    }
}

impl Signal {
    /// Whether somebody sent it, so that it is not about what the thread was doing.
    fn is_sent(&self) -> bool {
        self.code <= 0
    }
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// Where it went.
    pub stream: OutputStream,
    /// What was written; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// The threads of the log that a signal killed, in the order in which their processes began; of several ones of a process that somebody's signal killed
/// together, the first.
///
/// # Errors
/// A thread's last interval cannot be read.
pub fn crashes(log: &Log) -> Result<Vec<ThreadId>> {
    let mut crashed = Vec::new();
    let began: BTreeMap<_, _> = log.processes()?.into_iter().zip(0..).map(|((pid, _), number)| (pid, number)).collect();
    let mut threads: Vec<_> = log.threads().collect();
    threads.sort_by_key(|thread| began.get(&thread.pid).copied());
    for thread in threads {
        let Some(end) = End::of(log, thread)? else { continue };
        if end.signal.is_sent() && threads::killed_before(log, thread, end.signal.number)? {
            continue;
        }
        crashed.push(thread);
    }
    Ok(crashed)
}

/// The thread in which a recording's failure is: the last that died of what it did itself, a fault or an abort, or else of what somebody sent.
///
/// # Errors
/// A thread's last interval cannot be read.
pub fn failed(log: &Log) -> Result<Option<ThreadId>> {
    let mut last = (None, None);
    for thread in crashes(log)? {
        let by_itself =
            End::of(log, thread)?.is_some_and(|end| !end.signal.is_sent() || end.signal.code == libc::SI_TKILL);
        *(if by_itself { &mut last.0 } else { &mut last.1 }) = Some(thread);
    }
    Ok(last.0.or(last.1))
}

/// Reports on the crash of a thread; `None` if no signal killed it.
///
/// `tools` are what replay needs. What only replay can tell (output, memory beside the stack) is left out without
/// them, and where replay fails; [`CrashReport::missing`] then says so.
///
/// # Errors
/// The log cannot be read.
pub fn report(tools: Option<&Tools>, log: &Log, thread: ThreadId, limits: Limits) -> Result<Option<CrashReport>> {
    let Some(mut end) = End::of(log, thread)? else { return Ok(None) };
    let id = IntervalId { thread, interval: end.interval };
    let code = log.code(thread.pid)?;
    let mut stacks = Stacks::new(log, thread.pid)?;
    let snapshots = Snapshots::of_process(log, thread.pid)?;
    let mut missing = Vec::new();
    let mut frames = None;
    let (mut output, mut others, mut before) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(tools) = tools {
        let threads = threads::ended_with(log, thread)?;
        stacks.add_waiting(log, thread, end.interval)?;
        for (thread, interval, _) in threads.iter().take(limits.threads) {
            stacks.add_waiting(log, *thread, *interval)?;
        }
        let is_tracked = end.position.0 <= limits.tracked;
        // A part that every thread has and that is no stack.
        let is_all_kept = !snapshots.at(end.regs.fs_base, 1).is_empty() && snapshots.omitted() == 0;
        if !is_tracked && !is_all_kept {
            missing
                .push("zeros in memory beside the stack: the last interval is long, and these count as unknown".into());
        }
        let replayed = replay_to_end(tools, log, id, is_tracked, &snapshots).and_then(|mut session| {
            // Replay knows what the recorder could not where the signal struck: flags, x87 state, dead registers.
            let regs = session.regs().clone();
            Ok((stacks.look(thread, &regs, &mut session)?, regs))
        });
        match replayed {
            Ok((found, regs)) => {
                frames = Some(found);
                end.regs = regs;
            }
            Err(error) => missing.push(format!("memory beside the stack: {error}")),
        }
        let process = Selection { processes: Some(vec![thread.pid]), ..Selection::default() };
        match output_tail(tools, log, &process, limits.output) {
            Ok(pieces) => output = join(pieces),
            Err(error) => missing.push(format!("the program's output: {error}")),
        }
        others = threads::others(tools, log, &threads, limits, &snapshots, &mut stacks, &mut missing)?;
        if !threads.is_empty() && !is_all_kept {
            missing.push(
                "whether other threads have changed memory since a thread last saw it: values beside its own stack are as \
                 that thread saw them"
                    .into(),
            );
        }
    } else {
        let what = if snapshots.is_empty() { "memory and the program's output" } else { "the program's output" };
        missing.push(format!("{what}, since nothing was replayed"));
    }
    if snapshots.omitted() > 0 {
        let omitted = snapshots.omitted();
        missing.push(format!("{omitted} bytes of memory at the end, of which record --snapshot=LIMIT keeps more"));
    }
    let frames = match frames {
        Some(frames) => frames,
        None => stacks.look(thread, &end.regs, &mut snapshots.clone())?,
    };
    let mut waiting = locks::waiting(&frames, thread, &stacks);
    for waiting in waiting.iter_mut().chain(others.iter_mut().filter_map(|other| other.waiting.as_mut())) {
        waiting.holder = stacks.holders.get(&waiting.address).copied();
    }
    let instruction = instruction::at(&end.regs, &code, end.code_seq);
    // What was executed there before cannot be any more, as where its library was closed.
    let instruction = instruction.filter(|instruction| !instruction.is_refused(&end.signal));
    if let (None, Some(tools)) = (&instruction, tools) {
        match jump::last_instructions(tools, log, id, end.position, end.code_seq, &mut stacks.symbols) {
            Ok(executed) => before = executed,
            Err(error) => missing.push(format!("the last instructions: {error}")),
        }
    }
    let own = log.processes()?.into_iter().find(|(id, _)| *id == thread.pid).and_then(|(_, info)| info);
    let program = own.as_ref().map_or_else(|| log.meta().program.clone(), |info| info.program.clone());
    let command = own.map_or_else(|| log.meta().args.clone(), |info| info.args);
    let own = own::first(&frames, &program);
    let source = own.as_ref().and_then(|own| source::around(own, &frames, &mut stacks.symbols));
    let facts = headline::Facts {
        signal: &end.signal,
        instruction: instruction.as_ref(),
        regs: &end.regs,
        stack_before: end.stack_before,
        backtrace: &frames,
    };
    Ok(Some(CrashReport {
        headline: headline::headline(&facts),
        command,
        thread,
        interval: end.interval,
        position: end.position,
        instructions: end.instructions,
        signal: end.signal,
        instruction,
        registers: end.regs,
        backtrace: frames,
        own,
        source,
        before,
        waiting,
        calls: last_calls(log, thread, id.interval, limits.calls)?,
        others,
        output,
        missing,
    }))
}

/// How a thread's last interval ended, if by a signal.
struct End {
    interval: IntervalNo,
    position: Position,
    instructions: u64,
    signal: Signal,
    regs: RegisterFile,
    /// The stack pointer at the interval's start.
    stack_before: u64,
    code_seq: bugnet_format::types::CodeSeq,
}

impl End {
    fn of(log: &Log, thread: ThreadId) -> Result<Option<Self>> {
        let Some(&interval) = log.intervals(thread)?.last() else { return Ok(None) };
        let read = log.interval(IntervalId { thread, interval })?;
        let Some(placed) = read.records().flatten().last() else { return Ok(None) };
        let Record::End { reason: EndReason::Signal { signo, code, addr }, regs, .. } = placed.record else {
            return Ok(None);
        };
        let number = signo.cast_signed();
        let (code_name, meaning) = signal::meaning(number, code).unzip();
        let address = signal::has_address(number, code).then_some(addr.0);
        Ok(Some(Self {
            interval,
            position: placed.position,
            instructions: read.header.instructions_before.saturating_add(placed.position.0),
            signal: Signal { number, name: signal::name(number), code, code_name, meaning, address },
            regs: *regs,
            stack_before: stack_at_start(&read),
            code_seq: instruction::code_seq_at_end(&read),
        }))
    }
}

fn stack_at_start(interval: &Interval) -> u64 {
    match interval.records().flatten().next().map(|placed| placed.record) {
        Some(Record::Checkpoint { regs, .. }) => regs.gpr[RSP],
        _ => 0,
    }
}

/// The last interval of a thread at its end, which is that of its process.
fn replay_to_end(tools: &Tools, log: &Log, id: IntervalId, is_tracked: bool, snapshots: &Snapshots) -> Result<Session> {
    let mut session = Session::open(tools, log, id)?;
    session.know(snapshots.clone());
    if is_tracked {
        session.track()?;
    }
    match session.run_to_end()? {
        Stop::End => Ok(session),
        Stop::Divergence { what, .. } => Err(session.diverged(what)),
        _ => Err(session.diverged("it stops before the recorded end".into())),
    }
}

fn join(pieces: Vec<Piece>) -> Vec<Output> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if last.stream == piece.stream => last.bytes.extend(piece.bytes),
            _ => joined.push(piece),
        }
    }
    let text = |piece: Piece| Output { stream: piece.stream, text: String::from_utf8_lossy(&piece.bytes).into_owned() };
    joined.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests;
