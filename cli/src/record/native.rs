//! A program that runs without being recorded, because its surroundings leave no room for the recorder. It runs all the same; a
//! message says so, and the log, where it can be written.

use super::error::RecordError;
use super::inherited::Inherited;
use super::launch::Execution;
use crate::failure::complain;
use bugnet_format::folder::{META_FILE, Meta, process_folder};
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::types::{Pid, ProcessId};
use bugnet_launch::Program;
use std::fs::create_dir;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A program that is not recorded.
pub struct Unrecorded<'a> {
    /// The program.
    pub program: &'a Program,
    /// Why, in a sentence.
    pub why: String,
}

impl Unrecorded<'_> {
    /// Tells the user.
    pub fn announce(&self) {
        complain(&format_args!("{} is not recorded: {}", self.program.file.display(), self.why));
    }

    /// Tells whoever reads the log: the process of `meta` runs the program. Where the log cannot be written, the message has
    /// to do.
    pub fn note(&self, log: &Path, meta: &Meta) {
        let Some(pid) = meta.pid else { return };
        let id = ProcessId { pid: Pid(pid), program: 0 };
        let info = ProcessInfo {
            parent: if pid == std::process::id() { std::os::unix::process::parent_id() } else { std::process::id() },
            origin: Origin::Start,
            began: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
            program: self.program.elf.to_string_lossy().into_owned(),
            args: meta.args.clone(),
            unrecorded: Some(self.why.clone()),
        };
        let folder = log.join(process_folder(id));
        let _ = meta.write(log);
        let _ = create_dir(&folder).map(|()| info.write(&folder));
    }

    /// Executes the program in the place of this process, since there can be no other one.
    pub fn become_it(&self, execution: &Execution, inherited: &Inherited) -> RecordError {
        let Err(source) = execution.execute(inherited);
        RecordError::Launch { path: self.program.file.clone(), source }
    }
}

/// Whether there is a log at all.
pub fn is_log(folder: &Path) -> bool {
    folder.join(META_FILE).exists()
}
