//! Compresses the frames that recorded threads hand over, while they go on.
//!
//! A thread that does so inside the recorded process would be seen by the program, and this process waits for it anyway.
//! Whatever fails here, the thread does itself, and says so if it fails there, too.

use bugnet_format::folder::{TAIL_FILES, interval_file, process_folder, thread_folder};
use bugnet_format::frame::{LEVEL, MAX_FRAME, Packer, TAIL_HEADER_SIZE, TailHeader};
use bugnet_handover::{FILE, Handover, Taken};
use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

/// Most threads that compress.
const MOST: usize = 4;

/// Threads that compress; when this is dropped, they finish what they have begun.
pub struct Packing(Arc<Workers>);

struct Workers {
    log: PathBuf,
    handover: Handover,
    most: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Packing {
    /// Lets the threads of a program that is yet to be started hand over frames of the log in this folder.
    ///
    /// # Errors
    /// The operating system's.
    pub fn prepare(log: &Path) -> Result<Self> {
        let handover = Handover::create(log)?;
        let most = thread::available_parallelism().map_or(1, |n| n.get().min(MOST));
        Ok(Self(Arc::new(Workers { log: log.to_owned(), handover, most, threads: Mutex::default() })))
    }

    /// Whether the logger has come so far as to ask for this.
    pub fn logger_came(&self) -> bool {
        self.0.handover.was_opened()
    }

    /// Begins. The signals blocked now are blocked in the threads.
    pub fn start(&self) {
        add_worker(&self.0);
    }
}

impl Drop for Packing {
    fn drop(&mut self) {
        self.0.handover.close();
        let threads = std::mem::take(&mut *self.0.threads());
        for thread in threads {
            // What it did not write is in the thread's tail.
            let _ = thread.join();
        }
        // Where it cannot be removed, nobody hands over anything all the same.
        let _ = std::fs::remove_file(self.0.log.join(FILE));
    }
}

impl Workers {
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Adds a thread, unless there are enough.
fn add_worker(workers: &Arc<Workers>) {
    let mut threads = workers.threads();
    if threads.len() < workers.most {
        let own = Arc::clone(workers);
        // Without it, the others do all, or the recorded threads themselves.
        threads.extend(thread::Builder::new().spawn(move || work(&own)).ok());
    }
}

fn work(workers: &Arc<Workers>) {
    let Ok(mut bench) = Bench::new() else { return };
    while let Some(taken) = workers.handover.next() {
        if workers.handover.any_waiting() {
            add_worker(workers);
        }
        // Where this fails, the thread learns that it has to do it itself.
        let _ = bench.make(&workers.log, taken);
    }
}

/// What it takes to make a frame.
struct Bench {
    packer: Packer,
    tail: Vec<u8>,
    frame: Vec<u8>,
}

impl Bench {
    fn new() -> Result<Self> {
        Ok(Self { packer: Packer::new(LEVEL)?, tail: Vec::new(), frame: Vec::new() })
    }

    /// Compresses the records in a thread's tail, and writes their frame to where it was said to belong. Nothing that the
    /// job says is believed: the recorded program may have overwritten it.
    fn make(&mut self, log: &Path, mut taken: Taken) -> Result<()> {
        let job = taken.job;
        let folder = log.join(process_folder(job.process)).join(thread_folder(job.tid));
        let name = TAIL_FILES.get(job.tail as usize).ok_or_else(|| Error::other("there is no such tail"))?;
        if job.bytes as usize > MAX_FRAME {
            return Err(Error::other("a frame is not that large"));
        }
        self.tail.resize(TAIL_HEADER_SIZE + job.bytes as usize, 0);
        File::open(folder.join(name))?.read_exact_at(&mut self.tail, 0)?;
        let (header, records) = self.tail.split_at(TAIL_HEADER_SIZE);
        let expected = TailHeader { interval: job.interval, frame: job.frame };
        if header != expected.encode() {
            return Err(Error::other("the tail is for another frame"));
        }
        self.frame.clear();
        self.packer.frame(job.frame, records, &mut self.frame)?;
        // It may have been deleted, and must not come back.
        let file = OpenOptions::new().write(true).open(folder.join(interval_file(job.interval)))?;
        if !taken.begin_writing() {
            return Ok(());
        }
        if file.metadata()?.len() != job.offset {
            return Err(Error::other("the frame belongs elsewhere"));
        }
        file.write_all_at(&self.frame, job.offset)?;
        taken.written();
        Ok(())
    }
}
