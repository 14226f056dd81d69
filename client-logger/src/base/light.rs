//! The light log that is expanded: where in it the process is. Not there where a program is recorded.
//!
//! An expansion executes the program's instructions again. What its calls gave, and what else came from outside, is in the light log; the kernel gets only what
//! makes memory.

use crate::base::choices::{self, Choice, Seen};
use crate::base::chosen;
use crate::base::descriptors::{How, OwnFile};
use crate::base::lock::{Mutex, MutexGuard};
use crate::base::process::OfProcess;
use crate::base::turns::{self, Born};
use crate::base::xsave;
use bugnet_dr::fragments;
use bugnet_format::light::{self, Call, End, FileKey, Header, LIGHT_FILES, LIGHT_FOLDER, Piece, Record, ThreadState};
use bugnet_format::regs::{RSP, RegisterFile};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static EXPANDS: AtomicBool = AtomicBool::new(false);
/// Whether the program's first instruction is to come.
static IS_TO_BEGIN: AtomicBool = AtomicBool::new(false);
/// Where a moment is, as long as it is next.
static MOMENT: AtomicU64 = AtomicU64::new(0);
/// The interval in which the moment has become next; none until it was asked for.
static SINCE: AtomicU64 = AtomicU64::new(u64::MAX);
/// Whether the log has nothing more of the process, which somebody has killed.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Whether a moment has become next since the thread last left the code cache.
static IS_NEW: AtomicBool = AtomicBool::new(false);
/// Whether something is to happen to the thread before the next block.
static DUE: AtomicBool = AtomicBool::new(false);

static LIGHT: OfProcess<Mutex<Light>> = OfProcess::none();
/// The folder of memory that processes share.
static MEMORY: OnceLock<PathBuf> = OnceLock::new();

/// What happens to the thread between two instructions.
pub enum Transfer {
    /// A signal is delivered.
    Delivery {
        /// Its number.
        number: u64,
        /// The registers of the handler's first instruction, in the light log's order.
        registers: [u64; 18],
        /// What is put on its stack.
        frame: (u64, Vec<u8>),
    },
    /// A handler returns: the frame is at this stack pointer.
    Return(u64),
    /// The parent of a child of `vfork` goes on with these registers.
    Resume(Box<RegisterFile>),
    /// It dies of this signal, which was sent in this way (`si_code`).
    Death(u64, i32),
    /// The log ends here, for this reason.
    End(&'static [u8]),
}

/// What comes next.
pub enum Next<'a> {
    /// A system call, and the file that it maps.
    Call(Call<'a>, Option<MappedFile>),
    /// An instruction's results.
    Special(u16, u64, [u64; 4]),
    /// A signal.
    Signal {
        /// Its number.
        number: u16,
        /// Whether the instruction at which the thread is has raised it.
        raised: bool,
        /// The registers of its handler's first instruction.
        registers: [u64; 18],
        /// What is put on its stack.
        frame: Piece<'a>,
    },
    /// The moment at which the next signal is delivered, or the turn passes on: what is looked for, [`Light::sought`].
    Moment,
    /// Another thread goes on.
    Turn,
    /// The log's end.
    End(End<'a>),
    /// Nothing: the process was killed.
    Nothing,
}

/// A file that a call maps.
#[derive(Clone, Copy)]
pub struct MappedFile {
    /// The log's name of it.
    pub key: FileKey,
    /// What tells its memory from other one, in all processes that have it; none where it is the process's alone.
    pub memory: Option<u64>,
}

/// A moment that is looked for.
pub struct Sought {
    /// R8 to R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP, RIP, flags.
    pub registers: [u64; 18],
    /// Addresses of lines of memory, and digests of what they had.
    pub lines: Vec<(u64, u32)>,
    /// What expansions before this one have shown.
    pub choice: Choice,
}

/// A light log.
pub struct Light {
    /// What its header says.
    pub header: Header,
    /// The program's path, name and arguments.
    pub program: Vec<String>,
    /// What descriptors are standard output and error at its start.
    pub streams: String,
    /// State components that XGETBV tells of.
    pub components: u64,
    /// The break, and where it was at the start.
    pub heap: (u64, u64),
    path: PathBuf,
    bytes: &'static [u8],
    /// Where the next record is.
    at: usize,
    transfer: Option<Transfer>,
    /// The moment that is next.
    pub sought: Option<Sought>,
    /// What was seen of moments.
    pub seen: Seen,
    /// Registers of those whose memory a child of `vfork` has.
    pub lent: Vec<RegisterFile>,
    /// Paths of mapped files by their names in the log.
    paths: HashMap<String, String>,
    /// Memory that is there at the start.
    pub regions: Vec<Range<u64>>,
    /// The program and its interpreter, where they lie; from an epoch on, all files that are mapped.
    pub modules: Vec<(String, Range<u64>)>,
    /// Threads that are to begin where an epoch does, by their ids, the one first that goes on; and the number of its turn.
    threads: VecDeque<(u32, Born)>,
    turn: u32,
}

/// Whether a light log is expanded.
pub fn expands() -> bool {
    EXPANDS.load(Ordering::Relaxed)
}

/// The processor's numbers of the registers in a light log's order, up to RSP.
pub const ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4];
/// The light log, if one is expanded.
pub fn of_process() -> Option<MutexGuard<'static, Light>> {
    expands().then(|| LIGHT.get().lock())
}

/// Where the program lies that makes the memory again (`capture/build.rs`), and nothing of the recorded one's.
const MAKER: Range<u64> = 0x1100_0000_0000..0x1101_0000_0000;

/// Whether code at this address is not the program's, but that of what makes its memory again. The first code that is not begins the program.
pub fn comes_before(pc: u64) -> bool {
    let is_makers = expands() && MAKER.contains(&pc);
    if !is_makers {
        IS_TO_BEGIN.store(false, Ordering::Relaxed);
    }
    is_makers
}

/// Whether the program's first instruction is to come.
pub fn is_to_begin() -> bool {
    IS_TO_BEGIN.load(Ordering::Relaxed)
}

/// Where the next moment is; none where another thing is next.
pub fn moment() -> Option<u64> {
    Some(MOMENT.load(Ordering::Relaxed)).filter(|at| *at != 0)
}

/// How many intervals have begun since a moment, or nothing, has become next, in this one.
pub fn intervals_since(now: u64) -> u64 {
    let _ = SINCE.compare_exchange(u64::MAX, now, Ordering::Relaxed, Ordering::Relaxed);
    now.saturating_sub(SINCE.load(Ordering::Relaxed))
}

/// Whether the log has nothing more.
pub fn is_over() -> bool {
    IS_OVER.load(Ordering::Relaxed)
}

/// The general purpose registers of the next moment, by the processor's numbers.
pub fn moment_registers() -> [u64; 16] {
    let mut found = [0; 16];
    if let Some(sought) = of_process().as_ref().and_then(|light| light.sought.as_ref()) {
        ORDER.into_iter().zip(sought.registers).for_each(|(number, value)| found[number] = value);
    }
    found
}

/// Whether the thread has to leave the code cache, so that blocks are made anew for a moment: once.
pub fn leaves_for_moment() -> bool {
    IS_NEW.swap(false, Ordering::Relaxed)
}

/// Blocks at the next moment's address are built anew.
pub fn flush_moment() {
    if let Some(at) = moment() {
        fragments::flush_later(at, 1);
    }
}

/// The moment is over.
pub fn moment_over() {
    let at = MOMENT.swap(0, Ordering::Relaxed);
    fragments::flush_later(at, 1);
}

/// Whether something happens to the thread before the next block, which is then to be asked for.
pub fn is_due() -> bool {
    DUE.swap(false, Ordering::Relaxed)
}

/// The folder of memory that processes share, of which one is that whose light log this is.
fn of_memory(light: &Path) -> PathBuf {
    let mut folder = light.as_os_str().to_owned();
    folder.push(light::layout::GROUP_MEMORY);
    folder.into()
}

/// The folder of memory that this process, or those that it was forked from, share with others.
pub fn folder_of_memory() -> &'static Path {
    MEMORY.get().map_or(Path::new(""), PathBuf::as_path)
}

/// A light log is expanded in this process.
///
/// # Errors
/// A sentence.
pub fn start(path: &Path) -> Result<(), String> {
    let mut light = Light::open(path)?;
    let first = light.threads.pop_front();
    let tid = first.as_ref().map_or(light.header.process.pid.0, |(tid, _)| *tid);
    let memory = of_memory(path);
    // If others begin with the process.
    let together = Some(memory.join(light::layout::TURNS)).filter(|path| path.exists());
    let _ = MEMORY.set(memory);
    let together = together.map(|path| File::options().read(true).write(true).open(path)).transpose();
    let together = together.map_err(|e| format!("the order of turns of processes that begin together: {e}"))?;
    turns::begin(tid, light.turn, together.as_ref())?;
    if let Some((tid, born)) = first {
        turns::announce_birth(tid, born);
    }
    light.arm();
    LIGHT.set(Mutex::new(light));
    IS_TO_BEGIN.store(true, Ordering::Relaxed);
    EXPANDS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether a signal is delivered behind the call that is next.
pub fn is_signal_next() -> bool {
    let Some(light) = of_process() else { return false };
    let behind = light::record(light.bytes, light.at).ok().flatten();
    let next = behind.and_then(|(_, at)| light::record(light.bytes, at).ok().flatten());
    matches!(next, Some((Record::Signal { .. } | Record::End(End::Killed { .. } | End::DiesInCall { .. }), _)))
}

/// A forked child goes on with its own light log; `false` where there is none.
pub fn forked() -> bool {
    let Some(parent) = of_process() else { return true };
    let (child, lent) = (parent.child(), parent.heap);
    drop(parent);
    let Some(mut child) = child else { return false };
    child.heap = lent;
    if matches!(child.next(), Ok(Next::Turn)) {
        // It shares memory with its parent, whose turn it is.
        turns::wait_as(child.header.process.pid.0);
    } else if turns::begin(child.header.process.pid.0, 0, None).is_err() {
        return false;
    }
    IS_OVER.store(false, Ordering::Relaxed);
    turns::set_forks(false);
    LIGHT.set(Mutex::new(child));
    true
}

/// The next one of the threads that are there where an epoch begins is about to be made: its stack pointer.
pub fn announce_thread() -> Option<u64> {
    let (tid, born) = of_process()?.threads.pop_front()?;
    let stack = match &born {
        Born::AtEpoch(registers, _) => registers.gpr[RSP],
        Born::Behind(registers) => registers[RSP],
    };
    turns::announce_birth(tid, born);
    Some(stack)
}

/// Whether it begins at an epoch.
pub fn begins_at_epoch() -> bool {
    of_process().is_some_and(|light| light.header.part > 0)
}

/// The number of the first intervals in an epoch of a light log, by the part that begins it: more than those of the epoch before have, as long as these are not more than that.
pub fn first_interval(part: u64) -> u64 {
    part.saturating_mul(light::layout::INTERVALS)
}

/// The part with which the process's log begins.
pub fn first_part() -> u64 {
    of_process().map_or(0, |light| light.header.part)
}

/// What a thread has in its registers where an epoch begins.
fn registers(thread: &ThreadState) -> RegisterFile {
    let mut regs = RegisterFile { fs_base: thread.fs, gs_base: thread.gs, ..RegisterFile::default() };
    ORDER.into_iter().zip(thread.registers).for_each(|(number, value)| regs.gpr[number] = value);
    [regs.rip, regs.rflags] = [16, 17].map(|at| thread.registers[at]);
    xsave::unpack(thread.state, &mut regs);
    regs
}

impl Light {
    fn open(path: &Path) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let file = OwnFile::open(path, How::Read).map_err(|e| wrong(&e))?;
        let mut file: &File = &file;
        let mut bytes = vec![0; light::layout::HEADER];
        file.read_exact(&mut bytes).map_err(|e| wrong(&e))?;
        let len = file.metadata().map_err(|e| wrong(&e))?.len();
        let header = Header::read(&bytes, len).map_err(|e| wrong(&e))?;
        // What is behind that, nobody has written.
        file.take((header.used - bytes.len()) as u64).read_to_end(&mut bytes).map_err(|e| wrong(&e))?;
        if bytes.len() < header.used {
            return Err(wrong(&"the light log is cut off"));
        }
        // As long as the process.
        let bytes: &'static [u8] = bytes.leak();
        let mut light = Self {
            header,
            program: Vec::new(),
            streams: String::new(),
            components: 0,
            heap: (0, 0),
            path: path.to_owned(),
            bytes: &bytes[..header.used],
            at: light::layout::HEADER,
            transfer: None,
            sought: None,
            seen: Seen::default(),
            lent: Vec::new(),
            paths: HashMap::new(),
            regions: Vec::new(),
            modules: Vec::new(),
            threads: VecDeque::new(),
            turn: 0,
        };
        if header.how != light::How::Forked || header.part > 0 {
            light.read_start()?;
        }
        if header.part > 0 {
            light.read_epoch()?;
        }
        Ok(light)
    }

    fn record(&self) -> Result<Option<(Record<'static>, usize)>, String> {
        light::record(self.bytes, self.at).map_err(|e| format!("{}: {e}", self.path.display()))
    }

    fn take(&mut self) -> Result<Option<Record<'static>>, String> {
        Ok(self.record()?.map(|(record, next)| {
            self.at = next;
            record
        }))
    }

    /// The part with which an epoch begins, if one does before what comes next: that is next from here on.
    pub fn begin_epoch(&mut self) -> Option<u64> {
        let mut begun = None;
        while let Ok(Some((record, next))) = self.record() {
            match record {
                Record::Epoch { part, .. } => begun = Some(part),
                Record::Thread(_) => {}
                _ => break,
            }
            self.at = next;
        }
        if begun.is_some() {
            self.arm();
        }
        begun
    }

    /// Where it is in the whole log.
    fn offset(&self) -> usize {
        self.at.wrapping_add(self.header.before)
    }

    /// Begins at an epoch.
    fn read_epoch(&mut self) -> Result<(), String> {
        while let Some((record, next)) = self.record()? {
            match record {
                Record::Epoch { heap, turn, streams, .. } => {
                    (self.heap.1, self.turn) = (heap, turn);
                    self.streams = String::from_utf8_lossy(streams).into_owned();
                }
                Record::Thread(thread) => {
                    let born = Born::AtEpoch(Box::new(registers(&thread)), thread.is_new);
                    self.threads.push_back((thread.thread, born));
                }
                _ => break,
            }
            self.at = next;
        }
        if self.threads.is_empty() {
            return Err(format!("{}: the light log does not say what threads there are", self.path.display()));
        }
        self.regions.clear();
        self.modules.clear();
        let mut list = self.path.as_os_str().to_owned();
        list.push(light::layout::SNAPSHOT);
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", Path::new(&list).display());
        let file = OwnFile::open(Path::new(&list), How::Read).map_err(|e| wrong(&e))?;
        let mut bytes = Vec::new();
        let mut from: &File = &file;
        from.read_to_end(&mut bytes).map_err(|e| wrong(&e))?;
        for region in light::regions(&bytes).map_err(|e| wrong(&e))? {
            if let Some((key, path)) = region.file {
                self.add_module(path.clone(), &region.range);
                self.paths.insert(key.name(), path);
            }
            chosen::maps(region.range.clone());
            self.regions.push(region.range);
        }
        Ok(())
    }

    fn read_start(&mut self) -> Result<(), String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        while let Some((record, next)) = self.record()? {
            self.at = next;
            match record {
                Record::Program(texts) => self.program = texts.into_iter().map(text).collect(),
                Record::Map { address, len, file } => {
                    let region = address..address.saturating_add(len);
                    if let Some((key, path)) = file {
                        self.paths.insert(key.name(), text(path));
                        self.add_module(text(path), &region);
                    }
                    self.regions.push(region);
                }
                Record::Start { heap, components, streams, .. } => {
                    self.heap = (heap, heap);
                    self.components = components;
                    self.streams = text(streams);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(format!("{}: the light log has no start", self.path.display()))
    }

    /// A part of a file is mapped there.
    fn add_module(&mut self, path: String, region: &Range<u64>) {
        match self.modules.last_mut() {
            Some((known, range)) if *known == path => range.end = range.end.max(region.end),
            _ => self.modules.push((path, region.clone())),
        }
    }

    /// The log of the child that the call at the last record has made.
    fn child(&self) -> Option<Self> {
        let (record, _) = light::record(self.bytes, self.at).ok()??;
        let Record::Call(Call { result, .. }) = record else { return None };
        let folder = self.path.parent()?;
        for program in 0.. {
            let path = folder.join(format!("p{result}.{program}"));
            if !path.exists() {
                return None;
            }
            let Ok(mut child) = Self::open(&path) else { continue };
            let header = &child.header;
            if header.how == light::How::Forked
                && header.part == 0
                && header.from == self.header.process
                && header.call == self.offset() as u32
            {
                child.program.clone_from(&self.program);
                child.streams.clone_from(&self.streams);
                child.components = self.components;
                child.lent.clone_from(&self.lent);
                child.paths.clone_from(&self.paths);
                return Some(child);
            }
        }
        None
    }

    /// What comes next, which stays there until [`Self::pass`].
    pub fn next(&mut self) -> Result<Next<'static>, String> {
        let mut at = self.at;
        let mut file = None;
        loop {
            let found = light::record(self.bytes, at).map_err(|e| format!("{}: {e}", self.path.display()))?;
            let Some((record, next)) = found else { return Ok(Next::Nothing) };
            match record {
                Record::File { key, memory, path } => {
                    self.paths.insert(key.name(), String::from_utf8_lossy(path).into_owned());
                    file = Some(MappedFile { key, memory: (memory != 0).then_some(memory) });
                    at = next;
                    continue;
                }
                Record::Call(call) => return Ok(Next::Call(call, file)),
                Record::Special { kind, at, values } => return Ok(Next::Special(kind, at, values)),
                Record::Signal { number, raised, registers, frame } => {
                    return Ok(Next::Signal { number, raised, registers, frame });
                }
                Record::Moment { .. } => return Ok(Next::Moment),
                Record::Turn { .. } => return Ok(Next::Turn),
                Record::End(end) => return Ok(Next::End(end)),
                Record::Epoch { .. } | Record::Thread(_) => at = next,
                Record::Program(_) | Record::Map { .. } | Record::Start { .. } => {
                    return Err(format!("{}: the program begins twice", self.path.display()));
                }
            }
        }
    }

    /// Goes on behind what [`Self::next`] has shown.
    pub fn pass(&mut self) -> Result<(), String> {
        let mut turn = None;
        while let Some(record) = self.take()? {
            if let Record::Turn { thread, number } = record {
                turn = Some((thread, number));
            }
            if !matches!(record, Record::File { .. }) {
                break;
            }
        }
        self.arm();
        if let Some((thread, number)) = turn {
            turns::give(thread, number);
        }
        Ok(())
    }

    /// If a moment is next: code at its address asks whether it is there.
    fn arm(&mut self) {
        match light::record(self.bytes, self.at) {
            Ok(None) => {
                SINCE.store(u64::MAX, Ordering::Relaxed);
                IS_OVER.store(true, Ordering::Relaxed);
            }
            Ok(Some((Record::Moment { registers, lines }, _))) => {
                let choice = choices::of(self.header.process, self.seen.found.len());
                self.sought = Some(Sought { registers, lines, choice });
                let at = registers[16];
                MOMENT.store(at, Ordering::Relaxed);
                IS_NEW.store(true, Ordering::Relaxed);
                SINCE.store(u64::MAX, Ordering::Relaxed);
                fragments::flush_later(at, 1);
            }
            _ => {}
        }
    }

    /// What was seen of moments, for another expansion: this one does not fit.
    pub fn tell_seen(&mut self) {
        let (process, missed) = (self.header.process, self.sought.is_some());
        self.seen.tell(process, missed);
    }

    /// Where in the log the process is, for messages, which others read where this one's path is gone.
    pub fn place(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        format!("byte {} of {LIGHT_FOLDER}/{}", self.offset(), name.display())
    }

    /// The folder of light logs.
    pub fn folder(&self) -> PathBuf {
        self.path.parent().map(Path::to_owned).unwrap_or_default()
    }

    /// The copy of a mapped file.
    pub fn file(&self, key: FileKey) -> PathBuf {
        self.path.with_file_name(LIGHT_FILES).join(key.name())
    }

    /// The path that a copy has come from.
    pub fn origin(&self, copy: &str) -> Option<&String> {
        self.paths.get(copy.rsplit('/').next()?)
    }

    /// Sees to what happens to the thread before its next block; whether anything does.
    pub fn look_ahead(&mut self) -> bool {
        match self.next() {
            Ok(Next::Signal { number, raised: false, registers, frame }) => {
                let frame = (frame.address, frame.bytes.to_vec());
                let _ = self.pass();
                self.set_transfer(Transfer::Delivery { number: number.into(), registers, frame });
                true
            }
            Ok(Next::End(End::Killed { signal, code })) => {
                self.set_transfer(Transfer::Death(signal, code));
                true
            }
            Ok(Next::End(End::GoesOn { why, is_lost: true })) => {
                self.set_transfer(Transfer::End(why));
                true
            }
            _ => moment().is_some(),
        }
    }

    /// Before the next block, this happens.
    pub fn set_transfer(&mut self, transfer: Transfer) {
        self.transfer = Some(transfer);
        DUE.store(true, Ordering::Relaxed);
    }

    /// What is to happen.
    pub fn take_transfer(&mut self) -> Option<Transfer> {
        self.transfer.take()
    }

    /// Where the break is from here on.
    pub fn set_break(&mut self, now: u64) {
        self.heap.1 = now;
    }
}
