//! Copies of the program's ELF files, made while it runs: they are there when it ends, whatever became of the originals.

use bugnet_format::folder::{Module, Recording};
use bugnet_format::types::ProcessId;
use bugnet_replay::symbols::pack_elf_below;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Least time between two looks for new files: most programs map theirs right away, and are over soon.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest time, where a look takes little: some programs delete a file as soon as they have mapped it.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);
/// So many times longer than a look takes is the pause behind it.
const REST: u32 = 20;
/// A pause takes this part of the time since the start: what is new becomes rare.
const RARER: u32 = 20;

/// A thread that copies; it stops when this is dropped.
pub struct Copying {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Copying {
    /// Begins, for the log in `folder`, which shares copies in the folder `shared` with others. The signals blocked now are blocked
    /// in the thread.
    pub fn start(folder: &Path, shared: Option<PathBuf>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, stopped) = (folder.to_owned(), Arc::clone(&stop));
        // Without a thread, all is copied in the end.
        let thread = thread::Builder::new().spawn(move || copy(&folder, shared.as_deref(), &stopped)).ok();
        Self { stop, thread }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // What it did not copy is copied in the end.
            let _ = thread.join();
        }
    }
}

/// Copies what is new, again and again.
fn copy(folder: &Path, shared: Option<&Path>, stop: &AtomicBool) {
    // No less urgent than the program: whoever waits for its end waits for the copies, too.
    let begun = Instant::now();
    let mut seen = HashSet::new();
    let mut pause = PAUSE;
    loop {
        thread::park_timeout(pause);
        if stop.load(Ordering::Relaxed) {
            // All that is left is copied in the end.
            return;
        }
        let start = own_time();
        // What cannot be read or copied now is told in the end.
        let found = modules(folder).unwrap_or_default();
        // What is new is copied once, but looked for again and again.
        pause = (begun.elapsed() / RARER).clamp(PAUSE, LONGEST_PAUSE).max((own_time() - start) * REST);
        for (process, module) in found {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if seen.insert((module.path.clone(), module.build_id.clone())) {
                // As the process sees it, which may have another root folder. It may have ended, too.
                let root = PathBuf::from(format!("/proc/{}/root", process.pid));
                let root = if root.exists() { root } else { PathBuf::from("/") };
                let _ = pack_elf_below(&root, folder, shared, from_ref(&module));
            }
        }
    }
}

/// What the calling thread has taken of a processor's time.
fn own_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// The files that the recorded processes have mapped so far, each with a process that has.
pub fn modules(log: &Path) -> bugnet_replay::Result<Vec<(ProcessId, Module)>> {
    let recording = Recording::open(log)?;
    let mut modules = Vec::new();
    for process in recording.processes()? {
        modules.extend(recording.modules(process)?.into_iter().map(|module| (process, module)));
    }
    Ok(modules)
}
