//! What all threads of the recorded process share.

use crate::code::Code;
use crate::coherence;
use crate::options::Options;
use crate::shared_code::SharedMappings;
use bugnet_dr::sys;
use bugnet_format::folder;
use bugnet_format::record::OutputStream;
use bugnet_format::types::{Addr, Pid};
use hashbrown::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The process.
pub struct Process {
    /// The client's options.
    pub options: Options,
    /// Process id.
    pub pid: Pid,
    /// The process's folder in the log.
    pub folder: PathBuf,
    code: Mutex<Code>,
    checkpoints: AtomicU64,
    /// Whether there is, or was, more than one thread: blocks then have what threads need.
    threaded: AtomicBool,
    /// Whether nothing is recorded any more.
    over: AtomicBool,
    /// Why.
    why_over: OnceLock<String>,
    /// Descriptors that refer to the original standard output or error.
    streams: Mutex<HashMap<u64, OutputStream>>,
    /// Signals with a handler of the program's: bit `n` for signal `n`.
    pub handled: AtomicU64,
    /// Signals that the program ignores.
    pub ignored: AtomicU64,
    /// Pages of code, and whether the program can write to them; asking the system takes long.
    writable: Mutex<HashMap<u64, bool>>,
    /// Mappings in which code may change without a store to its address.
    pub shared: SharedMappings,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// Sets up the process's part of the log.
pub fn start(options: Options) {
    // SAFETY: asks for a number.
    let pid = Pid(unsafe { sys::dr_get_process_id() } as u32);
    let folder = options.log.join(folder::process_folder(pid));
    if let Err(e) = std::fs::create_dir_all(&folder) {
        crate::die(&format!("cannot create {}: {e}", folder.display()));
    }
    let code = Mutex::new(Code::create(&folder));
    let process = Process {
        options,
        pid,
        folder,
        code,
        checkpoints: AtomicU64::new(0),
        threaded: AtomicBool::new(false),
        over: AtomicBool::new(false),
        why_over: OnceLock::new(),
        streams: Mutex::new([(1, OutputStream::Stdout), (2, OutputStream::Stderr)].into_iter().collect()),
        handled: AtomicU64::new(0),
        ignored: AtomicU64::new(0),
        writable: Mutex::default(),
        shared: SharedMappings::default(),
    };
    if PROCESS.set(process).is_err() {
        crate::die("the logger was started twice");
    }
}

/// The process, once [`start`] has run.
pub fn get() -> &'static Process {
    PROCESS.get().unwrap_or_else(|| crate::die("the logger was not started"))
}

impl Process {
    /// The code picture.
    pub fn code(&self) -> MutexGuard<'_, Code> {
        self.code.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A second thread is about to be started, by the calling thread, which is in a system call: from here on, blocks
    /// have what threads need.
    ///
    /// # Errors
    /// A sentence: the kernel lacks what is needed.
    pub fn become_threaded(&self) -> Result<(), String> {
        if !coherence::start() {
            return Err("threads cannot be recorded without the system call membarrier, which is refused here".into());
        }
        if !self.threaded.swap(true, Ordering::SeqCst) {
            // SAFETY: in a pre-syscall event, with no lock held; the whole address space.
            unsafe { sys::dr_flush_region(std::ptr::null_mut(), usize::MAX) };
        }
        Ok(())
    }

    /// Which standard stream of the program's a descriptor refers to.
    pub fn stream(&self, fd: u64) -> OutputStream {
        self.streams().get(&(fd & 0xffff_ffff)).copied().unwrap_or(OutputStream::None)
    }

    /// What descriptors refer to.
    pub fn streams(&self) -> MutexGuard<'_, HashMap<u64, OutputStream>> {
        self.streams.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether there is, or was, more than one thread.
    pub fn threaded(&self) -> bool {
        self.threaded.load(Ordering::SeqCst)
    }

    /// Nothing of this process is recorded any more, for this reason, which the user is told.
    pub fn end(&self, why: &str) {
        if self.why_over.set(why.to_owned()).is_ok() {
            crate::warn(&format!("recording ends here: {why}"));
        }
        self.leave();
    }

    /// Why nothing is recorded any more.
    pub fn why_over(&self) -> String {
        self.why_over.get().cloned().unwrap_or_default()
    }

    /// Nothing is recorded any more: blocks are built anew without instrumentation, bit by bit.
    fn leave(&self) {
        if !self.over.swap(true, Ordering::SeqCst) {
            // SAFETY: may be asked for anywhere; the whole address space.
            unsafe { sys::dr_delay_flush_region(std::ptr::null_mut(), usize::MAX, 0, None) };
        }
    }

    /// Whether nothing is recorded any more.
    pub fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn writable_pages(&self) -> MutexGuard<'_, HashMap<u64, bool>> {
        self.writable.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether the program can write to the page of an address.
    pub fn writable(&self, address: u64) -> bool {
        *self.writable_pages().entry(Addr(address).page().0).or_insert_with(|| {
            let (mut base, mut size, mut protection) = (std::ptr::null_mut(), 0, 0);
            // SAFETY: pointers to variables of ours.
            let known = unsafe {
                sys::dr_query_memory(address as *const u8, &raw mut base, &raw mut size, &raw mut protection)
            };
            known != 0 && protection & (sys::DR_MEMPROT_WRITE | sys::DR_MEMPROT_PRETEND_WRITE) != 0
        })
    }

    /// The program has mapped, unmapped or protected memory.
    pub fn forget_writable(&self) {
        self.writable_pages().clear();
    }

    /// Whether no thread has made a checkpoint yet.
    pub fn is_first_checkpoint(&self) -> bool {
        self.checkpoints.load(Ordering::Relaxed) == 0
    }

    /// Number of the next checkpoint, counted over all threads.
    pub fn next_checkpoint(&self) -> u64 {
        self.checkpoints.fetch_add(1, Ordering::Relaxed)
    }
}

/// The end of the accessible mapping that holds an address.
pub fn mapped_until(address: u64) -> Option<u64> {
    let (mut base, mut size, mut protection) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: pointers to variables of ours.
    let known =
        unsafe { sys::dr_query_memory(address as *const u8, &raw mut base, &raw mut size, &raw mut protection) };
    let end = base as u64 + size as u64;
    (known != 0 && protection & sys::DR_MEMPROT_READ != 0 && end > address).then_some(end)
}

/// A forked child goes on: the log is the parent's, and the child is not recorded.
pub fn forked() {
    get().code().close();
    get().leave();
}

/// The process exits.
pub fn finish() {
    get().code().close();
}
