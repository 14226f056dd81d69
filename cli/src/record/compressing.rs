//! Compresses the parts of light logs that are full, while the program goes on in the next ones.
//!
//! Nothing depends on it: what is not compressed is read as it is.

use bugnet_format::light::compress_full;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often somebody looks for them.
const PERIOD: Duration = Duration::from_millis(500);

/// A thread that does so; when this is dropped, it finishes what it has begun.
pub struct Compressing {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Compressing {
    /// Begins. The signals blocked now are blocked in the thread.
    pub fn start(log: &Path) -> Self {
        let (over, is_over) = mpsc::channel::<()>();
        let log: PathBuf = log.to_owned();
        let work = move || {
            while is_over.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // On a full disk, parts stay as they are.
                let _ = compress_full(&log);
            }
        };
        Self { over: Some(over), thread: thread::Builder::new().spawn(work).ok() }
    }
}

impl Drop for Compressing {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
