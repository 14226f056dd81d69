//! What all threads of the recorded process share.

use crate::by_rip;
use crate::claims::Claim;
use crate::code::Code;
use crate::code::needed::is_kept;
use crate::epochs::Epochs;
use crate::limits;
use crate::maps;
use crate::options::Options;
use crate::origin::{self, Beginning};
use crate::peer;
use crate::protections::Protections;
use crate::shadow::{Kind, Shadow, Steps};
use crate::shared_code::SharedMappings;
use crate::stack_move;
use crate::streams::Streams;
use crate::writer::Ended;
use bugnet_dr::sys;
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::record::OutputStream;
use bugnet_format::types::{Epoch, Pid, ProcessId, Tid};
use bugnet_handover::Handover;
use hashbrown::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The process.
pub struct Process {
    /// The client's options.
    pub options: Options,
    /// Process id, and which of its programs this is.
    pub id: ProcessId,
    /// The process's folder in the log; empty if it has none, because it could not be made.
    pub folder: PathBuf,
    /// What the folder says of the process.
    info: ProcessInfo,
    /// Whether it has a log.
    begun: AtomicBool,
    /// What DynamoRIO and the logger were started with, for programs that this one executes.
    pub beginning: Beginning,
    code: Mutex<Code>,
    checkpoints: AtomicU64,
    /// The logs of threads that have ended, if only the last epochs are kept.
    ended: Mutex<Vec<Ended>>,
    /// The epochs in which its threads have their intervals.
    pub epochs: Epochs,
    /// How many threads had an id so far.
    thread_ids: Mutex<HashMap<u32, u32>>,
    /// Whether the program's first instruction is still to come.
    new_program: AtomicBool,
    /// Whether there is, or was, more than one thread: blocks then have what threads need.
    threaded: AtomicBool,
    /// Where frames are handed over to be compressed.
    handover: Option<Handover>,
    /// Whether the program may forbid the system calls that this takes.
    restricted: AtomicBool,
    /// Whether nothing is recorded any more.
    over: AtomicBool,
    /// Whether a thread ends the process.
    exiting: AtomicBool,
    /// Whether one keeps its memory.
    kept: AtomicBool,
    /// Why.
    why_over: OnceLock<String>,
    /// Descriptors that refer to the original standard output or error.
    streams: Mutex<Streams>,
    /// Whether blocks expect a shadow at a distance, with the FS base as distance.
    by_fs: AtomicBool,
    /// Whether the initial stack is moved before the program's first instruction.
    stack_moves: AtomicBool,
    /// What the program may do with its code.
    pub protections: Protections,
    /// Mappings in which code may change without a store to its address.
    pub shared: SharedMappings,
}

/// The process; a forked child replaces what it has of its parent. Never freed.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

fn set(process: Process) {
    PROCESS.store(Box::into_raw(Box::new(process)), Ordering::SeqCst);
}

/// The calling process's id, which in a child of `vfork` is not that of [`get`].
pub fn current_pid() -> u32 {
    // Asks the system, and not DynamoRIO, which remembers.
    std::process::id()
}

/// Sets up the process's part of the log.
pub fn start(mut options: Options) {
    if let Some(soft) = options.stack_limit {
        stack_move::limit(soft);
    }
    let beginning = Beginning::of_this_process();
    beginning.name_process();
    limits::start(&beginning.limits);
    let info = beginning.describe(beginning.origin);
    let streams = beginning.streams.clone();
    // It is gone once bugnet is.
    let handover = Handover::open(&options.log).ok();
    let (mut id, mut folder) = (ProcessId { pid: Pid(current_pid()), program: 0 }, PathBuf::new());
    let code = origin::make_folder(&options.log, id.pid.0, &info).and_then(|made| {
        (id, folder) = made;
        Code::create(&folder, options.keep)
    });
    let why_over = OnceLock::new();
    let code = code.unwrap_or_else(|why| {
        crate::warn(&format!("{} (process {}) is not recorded: {why}", info.program, id.pid));
        if folder.as_os_str().is_empty() {
            // Nor are those that it starts: nothing could say what they come from.
            options.follow = false;
        } else {
            origin::mark_unrecorded(&folder, &info, &why);
        }
        let _ = why_over.set(why);
        Code::closed()
    });
    set(Process {
        options,
        id,
        folder,
        info,
        begun: AtomicBool::new(false),
        beginning,
        code: Mutex::new(code),
        checkpoints: AtomicU64::new(0),
        ended: Mutex::default(),
        epochs: Epochs::default(),
        thread_ids: Mutex::default(),
        new_program: AtomicBool::new(true),
        threaded: AtomicBool::new(false),
        handover,
        restricted: AtomicBool::new(false),
        over: AtomicBool::new(why_over.get().is_some()),
        exiting: AtomicBool::new(false),
        kept: AtomicBool::new(false),
        why_over,
        streams: Mutex::new(Streams::begin(&streams)),
        by_fs: AtomicBool::new(true),
        stack_moves: AtomicBool::new(false),
        protections: Protections::default(),
        shared: SharedMappings::default(),
    });
}

/// The process, once [`start`] has run.
pub fn get() -> &'static Process {
    let process = PROCESS.load(Ordering::Relaxed);
    // SAFETY: null or a structure that is never freed.
    unsafe { process.as_ref() }.unwrap_or_else(|| crate::die("the logger was not started"))
}

/// Throws all blocks away; they are built anew where they are wanted. In a pre-syscall event.
fn throw_blocks_away() {
    // SAFETY: no lock is held; the whole address space.
    unsafe { sys::dr_flush_region(std::ptr::null_mut(), usize::MAX) };
}

impl Process {
    /// The code picture.
    pub fn code(&self) -> MutexGuard<'_, Code> {
        self.code.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A second thread is about to be started, by the calling thread, which is in a system call: from here on, blocks
    /// have what threads need.
    pub fn become_threaded(&self) {
        if !self.threaded.swap(true, Ordering::SeqCst) {
            throw_blocks_away();
        }
    }

    /// A thread is about to be started, or a process that has the same memory, by the calling thread, which is in a system call:
    /// both execute blocks of this process.
    pub fn share_blocks(&self) {
        if by_rip::end() {
            throw_blocks_away();
        }
    }

    /// Which standard stream of the program's a descriptor refers to.
    pub fn stream(&self, fd: u64) -> OutputStream {
        self.streams().of(fd)
    }

    /// What descriptors refer to.
    pub fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Where frames are handed over to be compressed, if that is possible.
    pub fn handover(&self) -> Option<Handover> {
        self.handover.filter(|_| !self.restricted())
    }

    /// The program restricts its system calls: from here on each thread compresses what it writes.
    pub fn hand_nothing_over(&self) {
        self.restricted.store(true, Ordering::Relaxed);
    }

    /// Whether the program may forbid system calls.
    pub fn restricted(&self) -> bool {
        self.restricted.load(Ordering::Relaxed)
    }

    /// The calling thread ends the process: whether it is the one that keeps its memory, which is the first.
    pub fn takes_snapshot(&self) -> bool {
        !self.kept.swap(true, Ordering::SeqCst)
    }

    /// Whether there is, or was, more than one thread.
    pub fn threaded(&self) -> bool {
        self.threaded.load(Ordering::SeqCst)
    }

    /// Nothing of this process is recorded any more, for this reason, which the user is told.
    pub fn end(&self, why: &str) {
        if self.why_over.set(why.to_owned()).is_ok() {
            match self.begun.load(Ordering::SeqCst) {
                true => crate::warn(&format!("recording ends here: {why}")),
                false => {
                    crate::warn(&format!("{} (process {}) is not recorded: {why}", self.info.program, self.id.pid));
                    origin::mark_unrecorded(&self.folder, &self.info, why);
                }
            }
        }
        self.leave();
    }

    /// The calling thread, whose number this is, ends the process. DynamoRIO then waits until the other threads are where
    /// it can end them, which in instrumented code is rarely the case: they are led out of it at their next access to
    /// memory.
    pub fn exit(&self, me: peer::Index) {
        self.exiting.store(true, Ordering::SeqCst);
        peer::all().iter().filter(|peer| peer.index != me).for_each(|peer| peer.revoke());
    }

    /// Whether a thread ends the process.
    pub fn exiting(&self) -> bool {
        self.exiting.load(Ordering::SeqCst)
    }

    /// Why nothing is recorded any more.
    pub fn why_over(&self) -> String {
        self.why_over.get().cloned().unwrap_or_default()
    }

    /// Whether the program's first instruction is about to be executed: true once.
    pub fn takes_first_instruction(&self) -> bool {
        self.new_program.swap(false, Ordering::Relaxed)
    }

    /// Whether it has been.
    pub fn has_begun(&self) -> bool {
        !self.new_program.load(Ordering::Relaxed)
    }

    /// Nothing is recorded any more: blocks are built anew without checks, bit by bit.
    fn leave(&self) {
        if !self.over.swap(true, Ordering::SeqCst) {
            // SAFETY: may be asked for anywhere; the whole address space.
            unsafe { sys::dr_delay_flush_region(std::ptr::null_mut(), usize::MAX, 0, None) };
        }
    }

    /// A thread of it has a log.
    pub fn note_begun(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    /// Whether nothing is recorded any more.
    pub fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether blocks expect a shadow at a distance, with the FS base as distance.
    pub fn by_fs(&self) -> bool {
        self.by_fs.load(Ordering::Relaxed)
    }

    /// Finds room for the shadow of a thread that begins, or of a process that shares the program's memory.
    pub fn first_shadow(&self, foreign: bool) -> Shadow {
        if self.over() {
            return Shadow::none();
        }
        if self.threaded() && !foreign {
            return self.lazy_shadow(&[]).unwrap_or_else(|| self.no_room_for_thread());
        }
        if self.by_fs() {
            let steps = if self.has_begun() { Steps::Any } else { Steps::Wide };
            if let Some(shadow) = Shadow::at_distance(self.stack_moves(), steps, None, false) {
                return shadow;
            }
            if self.threaded() {
                return self.shadow_with_key();
            }
            if let Some(shadow) = Shadow::at_distance(true, Steps::Any, None, false) {
                self.stack_moves.store(true, Ordering::Relaxed);
                return shadow;
            }
            if self.has_begun() {
                self.end("there is no room for the shadow of a process that shares the program's memory");
                return Shadow::none();
            }
            // No block has been built yet.
            self.by_fs.store(false, Ordering::SeqCst);
        }
        self.shadow_with_key()
    }

    fn shadow_with_key(&self) -> Shadow {
        self.leave_fs();
        Shadow::with_key(None, false).unwrap_or_else(|| self.no_room_for_thread())
    }

    fn no_room_for_thread(&self) -> Shadow {
        self.end("there is no address space left for the shadow of another thread");
        Shadow::none()
    }

    /// Finds room for the shadow of a thread among others, which is going to access these ranges, and asks for the room of
    /// others before it accesses them.
    fn lazy_shadow(&self, needs: &[Range<u64>]) -> Option<Shadow> {
        if self.by_fs()
            && let Some(shadow) = Shadow::lazy(self.at_distance(), needs)
        {
            return Some(shadow);
        }
        self.leave_fs();
        Shadow::lazy(Kind::Key, needs)
    }

    fn at_distance(&self) -> Kind {
        Kind::Distance { stack_moves: self.stack_moves() }
    }

    /// Blocks that are built from now on expect no shadow at a distance. With threads, each of those that are there asks
    /// whether the thread has one, and is built anew if not; until then, it is right for those that have one.
    fn leave_fs(&self) {
        self.by_fs.store(false, Ordering::SeqCst);
    }

    /// The same, for a thread in a system call.
    fn leave_fs_in_call(&self) {
        if self.by_fs.swap(false, Ordering::SeqCst) && !self.threaded() {
            // SAFETY: in an event of a system call, with no lock held; the whole address space.
            unsafe { sys::dr_flush_region(std::ptr::null_mut(), usize::MAX) };
        }
    }

    /// The calling thread is about to start another one, which begins with this stack pointer, or, without one, a process that
    /// shares its memory, in a system call. If there is no room at a distance for the shadow of that, blocks expect none there any
    /// more.
    pub fn make_room_for_child(&self, stack: Option<u64>) {
        if !self.by_fs() {
            return;
        }
        let room = match stack {
            Some(stack) => {
                let last = stack.saturating_sub(1);
                Shadow::prepare(self.at_distance(), std::slice::from_ref(&(last..last + 1)))
            }
            None => {
                let shadow = Shadow::at_distance(self.stack_moves(), Steps::Any, None, false);
                shadow.inspect(|shadow| shadow.release()).is_some()
            }
        };
        if !room {
            self.leave_fs_in_call();
        }
    }

    /// Whether the initial stack is moved before the program's first instruction.
    pub fn stack_moves(&self) -> bool {
        self.stack_moves.load(Ordering::Relaxed)
    }

    /// Finds other room for a thread's shadow, also for when what is about to come is there, and for what the thread `needs`. None
    /// if there is no room. The thread is in a system call, or, if there are others, not going to return to its block of code.
    pub fn place_shadow(&self, coming: Option<&Claim>, needs: &[Range<u64>]) -> Option<Shadow> {
        if self.threaded() && coming.is_none() {
            return self.lazy_shadow(needs);
        }
        if self.by_fs()
            && let Some(shadow) = Shadow::at_distance(self.stack_moves(), Steps::Any, coming, self.threaded())
        {
            return Some(shadow);
        }
        self.leave_fs_in_call();
        Shadow::with_key(coming, self.threaded())
    }

    /// What the log calls the thread with this context of DynamoRIO's, which begins. Its id may be that of one that has ended.
    pub fn name_thread(&self, context: *mut c_void) -> Tid {
        // SAFETY: asks for a number.
        let id = unsafe { sys::dr_get_thread_id(context) } as u32;
        let mut ids = self.thread_ids.lock().unwrap_or_else(|e| e.into_inner());
        let threads = ids.entry(id).or_default();
        let tid = Tid::new(id, *threads);
        *threads += 1;
        drop(ids);
        tid.unwrap_or_else(|| {
            self.end(&format!("too many threads had the id {id} before this one"));
            Tid::default()
        })
    }

    fn ended(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.ended.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A thread has ended, of which there is this.
    pub fn keep_for_now(&self, ended: Ended) {
        if self.options.keep > 0 {
            self.ended().push(ended);
        }
    }

    /// An interval of this epoch has begun: takes away what there is of threads that ended before the epochs that are kept.
    pub fn remove_ended(&self, now: Epoch) {
        if self.options.keep > 0 {
            let old = |ended: &mut Ended| !is_kept(ended.epoch, self.options.keep, now);
            let old: Vec<Ended> = self.ended().extract_if(.., old).collect();
            old.into_iter().for_each(Ended::remove);
        }
    }

    /// Number of the next checkpoint, counted over all threads.
    pub fn next_checkpoint(&self) -> u64 {
        self.checkpoints.fetch_add(1, Ordering::Relaxed)
    }
}

/// The end of the accessible mapping that holds an address.
pub fn mapped_until(address: u64) -> Option<u64> {
    let region = maps::region_of(address)?;
    (region.protection & libc::PROT_READ != 0 && region.range.end > address).then_some(region.range.end)
}

/// A forked child goes on, with a log of its own. Returns whether it is recorded.
pub fn forked() -> bool {
    let parent = get();
    if !parent.options.follow {
        parent.code().abandon();
        parent.leave();
        return false;
    }
    let mut code = parent.code();
    // A child that is not recorded has no code.
    let code_pages = if parent.over() { 0 } else { code.seq().0 };
    let origin = Origin::Fork { from: parent.id, code_pages };
    let mut info: ProcessInfo = parent.beginning.describe(origin);
    if parent.over() {
        // The code cache holds blocks without checks.
        info.unrecorded = Some(format!("the recording of process {} had ended before it forked", parent.id));
    }
    let made = origin::make_folder(&parent.options.log, current_pid(), &info);
    let recorded = !parent.over();
    let made = made.and_then(|(id, folder)| {
        let code = if recorded { code.fork(&folder)? } else { Code::closed() };
        Ok((id, folder, code))
    });
    code.abandon();
    drop(code);
    let (id, folder, code) = match made {
        Ok(made) => made,
        Err(why) => {
            crate::warn(&format!("process {} is not recorded: {why}", current_pid()));
            parent.leave();
            return false;
        }
    };
    set(Process {
        options: parent.options.clone(),
        id,
        folder,
        info,
        begun: AtomicBool::new(false),
        beginning: parent.beginning.clone(),
        code: Mutex::new(code),
        checkpoints: AtomicU64::new(0),
        ended: Mutex::default(),
        epochs: Epochs::default(),
        thread_ids: Mutex::default(),
        new_program: AtomicBool::new(false),
        threaded: AtomicBool::new(parent.threaded()),
        handover: parent.handover,
        restricted: AtomicBool::new(parent.restricted.load(Ordering::Relaxed)),
        over: AtomicBool::new(!recorded),
        exiting: AtomicBool::new(false),
        kept: AtomicBool::new(false),
        why_over: parent.why_over.clone(),
        streams: Mutex::new(parent.streams().clone()),
        by_fs: AtomicBool::new(parent.by_fs()),
        stack_moves: AtomicBool::new(parent.stack_moves()),
        protections: parent.protections.fork(),
        shared: parent.shared.fork(),
    });
    recorded
}

/// The process exits.
pub fn finish() {
    get().code().close();
}
