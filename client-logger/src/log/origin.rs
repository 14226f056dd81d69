//! How a process came to be, as far as its log says: its folder and `process.json`, and the variables that it was
//! started with, which programs that it executes get in turn.

use crate::base::descriptors;
use crate::base::light;
use crate::log::files;
use bugnet_format::folder::{CODE_FILE, MODULES_FILE, PROCESS_FILE, process_folder};
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::types::{Pid, ProcessId};
use bugnet_launch::variables;
use std::ffi::{CString, OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The process's, which a forked child has, too.
static BEGINNING: OnceLock<Beginning> = OnceLock::new();

/// What the process was started with.
pub fn beginning() -> &'static Beginning {
    BEGINNING.get_or_init(Beginning::of_this_process)
}

/// What a process was started with.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// Value of the variable with DynamoRIO's options.
    pub options: OsString,
    /// Absolute path of DynamoRIO's library, which is executed in the place of programs.
    pub dynamorio: PathBuf,
    /// How it began.
    pub origin: Origin,
    /// What descriptors refer to standard output and error, as the process before it has written that down.
    pub streams: String,
    /// Its resource limits, likewise.
    pub limits: String,
    program: OsString,
    name: OsString,
    args: Vec<String>,
}

/// The strings in a file below `/proc/self` that end with a zero each.
fn strings(file: &str) -> Vec<Vec<u8>> {
    let bytes = descriptors::read(Path::new("/proc/self").join(file)).unwrap_or_default();
    bytes.split_inclusive(|b| *b == 0).map(|s| s.strip_suffix(&[0]).unwrap_or(s).to_owned()).collect()
}

impl Beginning {
    /// What this process was started with. To be asked before the variables are hidden from the program.
    fn of_this_process() -> Self {
        let environment = strings("environ");
        let value = |name: &str| {
            let value = |v: &Vec<u8>| Some(v.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_owned());
            OsString::from_vec(environment.iter().rev().find_map(value).unwrap_or_default())
        };
        let origin = value(variables::ORIGIN);
        let origin = if origin.is_empty() { None } else { serde_json::from_slice(origin.as_encoded_bytes()).ok() };
        Self {
            options: value(variables::OPTIONS),
            dynamorio: std::fs::read_link("/proc/self/exe").unwrap_or_default(),
            origin: origin.unwrap_or(Origin::Start),
            streams: value(variables::STREAMS).to_string_lossy().into_owned(),
            limits: value(variables::LIMITS).to_string_lossy().into_owned(),
            program: value(variables::PROGRAM),
            name: value(variables::NAME),
            args: strings("cmdline").iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect(),
        }
    }

    /// Gives the process the name that it would have natively, in place of its ELF file's.
    pub fn name_process(&self) {
        if let Ok(name) = CString::new(self.name.as_bytes())
            && !name.is_empty()
        {
            // SAFETY: a string, of which the kernel takes what it has room for.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        }
    }

    /// Absolute path of the ELF file that the process executes.
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// The description of a process that begins now and executes the same program.
    pub fn describe(&self, origin: Origin) -> ProcessInfo {
        if let Some(light) = light::of_process() {
            return ProcessInfo {
                parent: light.header.from.pid.0,
                origin,
                began: light.header.began,
                program: light.program.first().cloned().unwrap_or_default(),
                args: light.program.iter().skip(2).cloned().collect(),
                unrecorded: None,
            };
        }
        ProcessInfo {
            parent: std::os::unix::process::parent_id(),
            origin,
            began: now(),
            program: self.program.to_string_lossy().into_owned(),
            args: self.args.clone(),
            unrecorded: None,
        }
    }
}

/// Nanoseconds since the Unix epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Makes the folder of a process in the log, under the first number that its id has left, with its description.
///
/// # Errors
/// A sentence.
pub fn make_folder(log: &Path, pid: u32, info: &ProcessInfo) -> Result<(ProcessId, PathBuf), String> {
    let expanded = light::of_process().map(|light| light.header.process);
    for program in expanded.map_or(0, |id| id.program).. {
        let id = expanded.unwrap_or(ProcessId { pid: Pid(pid), program });
        let folder = log.join(process_folder(id));
        match files::create_folder(&folder) {
            Ok(()) => {
                let path = folder.join(PROCESS_FILE);
                let written = info.json().map_err(Error::other).and_then(|json| files::replace(&path, &json));
                if let Err(e) = written {
                    files::remove_folder(&folder);
                    return Err(format!("{}: {e}", path.display()));
                }
                return Ok((id, folder));
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists && expanded.is_none() => {}
            Err(e) => return Err(format!("cannot create {}: {e}", folder.display())),
        }
    }
    Err(format!("process id {pid} was used too often"))
}

/// Says in a process's description that nothing of it is recorded, and why. Nothing else stays in its folder.
pub fn mark_unrecorded(folder: &Path, info: &ProcessInfo, why: &str) {
    let info = ProcessInfo { unrecorded: Some(why.to_owned()), ..info.clone() };
    let path = folder.join(PROCESS_FILE);
    for file in [CODE_FILE, MODULES_FILE] {
        let _ = std::fs::remove_file(folder.join(file));
    }
    // On a full disk there is no room for another file, but what the present one has may do. If not, the message has to.
    let Ok(json) = info.json() else { return };
    let _ = files::replace(&path, &json).or_else(|_| files::overwrite(&path, &json));
}
