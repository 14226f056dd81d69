//! The files of light logs while the program runs: parts that are full are compressed; and where not all is kept, an epoch begins every few seconds, and what
//! came before those that are kept goes.
//!
//! Nothing depends on it: what is not compressed is read as it is, and without this, no epoch begins, and all is kept.

use super::kept::Kept;
use crate::failure::complain;
use bugnet_format::light::layout::CLOCK;
use bugnet_format::light::{LIGHT_FOLDER, Ring, compress_full, is_written};
use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often somebody looks for what there is to do.
const PERIOD: Duration = Duration::from_millis(500);
/// How long an epoch's memory may take to be written when the program is over.
const PATIENCE: Duration = Duration::from_secs(20);

/// Epochs, and how many of them are kept.
struct Epochs {
    kept: Kept,
    every: Duration,
    clock: File,
    ring: Ring,
    began: Instant,
    count: u32,
    /// Whether it was said that nothing can be dropped.
    is_told: bool,
}

impl Epochs {
    fn pass(&mut self, log: &Path) {
        if self.began.elapsed() < self.every {
            return;
        }
        self.began = Instant::now();
        self.count = self.count.wrapping_add(1);
        // On a full disk, everything stays as it is.
        let _ = self.clock.write_all_at(&self.count.to_le_bytes(), 0);
        self.drop_old(log);
    }

    fn drop_old(&mut self, log: &Path) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begins = |time: Duration| now.saturating_sub(time).as_nanos() as u64;
        let (count, time) = match self.kept {
            Kept::Last(count) => (count, self.every.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))),
            Kept::For(time) => (1, time),
        };
        let dropped = self.ring.drop_old(log, usize::try_from(count).unwrap_or(usize::MAX), begins(time));
        // Once: it is tried again as long as the program runs.
        if let Err(error) = dropped
            && !std::mem::replace(&mut self.is_told, true)
        {
            complain(&format_args!("what came before --keep cannot be dropped: {error}"));
        }
    }
}

/// A thread that sees to that; when this is dropped, it finishes what it has begun.
pub struct Keeping {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeping {
    /// Begins, before the program does. The signals blocked now are blocked in the thread.
    ///
    /// # Errors
    /// The clock of epochs cannot be made.
    pub fn start(log: &Path, kept: Kept) -> std::io::Result<Self> {
        let epochs = |every: Duration| {
            let clock = File::create_new(log.join(LIGHT_FOLDER).join(CLOCK))?;
            // Programs map a page of it, also those that have become other users.
            clock.set_len(4096)?;
            clock.set_permissions(Permissions::from_mode(0o644))?;
            Ok::<_, std::io::Error>(Epochs {
                kept,
                every,
                clock,
                ring: Ring::default(),
                began: Instant::now(),
                count: 0,
                is_told: false,
            })
        };
        let mut epochs = kept.epoch().map(epochs).transpose()?;
        let (over, is_over) = mpsc::channel::<()>();
        let log: PathBuf = log.to_owned();
        let work = move || {
            while is_over.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // On a full disk, parts stay as they are.
                let _ = compress_full(&log);
                if let Some(epochs) = &mut epochs {
                    epochs.pass(&log);
                }
            }
            if let Some(epochs) = &mut epochs {
                let begun = Instant::now();
                while is_written(&log) && begun.elapsed() < PATIENCE {
                    thread::sleep(PERIOD / 10);
                }
                epochs.drop_old(&log);
            }
            let _ = compress_full(&log);
        };
        Ok(Self { over: Some(over), thread: thread::Builder::new().spawn(work).ok() })
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
