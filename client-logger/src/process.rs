//! What all threads of the recorded process share.

use crate::code::Code;
use crate::options::Options;
use bugnet_dr::sys;
use bugnet_format::folder;
use bugnet_format::types::Pid;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
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
    let process = Process { options, pid, folder, code, checkpoints: AtomicU64::new(0) };
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

    /// Number of the next checkpoint, counted over all threads.
    pub fn next_checkpoint(&self) -> u64 {
        self.checkpoints.fetch_add(1, Ordering::Relaxed)
    }
}

/// The process exits.
pub fn finish() {
    get().code().close();
}
