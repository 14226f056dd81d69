//! Hand-made logs and replay processes for this crate's tests.

use crate::log::{IntervalId, Log, ThreadId};
use crate::tools::{Tool, Tools};
use bugnet_format::code::{encode_header, encode_page};
use bugnet_format::folder::{
    CODE_FILE, ELF_FOLDER, Ending, MODULES_FILE, Machine, Meta, Module, interval_file, process_folder, thread_folder,
};
use bugnet_format::frame::{IntervalHeader, encode_frame};
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::record::Record;
use bugnet_format::regs::RegisterFile;
use bugnet_format::types::{Addr, CodeSeq, Epoch, IntervalNo, Pid, ProcessId, Tid};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub const PID: u32 = 41;
pub const PROCESS: ProcessId = ProcessId { pid: Pid(PID), program: 0 };
/// Its thread.
pub const THREAD: ThreadId = ThreadId { pid: PROCESS, tid: Tid(PID) };

pub fn id(interval: u64) -> IntervalId {
    IntervalId { thread: THREAD, interval: IntervalNo(interval) }
}

/// A log under construction, of one process with one thread.
pub struct LogBuilder {
    pub folder: tempfile::TempDir,
    pub meta: Meta,
    intervals: u64,
}

impl LogBuilder {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join(process_folder(Pid(PID)));
        fs::create_dir_all(process.join(thread_folder(Tid(PID)))).unwrap();
        fs::write(process.join(CODE_FILE), encode_header()).unwrap();
        let info = ProcessInfo {
            parent: 1,
            origin: Origin::Start,
            began: 0,
            program: "/usr/bin/example".into(),
            args: vec!["example".into()],
            unrecorded: None,
        };
        info.write(&process).unwrap();
        fs::create_dir(folder.path().join(ELF_FOLDER)).unwrap();
        let meta = Meta {
            format_version: bugnet_format::FORMAT_VERSION,
            bugnet_version: "0.0.0".into(),
            program: "/usr/bin/example".into(),
            args: vec!["example".into()],
            cwd: "/".into(),
            started: 0,
            machine: Machine::default(),
            interval: 1000,
            keep: 0,
            check_every: 0,
            cpu_level: "x86-64-v3".into(),
            pid: Some(PID),
            ending: Ending::Unknown,
            follow: true,
            chaos: None,
            light: false,
            contents: None,
        };
        Self { folder, meta, intervals: 0 }
    }

    /// Adds an interval that begins with `regs`; `records` follow the checkpoint.
    pub fn interval(mut self, regs: &RegisterFile, records: &[Record<'_>]) -> Self {
        let mut stream = Vec::new();
        Record::Checkpoint { tsc: 1, unix_nanos: 2, regs: Box::new(regs.clone()) }.encode(&mut stream);
        records.iter().for_each(|record| record.encode(&mut stream));
        let header = IntervalHeader {
            pid: Pid(PID),
            tid: Tid(PID),
            interval: IntervalNo(self.intervals),
            sequence: self.intervals,
            code_seq: CodeSeq(1),
            instructions_before: 1000 * self.intervals,
            epoch: Epoch(self.intervals),
            epoch_before: Epoch(self.intervals.saturating_sub(1)),
        };
        let mut file = header.encode().to_vec();
        encode_frame(0, &stream, 1, &mut file).unwrap();
        let thread = self.folder.path().join(process_folder(Pid(PID))).join(thread_folder(Tid(PID)));
        fs::write(thread.join(interval_file(header.interval)), file).unwrap();
        self.intervals += 1;
        self
    }

    /// Sets the code store: one page that begins with `code`.
    pub fn code(self, page: Addr, code: &[u8]) -> Self {
        let mut bytes = [0; Addr::PAGE as usize];
        bytes[..code.len()].copy_from_slice(code);
        let (mut pages, mut file) = (Vec::new(), encode_header().to_vec());
        encode_page(CodeSeq(1), page, &bytes, &mut pages);
        encode_frame(0, &pages, 1, &mut file).unwrap();
        fs::write(self.folder.path().join(process_folder(Pid(PID))).join(CODE_FILE), file).unwrap();
        self
    }

    /// Sets the list of modules.
    pub fn modules(self, modules: &[Module]) -> Self {
        let lines: String = modules.iter().map(|m| serde_json::to_string(m).unwrap() + "\n").collect();
        fs::write(self.folder.path().join(process_folder(Pid(PID))).join(MODULES_FILE), lines).unwrap();
        self
    }

    /// Opens the finished log.
    pub fn open(&self) -> Log {
        self.meta.write(self.folder.path()).unwrap();
        Log::open(self.folder.path()).unwrap()
    }
}

/// A folder of tools in which `replay-host` is this shell script.
pub fn fake_tools(folder: &Path, script: &str) -> Tools {
    for tool in Tool::ALL {
        fs::write(folder.join(tool.file_name()), format!("#!/bin/sh\n{script}\n")).unwrap();
    }
    let host = folder.join(Tool::ReplayHost.file_name());
    fs::set_permissions(host, fs::Permissions::from_mode(0o755)).unwrap();
    Tools::locate_for(Path::new("/bin/sh"), Some(folder.into())).unwrap()
}

/// A shell command by which a fake replay process says `response`.
pub fn say(response: &bugnet_format::control::Response) -> String {
    let mut message = Vec::new();
    bugnet_format::control::send(&mut message, response).unwrap();
    let octal: String = message.iter().map(|b| format!("\\{b:03o}")).collect();
    format!("printf '{octal}' >&4")
}
